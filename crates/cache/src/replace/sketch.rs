//! How often a hash was seen lately, in four bits each: a count-min sketch that halves itself.
//!
//! As in TinyLFU \[Einziger17\]: each hash has four counters in rows that share an array; the least of them
//! is the estimate, and only those that are least are raised; after so many counts all counters are halved,
//! so that yesterday's favourites fade. Four words per entry and forty counts per entry between two halvings:
//! of queries half are asked once or twice, and with ten counts, as is usual, those cannot be told from the
//! others.

/// The largest count.
const COUNT_MAX: u64 = 15;
/// Words per entry.
const WORDS: usize = 4;
/// Counts per word between two halvings.
const SAMPLES: u64 = 10;

/// Approximate, ageing frequencies. Never below the truth since the last halving, up to 15.
pub struct Sketch {
    /// 16 counters per word.
    words: Vec<u64>,
    counted: u64,
    /// Counted so often, all is halved.
    period: u64,
}

impl Sketch {
    /// For about so many entries, 32 bytes each, up to twice that.
    pub fn new(entries: usize) -> Sketch {
        let words = (WORDS * entries.clamp(64, 1 << 26)).next_power_of_two();
        Sketch { words: vec![0; words], counted: 0, period: SAMPLES * words as u64 }
    }

    /// Grows for so many entries; estimates stay as they are.
    pub fn fit(&mut self, entries: usize) {
        while self.words.len() < WORDS * entries.min(1 << 26) {
            // Twice the array, each half a copy: every hash finds its counts where it looks for them.
            self.words.extend_from_within(..);
            self.period = SAMPLES * self.words.len() as u64;
        }
    }

    pub fn add(&mut self, hash: u64) {
        let places = [0, 1, 2, 3].map(|row| self.place(hash, row));
        let count = |(word, shift): (usize, u32)| self.words[word] >> shift & COUNT_MAX;
        let counts = places.map(count);
        let least = counts.into_iter().min().unwrap_or(COUNT_MAX);
        if least < COUNT_MAX {
            for ((word, shift), count) in places.into_iter().zip(counts) {
                self.words[word] += u64::from(count == least) << shift;
            }
        }
        self.counted += 1;
        if self.counted >= self.period {
            self.halve();
        }
    }

    pub fn estimate(&self, hash: u64) -> u32 {
        let count = |row| {
            let (word, shift) = self.place(hash, row);
            self.words[word] >> shift & COUNT_MAX
        };
        (0..4).map(count).min().unwrap_or(0) as u32
    }

    fn halve(&mut self) {
        for word in &mut self.words {
            *word = *word >> 1 & 0x7777_7777_7777_7777;
        }
        self.counted /= 2;
    }

    /// The word and shift of a hash's counter in a row. All four rows lie within one cache line of eight words.
    fn place(&self, hash: u64, row: u32) -> (usize, u32) {
        let line = hash as usize & (self.words.len() - 1) & !7;
        let bits = (hash >> (32 + 7 * row)) as usize;
        (line + (2 * row as usize) + (bits & 1), ((bits >> 1) & 15) as u32 * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::mix;

    #[test]
    fn estimates_are_never_too_low_and_mostly_right() {
        let mut sketch = Sketch::new(4096);
        for id in 0..2000u64 {
            for _ in 0..id % 8 {
                sketch.add(mix(id));
            }
        }
        let exact = (0..2000u64).filter(|id| u64::from(sketch.estimate(mix(*id))) == id % 8).count();
        assert!((0..2000u64).all(|id| u64::from(sketch.estimate(mix(id))) >= id % 8));
        assert!(exact > 1980, "{exact} of 2000");
    }

    #[test]
    fn counts_fade_and_survive_growth() {
        let mut sketch = Sketch::new(64);
        (0..12).for_each(|_| sketch.add(7));
        sketch.fit(1000);
        assert_eq!((sketch.estimate(7), sketch.words.len()), (12, 4096));
        for id in 0..sketch.period {
            sketch.add(mix(id));
        }
        assert!(sketch.estimate(7) < 12);
    }
}
