//! Similarity fingerprints: texts that share most of their wording differ in few bits.
//!
//! Charikar's simhash \[Charikar02\] over shingles of three words: each shingle votes with its 64 hash bits,
//! and each bit of the fingerprint is the majority. Words are runs of letters and digits in lower case (ASCII
//! case only); every character of Chinese, Japanese and Korean stands for a word. Exact duplicates are told
//! by [`farol_base::ContentHash`].

use farol_base::ContentHash;
use farol_base::random::mix;

/// Words in a shingle.
const SHINGLE: usize = 3;

/// The similarity fingerprint of a text; 0 for a text without words. Two that differ in up to three bits are of nearly
/// the same text; 32 is chance.
///
/// ```
/// use farol_parse::fingerprint::simhash;
/// let words: Vec<String> = (0..200).map(|i| format!("word{i}")).collect();
/// let text = words.join(" ");
/// let edited = text.replace("word100", "other");
/// assert!((simhash(&text) ^ simhash(&edited)).count_ones() <= 8);
/// ```
pub fn simhash(text: &str) -> u64 {
    let mut votes = Votes::default();
    let mut window = [0u64; SHINGLE];
    let mut words = 0usize;
    each_word(text.as_bytes(), |word| {
        window.rotate_left(1);
        window[SHINGLE - 1] = word;
        words += 1;
        if words >= SHINGLE {
            votes.add(shingle(&window));
        }
    });
    if words > 0 && words < SHINGLE {
        votes.add(shingle(&window));
    }
    votes.majority()
}

/// The hash of all words of a text that comes in pieces; markup between two pieces ends a word.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordsHash {
    lanes: [u64; 2],
    words: u64,
}

impl WordsHash {
    pub fn add(&mut self, text: &str) {
        each_word(text.as_bytes(), |word| {
            self.lanes[0] = mix(self.lanes[0] ^ word);
            self.lanes[1] = mix(self.lanes[1].rotate_left(17) ^ word);
            self.words += 1;
        });
    }

    /// `None` where there was no word.
    pub fn finish(&self) -> Option<ContentHash> {
        let [first, second] = self.lanes.map(u64::to_le_bytes);
        let bytes = [first, second, self.words.to_le_bytes()].concat();
        (self.words > 0).then(|| ContentHash::of(&bytes))
    }
}

/// The hash of a shingle, in which the order of its words counts.
fn shingle(window: &[u64; SHINGLE]) -> u64 {
    mix(window.iter().fold(0, |hash: u64, word| hash.rotate_left(21) ^ word))
}

/// Calls `found` with the hash of each word.
fn each_word(bytes: &[u8], mut found: impl FnMut(u64)) {
    let mut word = ShingleWord::default();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match CLASS[usize::from(byte)] {
            Class::Letter => word.push(byte),
            Class::Capital => word.push(byte | 0x20),
            Class::Between => word.end(&mut found),
            Class::BetweenOfThree => {
                word.end(&mut found);
                at += 2;
            }
            Class::WordOfThree => {
                word.end(&mut found);
                bytes[at - 1..bytes.len().min(at + 2)].iter().for_each(|byte| word.push(*byte));
                word.end(&mut found);
                at += 2;
            }
        }
    }
    word.end(&mut found);
}

/// A word being read, eight bytes to a step of its hash.
#[derive(Default)]
struct ShingleWord {
    hash: u64,
    packed: u64,
    len: usize,
}

impl ShingleWord {
    fn push(&mut self, byte: u8) {
        self.packed = self.packed << 8 | u64::from(byte);
        self.len += 1;
        if self.len.is_multiple_of(8) {
            self.hash = (self.hash ^ self.packed).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
            self.packed = 0;
        }
    }

    fn end(&mut self, found: &mut impl FnMut(u64)) {
        if self.len > 0 {
            found(mix(self.hash ^ self.packed ^ (self.len as u64) << 57));
            *self = ShingleWord::default();
        }
    }
}

/// What a byte means when words are cut.
#[derive(Clone, Copy)]
enum Class {
    Letter,
    Capital,
    Between,
    /// First of the three bytes of U+2000 to U+2FFF: dashes, quotes, arrows.
    BetweenOfThree,
    /// First of the three bytes of U+3000 to U+DFFF: kana, ideographs, Hangul.
    WordOfThree,
}

static CLASS: [Class; 256] = {
    let mut class = [Class::Between; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' => Class::Letter,
            b'A'..=b'Z' => Class::Capital,
            0..=0x7F => Class::Between,
            0xE2 => Class::BetweenOfThree,
            0xE3..=0xED => Class::WordOfThree,
            _ => Class::Letter,
        };
        byte += 1;
    }
    class
};

/// 64 counters side by side: plane k holds bit k of every counter. Votes are added eight at a time by a tree
/// of full adders (Harley and Seal), so that one vote costs about ten word operations instead of 64 additions.
#[derive(Default)]
struct Votes {
    planes: [u64; 32],
    waiting: [u64; 8],
    count: u32,
}

impl Votes {
    fn add(&mut self, vote: u64) {
        // 2^32 votes would need more text than any limit lets through.
        self.waiting[self.count as usize % 8] = vote;
        self.count = self.count.saturating_add(1);
        if self.count.is_multiple_of(8) {
            self.add_waiting();
        }
    }

    /// Adds eight votes and forgets them.
    fn add_waiting(&mut self) {
        let [a, b, c, d, e, f, g, h] = std::mem::take(&mut self.waiting);
        let [ones, twos, fours, ..] = self.planes;
        let (ones, two_a) = full_add(ones, a, b);
        let (ones, two_b) = full_add(ones, c, d);
        let (twos, four_a) = full_add(twos, two_a, two_b);
        let (ones, two_a) = full_add(ones, e, f);
        let (ones, two_b) = full_add(ones, g, h);
        let (twos, four_b) = full_add(twos, two_a, two_b);
        let (fours, mut carry) = full_add(fours, four_a, four_b);
        [self.planes[0], self.planes[1], self.planes[2]] = [ones, twos, fours];
        for plane in &mut self.planes[3..] {
            if carry == 0 {
                break;
            }
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
    }

    /// The bits that more than half of the votes have.
    fn majority(mut self) -> u64 {
        self.add_waiting();
        let votes_for = |bit: u32| -> u64 {
            self.planes.iter().enumerate().map(|(k, plane)| (plane >> bit & 1) << k).sum()
        };
        (0..64).filter(|&bit| 2 * votes_for(bit) > u64::from(self.count)).fold(0, |all, bit| all | 1 << bit)
    }
}

/// Adds three bits in each of 64 places: the sum's low and high bit.
fn full_add(a: u64, b: u64, c: u64) -> (u64, u64) {
    let low = a ^ b;
    (low ^ c, (a & b) | (low & c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distance(a: &str, b: &str) -> u32 {
        (simhash(a) ^ simhash(b)).count_ones()
    }

    #[test]
    fn layout_and_case_do_not_count() {
        assert_eq!(distance("One two, three - four", "one  TWO\nthree “four”"), 0);
        assert_eq!(simhash(""), 0);
        assert_ne!(simhash("one"), 0);
        assert_ne!(simhash("one"), simhash("two"));
    }

    /// One word in 400 changes three of 398 shingles. A bit turns where the vote was that close: by the normal
    /// approximation 2 of 64 on average. Other texts differ in half of the bits.
    #[test]
    fn near_is_near_and_far_is_far() {
        let words: Vec<String> = (0..400).map(|i| format!("w{}", i * i % 1009)).collect();
        let text = words.join(" ");
        let edits = 3..397;
        let near: u32 = edits
            .clone()
            .map(|at| {
                let mut edited = words.clone();
                edited[at] = format!("changed{at}");
                distance(&text, &edited.join(" "))
            })
            .sum();
        let mean = f64::from(near) / edits.len() as f64;
        assert!((1.0..4.0).contains(&mean), "{mean}");
        let far: u32 = (0..100).map(|k| distance(&text, &text.replace('w', &format!("v{k}x")))).sum();
        assert!((28.0..36.0).contains(&(f64::from(far) / 100.0)), "{far}");
        let japanese = "検索エンジンはウェブページを何度も訪れる機械を必要とします。".repeat(5);
        assert!(distance(&japanese, &japanese.replacen("何度", "毎日", 1)) <= 10);
    }

    proptest! {
        #[test]
        fn planes_count_like_counters(votes in proptest::collection::vec(any::<u64>(), 0..200)) {
            let mut planes = Votes::default();
            let mut naive = [0i64; 64];
            for vote in &votes {
                planes.add(*vote);
                for (bit, counter) in naive.iter_mut().enumerate() {
                    *counter += if vote >> bit & 1 == 1 { 1 } else { -1 };
                }
            }
            let want = naive.iter().enumerate().fold(0u64, |all, (bit, c)| all | u64::from(*c > 0) << bit);
            prop_assert_eq!(planes.majority(), want);
        }

        #[test]
        fn no_text_breaks_it(text in "\\PC{0,200}") {
            let _ = simhash(&text);
        }
    }
}
