//! DRUM's central file Z without a database: sorted 8-byte keys, delta-coded, with the facts of those visited.
//!
//! An entry is one byte (low three bits of the delta, whether facts follow, length n of the rest), n bytes of the rest
//! of the delta, and the facts. With 350 million keys deltas have 36 bits, so that an entry takes 5 to 6 bytes.
//!
//! A merge reads the old file once and writes the new one. What lies between two keys of the batch is found by walking
//! lengths, and copied as it is: only the first delta after an insertion changes.

use super::facts::{FACTS_BYTES, Facts};
use std::fs::File;
use std::io::{self, Read, Write};

const CHUNK_BYTES: usize = 4 << 20;
/// Longest entry: 1 + 8 + facts.
const ENTRY_BYTES_MAX: usize = 9 + FACTS_BYTES;
const HAS_FACTS: u8 = 1 << 4;
/// The low n bytes; a length is four bits, of which values above 8 are never written.
const MASKS: [u64; 16] = {
    let mut masks = [u64::MAX; 16];
    let mut bytes = 0;
    while bytes < 8 {
        masks[bytes] = (1 << (8 * bytes)) - 1;
        bytes += 1;
    }
    masks
};

/// One pass over the old file into the new one.
#[derive(Debug)]
pub struct KeyMerge {
    input: Option<File>,
    /// Part of the old file; eight bytes more than `end` so that any delta can be read at once.
    chunk: Vec<u8>,
    at: usize,
    end: usize,
    /// Key of the entry before `at` in the old file.
    passed: u64,
    output: File,
    out: Vec<u8>,
    /// Key written last.
    written: u64,
    bytes: u64,
}

/// An entry in its coded form.
struct CodedKey {
    delta: u64,
    has_facts: bool,
    bytes: usize,
}

impl KeyMerge {
    /// Begins a pass; `None` stands for an empty old file.
    pub fn new(input: Option<File>, output: File) -> KeyMerge {
        KeyMerge {
            input,
            chunk: vec![0; CHUNK_BYTES + 8],
            at: 0,
            end: 0,
            passed: 0,
            output,
            out: Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 4),
            written: 0,
            bytes: 0,
        }
    }

    /// Copies everything below `key`, and says whether `key` itself comes next. Keys must grow from call to call.
    pub fn seek(&mut self, key: u64) -> io::Result<bool> {
        loop {
            self.fill()?;
            if self.at == self.end {
                return Ok(false);
            }
            if self.written != self.passed {
                // Something was inserted since: this entry's delta is no longer true.
                let coded = self.decode(self.at);
                let next = self.passed + coded.delta;
                if next >= key {
                    return Ok(next == key);
                }
                let facts = self.at + coded.bytes - if coded.has_facts { FACTS_BYTES } else { 0 };
                encode(&mut self.out, next - self.written, coded.has_facts);
                self.out.extend_from_slice(&self.chunk[facts..self.at + coded.bytes]);
                self.at += coded.bytes;
                (self.passed, self.written) = (next, next);
            }
            let safe_end = if self.input.is_some() { self.end - ENTRY_BYTES_MAX } else { self.end };
            let (mut at, mut passed, mut is_next) = (self.at, self.passed, None);
            while at < safe_end {
                let coded = self.decode(at);
                let next = passed + coded.delta;
                if next >= key {
                    is_next = Some(next == key);
                    break;
                }
                passed = next;
                at += coded.bytes;
            }
            self.out.extend_from_slice(&self.chunk[self.at..at]);
            self.at = at;
            (self.passed, self.written) = (passed, passed);
            self.write_out(CHUNK_BYTES)?;
            if let Some(is_next) = is_next {
                return Ok(is_next);
            }
        }
    }

    /// Adds later facts to the entry that [`seek`](KeyMerge::seek) found; answers with the old and the new ones.
    pub fn update(&mut self, later: Facts) -> (Option<Facts>, Facts) {
        let coded = self.decode(self.at);
        self.at += coded.bytes;
        self.passed += coded.delta;
        let old = coded.has_facts.then(|| Facts::read(&self.chunk[self.at - FACTS_BYTES..self.at]));
        let now = old.map_or(later, |old| old.then(later));
        self.push(self.passed, Some(now));
        (old, now)
    }

    /// Inserts a key that [`seek`](KeyMerge::seek) did not find.
    pub fn insert(&mut self, key: u64, facts: Option<Facts>) {
        self.push(key, facts);
    }

    /// Copies the rest and answers with the new file's size.
    pub fn finish(mut self) -> io::Result<u64> {
        // The last key of all is not below itself.
        if self.seek(u64::MAX)? {
            let coded = self.decode(self.at);
            let facts = coded.has_facts.then(|| Facts::read(&self.chunk[self.end - FACTS_BYTES..self.end]));
            self.push(u64::MAX, facts);
        }
        self.write_out(0)?;
        Ok(self.bytes)
    }

    fn push(&mut self, key: u64, facts: Option<Facts>) {
        encode(&mut self.out, key - self.written, facts.is_some());
        if let Some(facts) = facts {
            facts.write(&mut self.out);
        }
        self.written = key;
    }

    fn decode(&self, at: usize) -> CodedKey {
        let first = self.chunk[at];
        let len = usize::from(first & 15);
        let mut word = [0; 8];
        word.copy_from_slice(&self.chunk[at + 1..at + 9]);
        let rest = u64::from_le_bytes(word) & MASKS[len];
        let has_facts = first & HAS_FACTS != 0;
        let bytes = 1 + len + if has_facts { FACTS_BYTES } else { 0 };
        CodedKey { delta: rest << 3 | u64::from(first >> 5), has_facts, bytes }
    }

    /// Makes sure that a whole entry is there, or that the file has ended.
    fn fill(&mut self) -> io::Result<()> {
        if self.end - self.at >= 2 * ENTRY_BYTES_MAX {
            return Ok(());
        }
        let Some(input) = &mut self.input else { return Ok(()) };
        self.chunk.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < CHUNK_BYTES {
            let count = input.read(&mut self.chunk[self.end..CHUNK_BYTES])?;
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

fn encode(out: &mut Vec<u8>, delta: u64, has_facts: bool) {
    let rest = delta >> 3;
    let len = (u64::BITS - rest.leading_zeros()).div_ceil(8) as usize;
    out.push(((delta & 7) as u8) << 5 | if has_facts { HAS_FACTS } else { 0 } | len as u8);
    out.extend_from_slice(&rest.to_le_bytes()[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};
    use std::collections::BTreeMap;

    fn facts(n: u64) -> Facts {
        let zero = Facts::read(&[0; FACTS_BYTES]);
        Facts { state: 1, visits: 1, due: n, ..zero }
    }

    /// Reads a whole file as the merge does, by seeking each of these keys.
    fn check(path: &std::path::Path, folder: &std::path::Path, model: &BTreeMap<u64, Option<Facts>>) {
        let mut merge =
            KeyMerge::new(Some(File::open(path).unwrap()), File::create(folder.join("copy")).unwrap());
        for (key, facts) in model {
            assert!(merge.seek(*key).unwrap(), "{key} is missing");
            if facts.is_some() {
                assert_eq!(merge.update(Facts::read(&[0; FACTS_BYTES])).0, *facts);
            }
        }
        merge.finish().unwrap();
        assert!(std::fs::metadata(path).unwrap().len() >= 2 * model.len() as u64);
    }

    #[test]
    fn merges_agree_with_a_map() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = Seeded::new(4);
        let mut model: BTreeMap<u64, Option<Facts>> = BTreeMap::new();
        let mut old = None;
        for round in 0..12u64 {
            let spread = if round % 2 == 0 { u64::MAX } else { 50_000 };
            let mut batch: Vec<u64> = (0..20_000).map(|_| random.below(spread)).collect();
            batch.extend([0, 1, u64::MAX].iter().take(round as usize));
            batch.sort_unstable();
            batch.dedup();
            let path = folder.path().join(format!("{round}"));
            let mut merge = KeyMerge::new(old.take(), File::create(&path).unwrap());
            for key in batch {
                let visit = random.below(5) == 0;
                let known = merge.seek(key).unwrap();
                assert_eq!(known, model.contains_key(&key), "{key} in round {round}");
                let later = visit.then(|| facts(round));
                match later {
                    Some(later) if known => {
                        let (before, now) = merge.update(later);
                        assert_eq!(before, model[&key]);
                        model.insert(key, Some(now));
                    }
                    later if !known => {
                        merge.insert(key, later);
                        model.insert(key, later);
                    }
                    _ => {}
                }
            }
            let bytes = merge.finish().unwrap();
            assert_eq!(bytes, std::fs::metadata(&path).unwrap().len());
            check(&path, folder.path(), &model);
            old = Some(File::open(&path).unwrap());
        }
        assert!(model.len() > 150_000 && model.contains_key(&u64::MAX));
    }
}
