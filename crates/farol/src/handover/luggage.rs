//! What a host takes along besides its URLs: its robots.txt, its delays, its connect times.

use crate::archive::hosts::HostRow;
use crate::fabric::{Table, Tables};
use crate::wire::parcel::{ParcelHead, WireHostRow};
use anyhow::Result;
use farol_base::{Host, Timestamp};
use std::time::Duration;

/// Kinds of errors and connect times of one host that are believed; we never write more.
const ERRORS_MAX: usize = 64;
const CONNECTS_MAX: usize = 15;
/// Nobody puts a host off for longer.
const PUT_OFF_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

impl From<&HostRow> for WireHostRow {
    fn from(row: &HostRow) -> WireHostRow {
        let mut errors: Vec<(String, u64)> =
            row.errors.iter().map(|(error, count)| (error.clone(), *count)).collect();
        errors.sort_unstable();
        WireHostRow {
            robots_status: row.robots_status,
            robots_fetched: row.robots_fetched_ms,
            crawl_delay: row.crawl_delay_ms,
            not_before: row.not_before_ms,
            failures: row.failures,
            asked_to_wait: row.asked_to_wait_ms,
            bytes_fetched: row.bytes_fetched,
            errors,
            address: row.address,
            connects: row.connects.clone(),
        }
    }
}

/// A row that another agent sent, within bounds: nothing was fetched in the future, and nothing is put off for ever.
pub fn read_row(wire: WireHostRow, now: Timestamp) -> HostRow {
    let (today, latest) = (now.as_millis(), (now + PUT_OFF_MAX).as_millis());
    HostRow {
        robots_status: wire.robots_status,
        robots_fetched_ms: wire.robots_fetched.min(today),
        crawl_delay_ms: wire.crawl_delay,
        not_before_ms: wire.not_before.min(latest),
        failures: wire.failures,
        asked_to_wait_ms: wire.asked_to_wait.min(latest),
        bytes_fetched: wire.bytes_fetched,
        errors: wire.errors.into_iter().filter(|(error, _)| error.len() <= 64).take(ERRORS_MAX).collect(),
        address: wire.address,
        connects: wire.connects.into_iter().filter(|(at, _)| *at <= today).take(CONNECTS_MAX).collect(),
        ..HostRow::default()
    }
}

/// What the tables have of a host, as it was written last.
pub fn head_of(tables: &dyn Tables, host: &Host) -> Result<ParcelHead> {
    let row = tables.get(Table::Hosts, host.as_str())?;
    // A row that cannot be read is no row: robots.txt is then asked for again.
    let row: Option<HostRow> = row.and_then(|row| serde_json::from_slice(&row).ok());
    let robots = match &row {
        Some(row) if row.robots_fetched_ms > 0 => tables.get(Table::Robots, host.as_str())?,
        _ => None,
    };
    Ok(ParcelHead { row: row.as_ref().map(WireHostRow::from), robots, ..ParcelHead::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};
    use std::collections::HashMap;

    fn row(random: &mut Seeded) -> HostRow {
        let at = |random: &mut Seeded| 1_000_000 + random.below(4) * 1000;
        HostRow {
            robots_status: 200,
            robots_fetched_ms: at(random),
            crawl_delay_ms: Some(random.below(3)),
            not_before_ms: at(random),
            failures: random.below(3) as u32,
            asked_to_wait_ms: at(random),
            bytes_fetched: random.below(9),
            errors: HashMap::from([(format!("e{}", random.below(2)), random.below(5))]),
            address: Some(format!("192.0.2.{}", random.below(3)).parse().unwrap()),
            connects: vec![(at(random), random.below(3) as u32)],
            ..HostRow::default()
        }
    }

    /// Of two rows with the same time what is not merged may be either's.
    fn essence(mut row: HostRow) -> HostRow {
        (row.robots_status, row.crawl_delay_ms, row.address) = (0, None, None);
        row
    }

    #[test]
    fn rows_come_back_and_merge_in_any_order() {
        let mut random = Seeded::new(7);
        let now = Timestamp::from_secs(2_000_000);
        for _ in 0..300 {
            let rows = [row(&mut random), row(&mut random), row(&mut random)];
            assert_eq!(read_row(WireHostRow::from(&rows[0]), now), rows[0]);
            let merged = |order: &[usize]| {
                let mut all = HostRow::default();
                for at in order {
                    let _ = all.merge(rows[*at].clone());
                }
                essence(all)
            };
            let once = merged(&[0, 1, 2]);
            for order in [&[2, 1, 0][..], &[1, 2, 0], &[0, 0, 1, 2, 1], &[2, 0, 1, 2]] {
                assert_eq!(merged(order), once);
            }
        }
    }

    #[test]
    fn what_another_says_is_believed_within_bounds() {
        let now = Timestamp::from_secs(1_000);
        let wire = WireHostRow {
            robots_fetched: u64::MAX,
            not_before: u64::MAX,
            asked_to_wait: u64::MAX,
            errors: (0..1000).map(|number| (format!("e{number}"), 1)).collect(),
            connects: (0..1000).map(|at| (at * 10_000, 1)).collect(),
            ..WireHostRow::default()
        };
        let row = read_row(wire, now);
        assert_eq!(row.robots_fetched_ms, now.as_millis());
        assert!(
            row.not_before_ms <= (now + PUT_OFF_MAX).as_millis() && row.asked_to_wait_ms == row.not_before_ms
        );
        assert_eq!((row.errors.len(), row.connects.len()), (ERRORS_MAX, CONNECTS_MAX));
    }
}
