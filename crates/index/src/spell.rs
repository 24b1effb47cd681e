//! Spells words as the indexed pages do (a noisy channel: \[Kernighan90\]).
//!
//! A word and those near it compete: each is as likely as the pages that have it are many, less what the slips between
//! it and the typed word cost. A spelling that stands beside its neighbours in titles gains. Words that no page has are
//! certain to be slips, and may be replaced at once; of words that few pages have, a likelier one is only suggested.
//!
//! INVARIANT: a word is only replaced by one that clearly more pages have.

use crate::plan::{Plan, TypedWord};
use crate::vocabulary::{Vocabulary, Word, letters};
use farol_base::query::Term;

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

/// The last word of a question may be a beginning, from so many letters on.
const BEGINNING_MIN: usize = 3;

/// Whether so few pages have a word that it may be a slip.
pub(crate) fn is_rare(pages: u64, documents: u64) -> bool {
    pages <= RARE_PAGES.max(documents / 10_000)
}

/// The wanted terms with rare words spelt as pages spell them, where any can be.
pub(crate) fn suggest(plan: &Plan, vocabulary: &Vocabulary) -> Option<Vec<Term>> {
    respell(plan, vocabulary, false)
}

/// The wanted terms with the words that no page has spelt as pages spell them, or completed, where any can be.
pub(crate) fn correct(plan: &Plan, vocabulary: &Vocabulary) -> Option<Vec<Term>> {
    respell(plan, vocabulary, true)
}

fn respell(plan: &Plan, vocabulary: &Vocabulary, only_unknown: bool) -> Option<Vec<Term>> {
    let mut changed = false;
    let mut before: Option<String> = None;
    let mut terms = Vec::with_capacity(plan.typed.len());
    for (at, typed) in plan.typed.iter().enumerate() {
        let mut term = typed.term.clone();
        let mut form = typed.word.as_ref().map(|word| word.form.clone());
        let after = plan.typed.get(at + 1).and_then(|next| Some(next.word.as_ref()?.form.as_str()));
        if let Some(word) = typed.word.as_ref()
            && if only_unknown { word.pages == 0 } else { is_rare(word.pages, vocabulary.documents) }
        {
            let context = Context { vocabulary, before: before.as_deref(), after };
            if let Some(better) = context.best(word, only_unknown) {
                term.text = better.shown.to_string();
                form = Some(better.form.to_string());
                changed = true;
            } else if only_unknown && at + 1 == plan.typed.len() && is_beginning(&word.form, vocabulary) {
                term.text = format!("{}*", typed.term.text);
                changed = true;
            }
        }
        before = form;
        terms.push(term);
    }
    changed.then_some(terms)
}

fn is_beginning(form: &str, vocabulary: &Vocabulary) -> bool {
    let start = vocabulary.words.partition_point(|word| *word.form < *form);
    form.chars().count() >= BEGINNING_MIN
        && vocabulary.words.get(start).is_some_and(|word| word.form.starts_with(form))
}

/// A place in a question.
struct Context<'v> {
    vocabulary: &'v Vocabulary,
    before: Option<&'v str>,
    after: Option<&'v str>,
}

impl<'v> Context<'v> {
    /// The likeliest spelling, where it is not the typed one.
    fn best(&self, typed: &TypedWord, certain: bool) -> Option<&'v Word> {
        let best = self.likeliest(&typed.form, self.own(typed, certain))?;
        // Of a word that is a slip itself, what it stands for.
        let pages = u64::from(best.pages);
        if is_rare(pages, self.vocabulary.documents) {
            let itself = TypedWord { form: best.form.to_string(), pages, has_forms: false };
            if let Some(right) = self.likeliest(&best.form, self.own(&itself, false))
                && slips(&typed.form, &right.form, 3).is_some()
            {
                return Some(right);
            }
        }
        Some(best)
    }

    fn own(&self, typed: &TypedWord, certain: bool) -> f64 {
        match typed.pages {
            0 if certain => UNKNOWN_CERTAIN,
            0 => UNKNOWN,
            pages => {
                (pages as f64).ln() + self.gain(&typed.form) + if typed.has_forms { HAS_FORMS } else { 0.0 }
            }
        }
    }

    /// The word near a form that is likelier than `own` and than all others.
    fn likeliest(&self, form: &str, own: f64) -> Option<&'v Word> {
        let slips_max: u32 = match form.chars().count() {
            0..=3 => return None,
            4 | 5 => 1,
            _ => 2,
        };
        let wanted = letters(form);
        let mut best: Option<(f64, &Word)> = None;
        for word in &self.vocabulary.words {
            // The least that a slip costs, before the slips are looked at.
            let most = f64::from(word.pages).ln() - EASY_SLIP + 2.0 * BESIDE;
            if (wanted ^ word.letters).count_ones() > 2 * slips_max
                || most <= best.map_or(own, |(score, _)| score)
                || *word.form == *form
            {
                continue;
            }
            let Some(cost) = slips(form, &word.form, slips_max) else { continue };
            let score = f64::from(word.pages).ln() - cost + self.gain(&word.form);
            if score > best.map_or(own, |(known, _)| known) {
                best = Some((score, word));
            }
        }
        best.map(|(_, word)| word)
    }

    fn gain(&self, form: &str) -> f64 {
        let stands = |phrase: String| {
            let completions = &self.vocabulary.completions;
            completions.binary_search_by(|entry| (*entry.key).cmp(phrase.as_str())).is_ok()
        };
        let before = self.before.is_some_and(|before| stands(format!("{before} {form}")));
        let after = self.after.is_some_and(|after| stands(format!("{form} {after}")));
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
    use crate::testing::{TestShard, page, page_in, written};

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

    fn shard() -> TestShard {
        let mut pages: Vec<_> = (0..4)
            .map(|n| page(&format!("http://h{n}/"), "The lighthouse", &format!("about light {n}")))
            .collect();
        pages.extend(
            (0..4).map(|n| page_in("pt", &format!("http://p{n}/"), "Instalação", &format!("corpo {n}"))),
        );
        TestShard::new(&pages)
    }

    #[test]
    fn words_that_no_page_has_are_spelt_as_pages_spell_them() {
        let shard = shard();
        let check = |words: &str, want: Option<&str>| {
            let answer = shard.ask(words);
            assert_eq!(answer.corrected.map(|query| written(&query)).as_deref(), want, "{words}");
        };
        check("lighthuose", Some("lighthouse"));
        check("the ligthouse \"about light\"", Some("the lighthouse \"about light\""));
        check("ligthouse abuot", Some("lighthouse about")); // Several at once.
        check("ligthouse -instalação", Some("lighthouse -instalação")); // All else stays.
        check("instalacão", None); // Found already, accents or not.
        check("instelacao", Some("instalação"));
        check("lighthouse", None);
        check("lit", None); // Too short to tell.
        check("zzzzzzzz", None);
        check("lightho", Some("lightho*")); // A beginning.
        check("\"lighthuose\"", None); // What is quoted is meant.
        let found = shard.ask("lighthuose");
        assert_eq!((found.hits.len(), found.suggestion), (4, None));
    }

    #[test]
    fn words_as_written_are_left_alone() {
        let shard = shard();
        let mut query = crate::testing::query("lighthuose", Default::default());
        query.as_written = true;
        let answer = shard.ask_query(query);
        assert_eq!((answer.hits.len(), answer.corrected), (0, None));
        assert_eq!(answer.suggestion.map(|query| written(&query)).as_deref(), Some("lighthouse"));
    }

    #[test]
    fn a_rare_slip_does_not_win_over_the_right_word_nor_is_it_replaced_unasked() {
        let mut pages: Vec<_> = (0..40)
            .map(|n| page(&format!("http://r{n}/"), "Settings", &format!("the configuration {n}")))
            .collect();
        for n in 0..3 {
            pages.push(page(&format!("http://w{n}/"), "Notes", &format!("the configuraton {n}")));
        }
        // A rare word that is one: it has other forms.
        pages.push(page("http://x/", "Texts", "a formal text"));
        pages.push(page("http://y/", "Texts", "it is formally right"));
        pages.extend((0..30).map(|n| page(&format!("http://f{n}/"), "File", &format!("the format {n}"))));
        let shard = TestShard::new(&pages);
        let suggested = |words: &str| shard.ask(words).suggestion.map(|query| written(&query));
        let answer = shard.ask("configuraton");
        assert_eq!((answer.corrected, answer.hits.len()), (None, 3));
        assert_eq!(suggested("configuraton").as_deref(), Some("configuration"));
        // One slip from the slip, two from the word.
        let answer = shard.ask("configurato");
        assert_eq!(answer.corrected.map(|query| written(&query)).as_deref(), Some("configuration"));
        assert_eq!(suggested("formal"), None);
    }

    #[test]
    fn neighbours_in_titles_decide_between_likely_words() {
        let mut pages = Vec::new();
        for n in 0..6 {
            pages.push(page(&format!("http://a{n}/"), "Harbour light", &format!("of the coast {n}")));
            pages.push(page(&format!("http://b{n}/"), "Good night", &format!("of the coast {n}{n}")));
        }
        let shard = TestShard::new(&pages);
        let check = |words: &str, want: &str| {
            let answer = shard.ask(words);
            assert_eq!(answer.corrected.map(|query| written(&query)).as_deref(), Some(want), "{words}");
        };
        check("harbour xight", "harbour light");
        check("good xight", "good night");
    }
}
