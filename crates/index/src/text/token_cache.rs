//! Token cache: a direct-mapped cache from words as written to their folded form and stem.
//!
//! Most of a text is words that occurred a moment ago. A colliding word evicts; full texts clear the cache.
//!
//! INVARIANT: what is cached is what analysing the word again would give.

use farol_base::fingerprint::hash64;

/// Slots, each of one word: 16,384 × 12 bytes = 192 KiB, plus [`TEXTS_BYTES_MAX`].
const SLOTS: usize = 1 << 14;

/// Texts of all cached words. When they are full, the whole cache is cleared.
const TEXTS_BYTES_MAX: usize = 512 << 10;

/// Where a word's texts are, one after the other: the word as written, its form unless that is the same, its stem.
///
/// `[start, lengths of word, form and stem in a byte each, tag]`; all zero where the slot is empty.
type Slot = [u32; 3];

/// Words as they were written, with their folded form and their stem.
#[derive(Clone, Default)]
pub(crate) struct TokenCache {
    slots: Vec<Slot>,
    texts: String,
}

/// Where a word belongs in the cache: its slot, and the tag that tells it from others there.
#[derive(Clone, Copy)]
pub(crate) struct SlotKey {
    slot: usize,
    tag: u32,
}

impl TokenCache {
    /// The key of a word, for both [`TokenCache::get`] and [`TokenCache::insert`].
    pub(crate) fn key(word: &str) -> SlotKey {
        let hash = hash64(word.as_bytes());
        SlotKey { slot: hash as usize % SLOTS, tag: (hash >> 32) as u32 }
    }

    /// Form and stem of a word that is cached.
    pub(crate) fn get(&self, word: &str, key: SlotKey) -> Option<(&str, &str)> {
        let [start, lens, tag] = *self.slots.get(key.slot)?;
        let [word_len, form_len, stem_len, _] = lens.to_le_bytes().map(usize::from);
        if tag != key.tag || word_len != word.len() {
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

    /// Caches a word, and evicts the one in its slot.
    pub(crate) fn insert(&mut self, word: &str, key: SlotKey, form: &str, stem: &str) {
        let stored = if form == word { "" } else { form };
        let lens = [word, stored, stem].map(|text| u8::try_from(text.len()));
        let [Ok(word_len), Ok(form_len), Ok(stem_len)] = lens else { return };
        let bytes = word.len() + stored.len() + stem.len();
        if self.slots.is_empty() || self.texts.len() + bytes > TEXTS_BYTES_MAX {
            self.slots.clear();
            self.slots.resize(SLOTS, Slot::default());
            self.texts.clear();
        }
        let start = self.texts.len() as u32;
        [word, stored, stem].iter().for_each(|text| self.texts.push_str(text));
        let lens = u32::from_le_bytes([word_len, form_len, stem_len, 0]);
        self.slots[key.slot] = [start, lens, key.tag];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_cached() {
        let mut token_cache = TokenCache::default();
        let mut check = |word: &str, form: &str, stem: &str| {
            let key = TokenCache::key(word);
            token_cache.insert(word, key, form, stem);
            assert_eq!(token_cache.get(word, key), Some((form, stem)), "{word}");
        };
        check("farol", "farol", "");
        check("Faróis", "farois", "\u{1}ptfarol");
        // Far more than there is room for.
        for number in 0..100_000 {
            check(&format!("word{number}"), &format!("Form{number}"), "stem");
        }
        assert!(token_cache.texts.len() <= TEXTS_BYTES_MAX && token_cache.slots.len() == SLOTS);
        assert_eq!(token_cache.get("never", TokenCache::key("never")), None);
        assert_eq!(TokenCache::default().get("a", TokenCache::key("a")), None);
        // Too long for a length of one byte: not cached, and no harm done.
        token_cache.insert(&"x".repeat(300), TokenCache::key("x"), "x", "");
        assert_eq!(token_cache.get(&"x".repeat(300), TokenCache::key("x")), None);
    }
}
