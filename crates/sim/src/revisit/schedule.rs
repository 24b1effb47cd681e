//! All servers of a simulated crawler together: whom to ask next, and the price of a visit.
//!
//! Each server is a [`Punctual`]; this adds what they share. The channel has one price; a server whose pages ask for
//! more than it bears has a higher one of its own. As estimates, pages and delays change, the demand at the old prices is
//! kept count of, page by page. A server that has drifted gets a new price at once ([`Schedule::visited`] does that,
//! O(pages of that server), seldom); when the whole has drifted, [`Schedule::drift`] says so and
//! [`Schedule::rebalance`] finds all prices again. Nobody's phase is reset by either.
//!
//! A wrong price costs little: the pace of each server is kept whatever the price, and the first to be due is the
//! first to be visited. INVARIANT: paces sum up to no more than the channel, but for drift since the last rebalancing.
//!
//! Costs: O(log servers + log pages of a server) per visit.
//!
//! Does not learn rates (`farol_frontier::revisit::estimate`), discover pages or speak HTTP. The share of the channel that discovery
//! takes is the caller's: it gives the rest by [`Schedule::set_channel`].

use super::select::{Punctual, VisitReason};
use farol_frontier::revisit::allocate::{self, Error, Page, Server, level_for};
use farol_frontier::revisit::{Freshness, Heap};

/// A server drifts when its pages ask for so much more or less than it was priced for.
const DRIFT: f64 = 0.05;

/// Servers, their pages, and when each is asked.
#[derive(Clone, Debug)]
pub struct Schedule {
    servers: Vec<ScheduledServer>,
    /// By the instant a server is next asked. An entry counts if its instant is still the server's.
    next: Heap<f64>,
    channel: f64,
    price: f64,
    /// What all servers were asked for at the last rebalancing, and now.
    planned: f64,
    demand: f64,
}

#[derive(Clone, Debug)]
struct ScheduledServer {
    pages: Punctual,
    /// Visits per second that the pages ask for at the server's price.
    demand: f64,
    /// The same when it was priced.
    priced: f64,
    /// When it is next asked; infinite where never.
    at: f64,
}

/// A page to visit: which server, which of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOfServer {
    pub server: u32,
    pub page: u32,
}

impl Schedule {
    /// An empty schedule for `channel` visits per second.
    pub fn new(channel: f64) -> Schedule {
        let (price, planned, demand) = (0.0, 0.0, 0.0);
        Schedule { servers: Vec::new(), next: Heap::new(Vec::new()), channel, price, planned, demand }
    }

    /// Adds a server that wants `delay` seconds between requests; gives its number. It is asked after the next
    /// [`Schedule::rebalance`].
    pub fn add_server(&mut self, delay: f64, phase: f64) -> u32 {
        let pages = Punctual::new(delay, self.price, 0.0, phase);
        self.servers.push(ScheduledServer { pages, demand: 0.0, priced: 0.0, at: f64::INFINITY });
        self.servers.len() as u32 - 1
    }

    /// Adds a page of a server; gives its number on that server. `None` where there is no such server.
    pub fn add_page(&mut self, server: u32, page: Page, visited: Option<f64>) -> Option<u32> {
        let seat = self.servers.get_mut(server as usize)?;
        let number = seat.pages.add(page, visited);
        self.asks(server, 0.0, self.frequency(server, &page));
        self.reseat(server);
        Some(number)
    }

    /// When somebody is next asked.
    pub fn next_at(&mut self) -> Option<f64> {
        loop {
            let (at, server) = self.next.first()?;
            if self.servers[server as usize].at == at {
                return Some(at);
            }
            self.next.pop();
        }
    }

    /// When one server is next asked; `None` where it is not.
    pub fn server_next_at(&self, server: u32) -> Option<f64> {
        self.servers.get(server as usize).map(|seat| seat.at).filter(|at| at.is_finite())
    }

    /// Takes the page to visit now, if the time has come for one. It is out until [`Schedule::visited`],
    /// [`Schedule::postponed`] or [`Schedule::remove`].
    pub fn take(&mut self, now: f64) -> Option<PageOfServer> {
        self.next_at().filter(|at| *at <= now)?;
        let (_, server) = self.next.first()?;
        self.take_of(server, now)
    }

    /// Takes a page of one server, whether or not its time has come: for who holds a lease of it anyway.
    pub fn take_of(&mut self, server: u32, now: f64) -> Option<PageOfServer> {
        let page = self.servers.get_mut(server as usize)?.pages.take(now);
        self.reseat(server);
        Some(PageOfServer { server, page: page? })
    }

    /// A page was visited: what is known of it now, and after how many seconds it is worth finding out more
    /// (`Belief::probe`).
    pub fn visited(&mut self, turn: PageOfServer, at: f64, known: Page, probe: Option<f64>) {
        let Some(before) = self.page(turn) else { return };
        let pages = &mut self.servers[turn.server as usize].pages;
        match probe {
            Some(soon) => pages.visited_probing(turn.page, at, known, soon),
            None => pages.visited(turn.page, at, known),
        }
        let (old, new) = (self.frequency(turn.server, &before), self.frequency(turn.server, &known));
        self.asks(turn.server, old, new);
        self.reseat(turn.server);
    }

    /// A page could not be had: it is due again at `until`.
    pub fn postponed(&mut self, turn: PageOfServer, until: f64) {
        if let Some(seat) = self.servers.get_mut(turn.server as usize) {
            seat.pages.postponed(turn.page, until);
            self.reseat(turn.server);
        }
    }

    /// Forgets a page.
    pub fn remove(&mut self, turn: PageOfServer) {
        let Some(before) = self.page(turn) else { return };
        self.servers[turn.server as usize].pages.remove(turn.page);
        let old = self.frequency(turn.server, &before);
        self.asks(turn.server, old, 0.0);
        self.reseat(turn.server);
    }

    /// Pages of a server that are no longer what they were, as a sitemap or a feed says.
    pub fn known_stale(&mut self, server: u32, pages: &[u32]) {
        if let Some(seat) = self.servers.get_mut(server as usize) {
            seat.pages.known_stale(pages);
            self.reseat(server);
        }
    }

    /// Takes another delay of a server. Its pace follows at the next rebalancing.
    pub fn set_delay(&mut self, server: u32, delay: f64) {
        if let Some(seat) = self.servers.get_mut(server as usize) {
            seat.pages.set_delay(delay);
            self.reseat(server);
        }
    }

    /// Takes another channel, which counts from the next rebalancing.
    pub fn set_channel(&mut self, channel: f64) {
        self.channel = channel;
    }

    /// What is known of a page.
    pub fn page(&self, turn: PageOfServer) -> Option<Page> {
        self.servers.get(turn.server as usize)?.pages.pages().get(turn.page as usize).copied()
    }

    /// One server's pages.
    pub fn server(&self, server: u32) -> Option<&Punctual> {
        self.servers.get(server as usize).map(|seat| &seat.pages)
    }

    /// Replaces what is known of all pages of a server, as when its prior has moved.
    pub fn update(&mut self, server: u32, change: impl FnMut(&mut Page)) {
        let Some(seat) = self.servers.get_mut(server as usize) else { return };
        seat.pages.update(change);
        let price = seat.pages.price().0;
        let demand = seat.pages.pages().iter().map(|page| page.frequency_at(price)).sum::<f64>();
        self.demand += demand - seat.demand;
        seat.demand = demand;
        self.reseat(server);
    }

    /// How far the demand has moved since the last rebalancing, as a share of the channel. Above a few per cent it is
    /// time for another.
    pub fn drift(&self) -> f64 {
        if self.channel > 0.0 { (self.demand - self.planned).abs() / self.channel } else { 0.0 }
    }

    /// Finds the prices and paces again. O(n), a few passes.
    ///
    /// # Errors
    ///
    /// See [`Error`]; nothing has changed then.
    pub fn rebalance(&mut self) -> Result<(), Error> {
        let servers: Vec<Server<'_>> = self
            .servers
            .iter()
            .map(|seat| Server { delay: seat.pages.delay(), pages: seat.pages.pages() })
            .collect();
        let best = allocate::polite(&servers, self.channel)?;
        (self.price, self.demand) = (best.price, 0.0);
        for (s, (level, rate)) in best.levels.iter().zip(&best.rates).enumerate() {
            let seat = &mut self.servers[s];
            seat.pages.set_price(level.low, *rate);
            (seat.demand, seat.priced) = (*rate, *rate);
            self.demand += rate;
            self.reseat(s as u32);
        }
        self.planned = self.demand;
        Ok(())
    }

    /// How fresh the whole is believed to be. O(n).
    pub fn freshness(&self, now: f64) -> Freshness {
        let mut sum = Freshness::default();
        for seat in &self.servers {
            let one = seat.pages.freshness(now);
            (sum.weight, sum.fresh, sum.age) =
                (sum.weight + one.weight, sum.fresh + one.fresh, sum.age + one.age);
        }
        sum
    }

    /// Why a page is visited when it is.
    pub fn explain(&self, turn: PageOfServer, now: f64) -> Option<VisitReason> {
        self.servers.get(turn.server as usize)?.pages.explain(turn.page, now)
    }

    /// Writes everything down. Whoever stores the bytes adds a checksum.
    ///
    /// Little-endian: version (1 byte), channel, price (8 each), number of servers (4), then each as
    /// [`Punctual::write`] does.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(1);
        out.extend(self.channel.to_le_bytes());
        out.extend(self.price.to_le_bytes());
        out.extend((self.servers.len() as u32).to_le_bytes());
        self.servers.iter().for_each(|seat| seat.pages.write(out));
    }

    /// Reads what [`Schedule::write`] wrote; `None` where it is not that.
    pub fn read(bytes: &[u8]) -> Option<Schedule> {
        let (version, rest) = bytes.split_first()?;
        let (channel, rest) = rest.split_first_chunk()?;
        let (price, rest) = rest.split_first_chunk()?;
        let (count, mut rest) = rest.split_first_chunk()?;
        let mut schedule = Schedule::new(f64::from_le_bytes(*channel));
        schedule.price = f64::from_le_bytes(*price);
        for server in 0..u32::from_le_bytes(*count) {
            let pages = Punctual::read(&mut rest)?;
            let rate = pages.price().1;
            schedule.servers.push(ScheduledServer { pages, demand: rate, priced: rate, at: f64::INFINITY });
            schedule.demand += rate;
            schedule.reseat(server);
        }
        schedule.planned = schedule.demand;
        (*version == 1 && rest.is_empty()).then_some(schedule)
    }

    fn frequency(&self, server: u32, page: &Page) -> f64 {
        page.frequency_at(self.servers[server as usize].pages.price().0)
    }

    /// A page of a server asks for more or less than it did.
    fn asks(&mut self, server: u32, old: f64, new: f64) {
        if !(old.is_finite() && new.is_finite()) {
            return;
        }
        let seat = &mut self.servers[server as usize];
        seat.demand = (seat.demand + new - old).max(0.0);
        self.demand = (self.demand + new - old).max(0.0);
        let cap = 1.0 / seat.pages.delay();
        let (price, rate) = seat.pages.price();
        if rate == 0.0 || (seat.demand - seat.priced).abs() <= DRIFT * seat.priced {
            return;
        }
        // What it bears stays what it bears; within that, it is asked as often as its pages are worth.
        let saturated = price > self.price || seat.demand > cap;
        let (price, rate) = match saturated.then(|| level_for(seat.pages.pages(), cap).low) {
            Some(own) if own > self.price => (own, cap),
            _ => (self.price, seat.demand.min(cap)),
        };
        let demand = if price == seat.pages.price().0 {
            seat.demand
        } else {
            seat.pages.pages().iter().map(|page| page.frequency_at(price)).sum()
        };
        self.demand += demand - seat.demand;
        (seat.demand, seat.priced) = (demand, demand);
        seat.pages.set_price(price, rate.min(demand));
    }

    fn reseat(&mut self, server: u32) {
        let seat = &mut self.servers[server as usize];
        let at = seat.pages.next_at().unwrap_or(f64::INFINITY);
        if at != seat.at {
            seat.at = at;
            if at.is_finite() {
                self.next.push(at, server);
            }
        }
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
