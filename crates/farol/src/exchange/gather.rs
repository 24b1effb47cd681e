//! Gathers URLs for other agents into batches, and drops what they were sent lately.
//!
//! Pure. A batch is cut at 1,000 URLs or 256 KiB of text; whoever gathers cuts the rest every two seconds. What was sent
//! lately is remembered by fingerprints of 64 bits in 64 MiB: some 7 million URLs. A false hit, one in 2 × 10¹⁸, would
//! lose a link that another page may bring as well; a miss costs a URL that its owner knows already.

use crate::wire::urls::{URLS_MAX, UrlBody, WireFound, WireHost};
use farol_cluster::NodeNo;
use farol_store::urls::{Found, SeenCache};
use std::collections::{BTreeMap, HashMap};

/// Bytes of text of one batch; packed they are a third of it.
const BYTES_MAX: usize = 256 << 10;
/// Memory of what was sent lately.
pub const LATELY_BYTES: u64 = 64 << 20;

/// Batches that are being filled.
pub struct Gatherer {
    lately: SeenCache,
    pending: BTreeMap<NodeNo, Pending>,
}

#[derive(Default)]
struct Pending {
    body: UrlBody,
    /// Where each host stands in the body.
    hosts: HashMap<(String, u8), usize>,
    urls: usize,
    bytes: usize,
}

impl Pending {
    fn host(&mut self, host: &str, hops: u8) -> &mut WireHost {
        let body = &mut self.body.hosts;
        let at = *self.hosts.entry((host.to_string(), hops)).or_insert_with(|| {
            self.bytes += host.len() + 8;
            body.push(WireHost { host: host.to_string(), hops, urls: Vec::new() });
            body.len() - 1
        });
        &mut body[at]
    }
}

impl Gatherer {
    pub fn new(lately_bytes: u64) -> Gatherer {
        Gatherer { lately: SeenCache::new(lately_bytes), pending: BTreeMap::new() }
    }

    /// Takes a URL for another agent. `hops` is how many agents will have passed it on. Answers whether it is sent, and
    /// a batch where that makes one.
    pub fn push(&mut self, to: NodeNo, found: &Found, hops: u8) -> (bool, Option<UrlBody>) {
        let fingerprint = self.lately.fingerprint(found.url.as_str());
        // A sitemap's date is news of a page that is known.
        if found.hint.is_none() && self.lately.contains_at(fingerprint, found.depth) {
            return (false, None);
        }
        self.lately.insert(fingerprint, found.depth);
        let path = found.url.path_and_query().to_string();
        let pending = self.pending.entry(to).or_default();
        pending.bytes += path.len() + 8;
        pending.urls += 1;
        let hint = found.hint.map(|hint| hint.as_millis());
        let wire = pending.host(found.url.host_str(), hops);
        wire.urls.push(WireFound { path, depth: found.depth, hint });
        (true, self.cut_if_full(to))
    }

    fn cut_if_full(&mut self, to: NodeNo) -> Option<UrlBody> {
        let is_full = |pending: &Pending| pending.urls >= URLS_MAX || pending.bytes >= BYTES_MAX;
        let full = self.pending.get(&to).is_some_and(is_full);
        full.then(|| self.pending.remove(&to).unwrap_or_default().body)
    }

    /// Tells another agent whose a host is that it sends URLs of.
    pub fn teach(&mut self, whom: NodeNo, host: u64, owner: NodeNo) {
        let learned = &mut self.pending.entry(whom).or_default().body.learned;
        // What does not fit is taught another time.
        if learned.len() < URLS_MAX && !learned.contains(&(host, owner.0)) {
            learned.push((host, owner.0));
        }
    }

    /// Everything that waits.
    pub fn cut(&mut self) -> Vec<(NodeNo, UrlBody)> {
        std::mem::take(&mut self.pending).into_iter().map(|(to, pending)| (to, pending.body)).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Forgets what was sent: owners have changed.
    pub fn forget(&mut self) {
        self.lately.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{CanonicalUrl, Timestamp};

    fn found(text: &str, depth: u16) -> Found {
        Found { url: CanonicalUrl::parse(text).unwrap(), depth, hint: None }
    }

    fn urls(body: &UrlBody) -> usize {
        body.hosts.iter().map(|host| host.urls.len()).sum()
    }

    #[test]
    fn what_was_sent_lately_is_sent_again_only_for_news() {
        let mut gatherer = Gatherer::new(0);
        let (a, b) = (NodeNo(1), NodeNo(2));
        assert_eq!(gatherer.push(a, &found("http://h/x", 3), 0), (true, None));
        assert_eq!(gatherer.push(a, &found("http://h/x", 3), 0), (false, None));
        // Nearer to a seed, or with a date.
        assert!(gatherer.push(a, &found("http://h/x", 2), 0).0);
        let dated = Found { hint: Some(Timestamp::from_secs(5)), ..found("http://h/x", 9) };
        assert!(gatherer.push(a, &dated, 0).0);
        gatherer.teach(b, 7, a);
        gatherer.teach(b, 7, a);
        let cut = gatherer.cut();
        assert_eq!(cut.len(), 2);
        assert_eq!((cut[0].0, cut[0].1.hosts.len(), urls(&cut[0].1)), (a, 1, 3));
        assert_eq!(cut[1].1.learned, [(7, 1)]);
        assert_eq!(gatherer.cut(), []);
        gatherer.forget();
        assert!(gatherer.push(a, &found("http://h/x", 3), 0).0);
    }

    #[test]
    fn a_batch_is_cut_by_number_and_by_bytes() {
        let mut gatherer = Gatherer::new(0);
        let full = (0..URLS_MAX)
            .filter_map(|n| gatherer.push(NodeNo(1), &found(&format!("http://h{}/{n}", n % 7), 0), 0).1);
        let full: Vec<UrlBody> = full.collect();
        assert_eq!((full.len(), urls(&full[0]), full[0].hosts.len()), (1, URLS_MAX, 7));
        let long = "x".repeat(1500);
        let cut = (0..URLS_MAX)
            .find_map(|n| gatherer.push(NodeNo(1), &found(&format!("http://h/{n}/{long}"), 0), 0).1);
        assert!(cut.is_some_and(|body| urls(&body) < 200));
    }
}
