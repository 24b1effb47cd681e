//! Words of a packet as numbers: a list of them, frequent ones first, and each text as places in it.
//!
//! INVARIANT: a text of words with single spaces between them is the same after writing and reading. What a word is, is
//! decided by whoever cuts the texts (`farol_index`); here a word is what stands between spaces.

use super::Texts;
use farol_base::codec::{DecodeError, Decoder, put_bytes, put_varint};
use std::collections::HashMap;

/// Words of the texts of many pages, each once.
#[derive(Debug, Default)]
pub(super) struct WordList<'a> {
    numbers: HashMap<&'a str, u32>,
    words: Vec<&'a str>,
}

impl<'a> WordList<'a> {
    /// Lists the words of some texts: the most frequent first, those that are equally so by their bytes.
    pub(super) fn of(texts: impl Iterator<Item = &'a Texts>) -> WordList<'a> {
        let mut counts: HashMap<&str, u32> = HashMap::new();
        for text in texts.flat_map(listed) {
            for word in cut(text) {
                *counts.entry(word).or_default() += 1;
            }
        }
        let mut words: Vec<(&str, u32)> = counts.into_iter().collect();
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let words: Vec<&str> = words.into_iter().map(|(word, _)| word).collect();
        let numbers = words.iter().enumerate().map(|(number, word)| (*word, number as u32)).collect();
        WordList { numbers, words }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Count, and each word as a text.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.words.len() as u64);
        self.words.iter().for_each(|word| put_bytes(&mut out, word.as_bytes()));
        out
    }

    /// Count, and the numbers of the text's words.
    pub(super) fn write_text(&self, text: &str, out: &mut Vec<u8>) {
        let numbers: Vec<u32> = cut(text).filter_map(|word| self.numbers.get(word).copied()).collect();
        put_varint(out, numbers.len() as u64);
        numbers.iter().for_each(|number| put_varint(out, u64::from(*number)));
    }
}

/// A list of words as it was read.
#[derive(Debug, Default)]
pub(super) struct ReadWords<'a>(Vec<&'a str>);

impl<'a> ReadWords<'a> {
    pub(super) fn read(section: &'a [u8]) -> Result<ReadWords<'a>, DecodeError> {
        let mut from = Decoder::of(section);
        let count: usize = from.varint_as()?;
        // Each word takes two bytes at least.
        if count > section.len() {
            return Err("a list of more words than there are bytes");
        }
        let mut words = Vec::with_capacity(count);
        for _ in 0..count {
            let word = from.text()?;
            if word.is_empty() || word.contains(' ') {
                return Err("a word that is none");
            }
            words.push(word);
        }
        if !from.is_empty() {
            return Err("something behind the list of words");
        }
        Ok(ReadWords(words))
    }

    /// A text of numbers, with its words. `room` is how many bytes may still be written for all texts together: a long
    /// word may be named often.
    pub(super) fn read_text(&self, from: &mut Decoder<'_>, room: &mut usize) -> Result<String, DecodeError> {
        let count: usize = from.varint_as()?;
        if count > from.len() {
            return Err("a text of more words than there are bytes");
        }
        let mut text = String::new();
        for _ in 0..count {
            let number: usize = from.varint_as()?;
            let word = self.0.get(number).ok_or("a word that is not in the list")?;
            *room = room.checked_sub(word.len() + 1).ok_or("texts that are too long")?;
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(word);
        }
        Ok(text)
    }
}

fn cut(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').filter(|word| !word.is_empty())
}

/// The texts that travel as numbers.
fn listed(texts: &Texts) -> [&str; 5] {
    [&texts.title_words, &texts.description, &texts.headings, &texts.body, &texts.rest]
}
