//! Answers the calls of other nodes: questions to the replicas that are here ([`index`]), pages of the archive, logs to be
//! sent again, and how the node is.
//!
//! A node begins to answer before it knows what it will do: a verb for which nothing is there yet is refused with a
//! sentence, and the caller asks another.

mod backup;
mod cache;
mod index;
#[cfg(test)]
mod tests;

pub use backup::{BackupDesk, TOLD};
pub use index::IndexDesk;

use crate::archive::page_orders::OrderReply;
use crate::exchange::ExchangeDesk;
use crate::handles::cache_node::CacheShelf;
use crate::handles::cluster::{ClusterHandle, ReportBoard};
use crate::handles::sender::SendProgress;
use crate::handles::tables_copy;
use crate::page_set::PageSet;
use crate::wire::v1::backup::{ToldEntries, ToldRequest};
use crate::wire::v1::node::{CopyRequest, Health, Resend, WireCopy};
use crate::wire::v1::page::{ExplainRequest, RefetchRequest, WirePage};
use crate::wire::v1::verb;
use crate::wire::values::{read_position, read_url};
use bytes::Bytes;
use farol_base::CanonicalUrl;
use farol_base::trace::Trace;
use farol_cluster::{NodeNo, Phase};
use farol_fabric::Topic;
use farol_rpc::{BoxFuture, CallContext, Handler, RpcError, decode, encode};
use farol_store::pages::{ArchiveReader, Archived};
use std::sync::{Arc, OnceLock};

/// Bytes of one answer with tables.
const TABLES_BYTES_MAX: usize = 1 << 20;

/// What a node answers.
pub struct Desk {
    cluster: Arc<ClusterHandle>,
    board: Arc<ReportBoard>,
    index: IndexDesk,
    archive: OnceLock<ArchiveReader>,
    sender: OnceLock<Arc<SendProgress>>,
    exchange: OnceLock<Arc<ExchangeDesk>>,
    backup: OnceLock<Arc<BackupDesk>>,
    pages: OnceLock<Arc<PageDesk>>,
    cache: OnceLock<Arc<CacheShelf>>,
}

/// What an agent answers about its own pages.
pub struct PageDesk {
    pub explain: Explain,
    /// Has pages fetched again; `None` where their host is not known here.
    pub refetch: Refetch,
}

type Explain = Box<dyn Fn(&CanonicalUrl) -> Result<WirePage, String> + Send + Sync>;
type Refetch = Box<dyn Fn(&PageSet, bool) -> Option<OrderReply> + Send + Sync>;

impl Desk {
    pub fn new(cluster: Arc<ClusterHandle>, board: Arc<ReportBoard>, index: IndexDesk) -> Desk {
        Desk {
            cluster,
            board,
            index,
            archive: OnceLock::new(),
            sender: OnceLock::new(),
            exchange: OnceLock::new(),
            backup: OnceLock::new(),
            pages: OnceLock::new(),
            cache: OnceLock::new(),
        }
    }

    /// From now on pages of this archive are given out.
    pub fn open_archive(&self, archive: ArchiveReader) {
        let _ = self.archive.set(archive);
    }

    /// From now on this sender is asked to send again.
    pub fn open_sender(&self, sender: Arc<SendProgress>) {
        let _ = self.sender.set(sender);
    }

    /// From now on URLs for other agents are sent again where they ask for it.
    pub fn open_exchange(&self, exchange: Arc<ExchangeDesk>) {
        let _ = self.exchange.set(exchange);
    }

    /// From now on questions about pages are answered.
    pub fn open_pages(&self, pages: PageDesk) {
        let _ = self.pages.set(Arc::new(pages));
    }

    /// From now on this cache node answers.
    pub fn open_cache(&self, shelf: Arc<CacheShelf>) {
        let _ = self.cache.set(shelf);
    }

    /// From now on this folder can be backed up.
    pub fn open_backup(&self, backup: BackupDesk) {
        let _ = self.backup.set(Arc::new(backup));
    }

    /// Searches that were given up in the middle, and the pages that those had looked at.
    pub fn given_up(&self) -> (u64, u64) {
        self.index.given_up()
    }

    /// Counters of the index, in Prometheus' text format.
    pub fn metrics_text(&self) -> String {
        let (searches, pages) = self.given_up();
        let counter = |name: &str, help: &str, value: u64| {
            format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n")
        };
        let help = "Searches that ended early, because another replica was faster or their time was over.";
        let given_up = counter("farol_index_given_up_total", help, searches);
        given_up + &counter("farol_index_given_up_pages_total", "Pages that those had looked at.", pages)
    }

    fn health(&self) -> Health {
        let view = self.cluster.view();
        let report = self.board.report();
        Health {
            program: env!("CARGO_PKG_VERSION").to_string(),
            number: view.no.map(|no| no.0),
            draining: self.cluster.is_to_drain() || matches!(view.phase, Phase::Draining | Phase::Left),
            map: view.shards.as_ref().map_or(0, |map| map.version),
            shards: self.index.shards(),
            trouble: report.trouble.into_iter().chain(view.trouble.clone()).collect(),
        }
    }

    fn resend(&self, request: &Resend) -> Result<(), RpcError> {
        let topic = Topic::parse(&request.topic).map_err(|error| RpcError::Refused(error.to_string()))?;
        if let (Topic::Urls(to), Some(exchange)) = (topic, self.exchange.get()) {
            // Of these a number says from where on.
            exchange.outboxes.lock().rewind(NodeNo(to), request.from.1);
            return Ok(());
        }
        let sender = self.sender.get();
        let sender = sender
            .ok_or_else(|| RpcError::Refused("this node sends nothing: it does not crawl".to_string()))?;
        sender.ask_again(topic, read_position(request.from));
        Ok(())
    }

    /// A page of the copy of the tables, where that is asked for. A node that is no member yet has it, too.
    fn tables(&self, body: &[u8]) -> Option<Result<Bytes, RpcError>> {
        let request: ToldRequest = decode(body).ok()?;
        (request.table == tables_copy::TABLE).then(|| {
            let entries = self.cluster.copy.page(&request.after, TABLES_BYTES_MAX);
            Ok(encode(&ToldEntries { entries })?)
        })
    }

    async fn copy(&self, body: &[u8], context: CallContext) -> Result<Bytes, RpcError> {
        let request: CopyRequest = decode(body)?;
        let Some(archive) = self.archive.get().cloned() else { return Ok(encode(&None::<WireCopy>)?) };
        context.blocking(move |_| Ok(encode(&copy(&archive, &request)?)?)).await
    }
}

/// What this agent knows of a page, or has done with pages.
fn page(pages: Option<&PageDesk>, verb: &str, body: &[u8]) -> Result<Bytes, RpcError> {
    let pages = pages.ok_or_else(|| RpcError::Refused("this node does not crawl".to_string()))?;
    let refused = |error: &dyn std::fmt::Display| RpcError::Refused(error.to_string());
    if verb == verb::EXPLAIN {
        let request: ExplainRequest = decode(body)?;
        let url = read_url(&request.url).map_err(|error| refused(&error))?;
        return Ok(encode(&(pages.explain)(&url).map_err(RpcError::Failed)?)?);
    }
    let request: RefetchRequest = decode(body)?;
    let set = PageSet::read(&request.pages).map_err(|error| refused(&error))?;
    Ok(encode(&(pages.refetch)(&set, request.anyhow))?)
}

/// The page, where this archive has it at that position.
fn copy(archive: &ArchiveReader, request: &CopyRequest) -> Result<Option<WireCopy>, RpcError> {
    use farol_store::Error;
    let url = read_url(&request.url).map_err(|error| RpcError::Refused(error.to_string()))?;
    match archive.read(read_position(request.position)) {
        Ok(Archived::Exchange(exchange)) => Ok((exchange.url == url).then(|| WireCopy::from(&exchange))),
        // Who fetched it has the copy.
        Ok(Archived::Conversion(_)) => Ok(None),
        // Another agent's position, mostly.
        Err(Error::NoPage { .. }) => Ok(None),
        Err(error) => Err(RpcError::Failed(error.to_string())),
    }
}

impl Handler for Desk {
    fn call<'a>(
        &'a self,
        verb: &'a str,
        body: Bytes,
        context: CallContext,
    ) -> BoxFuture<'a, Result<Bytes, RpcError>> {
        let trace = context.trace.as_deref().and_then(Trace::parse);
        tracing::debug!(trace = trace.map(Trace::id), verb, caller = context.peer.node, "a call");
        match trace.map(Trace::child) {
            None => self.answer(verb, body, context),
            Some(step) => {
                // Ended with the answer, or where nobody waits for it any more.
                let span = tracing::info_span!(
                    target: "farol::span", "answer", kind = "server",
                    trace = step.id(), step = step.step(), parent = step.parent(),
                    verb, caller = context.peer.node, error = tracing::field::Empty
                );
                let answer = self.answer(verb, body, context);
                Box::pin(async move {
                    answer.await.inspect_err(|error| {
                        span.record("error", tracing::field::display(error));
                    })
                })
            }
        }
    }
}

impl Desk {
    /// Answers by the verb.
    fn answer<'a>(
        &'a self,
        verb: &'a str,
        body: Bytes,
        context: CallContext,
    ) -> BoxFuture<'a, Result<Bytes, RpcError>> {
        if cache::VERBS.contains(&verb) {
            let shelf = self.cache.get().map(Arc::as_ref);
            return Box::pin(std::future::ready(cache::answer(shelf, verb, &body)));
        }
        if index::VERBS.contains(&verb) {
            return self.index.call(verb, body, context);
        }
        if verb == verb::TOLD
            && let Some(answer) = self.tables(&body)
        {
            return Box::pin(std::future::ready(answer));
        }
        if backup::VERBS.contains(&verb) {
            let (verb, desk) = (verb.to_string(), self.backup.get().cloned());
            return Box::pin(context.blocking(move |_| backup::answer(desk.as_deref(), &verb, &body)));
        }
        if verb == verb::EXPLAIN || verb == verb::REFETCH {
            let (verb, desk) = (verb.to_string(), self.pages.get().cloned());
            return Box::pin(context.blocking(move |_| page(desk.as_deref(), &verb, &body)));
        }
        Box::pin(async move {
            match verb {
                verb::HEALTH => {
                    decode::<()>(&body)?;
                    Ok(encode(&self.health())?)
                }
                verb::DRAIN => {
                    decode::<()>(&body)?;
                    self.cluster.drain();
                    Ok(encode(&())?)
                }
                verb::RESEND => Ok(encode(&self.resend(&decode(&body)?)?)?),
                verb::COPY => self.copy(&body, context).await,
                _ => Err(RpcError::UnknownVerb(verb.to_string())),
            }
        })
    }
}
