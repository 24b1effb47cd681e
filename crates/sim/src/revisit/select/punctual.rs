//! PUNCTUAL: each page when its next visit is worth the price, as far as the server's pace allows. A rule of the lab: it
//! needs every page in memory. `farol` plans with `farol_frontier::revisit::planner` instead, which has the same prices.
//!
//! MERGE puts pages on a grid of equal intervals and so visits each a little too early or too late; the fewer pages a
//! server has, the more it loses. This rule differs in four ways, and each was measured (`docs/results/revisit.md`):
//!
//! 1. *Instants follow pages, within reason.* The server is asked when its first page is due, never sooner than its
//!    delay allows, and never more than [`SLACK`] visits ahead of or behind its pace. A server that is asked as often
//!    as it bears falls back to equal intervals by itself.
//! 2. *A page's clock starts when it is visited*, not when it should have been. Pages that met once then drift apart
//!    instead of meeting again and again.
//! 3. *The best of the first few.* Among the [`LOOK`] pages at the top of the heap the one is visited whose
//!    index is greatest now, which is what Whittle's rule asks among all.
//! 4. *Pages known to be stale come by worth*, not by phase: slow and important ones first, for they stay fresh longest.
//!    That is how a repository starts, and how a page that a sitemap or a feed says has changed is treated.
//!
//! O(log n) per visit. 24 bytes per page: 12 for what is known of it, 4 for its last visit, 8 in a heap. Instants are
//! seconds since the schedule began; the ones kept per page are counted in eighths of a second, which lasts 17 years.
//!
//! INVARIANT: two requests are at least the delay apart.
//! INVARIANT: by any time t, the server was asked at most rate·t + SLACK + 1 times.
//! INVARIANT: a page is in exactly one place: a heap, or out to be visited.

use farol_frontier::revisit::allocate::Page;
use farol_frontier::revisit::select::{Timetable, Visit};
use farol_frontier::revisit::{Change, Freshness, Heap};

/// How many visits a server may be ahead of its pace or behind it. With 2 nearly every visit of a small server is
/// punctual; a channel of 5,462 servers then carries at most 10,924 visits too many, once.
pub const SLACK: f64 = 2.0;

/// How many of the pages that are due first are compared: the top of the heap and its four children. More did not help.
pub const LOOK: usize = 5;

const TICKS_PER_SEC: f64 = 8.0;

/// Instead of a last visit: the page was never collected, or is known to be another by now.
const STALE: u32 = u32::MAX;

/// The pages of one server.
#[derive(Clone, Debug)]
pub struct Punctual {
    pages: Vec<Page>,
    /// Last visits, in ticks; [`STALE`] where there is no true copy.
    last: Vec<u32>,
    /// By the tick at which the next visit is worth the price.
    due: Heap<u32>,
    /// Pages of which more is to be found out, by the tick for that. What a look is worth now is not what counts.
    probes: Heap<u32>,
    /// By worth, the greatest first.
    stale: Heap<GreatestFirst>,
    /// Being visited now.
    out: Vec<u32>,
    price: f64,
    delay: f64,
    rate: f64,
    /// When the next request would be made at equal intervals.
    pace: f64,
    /// When the next request is polite.
    free_at: f64,
}

/// A key that sorts the greatest worth first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct GreatestFirst(f32);

/// Why a page is visited when it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VisitReason {
    /// Last visit; `None` where there is no true copy.
    pub last: Option<f64>,
    /// When its next visit is worth the price; infinite where it never is.
    pub due: f64,
    /// What a visit now would be worth.
    pub worth: f64,
    /// What it must be worth.
    pub price: f64,
    /// Probability that the copy is still true.
    pub fresh: f64,
}

impl Punctual {
    /// A server without pages that wants `delay` seconds between requests. `phase`, in `[0, 1)`, says how far into its
    /// first interval the first request is; servers with different phases do not all start at once.
    pub fn new(delay: f64, price: f64, rate: f64, phase: f64) -> Punctual {
        Punctual {
            pages: Vec::new(),
            last: Vec::new(),
            due: Heap::new(Vec::new()),
            probes: Heap::new(Vec::new()),
            stale: Heap::new(Vec::new()),
            out: Vec::new(),
            price,
            delay,
            rate,
            pace: if rate > 0.0 { phase / rate } else { 0.0 },
            free_at: 0.0,
        }
    }

    /// A server whose pages are all stale, built in O(n).
    pub fn with_pages(pages: Vec<Page>, delay: f64, price: f64, rate: f64, phase: f64) -> Punctual {
        let mut server = Punctual::new(delay, price, rate, phase);
        server.last = vec![STALE; pages.len()];
        server.pages = pages;
        server.rebuild();
        server
    }

    /// Adds a page and gives its number. `visited` is when it was collected, `None` where it was not.
    pub fn add(&mut self, page: Page, visited: Option<f64>) -> u32 {
        let number = self.pages.len() as u32;
        self.pages.push(page);
        self.last.push(visited.map_or(STALE, ticks));
        self.enqueue(number);
        number
    }

    /// What is known of the pages, by number.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// Replaces what is known of many pages at once, as when a prior has moved. O(n).
    pub fn update(&mut self, mut change: impl FnMut(&mut Page)) {
        self.pages.iter_mut().for_each(&mut change);
        self.rebuild();
    }

    pub fn delay(&self) -> f64 {
        self.delay
    }

    /// Takes another delay, as when robots.txt says so.
    pub fn set_delay(&mut self, delay: f64) {
        self.delay = delay;
    }

    /// The price at which a page is due, and requests per second.
    pub fn price(&self) -> (f64, f64) {
        (self.price, self.rate)
    }

    /// Takes another price and pace. The clocks of pages go on: nobody's phase is reset. O(n) where the price moved
    /// by more than 1 %; else pages learn it at their next visit.
    pub fn set_price(&mut self, price: f64, rate: f64) {
        let moved = (price - self.price).abs() > 0.01 * self.price;
        (self.price, self.rate) = (price, rate);
        if moved {
            self.rebuild();
        }
    }

    /// When the server should next be asked; `None` where never.
    pub fn next_at(&self) -> Option<f64> {
        if self.rate <= 0.0 {
            return None;
        }
        let slack = SLACK / self.rate;
        let first = self.due.first().into_iter().chain(self.probes.first()).map(|(due, _)| due).min();
        let wish = match (self.stale.first(), first) {
            (Some(_), _) => 0.0,
            (None, Some(due)) => f64::from(due) / TICKS_PER_SEC,
            (None, None) => return None,
        };
        Some(wish.max(self.pace - slack).min(self.pace + slack).max(self.free_at))
    }

    /// Takes the page to visit, at [`Punctual::next_at`] or later. It is out until [`Punctual::visited`] or
    /// [`Punctual::postponed`].
    pub fn take(&mut self, at: f64) -> Option<u32> {
        let page = loop {
            let page = self.best(at)?;
            // A page that was removed in the meantime is dropped where it surfaces.
            if self.pages[page as usize].is_active() || self.last[page as usize] == STALE {
                break page;
            }
        };
        let interval = 1.0 / self.rate;
        self.free_at = at + self.delay;
        self.pace = self.pace.max(at - SLACK * interval) + interval;
        self.out.push(page);
        Some(page)
    }

    fn best(&mut self, at: f64) -> Option<u32> {
        if self.probes.first().is_some_and(|(due, _)| f64::from(due) <= at * TICKS_PER_SEC) {
            return self.probes.pop().map(|(_, page)| page);
        }
        let mut best = (f64::NEG_INFINITY, 0);
        for (place, (_, page)) in self.due.top(LOOK).iter().enumerate() {
            let worth = self.worth(*page, at);
            if worth > best.0 {
                best = (worth, place);
            }
        }
        if let Some((GreatestFirst(worth), page)) = self.stale.first()
            && f64::from(-worth) >= best.0
        {
            self.stale.pop();
            return Some(page);
        }
        self.due.remove(best.1).or_else(|| self.probes.pop()).map(|(_, page)| page)
    }

    /// A page that was out has been visited: what is known of it now.
    pub fn visited(&mut self, page: u32, at: f64, known: Page) {
        if self.come_back(page) {
            self.pages[page as usize] = known;
            self.last[page as usize] = ticks(at);
            self.enqueue(page);
        }
    }

    /// The same, and it should be looked at again after `soon` seconds, whatever that is worth.
    pub fn visited_probing(&mut self, page: u32, at: f64, known: Page, soon: f64) {
        if self.come_back(page) {
            self.pages[page as usize] = known;
            self.last[page as usize] = ticks(at);
            self.probes.push(ticks(at + soon), page);
        }
    }

    /// A page that was out could not be had: it is due again at `until`.
    pub fn postponed(&mut self, page: u32, until: f64) {
        if self.come_back(page) {
            self.due.push(ticks(until), page);
        }
    }

    fn come_back(&mut self, page: u32) -> bool {
        let place = self.out.iter().position(|out| *out == page);
        place.map(|place| self.out.swap_remove(place)).is_some()
    }

    /// Pages that have changed since they were visited, as a sitemap or a feed says. O(n) for all of them.
    pub fn known_stale(&mut self, pages: &[u32]) {
        for page in pages {
            if let Some(last) = self.last.get_mut(*page as usize) {
                *last = STALE;
            }
        }
        self.rebuild();
    }

    /// Forgets a page. Its number is not given again.
    pub fn remove(&mut self, page: u32) {
        if let Some(known) = self.pages.get_mut(page as usize) {
            known.weight = 0.0;
            // Not stale: a stale page is visited whatever it weighs.
            self.last[page as usize] = self.last[page as usize].min(STALE - 1);
            self.come_back(page);
        }
    }

    /// Lets the schedule begin `later` seconds later, so that its ticks last another 17 years. O(n).
    pub fn rebase(&mut self, later: f64) {
        for last in self.last.iter_mut().filter(|last| **last != STALE) {
            *last = last.saturating_sub(ticks(later));
        }
        let probes = self.probes.top(usize::MAX).iter();
        self.probes =
            Heap::new(probes.map(|(due, page)| (due.saturating_sub(ticks(later)), *page)).collect());
        (self.pace, self.free_at) = ((self.pace - later).max(0.0), (self.free_at - later).max(0.0));
        self.rebuild();
    }

    /// How fresh the pages are believed to be. O(n).
    pub fn freshness(&self, now: f64) -> Freshness {
        let mut sum = Freshness::default();
        for (page, last) in self.pages.iter().zip(&self.last) {
            let weight = f64::from(page.weight);
            sum.weight += weight;
            if *last != STALE {
                let elapsed = (now - f64::from(*last) / TICKS_PER_SEC).max(0.0);
                sum.fresh += weight * page.change.fresh(elapsed);
                sum.age += weight * (elapsed - page.change.gain(elapsed)).max(0.0);
            }
        }
        sum
    }

    /// Why a page is visited when it is.
    pub fn explain(&self, page: u32, now: f64) -> Option<VisitReason> {
        let known = self.pages.get(page as usize)?;
        let last = self.last_visit(page);
        Some(VisitReason {
            last,
            due: last.map_or(0.0, |last| last + known.interval_at(self.price)),
            worth: self.worth(page, now),
            price: self.price,
            fresh: last.map_or(0.0, |last| known.change.fresh((now - last).max(0.0))),
        })
    }

    /// When a page was last visited; `None` where there is no true copy.
    pub fn last_visit(&self, page: u32) -> Option<f64> {
        let last = *self.last.get(page as usize)?;
        (last != STALE).then(|| f64::from(last) / TICKS_PER_SEC)
    }

    /// What a visit to a page is worth now: its index.
    fn worth(&self, page: u32, at: f64) -> f64 {
        let known = &self.pages[page as usize];
        let last = self.last[page as usize];
        let index = match last {
            STALE => known.change.index_max(),
            last => known.change.index((at - f64::from(last) / TICKS_PER_SEC).max(0.0)),
        };
        f64::from(known.weight) * index
    }

    /// When a page is due by its last visit; `None` where it is not worth another.
    fn due_at(&self, page: u32) -> Option<u32> {
        let interval = self.pages[page as usize].interval_at(self.price);
        let due = f64::from(self.last[page as usize]) + interval * TICKS_PER_SEC;
        (due < f64::from(STALE)).then_some(due as u32)
    }

    fn enqueue(&mut self, page: u32) {
        if self.last[page as usize] == STALE {
            if let Some(worth) = self.stale_worth(page) {
                self.stale.push(worth, page);
            }
        } else if let Some(due) = self.due_at(page) {
            self.due.push(due, page);
        }
    }

    fn stale_worth(&self, page: u32) -> Option<GreatestFirst> {
        let known = &self.pages[page as usize];
        // A page that never changes and has no copy is worth most; one that always changes is worth nothing, and so
        // is one that even a first visit does not pay for.
        let worth = match known.change.rate() {
            0.0 => f64::from(known.weight) * 1e30,
            _ => self.worth(page, 0.0),
        };
        (worth > self.price).then_some(GreatestFirst(-worth as f32))
    }

    fn rebuild(&mut self) {
        let (mut due, mut stale) = (Vec::new(), Vec::new());
        let probes = self.probes.top(usize::MAX).iter().copied();
        let probes: Vec<(u32, u32)> = probes.filter(|(_, page)| self.last[*page as usize] != STALE).collect();
        let mut elsewhere: Vec<u32> = probes.iter().map(|(_, page)| *page).chain(self.out.clone()).collect();
        elsewhere.sort_unstable();
        self.probes = Heap::new(probes);
        for page in 0..self.pages.len() as u32 {
            if elsewhere.binary_search(&page).is_ok() {
                continue;
            }
            if self.last[page as usize] == STALE {
                stale.extend(self.stale_worth(page).map(|worth| (worth, page)));
            } else if let Some(at) = self.due_at(page) {
                due.push((at, page));
            }
        }
        (self.due, self.stale) = (Heap::new(due), Heap::new(stale));
    }
}

fn ticks(at: f64) -> u32 {
    ((at * TICKS_PER_SEC).round() as u32).min(STALE - 1)
}

/// As in an experiment with known rates: every visit is made in time and finds the page.
impl Timetable for Punctual {
    fn next(&mut self) -> Option<Visit> {
        let at = self.next_at()?;
        let page = self.take(at)?;
        self.visited(page, at, self.pages[page as usize]);
        Some(Visit { at, page })
    }
}

/// Writes a server's schedule down and reads it again. Whoever stores the bytes adds a checksum.
///
/// Little-endian: version (1 byte), number of pages (4), price, delay, rate, pace, free_at (8 each); then per page rate
/// and hope, weight (4 each) and the tick of its last visit (4). Heaps are built again; a page that was out is due as
/// its last visit says.
impl Punctual {
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.extend((self.pages.len() as u32).to_le_bytes());
        for number in [self.price, self.delay, self.rate, self.pace, self.free_at] {
            out.extend(number.to_le_bytes());
        }
        for (page, last) in self.pages.iter().zip(&self.last) {
            out.extend((page.change.rate() as f32).to_le_bytes());
            out.extend((page.change.hope() as f32).to_le_bytes());
            out.extend(page.weight.to_le_bytes());
            out.extend(last.to_le_bytes());
        }
    }

    /// Reads what [`Punctual::write`] wrote, and moves `bytes` past it; `None` where it is not that.
    pub fn read(bytes: &mut &[u8]) -> Option<Punctual> {
        let mut rest = *bytes;
        if take(&mut rest)? != [VERSION] {
            return None;
        }
        let count = u32::from_le_bytes(take(&mut rest)?) as usize;
        let mut number = || Some(f64::from_le_bytes(take(&mut rest)?)).filter(|number| *number >= 0.0);
        let (price, delay, rate) = (number()?, number()?, number()?);
        let (pace, free_at) = (number()?, number()?);
        if rest.len() / 16 < count {
            return None;
        }
        let mut server = Punctual { pace, free_at, ..Punctual::new(delay, price, rate, 0.0) };
        for _ in 0..count {
            let mut number = || Some(f32::from_le_bytes(take(&mut rest)?));
            let (rate, hope, weight) = (number()?, number()?, number()?);
            let change = Change::believed(f64::from(rate), f64::from(hope))?;
            server.pages.push(Page { change, weight: Some(weight).filter(|w| *w >= 0.0 && w.is_finite())? });
            server.last.push(u32::from_le_bytes(take(&mut rest)?));
        }
        server.rebuild();
        *bytes = rest;
        Some(server)
    }
}

const VERSION: u8 = 1;

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
#[path = "punctual_tests.rs"]
mod tests;
