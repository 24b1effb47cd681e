//! Logs of made-up questions, for trials in which several programs are to ask the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// So many questions, by Zipf's law with exponent 1 over so many different ones, and one in ten that nobody repeats.
pub fn popular(count: usize, different: u64, seed: u64) -> Vec<String> {
    let mut state = seed;
    (0..count)
        .map(|nth| match unit(&mut state) < 0.1 {
            true => format!("once {nth}"),
            // A share of the logarithm is a rank of Zipf's law.
            false => format!("q{}", (unit(&mut state) * (different as f64).ln()).exp() as u64),
        })
        .collect()
}

/// Writes a log, one question in a line.
pub fn write(dir: &Path, name: &str, questions: &[String]) -> Result<PathBuf, String> {
    let mut text = String::new();
    for question in questions {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{question}");
    }
    let path = dir.join(name);
    std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}

/// SplitMix64.
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn some_are_popular_and_a_tenth_is_asked_once() {
        let asked = popular(20_000, 1_000_000, 3);
        let once = asked.iter().filter(|text| text.starts_with("once")).count();
        assert!((1_800..2_200).contains(&once), "{once}");
        let first = asked.iter().filter(|text| *text == "q1").count();
        // 0.9 × ln 2 / ln 10⁶.
        assert!((800..1_000).contains(&first), "{first}");
        assert!(asked.iter().collect::<HashSet<_>>().len() > 8_000);
        assert_eq!(asked, popular(20_000, 1_000_000, 3));
    }
}
