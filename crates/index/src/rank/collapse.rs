//! Collapses what a reader has seen already: duplicates of a page, and the third page of a host (host collapsing).
//!
//! INVARIANT: the list for a question is the same whichever part of it is asked for.

use super::{Ranked, ScoredCandidate};
use farol_base::HostHash;
use std::collections::HashMap;

/// Texts whose similarity fingerprints differ in at most this many bits of 64 are near duplicates.
const NEAR_BITS: u32 = 3;

/// Hits of one host in an answer; the others are collapsed into them.
const HITS_PER_HOST: u32 = 2;

/// Fingerprints that differ in at most three bits agree in at least one of four blocks of this many bits (Manku, Jain,
/// Das Sarma 2007).
const BLOCK_BITS: u32 = 64 / (NEAR_BITS + 1);

/// Fingerprints in one block that a page is compared with; only pages made to collide have more.
const COMPARED_MAX: usize = 64;

/// Collapses a list; by host only where `by_host` says so and more than one host answers.
pub(crate) fn collapse(scored: Vec<ScoredCandidate>, by_host: bool) -> Vec<Ranked> {
    let several_hosts = scored.windows(2).any(|pair| pair[0].host != pair[1].host);
    let hits_per_host = if by_host && several_hosts { HITS_PER_HOST } else { u32::MAX };
    let mut list: Vec<Ranked> = Vec::new();
    let mut simhashes = SimhashIndex::default();
    let mut contents: HashMap<u64, usize> = HashMap::new();
    let mut hosts: HashMap<HostHash, Vec<usize>> = HashMap::new();
    for page in scored {
        let twin = contents.get(&page.content).copied().or_else(|| simhashes.find(page.simhash));
        if let Some(at) = twin {
            list[at].duplicates += 1;
            continue;
        }
        let of_host = hosts.entry(page.host).or_default();
        if of_host.len() as u32 >= hits_per_host {
            of_host.iter().for_each(|at| list[*at].more_from_host = true);
            continue;
        }
        let at = list.len();
        of_host.push(at);
        // Pages without text have no fingerprint, and are no copies of each other.
        if page.content != 0 {
            contents.insert(page.content, at);
        }
        if page.simhash != 0 {
            simhashes.add(page.simhash, at);
        }
        let score = page.score;
        list.push(Ranked { at: page.candidate.at, score, duplicates: 0, more_from_host: false });
    }
    list
}

/// Near-duplicate index: finds simhashes by any block of bits that they share.
#[derive(Default)]
struct SimhashIndex {
    blocks: HashMap<(u32, u64), Vec<(u64, usize)>>,
}

impl SimhashIndex {
    fn add(&mut self, simhash: u64, at: usize) {
        for block in blocks(simhash) {
            self.blocks.entry(block).or_default().push((simhash, at));
        }
    }

    fn find(&self, simhash: u64) -> Option<usize> {
        let sharing = blocks(simhash).filter_map(|block| self.blocks.get(&block));
        sharing
            .flat_map(|list| list.iter().take(COMPARED_MAX))
            .find(|(known, _)| is_near(*known, simhash))
            .map(|(_, at)| *at)
    }
}

/// Whether texts with these fingerprints are near duplicates; a page without text has none.
pub(crate) fn is_near(a: u64, b: u64) -> bool {
    a != 0 && b != 0 && (a ^ b).count_ones() <= NEAR_BITS
}

fn blocks(simhash: u64) -> impl Iterator<Item = (u32, u64)> {
    (0..64 / BLOCK_BITS).map(move |block| (block, simhash >> (block * BLOCK_BITS) & ((1 << BLOCK_BITS) - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, paths, query};
    use crate::{NoRanks, Searcher};
    use farol_base::Document;
    use farol_base::query::{Filters, Request};
    use proptest::prelude::*;

    fn lighthouse(host: &str, path: usize) -> Document {
        page(&format!("http://{host}/{path}"), &format!("Lighthouse {path}"), &format!("the light {path}"))
    }

    #[test]
    fn copies_are_counted_and_left_out() {
        let first = lighthouse("a", 1);
        let exact = Document { content_hash: first.content_hash, ..lighthouse("b", 2) };
        let near = Document { simhash: first.simhash ^ 0b1011, ..lighthouse("c", 3) };
        let other = Document { simhash: first.simhash ^ 0b1111, ..lighthouse("d", 4) };
        let shard = TestShard::new(&[first, exact, near, other]);
        let answer = shard.ask("lighthouse");
        assert_eq!((answer.total, answer.hits.len()), (4, 2));
        assert_eq!(answer.hits.iter().map(|hit| hit.duplicates).sum::<u32>(), 2);
    }

    proptest! {
        #[test]
        fn near_fingerprints_are_found(simhash in 1u64.., flips in prop::collection::btree_set(0u32..64, 0..6)) {
            let mut simhashes = SimhashIndex::default();
            simhashes.add(simhash, 7);
            let other = flips.iter().fold(simhash, |hash, bit| hash ^ 1 << bit);
            prop_assert_eq!(simhashes.find(other), (flips.len() <= 3).then_some(7));
        }
    }

    #[test]
    fn pages_without_text_are_no_copies() {
        let empty = |path| Document { simhash: 0, content_hash: Default::default(), ..lighthouse("a", path) };
        let shard = TestShard::new(&[empty(1), empty(2)]);
        assert_eq!(shard.ask("lighthouse").hits.len(), 2);
    }

    #[test]
    fn a_host_has_two_hits_unless_asked_for() {
        let mut pages: Vec<Document> = (0..5).map(|path| lighthouse("a", path)).collect();
        let alone = TestShard::new(&pages);
        assert_eq!(alone.ask("lighthouse").hits.len(), 5); // The only host of an index is not collapsed.
        pages.push(lighthouse("b", 9));
        let shard = TestShard::new(&pages);
        let answer = shard.ask("lighthouse");
        assert_eq!((answer.total, answer.hits.len()), (6, 3));
        assert!(answer.hits.iter().all(|hit| hit.more_from_host == (hit.url.host_str() == "http://a")));
        let filters = Filters { sites: vec!["a".into()], ..Filters::default() };
        assert_eq!(shard.ask_filtered("lighthouse", filters).hits.len(), 5);
    }

    #[test]
    fn pages_of_an_answer_join_without_a_seam() {
        let pages: Vec<Document> = (0..60).map(|path| lighthouse(&format!("h{}", path % 25), path)).collect();
        let shard = TestShard::new(&pages);
        let part = |searcher: &Searcher, first, count| {
            let request =
                Request { query: query("lighthouse", Filters::default()), first, count, language: None };
            searcher.search(&request, &NoRanks).unwrap()
        };
        let searcher = shard.searcher();
        let whole = part(&searcher, 0, usize::MAX);
        assert_eq!((whole.hits.len(), whole.more), (50, false));
        let mut joined = Vec::new();
        for first in (0..60).step_by(7) {
            let answer = part(&searcher, first, 7);
            assert_eq!(answer.more, first + 7 < 50);
            joined.extend(paths(&answer));
        }
        assert_eq!(joined, paths(&whole));
        assert!(part(&searcher, usize::MAX, usize::MAX).hits.is_empty());
    }
}
