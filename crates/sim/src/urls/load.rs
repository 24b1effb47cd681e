//! What a crawl brings to a URL store, in cycles [Henrique11 ch. 4].
//!
//! The thesis' cycle brings 100,000 collected URLs and 900,000 extracted ones, and 350 cycles make 350 million known
//! URLs. Our form of it: in every cycle the store is first asked for 100,000 URLs to collect (none in the first cycle,
//! when it knows nothing); these are reported as visited; then come the extracted URLs, 1,000,000 that were never seen
//! before, so that the store knows exactly 1,000,000 × cycles, and 1,000,000 that were, as pages link to known pages. Of
//! these half are from the newest three cycles' worth of URLs, half from anywhere back in time. New and known ones
//! alternate.
//!
//! PROMISE: everything is a formula of the seed ([`Atlas`], [`Speller`]); no list of past URLs is kept. The same seed
//! gives every store the same extracted URLs. (What is visited depends on what the store hands out.)
//! Does not measure: see [`super::driver`]. URLs from files instead: [`super::lines`].

use super::atlas::Atlas;
use super::lines::Lines;
use super::spell::Speller;
use crate::Error;
use farol_base::{CanonicalUrl, ContentHash, PagePosition, Random, Seeded, Timestamp};
use farol_store::urls::{Found, Visit, VisitOutcome};
use std::time::Duration;

/// URLs that are made, and then handed to the store, at a time: 10,000 × some 110 bytes = 1.1 MB.
pub const BATCH: usize = 10_000;
/// Simulated time that a cycle takes: the thesis' 270 s of other work and a little more.
const CYCLE_SECS: u64 = 300;
/// When the crawl began: 2009-01-01, as ClueWeb09.
const BEGIN: Timestamp = Timestamp::from_secs(1_230_768_000);
/// A WARC file is followed by the next after this many bytes.
const WARC_BYTES: u64 = 1 << 30;

/// How much each cycle brings.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args, serde::Serialize, serde::Deserialize)]
pub struct LoadConfig {
    /// URLs that each cycle takes from the store and reports as visited.
    #[arg(long, default_value_t = 100_000)]
    pub collected: usize,
    /// Extracted URLs per cycle that were never seen before.
    #[arg(long, default_value_t = 1_000_000)]
    pub new: u64,
    /// Extracted URLs per cycle that were seen before.
    #[arg(long, default_value_t = 1_000_000)]
    pub repeats: u64,
    /// Two runs with the same seed bring the same.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The sequence of cycles.
#[derive(Debug)]
pub struct Load {
    source: Source,
    cycle: u64,
    random: Seeded,
    warc: PagePosition,
}

#[derive(Debug)]
enum Source {
    Formula(Box<Formula>),
    Files(Lines),
}

#[derive(Debug)]
struct Formula {
    config: LoadConfig,
    atlas: Atlas,
    speller: Speller,
    random: Seeded,
    /// Made so far of this cycle.
    new: u64,
    repeats: u64,
}

impl Load {
    /// URLs by formula.
    pub fn generated(config: LoadConfig) -> Load {
        let formula = Formula {
            atlas: Atlas::new(config.seed, config.new),
            speller: Speller::new(config.seed),
            random: Seeded::new(config.seed ^ 0x10AD),
            new: config.new,
            repeats: config.repeats,
            config: config.clone(),
        };
        Load::of(Source::Formula(Box::new(formula)), config.seed)
    }

    /// URLs from files, in their order.
    pub fn from_lines(lines: Lines, seed: u64) -> Load {
        Load::of(Source::Files(lines), seed)
    }

    fn of(source: Source, seed: u64) -> Load {
        Load { source, cycle: 0, random: Seeded::new(seed ^ 0x7151), warc: PagePosition::default() }
    }

    /// Begins the next cycle, and says which it is, from 1; `None` where the input has ended.
    pub fn begin_cycle(&mut self) -> Option<u64> {
        match &mut self.source {
            Source::Formula(formula) => (formula.new, formula.repeats) = (0, 0),
            Source::Files(lines) => lines.begin_cycle()?,
        }
        self.cycle += 1;
        Some(self.cycle)
    }

    /// The instant at which this cycle begins.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(BEGIN.as_millis() + self.cycle * CYCLE_SECS * 1000)
    }

    /// Fills `batch` with the next extracted URLs of this cycle; it stays empty at the cycle's end.
    pub fn extract(&mut self, batch: &mut Vec<Found>) -> Result<(), Error> {
        batch.clear();
        // Links lead away from the seeds as the crawl goes on.
        let depth = self.cycle.min(30) as u16;
        let mut push = |url| batch.push(Found { url, depth, hint: None });
        match &mut self.source {
            Source::Formula(formula) => formula.extract(self.cycle - 1, &mut push),
            Source::Files(lines) => lines.extract(&mut push)?,
        }
        Ok(())
    }

    /// What a visit in this cycle brought.
    pub fn visit(&mut self) -> Visit {
        let at = Timestamp::from_millis(self.now().as_millis() + self.random.below(CYCLE_SECS * 1000));
        let outcome = match self.random.below(100) {
            0..=2 => VisitOutcome::Gone,
            3..=6 => VisitOutcome::Redirect,
            7..=8 => VisitOutcome::Failed,
            _ => VisitOutcome::Page,
        };
        let page = outcome == VisitOutcome::Page;
        self.warc.offset += 2000 + self.random.below(16_000);
        if self.warc.offset > WARC_BYTES {
            self.warc = PagePosition { file: self.warc.file + 1, offset: 0 };
        }
        let hash = u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64());
        Visit {
            at,
            outcome,
            content_hash: if page { ContentHash(hash) } else { ContentHash::default() },
            changed: page,
            position: Some(self.warc),
            download: Duration::from_millis(20 + self.random.below(2000)),
            // Far beyond the 350 cycles, which last 29 hours.
            memo: self.random.next_u64().to_le_bytes(),
            due: if page {
                Timestamp::from_millis(at.as_millis() + 30 * 86_400_000)
            } else {
                Timestamp::NEVER
            },
        }
    }

    /// Lines that were no URLs, where the load comes from files.
    pub fn skipped(&self) -> u64 {
        match &self.source {
            Source::Formula(_) => 0,
            Source::Files(lines) => lines.skipped(),
        }
    }
}

impl Formula {
    fn extract(&mut self, cycle: u64, push: &mut impl FnMut(CanonicalUrl)) {
        let (new_left, repeats_left) = (self.config.new - self.new, self.config.repeats - self.repeats);
        let count = (new_left + repeats_left).min(BATCH as u64);
        for _ in 0..count {
            let number = self.next_number(cycle);
            push(self.speller.url(self.atlas.place(number)));
        }
    }

    /// A new number or an old one, alternately, so that both kinds last until the cycle's end.
    fn next_number(&mut self, cycle: u64) -> u64 {
        let LoadConfig { new, repeats, .. } = self.config;
        let known = cycle * new + self.new;
        // The very first URL has nothing to repeat.
        let behind = u128::from(self.new) * u128::from(repeats) <= u128::from(self.repeats) * u128::from(new);
        if self.new < new && (behind || self.repeats == repeats || known == 0) {
            self.new += 1;
            return known;
        }
        self.repeats += 1;
        if self.repeats.is_multiple_of(2) {
            let recent = known.min(3 * new);
            known - 1 - self.random.below(recent)
        } else {
            self.random.below(known)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn cycles_bring_what_was_ordered() {
        let config = LoadConfig { collected: 10, new: 12_345, repeats: 4321, seed: 5 };
        let mut load = Load::generated(config.clone());
        let (mut known, mut batch) = (HashSet::new(), Vec::new());
        for cycle in 1..=3 {
            assert_eq!(load.begin_cycle(), Some(cycle));
            let mut extracted = 0;
            loop {
                load.extract(&mut batch).unwrap();
                if batch.is_empty() {
                    break;
                }
                extracted += batch.len() as u64;
                known.extend(batch.iter().map(|found| found.url.clone()));
            }
            assert_eq!(extracted, config.new + config.repeats);
            assert_eq!(known.len() as u64, config.new * cycle);
        }
    }

    #[test]
    fn the_seed_is_everything() {
        let first = |seed: u64| {
            let mut load = Load::generated(LoadConfig { collected: 1, new: 50, repeats: 50, seed });
            let mut batch = Vec::new();
            load.begin_cycle();
            load.extract(&mut batch).unwrap();
            (batch, load.visit())
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1).0, first(2).0);
    }
}
