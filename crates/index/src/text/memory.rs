//! Words that were read before, with what became of them: most of a text is words that came up a moment ago.
//!
//! INVARIANT: what is remembered is what reading the word again would give.

use farol_base::fingerprint::hash64;

/// Words that are remembered at once: 16,384 × 12 bytes = 192 KiB, plus [`TEXTS_BYTES_MAX`].
const WORDS: usize = 1 << 14;

/// Texts of all remembered words. When they are full, everything is forgotten and learnt anew.
const TEXTS_BYTES_MAX: usize = 512 << 10;

/// Where a word's texts stand, one behind the other: the word as written, its form unless that is the same, its stem.
///
/// `[start, lengths of word, form and stem in a byte each, bits of the hash]`; all zero where there is none.
type Slot = [u32; 3];

/// Remembers words as they were written, with their folded form and their stem.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    slots: Vec<Slot>,
    texts: String,
}

/// A place for a word.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    slot: usize,
    mark: u32,
}

impl Memory {
    /// The place of a word, for both finding and keeping it.
    pub(crate) fn place(word: &str) -> Place {
        let hash = hash64(word.as_bytes());
        Place { slot: hash as usize % WORDS, mark: (hash >> 32) as u32 }
    }

    /// Form and stem of a word that is remembered.
    pub(crate) fn find(&self, word: &str, place: Place) -> Option<(&str, &str)> {
        let [start, lens, mark] = *self.slots.get(place.slot)?;
        let [word_len, form_len, stem_len, _] = lens.to_le_bytes().map(usize::from);
        if mark != place.mark || word_len != word.len() {
            return None;
        }
        let start = start as usize;
        let (form, rest) = (start + word_len, start + word_len + form_len);
        if self.texts.as_bytes().get(start..form) != Some(word.as_bytes()) {
            return None;
        }
        let form = if form_len == 0 { self.texts.get(start..form) } else { self.texts.get(form..rest) };
        Some((form?, self.texts.get(rest..rest + stem_len)?))
    }

    /// Keeps a word, and forgets the one that was there.
    pub(crate) fn keep(&mut self, word: &str, place: Place, form: &str, stem: &str) {
        let stored = if form == word { "" } else { form };
        let lens = [word, stored, stem].map(|text| u8::try_from(text.len()));
        let [Ok(word_len), Ok(form_len), Ok(stem_len)] = lens else { return };
        let bytes = word.len() + stored.len() + stem.len();
        if self.slots.is_empty() || self.texts.len() + bytes > TEXTS_BYTES_MAX {
            self.slots.clear();
            self.slots.resize(WORDS, Slot::default());
            self.texts.clear();
        }
        let start = self.texts.len() as u32;
        [word, stored, stem].iter().for_each(|text| self.texts.push_str(text));
        let lens = u32::from_le_bytes([word_len, form_len, stem_len, 0]);
        self.slots[place.slot] = [start, lens, place.mark];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_kept() {
        let mut memory = Memory::default();
        let mut keep = |word: &str, form: &str, stem: &str| {
            let place = Memory::place(word);
            memory.keep(word, place, form, stem);
            assert_eq!(memory.find(word, place), Some((form, stem)), "{word}");
        };
        keep("farol", "farol", "");
        keep("Faróis", "farois", "\u{1}ptfarol");
        // Far more than there is room for.
        for number in 0..100_000 {
            keep(&format!("word{number}"), &format!("Form{number}"), "stem");
        }
        assert!(memory.texts.len() <= TEXTS_BYTES_MAX && memory.slots.len() == WORDS);
        assert_eq!(memory.find("never", Memory::place("never")), None);
        assert_eq!(Memory::default().find("a", Memory::place("a")), None);
        // Too long for a length of one byte: not kept, and no harm done.
        memory.keep(&"x".repeat(300), Memory::place("x"), "x", "");
        assert_eq!(memory.find(&"x".repeat(300), Memory::place("x")), None);
    }
}
