//! DRUM \[Lee08\], with a plain sorted central file instead of a database.
//!
//! A URL is an 8-byte hash (key) and a text (aux). What is written goes to one of eight bucket pairs on disk, chosen by
//! the key's prefix: Q^H with keys and the facts of visits, Q^T with texts. A merge takes the buckets in order: loads and
//! sorts a Q^H, walks the part of the central file Z where its keys belong, writes the new Z, and streams Q^T to let
//! the texts of unique keys out, in the order in which they were found. All buckets are checked in one pass over Z.
//!
//! Two rules say when: [`MergeRule::EveryFlush`] is how \[Henrique11\] measured it,
//! [`MergeRule::BucketBytes`] is IRLbot's own, where answers lag behind by as many cycles as it takes to fill
//! a bucket.
//!
//! Keys are not compared with texts, so two URLs of one hash are one to it: with 350 million URLs the chance of one
//! such pair is 0.3 %. Does not open again after the process ends, has no order but the queue's, and hands nothing out
//! for a second visit: less than the other stores do, which is in its favour.

use super::facts::{FACTS_BYTES, Facts, Tally};
use super::keys::KeyMerge;
use super::queue::Queue;
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, Timestamp};
use farol_store::Error;
use farol_store::urls::{Counts, Found, Verifier, Visit};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Eight, as in [Henrique11 ch. 4].
const BUCKET_BITS: u32 = 3;
/// The thesis' arrays of 10,000 URLs: 8 × (128 KiB of keys + 768 KiB of texts) = 7 MiB.
const KEY_BUFFER_BYTES: usize = 128 << 10;
const TEXT_BUFFER_BYTES: usize = 768 << 10;
/// Marks a sorted entry as the number of a visit rather than of a text.
const IS_VISIT: u32 = 1 << 31;

/// When the buckets are merged with Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRule {
    /// At the end of each cycle.
    EveryFlush,
    /// When a Q^H has this many bytes, or when nothing else is left to give out. In memory a merge needs the bytes
    /// themselves and 16 for each 9 of them: 100 MB need 280 MB.
    BucketBytes(u64),
}

/// The structure.
#[derive(Debug)]
pub struct Drum {
    folder: PathBuf,
    rule: MergeRule,
    buckets: Vec<Bucket>,
    /// Entries that wait for a merge.
    pending: u64,
    queue: Queue,
    tally: Tally,
    /// Number of the newest Z; 0 where there is none.
    generation: u64,
    scratch: Vec<u8>,
}

/// Q^H and Q^T of one prefix.
#[derive(Debug)]
struct Bucket {
    keys: BufWriter<File>,
    key_bytes: u64,
    texts: BufWriter<File>,
}

/// Q^H in memory.
struct Loaded {
    /// Key, and number of the text or of the visit; sorted, so that a key's texts come first, then its visits.
    entries: Vec<(u64, u32)>,
    visits: Vec<Facts>,
    texts: u32,
}

impl Drum {
    /// An empty structure in this folder.
    pub fn new(folder: &Path, rule: MergeRule) -> Result<Drum, Error> {
        fs::create_dir_all(folder).map_err(failed("make", "the folder"))?;
        let bucket = |i: usize| -> io::Result<Bucket> {
            let file = |kind: &str| File::create(folder.join(format!("q{i}-{kind}")));
            Ok(Bucket {
                keys: BufWriter::with_capacity(KEY_BUFFER_BYTES, file("keys")?),
                key_bytes: 0,
                texts: BufWriter::with_capacity(TEXT_BUFFER_BYTES, file("texts")?),
            })
        };
        let buckets: io::Result<Vec<Bucket>> = (0..1 << BUCKET_BITS).map(bucket).collect();
        Ok(Drum {
            folder: folder.to_path_buf(),
            rule,
            buckets: buckets.map_err(failed("make", "a bucket"))?,
            pending: 0,
            queue: Queue::new(folder),
            tally: Tally::default(),
            generation: 0,
            scratch: Vec::new(),
        })
    }

    fn bucket_of(&mut self, key: u64) -> &mut Bucket {
        &mut self.buckets[(key >> (u64::BITS - BUCKET_BITS)) as usize]
    }

    fn merge_where_full(&mut self) -> Result<(), Error> {
        match self.rule {
            MergeRule::BucketBytes(limit) if self.buckets.iter().any(|bucket| bucket.key_bytes >= limit) => {
                self.merge()
            }
            _ => Ok(()),
        }
    }

    /// Checks all that waits against Z.
    fn merge(&mut self) -> Result<(), Error> {
        if self.pending == 0 {
            return Ok(());
        }
        let (old, new) = (self.z_path(self.generation), self.z_path(self.generation + 1));
        let input =
            (self.generation > 0).then(|| File::open(&old)).transpose().map_err(failed("open", "Z"))?;
        let mut z = KeyMerge::new(input, File::create(&new).map_err(failed("make", "Z"))?);
        for i in 0..self.buckets.len() {
            self.merge_bucket(i, &mut z)?;
        }
        z.finish().map_err(failed("write", "Z"))?;
        if self.generation > 0 {
            fs::remove_file(&old).map_err(failed("remove", "Z"))?;
        }
        self.generation += 1;
        self.pending = 0;
        self.queue.flush()
    }

    fn merge_bucket(&mut self, i: usize, z: &mut KeyMerge) -> Result<(), Error> {
        let bucket = &mut self.buckets[i];
        bucket.keys.flush().map_err(failed("write to", "a bucket"))?;
        bucket.texts.flush().map_err(failed("write to", "a bucket"))?;
        let loaded = load(&self.folder.join(format!("q{i}-keys"))).map_err(failed("read", "a bucket"))?;
        let mut unique = vec![false; loaded.texts as usize];
        let mut rest = &loaded.entries[..];
        while let Some((key, first)) = rest.first().copied() {
            let of_key = rest.iter().take_while(|entry| entry.0 == key).count();
            let visits = rest[..of_key].iter().filter(|entry| entry.1 & IS_VISIT != 0);
            let later = visits.map(|entry| loaded.visits[(entry.1 & !IS_VISIT) as usize]).reduce(Facts::then);
            let known = z.seek(key).map_err(failed("merge", "Z"))?;
            match later {
                Some(later) if known => {
                    let (old, now) = z.update(later);
                    self.tally.moved(false, old, Some(now));
                }
                later if !known => {
                    z.insert(key, later);
                    self.tally.moved(true, None, later);
                    // What was visited already need not be collected.
                    if later.is_none() {
                        unique[first as usize] = true;
                    }
                }
                _ => {}
            }
            rest = &rest[of_key..];
        }
        let path = self.folder.join(format!("q{i}-texts"));
        self.let_out(&path, &unique)?;
        let bucket = &mut self.buckets[i];
        bucket.key_bytes = 0;
        cut(&mut bucket.keys).and_then(|()| cut(&mut bucket.texts)).map_err(failed("cut", "a bucket"))
    }

    /// Streams Q^T and queues the texts of unique keys.
    fn let_out(&mut self, path: &Path, unique: &[bool]) -> Result<(), Error> {
        let file = File::open(path).map_err(failed("open", "a bucket"))?;
        let mut texts = BufReader::with_capacity(TEXT_BUFFER_BYTES, file);
        for unique in unique {
            let mut len = [0; 2];
            texts.read_exact(&mut len).map_err(failed("read", "a bucket"))?;
            self.scratch.resize(usize::from(u16::from_le_bytes(len)), 0);
            texts.read_exact(&mut self.scratch).map_err(failed("read", "a bucket"))?;
            if *unique {
                self.queue.push(&self.scratch)?;
            }
        }
        Ok(())
    }

    fn z_path(&self, generation: u64) -> PathBuf {
        self.folder.join(format!("z-{generation}"))
    }
}

impl Verifier for Drum {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        for found in found {
            let text = found.url.as_str().as_bytes();
            let key = hash64(text);
            let bucket = self.bucket_of(key);
            let mut entry = [0; 9];
            entry[..8].copy_from_slice(&key.to_le_bytes());
            let write = |bucket: &mut Bucket| {
                bucket.keys.write_all(&entry)?;
                bucket.texts.write_all(&(text.len() as u16).to_le_bytes())?;
                bucket.texts.write_all(text)
            };
            write(bucket).map_err(failed("write to", "a bucket"))?;
            bucket.key_bytes += 9;
            self.pending += 1;
        }
        self.merge_where_full()
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        let key = hash64(url.as_str().as_bytes());
        let mut entry = std::mem::take(&mut self.scratch);
        entry.clear();
        entry.extend_from_slice(&key.to_le_bytes());
        entry.push(1);
        Facts::of(visit).write(&mut entry);
        let bucket = self.bucket_of(key);
        bucket.keys.write_all(&entry).map_err(failed("write to", "a bucket"))?;
        bucket.key_bytes += entry.len() as u64;
        self.scratch = entry;
        self.pending += 1;
        self.merge_where_full()
    }

    fn take(&mut self, limit: usize, _now: Timestamp) -> Result<Vec<CanonicalUrl>, Error> {
        if self.queue.len() < limit as u64 {
            self.merge()?;
        }
        self.queue.take(limit)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.rule == MergeRule::EveryFlush {
            return self.merge();
        }
        for bucket in &mut self.buckets {
            bucket.keys.flush().map_err(failed("write to", "a bucket"))?;
            bucket.texts.flush().map_err(failed("write to", "a bucket"))?;
        }
        Ok(())
    }

    fn compact_all(&mut self) -> Result<(), Error> {
        self.merge()
    }

    fn counts(&self) -> Counts {
        self.tally.counts(0)
    }
}

/// Reads and sorts a Q^H.
fn load(path: &Path) -> io::Result<Loaded> {
    let bytes = fs::read(path)?;
    let mut loaded = Loaded { entries: Vec::with_capacity(bytes.len() / 9), visits: Vec::new(), texts: 0 };
    let mut rest = &bytes[..];
    while let Some((entry, tail)) = rest.split_at_checked(9) {
        let mut key = [0; 8];
        key.copy_from_slice(&entry[..8]);
        let number = if entry[8] == 0 {
            rest = tail;
            loaded.texts += 1;
            loaded.texts - 1
        } else {
            loaded.visits.push(Facts::read(tail));
            rest = &tail[FACTS_BYTES..];
            IS_VISIT | (loaded.visits.len() - 1) as u32
        };
        loaded.entries.push((u64::from_le_bytes(key), number));
    }
    drop(bytes);
    loaded.entries.sort_unstable();
    Ok(loaded)
}

/// Empties a bucket's file.
fn cut(writer: &mut BufWriter<File>) -> io::Result<()> {
    let file = writer.get_mut();
    file.set_len(0)?;
    io::Seek::rewind(file)
}

fn failed(action: &'static str, file: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, file: format!("{file} of DRUM"), source }
}
