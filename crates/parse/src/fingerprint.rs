//! Similarity fingerprints: texts that share most of their wording differ in few bits.
//!
//! Charikar's simhash over shingles of three words: each shingle votes with its 64 hash bits, and each bit of
//! the fingerprint is the majority. Words are runs of letters and digits in lower case (ASCII case only);
//! every character of Chinese, Japanese and Korean stands for a word. Exact duplicates are told by
//! [`farol_base::ContentHash`].

use farol_base::random::mix;

/// Words in a shingle.
const SHINGLE: usize = 3;

/// The similarity fingerprint of a text; 0 for a text without words.
///
/// ```
/// use farol_parse::{fingerprint::simhash, simhash_distance};
/// let words: Vec<String> = (0..200).map(|i| format!("word{i}")).collect();
/// let text = words.join(" ");
/// let edited = text.replace("word100", "other");
/// assert!(simhash_distance(simhash(&text), simhash(&edited)) <= 8);
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

/// In how many bits two fingerprints differ: 0 to 3 is nearly the same text, 32 is chance.
pub fn simhash_distance(a: u64, b: u64) -> u32 {
    (a ^ b).count_ones()
}

/// The hash of a shingle, in which the order of its words counts.
fn shingle(window: &[u64; SHINGLE]) -> u64 {
    mix(window.iter().fold(0, |hash: u64, word| hash.rotate_left(21) ^ word))
}

/// Calls `found` with the hash of each word.
fn each_word(bytes: &[u8], mut found: impl FnMut(u64)) {
    const SEED: u64 = 0xCBF2_9CE4_8422_2325;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let mut hash = SEED;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => hash = step(hash, byte),
            b'A'..=b'Z' => hash = step(hash, byte | 0x20),
            // General punctuation, U+2000 to U+2FFF: dashes, quotes, arrows.
            0..=0x7F | 0xE2 => {
                if hash != SEED {
                    found(hash);
                    hash = SEED;
                }
                at += if byte == 0xE2 { 2 } else { 0 };
            }
            // U+3000 to U+DFFF in three bytes: kana, ideographs, Hangul.
            0xE3..=0xED => {
                if hash != SEED {
                    found(hash);
                }
                let end = bytes.len().min(at + 3);
                found(bytes[at..end].iter().fold(SEED, |hash, byte| step(hash, *byte)));
                hash = SEED;
                at += 2;
            }
            _ => hash = step(hash, byte),
        }
        at += 1;
    }
    if hash != SEED {
        found(hash);
    }
}

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
        simhash_distance(simhash(a), simhash(b))
    }

    #[test]
    fn layout_and_case_do_not_count() {
        assert_eq!(distance("One two, three - four", "one  TWO\nthree “four”"), 0);
        assert_eq!(simhash(""), 0);
        assert_ne!(simhash("one"), 0);
        assert_ne!(simhash("one"), simhash("two"));
    }

    #[test]
    fn near_is_near_and_far_is_far() {
        let text: String = (0..400).map(|i| format!("w{} ", i * i % 1009)).collect();
        let other: String = (0..400).map(|i| format!("v{} ", i * i % 1013)).collect();
        let edited = text.replacen("w81 ", "changed ", 1);
        assert!(distance(&text, &edited) <= 4, "{}", distance(&text, &edited));
        assert!(distance(&text, &other) >= 16, "{}", distance(&text, &other));
        let japanese = "検索エンジンはウェブページを何度も訪れる機械を必要とします。".repeat(5);
        assert!(distance(&japanese, &japanese.replacen("何度", "毎日", 1)) <= 6);
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
