//! The usual answer: a hash of a URL or a host name, modulo the number of agents [Exposto08 §2.2.4].
//!
//! The hash is XXH3-64, published and the same everywhere (decision D-13).

use farol_base::fingerprint::hash64;

/// The agent of a text: a whole URL, or a host name.
pub fn of_text(text: &str, agents: usize) -> u32 {
    (hash64(text.as_bytes()) % agents.max(1) as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_published_algorithm_and_spread() {
        // XXH3-64 of the empty input is 0x2D06800538D394C2.
        assert_eq!(of_text("", 1000), (0x2D06_8005_38D3_94C2u64 % 1000) as u32);
        let mut counts = [0; 8];
        (0..8000).for_each(|n| counts[of_text(&format!("http://h{n}.test"), 8) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(of_text("x", 0), 0);
    }
}
