//! Which page a URL's number stands for: its host, and its label there.
//!
//! New URLs are numbered 0, 1, 2, … in the order in which they are found; `new` of them make a cycle. A cycle
//! lays its URLs out as a row of slots, host after host, and shuffles the slots. Host r (by size) has those
//! slots s for which floor(H × (s / new)³) = r, so that sizes follow a power law: of 1.28 million hosts the
//! largest has 1 % of a cycle's pages, the smaller half 20 %. The number of hosts grows with the URLs by
//! Heaps' law, H = ½ n^0.75: 16 thousand at a million URLs, 1.28 million at 350 million. (Of the pages of
//! ClueWeb09, one in a hundred is Wikipedia's; \[Henrique11\] speaks of a million servers.)
//!
//! INVARIANT: two numbers never stand for the same host and label. Label = (place among the host's slots of this cycle,
//! cycle), the shuffle is a bijection, and slots of a host are counted from its first.
//!
//! Keeps nothing of what was found, and spells nothing: see [`super::spell`].

use farol_base::random::mix;

/// Bits of a label that hold the cycle: 4,096 cycles, twelve times \[Henrique11\]'s 350.
const CYCLE_BITS: u32 = 12;
/// Hosts per URL at the first URL, and how their number grows: Heaps' law.
const HEAPS: (f64, f64) = (0.5, 0.75);

/// A page: which host, and which page of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// 0 is the largest.
    pub host: u64,
    /// Distinct within the host; small where the host is.
    pub label: u64,
}

/// Finds the places of URL numbers.
#[derive(Clone, Debug)]
pub struct Atlas {
    new: u64,
    shuffle: Shuffle,
    cycles: Vec<CycleMap>,
}

/// What one cycle's layout depends on.
#[derive(Clone, Copy, Debug)]
struct CycleMap {
    hosts: f64,
    /// Moves all slots by less than one, so that small hosts take turns from cycle to cycle.
    jitter: f64,
    key: u64,
}

impl Atlas {
    /// Lays out cycles of `new` URLs each.
    ///
    /// # Panics
    /// Where `new` is 0 or beyond 2^32.
    pub fn new(seed: u64, new: u64) -> Atlas {
        assert!((1..=1 << 32).contains(&new), "a cycle brings between one and 2^32 new URLs");
        let cycle = |cycle: u64| {
            let key = mix(mix(seed) ^ mix(cycle));
            let hosts = HEAPS.0 * ((cycle + 1) as f64 * new as f64).powf(HEAPS.1);
            CycleMap { hosts: hosts.floor().max(1.0), jitter: (key >> 11) as f64 / (1u64 << 53) as f64, key }
        };
        // 4,096 × 24 bytes = 96 KiB.
        Atlas { new, shuffle: Shuffle::new(new), cycles: (0..1 << CYCLE_BITS).map(cycle).collect() }
    }

    /// The page that URL number `number` names.
    ///
    /// # Panics
    /// Beyond 4,096 cycles.
    pub fn place(&self, number: u64) -> Place {
        let cycle = number / self.new;
        let slot = self.shuffle.apply(number % self.new, self.cycles[cycle as usize].key);
        self.place_of_slot(cycle, slot)
    }

    /// The page at a slot of a cycle, in the order of hosts; every number's page is at one slot of its cycle.
    pub fn place_of_slot(&self, cycle: u64, slot: u64) -> Place {
        let map = &self.cycles[cycle as usize];
        let host = self.host_of_slot(map, slot);
        // A guess by the inverse, put right by the function itself: no rounding can make two labels equal.
        let guess = (host as f64 / map.hosts).cbrt() * self.new as f64 - map.jitter;
        let mut first = (guess.max(0.0) as u64).min(slot);
        while first > 0 && self.host_of_slot(map, first - 1) == host {
            first -= 1;
        }
        while self.host_of_slot(map, first) < host {
            first += 1;
        }
        Place { host, label: (slot - first) << CYCLE_BITS | cycle }
    }

    fn host_of_slot(&self, map: &CycleMap, slot: u64) -> u64 {
        let x = (slot as f64 + map.jitter) / self.new as f64;
        ((x * x * x * map.hosts) as u64).min(map.hosts as u64 - 1)
    }

    /// Hosts that exist in a cycle; a little more than those that have pages.
    pub fn hosts(&self, cycle: u64) -> u64 {
        self.cycles[cycle as usize].hosts as u64
    }
}

/// A bijection of `0..count`: a Feistel network over the next even power of two, walked until it falls inside.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    count: u64,
    half_bits: u32,
}

impl Shuffle {
    pub fn new(count: u64) -> Shuffle {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Shuffle { count, half_bits: bits.div_ceil(2).max(1) }
    }

    /// Where `x` goes under this key.
    pub fn apply(&self, mut x: u64, key: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        loop {
            let (mut left, mut right) = (x >> self.half_bits, x & mask);
            for round in 0..4u64 {
                let f = (right ^ key.rotate_left(16 * round as u32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                (left, right) = (right, left ^ (f >> 37 & mask));
            }
            x = left << self.half_bits | right;
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn shuffles_are_bijections() {
        for count in [1, 2, 5, 1000, 4097] {
            let shuffle = Shuffle::new(count);
            let mut seen: Vec<u64> = (0..count).map(|x| shuffle.apply(x, 99)).collect();
            assert!(count < 1000 || seen.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() < 20);
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count));
        }
    }

    #[test]
    fn no_two_numbers_share_a_place() {
        let atlas = Atlas::new(1, 5000);
        let mut places: Vec<Place> = (0..40 * 5000).map(|number| atlas.place(number)).collect();
        let mut by_slot: Vec<Place> = (0..40)
            .flat_map(|cycle| (0..5000).map(move |slot| (cycle, slot)))
            .map(|(c, s)| atlas.place_of_slot(c, s))
            .collect();
        places.sort_unstable();
        by_slot.sort_unstable();
        assert_eq!(places, by_slot);
        places.dedup();
        assert_eq!(places.len(), 200_000);
    }

    #[test]
    fn sizes_follow_a_power_law_and_hosts_grow() {
        let atlas = Atlas::new(1, 100_000);
        let mut sizes: HashMap<u64, u64> = HashMap::new();
        for number in 0..1_000_000 {
            *sizes.entry(atlas.place(number).host).or_default() += 1;
        }
        // H = ½ × 10^4.5 = 15,811; the largest has between 1/H^⅓ (at the end) and twice that.
        assert_eq!(atlas.hosts(9), 15_811);
        assert!((15_000..=15_811).contains(&sizes.len()), "{}", sizes.len());
        let share = sizes[&0] as f64 / 1e6;
        assert!((0.04..0.08).contains(&share), "{share}");
        let ratio = sizes[&10] as f64 / sizes[&1000] as f64;
        assert!((15.0..30.0).contains(&ratio), "100^⅔ = 21.5, got {ratio}");
    }
}
