//! How long somebody waits for an answer. A search that nobody waits for any more is given up between two pages.

use crate::error::Error;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// So many pages are looked at between two looks at the clock: some 50 µs.
const PAGES_BETWEEN: u64 = 1_024;

/// Somebody waits for ever.
pub static ENDLESS: Patience = Patience { stop: None, until: None };

/// How long somebody waits for an answer.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    stop: Option<Arc<AtomicBool>>,
    until: Option<Instant>,
}

impl Patience {
    /// Somebody waits until `stop` is set, and not beyond `until`.
    pub fn new(stop: Arc<AtomicBool>, until: Instant) -> Patience {
        Patience { stop: Some(stop), until: Some(until) }
    }

    fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
            || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// What a search has done so far, and for whom.
pub(crate) struct Effort<'a> {
    patience: &'a Patience,
    pages: Cell<u64>,
}

impl<'a> Effort<'a> {
    pub(crate) fn new(patience: &'a Patience) -> Effort<'a> {
        Effort { patience, pages: Cell::new(0) }
    }

    /// One more page was looked at.
    #[inline]
    pub(crate) fn page(&self) -> Result<(), Error> {
        let pages = self.pages.get() + 1;
        self.pages.set(pages);
        if pages.is_multiple_of(PAGES_BETWEEN) { self.check() } else { Ok(()) }
    }

    /// Gives up where nobody waits any more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.patience.is_over() {
            true => Err(Error::GivenUp { pages: self.pages.get() }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Question;
    use crate::rank::Ranks;
    use crate::testing::{TestShard, page, query};
    use crate::{NoRanks, SearchRules};
    use farol_base::query::Filters;
    use farol_base::{Document, Language, Languages, PageId};
    use farol_query::parts::{Asking, Figures, Part};
    use std::time::Duration;

    const PAGES: u64 = 6_000;

    fn shard() -> TestShard {
        let text = |number: u64| format!("lighthouse keeper lamp and number {number}");
        let pages: Vec<Document> =
            (0..PAGES).map(|number| page(&format!("http://h/{number}"), "Lamp", &text(number))).collect();
        TestShard::new(&pages)
    }

    fn search(shard: &TestShard, words: &str, patience: &Patience, ranks: &dyn Ranks) -> Result<Part, Error> {
        let filters = Filters { languages: vec![Language::ENGLISH], ..Filters::default() };
        let (query, rules) = (query(words, filters), SearchRules::default());
        let question = Question { query: &query, languages: Languages::default(), rules: &rules, patience };
        let searcher = shard.searcher();
        let sizes = searcher.sizes();
        let counts = searcher.count(&Question { patience: &ENDLESS, ..question }, &sizes).unwrap();
        searcher.search_part(&question, &Figures { sizes, counts, shards: 1 }, ranks, Asking::Typed)
    }

    fn looked_at(answer: Result<Part, Error>) -> Option<u64> {
        match answer {
            Ok(_) => None,
            Err(Error::GivenUp { pages }) => Some(pages),
            Err(other) => panic!("{other}"),
        }
    }

    /// Sets the flag when so many pages have been asked for.
    struct Leaves(Arc<AtomicBool>, std::sync::atomic::AtomicU64);

    impl Ranks for Leaves {
        fn page(&self, _: PageId) -> f32 {
            if self.1.fetch_add(1, Ordering::Relaxed) == 1_500 {
                self.0.store(true, Ordering::Relaxed);
            }
            0.5
        }

        fn host(&self, _: &str) -> f32 {
            0.5
        }
    }

    #[test]
    fn a_search_for_which_nobody_waits_ends_early() {
        let shard = shard();
        let stopped = Arc::new(AtomicBool::new(true));
        let later = Instant::now() + Duration::from_secs(3_600);
        // Every word of a question; most of them; filters alone.
        for words in ["lighthouse lamp", "lighthouse keeper tower 17", ""] {
            assert_eq!(looked_at(search(&shard, words, &ENDLESS, &NoRanks)), None, "{words}");
            for patience in
                [Patience::new(stopped.clone(), later), Patience::new(Arc::default(), Instant::now())]
            {
                let pages = looked_at(search(&shard, words, &patience, &NoRanks)).expect(words);
                assert!(pages <= PAGES_BETWEEN, "{words}: {pages} of {PAGES}");
            }
            assert_eq!(
                looked_at(search(&shard, words, &Patience::new(Arc::default(), later), &NoRanks)),
                None
            );
        }
    }

    #[test]
    fn a_search_ends_where_it_is_when_somebody_leaves() {
        let (shard, stop) = (shard(), Arc::new(AtomicBool::new(false)));
        let patience = Patience::new(stop.clone(), Instant::now() + Duration::from_secs(3_600));
        let pages = looked_at(search(&shard, "", &patience, &Leaves(stop, 0.into())));
        assert_eq!(pages, Some(2 * PAGES_BETWEEN), "it was at page 1,500 of {PAGES}");
    }
}
