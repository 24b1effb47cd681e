//! The index as others see it: what can be searched, and how far it has come.

use crate::handles::ranks::Ranks;
use farol_base::query::{Answer, Request};
use farol_base::sync::{Mutex, RwLock};
use farol_base::{CanonicalUrl, Document, Host, Language};
use farol_index::{SearchRules, Searcher, Shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The operator's rules for answers, as they are in force.
#[derive(Clone, Default)]
pub struct RulesInForce {
    pub rules: Arc<SearchRules>,
    /// The files themselves, for whoever answers elsewhere: synonyms, pinned results.
    pub texts: Arc<(String, String)>,
    /// Grows when they change.
    pub version: u64,
}

/// How large the index is.
#[derive(Clone, Debug, Default)]
pub struct IndexSummary {
    pub generation: u64,
    pub documents: u64,
    /// Pages taken in since the start.
    pub pages: u64,
    pub languages: Vec<(Language, u64)>,
    pub bytes: u64,
    /// Why indexing waits; empty while all is well.
    pub trouble: String,
}

/// The index as questions are put to it: that of this process, or the shards of a cluster.
///
/// Errors are sentences for people.
pub trait IndexAccess: Send + Sync {
    /// Answers a question; also says which state of the index it is made from, which no answer of another state equals.
    fn search(&self, request: &Request, rules: &RulesInForce) -> Result<(Answer, u64), String>;

    /// The state that an answer would be made from now.
    fn state(&self) -> u64;

    /// Completes what somebody is typing.
    fn suggest(&self, prefix: &str, count: usize) -> Vec<String>;

    /// A page as it is indexed.
    fn document(&self, url: &CanonicalUrl) -> Result<Option<Document>, String>;

    /// Other pages with the text of this one, or nearly.
    fn twins(&self, page: &Document, limit: usize) -> Result<Vec<CanonicalUrl>, String>;

    /// Pages of a host.
    fn pages_of_host(&self, host: &Host) -> u64;

    fn summary(&self) -> IndexSummary;
}

/// The index of this process.
pub struct LocalIndex {
    pub progress: Arc<IndexProgress>,
    pub ranks: Arc<Ranks>,
    pub hits_per_host: usize,
}

impl IndexAccess for LocalIndex {
    fn search(&self, request: &Request, rules: &RulesInForce) -> Result<(Answer, u64), String> {
        let searcher = self.progress.searcher().with_hits_per_host(self.hits_per_host);
        // Read before the ranks themselves: an answer is then never taken for newer than it is.
        let ranks = self.ranks.version();
        let answer = searcher.search_by(request, &rules.rules, &self.ranks.now());
        let answer = answer.map_err(|error| error.to_string())?;
        let made_from = state_of(answer.generation, ranks);
        Ok((answer, made_from))
    }

    fn state(&self) -> u64 {
        state_of(self.progress.searcher().generation(), self.ranks.version())
    }

    fn suggest(&self, prefix: &str, count: usize) -> Vec<String> {
        self.progress.searcher().suggest(prefix, count)
    }

    fn document(&self, url: &CanonicalUrl) -> Result<Option<Document>, String> {
        self.progress.searcher().document(url).map_err(|error| error.to_string())
    }

    fn twins(&self, page: &Document, limit: usize) -> Result<Vec<CanonicalUrl>, String> {
        self.progress.searcher().twins(page, limit).map_err(|error| error.to_string())
    }

    fn pages_of_host(&self, host: &Host) -> u64 {
        self.progress.searcher().pages_of_host(host).unwrap_or(0) as u64
    }

    fn summary(&self) -> IndexSummary {
        let searcher = self.progress.searcher();
        IndexSummary {
            generation: searcher.generation(),
            documents: searcher.documents(),
            pages: self.progress.pages.load(Ordering::Relaxed),
            languages: searcher.languages(),
            bytes: searcher.bytes_on_disk(),
            trouble: self.progress.trouble.lock().clone(),
        }
    }
}

/// One number for what answers are made from: the index's state and the ranks'.
fn state_of(generation: u64, ranks: u64) -> u64 {
    farol_base::random::mix(farol_base::random::mix(generation) ^ ranks)
}

/// What others may see of an indexer.
pub struct IndexProgress {
    searcher: RwLock<Searcher>,
    pub pages: AtomicU64,
    /// Why indexing waits; empty while all is well.
    pub trouble: Mutex<String>,
    /// Whether everything archived before the start has been taken in.
    pub caught_up: AtomicBool,
}

impl IndexProgress {
    pub fn of(shard: &Shard) -> IndexProgress {
        IndexProgress {
            searcher: RwLock::new(shard.searcher()),
            pages: AtomicU64::new(0),
            trouble: Mutex::new(String::new()),
            caught_up: AtomicBool::new(false),
        }
    }

    /// Searches the shard as it was last committed.
    pub fn searcher(&self) -> Searcher {
        self.searcher.read().clone()
    }

    /// Searches from now on are answered by this.
    pub fn set_searcher(&self, searcher: Searcher) {
        *self.searcher.write() = searcher;
    }
}
