//! The degrees that are in force [Gomez14 §4.3.2]: a degree rises at once and falls one step at a time, each after it was
//! not needed for a while (the thesis' `A`). The leader keeps them; fronts are told ([`crate::tables::HotDoc`]).
//!
//! INVARIANT: never more queries than there is room for; of those that need nodes the ones named first come first.

use super::degree::Degree;
use farol_base::Timestamp;
use std::collections::HashMap;
use std::time::Duration;

/// Degrees by query.
#[derive(Debug)]
pub struct Ageing {
    hot: HashMap<u64, Aged>,
    /// How long a degree stays after it was needed last.
    ageing: Duration,
    room: usize,
}

#[derive(Clone, Copy, Debug)]
struct Aged {
    degree: usize,
    /// When the degree was needed last, or fell last.
    since: Timestamp,
}

impl Ageing {
    pub fn new(ageing: Duration, room: usize) -> Ageing {
        Ageing { hot: HashMap::new(), ageing, room }
    }

    /// Takes the degrees of an interval over: those that rose at once, those that fell by their age.
    pub fn renew(&mut self, required: &[Degree], now: Timestamp) {
        let wanted: HashMap<u64, usize> = required.iter().map(|degree| (degree.hash, degree.nodes)).collect();
        let ageing = self.ageing;
        self.hot.retain(|hash, hot| {
            let needed = wanted.get(hash).copied().unwrap_or(1);
            if needed >= hot.degree {
                *hot = Aged { degree: needed, since: now };
            } else if now.since(hot.since) >= ageing {
                *hot = Aged { degree: hot.degree - 1, since: now };
            }
            hot.degree > 1
        });
        required.iter().for_each(|degree| self.raise(*degree, now));
    }

    /// Makes a query hot, or hotter. Where there is no room, that which needed its nodes longest ago makes some, if it is
    /// not needed now.
    pub fn raise(&mut self, degree: Degree, now: Timestamp) {
        if degree.nodes < 2 {
            return;
        }
        if let Some(hot) = self.hot.get_mut(&degree.hash) {
            if degree.nodes >= hot.degree {
                *hot = Aged { degree: degree.nodes, since: now };
            }
            return;
        }
        if self.hot.len() >= self.room {
            let oldest = self.hot.iter().min_by_key(|(hash, hot)| (hot.since, hot.degree, **hash));
            match oldest.map(|(hash, hot)| (*hash, hot.since)) {
                Some((hash, since)) if since < now => drop(self.hot.remove(&hash)),
                _ => return,
            }
        }
        self.hot.insert(degree.hash, Aged { degree: degree.nodes, since: now });
    }

    pub fn degree(&self, hash: u64) -> usize {
        self.hot.get(&hash).map_or(1, |hot| hot.degree)
    }

    /// Everything hot, in the order of hashes.
    pub fn all(&self) -> Vec<Degree> {
        let mut all: Vec<Degree> =
            self.hot.iter().map(|(hash, hot)| Degree { hash: *hash, nodes: hot.degree }).collect();
        all.sort_unstable_by_key(|degree| degree.hash);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(count: u64) -> Timestamp {
        Timestamp::from_secs(60 * count)
    }

    fn degree(nodes: usize) -> Vec<Degree> {
        if nodes == 0 { Vec::new() } else { vec![Degree { hash: 42, nodes }] }
    }

    #[test]
    fn degrees_rise_at_once_and_fall_one_by_one() {
        let mut ageing = Ageing::new(Duration::from_secs(180), 100);
        let sizes: Vec<usize> = [3, 7, 2, 2, 2, 2, 0, 0, 6, 0, 0, 0]
            .iter()
            .enumerate()
            .map(|(minute, nodes)| {
                ageing.renew(&degree(*nodes), minutes(minute as u64));
                ageing.degree(42)
            })
            .collect();
        //               needed: 3  7  2  2  2  2  -  -  6  -  -  -
        assert_eq!(sizes, [3, 7, 7, 7, 6, 6, 6, 5, 6, 6, 6, 5]);
        (12..40).for_each(|minute| ageing.renew(&[], minutes(minute)));
        assert!(ageing.all().is_empty());
    }

    #[test]
    fn there_is_a_limit_and_the_idle_make_room() {
        let mut ageing = Ageing::new(Duration::from_secs(180), 3);
        let many: Vec<Degree> = (0..10).map(|hash| Degree { hash, nodes: 2 }).collect();
        ageing.renew(&many, minutes(0));
        assert_eq!(ageing.all(), &many[..3], "the first ones; nobody is idle");
        ageing.raise(Degree { hash: 99, nodes: 4 }, minutes(1));
        assert_eq!(ageing.all().len(), 3);
        assert_eq!((ageing.degree(99), ageing.degree(0)), (4, 1));
    }
}
