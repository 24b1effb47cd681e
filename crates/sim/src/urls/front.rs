//! Sorted lists of texts, front-coded, and one pass that merges a batch into them.
//!
//! An entry is the number of bytes that it shares with the one before, the length of the rest with two marks (facts
//! follow; scheduled), the rest, and the facts. What lies between two texts of the batch is copied as it is. Most
//! entries are passed without comparing texts: one that shares more with its predecessor than the sought text does is
//! still before it, one that shares less is behind it.

use super::facts::{FACTS_BYTES, Facts};
use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read, Write};

const CHUNK_BYTES: usize = 4 << 20;
/// Two numbers of at most 3 bytes, a canonical URL, facts.
const ENTRY_BYTES_MAX: usize = 6 + 2048 + FACTS_BYTES;
const HAS_FACTS: u64 = 1;
const SCHEDULED: u64 = 2;

/// One pass over old lists into new ones.
#[derive(Debug)]
pub struct FrontMerge {
    input: Option<File>,
    chunk: Vec<u8>,
    at: usize,
    end: usize,
    /// Entries of the list that were not passed yet.
    entries: u64,
    /// Text of the entry before `at`.
    passed: Vec<u8>,
    /// Text written last, where that is not `passed`.
    inserted: Option<Vec<u8>>,
    output: File,
    out: Vec<u8>,
    bytes: u64,
    /// Unmarked entries that are still to be marked as scheduled in passing.
    pub quota: usize,
}

/// An entry in its coded form.
struct CodedPath {
    shared: usize,
    rest: (usize, usize),
    marks: u64,
    bytes: usize,
}

/// What an entry was before an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Before {
    pub facts: Option<Facts>,
    pub scheduled: bool,
}

impl FrontMerge {
    /// Begins a pass over a file; `None` stands for an empty one.
    pub fn new(input: Option<File>, output: File) -> FrontMerge {
        FrontMerge {
            input,
            chunk: vec![0; CHUNK_BYTES],
            at: 0,
            end: 0,
            entries: 0,
            passed: Vec::new(),
            inserted: None,
            output,
            out: Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4),
            bytes: 0,
            quota: 0,
        }
    }

    /// Begins the next list, of this many old entries.
    pub fn begin(&mut self, entries: u64) {
        debug_assert_eq!(self.entries, 0, "the list before was passed to its end");
        self.entries = entries;
        self.passed.clear();
        self.inserted = None;
        self.quota = 0;
    }

    /// Copies everything before `text`, and says whether `text` itself comes next. Texts must grow from call to call.
    ///
    /// `promoted` sees each text that is marked as scheduled on the way.
    pub fn seek<E>(&mut self, text: &[u8], promoted: impl FnMut(&[u8]) -> Result<(), E>) -> Result<bool, E>
    where
        E: From<io::Error>,
    {
        self.pass(Some(text), promoted)
    }

    /// Copies the rest of the list.
    pub fn finish<E>(&mut self, promoted: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E>
    where
        E: From<io::Error>,
    {
        self.pass(None, promoted).map(|_| ())
    }

    /// Adds later facts to the entry that [`seek`](FrontMerge::seek) found.
    pub fn update(&mut self, later: Facts) -> (Before, Facts) {
        let coded = self.decode(self.at);
        self.at += coded.bytes;
        self.entries -= 1;
        let facts =
            (coded.marks & HAS_FACTS != 0).then(|| Facts::read(&self.chunk[self.at - FACTS_BYTES..self.at]));
        let now = facts.map_or(later, |facts| facts.then(later));
        self.passed.truncate(coded.shared);
        self.passed.extend_from_slice(&self.chunk[coded.rest.0..coded.rest.1]);
        let shared = self.inserted.take().map_or(coded.shared, |last| shared_bytes(&last, &self.passed));
        encode(&mut self.out, shared, &self.passed[shared..], coded.marks & SCHEDULED, Some(now));
        (Before { facts, scheduled: coded.marks & SCHEDULED != 0 }, now)
    }

    /// Inserts a text that [`seek`](FrontMerge::seek) did not find.
    pub fn insert(&mut self, text: &[u8], scheduled: bool, facts: Option<Facts>) {
        let shared = shared_bytes(self.inserted.as_ref().unwrap_or(&self.passed), text);
        encode(&mut self.out, shared, &text[shared..], if scheduled { SCHEDULED } else { 0 }, facts);
        let inserted = self.inserted.get_or_insert_default();
        inserted.clear();
        inserted.extend_from_slice(text);
    }

    /// Copies bytes of lists that nothing is to be merged into.
    pub fn copy(&mut self, mut bytes: u64) -> io::Result<()> {
        debug_assert_eq!(self.entries, 0);
        while bytes > 0 {
            if self.at == self.end {
                self.fill(1)?;
            }
            let count = bytes.min((self.end - self.at) as u64) as usize;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.out.extend_from_slice(&self.chunk[self.at..self.at + count]);
            self.at += count;
            bytes -= count as u64;
            self.write_out(CHUNK_BYTES)?;
        }
        Ok(())
    }

    /// Bytes of the new file so far.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.out.len() as u64
    }

    /// Ends the pass.
    pub fn close(mut self) -> io::Result<u64> {
        self.write_out(0)?;
        Ok(self.bytes)
    }

    fn pass<E>(
        &mut self,
        text: Option<&[u8]>,
        mut promoted: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E>
    where
        E: From<io::Error>,
    {
        // Bytes that the sought text shares with the entry passed last.
        let mut shared = text.map_or(0, |text| shared_bytes(&self.passed, text));
        loop {
            self.fill(ENTRY_BYTES_MAX)?;
            let safe_end = if self.input.is_some() { self.end - ENTRY_BYTES_MAX } else { self.end };
            let mut copy_from = self.at;
            while self.entries > 0 && self.at < safe_end {
                let coded = self.decode(self.at);
                let rest = &self.chunk[coded.rest.0..coded.rest.1];
                let order = text.map_or(Ordering::Less, |text| match shared.cmp(&coded.shared) {
                    Ordering::Equal => {
                        let sought = &text[shared..];
                        let more = shared_bytes(rest, sought);
                        shared += more;
                        rest[more..].cmp(&sought[more..])
                    }
                    order => order,
                });
                if order != Ordering::Less {
                    self.copy_out(copy_from)?;
                    return Ok(order == Ordering::Equal);
                }
                self.passed.truncate(coded.shared);
                self.passed.extend_from_slice(rest);
                self.entries -= 1;
                let promote = self.quota > 0 && coded.marks == 0;
                if promote || self.inserted.is_some() {
                    self.copy_out(copy_from)?;
                    let marks = coded.marks | if promote { SCHEDULED } else { 0 };
                    let shared =
                        self.inserted.take().map_or(coded.shared, |last| shared_bytes(&last, &self.passed));
                    encode_header(&mut self.out, shared, self.passed.len() - shared, marks);
                    self.out.extend_from_slice(&self.passed[shared..]);
                    self.out.extend_from_slice(&self.chunk[coded.rest.1..self.at + coded.bytes]);
                    copy_from = self.at + coded.bytes;
                }
                if promote {
                    self.quota -= 1;
                    promoted(&self.passed)?;
                }
                self.at += coded.bytes;
            }
            self.copy_out(copy_from)?;
            if self.entries == 0 || self.input.is_none() && self.at == self.end {
                self.entries = 0;
                return Ok(false);
            }
        }
    }

    fn copy_out(&mut self, from: usize) -> io::Result<()> {
        self.out.extend_from_slice(&self.chunk[from..self.at]);
        self.write_out(CHUNK_BYTES)
    }

    fn decode(&self, at: usize) -> CodedPath {
        let mut next = at;
        let mut number = || {
            let (mut value, mut shift) = (0u64, 0);
            loop {
                let byte = self.chunk[next];
                next += 1;
                value |= u64::from(byte & 127) << shift;
                if byte < 128 {
                    return value;
                }
                shift += 7;
            }
        };
        let (shared, rest) = (number() as usize, number());
        let (len, marks) = ((rest >> 2) as usize, rest & 3);
        let facts = if marks & HAS_FACTS != 0 { FACTS_BYTES } else { 0 };
        CodedPath { shared, rest: (next, next + len), marks, bytes: next - at + len + facts }
    }

    /// Makes sure that this many bytes are there, or that the file has ended.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        if self.end - self.at > bytes {
            return Ok(());
        }
        let Some(input) = &mut self.input else { return Ok(()) };
        self.chunk.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < CHUNK_BYTES {
            let count = input.read(&mut self.chunk[self.end..])?;
            if count == 0 {
                self.input = None;
                break;
            }
            self.end += count;
        }
        Ok(())
    }

    fn write_out(&mut self, more_than: usize) -> io::Result<()> {
        if self.out.len() > more_than {
            self.output.write_all(&self.out)?;
            self.bytes += self.out.len() as u64;
            self.out.clear();
        }
        Ok(())
    }
}

fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    let eights = a.chunks_exact(8).zip(b.chunks_exact(8));
    let shared = 8 * eights.take_while(|(a, b)| a == b).count();
    shared + a[shared..].iter().zip(&b[shared..]).take_while(|(a, b)| a == b).count()
}

fn encode(out: &mut Vec<u8>, shared: usize, rest: &[u8], marks: u64, facts: Option<Facts>) {
    encode_header(out, shared, rest.len(), marks | if facts.is_some() { HAS_FACTS } else { 0 });
    out.extend_from_slice(rest);
    if let Some(facts) = facts {
        facts.write(out);
    }
}

fn encode_header(out: &mut Vec<u8>, shared: usize, rest_bytes: usize, marks: u64) {
    for mut value in [shared as u64, (rest_bytes as u64) << 2 | marks] {
        while value >= 128 {
            out.push(value as u8 | 128);
            value >>= 7;
        }
        out.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};
    use std::collections::BTreeMap;

    fn text(random: &mut Seeded) -> Vec<u8> {
        let long = if random.below(50) == 0 { 1900 } else { 1 };
        let part = |random: &mut Seeded| {
            format!("/{}", ["a", "ab", "abc", "b", "", "news"][random.below(6) as usize])
        };
        let mut text: String = (0..1 + random.below(5)).map(|_| part(random)).collect();
        text.push_str(&"x".repeat(random.below(long) as usize));
        text.into_bytes()
    }

    #[test]
    fn merges_agree_with_a_map() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = Seeded::new(8);
        let mut model: BTreeMap<Vec<u8>, (bool, Option<Facts>)> = BTreeMap::new();
        let mut old: Option<File> = None;
        for round in 0..40u64 {
            let path = folder.path().join(format!("{round}"));
            let mut merge = FrontMerge::new(old.take(), File::create(&path).unwrap());
            merge.begin(model.len() as u64);
            let mut batch: Vec<Vec<u8>> = (0..random.below(2000)).map(|_| text(&mut random)).collect();
            batch.sort();
            batch.dedup();
            merge.quota = random.below(30) as usize;
            let mut promoted: Vec<Vec<u8>> = Vec::new();
            let mut promote = |text: &[u8]| -> io::Result<()> {
                promoted.push(text.to_vec());
                Ok(())
            };
            let mut later_model = model.clone();
            for text in &batch {
                let known = merge.seek(text, &mut promote).unwrap();
                assert_eq!(known, model.contains_key(text));
                let facts =
                    (random.below(4) == 0).then(|| Facts { due: round, ..Facts::read(&[1; FACTS_BYTES]) });
                match facts {
                    Some(facts) if known => {
                        let (before, now) = merge.update(facts);
                        assert_eq!((before.scheduled, before.facts), model[text]);
                        later_model.insert(text.clone(), (before.scheduled, Some(now)));
                    }
                    facts if !known => {
                        merge.insert(text, false, facts);
                        later_model.insert(text.clone(), (false, facts));
                    }
                    _ => {}
                }
            }
            merge.finish(&mut promote).unwrap();
            for text in promoted {
                assert_eq!(model[&text], (false, None));
                later_model.insert(text, (true, None));
            }
            model = later_model;
            let bytes = merge.close().unwrap();
            assert_eq!(bytes, std::fs::metadata(&path).unwrap().len());
            old = Some(File::open(&path).unwrap());
        }
        assert!(model.len() > 3000, "{}", model.len());
        assert!(model.values().any(|entry| entry.0 && entry.1.is_some()));
    }
}
