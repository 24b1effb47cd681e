//! Taking in what travelled through a log: pages that come late or twice, anchors that come by themselves, and the
//! ranges of pages that go when a shard is divided.
//!
//! INVARIANT: of one page the newest visit stays, in whatever order its visits arrive; what replicas of a shard were
//! told in the same order, they hold alike ([`crate::Searcher::digest`]).

use super::Shard;
use crate::error::Error;
use crate::searcher::Searcher;
use farol_base::fingerprint::hash64;
use farol_base::{Document, HostHash, PageId, Timestamp};
use std::collections::HashMap;
use std::ops::{Bound, RangeInclusive};
use tantivy::Term;
use tantivy::query::RangeQuery;

/// What became of pages since the last commit, which searchers do not see yet: some 100 bytes and the anchors for each
/// page that was put.
#[derive(Default)]
pub(super) struct Uncommitted {
    pages: HashMap<PageId, Option<FreshPage>>,
    hosts: Vec<HostHash>,
    ranges: Vec<RangeInclusive<u64>>,
}

struct FreshPage {
    host: HostHash,
    fetched: Timestamp,
    anchors: Box<str>,
}

/// What is known of a page that is held.
struct Held {
    fetched: Timestamp,
    anchors: String,
}

impl Uncommitted {
    pub(super) fn put(&mut self, document: &Document) {
        let host = HostHash::of(document.url.host().as_str());
        let fresh = FreshPage { host, fetched: document.fetched, anchors: document.anchors.as_str().into() };
        self.pages.insert(document.url.id(), Some(fresh));
    }

    pub(super) fn delete(&mut self, page: PageId) {
        self.pages.insert(page, None);
    }

    pub(super) fn delete_host(&mut self, host: HostHash) {
        self.pages.retain(|_, fresh| fresh.as_ref().is_none_or(|fresh| fresh.host != host));
        self.hosts.push(host);
    }

    fn delete_range(&mut self, pages: RangeInclusive<u64>) {
        self.pages.retain(|page, _| !pages.contains(&page.0));
        self.ranges.push(pages);
    }

    /// Whether a page that searchers see has gone.
    fn has_gone(&self, page: PageId, host: HostHash) -> bool {
        self.hosts.contains(&host) || self.ranges.iter().any(|range| range.contains(&page.0))
    }
}

impl Shard {
    /// Takes a page in, unless a later visit of it is held already; whether it was taken in. Where it comes without
    /// anchors, those of the page that it replaces stay.
    pub fn put_newer(&mut self, mut document: Document) -> Result<bool, Error> {
        self.check()?;
        if let Some(held) = self.held(&document)? {
            if held.fetched > document.fetched {
                return Ok(false);
            }
            if document.anchors.is_empty() {
                document.anchors = held.anchors;
            }
        }
        self.put(&document)?;
        Ok(true)
    }

    /// Says what pages that link to a page call it, most frequent first, a line each; a page that is not held has no
    /// anchors either.
    pub fn set_anchors(&mut self, page: PageId, text: &str) -> Result<(), Error> {
        self.check()?;
        match self.uncommitted.pages.get(&page) {
            Some(None) => return Ok(()),
            Some(Some(fresh)) if *fresh.anchors == *text => return Ok(()),
            // Only what is committed can be read back. The mark stays, so that a crash repeats what follows it.
            Some(Some(_)) => drop(self.commit(&self.mark.clone())?),
            None => {}
        }
        let Some(mut document) = self.shared.view().find(page)? else { return Ok(()) };
        let host = HostHash::of(document.url.host().as_str());
        if document.anchors == text || self.uncommitted.has_gone(page, host) {
            return Ok(());
        }
        document.anchors = text.to_string();
        self.put(&document)
    }

    /// Forgets all pages whose ids lie in a range, from the next commit on.
    pub fn delete_range(&mut self, pages: RangeInclusive<u64>) -> Result<(), Error> {
        self.check()?;
        if pages.is_empty() {
            return Ok(());
        }
        self.changed = true;
        let bound = |id: &u64| Bound::Included(Term::from_field_u64(self.fields.page, *id));
        let range = RangeQuery::new(bound(pages.start()), bound(pages.end()));
        self.uncommitted.delete_range(pages);
        let deleted = self.writer.delete_query(Box::new(range));
        self.guard("forget a range of pages", deleted).map(drop)
    }

    fn held(&self, document: &Document) -> Result<Option<Held>, Error> {
        let page = document.url.id();
        if let Some(fresh) = self.uncommitted.pages.get(&page) {
            let held =
                |fresh: &FreshPage| Held { fetched: fresh.fetched, anchors: fresh.anchors.to_string() };
            return Ok(fresh.as_ref().map(held));
        }
        if self.uncommitted.has_gone(page, HostHash::of(document.url.host().as_str())) {
            return Ok(None);
        }
        let held = self.shared.view().find(page)?;
        Ok(held.map(|held| Held { fetched: held.fetched, anchors: held.anchors }))
    }
}

impl Searcher {
    /// A number for everything that the shard holds, whatever its segments are: equal for replicas that hold the same
    /// pages of the same visits with the same anchors. Reads all of them.
    pub fn digest(&self) -> Result<u64, Error> {
        let mut digest = 0u64;
        for document in self.all_documents() {
            let document = document?;
            let mut bytes = Vec::with_capacity(document.url.as_str().len() + document.anchors.len() + 32);
            bytes.extend(document.content_hash.0.to_le_bytes());
            bytes.extend(document.fetched.as_millis().to_le_bytes());
            bytes.extend((document.url.as_str().len() as u64).to_le_bytes());
            bytes.extend(document.url.as_str().as_bytes());
            bytes.extend(document.anchors.as_bytes());
            // A sum has no order.
            digest = digest.wrapping_add(hash64(&bytes));
        }
        Ok(digest)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestShard, page};
    use farol_base::{Document, PagePosition, Timestamp};

    fn visit(url: &str, second: u64, body: &str) -> Document {
        Document { fetched: Timestamp::from_secs(second), ..page(url, "Light", body) }
    }

    fn commit(test: &mut TestShard) {
        test.shard.commit(PagePosition::default()).unwrap();
    }

    #[test]
    fn a_visit_older_than_what_is_held_is_passed_over_committed_or_not() {
        let mut test = TestShard::new(&[visit("http://a/1", 10, "held")]);
        assert!(!test.shard.put_newer(visit("http://a/1", 9, "older")).unwrap());
        assert!(test.shard.put_newer(visit("http://a/1", 12, "newer")).unwrap());
        assert!(!test.shard.put_newer(visit("http://a/1", 11, "between")).unwrap()); // Not committed yet.
        assert!(test.shard.put_newer(visit("http://a/1", 12, "again")).unwrap());
        assert!(test.shard.put_newer(visit("http://a/2", 1, "unknown")).unwrap());
        commit(&mut test);
        assert_eq!(test.paths("again"), ["/1"]);
        for gone in ["held", "older", "newer", "between"] {
            assert!(test.paths(&format!("\"{gone}\"")).is_empty(), "{gone}");
        }
    }

    #[test]
    fn what_was_deleted_is_not_held() {
        let old = |path: u32| visit(&format!("http://a/{path}"), 5, "old");
        let mut test = TestShard::new(&[visit("http://a/1", 10, "one"), visit("http://a/2", 10, "two")]);
        test.shard.delete(&old(1).url);
        assert!(test.shard.put_newer(old(1)).unwrap());
        test.shard.delete_host(&old(1).url.host());
        assert!(test.shard.put_newer(old(2)).unwrap());
        test.shard.set_anchors(old(1).url.id(), "nobody").unwrap();
        commit(&mut test);
        assert_eq!(test.paths("old"), ["/2"]);
        let id = old(2).url.id().0;
        test.shard.delete_range(id..=id).unwrap();
        assert!(test.shard.put_newer(visit("http://a/2", 1, "oldest")).unwrap());
        commit(&mut test);
        assert_eq!(test.paths("oldest"), ["/2"]);
    }

    #[test]
    fn anchors_stay_when_a_page_comes_without_and_can_be_set_alone() {
        let mut test =
            TestShard::new(&[Document { anchors: "tower".into(), ..visit("http://a/1", 1, "one") }]);
        test.shard.put_newer(visit("http://a/1", 2, "two")).unwrap();
        test.shard.put_newer(visit("http://a/1", 3, "three")).unwrap();
        commit(&mut test);
        assert_eq!(test.paths("tower three"), ["/1"]);
        let id = visit("http://a/1", 1, "").url.id();
        test.shard.put_newer(visit("http://a/1", 4, "four")).unwrap();
        test.shard.set_anchors(id, "beacon").unwrap(); // Of a page that is not committed yet.
        test.shard.set_anchors(page("http://b/", "", "").url.id(), "beacon").unwrap();
        commit(&mut test);
        assert_eq!((test.paths("beacon four"), test.searcher().documents()), (vec!["/1".to_string()], 1));
        assert!(test.paths("\"tower\"").is_empty());
    }

    #[test]
    fn a_range_of_pages_goes_and_the_rest_stays() {
        let pages: Vec<Document> = (0..40).map(|n| visit(&format!("http://h{n}/{n}"), 1, "text")).collect();
        let mut test = TestShard::new(&pages);
        test.shard.put(&visit("http://late/", 1, "text")).unwrap();
        let middle = u64::MAX / 2;
        test.shard.delete_range(0..=middle).unwrap();
        #[allow(clippy::reversed_empty_ranges)]
        test.shard.delete_range(1..=0).unwrap();
        commit(&mut test);
        let mut want: Vec<String> = pages
            .iter()
            .chain([&visit("http://late/", 1, "text")])
            .filter(|page| page.url.id().0 > middle)
            .map(|page| page.url.to_string())
            .collect();
        let mut left: Vec<String> = test.searcher().all_urls().map(|url| url.unwrap().to_string()).collect();
        want.sort();
        left.sort();
        assert_eq!(left, want);
        assert!(want.len() > 5 && want.len() < 36);
    }

    #[test]
    fn a_digest_tells_what_is_held_and_not_how() {
        let pages: Vec<Document> = (0..9).map(|n| visit(&format!("http://h{n}/"), n, "text")).collect();
        let forth = TestShard::new(&pages);
        let mut back = TestShard::new(&pages[5..]);
        for page in pages[..5].iter().rev() {
            back.shard.put(page).unwrap();
            commit(&mut back);
        }
        let digest = |test: &TestShard| test.searcher().digest().unwrap();
        assert_eq!(digest(&forth), digest(&back));
        for other in [
            visit("http://h3/", 30, "text"),
            visit("http://h3/", 3, "another"),
            Document { anchors: "tower".into(), ..pages[3].clone() },
            visit("http://new/", 3, "text"),
        ] {
            let mut changed = TestShard::new(&pages);
            changed.shard.put(&other).unwrap();
            commit(&mut changed);
            assert_ne!(digest(&forth), digest(&changed), "{}", other.url);
        }
    }
}
