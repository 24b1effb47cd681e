//! Answers questions to the replicas of this node.
//!
//! INVARIANT: a replica answers only for a shard that the caller's map and its own give the same pages: every shard has
//! one id for ever, and its halves after a split have their own, so that the id is enough.

use crate::handles::cluster::ClusterHandle;
use crate::handles::ranks::Ranks;
use crate::handles::replicas::Replicas;
use crate::wire::WireError;
use crate::wire::v1::node::{
    DocumentRequest, HostPagesRequest, ShardHead, SuggestRequest, TwinsRequest, WireCompletion,
};
use crate::wire::v1::part::{CountRequest, SearchRequest, ShowRequest, WireCounts, WirePart, WireSizes};
use crate::wire::v1::question::{WireHit, WireQuery};
use crate::wire::v1::verb;
use crate::wire::values::{WireDocument, read_language, read_url};
use bytes::Bytes;
use farol_base::query::Query;
use farol_base::sync::Mutex;
use farol_base::{Document, Host, Languages, PageId};
use farol_cluster::{ShardId, ShardMap};
use farol_index::{Patience, Pins, Question, SearchRules, Searcher, Synonyms};
use farol_query::parts::{Figures, Sizes};
use farol_rpc::{BoxFuture, CallContext, Handler, RpcError, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The verbs that are answered here.
pub const VERBS: [&str; 8] = [
    verb::SIZES,
    verb::COUNT,
    verb::SEARCH,
    verb::SHOW,
    verb::SUGGEST,
    verb::DOCUMENT,
    verb::TWINS,
    verb::PAGES_OF_HOST,
];

/// Pages shown by one call, completions and twins given by one.
const PAGES_MAX: usize = 1_000;

/// The desk of the replicas of a node.
pub struct IndexDesk(Arc<Replies>);

struct Replies {
    replicas: Arc<Replicas>,
    cluster: Arc<ClusterHandle>,
    ranks: Arc<Ranks>,
    /// The synonyms that came last, read: they are the same for days.
    synonyms: Mutex<(String, Synonyms)>,
    given_up: GivenUp,
}

/// Searches that were given up in the middle.
#[derive(Default)]
struct GivenUp {
    searches: AtomicU64,
    /// Looked at until then.
    pages: AtomicU64,
}

impl IndexDesk {
    pub fn new(replicas: Arc<Replicas>, cluster: Arc<ClusterHandle>, ranks: Arc<Ranks>) -> IndexDesk {
        IndexDesk(Arc::new(Replies {
            replicas,
            cluster,
            ranks,
            synonyms: Mutex::default(),
            given_up: GivenUp::default(),
        }))
    }

    /// How many searches were given up because nobody waited for them any more, and the pages that those had looked at.
    pub fn given_up(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.0.given_up.searches), count(&self.0.given_up.pages))
    }

    /// Shards that can be searched here.
    pub fn shards(&self) -> Vec<u32> {
        self.0.replicas.shards().into_iter().map(|shard| shard.0).collect()
    }
}

impl Handler for IndexDesk {
    fn call<'a>(
        &'a self,
        verb: &'a str,
        body: Bytes,
        context: CallContext,
    ) -> BoxFuture<'a, Result<Bytes, RpcError>> {
        let (replies, verb) = (self.0.clone(), verb.to_string());
        Box::pin(context.blocking(move |context| {
            // Another replica was faster, or the question's time is over: the search ends where it is.
            let patience = Patience::new(context.stop.flag(), context.deadline);
            replies.reply(&verb, &body, &patience)
        }))
    }
}

/// Reads a request, has it answered, writes the answer.
fn reply<Req: DeserializeOwned, Resp: Serialize>(
    body: &[u8],
    answer: impl FnOnce(Req) -> Result<Resp, RpcError>,
) -> Result<Bytes, RpcError> {
    let answer = answer(decode(body)?)?;
    encode(&answer).map_err(|error| RpcError::Failed(format!("the answer cannot be written: {error}")))
}

fn refused(error: WireError) -> RpcError {
    RpcError::Refused(error.to_string())
}

fn failed(error: farol_index::Error) -> RpcError {
    RpcError::Failed(error.to_string())
}

impl Replies {
    fn reply(&self, verb: &str, body: &[u8], patience: &Patience) -> Result<Bytes, RpcError> {
        match verb {
            verb::SIZES => reply(body, |head: ShardHead| Ok(WireSizes::from(&self.searcher(head)?.sizes()))),
            verb::COUNT => reply(body, |request| self.count(request, patience)),
            verb::SEARCH => reply(body, |request| self.search(request, patience)),
            verb::SHOW => reply(body, |request| self.show(request, patience)),
            verb::SUGGEST => reply(body, |request| self.suggest(&request)),
            verb::DOCUMENT => reply(body, |request| self.document(&request)),
            verb::TWINS => reply(body, |request| self.twins(request)),
            verb::PAGES_OF_HOST => reply(body, |request: HostPagesRequest| {
                let host = Host::parse(&request.host);
                let host = host.map_err(|error| RpcError::Refused(error.to_string()))?;
                Ok(self.searcher(request.head)?.pages_of_host(&host).map_err(failed)? as u64)
            }),
            _ => Err(RpcError::UnknownVerb(verb.to_string())),
        }
    }

    fn searcher(&self, head: ShardHead) -> Result<Searcher, RpcError> {
        self.replicas.searcher(ShardId(head.shard)).ok_or_else(|| {
            let view = self.cluster.view();
            let map = view.shards.as_ref().map_or(0, |map| map.version);
            // A node that was started again listens before its replicas are open: it is passed over for a moment, where a
            // refusal would have it asked again and again.
            let is_opening = |map: &ShardMap| map.replicas_of(view.me).any(|entry| entry.id.0 == head.shard);
            if view.shards.as_deref().is_none_or(is_opening) {
                return RpcError::Busy(format!("shard {} is being opened here: ask another", head.shard));
            }
            RpcError::Refused(format!(
                "shard {} is not here: this node knows version {map} of the shard map, the caller {}",
                head.shard, head.map
            ))
        })
    }

    /// The operator's rules as they came with a question.
    fn rules(&self, synonyms: &str, query: &Query, pins: &[u64]) -> Result<SearchRules, RpcError> {
        let mut known = self.synonyms.lock();
        if known.0 != synonyms {
            let read = Synonyms::parse(synonyms);
            let read = read.map_err(|error| RpcError::Refused(format!("in the synonyms: {error}")))?;
            *known = (synonyms.to_string(), read);
        }
        let pins = Pins::of_question(query, pins.iter().copied().map(PageId));
        Ok(SearchRules { synonyms: known.1.clone(), pins })
    }

    /// Why a question has no answer; counts those for which nobody waited any more.
    fn ended(&self, error: farol_index::Error) -> RpcError {
        match error {
            farol_index::Error::GivenUp { pages } => {
                self.given_up.searches.fetch_add(1, Ordering::Relaxed);
                self.given_up.pages.fetch_add(pages, Ordering::Relaxed);
                RpcError::TimedOut
            }
            error => failed(error),
        }
    }

    fn count(&self, wire: CountRequest, patience: &Patience) -> Result<WireCounts, RpcError> {
        let searcher = self.searcher(wire.head)?;
        let (query, languages) = read_question(wire.query, &wire.languages)?;
        let rules = self.rules(&wire.synonyms, &query, &[])?;
        let question = Question { query: &query, languages, rules: &rules, patience };
        let sizes = Sizes::try_from(wire.sizes).map_err(refused)?;
        let counts = searcher.count(&question, &sizes).map_err(|error| self.ended(error))?;
        Ok(WireCounts::from(&counts))
    }

    fn search(&self, wire: SearchRequest, patience: &Patience) -> Result<WirePart, RpcError> {
        let searcher = self.searcher(wire.head)?;
        let (query, languages) = read_question(wire.query, &wire.languages)?;
        let rules = self.rules(&wire.synonyms, &query, &wire.pins)?;
        let question = Question { query: &query, languages, rules: &rules, patience };
        let figures = Figures::try_from(wire.figures).map_err(refused)?;
        let part = searcher.search_part(&question, &figures, &self.ranks.now(), wire.asking.into());
        Ok(WirePart::from(&part.map_err(|error| self.ended(error))?))
    }

    fn show(&self, wire: ShowRequest, patience: &Patience) -> Result<Vec<Option<WireHit>>, RpcError> {
        let searcher = self.searcher(wire.head)?;
        let (query, languages) = read_question(wire.query, &wire.languages)?;
        let rules = self.rules(&wire.synonyms, &query, &[])?;
        let question = Question { query: &query, languages, rules: &rules, patience };
        let figures = Figures::try_from(wire.figures).map_err(refused)?;
        let pages: Vec<PageId> = wire.pages.iter().take(PAGES_MAX).copied().map(PageId).collect();
        let hits = searcher.show(&question, &figures, &pages).map_err(|error| self.ended(error))?;
        Ok(hits.iter().map(|hit| hit.as_ref().map(WireHit::from)).collect())
    }

    fn suggest(&self, wire: &SuggestRequest) -> Result<Vec<WireCompletion>, RpcError> {
        let completions = self.searcher(wire.head)?.completions(&wire.prefix, wire.count as usize);
        let completion = |completed: farol_index::Completed| WireCompletion {
            text: completed.text,
            tail: completed.tail,
            weight: completed.weight,
        };
        Ok(completions.into_iter().map(completion).collect())
    }

    fn document(&self, wire: &DocumentRequest) -> Result<Option<WireDocument>, RpcError> {
        let url = read_url(&wire.url).map_err(refused)?;
        let document = self.searcher(wire.head)?.document(&url).map_err(failed)?;
        Ok(document.as_ref().map(WireDocument::from))
    }

    fn twins(&self, wire: TwinsRequest) -> Result<Vec<String>, RpcError> {
        let searcher = self.searcher(wire.head)?;
        let page = Document::try_from(wire.page).map_err(refused)?;
        let limit = (wire.limit as usize).min(PAGES_MAX);
        let twins = searcher.twins(&page, limit).map_err(failed)?;
        Ok(twins.iter().map(ToString::to_string).collect())
    }
}

fn read_question(query: WireQuery, languages: &[String]) -> Result<(Query, Languages), RpcError> {
    let languages: Result<Languages, WireError> = languages.iter().map(|code| read_language(code)).collect();
    Ok((Query::try_from(query).map_err(refused)?, languages.map_err(refused)?))
}
