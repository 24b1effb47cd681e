//! The words and title phrases of an index, held in memory for spelling and completion.
//!
//! Built from one commit: at once where the index is small, otherwise by a thread in the background while the
//! one before is used on; a new one is begun when the index has grown by a tenth or a minute has passed.
//!
//! INVARIANT: at most [`WORDS_MAX`] words and [`PHRASES_MAX`] phrases: 300,000 × about 100 bytes = 30 MB.

use crate::error::Error;
use crate::searcher::View;
use crate::text::fold;
use crate::text::spans::{Script, Spans};
use crate::text::stop;
use farol_base::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, InvertedIndexReader, SegmentReader, TERMINATED};

/// Words kept, those on most pages first.
const WORDS_MAX: usize = 150_000;

/// Title phrases kept, the most frequent first.
const PHRASES_MAX: usize = 150_000;

/// Distinct words counted while building: 2 million × about 60 bytes = 120 MB for a moment at worst.
const SCANNED_MAX: usize = 2_000_000;

/// Pages of a word that are looked at one by one to leave out deleted ones.
const COUNTED_MAX: u32 = 50;

/// Words of a phrase.
const PHRASE_WORDS_MAX: usize = 5;

/// A phrase counts this many times its titles, beside words that count their pages.
const PHRASE_WEIGHT: u32 = 4;

/// Up to this many pages a vocabulary is built while the caller waits: some 20 ms.
const SMALL_PAGES: u64 = 2_000;

/// A vocabulary is used at least this long before the next one is built.
const AGE_MIN: Duration = Duration::from_secs(60);

/// A word as pages spell it.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    /// Folded.
    pub form: Box<str>,
    /// As titles write it, in lower case.
    pub shown: Box<str>,
    /// Pages that have it.
    pub pages: u32,
    /// A bit for each letter it has, see [`letters`].
    pub letters: u32,
    /// Some title has it.
    pub is_in_title: bool,
}

/// A word or phrase that completes what is typed.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    /// Folded words with a space between them.
    pub key: Box<str>,
    pub shown: Box<str>,
    /// How likely it is meant: pages of a word, four times the titles of a phrase.
    pub weight: u32,
}

/// The words and phrases of one commit.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    generation: u64,
    pub documents: u64,
    /// Sorted by form.
    pub words: Vec<Word>,
    /// Words and phrases, sorted by key.
    pub completions: Vec<Completion>,
}

impl Vocabulary {
    fn build(view: &View) -> Result<Vocabulary, Error> {
        let mut shown = SpellingVotes::default();
        let mut phrases: HashMap<String, (String, u32)> = HashMap::new();
        read_titles(view, &mut shown, &mut phrases)?;
        let mut words = count_words(view)?;
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        words.truncate(WORDS_MAX);
        let mut words: Vec<Word> = words
            .into_iter()
            .map(|(form, pages)| Word {
                shown: shown
                    .0
                    .get(&form)
                    .map_or_else(|| form.as_str().into(), |(shown, _)| shown.as_str().into()),
                pages,
                letters: letters(&form),
                is_in_title: shown.0.contains_key(&form),
                form: form.into(),
            })
            .collect();
        words.sort_unstable_by(|a, b| a.form.cmp(&b.form));
        let mut phrases: Vec<Completion> = phrases
            .into_iter()
            .map(|(key, (shown, titles))| Completion {
                key: key.into(),
                shown: shown.into(),
                weight: titles.saturating_mul(PHRASE_WEIGHT),
            })
            .collect();
        phrases.sort_unstable_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.key.cmp(&b.key)));
        phrases.truncate(PHRASES_MAX);
        let single = words.iter().map(|word| Completion {
            key: word.form.clone(),
            shown: word.shown.clone(),
            weight: word.pages,
        });
        let mut completions: Vec<Completion> = single.chain(phrases).collect();
        completions.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(Vocabulary { generation: view.generation, documents: view.documents, words, completions })
    }
}

/// A set of the letters of a word; two words within n edits differ in at most 2n of its bits.
pub(crate) fn letters(form: &str) -> u32 {
    form.chars().fold(0, |set, c| set | 1 << (c as u32 % 32))
}

/// How words are spelt in titles, by Boyer–Moore majority vote: one candidate and one counter per word.
#[derive(Default)]
struct SpellingVotes(HashMap<String, (String, u32)>);

impl SpellingVotes {
    fn vote(&mut self, form: &str, spelling: &str) {
        let room = self.0.len() < SCANNED_MAX;
        match self.0.get_mut(form) {
            Some((leader, votes)) if leader == spelling => *votes += 1,
            Some((_, votes)) if *votes > 0 => *votes -= 1,
            Some(leader) => *leader = (spelling.to_string(), 1),
            None if room => {
                self.0.insert(form.to_string(), (spelling.to_string(), 1));
            }
            None => {}
        }
    }
}

/// Pages per plain word, over all segments.
fn count_words(view: &View) -> Result<Vec<(String, u32)>, Error> {
    let mut counts: HashMap<String, u32> = HashMap::new();
    for segment in view.searcher.segment_readers() {
        let index = segment.inverted_index(view.fields.words).map_err(Error::engine("open a segment"))?;
        let mut stream = index.terms().stream().map_err(Error::engine("list its words"))?;
        // In a large segment a word on a single page is more often a slip than a word.
        let pages_min = if segment.max_doc() > 5_000 { 2 } else { 1u32 };
        while let Some((term, info)) = stream.next() {
            let Some(word) = std::str::from_utf8(term).ok().filter(|word| is_plain(word)) else { continue };
            let pages = pages_alive(segment, &index, info)?;
            if pages < pages_min {
                continue;
            }
            let room = counts.len() < SCANNED_MAX;
            match counts.get_mut(word) {
                Some(sum) => *sum = sum.saturating_add(pages),
                None if room => {
                    counts.insert(word.to_string(), pages);
                }
                None => {}
            }
        }
    }
    Ok(counts.into_iter().collect())
}

/// The pages of a word that were not deleted: counted where few have it, otherwise about.
fn pages_alive(segment: &SegmentReader, index: &InvertedIndexReader, info: &TermInfo) -> Result<u32, Error> {
    let Some(alive) = segment.alive_bitset() else { return Ok(info.doc_freq) };
    if info.doc_freq > COUNTED_MAX {
        let share = f64::from(segment.num_docs()) / f64::from(segment.max_doc().max(1));
        return Ok((f64::from(info.doc_freq) * share).round() as u32);
    }
    let mut postings = index
        .read_postings_from_terminfo(info, IndexRecordOption::Basic)
        .map_err(Error::engine("count the pages of a word"))?;
    let mut pages = 0;
    while postings.doc() != TERMINATED {
        pages += u32::from(alive.is_alive(postings.doc()));
        postings.advance();
    }
    Ok(pages)
}

/// Whether a word is worth offering: letters of a spaced script, neither very short nor very long.
fn is_plain(word: &str) -> bool {
    let chars = word.chars().count();
    (2..=24).contains(&chars)
        && word.chars().all(char::is_alphabetic)
        && Spans::new(word).next().is_some_and(|span| span.script == Script::Spaced)
}

/// Spellings and phrases from the titles of all pages.
fn read_titles(
    view: &View,
    shown: &mut SpellingVotes,
    phrases: &mut HashMap<String, (String, u32)>,
) -> Result<(), Error> {
    for segment in view.searcher.segment_readers() {
        let column =
            segment.fast_fields().str("shown_title").map_err(Error::engine("read the titles of pages"))?;
        let Some(column) = column else { continue };
        let mut pages = vec![0u32; column.num_terms()];
        for doc in segment.doc_ids_alive() {
            if let Some(ordinal) = column.ords().first(doc)
                && let Some(count) = pages.get_mut(ordinal as usize)
            {
                *count += 1;
            }
        }
        let mut stream = column.dictionary().stream().map_err(Error::engine("list its titles"))?;
        let mut ordinal = 0;
        while stream.advance() {
            let count = pages.get(ordinal).copied().unwrap_or(0);
            ordinal += 1;
            if count > 0
                && let Ok(title) = std::str::from_utf8(stream.key())
            {
                read_title(title, count, shown, phrases);
            }
        }
    }
    Ok(())
}

fn read_title(
    title: &str,
    count: u32,
    shown: &mut SpellingVotes,
    phrases: &mut HashMap<String, (String, u32)>,
) {
    let mut words: Vec<(String, String)> = Vec::new();
    for span in Spans::new(title).take(32) {
        let mut lowered = String::new();
        fold::lower(&title[span.start..span.end], &mut lowered);
        let mut form = String::new();
        fold::fold(&lowered, &mut form);
        if span.script == Script::Spaced {
            shown.vote(&form, &lowered);
        }
        words.push((form, lowered));
    }
    for start in 0..words.len() {
        let (mut key, mut text) = (String::new(), String::new());
        for (number, (form, lowered)) in words[start..].iter().take(PHRASE_WORDS_MAX).enumerate() {
            if number > 0 {
                key.push(' ');
                text.push(' ');
            }
            key.push_str(form);
            text.push_str(lowered);
            // "guide to the" completes nothing.
            if number == 0 || stop::is_stop_word_anywhere(lowered) {
                continue;
            }
            let room = phrases.len() < SCANNED_MAX / 2;
            match phrases.get_mut(&key) {
                Some((_, weight)) => *weight += count,
                None if room => {
                    phrases.insert(key.clone(), (text.clone(), count));
                }
                None => {}
            }
        }
    }
}

/// Keeps the vocabulary that is in use, and renews it.
#[derive(Default)]
pub(crate) struct VocabularySlot(Arc<Mutex<SlotState>>);

#[derive(Default)]
struct SlotState {
    current: Arc<Vocabulary>,
    built: Option<Instant>,
    building: bool,
}

impl VocabularySlot {
    /// The vocabulary for a commit, or a slightly older one while the next is built.
    pub(crate) fn get(&self, view: &Arc<View>) -> Arc<Vocabulary> {
        let mut state = self.0.lock();
        if state.current.generation == view.generation && state.built.is_some() || state.building {
            return state.current.clone();
        }
        if view.documents <= SMALL_PAGES {
            install(&mut state, Vocabulary::build(view));
            return state.current.clone();
        }
        let grown = view.documents > state.current.documents + state.current.documents / 10;
        if grown || state.built.is_none_or(|built| built.elapsed() >= AGE_MIN) {
            state.building = true;
            let (slot, view) = (self.0.clone(), view.clone());
            let spawned = std::thread::Builder::new().name("vocabulary".to_string()).spawn(move || {
                let built = Vocabulary::build(&view);
                install(&mut slot.lock(), built);
            });
            if let Err(error) = spawned {
                tracing::warn!(%error, "no thread for the vocabulary");
                state.building = false;
            }
        }
        state.current.clone()
    }
}

fn install(state: &mut SlotState, built: Result<Vocabulary, Error>) {
    state.building = false;
    state.built = Some(Instant::now());
    match built {
        Ok(vocabulary) => state.current = Arc::new(vocabulary),
        Err(error) => tracing::warn!(%error, "the vocabulary could not be built"),
    }
}
