//! Near duplicates: of pages with the same or nearly the same text one is shown, and the others are counted.
//!
//! The one that is shown stands where the best of them stood. It is the one in the language that the asker likes
//! best, then the one with the higher link rank, then the one with the shorter address.
//!
//! INVARIANT: the choice does not depend on which part of the answer is asked for.

use super::ScoredCandidate;
use crate::error::Error;
use crate::searcher::View;
use crate::stored::StoredDocument;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Texts whose similarity fingerprints differ in at most this many bits of 64 are near duplicates.
const NEAR_BITS: u32 = 3;

/// Fingerprints that differ in at most three bits agree in at least one of four blocks of this many bits (Manku, Jain,
/// Das Sarma 2007).
const BLOCK_BITS: u32 = 64 / (NEAR_BITS + 1);

/// Fingerprints in one block that a page is compared with; only pages made to collide have more.
const COMPARED_MAX: usize = 64;

/// Addresses that are compared for one answer: each is read from the store, about 20 µs.
const ADDRESSES_MAX: usize = 100;

/// Joins the copies of a list in its order; what is left has no two alike.
pub(crate) fn join(view: &View, scored: Vec<ScoredCandidate>) -> Result<Vec<ScoredCandidate>, Error> {
    let mut list: Vec<ScoredCandidate> = Vec::with_capacity(scored.len());
    let mut simhashes = SimhashIndex::default();
    let mut contents: HashMap<u64, usize> = HashMap::new();
    let mut addresses = Addresses { view, lengths: HashMap::new() };
    for page in scored {
        let twin = contents.get(&page.content).copied().or_else(|| simhashes.find(page.simhash));
        let Some(at) = twin else {
            let at = list.len();
            // Pages without text have no fingerprint, and are no copies of each other.
            if page.content != 0 {
                contents.insert(page.content, at);
            }
            if page.simhash != 0 {
                simhashes.add(page.simhash, at);
            }
            list.push(page);
            continue;
        };
        let shown = &mut list[at];
        shown.duplicates += 1;
        if addresses.is_better(&page, shown)? {
            // It stands where the other one stood.
            let (score, band, strict) = (shown.score, shown.band, shown.candidate.strict);
            let duplicates = shown.duplicates;
            *shown = ScoredCandidate { score, band, duplicates, ..page };
            shown.candidate.strict = strict;
        }
    }
    Ok(list)
}

struct Addresses<'a> {
    view: &'a View,
    lengths: HashMap<u64, usize>,
}

impl Addresses<'_> {
    /// Whether a copy should be shown in another one's stead.
    fn is_better(&mut self, copy: &ScoredCandidate, shown: &ScoredCandidate) -> Result<bool, Error> {
        let known = |rank: f32| if rank.is_nan() { 0.0 } else { rank };
        let order = copy.language.cmp(&shown.language);
        let order = order.then(known(shown.link_rank).total_cmp(&known(copy.link_rank)));
        Ok(match order {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => match (self.length(copy)?, self.length(shown)?) {
                (Some(copy), Some(shown)) => copy < shown,
                _ => false,
            },
        })
    }

    /// Bytes of a page's address; none where enough of them were read.
    fn length(&mut self, page: &ScoredCandidate) -> Result<Option<usize>, Error> {
        if let Some(known) = self.lengths.get(&page.page) {
            return Ok(Some(*known));
        }
        if self.lengths.len() >= ADDRESSES_MAX {
            return Ok(None);
        }
        let bytes = self.view.stored(page.candidate.at)?;
        let length = StoredDocument::decode(&bytes).map(|stored| stored.url.len());
        self.lengths.extend(length.map(|length| (page.page, length)));
        Ok(length)
    }
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
    use crate::testing::{TestShard, page, page_in, paths, query};
    use crate::{NoRanks, Ranks};
    use farol_base::query::{Filters, Request};
    use farol_base::{CanonicalUrl, Document, Language, Languages, PageId};
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
        assert_eq!((answer.total, answer.hits.len()), (2, 2)); // What can be reached is counted.
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

    /// One page has a link rank.
    struct OneRank(PageId);

    impl Ranks for OneRank {
        fn page(&self, page: PageId) -> f32 {
            if page == self.0 { 0.5 } else { 0.0 }
        }

        fn host(&self, _: &str) -> f32 {
            0.0
        }
    }

    #[test]
    fn the_copy_shown_is_in_the_readers_language_then_well_linked_then_short() {
        let copies = [
            page_in("es", "http://a/largo/camino", "Ajuda", "print configuration"),
            page_in("pt", "http://b/caminho/longo", "Ajuda", "print configuration"),
            page_in("pt", "http://c/curto", "Ajuda", "print configuration"),
            page_in("en", "http://d/e", "Ajuda", "print configuration"),
        ];
        let copies = copies.map(|copy| Document { content_hash: Default::default(), simhash: 77, ..copy });
        let shard = TestShard::new(&copies);
        let check = |codes: &[&str], ranks: &dyn Ranks, want: &str| {
            let languages: Languages = codes.iter().filter_map(|code| Language::parse(code)).collect();
            let query = query("configuration", Filters::default());
            let request = Request { query, first: 0, count: 10, languages };
            let answer = shard.searcher().search(&request, ranks).unwrap();
            assert_eq!((paths(&answer), answer.hits[0].duplicates), (vec![want.to_string()], 3), "{codes:?}");
        };
        check(&["es", "en"], &NoRanks, "/largo/camino");
        check(&["gl", "en"], &NoRanks, "/e");
        check(&["pt"], &NoRanks, "/curto");
        check(&[], &NoRanks, "/e");
        let linked = OneRank(CanonicalUrl::parse("http://b/caminho/longo").unwrap().id());
        check(&["pt"], &linked, "/caminho/longo");
        check(&["es"], &linked, "/largo/camino");
    }
}
