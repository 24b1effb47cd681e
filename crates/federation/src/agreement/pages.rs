//! What a received page must be like to be taken in, and which of two versions of a page counts.

use super::terms::{EngineId, Quota};
use crate::view::{Answer, Facts, View};
use farol_base::{ContentHash, Timestamp};
use std::time::Duration;

/// Engines that a page came by at most.
pub const VIA_MAX: usize = 8;

/// Clocks of partners may be wrong by this much.
pub const SKEW: Duration = Duration::from_secs(300);

/// A version of a page: of two, the greater one counts, whoever has it from whom. So packets come to the same in any order,
/// once or twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// When it was fetched.
    pub fetched: Timestamp,
    /// The page was gone.
    pub gone: bool,
    /// What it said.
    pub content: ContentHash,
    /// Who fetched it.
    pub origin: EngineId,
}

/// Where a page comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Who fetched it.
    pub origin: EngineId,
    /// Who passed it on since.
    pub via: Vec<EngineId>,
}

impl Provenance {
    /// Whether it may go on to an engine: one that it has not been at. How far it may go at all is for the terms to say under
    /// which it came ([`super::Terms::reach`]).
    pub fn may_go_to(&self, to: EngineId) -> bool {
        self.origin != to && !self.via.contains(&to) && self.via.len() <= VIA_MAX
    }

    /// The same as it leaves an engine that did not fetch it.
    pub fn passed_on_by(&self, me: EngineId) -> Provenance {
        let mut via = self.via.clone();
        if self.origin != me {
            via.push(me);
        }
        Provenance { origin: self.origin, via }
    }
}

/// Why a received page is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dropped {
    /// It is not surely in the agreed view.
    Outside,
    /// It was fetched by us, or passed on by us.
    Ours,
    /// It came by too many engines, or by one twice.
    Via,
    /// It was fetched after now.
    Future,
    /// What we have is as new.
    Old,
    /// Our operator took it out.
    Removed,
}

impl Dropped {
    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::Outside => "outside the agreed view",
            Dropped::Ours => "fetched or passed on by us",
            Dropped::Via => "came by too many engines",
            Dropped::Future => "fetched in the future",
            Dropped::Old => "not newer than what is kept",
            Dropped::Removed => "removed by our operator",
        }
    }
}

/// Decides on one received page. `have` is the version that is kept of it.
pub fn admit(
    me: EngineId,
    view: &View,
    now: Timestamp,
    page: &Facts,
    version: Version,
    provenance: &Provenance,
    have: Option<Version>,
) -> Result<(), Dropped> {
    let via = &provenance.via;
    let twice = via.iter().enumerate().any(|(i, id)| via[..i].contains(id) || *id == provenance.origin);
    if provenance.origin == me || via.contains(&me) {
        return Err(Dropped::Ours);
    }
    if via.len() > VIA_MAX || twice {
        return Err(Dropped::Via);
    }
    if version.fetched > now + SKEW {
        return Err(Dropped::Future);
    }
    if have.is_some_and(|have| have >= version) {
        return Err(Dropped::Old);
    }
    if view.has(page) == Answer::Yes { Ok(()) } else { Err(Dropped::Outside) }
}

/// What came of a partner within a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    day: u64,
    pages: u64,
    bytes: u64,
}

impl Used {
    /// What was kept of an earlier run: a day's number, pages and bytes.
    pub fn of(day: u64, pages: u64, bytes: u64) -> Used {
        Used { day, pages, bytes }
    }

    /// The same to be kept.
    pub fn parts(self) -> (u64, u64, u64) {
        (self.day, self.pages, self.bytes)
    }

    /// Takes a packet into account; the time to wait where it is too much for today. The first one of a day is always taken, as
    /// one that is larger than a day's quota would never be otherwise.
    pub fn take(&mut self, now: Timestamp, quota: Quota, pages: u64, bytes: u64) -> Result<(), Duration> {
        const DAY_MS: u64 = 86_400_000;
        let day = now.as_millis() / DAY_MS;
        let used = if self.day == day { *self } else { Used { day, ..Used::default() } };
        let used =
            Used { day, pages: used.pages.saturating_add(pages), bytes: used.bytes.saturating_add(bytes) };
        let is_first = self.day != day || self.pages == 0 && self.bytes == 0;
        if !is_first && (used.pages > quota.pages_day || used.bytes > quota.bytes_day) {
            return Err(Duration::from_millis((day + 1) * DAY_MS - now.as_millis()));
        }
        *self = used;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{CanonicalUrl, Random, Seeded};

    fn engine(number: u8) -> EngineId {
        EngineId([number; 32])
    }

    #[test]
    fn a_page_is_admitted_or_dropped_for_a_reason() {
        let view = View::parse(".pt and lang:pt").unwrap();
        let url = CanonicalUrl::parse("http://a.pt/").unwrap();
        let page = Facts::of(&url).language(Some(farol_base::Language::PORTUGUESE));
        let now = Timestamp::from_secs(1_000_000);
        let version = Version { fetched: now, gone: false, content: ContentHash(7), origin: engine(1) };
        let from =
            |via: &[u8]| Provenance { origin: engine(1), via: via.iter().map(|n| engine(*n)).collect() };
        let decide = |page: &Facts, version, from: &Provenance, have| {
            admit(engine(9), &view, now, page, version, from, have)
        };
        assert_eq!(decide(&page, version, &from(&[2, 3]), None), Ok(()));
        assert_eq!(
            decide(&Facts::of(&url), version, &from(&[]), None),
            Err(Dropped::Outside),
            "not surely inside"
        );
        assert_eq!(decide(&page, version, &from(&[2, 9]), None), Err(Dropped::Ours));
        assert_eq!(decide(&page, version, &from(&[2, 2]), None), Err(Dropped::Via));
        assert_eq!(decide(&page, version, &from(&[2, 3, 4, 5, 6, 7, 8, 10, 11]), None), Err(Dropped::Via));
        let late = Version { fetched: now + SKEW + SKEW, ..version };
        assert_eq!(decide(&page, late, &from(&[]), None), Err(Dropped::Future));
        assert_eq!(
            decide(&page, version, &from(&[]), Some(version)),
            Err(Dropped::Old),
            "once is as good as twice"
        );
        assert!(from(&[2]).may_go_to(engine(3)) && !from(&[2]).may_go_to(engine(2)));
        assert!(!from(&[2]).may_go_to(engine(1)));
        assert_eq!(from(&[2]).passed_on_by(engine(3)), from(&[2, 3]));
        assert_eq!(from(&[]).passed_on_by(engine(1)), from(&[]));
    }

    #[test]
    fn versions_in_any_order_and_number_come_to_the_same() {
        for seed in 0..200 {
            let random = &mut Seeded::new(seed);
            let versions: Vec<Version> = (0..6)
                .map(|_| Version {
                    fetched: Timestamp::from_secs(random.below(3)),
                    gone: random.below(2) == 0,
                    content: ContentHash(u128::from(random.below(2))),
                    origin: engine(random.below(3) as u8),
                })
                .collect();
            let end = |random: &mut Seeded| {
                let mut kept: Option<Version> = None;
                let mut left: Vec<Version> = versions.iter().chain(&versions).copied().collect();
                while !left.is_empty() {
                    let next = left.swap_remove(random.below(left.len() as u64) as usize);
                    kept = kept.max(Some(next));
                }
                kept
            };
            assert_eq!(end(random), end(random), "seed {seed}");
        }
    }

    #[test]
    fn a_quota_is_for_a_day() {
        let quota = Quota { pages_day: 10, bytes_day: 1000 };
        let mut used = Used::default();
        let noon = Timestamp::from_secs(86_400 * 3 + 43_200);
        assert_eq!(used.take(noon, quota, 10, 10), Ok(()));
        assert_eq!(used.take(noon, quota, 1, 1), Err(Duration::from_secs(43_200)));
        assert_eq!(used.take(noon + Duration::from_secs(43_200), quota, 1, 1), Ok(()));
        assert!(used.take(noon + Duration::from_secs(43_200), quota, 0, 1000).is_err());
    }
}
