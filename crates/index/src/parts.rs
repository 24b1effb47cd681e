//! The part that a shard has in an answer: it counts, searches with the figures of all shards, and shows.
//!
//! What is put together from the parts is [`farol_query::parts`]' business. Shards of one process that are the whole index
//! ([`Whole`]), mostly a single one, go the same way with the figures of all of them: they are planned for once, and look
//! at no more pages than one would.
//!
//! INVARIANT: the part of a shard that is asked by itself depends on its pages and on the figures alone, not on other shards.

use crate::error::Error;
use crate::matching::{self, DocPlace, Found};
use crate::patience::{ENDLESS, Effort, Patience};
use crate::plan::Plan;
use crate::rank::{self, Ranks};
use crate::schema::short_content;
use crate::searcher::{SearchRules, Searcher, Shared, View, decode, not_a_page};
use crate::snippet::Highlighter;
use crate::statistics::{Counting, Statistics, Summed, Told};
use farol_base::query::{Answer, Hit, Query, Request, Term};
use farol_base::{Languages, PageId};
use farol_query::parts::{self, Asking, Counts, Figures, Part, PartSpelling, Place, Respelt, Shards, Sizes};
use farol_query::spell::{self, Spellings, TypedTerm, Vocabulary};
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
    /// How long the asker waits.
    pub patience: &'a Patience,
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
        Effort::new(question.patience).check()?;
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
        let (mut part, _) = find(&[&view], &plan, question, ranks, figures.shards)?;
        let documents = figures.sizes.documents;
        if asking != Asking::Corrected && plan.may_be_misspelt(documents) {
            let vocabulary = self.shared.vocabulary(&view);
            part.spelling =
                PartSpelling::Near(Spellings::gather(&plan.typed, &*vocabulary, documents, figures.shards));
        }
        part.typed = plan.typed;
        Ok(part)
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
        let effort = Effort::new(question.patience);
        let show = |page: &PageId| {
            effort.check()?;
            view.locate(*page)?.map(|at| hit(&view, &highlighter, at)).transpose()
        };
        pages.iter().map(show).collect()
    }
}

/// The part of one of so many shards, or of all of them together; beside it, where each of its pages stands.
fn find(
    views: &[&View],
    plan: &Plan,
    question: &Question<'_>,
    ranks: &dyn Ranks,
    shards: usize,
) -> Result<(Part, Vec<DocPlace>), Error> {
    let effort = Effort::new(question.patience);
    let found = match plan.is_empty() {
        true => Found::default(),
        false => matching::find(views, plan, ranks, shards, &effort)?,
    };
    // Function words count here: who puts a question in a sentence does not mean every word of it.
    let words = plan.clauses.iter().filter(|clause| !clause.must).count();
    let mut pinned = Vec::new();
    let mut known: Vec<PageId> = Vec::new();
    for (place, page) in (0..).zip(question.rules.pins.of(question.query)) {
        if !known.contains(page) && locate(views.iter().copied(), *page)?.is_some() {
            known.push(*page);
            pinned.push((place, *page));
        }
    }
    let (cands, at) = rank::score(views, plan, found.candidates, ranks, shards, &effort)?;
    let part = Part {
        generation: views.iter().map(|view| view.generation).min().unwrap_or(0),
        searched: true,
        listing: plan.clauses.is_empty(),
        by_name: plan.clauses.iter().all(|clause| !clause.must),
        words: u32::try_from(words).unwrap_or(u32::MAX),
        strict: found.strict,
        cands,
        pinned,
        ..Part::default()
    };
    Ok((part, at))
}

/// Which of these has a page, and where it stands there.
fn locate<'v>(
    views: impl Iterator<Item = &'v View>,
    page: PageId,
) -> Result<Option<(&'v View, DocAddress)>, Error> {
    for view in views {
        if let Some(at) = view.locate(page)? {
            return Ok(Some((view, at)));
        }
    }
    Ok(None)
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

/// Shards of this process that are the whole index together. One question sees one commit of each from beginning to end.
pub(crate) struct Whole<'a> {
    shards: Vec<(&'a Shared, Arc<View>)>,
    /// Of all of them.
    sizes: Sizes,
    languages: Languages,
    rules: &'a SearchRules,
    ranks: &'a dyn Ranks,
    patience: &'a Patience,
    /// How the pages of the last part are planned and where they stand.
    last: RefCell<Option<(Plan, Vec<DocPlace>)>>,
}

impl<'a> Whole<'a> {
    pub(crate) fn new(
        searchers: &'a [Searcher],
        languages: Languages,
        rules: &'a SearchRules,
        ranks: &'a dyn Ranks,
        patience: &'a Patience,
    ) -> Whole<'a> {
        let shards: Vec<_> =
            searchers.iter().map(|searcher| (&*searcher.shared, searcher.shared.view())).collect();
        let sizes = match &shards[..] {
            [(_, view)] => view.sizes.clone(),
            many => Sizes::sum(many.iter().map(|(_, view)| &view.sizes)),
        };
        Whole { shards, sizes, languages, rules, ranks, patience, last: RefCell::new(None) }
    }

    /// The commit that is seen; of several shards, the oldest.
    pub(crate) fn generation(&self) -> u64 {
        self.shards.iter().map(|(_, view)| view.generation).min().unwrap_or(0)
    }

    /// Spells a question by the words of all shards.
    fn respell(
        &self,
        typed: &[TypedTerm],
        rule: fn(&[TypedTerm], &dyn Vocabulary) -> Option<Vec<Term>>,
    ) -> Option<Vec<Term>> {
        if let [(shared, view)] = &self.shards[..] {
            return rule(typed, &*shared.vocabulary(view));
        }
        let gathered = self.shards.iter().map(|(shared, view)| {
            let (words, count) = (shared.vocabulary(view), self.shards.len());
            Spellings::gather(typed, &*words, self.sizes.documents, count)
        });
        rule(typed, &Spellings::sum(gathered))
    }
}

impl Shards for Whole<'_> {
    type Error = Error;

    fn search(&self, query: &Query, asking: Asking) -> Result<Vec<Part>, Error> {
        let question =
            Question { query, languages: self.languages, rules: self.rules, patience: self.patience };
        let views: Vec<&View> = self.shards.iter().map(|(_, view)| &**view).collect();
        let Some(first) = views.first() else { return Ok(Vec::new()) };
        let plan = question.plan(first, &Summed { views: &views, sizes: &self.sizes })?;
        let mut respelt = Respelt::default();
        if asking == Asking::Typed && spell::may_be_replaced(&plan.typed) && !query.as_written {
            respelt.corrected = self.respell(&plan.typed, spell::correct);
            if respelt.corrected.is_some() {
                let spelling = PartSpelling::Decided(respelt);
                return Ok(vec![Part { typed: plan.typed, spelling, ..Part::default() }]);
            }
        }
        let (part, at) = find(&views, &plan, &question, self.ranks, views.len())?;
        if asking != Asking::Corrected && plan.may_be_misspelt(self.sizes.documents) {
            respelt.suggested = self.respell(&plan.typed, spell::suggest);
        }
        *self.last.borrow_mut() = Some((plan, at));
        Ok(vec![Part { spelling: PartSpelling::Decided(respelt), ..part }])
    }

    fn show(&self, _: &Query, places: &[Place]) -> Result<Vec<Option<Hit>>, Error> {
        let last = self.last.borrow();
        let Some((plan, at)) = &*last else { return Ok(vec![None; places.len()]) };
        let highlighter = Highlighter::new(plan);
        let effort = Effort::new(self.patience);
        let views = || self.shards.iter().map(|(_, view)| &**view);
        let show = |place: &Place| {
            effort.check()?;
            let found = match place.cand {
                Some(number) => at.get(number).and_then(|at| {
                    Some((views().nth(at.shard as usize)?, DocAddress::new(at.segment, at.doc)))
                }),
                None => locate(views(), place.page)?,
            };
            found.map(|(view, at)| hit(view, &highlighter, at)).transpose()
        };
        places.iter().map(show).collect()
    }
}

/// Several shards of this process, asked as one index.
pub struct ShardedSearch<'a> {
    searchers: &'a [Searcher],
    rules: &'a SearchRules,
    ranks: &'a dyn Ranks,
    hits_per_host: usize,
    patience: &'a Patience,
}

impl<'a> ShardedSearch<'a> {
    /// Asks these shards, each of which has other pages; pages of one host share places as [`Searcher`] says.
    pub fn new(
        searchers: &'a [Searcher],
        rules: &'a SearchRules,
        ranks: &'a dyn Ranks,
        hits_per_host: usize,
    ) -> ShardedSearch<'a> {
        ShardedSearch { searchers, rules, ranks, hits_per_host, patience: &ENDLESS }
    }

    /// Gives a question up when nobody waits for its answer any more.
    pub fn with_patience(self, patience: &'a Patience) -> ShardedSearch<'a> {
        ShardedSearch { patience, ..self }
    }

    /// Answers a question as [`Searcher::search_by`] would, were all pages in one shard.
    pub fn search(&self, request: &Request) -> Result<Answer, Error> {
        let started = Instant::now();
        let whole = Whole::new(self.searchers, request.languages, self.rules, self.ranks, self.patience);
        let answer = parts::answer(&whole, request, self.hits_per_host)?;
        Ok(Answer { generation: whole.generation(), took: started.elapsed(), ..answer })
    }
}
