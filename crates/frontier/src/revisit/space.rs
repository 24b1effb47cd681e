//! When a server is asked: at equal intervals [Souza10 §5.1].
//!
//! Every interval between requests to a server lasts exactly `1/f_s`, so it is polite iff `f_s ≤ 1/P`. The channel is
//! used evenly (Lemma 5.10). [`Servers`] walks many servers in the order of time, O(log #servers) per request.
//! `farol` does not run it yet.
//!
//! Does not choose the page; see [`super::select`].

use super::heap::Heap;
use super::select::{Select, Timetable, Visit};

/// One server asked at equal intervals for the pages that a rule selects.
#[derive(Clone, Debug)]
pub struct Spaced<S> {
    select: S,
    interval: f64,
    first: f64,
    requests: u64,
}

impl<S: Select> Spaced<S> {
    /// Asks `rate` times a second, first at `phase` of an interval, `phase` in `[0, 1)`. A rate of 0 is never.
    pub fn new(select: S, rate: f64, phase: f64) -> Spaced<S> {
        Spaced { select, interval: 1.0 / rate, first: phase / rate, requests: 0 }
    }
}

impl<S: Select> Timetable for Spaced<S> {
    fn next(&mut self) -> Option<Visit> {
        if !self.interval.is_finite() {
            return None;
        }
        // A product instead of a sum: the millionth interval is as long as the first.
        let at = self.first + self.requests as f64 * self.interval;
        self.requests += 1;
        Some(Visit { at, page: self.select.pick()? })
    }
}

/// Many servers, asked in the order of time.
pub struct Servers<T> {
    tables: Vec<T>,
    next: Heap<f64>,
    pages: Vec<u32>,
}

impl<T: Timetable> Servers<T> {
    pub fn new(mut tables: Vec<T>) -> Servers<T> {
        let first: Vec<Option<Visit>> = tables.iter_mut().map(Timetable::next).collect();
        let pages = first.iter().map(|visit| visit.map_or(0, |visit| visit.page)).collect();
        let entries = first.iter().enumerate().filter_map(|(s, visit)| Some((visit.as_ref()?.at, s as u32)));
        Servers { next: Heap::new(entries.collect()), pages, tables }
    }
}

/// Requests of all servers: which server, and what.
impl<T: Timetable> Iterator for Servers<T> {
    type Item = (u32, Visit);

    fn next(&mut self) -> Option<(u32, Visit)> {
        let (at, server) = self.next.first()?;
        let place = server as usize;
        let visit = Visit { at, page: self.pages[place] };
        match self.tables[place].next() {
            Some(after) => {
                self.pages[place] = after.page;
                self.next.rekey_first(after.at);
            }
            None => {
                self.next.pop();
            }
        }
        Some((server, visit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Select for One {
        fn pick(&mut self) -> Option<u32> {
            Some(7)
        }
    }

    #[test]
    fn many_servers_are_asked_in_the_order_of_time_each_at_its_own_pace() {
        let rates = [0.5, 0.0, 0.2, 3.0, 0.02];
        let tables = rates
            .iter()
            .enumerate()
            .map(|(s, rate)| Spaced::new(One, *rate, 0.1 + 0.15 * s as f64))
            .collect();
        let mut servers = Servers::new(tables);
        let mut counts = [0; 5];
        let mut before = 0.0;
        for (server, visit) in servers.by_ref().take_while(|(_, visit)| visit.at < 1_000.0) {
            assert!(visit.at >= before && visit.page == 7);
            before = visit.at;
            counts[server as usize] += 1;
        }
        assert_eq!(counts, [500, 0, 200, 3_000, 20]);
    }
}
