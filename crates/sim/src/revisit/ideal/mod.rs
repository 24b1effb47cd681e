//! What the best of all learners could reach: a yardstick for rules that start from nothing.
//!
//! The ideal learner is told the exact distribution of rates on each [`Population`] of server, which a real one has to learn. It
//! has so many visits a page, in the mean, to find out which page is which; it spreads them as it likes, page by page
//! after what each has answered, at whatever intervals fit into its time, and need not keep anything fresh meanwhile. Then it stops
//! learning, and visits each page at the frequency that is best by what it believes: greatest `E[f/λ (1 − e^(−λ/f))]` in
//! all, within the channel. Its freshness is given as a ratio to what the same channel yields where rates are known.
//!
//! With a price μ on the visits of the end and a price ν on those that learn, every page is a problem of its own: stop
//! and take what the belief yields, or pay ν and look once more. That is solved backwards over all answers. For any two
//! prices the sum over pages, and what the visits cost, is no less than what any learner has (weak duality), and at the
//! prices where it is least it is exactly what the ideal one has, for pages are many.
//!
//! A page is looked at [`SearchEffort::looks`] times at most. [`Bound::reached`] stops learning there: so much can be had.
//! [`Bound::ceiling`] is told the rate there: more cannot. Intervals are halves, quarters and so on of the time.
//!
//! Servers' delays are left out, here and in the reference, and pages count alike.

use super::repository::Repository;

mod dated;
mod plain;

/// Pages of like servers: how many have each of [`Pages::rates`].
type Population = Vec<f64>;

/// A repository as the ideal learner knows it. Times are days.
#[derive(Clone, Debug)]
pub struct Pages {
    /// Changes per day; the first is 0.
    rates: Vec<f64>,
    kinds: Vec<Population>,
}

/// How much is computed.
#[derive(Clone, Copy, Debug)]
pub struct SearchEffort {
    /// Looks at a page after its first visit, at most.
    pub looks: usize,
    /// Intervals: the whole time to learn, its half, its quarter, and so on.
    pub intervals: usize,
}

/// What looks tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Changed since the last visit, or not.
    Changed,
    /// When the page last changed, also at the first visit.
    Dated,
}

/// Freshness of the ideal learner, by that with known rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// What it has without learning more of a page after the last look that is computed.
    pub reached: f64,
    /// What it would have if it were told the rate then.
    pub ceiling: f64,
}

/// Rates within this factor are taken as one, and frequencies as the next of such a row.
const RATES_APART: f64 = 1.4;
const FREQUENCIES_APART: f64 = 1.2;

/// Least and greatest days between two visits of a page in the end.
const BETWEEN: (f64, f64) = (0.01, 30_000.0);

/// Days between changes that tell kinds of servers apart: a server is of the kind that most of its pages are.
const KINDS: [f64; 5] = [1.0, 7.0, 30.0, 120.0, f64::MAX];

impl Pages {
    pub fn of(repository: &Repository) -> Pages {
        let per_day = |page: &farol_frontier::revisit::allocate::Page| page.change.rate() * 86_400.0;
        let bin = |rate: f64| (rate.ln() / RATES_APART.ln()).floor() as i64;
        let changing = || repository.pages.iter().map(per_day).filter(|rate| *rate > 0.0);
        let low = changing().map(bin).min().unwrap_or(0);
        let bins = changing().map(bin).max().map_or(0, |high| (high - low + 1) as usize);
        let place = |rate: f64| if rate > 0.0 { 1 + (bin(rate) - low) as usize } else { 0 };
        let mut kinds = vec![vec![0.0; bins + 1]; KINDS.len() + 1];
        let (mut sums, mut counts) = (vec![0.0; bins + 1], vec![0.0; bins + 1]);
        for server in 0..repository.delays.len() {
            let mut pages = vec![0.0; bins + 1];
            let mut votes = [0; KINDS.len() + 1];
            for rate in repository.server(server).iter().map(per_day) {
                pages[place(rate)] += 1.0;
                sums[place(rate)] += rate;
                counts[place(rate)] += 1.0;
                votes[KINDS.iter().position(|days| rate * days >= 1.0).unwrap_or(KINDS.len())] += 1;
            }
            let kind = (0..votes.len()).max_by_key(|kind| votes[*kind]).unwrap_or(0);
            kinds[kind].iter_mut().zip(pages).for_each(|(sum, pages)| *sum += pages);
        }
        let rates = sums.iter().zip(&counts).map(|(sum, count)| sum / f64::max(*count, 1.0)).collect();
        kinds.retain(|kind| kind.iter().any(|pages| *pages > 0.0));
        Pages { rates, kinds }
    }

    /// How many kinds of servers there are.
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }

    fn count(&self) -> f64 {
        self.kinds.iter().flatten().sum()
    }

    /// What the ideal learner has after `days` in which it made `visits` visits a page, in the mean, where the channel
    /// has `per_day` visits a page and day in the end.
    pub fn bound(
        &self,
        answers: Answers,
        days: f64,
        visits: f64,
        per_day: f64,
        effort: SearchEffort,
    ) -> Bound {
        let channel = per_day * self.count();
        let (price, known) = self.at_best(per_day, Worth::told);
        let plain =
            (answers == Answers::Changed).then(|| plain::PlainAnswers::all(&self.rates, days, effort));
        let at_end = |knowing: bool| {
            let both = |price: f64| {
                let worth = Worth::new(&self.rates, price);
                let learner: Box<dyn Fn(f64) -> f64> = match &plain {
                    Some(answers) => Box::new(answers.learner(&self.kinds, &worth, knowing)),
                    None => Box::new(dated::learner(self, worth, days, effort, knowing)),
                };
                // What a visit that learns is worth is bounded by what all visits to a page are worth in the end.
                let (_, sum) = least(|look| learner(look) + look * visits * self.count(), 1e-6, 1.0, 14);
                sum + price * channel
            };
            least(both, price / 4.0, price * 1.5, 8).1 / known
        };
        Bound { reached: at_end(false), ceiling: at_end(true) }
    }

    /// What an allocation by the distributions alone has, by that with known rates.
    pub fn blind(&self, per_day: f64) -> f64 {
        self.at_best(per_day, Worth::of).1 / self.at_best(per_day, Worth::told).1
    }

    /// The price at which the channel is used best, and the freshness of all pages then.
    fn at_best(&self, per_day: f64, value: impl Fn(&Worth, &[f64]) -> f64) -> (f64, f64) {
        let sum = |price: f64| {
            let worth = Worth::new(&self.rates, price);
            self.kinds.iter().map(|kind| value(&worth, kind)).sum::<f64>() + price * per_day * self.count()
        };
        least(sum, 1e-6, 1e4, 40)
    }
}

/// The least value of a function that falls and then rises between two positive ends, and where it is: golden section
/// in logarithms.
fn least(f: impl Fn(f64) -> f64, low: f64, high: f64, steps: usize) -> (f64, f64) {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let at = |x: f64| (x.exp(), f(x.exp()));
    let (mut low, mut high) = (low.ln(), high.ln());
    let (mut left, mut right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut a, mut b) = (at(left), at(right));
    for _ in 0..steps {
        if a.1 < b.1 {
            (high, right, b) = (right, left, a);
            left = high - GOLDEN * (high - low);
            a = at(left);
        } else {
            (low, left, a) = (left, right, b);
            right = low + GOLDEN * (high - low);
            b = at(right);
        }
    }
    if a.1 < b.1 { a } else { b }
}

/// What pages yield per day, net of the price of their visits, at each of the frequencies.
#[derive(Clone, Debug)]
struct Worth {
    /// By frequency, then by rate.
    net: Vec<Vec<f64>>,
    /// By rate: the greatest, where the rate is known.
    best: Vec<f64>,
}

impl Worth {
    fn new(rates: &[f64], price: f64) -> Worth {
        let steps = ((BETWEEN.1 / BETWEEN.0).ln() / FREQUENCIES_APART.ln()).ceil() as i32;
        let net = |step: i32| -> Vec<f64> {
            let interval = BETWEEN.0 * FREQUENCIES_APART.powi(step);
            let fresh = |rate: &f64| match rate * interval {
                0.0 => 0.0, // Pages that never change do not count.
                x => -(-x).exp_m1() / x,
            };
            rates.iter().map(|rate| fresh(rate) - price / interval).collect()
        };
        let net: Vec<Vec<f64>> = (0..steps).map(net).collect();
        let most = |k: usize| net.iter().map(|row| row[k]).fold(0.0, f64::max);
        let best = (0..rates.len()).map(most).collect();
        Worth { net, best }
    }

    /// Of pages that nobody can tell apart, so many of each rate: one frequency for all.
    fn of(&self, pages: &[f64]) -> f64 {
        let sum = |row: &Vec<f64>| row.iter().zip(pages).map(|(net, pages)| net * pages).sum::<f64>();
        self.net.iter().map(sum).fold(0.0, f64::max)
    }

    /// Of the same pages, where each one's rate is known.
    fn told(&self, pages: &[f64]) -> f64 {
        self.best.iter().zip(pages).map(|(best, pages)| best * pages).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::learning::Learning;
    use super::super::repository::RepositoryConfig;
    use super::super::world::{Chance, crawl};
    use super::*;
    use farol_base::Seeded;

    const DAYS: f64 = 365.25;
    const EFFORT: SearchEffort = SearchEffort { looks: 3, intervals: 8 };

    /// Slow pages, and as many that change all the time.
    fn slow_and_fast() -> Pages {
        Pages { rates: vec![0.0, 0.01, 20.0], kinds: vec![vec![0.0, 500.0, 500.0]] }
    }

    #[test]
    fn without_visits_all_pages_of_a_kind_are_visited_alike() {
        let (pages, per_day) = (slow_and_fast(), 0.02);
        let alike = |rate: f64| per_day / rate * -(-rate / per_day).exp_m1();
        let want = 500.0 * (alike(0.01) + alike(20.0)) / pages.at_best(per_day, Worth::told).1;
        assert!((pages.blind(per_day) / want - 1.0).abs() < 5e-3, "{} not {want}", pages.blind(per_day));
        for answers in [Answers::Changed, Answers::Dated] {
            let bound = pages.bound(answers, DAYS, 0.0, per_day, EFFORT);
            assert!((bound.reached / want - 1.0).abs() < 5e-3, "{bound:?} not {want}");
        }
    }

    #[test]
    fn with_more_visits_it_knows_more_and_in_the_end_all() {
        let (pages, per_day) = (slow_and_fast(), 0.02);
        for answers in [Answers::Changed, Answers::Dated] {
            let mut before = pages.blind(per_day);
            for visits in [0.7, 1.4, 2.1, 100.0] {
                let bound = pages.bound(answers, DAYS, visits, per_day, EFFORT);
                assert!(bound.reached > before - 1e-3, "{bound:?} after {before}, {visits} visits");
                assert!(bound.ceiling > bound.reached - 1e-3, "{bound:?}");
                before = bound.reached;
            }
            assert!((before - 1.0).abs() < 0.01, "{before} with {answers:?}");
        }
    }

    #[test]
    fn a_learner_that_starts_from_nothing_is_not_above_it() {
        const SECS: f64 = 86_400.0 * DAYS;
        let config = RepositoryConfig { pages: 1_000, servers: 10, exponent: 0.25, delay: 60.0, seed: 3 };
        let repository = Repository::made(&config);
        for visits in [1.0, 2.5, 10.0] {
            let channel = visits * 1_000.0 / SECS;
            let second_year = |mut crawler: Learning| {
                let mut world = Chance { pages: &repository.pages, dated: 0.0, random: Seeded::new(5) };
                crawl(&mut world, &mut crawler, 2.0 * SECS, 2).0.sums[1]
            };
            let known = second_year(Learning::knowing(&repository, channel));
            let learnt = second_year(Learning::from_nothing(&repository, channel)) / known;
            // It uses what it learns until the end of the second year.
            let pages = Pages::of(&repository);
            let bound = pages.bound(Answers::Changed, 2.0 * DAYS, 2.0 * visits, visits / DAYS, EFFORT);
            assert!(learnt < bound.ceiling, "{learnt} and {bound:?} with {visits} visits a year");
        }
    }
}
