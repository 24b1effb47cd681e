//! The broker: puts questions to the shards of a cluster as if they were one index.
//!
//! The life of a question is told in [`question`]. Which replica of a shard is asked, and when another one is asked
//! besides, is decided by [`farol_query::scatter`]; how parts become an answer by [`farol_query::parts`]. What is here
//! carries both out: calls, budgets of time, and what is worth remembering between questions.
//!
//! INVARIANTS: a question ends by its deadline; it has an answer as long as one shard has; nothing here asks the
//! cluster's tables, so that search goes on without them.

mod agents;
mod budget;
mod completions;
mod known;
mod metrics;
mod question;
pub mod table;

pub use agents::{ask_again, health};

use crate::handles::index::{IndexAccess, IndexSummary, RulesInForce};
use crate::wire::v1::node::{DocumentRequest, HostPagesRequest, ShardHead, TwinsRequest};
use crate::wire::v1::part::WireSizes;
use crate::wire::v1::verb;
use crate::wire::values::{WireDocument, read_url};
use completions::Completions;
use farol_base::query::{Answer, Request};
use farol_base::sync::Mutex;
use farol_base::trace::Trace;
use farol_base::{CanonicalUrl, Document, Host, fingerprint};
use farol_query::parts::Sizes;
use farol_query::scatter::{ReplicaBook, ShardNo, Wanted};
use farol_rpc::{CallError, CallerHandle, Gathered, Here, encode, gather};
use known::{COUNTS_MAX, CountsByShard, KnownSizes, Remembered};
use metrics::BrokerCounters;
use question::Question;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use table::{ServingTable, TableSource};

/// How the broker behaves.
#[derive(Clone, Debug)]
pub struct BrokerSettings {
    /// Time that a question has in all.
    pub deadline: Duration,
    /// Pages of one host that come before those of other hosts; 0 for any number.
    pub hits_per_host: usize,
}

impl Default for BrokerSettings {
    fn default() -> BrokerSettings {
        BrokerSettings { deadline: Duration::from_secs(1), hits_per_host: 2 }
    }
}

/// The index of a cluster.
pub struct RemoteIndex {
    table: TableSource,
    caller: CallerHandle,
    settings: BrokerSettings,
    book: Mutex<ReplicaBook>,
    /// The table that the book was made from.
    installed: Mutex<Option<Arc<ServingTable>>>,
    sizes: KnownSizes,
    counts: Remembered<Vec<u8>, CountsByShard>,
    completions: Completions,
    counters: BrokerCounters,
    /// Shards of this node are asked without a connection.
    own: Option<Here>,
}

impl RemoteIndex {
    pub fn new(table: TableSource, caller: CallerHandle, settings: BrokerSettings) -> RemoteIndex {
        RemoteIndex {
            table,
            caller,
            settings,
            book: Mutex::new(ReplicaBook::new(fingerprint::random_key())),
            installed: Mutex::default(),
            sizes: KnownSizes::default(),
            counts: Remembered::new(COUNTS_MAX),
            completions: Completions::default(),
            counters: BrokerCounters::default(),
            own: None,
        }
    }

    /// Shards of this node are asked in this process.
    pub fn with_own(self, own: Option<Here>) -> RemoteIndex {
        RemoteIndex { own, ..self }
    }

    /// The table as it stands now; replicas are asked by it from now on.
    fn table(&self) -> Arc<ServingTable> {
        let table = (self.table)();
        let mut installed = self.installed.lock();
        if installed.as_ref().is_some_and(|known| Arc::ptr_eq(known, &table)) {
            return table;
        }
        let mut book = self.book.lock();
        let replicas = |known: &ServingTable| -> Vec<_> {
            known
                .shards
                .iter()
                .map(|shard| (shard.id, shard.replicas.iter().map(|(no, _)| *no).collect()))
                .collect()
        };
        let wanted = replicas(&table);
        if installed.as_ref().is_none_or(|known| replicas(known) != wanted) {
            book.install(wanted);
        }
        for shard in &table.shards {
            for (replica, lag) in &shard.replicas {
                book.lags(shard.id, *replica, *lag);
            }
        }
        *installed = Some(table.clone());
        table
    }

    /// Asks shards and waits for their answers until the deadline.
    fn ask<Req: Serialize, Resp: DeserializeOwned>(
        &self,
        table: &ServingTable,
        verb: &'static str,
        wanted: impl IntoIterator<Item = Wanted>,
        deadline: Instant,
        request: impl Fn(ShardNo) -> Req,
    ) -> Gathered<Resp> {
        let client = self.caller.client();
        let trace = Trace::current().unwrap_or_default();
        let gathered = self.caller.block_on(gather(&self.book, wanted, deadline, |ask| {
            let peer = table.peers.get(&ask.replica).cloned();
            let own = self.own.as_ref().filter(|own| peer.as_ref().is_some_and(|peer| own.is(peer)));
            let body = encode(&request(ask.shard));
            async move {
                let refused = |why: String| CallError::Refused(why);
                let peer = peer.ok_or_else(|| refused(format!("node {} has no address", ask.replica.0)))?;
                let body = body.map_err(|error| refused(format!("a question cannot be written: {error}")))?;
                let step = trace.child();
                // A call that is given up drops it, too.
                let span = tracing::info_span!(
                    target: "farol::span", "call", kind = "client",
                    trace = step.id(), step = step.step(), parent = step.parent(),
                    verb, shard = ask.shard.0, node = peer.node.as_str(),
                    error = tracing::field::Empty
                );
                let step = step.to_string();
                let answer = match own {
                    Some(own) => own.call_bytes(verb, body, deadline, Some(&step)).await,
                    None => client.call_bytes(&peer, verb, body, deadline, Some(&step)).await,
                };
                let answer = answer.inspect_err(|error| {
                    span.record("error", tracing::field::display(error));
                    tracing::debug!(trace = trace.id(), verb, shard = ask.shard.0, node = peer.node, %error, "a call failed");
                })?;
                farol_rpc::decode(&answer).map_err(|error| CallError::Damaged {
                    peer: peer.to_string(),
                    verb: verb.to_string(),
                    why: error.to_string(),
                })
            }
        }));
        for missing in &gathered.missing {
            let why = missing.why.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::info!(
                trace = trace.id(),
                verb,
                shard = missing.shard.0,
                error = why,
                "a shard did not answer"
            );
        }
        gathered
    }

    /// How large all shards are together; `None` where none has ever said.
    fn sizes(&self, table: &ServingTable, deadline: Instant) -> Option<Sizes> {
        let due = self.sizes.due(table.shard_numbers(), table.state, Instant::now());
        if !due.is_empty() {
            let wanted = due.into_iter().map(Wanted::from);
            let gathered = self.ask(table, verb::SIZES, wanted, deadline, |shard| ShardHead {
                map: table.map,
                shard: shard.0,
            });
            for answer in gathered.answers {
                let sizes: WireSizes = answer.answer;
                match Sizes::try_from(sizes) {
                    Ok(sizes) => self.sizes.set(answer.shard, sizes),
                    Err(error) => {
                        tracing::warn!(%error, shard = answer.shard.0, "the size of a shard means nothing")
                    }
                }
            }
        }
        self.sizes.sum(table.shard_numbers())
    }

    /// Asks all shards within the whole time; those that do not answer are left out.
    fn ask_all<Req: Serialize, Resp: DeserializeOwned>(
        &self,
        verb: &'static str,
        request: impl Fn(ShardHead) -> Req,
    ) -> Vec<Resp> {
        let table = self.table();
        let (wanted, deadline) =
            (table.shard_numbers().map(Wanted::from), Instant::now() + self.settings.deadline);
        let head = |shard: ShardNo| ShardHead { map: table.map, shard: shard.0 };
        let gathered = self.ask(&table, verb, wanted, deadline, |shard| request(head(shard)));
        gathered.answers.into_iter().map(|answer| answer.answer).collect()
    }
}

impl IndexAccess for RemoteIndex {
    fn search(&self, request: &Request, rules: &RulesInForce) -> Result<(Answer, u64), String> {
        let table = self.table();
        if table.shards.is_empty() {
            return Err(
                "the cluster has no shards yet; `farol cluster status` tells what it waits for".to_string()
            );
        }
        self.counters.questions.fetch_add(1, Ordering::Relaxed);
        let _trace = Trace::current().unwrap_or_default().enter();
        let state = table.state;
        let answer = Question::new(self, table, request, rules).answer();
        let answer = answer.inspect_err(|_| {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        })?;
        Ok((answer, state))
    }

    fn state(&self) -> u64 {
        self.table().state
    }

    fn suggest(&self, prefix: &str, count: usize) -> Vec<String> {
        self.complete(prefix, count)
    }

    fn document(&self, url: &CanonicalUrl) -> Result<Option<Document>, String> {
        let table = self.table();
        let shard = table.shard_of(url.id()).ok_or("the cluster has no shard for this page yet")?;
        let head = ShardHead { map: table.map, shard: shard.0 };
        let deadline = Instant::now() + self.settings.deadline;
        let gathered = self.ask(&table, verb::DOCUMENT, [Wanted::from(shard)], deadline, |_| {
            DocumentRequest { head, url: url.to_string() }
        });
        let Some(answer) = gathered.answers.into_iter().next() else {
            let why = gathered.missing.into_iter().find_map(|missing| missing.why);
            return Err(match why {
                Some(why) => format!("its shard does not answer: {why}"),
                None => "its shard does not answer".to_string(),
            });
        };
        let document: Option<WireDocument> = answer.answer;
        let document = document.map(Document::try_from).transpose().map_err(|error| error.to_string())?;
        Ok(document.filter(|document| document.url == *url))
    }

    fn twins(&self, page: &Document, limit: usize) -> Result<Vec<CanonicalUrl>, String> {
        let (wire, count) = (WireDocument::from(page), u32::try_from(limit).unwrap_or(u32::MAX));
        // Its words decide nothing about who is a twin.
        let wire = WireDocument { body: String::new(), rest: String::new(), anchors: String::new(), ..wire };
        let found: Vec<Vec<String>> =
            self.ask_all(verb::TWINS, |head| TwinsRequest { head, page: wire.clone(), limit: count });
        let urls = found.into_iter().flatten().filter_map(|url| read_url(&url).ok());
        Ok(urls.take(limit).collect())
    }

    fn pages_of_host(&self, host: &Host) -> u64 {
        let host = host.as_str().to_string();
        let pages: Vec<u64> =
            self.ask_all(verb::PAGES_OF_HOST, |head| HostPagesRequest { head, host: host.clone() });
        pages.into_iter().fold(0, u64::saturating_add)
    }

    fn summary(&self) -> IndexSummary {
        let table = self.table();
        // The dashboard asks every two seconds: what nodes tell of themselves is enough, but for languages.
        let deadline = Instant::now() + self.settings.deadline / 5;
        let languages = self.sizes(&table, deadline).map(|sizes| sizes.languages).unwrap_or_default();
        let documents = table.shards.iter().map(|shard| shard.documents).sum();
        let unserved = table.shards.iter().filter(|shard| shard.replicas.is_empty()).count();
        IndexSummary {
            generation: table.state,
            documents,
            pages: documents,
            languages,
            bytes: table.shards.iter().map(|shard| shard.bytes).sum(),
            trouble: match unserved {
                0 => String::new(),
                some => format!(
                    "{some} of {} shards have no replica that answers; `farol cluster status` tells why",
                    table.shards.len()
                ),
            },
        }
    }
}
