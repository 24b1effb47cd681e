//! Many short texts back to back, each named by a 4-byte number.
//!
//! Texts are never changed or removed; they go when the whole store is opened again.

/// A chunk's size; 4,096 chunks × 1 MiB = 4 GiB of texts, as much as the numbers can name.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNKS_MAX: usize = 1 << 12;

/// Longest text; its length fits two bytes.
const TEXT_BYTES_MAX: usize = 1 << 15;

/// A heap of texts that only grows.
#[derive(Debug, Default)]
pub(super) struct Texts {
    chunks: Vec<Vec<u8>>,
}

impl Texts {
    /// Keeps a text, and names it; `None` where there is no room for more, or the text is too long.
    pub fn push(&mut self, text: &str) -> Option<u32> {
        let bytes = text.as_bytes();
        if bytes.len() >= TEXT_BYTES_MAX {
            return None;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() + 2 + bytes.len() > CHUNK_BYTES) {
            if self.chunks.len() == CHUNKS_MAX {
                return None;
            }
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let at = number * CHUNK_BYTES + chunk.len();
        // One byte of length for the usual text, two for those of 128 bytes and more.
        match u8::try_from(bytes.len()) {
            Ok(len) if len < 0x80 => chunk.push(len),
            _ => chunk.extend_from_slice(&[0x80 | (bytes.len() >> 8) as u8, bytes.len() as u8]),
        }
        chunk.extend_from_slice(bytes);
        u32::try_from(at).ok()
    }

    /// The bytes of a text.
    pub fn bytes(&self, name: u32) -> &[u8] {
        let (chunk, at) = (&self.chunks[name as usize / CHUNK_BYTES], name as usize % CHUNK_BYTES);
        let first = usize::from(chunk[at]);
        if first < 0x80 {
            return &chunk[at + 1..at + 1 + first];
        }
        let len = (first & 0x7F) << 8 | usize::from(chunk[at + 1]);
        &chunk[at + 2..at + 2 + len]
    }

    /// The text itself.
    pub fn get(&self, name: u32) -> &str {
        std::str::from_utf8(self.bytes(name)).expect("only texts are pushed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_come_back() {
        let mut texts = Texts::default();
        let long = "x".repeat(TEXT_BYTES_MAX - 1);
        let names: Vec<(u32, usize)> = [0, 1, 127, 128, 129, 255, 256, 2048, TEXT_BYTES_MAX - 1, 5]
            .repeat(40)
            .into_iter()
            .map(|len| (texts.push(&long[..len]).unwrap(), len))
            .collect();
        for (name, len) in names {
            assert_eq!(texts.get(name), &long[..len]);
        }
        assert!(texts.chunks.len() > 1);
        assert_eq!(texts.push(&"x".repeat(TEXT_BYTES_MAX)), None);
    }
}
