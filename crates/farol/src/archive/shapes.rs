//! What the sites of the crawl look like, to tell endless ones.
//!
//! A page is a copy where another page of its host had its text first. Whose text it is is remembered, so that a
//! page is never a copy of itself, however often it is visited; and texts are told apart by host, so that nobody is
//! judged by what others publish: a mirror that is crawled first does not keep its original out. Which copy people
//! see is for the index to say.
//!
//! INVARIANT: a page counts once, with the text it has now. What is lost with the process is read again from the
//! URL store ([`Shapes::recall`]) and comes to the same.

use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, ContentHash, Host, PageId};
use farol_frontier::trap::{HostShape, NamedBy};
use std::collections::HashMap;
use std::hash::Hash;

/// Hosts whose shape is remembered at once: 20,000 × at most 5 KiB = 100 MB at worst.
const SHAPES_MAX: usize = 20_000;
/// Texts remembered at once, in two tables of 2^20 slots of 17 bytes: 36 MB.
const TEXTS_MAX: usize = 1_000_000;
/// Pages that were named from outside their part of a site and are remembered at once: two tables of 2^17 slots of 18
/// bytes, 5 MB.
const NAMED_MAX: usize = 200_000;

/// Shapes of hosts, and whose their texts are.
pub struct Shapes {
    hosts: TwoGenerations<Host, HostShape>,
    /// The page of a host that had a text first, by a fingerprint of both.
    texts: TwoGenerations<u64, PageId>,
    /// Pages that more than their own part of the site has named.
    named: TwoGenerations<PageId, NamedBy>,
}

impl Default for Shapes {
    fn default() -> Shapes {
        Shapes {
            hosts: TwoGenerations::new(SHAPES_MAX),
            texts: TwoGenerations::new(TEXTS_MAX),
            named: TwoGenerations::new(NAMED_MAX),
        }
    }
}

impl Shapes {
    /// Hosts whose shape is remembered.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Texts that are remembered.
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// The shape of a host; of one that is not remembered only the number of pages is known.
    pub fn of(&mut self, host: &Host, pages_known: impl FnOnce() -> u64) -> &mut HostShape {
        self.hosts.get_or_insert_with(host.clone(), || HostShape::new(pages_known()))
    }

    /// Notes what a page says now. `before` is what it said at its last visit; `None` where it was no page then.
    pub fn visited(
        &mut self,
        url: &CanonicalUrl,
        before: Option<ContentHash>,
        now: ContentHash,
        pages_known: impl FnOnce() -> u64,
    ) {
        if before == Some(now) {
            return;
        }
        let was_copy = before.map(|text| self.is_copy(url, text));
        let is_copy = self.is_copy(url, now);
        let shape = self.of(&url.host(), pages_known);
        match was_copy {
            None => shape.fetched(url, is_copy),
            Some(was_copy) => shape.changed(url, was_copy, is_copy),
        }
    }

    /// Notes that a page was named, and says who has named it so far: the one that stands furthest from it.
    pub fn named(&mut self, url: &CanonicalUrl, by: NamedBy) -> NamedBy {
        if by == NamedBy::OwnPart {
            return self.named.get(&url.id()).copied().unwrap_or(by);
        }
        let known = self.named.get_or_insert_with(url.id(), || by);
        *known = by.max(*known);
        *known
    }

    /// Notes what a page says without numbers and names of months and days, where its address speaks of time.
    pub fn day(&mut self, url: &CanonicalUrl, words: u64, pages_known: impl FnOnce() -> u64) {
        let Some(pattern) = HostShape::calendar_of(url) else { return };
        let key = [url.host_hash().0, pattern, words].map(u64::to_le_bytes).concat();
        let page = url.id();
        let is_empty = *self.texts.get_or_insert_with(hash64(&key), || page) != page;
        self.of(&url.host(), pages_known).day(url, is_empty);
    }

    /// Takes in a page that an earlier run has visited, when a crawl begins.
    pub fn recall(&mut self, url: &CanonicalUrl, text: ContentHash) {
        self.of(&url.host(), || 0).recalled(url);
        self.visited(url, None, text, || 0);
    }

    /// Asks anew how many pages each host has.
    pub fn count_pages(&mut self, pages_known: impl Fn(&Host) -> u64) {
        self.hosts.each(|host, shape| shape.pages_known = pages_known(host));
    }

    /// Whether another page of the host had this text first.
    fn is_copy(&mut self, url: &CanonicalUrl, text: ContentHash) -> bool {
        let mut key = [0; 24];
        key[..8].copy_from_slice(&url.host_hash().0.to_le_bytes());
        key[8..].copy_from_slice(&text.0.to_le_bytes());
        let page = url.id();
        *self.texts.get_or_insert_with(hash64(&key), || page) != page
    }
}

/// A bounded map that forgets by halves: entries not used while the younger half filled up are evicted together.
struct TwoGenerations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Hash + Eq, V> TwoGenerations<K, V> {
    /// A map of at most `max` entries.
    fn new(max: usize) -> TwoGenerations<K, V> {
        TwoGenerations { young: HashMap::new(), old: HashMap::new(), half: (max / 2).max(1) }
    }

    fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let is_young = self.young.contains_key(&key);
        let promoted = if is_young { None } else { self.old.remove(&key) };
        if !is_young && self.young.len() >= self.half {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(key).or_insert_with(|| promoted.unwrap_or_else(make))
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    fn each(&mut self, mut change: impl FnMut(&K, &mut V)) {
        self.young.iter_mut().chain(&mut self.old).for_each(|(key, value)| change(key, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::Timestamp;
    use farol_frontier::trap::{Trap, TrapRules, TrapVerdict};

    fn page(host: &str, number: usize) -> CanonicalUrl {
        CanonicalUrl::parse(&format!("http://{host}/article/{number}")).unwrap()
    }

    fn text(of: usize) -> ContentHash {
        ContentHash::of(&of.to_le_bytes())
    }

    /// Whether one more page of the host would be let in.
    #[track_caller]
    fn check(shapes: &mut Shapes, host: &str, want: TrapVerdict) {
        let url = page(host, 1_000_000);
        let shape = shapes.of(&url.host(), || 0);
        assert_eq!(
            TrapRules::default().verdict(Timestamp::from_secs(1), &url, NamedBy::OwnPart, shape),
            want,
            "{host}"
        );
    }

    const TRAPPED: TrapVerdict = TrapVerdict::Refused(Trap::Duplicates);

    #[test]
    fn a_page_is_no_copy_of_itself_whatever_it_says() {
        let mut shapes = Shapes::default();
        // What a page says at each visit: the same again, something new, and what it said before.
        let said = [None, Some(0), Some(0), Some(1), Some(1), Some(0), Some(2), Some(1)];
        for visit in said.windows(2) {
            for number in 0..100 {
                let says = |nth: usize| text(number + nth * 100);
                let [before, Some(now)] = visit else { unreachable!("each visit finds a text") };
                shapes.visited(&page("a.org", number), before.map(says), says(*now), || 0);
            }
        }
        check(&mut shapes, "a.org", TrapVerdict::Fine);
    }

    #[test]
    fn the_same_page_again_under_other_numbers_is_a_trap_until_each_says_something_else() {
        let mut shapes = Shapes::default();
        (0..100).for_each(|number| shapes.visited(&page("a.org", number), None, text(0), || 0));
        check(&mut shapes, "a.org", TRAPPED);
        assert_eq!((shapes.hosts(), shapes.texts()), (1, 1));
        for number in 0..60 {
            shapes.visited(&page("a.org", number), Some(text(0)), text(number + 1), || 0);
        }
        check(&mut shapes, "a.org", TrapVerdict::Fine);
    }

    #[test]
    fn a_host_is_not_judged_by_what_others_say() {
        let mut shapes = Shapes::default();
        for host in ["mirror.org", "original.org", "www.original.org"] {
            (0..500).for_each(|number| shapes.visited(&page(host, number), None, text(number), || 0));
            check(&mut shapes, host, TrapVerdict::Fine);
        }
    }

    #[test]
    fn what_is_recalled_is_what_was_known() {
        let (mut live, mut again) = (Shapes::default(), Shapes::default());
        for number in 0..100 {
            for (host, said) in [("maze.org", number % 3), ("paper.org", number)] {
                live.visited(&page(host, number), None, text(said), || 0);
                live.visited(&page(host, number), Some(text(said)), text(said), || 0);
                again.recall(&page(host, number), text(said));
            }
        }
        again.count_pages(|_| 7);
        assert_eq!(again.of(&page("maze.org", 0).host(), || 0).pages_known, 7);
        for shapes in [&mut live, &mut again] {
            check(shapes, "maze.org", TRAPPED);
            check(shapes, "paper.org", TrapVerdict::Fine);
        }
    }

    #[test]
    fn days_without_anything_are_a_trap_and_others_are_none() {
        let day = |number: usize| CanonicalUrl::parse(&format!("http://a.org/events?week={number}")).unwrap();
        for (distinct, want) in [(1, TrapVerdict::Refused(Trap::Calendar)), (40, TrapVerdict::Fine)] {
            let mut shapes = Shapes::default();
            (0..40).for_each(|number| shapes.day(&day(number), (number % distinct) as u64, || 0));
            // What is no calendar is not looked at.
            (0..40).for_each(|number| shapes.day(&page("a.org", number), 7, || 0));
            let next = day(40);
            let shape = shapes.of(&next.host(), || 0);
            let verdict =
                |url| TrapRules::default().verdict(Timestamp::from_secs(1), url, NamedBy::Outside, shape);
            assert_eq!((verdict(&next), verdict(&page("a.org", 41))), (want, TrapVerdict::Fine));
        }
    }

    #[test]
    fn whoever_is_furthest_from_a_page_has_named_it() {
        let mut shapes = Shapes::default();
        let page = page("a.org", 1);
        use NamedBy::*;
        for (by, want) in [
            (OwnPart, OwnPart),
            (OtherPart, OtherPart),
            (OwnPart, OtherPart),
            (Outside, Outside),
            (OtherPart, Outside),
        ] {
            assert_eq!(shapes.named(&page, by), want);
        }
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_evicted_by_halves() {
        let mut map = TwoGenerations::new(8);
        for key in 0..100 {
            map.get_or_insert_with(key, || key);
            // Asked for all the time, so it is there all the time.
            assert_eq!(*map.get_or_insert_with(0, || 77), 0);
            assert!(map.len() <= 8);
        }
        let mut again = Vec::new();
        for key in [99, 98, 1, 2] {
            map.get_or_insert_with(key, || {
                again.push(key);
                key
            });
        }
        assert_eq!(again, [1, 2]);
    }
}
