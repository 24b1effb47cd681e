//! One answer from the parts of several shards, as one index that holds all pages would give it.
//!
//! The life of a question: each shard counts its pages of every word that the question may need ([`Counts`]); with
//! the sums of all shards ([`Sizes`], [`Counts`]) each scores its own pages as the one index would, and sends its
//! [`Part`]: the pages that can be in the answer, with everything that order goes by. [`merge`] puts them in order:
//! cut-offs are taken over all parts, then [`crate::thin`] joins copies and shares places out among hosts. The shards
//! that named the winners show them. [`answer`] leads a question through all that; who has one shard goes the same way.
//!
//! A page's shard is chosen by the hash of its address, so that of the best `n` pages of all shards few more than
//! `n / shards` are in one: [`share`] says how many a shard must look at, and no shard looks at `n`.
//!
//! INVARIANT: the answer does not depend on how pages are spread over shards, but for pages beyond a [`share`]
//! (one question in some 30,000).

use crate::spell::{self, Spellings, TypedTerm};
use crate::thin;
use farol_base::query::{Answer, Hit, Query, Request};
use farol_base::{HostHash, Language, PageId};
use std::cmp::{Ordering, Reverse};
use std::collections::HashSet;

/// Deepest hit that can be asked for: `first + count` is cut at this.
pub const HITS_MAX: usize = 1_000;

/// With as many pages that have every word, those that lack some cannot be reached and are not looked for.
pub const ENOUGH: usize = HITS_MAX;

/// Pages that are ranked. They fill [`HITS_MAX`] hits even where every other one is a duplicate.
pub const CANDIDATES_MAX: usize = 2_000;

/// Candidates that are rescored by their links; the others follow in their order by text.
pub const LINKED_MAX: usize = 1_000;

/// Candidates that are rescored by proximity and title.
pub const NEAR_MAX: usize = 300;

/// A page that scores less than this part of the best is not worth as much as one more of a host that is shown already.
const WEAK: f32 = 0.5;

/// Somebody who gives so few words means all of them.
const FEW_WORDS: u32 = 3;

/// Of more words, pages with all of them come first where they score at least this part of the best. A sentence has
/// words that the best page for it need not have, and a long page has all of them somewhere.
const ALMOST: f32 = 0.9;

/// How many of the best `of` pages of all shards one of them has at most: four standard deviations above its share.
///
/// ```
/// use farol_query::parts::share;
/// assert_eq!(share(300, 1), 300);
/// assert_eq!(share(300, 4), 117);
/// ```
pub fn share(of: usize, shards: usize) -> usize {
    if shards <= 1 {
        return of;
    }
    let mean = of as f64 / shards as f64;
    of.min((mean + 4.0 * mean.sqrt() + 8.0) as usize)
}

/// How large a shard is, or several of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pages alive.
    pub documents: u64,
    /// Words in the fields whose lengths count: main text, title, anchors.
    pub tokens: [u64; 3],
    /// Languages of the pages, most pages first.
    pub languages: Vec<(Language, u64)>,
    /// The commit that was measured; of several, the sum.
    pub generation: u64,
}

impl Sizes {
    /// The sizes of all shards together.
    pub fn sum<'a>(shards: impl IntoIterator<Item = &'a Sizes>) -> Sizes {
        let mut sum = Sizes::default();
        for shard in shards {
            sum.documents += shard.documents;
            sum.generation = sum.generation.wrapping_add(shard.generation);
            for (all, tokens) in sum.tokens.iter_mut().zip(shard.tokens) {
                *all += tokens;
            }
            for (language, pages) in &shard.languages {
                match sum.languages.iter_mut().find(|(known, _)| known == language) {
                    Some((_, all)) => *all += pages,
                    None => sum.languages.push((*language, *pages)),
                }
            }
        }
        sum.languages.sort_by_key(|(language, pages)| (Reverse(*pages), *language));
        sum
    }
}

/// How many pages have a word in a field of the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WordCount {
    /// Number of the field.
    pub field: u32,
    /// The word as it is indexed.
    pub text: String,
    /// Pages that have it.
    pub pages: u64,
}

/// The words that begin as one that was typed (`word*`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Beginning {
    /// Number of the field.
    pub field: u32,
    /// The beginning.
    pub text: String,
    /// Words with their pages, in order of the words.
    pub words: Vec<(String, u64)>,
}

/// Pages of everything that a question looks up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In order of field and text, each once.
    words: Vec<WordCount>,
    beginnings: Vec<Beginning>,
}

impl Counts {
    /// Counts of one shard, or of several: equal words are summed.
    pub fn new(words: Vec<WordCount>, beginnings: Vec<Beginning>) -> Counts {
        let mut counts = Counts { words, beginnings };
        counts.words.sort_unstable();
        counts.words.dedup_by(|next, kept| {
            let same = (next.field, &next.text) == (kept.field, &kept.text);
            if same {
                kept.pages += next.pages;
            }
            same
        });
        counts.beginnings.sort_unstable_by(|a, b| (a.field, &a.text).cmp(&(b.field, &b.text)));
        counts.beginnings.dedup_by(|next, kept| {
            let same = (next.field, &next.text) == (kept.field, &kept.text);
            if same {
                kept.words.append(&mut next.words);
            }
            same
        });
        for beginning in &mut counts.beginnings {
            beginning.words.sort_unstable();
            beginning.words.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                if same {
                    kept.1 += next.1;
                }
                same
            });
        }
        counts
    }

    /// The counts of all shards together.
    pub fn sum(shards: impl IntoIterator<Item = Counts>) -> Counts {
        let (mut words, mut beginnings) = (Vec::new(), Vec::new());
        for shard in shards {
            words.extend(shard.words);
            beginnings.extend(shard.beginnings);
        }
        Counts::new(words, beginnings)
    }

    /// In order of field and text, each once.
    pub fn words(&self) -> &[WordCount] {
        &self.words
    }

    /// In order of field and text, each once.
    pub fn beginnings(&self) -> &[Beginning] {
        &self.beginnings
    }

    /// Pages of a word; 0 where nobody has it.
    pub fn pages(&self, field: u32, text: &str) -> u64 {
        let found = self.words.binary_search_by(|word| (word.field, word.text.as_str()).cmp(&(field, text)));
        found.map_or(0, |at| self.words[at].pages)
    }

    /// The words with a beginning.
    pub fn beginning(&self, field: u32, text: &str) -> &[(String, u64)] {
        let order = |known: &Beginning| (known.field, known.text.as_str()).cmp(&(field, text));
        self.beginnings.binary_search_by(order).map_or(&[], |at| &self.beginnings[at].words)
    }
}

/// What shards plan and score by: those of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How large they are together.
    pub sizes: Sizes,
    /// Pages of each word, together.
    pub counts: Counts,
    /// How many shards there are.
    pub shards: usize,
}

/// A page that can be in the answer, with everything that order goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct Cand {
    /// Which page.
    pub page: PageId,
    /// Its host.
    pub host: HostHash,
    /// Fingerprint of its text; 0 where it has none.
    pub content: u64,
    /// Fingerprint that is nearly the same for nearly the same text; 0 where it has none.
    pub simhash: u64,
    /// It has every word of the question.
    pub strict: bool,
    /// How it is called what was asked for: the greater, the more that says; 0 where it is not.
    pub named: u8,
    /// Score of its text alone; of its links, where only filters were given; 0 of a page that only has the name.
    pub text: f32,
    /// The same with links and language.
    pub linked: f32,
    /// The same with proximity and title as well.
    pub near: f32,
    /// Decides between equal scores: the later date, where only filters were given.
    pub tie: u64,
    /// How well the asker likes its languages, that of its text and that of its address; the less, the better.
    pub language: u16,
    /// Rank of its links, 0 to 1.
    pub link_rank: f32,
    /// Letters of its address.
    pub address: u32,
}

/// What a shard has decided, or knows, about the spelling of a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PartSpelling {
    /// No word of it is rare.
    #[default]
    Right,
    /// Words and phrases that the rare ones may stand for; what they stand for is decided by the sums.
    Near(Spellings),
    /// The only shard has decided.
    Decided(Respelt),
}

/// A question's terms as they should have been spelt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Respelt {
    /// To be answered instead, because no page has some of the words, or hardly any.
    pub corrected: Option<Vec<farol_base::query::Term>>,
    /// To be offered.
    pub suggested: Option<Vec<farol_base::query::Term>>,
}

/// What a shard knows for a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// The commit that it is made from.
    pub generation: u64,
    /// The question's terms with the pages of all shards; the same in all parts.
    pub typed: Vec<TypedTerm>,
    /// What rare words may stand for.
    pub spelling: PartSpelling,
    /// The shard has looked for pages; otherwise it has only found a better spelling.
    pub searched: bool,
    /// Only filters were given.
    pub listing: bool,
    /// A page that has the name and no more may be shown.
    pub by_name: bool,
    /// Words that pages should have; the same in all parts.
    pub words: u32,
    /// Pages that have every word, those that are not in `cands` too.
    pub strict: u64,
    /// Best first by text.
    pub cands: Vec<Cand>,
    /// Pages that the operator set on top: their places there.
    pub pinned: Vec<(u32, PageId)>,
}

/// How a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// As somebody typed it; it may turn out to be misspelt.
    Typed,
    /// With its words corrected; it is not corrected again.
    Corrected,
    /// As it was typed, because the corrected words found nothing.
    AsTyped,
}

/// A page in its place in the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Number of its part among those that were merged.
    pub part: usize,
    /// Its number in [`Part::cands`]; none for a page that was pinned.
    pub cand: Option<usize>,
    /// Which page.
    pub page: PageId,
    /// Its final score.
    pub score: f32,
    /// Copies that were left out for it.
    pub duplicates: u32,
    /// More pages of its host follow further down.
    pub more_from_host: bool,
    /// It has every word of the question.
    pub strict: bool,
}

/// What a page has of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Band {
    /// Of the pages that are called what was asked for, the best.
    Named,
    /// Every word; where many were given, also nearly the best score.
    All,
    /// Much of what the best page has.
    Most,
    /// Little of it.
    Some,
}

/// A candidate on its way to its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored<'a> {
    pub cand: &'a Cand,
    pub part: usize,
    pub number: usize,
    pub score: f32,
    pub strict: bool,
    pub band: Band,
    pub duplicates: u32,
}

/// Shards that are asked together, or one.
pub trait Shards {
    /// Why there is no answer at all.
    type Error;

    /// The part of each shard that answers.
    fn search(&self, query: &Query, asking: Asking) -> Result<Vec<Part>, Self::Error>;

    /// Titles and snippets of pages, in their order; none for a page that is gone. The places are of the parts that
    /// were given for this question last.
    fn show(&self, query: &Query, places: &[Place]) -> Result<Vec<Option<Hit>>, Self::Error>;
}

/// Leads a question through its shards.
///
/// Where no page has some of the words, or a handful that have slipped themselves, the question is answered as it was probably meant, unless it asks for its words
/// as written. [`Answer::took`] and [`Answer::shards`] are the caller's to fill in.
pub fn answer<S: Shards>(shards: &S, request: &Request, hits_per_host: usize) -> Result<Answer, S::Error> {
    let query = &request.query;
    let mut parts = shards.search(query, Asking::Typed)?;
    if !query.as_written
        && let Some(wanted) = spell::corrected(&parts)
    {
        let better = Query { wanted, ..query.clone() };
        let others = shards.search(&better, Asking::Corrected)?;
        let list = merge(&others, &better, hits_per_host);
        if !list.is_empty() {
            let answer = shown(shards, &better, request, &others, &list)?;
            return Ok(Answer { corrected: Some(better), ..answer });
        }
        parts = shards.search(query, Asking::AsTyped)?;
    }
    let list = merge(&parts, query, hits_per_host);
    let mut answer = shown(shards, query, request, &parts, &list)?;
    answer.suggestion = spell::suggested(&parts).map(|wanted| Query { wanted, ..query.clone() });
    Ok(answer)
}

/// The part of a list that is wanted, with titles and snippets; what is gone meanwhile is followed by the next.
fn shown<S: Shards>(
    shards: &S,
    query: &Query,
    request: &Request,
    parts: &[Part],
    list: &[Place],
) -> Result<Answer, S::Error> {
    let first = request.first.min(HITS_MAX).min(list.len());
    let last = first.saturating_add(request.count).min(HITS_MAX).min(list.len());
    let mut answer = Answer {
        total: list.len().min(HITS_MAX),
        more: list.len() > request.first.min(HITS_MAX).saturating_add(request.count).min(HITS_MAX),
        generation: parts.iter().map(|part| part.generation).min().unwrap_or(0),
        ..Answer::default()
    };
    let (mut from, mut upto) = (first, last);
    while from < upto {
        let hits = shards.show(query, &list[from..upto])?;
        for (place, hit) in list[from..upto].iter().zip(hits) {
            answer.hits.extend(hit.map(|hit| Hit {
                score: place.score,
                duplicates: place.duplicates,
                more_from_host: place.more_from_host,
                pinned: place.cand.is_none(),
                strict: place.strict,
                ..hit
            }));
        }
        let missing = (last - first).saturating_sub(answer.hits.len());
        from = upto;
        upto = upto.saturating_add(missing).min(HITS_MAX).min(list.len());
    }
    Ok(answer)
}

/// The list for a question, best first, from the parts of all shards.
pub fn merge(parts: &[Part], query: &Query, hits_per_host: usize) -> Vec<Place> {
    let scored = ordered(parts);
    let scored = thin::join(scored);
    let hits_per_host = if query.filters.sites.is_empty() { hits_per_host } else { 0 };
    let list = thin::crowd(scored, hits_per_host);
    let pinned = pinned(parts);
    let mut list: Vec<Place> =
        list.into_iter().filter(|place| !pinned.iter().any(|(_, page)| *page == place.page)).collect();
    let score = list.first().map_or(0.0, |place| place.score);
    let on_top = pinned.into_iter().map(|(part, page)| Place {
        part,
        cand: None,
        page,
        score,
        duplicates: 0,
        more_from_host: false,
        strict: false,
    });
    list.splice(0..0, on_top);
    list
}

/// Pages that the operator set on top, in their order, each once.
fn pinned(parts: &[Part]) -> Vec<(usize, PageId)> {
    let numbered = parts.iter().enumerate();
    let mut pinned: Vec<(u32, usize, PageId)> = numbered
        .flat_map(|(part, known)| known.pinned.iter().map(move |(place, page)| (*place, part, *page)))
        .collect();
    pinned.sort_unstable();
    let mut seen = HashSet::new();
    pinned.retain(|(_, _, page)| seen.insert(*page));
    pinned.into_iter().map(|(_, part, page)| (part, page)).collect()
}

/// All candidates in the order of bands and scores.
fn ordered(parts: &[Part]) -> Vec<Scored<'_>> {
    let mut scored = candidates(parts);
    let listing = parts.iter().any(|part| part.listing);
    for (at, page) in scored.iter_mut().enumerate() {
        page.score = match at {
            _ if listing => page.score,
            at if at < NEAR_MAX => page.cand.near,
            at if at < LINKED_MAX && page.score > 0.0 => page.cand.linked,
            _ => page.score,
        };
    }
    let top = scored.iter().map(|page| page.score).fold(0.0, f32::max);
    let named = scored.iter().filter(|page| page.cand.named != 0);
    let named = named.max_by(|a, b| {
        let page = b.cand.page.cmp(&a.cand.page);
        a.cand.named.cmp(&b.cand.named).then(a.score.total_cmp(&b.score)).then(page)
    });
    let named = named.map(|page| page.cand.page);
    let words = parts.iter().map(|part| part.words).max().unwrap_or(0);
    for page in &mut scored {
        page.band = match page.strict {
            _ if named == Some(page.cand.page) => Band::Named,
            true if words <= FEW_WORDS || page.score >= ALMOST * top => Band::All,
            _ if page.score < WEAK * top => Band::Some,
            _ => Band::Most,
        };
    }
    scored.sort_by(|a, b| {
        let newer = b.cand.tie.cmp(&a.cand.tie);
        let page = a.cand.page.cmp(&b.cand.page);
        a.band.cmp(&b.band).then(b.score.total_cmp(&a.score)).then(newer).then(page)
    });
    scored
}

/// The candidates that one index would have had, best first by text; those that only have the name come last.
fn candidates(parts: &[Part]) -> Vec<Scored<'_>> {
    let strict: u64 = parts.iter().map(|part| part.strict).sum();
    let few = strict < ENOUGH as u64;
    let mut scored: Vec<Scored<'_>> = Vec::with_capacity(parts.iter().map(|part| part.cands.len()).sum());
    for (part, known) in parts.iter().enumerate() {
        for (number, cand) in known.cands.iter().enumerate() {
            let text = if cand.strict || few { cand.text } else { 0.0 };
            let (score, strict) = (text, cand.strict);
            scored.push(Scored { cand, part, number, score, strict, band: Band::All, duplicates: 0 });
        }
    }
    if parts.len() > 1 {
        // A page is in two shards while it moves between them, which is seldom.
        let mut pages: Vec<PageId> = scored.iter().map(|page| page.cand.page).collect();
        pages.sort_unstable();
        if pages.windows(2).any(|pair| pair[0] == pair[1]) {
            scored.sort_by(|a, b| a.cand.page.cmp(&b.cand.page).then(b.score.total_cmp(&a.score)));
            scored.dedup_by_key(|page| page.cand.page);
        }
        // Stable, because it makes use of the order that each part has already.
        scored.sort_by(by_text);
    }
    let by_name = parts.iter().any(|part| part.by_name);
    let found = scored.iter().take_while(|page| page.score > 0.0).count();
    for page in scored.iter_mut().skip(found.min(CANDIDATES_MAX)) {
        page.score = 0.0;
        page.strict = false;
    }
    let mut number = 0;
    scored.retain(|page| {
        number += 1;
        number <= found.min(CANDIDATES_MAX) || (by_name && page.cand.named != 0)
    });
    scored
}

fn by_text(a: &Scored<'_>, b: &Scored<'_>) -> Ordering {
    let newer = b.cand.tie.cmp(&a.cand.tie);
    b.score.total_cmp(&a.score).then(newer).then_with(|| lot(a.cand.page).cmp(&lot(b.cand.page)))
}

/// Decides which pages of equal score are ranked where not all can be; the less, the sooner.
///
/// Not the id itself: a shard's pages are neighbours by their ids, so that the first shard would have all the first of
/// many equals, and more than its [`share`].
pub fn lot(page: PageId) -> u64 {
    farol_base::random::mix(page.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_equals_no_shard_has_more_than_its_share() {
        for shards in [2u64, 4, 16] {
            let mut pages: Vec<PageId> =
                (0..8_000).map(|number| PageId(number * (u64::MAX / 8_000))).collect();
            pages.sort_by_key(|page| lot(*page));
            let mut of_shard = vec![0; shards as usize];
            for page in &pages[..CANDIDATES_MAX] {
                of_shard[((u128::from(page.0) * u128::from(shards)) >> 64) as usize] += 1;
            }
            let most = of_shard.iter().max().unwrap();
            assert!(*most <= share(CANDIDATES_MAX, shards as usize), "{of_shard:?}");
        }
    }
}
