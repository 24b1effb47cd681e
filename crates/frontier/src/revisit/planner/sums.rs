//! Sums over pages that change alike, kept exactly as time goes on.
//!
//! All pages of one rate lose their freshness by the same factor, so the sum of it needs no list of pages: it is
//! multiplied. Adding a page, taking one out and asking cost the same however many there are.

use super::page_belief::Quantised;
use crate::revisit::Change;
use crate::revisit::Freshness;
use crate::revisit::allocate::Page;

/// Pages of one rate and of nearly one weight.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    pages: f64,
    weight: f64,
    /// Weight times hope.
    hoped: f64,
    hope: f64,
    /// Probability that the copy is true, at `at`.
    fresh: f64,
    /// Instant of the last visit.
    visited: f64,
    at: f64,
}

/// All pages of a host, or of all.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// By rate, and by weight in steps of four; in order.
    sums: Vec<((u8, u8), Sum)>,
}

impl Sums {
    fn sum(&mut self, entry: Quantised) -> &mut Sum {
        let key = (entry.rate, entry.weight >> 4);
        let at = self.sums.binary_search_by_key(&key, |(key, _)| *key).unwrap_or_else(|at| {
            self.sums.insert(at, (key, Sum::default()));
            at
        });
        &mut self.sums[at].1
    }

    /// Adds a page visited at `last`.
    pub fn add(&mut self, entry: Quantised, last: f64, now: f64) {
        self.change(entry, last, now, 1.0);
    }

    /// Takes out a page that was added with the same words.
    pub fn take(&mut self, entry: Quantised, last: f64, now: f64) {
        self.change(entry, last, now, -1.0);
        self.sums.retain(|(_, sum)| sum.pages > 0.5);
    }

    /// Takes out all pages of other sums.
    pub fn take_all(&mut self, others: &Sums) {
        for ((rate, weight), other) in &others.sums {
            let entry = Quantised { rate: *rate, hope: 0, weight: weight << 4 };
            let sum = self.sum(entry);
            let (rate, now) = (entry.rate(), sum.at.max(other.at));
            let at_now = |it: &Sum| it.fresh * (-rate * (now - it.at)).exp();
            sum.fresh = (at_now(sum) - at_now(other)).max(0.0);
            sum.at = now;
            sum.pages -= other.pages;
            sum.weight -= other.weight;
            sum.hoped -= other.hoped;
            sum.hope -= other.hope;
            sum.visited -= other.visited;
        }
        self.sums.retain(|(_, sum)| sum.pages > 0.5);
    }

    fn change(&mut self, entry: Quantised, last: f64, now: f64, sign: f64) {
        let (rate, weight, hope) = (entry.rate(), entry.weight(), entry.hope());
        let sum = self.sum(entry);
        let now = now.max(sum.at);
        sum.fresh *= (-rate * (now - sum.at)).exp();
        sum.at = now;
        sum.fresh = (sum.fresh + sign * hope * (-rate * (now - last).max(0.0)).exp()).max(0.0);
        sum.pages += sign;
        sum.weight += sign * weight;
        sum.hoped += sign * weight * hope;
        sum.hope += sign * hope;
        sum.visited += sign * last;
    }

    pub fn pages(&self) -> f64 {
        self.sums.iter().map(|(_, sum)| sum.pages).sum()
    }

    /// One page for all of each kind: visiting n pages of rate λ and weight w F times a second in all gives as much as
    /// one page of rate nλ and weight nw. So an allocation over these is one over all pages.
    pub fn as_pages(&self) -> Vec<Page> {
        let one = |((rate, _), sum): &((u8, u8), Sum)| {
            let each = Quantised { rate: *rate, ..Quantised::default() }.rate();
            let hope = if sum.weight > 0.0 { (sum.hoped / sum.weight).clamp(0.0, 1.0) } else { 0.0 };
            let change = Change::believed(each * sum.pages.max(0.0), hope).unwrap_or(Change::NEVER);
            Page { change, weight: sum.weight.max(0.0) as f32 }
        };
        self.sums.iter().map(one).collect()
    }

    /// How fresh the pages are believed to be, each counting as much as any other.
    pub fn freshness(&self, now: f64) -> Freshness {
        let mut all = Freshness::default();
        for ((rate, _), sum) in &self.sums {
            let rate = Quantised { rate: *rate, ..Quantised::default() }.rate();
            let elapsed = (now - sum.at).max(0.0);
            let fresh = sum.fresh * (-rate * elapsed).exp();
            all.weight += sum.pages;
            all.fresh += fresh;
            // Time since the visits less the part of it in which copies were true.
            let since = sum.pages * now - sum.visited;
            let gain =
                if rate > 0.0 { (sum.hope - fresh) / rate } else { since * sum.hope / sum.pages.max(1.0) };
            all.age += (since - gain).max(0.0);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};

    #[test]
    fn sums_say_what_a_list_of_pages_says() {
        let (mut sums, mut random, mut list) = (Sums::default(), Seeded::new(3), Vec::new());
        let mut now = 1e6;
        for step in 0..5_000 {
            now += 100.0 * random.unit();
            if step % 3 == 2 {
                let (entry, last) = list.swap_remove(random.below(list.len() as u64) as usize);
                sums.take(entry, last, now);
            } else {
                let rate = 10f64.powf(-2.0 - 6.0 * random.unit());
                let entry =
                    Quantised::of(Change::believed(rate, random.unit()).unwrap(), 0.5 + random.unit());
                let last = now - 1000.0 * random.unit();
                sums.add(entry, last, now);
                list.push((entry, last));
            }
        }
        now += 500.0;
        let mut want = Freshness::default();
        for (entry, last) in &list {
            let (page, elapsed) = (entry.page(), now - last);
            want.weight += 1.0;
            want.fresh += page.change.fresh(elapsed);
            want.age += elapsed - page.change.gain(elapsed);
        }
        let got = sums.freshness(now);
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-3, "{a} and {b}");
        near(got.weight, want.weight);
        near(got.fresh, want.fresh);
        near(got.age, want.age);
        assert_eq!(sums.pages() as usize, list.len());
        for (entry, last) in list {
            sums.take(entry, last, now);
        }
        assert!(sums.sums.is_empty());
    }
}
