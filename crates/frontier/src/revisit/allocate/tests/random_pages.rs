//! Pages to share visits out among, for the tests of allocations here and in `crates/sim`.

use super::{Change, Page};
use farol_base::{Random, Seeded};

pub fn page(rate: f64, weight: f32) -> Page {
    Page { change: Change::known(rate).unwrap(), weight }
}

/// Pages of mixed rates and weights, some that never or always change.
pub fn random_pages(random: &mut Seeded, count: u64) -> Vec<Page> {
    (0..count)
        .map(|_| match random.below(12) {
            0 => page(0.0, 1.0),
            1 => page(f64::INFINITY, 1.0),
            2 => page(1.0, 0.0),
            3 => Page {
                change: Change::believed((random.unit() * 8.0 - 4.0).exp(), random.unit()).unwrap(),
                weight: 1.0,
            },
            _ => page((random.unit() * 8.0 - 4.0).exp(), (random.unit() * 4.0 - 2.0).exp() as f32),
        })
        .collect()
}
