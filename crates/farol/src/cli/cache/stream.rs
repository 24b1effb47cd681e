//! Streams of questions for [`super::replay`]: those of a log, or made-up ones as people ask.
//!
//! Made up: by Zipf's law with exponent 1, and one in ten that nobody repeats; from some time on, a part may be one
//! question that comes out of nowhere, as a flash does.

use farol_base::{Random, Seeded};
use std::sync::Arc;

/// Different questions that people might ask.
const QUESTIONS: f64 = 1e9;
/// Of all, so many are asked once.
const ONCE: f64 = 0.1;

/// Where questions come from.
#[derive(Clone)]
pub enum Stream {
    /// Texts in the order of a log, again from the start at its end.
    Log(Arc<Vec<String>>),
    /// Popular ones, from so many.
    Zipf(f64),
}

/// A question that comes out of nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Flash {
    /// Its share of all in the end.
    pub share: f64,
    /// Seconds until it comes, and until it has this share.
    pub after: f64,
    pub ramp: f64,
}

impl Flash {
    /// Its share of all at this time.
    pub fn share_at(&self, secs: f64) -> f64 {
        let part =
            if self.ramp > 0.0 { (secs - self.after) / self.ramp } else { f64::from(secs >= self.after) };
        self.share * part.clamp(0.0, 1.0)
    }
}

impl Stream {
    pub fn zipf() -> Stream {
        Stream::Zipf(QUESTIONS)
    }

    /// The question with this number, at this time.
    pub fn question(&self, number: u64, secs: f64, flash: Option<Flash>, random: &mut Seeded) -> String {
        if flash.is_some_and(|flash| random.unit() < flash.share_at(secs)) {
            return "flash".to_string();
        }
        match self {
            Stream::Log(texts) => texts[(number % texts.len().max(1) as u64) as usize].clone(),
            Stream::Zipf(_) if random.unit() < ONCE => format!("once{:x}", random.next_u64()),
            // A share of the logarithm is a rank of Zipf's law.
            Stream::Zipf(questions) => format!("q{}", (random.unit() * questions.ln()).exp() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn popular_questions_come_often_and_a_flash_takes_its_share() {
        let (mut random, stream) = (Seeded::new(1), Stream::zipf());
        let mut counts: HashMap<String, u32> = HashMap::new();
        (0..50_000).for_each(|number| {
            *counts.entry(stream.question(number, 0.0, None, &mut random)).or_default() += 1;
        });
        // 0.9 × ln 2 / ln 1e9 of all.
        assert!((1_300..1_750).contains(&counts["q1"]), "{}", counts["q1"]);
        assert!(counts.len() > 15_000, "{}", counts.len());
        let flash = Flash { share: 0.2, after: 10.0, ramp: 100.0 };
        let shares = [0.0, 10.0, 60.0, 110.0, 999.0].map(|secs| (flash.share_at(secs) * 100.0).round());
        assert_eq!(shares, [0.0, 0.0, 10.0, 20.0, 20.0]);
        let flashes = (0..10_000)
            .filter(|number| stream.question(*number, 200.0, Some(flash), &mut random) == "flash")
            .count();
        assert!((1_800..2_200).contains(&flashes), "{flashes}");
    }

    #[test]
    fn a_log_is_repeated_in_its_order() {
        let stream = Stream::Log(Arc::new(vec!["a".into(), "b".into()]));
        let mut random = Seeded::new(1);
        let asked: Vec<String> =
            (0..5).map(|number| stream.question(number, 0.0, None, &mut random)).collect();
        assert_eq!(asked, ["a", "b", "a", "b", "a"]);
    }
}
