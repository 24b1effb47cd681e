//! Spells words as the indexed pages do (a noisy channel: \[Kernighan90\]).
//!
//! A word and those near it compete: each is as likely as the pages that have it are many, less what the slips between
//! it and the typed word cost. A spelling that stands beside its neighbours in titles gains. Words that no page has are
//! certain to be slips, and may be replaced at once. So may a word of a handful of pages that no title has, where one that
//! begins alike is far likelier: somebody else has slipped there, too. Of other words that few pages have, a likelier one is
//! only suggested.
//!
//! One index has all its words at hand (a [`Vocabulary`]). Of several shards each sends those that rare words may stand
//! for ([`Spellings`]), and the same rule decides by the sums.
//!
//! INVARIANT: a word is only replaced by one that clearly more pages have.

use crate::parts::{Part, PartSpelling};
use farol_base::query::Term;
use std::cmp::Reverse;

/// A word on more pages than this, or than one page in ten thousand, is taken as meant.
const RARE_PAGES: u64 = 20;

/// Cost of a slip, in natural logarithms of how many times the pages outweigh it: ten times for a wrong, missing or
/// added letter.
const SLIP: f64 = 2.3;

/// Swapped neighbours and a letter doubled or not: four times.
const EASY_SLIP: f64 = 1.4;

/// A second slip in one word costs this much more.
const SECOND_SLIP: f64 = 1.4;

/// The first letter is seldom wrong.
const FIRST_LETTER: f64 = 1.4;

/// What it gains to stand beside its neighbour in a title.
const BESIDE: f64 = 1.4;

/// What a word gains of which other forms are on pages: slips have none.
const HAS_FORMS: f64 = 2.0;

/// Likelihood of a word that no page has, where another one is suggested, and where it is put in its place unasked.
const UNKNOWN: f64 = -7.0;
const UNKNOWN_CERTAIN: f64 = -3.0;

/// A word on more pages than this is replaced by nothing unasked.
pub const SLIP_PAGES_MAX: u64 = 3;

/// How much likelier another one must be than a word that some pages have, beyond what the slips cost: twenty times.
const FAR_LIKELIER: f64 = 3.0;

/// Shorter ones are too often names and abbreviations.
const SLIP_LETTERS_MIN: usize = 6;

/// The last word of a question may be a beginning, from so many letters on.
const BEGINNING_MIN: usize = 3;

/// Words that a shard sends for a rare word.
const SENT_MAX: usize = 12;

/// Of those that are rare themselves, so many may be slips for another word, of which so many are sent each.
const SLIPS_SENT_MAX: usize = 3;
const BEHIND_SENT_MAX: usize = 6;

/// A wanted term as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedTerm {
    /// As it was read.
    pub term: Term,
    /// Where it is one plain word.
    pub word: Option<TypedWord>,
}

/// A plain word of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedWord {
    /// Folded.
    pub form: String,
    /// Pages that have it, in any form.
    pub pages: u64,
    /// Some of them have it in another form alone.
    pub has_forms: bool,
}

/// A word as pages spell it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpeltWord {
    /// Folded.
    pub form: String,
    /// As titles write it, in lower case.
    pub shown: String,
    /// Pages that have it.
    pub pages: u32,
}

/// A word of a vocabulary: its form, as titles write it, and its pages.
pub type KnownWord<'v> = (&'v str, &'v str, u32);

/// The words of an index.
pub trait Vocabulary {
    /// Pages that it is made from.
    fn documents(&self) -> u64;

    /// At least all words that differ from a form by so many slips.
    fn near<'v>(&'v self, form: &str, slips_max: u32) -> Box<dyn Iterator<Item = KnownWord<'v>> + 'v>;

    /// Whether words stand side by side in a title.
    fn stands(&self, phrase: &str) -> bool;

    /// Whether a word begins so.
    fn begins(&self, form: &str) -> bool;

    /// Whether some title has this word.
    fn is_in_title(&self, form: &str) -> bool;
}

/// What the rare words of a question may stand for, by the pages of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spellings {
    /// Pages of the shard.
    pub documents: u64,
    /// In order of their forms, each once.
    pub words: Vec<SpeltWord>,
    /// Pairs of words that stand side by side in titles, and rare words that stand in one at all, in order, each once.
    pub phrases: Vec<String>,
    /// The last word of the question begins a word of the shard.
    pub begins: bool,
}

impl Spellings {
    /// What a shard sends for a question; `documents` are the pages of all of them.
    pub fn gather(
        typed: &[TypedTerm],
        vocabulary: &dyn Vocabulary,
        documents: u64,
        shards: usize,
    ) -> Spellings {
        let mut spellings = Spellings { documents: vocabulary.documents(), ..Spellings::default() };
        let mut before: Vec<String> = Vec::new();
        for (at, typed_term) in typed.iter().enumerate() {
            let Some(word) = &typed_term.word else {
                before.clear();
                continue;
            };
            let mut forms = vec![word.form.clone()];
            if is_rare(word.pages, documents) {
                // What cannot outweigh the word itself, even with three times as many pages in other shards and
                // beside both its neighbours, is not sent.
                let all = (3.0 * shards as f64).ln() + 2.0 * BESIDE;
                let own = own(word, false) - all;
                let mut found = likely(vocabulary, &word.form, own, SENT_MAX);
                let rare = found.iter().filter(|near| is_rare(u64::from(near.pages), documents));
                let slips: Vec<String> = rare.take(SLIPS_SENT_MAX).map(|near| near.form.clone()).collect();
                for slip in slips {
                    found.extend(likely(vocabulary, &slip, own, BEHIND_SENT_MAX));
                }
                forms.extend(found.iter().map(|near| near.form.clone()));
                spellings.words.extend(found);
                spellings.begins |= at + 1 == typed.len() && vocabulary.begins(&word.form);
                spellings.phrases.extend(vocabulary.is_in_title(&word.form).then(|| word.form.clone()));
            }
            let after = typed.get(at + 1).and_then(|next| next.word.as_ref());
            let first =
                before.iter().flat_map(|before| forms.iter().map(move |form| format!("{before} {form}")));
            let second =
                after.iter().flat_map(|after| forms.iter().map(|form| format!("{form} {}", after.form)));
            spellings.phrases.extend(first.chain(second).filter(|phrase| vocabulary.stands(phrase)));
            before = forms;
        }
        Spellings::sum([spellings])
    }

    /// What all shards know together.
    pub fn sum(shards: impl IntoIterator<Item = Spellings>) -> Spellings {
        let mut sum = Spellings::default();
        let mut one_shard = Vec::new();
        for shard in shards {
            sum.documents += shard.documents;
            sum.begins |= shard.begins;
            sum.phrases.extend(shard.phrases);
            one_shard.extend(shard.words);
            one_shard.sort_unstable();
            one_shard.dedup();
            sum.words.append(&mut one_shard);
        }
        sum.phrases.sort_unstable();
        sum.phrases.dedup();
        // As most pages of any shard write it.
        sum.words.sort_unstable_by(|a, b| {
            (&a.form, Reverse(a.pages), &a.shown).cmp(&(&b.form, Reverse(b.pages), &b.shown))
        });
        sum.words.dedup_by(|next, kept| {
            let same = next.form == kept.form;
            if same {
                kept.pages = kept.pages.saturating_add(next.pages);
            }
            same
        });
        sum
    }
}

impl Vocabulary for Spellings {
    fn documents(&self) -> u64 {
        self.documents
    }

    fn near<'v>(&'v self, _: &str, _: u32) -> Box<dyn Iterator<Item = KnownWord<'v>> + 'v> {
        Box::new(self.words.iter().map(|word| (word.form.as_str(), word.shown.as_str(), word.pages)))
    }

    fn stands(&self, phrase: &str) -> bool {
        self.phrases.binary_search_by(|known| known.as_str().cmp(phrase)).is_ok()
    }

    fn begins(&self, _: &str) -> bool {
        self.begins
    }

    fn is_in_title(&self, form: &str) -> bool {
        self.stands(form)
    }
}

/// The likeliest words near a form, whatever stands beside them.
fn likely(vocabulary: &dyn Vocabulary, form: &str, own: f64, count: usize) -> Vec<SpeltWord> {
    let Some(slips_max) = slips_max(form) else { return Vec::new() };
    let mut best: Vec<(f64, KnownWord<'_>)> = Vec::new();
    for word in vocabulary.near(form, slips_max) {
        let most = f64::from(word.2).ln() - EASY_SLIP;
        let worst = best.last().filter(|_| best.len() == count).map_or(own, |(score, _)| *score);
        if most <= worst || word.0 == form {
            continue;
        }
        let Some(cost) = slips(form, word.0, slips_max) else { continue };
        let score = f64::from(word.2).ln() - cost;
        if score > worst {
            let at = best.partition_point(|(known, _)| *known >= score);
            best.insert(at, (score, word));
            best.truncate(count);
        }
    }
    let spelt = |(form, shown, pages): KnownWord<'_>| SpeltWord {
        form: form.to_string(),
        shown: shown.to_string(),
        pages,
    };
    best.into_iter().map(|(_, word)| spelt(word)).collect()
}

/// Whether so few pages have a word that it may be a slip.
pub fn is_rare(pages: u64, documents: u64) -> bool {
    pages <= RARE_PAGES.max(documents / 10_000)
}

/// Whether so few pages have some of the words that other terms may be answered instead.
pub fn may_be_replaced(typed: &[TypedTerm]) -> bool {
    typed.iter().any(|typed| typed.word.as_ref().is_some_and(|word| word.pages <= SLIP_PAGES_MAX))
}

/// The terms to be answered instead, because no page of any shard has some of the words, or hardly any.
pub fn corrected(parts: &[Part]) -> Option<Vec<Term>> {
    let typed = &parts.first()?.typed;
    if let Some(decided) = parts.iter().find_map(decided) {
        return decided.corrected.clone();
    }
    if may_be_replaced(typed) { correct(typed, &together(parts)) } else { None }
}

/// The terms to be offered, because few pages have some of the words.
pub fn suggested(parts: &[Part]) -> Option<Vec<Term>> {
    if let Some(decided) = parts.iter().find_map(decided) {
        return decided.suggested.clone();
    }
    let near = parts.iter().any(|part| matches!(part.spelling, PartSpelling::Near(_)));
    if near { suggest(&parts.first()?.typed, &together(parts)) } else { None }
}

fn decided(part: &Part) -> Option<&crate::parts::Respelt> {
    match &part.spelling {
        PartSpelling::Decided(respelt) => Some(respelt),
        _ => None,
    }
}

fn together(parts: &[Part]) -> Spellings {
    Spellings::sum(parts.iter().filter_map(|part| match &part.spelling {
        PartSpelling::Near(spellings) => Some(spellings.clone()),
        _ => None,
    }))
}

/// The wanted terms with rare words spelt as pages spell them, where any can be.
pub fn suggest(typed: &[TypedTerm], vocabulary: &dyn Vocabulary) -> Option<Vec<Term>> {
    respell(typed, vocabulary, false)
}

/// The wanted terms with the words that are hardly meant so spelt as pages spell them, or completed, where any can be.
pub fn correct(typed: &[TypedTerm], vocabulary: &dyn Vocabulary) -> Option<Vec<Term>> {
    respell(typed, vocabulary, true)
}

fn respell(typed: &[TypedTerm], vocabulary: &dyn Vocabulary, unasked: bool) -> Option<Vec<Term>> {
    let mut changed = false;
    let mut before: Option<String> = None;
    let mut terms = Vec::with_capacity(typed.len());
    for (at, typed_term) in typed.iter().enumerate() {
        let mut term = typed_term.term.clone();
        let mut form = typed_term.word.as_ref().map(|word| word.form.clone());
        let after = typed.get(at + 1).and_then(|next| Some(next.word.as_ref()?.form.as_str()));
        if let Some(word) = typed_term.word.as_ref()
            && match unasked {
                true => word.pages == 0 || may_be_slip(word, &typed_term.term.text, vocabulary),
                false => is_rare(word.pages, vocabulary.documents()),
            }
        {
            let context = Context { vocabulary, before: before.as_deref(), after };
            let best = context.best(word, unasked);
            // What begins so is more than the one word that is nearest, and that one among it.
            let is_beginning = unasked
                && word.pages == 0
                && at + 1 == typed.len()
                && best.is_none_or(|(better, ..)| better.starts_with(&word.form))
                && is_beginning(&word.form, vocabulary);
            if is_beginning {
                term.text = format!("{}*", typed_term.term.text);
                changed = true;
            } else if let Some((better, shown, _)) = best {
                term.text = shown.to_string();
                form = Some(better.to_string());
                changed = true;
            }
        }
        before = form;
        terms.push(term);
    }
    changed.then_some(terms)
}

/// Whether a word that some pages have may be a slip all the same: it has no other forms, stands in no title, and is not
/// written as names of programs are.
fn may_be_slip(word: &TypedWord, text: &str, vocabulary: &dyn Vocabulary) -> bool {
    word.pages <= SLIP_PAGES_MAX
        && !word.has_forms
        && word.form.chars().count() >= SLIP_LETTERS_MIN
        && !text.chars().skip(1).any(char::is_uppercase)
        && !vocabulary.is_in_title(&word.form)
}

fn is_beginning(form: &str, vocabulary: &dyn Vocabulary) -> bool {
    form.chars().count() >= BEGINNING_MIN && vocabulary.begins(form)
}

/// Slips that a word may have; none where it is too short to tell.
fn slips_max(form: &str) -> Option<u32> {
    match form.chars().count() {
        0..=3 => None,
        4 | 5 => Some(1),
        _ => Some(2),
    }
}

/// How likely a word is meant as it was typed, whatever stands beside it.
fn own(typed: &TypedWord, certain: bool) -> f64 {
    match typed.pages {
        0 if certain => UNKNOWN_CERTAIN,
        0 => UNKNOWN,
        pages => (pages as f64).ln() + if typed.has_forms { HAS_FORMS } else { 0.0 },
    }
}

/// A place in a question.
struct Context<'v> {
    vocabulary: &'v dyn Vocabulary,
    before: Option<&'v str>,
    after: Option<&'v str>,
}

impl<'v> Context<'v> {
    /// The likeliest spelling, where it is not the typed one. To be put in the place of a word that some pages have
    /// unasked, it must be far likelier, and begin alike.
    fn best(&self, typed: &TypedWord, unasked: bool) -> Option<KnownWord<'v>> {
        let is_known = unasked && typed.pages > 0;
        let own = self.own(typed, unasked) + if is_known { FAR_LIKELIER } else { 0.0 };
        let best = self.likeliest(&typed.form, own)?;
        if is_known && best.0.chars().next() != typed.form.chars().next() {
            return None;
        }
        // Of a word that is a slip itself, what it stands for.
        let pages = u64::from(best.2);
        if is_rare(pages, self.vocabulary.documents()) {
            let itself = TypedWord { form: best.0.to_string(), pages, has_forms: false };
            if let Some(right) = self.likeliest(best.0, self.own(&itself, false))
                && slips(&typed.form, right.0, 3).is_some()
            {
                return Some(right);
            }
        }
        Some(best)
    }

    fn own(&self, typed: &TypedWord, certain: bool) -> f64 {
        own(typed, certain) + if typed.pages == 0 { 0.0 } else { self.gain(&typed.form) }
    }

    /// The word near a form that is likelier than `own` and than all others.
    fn likeliest(&self, form: &str, own: f64) -> Option<KnownWord<'v>> {
        let slips_max = slips_max(form)?;
        let mut best: Option<(f64, KnownWord<'v>)> = None;
        for word in self.vocabulary.near(form, slips_max) {
            // The least that a slip costs, before the slips are looked at.
            let most = f64::from(word.2).ln() - EASY_SLIP + 2.0 * BESIDE;
            if most <= best.map_or(own, |(score, _)| score) || word.0 == form {
                continue;
            }
            let Some(cost) = slips(form, word.0, slips_max) else { continue };
            let score = f64::from(word.2).ln() - cost + self.gain(word.0);
            if score > best.map_or(own, |(known, _)| known) {
                best = Some((score, word));
            }
        }
        best.map(|(_, word)| word)
    }

    fn gain(&self, form: &str) -> f64 {
        let before = self.before.is_some_and(|before| self.vocabulary.stands(&format!("{before} {form}")));
        let after = self.after.is_some_and(|after| self.vocabulary.stands(&format!("{form} {after}")));
        BESIDE * f64::from(u8::from(before) + u8::from(after))
    }
}

/// What the slips between two words cost: letters missing, added, wrong, or two neighbours swapped. None where there are
/// more than `max`.
fn slips(from: &str, to: &str, max: u32) -> Option<f64> {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    if from.len().abs_diff(to.len()) as u32 > max {
        return None;
    }
    // Slips and their cost so far; the fewest slips count, of equals the cheapest.
    type Cell = (u32, f64);
    let step = |(slips, cost): Cell, price: f64| (slips + 1, cost + price);
    let least = |a: Cell, b: Cell| if (b.0, b.1) < (a.0, a.1) { b } else { a };
    let doubled = |word: &[char], at: usize| at > 0 && word[at] == word[at - 1];
    let price = |easy: bool| if easy { EASY_SLIP } else { SLIP };
    let mut before: Vec<Cell> = Vec::new();
    let mut above: Vec<Cell> = vec![(0, 0.0)];
    for j in 0..to.len() {
        above.push(step(above[j], SLIP + if j == 0 { FIRST_LETTER } else { 0.0 }));
    }
    for i in 0..from.len() {
        let first = if i == 0 { FIRST_LETTER } else { 0.0 };
        let mut row: Vec<Cell> = vec![step(above[0], SLIP + first)];
        for j in 0..to.len() {
            let first = if i == 0 && j == 0 { FIRST_LETTER } else { 0.0 };
            let mut cell = if from[i] == to[j] { above[j] } else { step(above[j], SLIP + first) };
            cell = least(cell, step(above[j + 1], price(doubled(&from, i))));
            cell = least(cell, step(row[j], price(doubled(&to, j))));
            if i > 0 && j > 0 && from[i] == to[j - 1] && from[i - 1] == to[j] {
                cell = least(cell, step(before[j - 1], EASY_SLIP));
            }
            row.push(cell);
        }
        if row.iter().all(|(slips, _)| *slips > max) {
            return None;
        }
        before = std::mem::replace(&mut above, row);
    }
    let (slips, cost) = above.last().copied()?;
    (slips <= max).then_some(cost + if slips > 1 { SECOND_SLIP } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted_and_priced() {
        let check = |from: &str, to: &str, want: Option<f64>| {
            assert_eq!(slips(from, to, 2), want, "{from} {to}");
        };
        check("farol", "farol", Some(0.0));
        check("faorl", "farol", Some(EASY_SLIP)); // Two neighbours swapped.
        check("farrol", "farol", Some(EASY_SLIP));
        check("frol", "farol", Some(SLIP));
        check("garol", "farol", Some(SLIP + FIRST_LETTER));
        check("fxrxl", "farol", Some(2.0 * SLIP + SECOND_SLIP));
        check("casa", "farol", None);
        check("", "", Some(0.0));
    }

    fn typed(words: &[(&str, u64)]) -> Vec<TypedTerm> {
        let term = |(form, pages): &(&str, u64)| TypedTerm {
            term: Term { text: form.to_string(), field: Default::default(), phrase: false },
            word: Some(TypedWord { form: form.to_string(), pages: *pages, has_forms: false }),
        };
        words.iter().map(term).collect()
    }

    fn shard(words: &[(&str, u32)], phrases: &[&str]) -> Spellings {
        let word = |(form, pages): &(&str, u32)| SpeltWord {
            form: form.to_string(),
            shown: form.to_string(),
            pages: *pages,
        };
        let words = words.iter().map(word).collect();
        let phrases = phrases.iter().map(|phrase| phrase.to_string()).collect();
        Spellings::sum([Spellings { documents: 100, words, phrases, ..Spellings::default() }])
    }

    fn texts(terms: Option<Vec<Term>>) -> String {
        terms.unwrap_or_default().into_iter().map(|term| term.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_sums_decide_what_was_meant() {
        // Each shard by itself would say `light`, or `night`; together they know better.
        let one = shard(&[("light", 9), ("night", 10)], &[]);
        let other = shard(&[("light", 9), ("night", 2)], &[]);
        let typed = typed(&[("xight", 0)]);
        assert_eq!(texts(correct(&typed, &one)), "night");
        assert_eq!(texts(correct(&typed, &Spellings::sum([one, other]))), "light");
    }

    #[test]
    fn a_slip_that_some_pages_have_is_replaced_by_a_far_likelier_word_unless_it_may_be_meant() {
        let check = |form: &str, pages: u64, titles: &[&str], want: &str| {
            let whole = shard(&[("configuration", 900), ("write", 9_000), (form, pages as u32)], titles);
            let typed = typed(&[(form, pages)]);
            assert_eq!(texts(correct(&typed, &whole)), want, "{form} {pages}");
            let sent = Spellings::gather(&typed, &whole, 100, 1);
            assert_eq!(texts(correct(&typed, &sent)), want, "{form} {pages}, as it is sent");
        };
        check("configuraton", 3, &[], "configuration");
        check("configuraton", 4, &[], ""); // Too many have slipped.
        check("configuraton", 3, &["configuraton"], ""); // It is a name.
        check("fwrite", 1, &[], ""); // The first letter is seldom wrong.
        let whole = shard(&[("configuration", 100)], &[]);
        assert_eq!(texts(correct(&typed(&[("configuraton", 3)]), &whole)), "", "likelier, but not by far");
        assert_eq!(texts(suggest(&typed(&[("configuraton", 3)]), &whole)), "configuration");
        let mut named = typed(&[("configuraton", 1)]);
        named[0].term.text = "ConfiguraTon".to_string();
        assert_eq!(texts(correct(&named, &shard(&[("configuration", 900)], &[]))), "", "a name of a program");
        let mut forms = typed(&[("configuraton", 1)]);
        forms[0].word.as_mut().unwrap().has_forms = true;
        assert_eq!(texts(correct(&forms, &shard(&[("configuration", 900)], &[]))), "");
    }

    #[test]
    fn the_last_word_is_completed_where_the_likeliest_word_begins_so() {
        let whole = Spellings { begins: true, ..shard(&[("configure", 9), ("other", 9)], &[]) };
        let check =
            |words: &[(&str, u64)], want: &str| assert_eq!(texts(correct(&typed(words), &whole)), want);
        check(&[("configur", 0)], "configur*");
        check(&[("cofnigur", 0)], "configure");
        check(&[("configur", 0), ("other", 9)], "configure other");
        check(&[("zzz", 0)], "zzz*");
    }

    #[test]
    fn what_a_shard_sends_decides_as_the_whole_vocabulary_does() {
        let words: Vec<(String, u32)> = (0..400u32).map(|n| (format!("harbo{n:03}"), n % 37 + 1)).collect();
        let words: Vec<(&str, u32)> = words.iter().map(|(form, pages)| (form.as_str(), *pages)).collect();
        let whole = shard(&words, &["good harbo111", "harbo120 light"]);
        for form in ["harbo11x", "harbo10", "harb0120", "harbo999"] {
            let typed = typed(&[("good", 9), (form, 0), ("light", 50)]);
            let sent = Spellings::gather(&typed, &whole, 100, 1);
            assert!(sent.words.len() < 40, "{}", sent.words.len());
            assert_eq!(texts(correct(&typed, &sent)), texts(correct(&typed, &whole)), "{form}");
        }
    }
}
