//! Asks shards one by one, each as if it were on a node of its own: it counts, searches by the sums, and shows.

use farol_base::query::{Answer, Hit, Query, Request};
use farol_base::{Languages, PageId};
use farol_index::{ENDLESS, Error, Question, Ranks, SearchRules, Searcher};
use farol_query::parts::{self, Asking, Counts, Figures, Part, Place, Shards, Sizes};
use std::cell::RefCell;

pub struct Scattered<'a> {
    searchers: &'a [Searcher],
    rules: &'a SearchRules,
    ranks: &'a dyn Ranks,
    languages: Languages,
    sizes: Sizes,
    /// Those of the words that were asked last.
    figures: RefCell<Figures>,
}

impl<'a> Scattered<'a> {
    pub fn answer(
        searchers: &'a [Searcher],
        rules: &'a SearchRules,
        ranks: &'a dyn Ranks,
        request: &Request,
        hits_per_host: usize,
    ) -> Result<Answer, Error> {
        let sizes: Vec<Sizes> = searchers.iter().map(Searcher::sizes).collect();
        let (languages, sizes) = (request.languages, Sizes::sum(&sizes));
        let asked = Scattered { searchers, rules, ranks, languages, sizes, figures: RefCell::default() };
        parts::answer(&asked, request, hits_per_host)
    }

    fn question<'q>(&'q self, query: &'q Query) -> Question<'q> {
        Question { query, languages: self.languages, rules: self.rules, patience: &ENDLESS }
    }
}

impl Shards for Scattered<'_> {
    type Error = Error;

    fn search(&self, query: &Query, asking: Asking) -> Result<Vec<Part>, Error> {
        let question = self.question(query);
        let counts = self.searchers.iter().map(|shard| shard.count(&question, &self.sizes));
        let counts = Counts::sum(counts.collect::<Result<Vec<Counts>, Error>>()?);
        let figures = Figures { sizes: self.sizes.clone(), counts, shards: self.searchers.len() };
        let parts =
            self.searchers.iter().map(|shard| shard.search_part(&question, &figures, self.ranks, asking));
        let parts = parts.collect();
        *self.figures.borrow_mut() = figures;
        parts
    }

    fn show(&self, query: &Query, places: &[Place]) -> Result<Vec<Option<Hit>>, Error> {
        let mut hits = vec![None; places.len()];
        for (part, shard) in self.searchers.iter().enumerate() {
            let of_shard = || places.iter().enumerate().filter(|(_, place)| place.part == part);
            let pages: Vec<PageId> = of_shard().map(|(_, place)| place.page).collect();
            if !pages.is_empty() {
                let shown = shard.show(&self.question(query), &self.figures.borrow(), &pages)?;
                of_shard().zip(shown).for_each(|((at, _), hit)| hits[at] = hit);
            }
        }
        Ok(hits)
    }
}
