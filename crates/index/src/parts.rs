//! The part that a shard has in an answer: it counts, searches with the figures of all shards, and shows.
//!
//! What is put together from the parts is [`farol_query::parts`]' business. A shard that is the whole index goes the
//! same way with its own figures ([`OneShard`]); [`ShardedSearch`] asks several in this process.
//!
//! INVARIANT: the part of a shard depends on the shard's pages and on the figures alone, not on other shards.

use crate::error::Error;
use crate::matching;
use crate::plan::Plan;
use crate::rank::{self, Ranks};
use crate::schema::short_content;
use crate::searcher::{SearchRules, Searcher, Shared, View, decode, not_a_page};
use crate::snippet::Highlighter;
use crate::spell;
use crate::statistics::{Counting, Statistics, Told};
use farol_base::query::{Answer, Hit, Query, Request};
use farol_base::{Languages, PageId};
use farol_query::parts::{self, Asking, Counts, Figures, Part, PartSpelling, Place, Respelt, Shards, Sizes};
use farol_query::spell::Spellings;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;
use tantivy::DocAddress;

/// A question as a shard is asked it.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What is asked.
    pub query: &'a Query,
    /// The asker's languages.
    pub languages: Languages,
    /// What the operator decides about answers.
    pub rules: &'a SearchRules,
}

impl Question<'_> {
    fn plan(&self, view: &View, statistics: &dyn Statistics) -> Result<Plan, Error> {
        Plan::new(statistics, view.fields, self.query, self.languages, &self.rules.synonyms)
    }
}

impl Searcher {
    /// How large the shard is.
    pub fn sizes(&self) -> Sizes {
        self.shared.view().sizes.clone()
    }

    /// How many pages of this shard have each word that the question may look up; `sizes` are those of all shards.
    pub fn count(&self, question: &Question<'_>, sizes: &Sizes) -> Result<Counts, Error> {
        let view = self.shared.view();
        let counting = Counting::new(&view, sizes);
        question.plan(&view, &counting)?;
        Ok(counting.counts())
    }

    /// What this shard has for a question, by the figures of all shards.
    pub fn search_part(
        &self,
        question: &Question<'_>,
        figures: &Figures,
        ranks: &dyn Ranks,
        asking: Asking,
    ) -> Result<Part, Error> {
        let view = self.shared.view();
        let plan = question.plan(&view, &Told(figures))?;
        let mut found = find(&view, &plan, question, ranks, figures.shards)?;
        let documents = figures.sizes.documents;
        if asking != Asking::Corrected && plan.may_be_misspelt(documents) {
            let vocabulary = self.shared.vocabulary(&view);
            found.part.spelling =
                PartSpelling::Near(Spellings::gather(&plan.typed, &*vocabulary, documents, figures.shards));
        }
        found.part.typed = plan.typed;
        Ok(found.part)
    }

    /// Titles and snippets of pages of this shard, in their order; none for one that is gone.
    pub fn show(
        &self,
        question: &Question<'_>,
        figures: &Figures,
        pages: &[PageId],
    ) -> Result<Vec<Option<Hit>>, Error> {
        let view = self.shared.view();
        let plan = question.plan(&view, &Told(figures))?;
        let highlighter = Highlighter::new(&plan);
        let at = pages.iter().map(|page| view.locate(*page));
        at.map(|at| at?.map(|at| hit(&view, &highlighter, at)).transpose()).collect()
    }
}

/// A part with the places of its pages in the index.
struct LocatedPart {
    part: Part,
    /// Of each of [`Part::cands`].
    at: Vec<DocAddress>,
}

fn find(
    view: &View,
    plan: &Plan,
    question: &Question<'_>,
    ranks: &dyn Ranks,
    shards: usize,
) -> Result<LocatedPart, Error> {
    let words = plan.clauses.iter().filter(|clause| clause.required && !clause.must).count();
    let mut part = Part {
        generation: view.generation,
        searched: true,
        listing: plan.clauses.is_empty(),
        by_name: plan.clauses.iter().all(|clause| !clause.must),
        words: u32::try_from(words).unwrap_or(u32::MAX),
        ..Part::default()
    };
    let mut known: Vec<PageId> = Vec::new();
    for (place, page) in (0..).zip(question.rules.pins.of(question.query)) {
        if !known.contains(page) && view.locate(*page)?.is_some() {
            known.push(*page);
            part.pinned.push((place, *page));
        }
    }
    let mut at = Vec::new();
    if !plan.is_empty() {
        let found = matching::find(view, plan, ranks, shards)?;
        part.strict = found.strict;
        (part.cands, at) = rank::score(view, plan, found.candidates, ranks, shards)?;
    }
    Ok(LocatedPart { part, at })
}

fn hit(view: &View, highlighter: &Highlighter, at: DocAddress) -> Result<Hit, Error> {
    let bytes = view.stored(at)?;
    let stored = decode(&bytes)?;
    let shown = highlighter.highlight(&stored);
    Ok(Hit {
        url: stored.canonical_url().ok_or_else(not_a_page)?,
        title: shown.title,
        snippet: shown.snippet,
        language: stored.language,
        dated: stored.dated,
        fetched: stored.fetched,
        score: 0.0,
        duplicates: 0,
        more_from_host: false,
        pinned: false,
        position: stored.position,
        strict: false,
        content: short_content(stored.content_hash),
        simhash: stored.simhash,
        source: stored.source,
    })
}

/// A shard that is the whole index. One question sees one commit from beginning to end.
pub(crate) struct OneShard<'a> {
    shared: &'a Shared,
    view: &'a Arc<View>,
    languages: Languages,
    rules: &'a SearchRules,
    ranks: &'a dyn Ranks,
    /// How the pages of the last part are planned and where they stand.
    last: RefCell<Option<(Plan, Vec<DocAddress>)>>,
}

impl<'a> OneShard<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        view: &'a Arc<View>,
        languages: Languages,
        rules: &'a SearchRules,
        ranks: &'a dyn Ranks,
    ) -> OneShard<'a> {
        OneShard { shared, view, languages, rules, ranks, last: RefCell::new(None) }
    }
}

impl Shards for OneShard<'_> {
    type Error = Error;

    fn search(&self, query: &Query, asking: Asking) -> Result<Vec<Part>, Error> {
        let question = Question { query, languages: self.languages, rules: self.rules };
        let plan = question.plan(self.view, &**self.view)?;
        let mut respelt = Respelt::default();
        if asking == Asking::Typed && plan.has_unknown() && !query.as_written {
            respelt.corrected = spell::correct(&plan, &self.shared.vocabulary(self.view));
            if respelt.corrected.is_some() {
                let spelling = PartSpelling::Decided(respelt);
                return Ok(vec![Part { typed: plan.typed, spelling, ..Part::default() }]);
            }
        }
        let mut found = find(self.view, &plan, &question, self.ranks, 1)?;
        if asking != Asking::Corrected && plan.may_be_misspelt(self.view.documents) {
            respelt.suggested = spell::suggest(&plan, &self.shared.vocabulary(self.view));
        }
        found.part.spelling = PartSpelling::Decided(respelt);
        *self.last.borrow_mut() = Some((plan, found.at));
        Ok(vec![found.part])
    }

    fn show(&self, _: &Query, places: &[Place]) -> Result<Vec<Option<Hit>>, Error> {
        let last = self.last.borrow();
        let Some((plan, at)) = &*last else { return Ok(vec![None; places.len()]) };
        let highlighter = Highlighter::new(plan);
        let show = |place: &Place| {
            let at = match place.cand {
                Some(number) => at.get(number).copied(),
                None => self.view.locate(place.page)?,
            };
            at.map(|at| hit(self.view, &highlighter, at)).transpose()
        };
        places.iter().map(show).collect()
    }
}

/// Several shards of this process, asked as those of many machines are.
pub struct ShardedSearch<'a> {
    searchers: &'a [Searcher],
    rules: &'a SearchRules,
    ranks: &'a dyn Ranks,
    hits_per_host: usize,
}

impl<'a> ShardedSearch<'a> {
    /// Asks these shards, each of which has other pages; pages of one host share places as [`Searcher`] says.
    pub fn new(
        searchers: &'a [Searcher],
        rules: &'a SearchRules,
        ranks: &'a dyn Ranks,
        hits_per_host: usize,
    ) -> ShardedSearch<'a> {
        ShardedSearch { searchers, rules, ranks, hits_per_host }
    }

    /// Answers a question as [`Searcher::search_by`] would, were all pages in one shard.
    pub fn search(&self, request: &Request) -> Result<Answer, Error> {
        let started = Instant::now();
        let sizes: Vec<Sizes> = self.searchers.iter().map(Searcher::sizes).collect();
        let asked = AskedShards {
            search: self,
            languages: request.languages,
            sizes: Sizes::sum(&sizes),
            figures: RefCell::new(Figures::default()),
        };
        let answer = parts::answer(&asked, request, self.hits_per_host)?;
        Ok(Answer { took: started.elapsed(), ..answer })
    }
}

/// One question to several shards.
struct AskedShards<'a> {
    search: &'a ShardedSearch<'a>,
    languages: Languages,
    sizes: Sizes,
    /// Those of the words that were asked last.
    figures: RefCell<Figures>,
}

impl AskedShards<'_> {
    fn question<'q>(&'q self, query: &'q Query) -> Question<'q> {
        Question { query, languages: self.languages, rules: self.search.rules }
    }
}

impl Shards for AskedShards<'_> {
    type Error = Error;

    fn search(&self, query: &Query, asking: Asking) -> Result<Vec<Part>, Error> {
        let question = self.question(query);
        let searchers = self.search.searchers;
        let counts = searchers.iter().map(|shard| shard.count(&question, &self.sizes));
        let counts = Counts::sum(counts.collect::<Result<Vec<Counts>, Error>>()?);
        let figures = Figures { sizes: self.sizes.clone(), counts, shards: searchers.len() };
        let parts =
            searchers.iter().map(|shard| shard.search_part(&question, &figures, self.search.ranks, asking));
        let parts = parts.collect();
        *self.figures.borrow_mut() = figures;
        parts
    }

    fn show(&self, query: &Query, places: &[Place]) -> Result<Vec<Option<Hit>>, Error> {
        let mut hits = vec![None; places.len()];
        for (part, shard) in self.search.searchers.iter().enumerate() {
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
