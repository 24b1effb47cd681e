//! What sharing costs and saves: the thesis' sum of money (Table 3) with its figures and with others, and how fresh a
//! consumer's copies are by the way in which pages come \[Fernandes01 §5\].

use farol_base::{Random, Seeded};
use serde::Serialize;

/// What the sum is made of.
#[derive(Clone, Copy, Debug, PartialEq, clap::Args)]
pub struct MoneyArgs {
    /// What the link costs in a month, for an engine that fetches everything itself.
    #[arg(long, default_value_t = 26_000.0)]
    pub link_price: f64,
    /// What a machine costs.
    #[arg(long, default_value_t = 4_000.0)]
    pub machine_price: f64,
    /// Months.
    #[arg(long, default_value_t = 18.0)]
    pub months: f64,
    /// Share of the bytes that is saved.
    #[arg(long, default_value_t = 0.8696)]
    pub saved: f64,
    /// Processor time for a received page, as a multiple of that for a fetched one.
    #[arg(long, default_value_t = 2.99)]
    pub processor: f64,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Money {
    /// Fetching everything.
    pub alone: f64,
    /// Machines, with half as much again for their wear, and the rest of the link.
    pub shared: f64,
    /// The price of the link a month above which sharing is cheaper.
    pub break_even: f64,
}

impl MoneyArgs {
    /// The sum of the thesis: machines are added for what takes longer than fetching, and one machine is counted in full.
    pub fn sum(&self) -> Money {
        let machines = self.processor * self.machine_price * 1.5;
        let link = self.months * self.link_price;
        Money {
            alone: link,
            shared: machines + (1.0 - self.saved) * link,
            break_even: machines / (self.months * self.saved),
        }
    }
}

/// A way in which changes come to the consumer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Delivery {
    name: &'static str,
    /// Days between two visits of a page by whoever crawls it.
    visits_every: f64,
    /// Days between two sendings; none for a consumer that crawls itself.
    sent_every: Option<f64>,
}

/// How fresh the copies are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Freshness {
    pub name: String,
    /// Share of copies that are like the original, and what the formula (1 − e^−λT)/λT gives for whoever crawls.
    pub fresh: f64,
    pub formula: f64,
    /// Mean days since an original changed of which the copy has not.
    pub age_days: f64,
    /// Bytes that come to the consumer in a day for each page.
    pub bytes_a_day: f64,
}

/// HTML and packet bytes of a page, by the thesis' Table 7.
const HTML_BYTES: f64 = 19_803.0;
const PACKET_BYTES: f64 = 2_585.0;
const PAGES: usize = 4_000;
const DAYS: f64 = 240.0;

/// Copies of pages that change a number of times a day, each by itself, by way.
pub fn freshness(changes_a_day: f64, seed: u64) -> Vec<Freshness> {
    let hour = 1.0 / 24.0;
    let way = |name, visits_every, sent_every| Delivery { name, visits_every, sent_every };
    let ways = [
        way("crawled every 80 days", 80.0, None),
        way("crawled daily", 1.0, None),
        way("pushed at once", 1.0, Some(0.0)),
        way("pushed hourly", 1.0, Some(hour)),
        way("pushed nightly", 1.0, Some(1.0)),
        way("pulled every 5 minutes", 1.0, Some(hour / 12.0)),
    ];
    ways.into_iter().map(|way| one_way(way, changes_a_day, &mut Seeded::new(seed))).collect()
}

/// One page after the other, from change to change: a copy is as its original from the delivery after a visit on, until
/// the next change.
fn one_way(way: Delivery, changes_a_day: f64, random: &mut Seeded) -> Freshness {
    let (mut fresh, mut age, mut sent) = (0.0, 0.0, 0_u64);
    for _ in 0..PAGES {
        let (visit_at, send_at) = (random.unit() * way.visits_every, random.unit());
        let arrives = |changed: f64| {
            let visit = visit_at + ((changed - visit_at) / way.visits_every).ceil() * way.visits_every;
            match way.sent_every {
                Some(every) if every > 0.0 => {
                    (send_at * every) + ((visit - send_at * every) / every).ceil() * every
                }
                _ => visit,
            }
        };
        // The copy is good at the beginning, and not counted for the first 80 days.
        let (mut at, mut stale_since, mut mended_at) = (0.0_f64, None::<f64>, 0.0_f64);
        let mut last_arrival = -1.0;
        while at < DAYS {
            let next = at - (1.0 - random.unit()).ln() / changes_a_day;
            let (from, to) = (at.max(80.0), next.min(DAYS));
            let mended = if stale_since.is_some() { mended_at } else { at };
            if to > from {
                fresh += (to - mended.clamp(from, to)).max(0.0);
                if let Some(since) = stale_since {
                    let until = mended.clamp(from, to);
                    age += (until - from) * ((until + from) / 2.0 - since);
                }
            }
            // Another change before the copy was mended leaves it as old as it was.
            stale_since = Some(match stale_since {
                Some(since) if mended_at > next => since,
                _ => next,
            });
            mended_at = arrives(next);
            if (80.0..DAYS).contains(&next) && mended_at != last_arrival {
                sent += 1;
                last_arrival = mended_at;
            }
            at = next;
        }
    }
    let page_days = PAGES as f64 * (DAYS - 80.0);
    let lambda_t = changes_a_day * way.visits_every;
    Freshness {
        name: way.name.to_string(),
        fresh: fresh / page_days,
        formula: (1.0 - (-lambda_t).exp()) / lambda_t,
        age_days: age / page_days,
        bytes_a_day: match way.sent_every {
            // Who crawls gets each page at each visit.
            None => HTML_BYTES / way.visits_every,
            Some(_) => PACKET_BYTES * sent as f64 / page_days,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_the_thesis_comes_out_and_breaks_even_where_it_says() {
        let thesis = MoneyArgs {
            link_price: 26_000.0,
            machine_price: 4_000.0,
            months: 18.0,
            saved: 0.8696,
            processor: 2.99,
        };
        let sum = thesis.sum();
        assert_eq!(sum.alone, 468_000.0);
        // Table 3: 78,967.20.
        assert!((sum.shared - 78_967.2).abs() < 1.0, "{sum:?}");
        let even = MoneyArgs { link_price: sum.break_even, ..thesis }.sum();
        assert!((even.alone - even.shared).abs() < 1e-6);
        assert!((sum.break_even - 1_146.0).abs() < 1.0, "{sum:?}");
    }

    #[test]
    fn copies_are_as_fresh_as_the_formula_says_and_pushing_costs_little_of_it() {
        for changes_a_day in [1.0, 1.0 / 7.0, 1.0 / 80.0] {
            let ways = freshness(changes_a_day, 1);
            for way in &ways[..3] {
                assert!((way.fresh - way.formula).abs() < 0.02, "{changes_a_day}: {way:?}");
            }
            // The later pages are sent, the staler the copies are.
            assert!(ways[2].fresh >= ways[3].fresh && ways[3].fresh >= ways[4].fresh, "{ways:?}");
            assert!(ways[2].age_days <= ways[4].age_days && ways[0].age_days > ways[4].age_days, "{ways:?}");
        }
    }
}
