//! Shows why a page was found: its title and the passage that holds most of the words, both marked.
//!
//! The stored text is analysed again as the page was when it was indexed, so other forms of a word and words
//! with accents are marked too.
//!
//! INVARIANT: the fragments of a snippet joined are at most [`SNIPPET_CHARS_MAX`] characters and a few dots.
//! Does not escape anything: fragments are plain text.

use crate::limits::cut;
use crate::plan::{ClauseKind, Plan};
use crate::stored::StoredDocument;
use crate::text::spans::{Script, Spans};
use crate::text::stem::{STEM_MARK, Stemmer};
use crate::text::{Analyser, Role, Tokens, fold, stop};
use farol_base::query::Fragment;
use farol_base::{Language, Shown};
use std::collections::{HashMap, HashSet};

/// Characters of a snippet.
pub(crate) const SNIPPET_CHARS_MAX: usize = 240;

/// Characters of a title that are shown.
const TITLE_CHARS_MAX: usize = 160;

/// Bytes of a text that are searched for a passage at a time: about 1 ms.
const SEARCHED_BYTES_MAX: usize = 64 * 1024;

/// Marked words of a body that are compared.
const MARKS_MAX: usize = 1_000;

/// Languages whose stemmers cut beginnings too.
const CUTS_BEGINNINGS: &[&str] = &["ar", "nl", "ta"];

/// Separates two passages, and where a text was cut.
const DOTS: &str = "…";

/// Title and snippet of a page, the words of the question marked.
pub(crate) struct Highlighted {
    pub title: Vec<Fragment>,
    pub snippet: Vec<Fragment>,
}

/// Highlights the words of a question, by form and by stem; function words only where there are no others, or within a
/// phrase.
#[derive(Default)]
pub(crate) struct Highlighter {
    forms: HashMap<String, usize>,
    stems: HashMap<String, usize>,
    /// Forms that a phrase has.
    in_phrases: HashSet<String>,
    only_stop_words: bool,
    weights: Vec<f32>,
}

/// Analyses the texts of one page.
struct PageAnalyser {
    words: Analyser,
    language: Option<Language>,
    /// Where any stem was asked for.
    stemmer: Option<Stemmer>,
    /// First letters of the stems asked for; a word that begins otherwise need not be stemmed. Empty where the
    /// language's stemmer also cuts beginnings.
    initials: Vec<char>,
}

/// A word of the question in a text.
#[derive(Clone, Copy, Debug)]
struct Highlight {
    start: usize,
    end: usize,
    clause: usize,
}

impl Highlighter {
    pub(crate) fn new(plan: &Plan) -> Highlighter {
        let mut highlighter = Highlighter::default();
        // Words that only hold a sentence together are not what a reader looks for.
        for clause in plan.clauses.iter().chain(&plan.loose).filter(|clause| clause.required) {
            let number = highlighter.weights.len();
            highlighter.weights.push(clause.idf.max(0.1));
            for kind in [&clause.kind].into_iter().chain(&clause.spellings) {
                highlighter.add(kind, number);
            }
        }
        highlighter.only_stop_words = highlighter.forms.keys().all(|form| stop::is_stop_word_anywhere(form));
        highlighter
    }

    fn add(&mut self, kind: &ClauseKind, number: usize) {
        match kind {
            ClauseKind::Word { form, stems } => {
                self.forms.entry(form.clone()).or_insert(number);
                for stem in stems {
                    self.stems.entry(stem.clone()).or_insert(number);
                }
            }
            ClauseKind::Phrase { parts } => {
                for (_, form) in parts {
                    self.forms.entry(form.clone()).or_insert(number);
                    self.in_phrases.insert(form.clone());
                }
            }
            ClauseKind::AnyOf(kinds) => kinds.iter().for_each(|(kind, _)| self.add(kind, number)),
        }
    }

    /// Title and snippet of a page.
    pub(crate) fn highlight(&self, page: &StoredDocument<'_>) -> Highlighted {
        let mut analyser = self.analyser(page.language);
        let title = if page.title.trim().is_empty() { page.url } else { page.title };
        let title_end = end_after_chars(title, 0, TITLE_CHARS_MAX);
        let title_marks = self.marks(&title[..title_end], &mut analyser);
        let mut shown = Highlighted { title: vec![], snippet: vec![] };
        push_passage(&mut shown.title, title, 0, title_end, &title_marks);
        if title_end < title.len() {
            push(&mut shown.title, DOTS, false);
        }
        if page.shown != Shown::Passage {
            // What is not to be shown is not read either.
            if let Shown::Lead(lead) = &page.shown {
                self.push_opening(&mut shown.snippet, lead, &mut analyser);
            }
            return shown;
        }
        // Of the main text first; what stands around it where that has none of the words.
        'texts: for mut text in [page.body, page.rest] {
            while !text.is_empty() {
                let searched = cut(text, SEARCHED_BYTES_MAX);
                let marks = self.marks(searched, &mut analyser);
                if !marks.is_empty() {
                    shown.snippet = self.passages(text, searched.len(), &marks);
                    break 'texts;
                }
                text = &text[searched.len()..];
            }
        }
        if shown.snippet.is_empty() {
            let texts = [page.description, page.body, page.headings];
            if let Some(text) = texts.into_iter().find(|text| !text.trim().is_empty()) {
                self.push_opening(&mut shown.snippet, text, &mut analyser);
            }
        }
        shown
    }

    /// The beginning of a text.
    fn push_opening(&self, snippet: &mut Vec<Fragment>, text: &str, analyser: &mut PageAnalyser) {
        let start = text.len() - text.trim_start().len();
        let end = end_after_chars(text, start, SNIPPET_CHARS_MAX);
        let marks = self.marks(&text[..end], analyser);
        push_passage(snippet, text, start, end, &marks);
        if !text[end..].trim().is_empty() {
            push(snippet, DOTS, false);
        }
    }

    fn analyser(&self, language: Option<Language>) -> PageAnalyser {
        let code = language.as_ref().map_or("", Language::code);
        let prefix = format!("{STEM_MARK}{code}");
        let initials = self.stems.keys().filter_map(|stem| stem.strip_prefix(&prefix)?.chars().next());
        let mut initials: Vec<char> = initials.collect();
        let stemmer = language.filter(|_| !initials.is_empty()).and_then(Stemmer::new);
        if CUTS_BEGINNINGS.contains(&code) {
            initials.clear();
        }
        PageAnalyser { words: Analyser::new(None), language, stemmer, initials }
    }

    /// The clause that a word of a text belongs to by its stem.
    fn clause_by_stem(&self, analyser: &PageAnalyser, word: &str, form: &str) -> Option<&usize> {
        let stemmer = analyser.stemmer.as_ref()?;
        let initial = form.chars().next()?;
        if !analyser.initials.is_empty() && !analyser.initials.contains(&initial) {
            return None;
        }
        let mut lowered = String::new();
        fold::lower(word, &mut lowered);
        self.stems.get(&stemmer.stem_once(&lowered))
    }

    /// The words of the question in a text, in order, not overlapping.
    fn marks(&self, text: &str, analyser: &mut PageAnalyser) -> Vec<Highlight> {
        let mut marks: Vec<Highlight> = Vec::new();
        let mut tokens = Tokens::default();
        for span in Spans::new(text) {
            tokens.clear();
            analyser.words.read(text, span, 0, &mut tokens);
            for token in tokens.as_slice() {
                let known = match (span.script, token.role) {
                    (Script::Spaced, Role::Whole | Role::Joined) => {
                        let word = &text[token.start..token.end];
                        self.forms
                            .get(&token.text)
                            .or_else(|| self.clause_by_stem(analyser, word, &token.text))
                    }
                    _ => self.forms.get(&token.text),
                };
                let Some(&clause) = known else { continue };
                if self.is_loose_stop_word(text, token.start, token.end, &token.text, analyser, &marks) {
                    continue;
                }
                match marks.last_mut() {
                    // Overlapping pairs of a dense run are one mark; parts of a marked word are marked with it.
                    Some(last) if last.end > token.start => last.end = last.end.max(token.end),
                    _ => marks.push(Highlight { start: token.start, end: token.end, clause }),
                }
            }
            if marks.len() >= MARKS_MAX {
                break;
            }
        }
        marks
    }

    /// Whether a word found is a function word of the page's language that does not follow another word of its phrase.
    fn is_loose_stop_word(
        &self,
        text: &str,
        start: usize,
        end: usize,
        form: &str,
        analyser: &PageAnalyser,
        marks: &[Highlight],
    ) -> bool {
        let Some(language) = analyser.language.filter(|_| !self.only_stop_words) else { return false };
        let mut lowered = String::new();
        fold::lower(&text[start..end], &mut lowered);
        if !stop::is_stop_word(language, &lowered) {
            return false;
        }
        let follows = || {
            marks.last().and_then(|last| text.get(last.end..start)).is_some_and(|gap| gap.trim().is_empty())
        };
        let leads = || {
            let next = Spans::new(&text[end..]).next().map(|span| end + span.start..end + span.end);
            next.is_some_and(|next| self.in_phrases.contains(&fold::folded(&text[next])))
        };
        !(self.in_phrases.contains(form) && (follows() || leads()))
    }

    /// One passage that holds all words found, or two that hold more of them.
    fn passages(&self, text: &str, searched: usize, marks: &[Highlight]) -> Vec<Fragment> {
        let present = clauses_of(marks);
        let whole = self.best_window(text, marks, SNIPPET_CHARS_MAX, &[]);
        let mut ranges = vec![];
        if clauses_of(&marks[whole.clone()]).len() < present.len() {
            let half = SNIPPET_CHARS_MAX / 2 - 2;
            let first = self.best_window(text, marks, half, &[]);
            let seen = clauses_of(&marks[first.clone()]);
            let second = self.best_window(text, marks, half, &seen);
            let ordered = if first.start <= second.start { [first, second] } else { [second, first] };
            ranges.extend(ordered.map(|window| around(text, &marks[window], half)));
            if ranges[0].1 >= ranges[1].0 {
                ranges.clear();
            }
        }
        if ranges.is_empty() {
            ranges.push(around(text, &marks[whole], SNIPPET_CHARS_MAX));
        }
        let mut out = Vec::new();
        for (number, (start, end)) in ranges.iter().copied().enumerate() {
            if start > 0 && (number > 0 || !begins_sentence(text, start)) {
                push(&mut out, if number > 0 { " … " } else { "… " }, false);
            }
            push_passage(&mut out, text, start, end.min(searched.max(end)), marks);
        }
        let end = ranges.last().map_or(0, |range| range.1);
        if !text[end..].trim().is_empty() && !ends_sentence(text, end) {
            push(&mut out, " …", false);
        }
        out
    }

    /// The run of marks within `chars` characters whose clauses weigh most; clauses already seen weigh nothing.
    fn best_window(
        &self,
        text: &str,
        marks: &[Highlight],
        chars: usize,
        seen: &[usize],
    ) -> std::ops::Range<usize> {
        let mut best = (f32::MIN, 0..1);
        for first in 0..marks.len() {
            let limit = end_after_chars(text, marks[first].start, chars);
            let mut clauses: Vec<usize> = Vec::new();
            let mut score = 0.0;
            let mut last = first;
            while last < marks.len() && marks[last].end <= limit.max(marks[first].end) {
                let clause = marks[last].clause;
                let new = !clauses.contains(&clause) && !seen.contains(&clause);
                // Repetition says a little; new words say most, and more when they follow closely.
                score += if new { self.weights[clause] } else { 0.02 };
                if new {
                    clauses.push(clause);
                    if last > first && marks[last].start <= marks[last - 1].end + 2 {
                        score += 0.2;
                    }
                }
                last += 1;
                if last - first >= 64 {
                    break;
                }
            }
            if score > best.0 {
                best = (score, first..last.max(first + 1));
            }
        }
        best.1
    }
}

fn clauses_of(marks: &[Highlight]) -> Vec<usize> {
    let mut clauses: Vec<usize> = marks.iter().map(|mark| mark.clause).collect();
    clauses.sort_unstable();
    clauses.dedup();
    clauses
}

/// Widens a run of marks to a passage of `chars` characters, from a sentence's or a word's beginning.
fn around(text: &str, marks: &[Highlight], chars: usize) -> (usize, usize) {
    let (first, last) = (marks[0].start, marks[marks.len() - 1].end);
    let used = text[first..last].chars().count();
    let room = chars.saturating_sub(used);
    // A sentence that begins within two thirds of the room is taken from its beginning.
    let back = start_before_chars(text, first, room * 2 / 3);
    let sentence = text[back..first]
        .char_indices()
        .map(|(at, _)| back + at)
        .find(|at| begins_sentence(text, *at) && !text[*at..].starts_with(char::is_whitespace));
    let start = if back == 0 { 0 } else { sentence.unwrap_or_else(|| word_start(text, first, room / 3)) };
    let taken = text[start..last].chars().count();
    let end = end_after_chars(text, last, chars.saturating_sub(taken));
    (start, end)
}

fn begins_sentence(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t', '\u{A0}']);
    before.is_empty() || before.ends_with(['.', '!', '?', '\n', '。', '！', '？', '…', ':'])
}

fn ends_sentence(text: &str, at: usize) -> bool {
    text[..at].trim_end().ends_with(['.', '!', '?', '。', '！', '？'])
}

/// The offset `chars` characters before another one, or the text's beginning.
fn start_before_chars(text: &str, at: usize, chars: usize) -> usize {
    text[..at].char_indices().rev().take(chars).last().map_or(at, |(start, _)| start)
}

/// The beginning of a word at most `chars` characters before an offset.
fn word_start(text: &str, at: usize, chars: usize) -> usize {
    let back = start_before_chars(text, at, chars);
    let space = text[back..at].find(char::is_whitespace);
    space.map_or(at, |space| {
        let from = back + space;
        from + (text[from..].len() - text[from..].trim_start().len())
    })
}

/// The offset at most `chars` characters after another one, at the end of a word where one is near.
fn end_after_chars(text: &str, at: usize, chars: usize) -> usize {
    let Some((limit, _)) = text[at..].char_indices().nth(chars) else { return text.len() };
    let limit = at + limit;
    if text[limit..].starts_with(char::is_whitespace) {
        return limit;
    }
    let near = start_before_chars(text, limit, 24).max(at);
    match text[near..limit].rfind(char::is_whitespace) {
        Some(space) => near + space,
        None => limit,
    }
}

/// Appends a passage with its marked words.
fn push_passage(out: &mut Vec<Fragment>, text: &str, start: usize, end: usize, marks: &[Highlight]) {
    let mut at = start;
    for mark in marks.iter().filter(|mark| mark.start >= start && mark.end <= end) {
        push(out, &text[at..mark.start], false);
        push(out, &text[mark.start..mark.end], true);
        at = mark.end;
    }
    push(out, &text[at..end], false);
}

/// Appends text, spaces collapsed, control characters dropped.
fn push(out: &mut Vec<Fragment>, text: &str, hit: bool) {
    let mut spaced = out.last().is_none_or(|last| last.text.ends_with(' '));
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() {
            if !spaced {
                clean.push(' ');
            }
            spaced = true;
        } else if !c.is_control() {
            clean.push(c);
            spaced = false;
        }
    }
    match out.last_mut() {
        _ if clean.is_empty() => {}
        Some(last) if last.hit == hit && !hit => last.text.push_str(&clean),
        _ => out.push(Fragment { text: clean, hit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, page_in};
    use farol_base::Document;
    use proptest::prelude::*;

    fn text(fragments: &[Fragment]) -> String {
        fragments.iter().map(|f| if f.hit { format!("[{}]", f.text) } else { f.text.clone() }).collect()
    }

    #[track_caller]
    fn check(document: Document, words: &str, title: &str, snippet: &str) {
        let answer = TestShard::new(&[document]).ask(words);
        assert_eq!(
            (text(&answer.hits[0].title).as_str(), text(&answer.hits[0].snippet).as_str()),
            (title, snippet)
        );
    }

    #[test]
    fn marks_other_forms_and_accents() {
        let document = page_in("pt", "http://a/", "As instalações", "Guia de instalação. Leia antes!");
        check(document, "instalacao", "As [instalações]", "Guia de [instalação]. Leia antes!");
        let document = page("http://a/", "Running", "He runs C++ and fn_name.\n\nEnd");
        check(document.clone(), "running", "[Running]", "He [runs] C++ and fn_name. End");
        check(document, "C++ name", "Running", "He runs [C++] and fn_[name]. End");
        check(
            page_in("ja", "http://a/", "東京", "私は東京都に行く"),
            "東京都",
            "[東京]",
            "私は[東京都]に行く",
        );
    }

    #[test]
    fn function_words_are_marked_only_where_they_are_all_there_is_or_within_a_phrase() {
        let document = page("http://a/", "The Light of the Cape", "He saw the light of the cape.");
        check(
            document.clone(),
            "the light of cape",
            "The [Light] of the [Cape]",
            "He saw the [light] of the [cape].",
        );
        check(document, "of the", "[The] Light [of] [the] Cape", "He saw [the] light [of] [the] cape.");
        let document = page_in("pt", "http://a/", "A luz do cabo", "Ele viu a luz do cabo.");
        check(document, "a luz do farol", "A [luz] do cabo", "Ele viu a [luz] do cabo.");
    }

    #[test]
    fn chooses_the_passage_with_most_words() {
        let filler = "Nothing of interest stands in this sentence at all. ".repeat(20);
        let body = format!("A harbour. {filler}The lighthouse of the harbour shines far. {filler}");
        let answer = TestShard::new(&[page("http://a/", "Sea", &body)]).ask("harbour lighthouse");
        let snippet = text(&answer.hits[0].snippet);
        assert!(snippet.contains("The [lighthouse] of the [harbour] shines far."), "{snippet}");
        assert!(snippet.chars().count() <= SNIPPET_CHARS_MAX + 12, "{snippet}");
    }

    #[test]
    fn two_passages_where_words_are_far_apart() {
        let filler = "Nothing of interest stands in this sentence at all. ".repeat(20);
        let body = format!("{filler}A harbour lies here. {filler}The lighthouse shines. {filler}");
        let answer = TestShard::new(&[page("http://a/", "Sea", &body)]).ask("lighthouse harbour");
        let snippet = text(&answer.hits[0].snippet);
        assert!(snippet.contains("[harbour]") && snippet.contains("[lighthouse]"), "{snippet}");
        assert!(snippet.contains(" … ") && snippet.chars().count() <= SNIPPET_CHARS_MAX + 16, "{snippet}");
    }

    #[test]
    fn falls_back_to_the_description_and_to_the_url() {
        let document = Document { description: "What it is.".into(), ..page("http://a/x", "", "Body text") };
        check(document, "u:x", "http://a/[x]", "What it is.");
        check(page("http://a/x", "T", "Body text"), "u:x", "T", "Body text");
    }

    #[test]
    fn what_is_not_to_be_shown_is_found_and_not_shown() {
        let body = "the harbour lighthouse shines";
        let nothing = Document {
            shown: Shown::Nothing,
            description: "Secret.".into(),
            ..page("http://a/", "Sea", body)
        };
        check(nothing, "harbour", "Sea", "");
        let lead = Document {
            shown: Shown::Lead("The Harbour, by night.".into()),
            ..page("http://a/", "Sea", body)
        };
        check(lead.clone(), "harbour", "Sea", "The [Harbour], by night.");
        check(lead, "lighthouse", "Sea", "The Harbour, by night.");
    }

    #[test]
    fn shows_what_stands_around_the_main_text_where_that_has_none_of_the_words() {
        let document = Document {
            rest: "Chapters\nThe harbour lights\nThe sea".into(),
            ..page("http://a/", "Light", "A lighthouse.")
        };
        check(document.clone(), "harbour", "Light", "Chapters The [harbour] lights The sea");
        check(document, "lighthouse", "Light", "A [lighthouse].");
        let long = "Nothing of interest. ".repeat(2 * SEARCHED_BYTES_MAX / 20);
        let answer = TestShard::new(&[page("http://a/", "Sea", &format!("{long}The pier."))]).ask("pier");
        assert!(text(&answer.hits[0].snippet).ends_with("The [pier]."));
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(body in "(\\PC|\n| |light|harbour){0,600}", words in "light|harbour|\\PC{1,4}") {
            let mut forms = HashMap::new();
            forms.insert(crate::text::fold::folded(&words), 0);
            let highlighter = Highlighter { forms, weights: vec![1.0], ..Highlighter::default() };
            let document = page("http://a/", &body, &body);
            let bytes = crate::stored::encode(&document);
            let shown = highlighter.highlight(&StoredDocument::decode(&bytes).unwrap());
            let chars = |fragments: &[Fragment]| fragments.iter().map(|f| f.text.chars().count()).sum::<usize>();
            prop_assert!(chars(&shown.snippet) <= SNIPPET_CHARS_MAX + 16);
            prop_assert!(chars(&shown.title) <= TITLE_CHARS_MAX + 2);
        }
    }
}
