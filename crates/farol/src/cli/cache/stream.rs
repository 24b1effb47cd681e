//! Streams of questions for [`super::replay`]: those of a log, or made-up ones as people ask.
//!
//! Made up: by Zipf's law with exponent 1, and one in ten that nobody repeats; or each another one, as somebody asks who
//! wants to do harm. From some time on, a part may be questions that come out of nowhere: one, as a flash does, or several
//! strings of one topic [Gomez14 §6.6].

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
    /// Each another one.
    Distinct,
}

/// Questions that come out of nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Flash {
    /// Share of all that the first has in the end.
    pub share: f64,
    /// Seconds until it comes, and until it has this share.
    pub after: f64,
    pub ramp: f64,
    /// How many; one stays as it is, several rise one after another, each less than the one before, and fade.
    pub strings: u32,
}

impl Flash {
    /// The share of all of the string with this number, at this time.
    pub fn share_of(&self, string: u32, secs: f64) -> f64 {
        if self.strings < 2 {
            let ramp =
                if self.ramp > 0.0 { (secs - self.after) / self.ramp } else { f64::from(secs >= self.after) };
            return self.share * ramp.clamp(0.0, 1.0);
        }
        let since = secs - self.begins(string);
        let (rises, stays, fades) = (self.rises(string), self.ramp / 3.0, 4.0 * self.ramp);
        let peak = self.share / (1.0 + 0.7 * f64::from(string));
        match since {
            _ if since < 0.0 => 0.0,
            // Faster and faster, as the published series do.
            _ if since < rises => peak * (since / rises).powi(2),
            _ if since < rises + stays => peak,
            _ => peak * ((rises + stays - since) / fades).exp(),
        }
    }

    fn begins(&self, string: u32) -> f64 {
        self.after + self.ramp * 0.1 * f64::from(string)
    }

    fn rises(&self, string: u32) -> f64 {
        (self.ramp * (1.0 + 0.15 * f64::from(string))).max(1e-3)
    }

    /// One of them, if it is the turn of one.
    fn question(&self, secs: f64, random: &mut Seeded) -> Option<String> {
        let mut part = random.unit();
        for string in 0..self.strings.max(1) {
            part -= self.share_of(string, secs);
            if part < 0.0 {
                return Some(if self.strings < 2 { "flash".into() } else { format!("flash {string}") });
            }
        }
        None
    }
}

impl Stream {
    pub fn zipf() -> Stream {
        Stream::Zipf(QUESTIONS)
    }

    /// The question with this number, at this time.
    pub fn question(&self, number: u64, secs: f64, flash: Option<Flash>, random: &mut Seeded) -> String {
        if let Some(question) = flash.and_then(|flash| flash.question(secs, random)) {
            return question;
        }
        match self {
            Stream::Log(texts) => texts[(number % texts.len().max(1) as u64) as usize].clone(),
            Stream::Zipf(_) if random.unit() < ONCE => format!("once{:x}", random.next_u64()),
            // A share of the logarithm is a rank of Zipf's law.
            Stream::Zipf(questions) => format!("q{}", (random.unit() * questions.ln()).exp() as u64),
            Stream::Distinct => format!("d{:x}", random.next_u64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

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
        let flash = Flash { share: 0.2, after: 10.0, ramp: 100.0, strings: 1 };
        let shares = [0.0, 10.0, 60.0, 110.0, 999.0].map(|secs| (flash.share_of(0, secs) * 100.0).round());
        assert_eq!(shares, [0.0, 0.0, 10.0, 20.0, 20.0]);
        let flashes = (0..10_000)
            .filter(|number| stream.question(*number, 200.0, Some(flash), &mut random) == "flash")
            .count();
        assert!((1_800..2_200).contains(&flashes), "{flashes}");
        let all: HashSet<String> =
            (0..10_000).map(|number| Stream::Distinct.question(number, 0.0, None, &mut random)).collect();
        assert_eq!(all.len(), 10_000);
    }

    #[test]
    fn strings_of_a_topic_rise_one_after_another_and_fade() {
        let topic = Flash { share: 0.03, after: 60.0, ramp: 120.0, strings: 7 };
        // The first peaks after its ramp, the last later and lower; all have gone after an hour.
        assert_eq!((topic.share_of(0, 59.0), topic.share_of(0, 181.0)), (0.0, 0.03));
        assert!(topic.share_of(6, 131.0) == 0.0 && topic.share_of(6, 132.0 + 229.0) > 0.005);
        assert!((0..7).all(|string| topic.share_of(string, 4_500.0) < 0.001));
        let peaks: Vec<f64> = (0..7)
            .map(|string| (0..2000).map(|secs| topic.share_of(string, f64::from(secs))).fold(0.0, f64::max))
            .collect();
        assert!(peaks.is_sorted_by(|one, next| one > next), "{peaks:?}");
        let mut random = Seeded::new(1);
        let asked: HashSet<String> = (0..20_000).filter_map(|_| topic.question(300.0, &mut random)).collect();
        assert_eq!(asked.len(), 7, "{asked:?}");
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
