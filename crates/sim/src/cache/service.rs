//! What answering costs: front, cache nodes and index as stations with a service time and a capacity.
//!
//! A hit takes 6.6 ms and a miss 55.8 ms from end to end where nobody waits: \[Gomez14\] prints no costs, and
//! these two follow from its Tables 5.4 and 5.5. A cache node bears 50 queries a second of the stream, as
//! loads of 78 % with 20 nodes and 51 % with 30 imply. Half of them miss and are followed by an insert, which the thesis'
//! loads do not count and a node has to serve: ours do, so a node bears 75 requests of either kind. Copies and entries that
//! are handed over travel in batches of sixteen; each costs a quarter of a request where it is sent and where it arrives,
//! and no node sends more than a pace allows. A beat or a table is a message of its own and costs as much as a batch of its
//! size; it stands for itself, while the logs are a 1 % sample, in which each query stands for a hundred. So chance within a second says nothing, and waiting is reckoned by *beats* of ten seconds: work
//! that does not fit waits, and a lookup that would wait longer than the front's patience is given up and
//! goes to the index, without an insertion. What a patience of 150 ms costs plain consistent hashing after
//! five failures is what Table 5.10 has.

/// Seconds of a beat.
pub const BEAT: f64 = 10.0;

/// Lookups that a node bears in a second.
pub const LOOKUPS: f64 = 50.0;
/// Work of a lookup with what follows, where half of them miss.
pub const WORK: f64 = 1.5;

/// Times in milliseconds, rates in queries per second.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Front, network and lookup.
    pub hit_ms: f64,
    /// What asking the index adds: at least this …
    pub index_ms: f64,
    /// … and this in the mean, exponentially: gives the 0.90 quantile of Table 5.4.
    pub index_tail_ms: f64,
    /// The front gives a node up after this.
    pub patience_ms: f64,
    /// Requests of one unit of work.
    pub node_rate: f64,
    /// Work of an insert, and of an entry that is copied or handed over, where a lookup is 1.
    pub insert: f64,
    pub transfer: f64,
    /// Entries that a node sends to others in a second: 10 MB of 4 KB each, a hundredth of them in the stream.
    pub pace: f64,
    /// The front waits so long for a node that does not answer, before it passes it over; others wait as patiently as for
    /// one that is busy.
    pub deadline_ms: f64,
    pub index_rate: f64,
    pub front_rate: f64,
    /// Real queries that one of the stream stands for.
    pub sample: f64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            hit_ms: 6.6,
            index_ms: 47.55,
            index_tail_ms: 1.65,
            patience_ms: 150.0,
            node_rate: LOOKUPS * WORK,
            insert: 1.0,
            transfer: 0.25,
            pace: 25.0,
            deadline_ms: 40.0,
            // Two thirds of the logs' traffic may miss.
            index_rate: 520.0,
            front_rate: 1100.0,
            sample: 100.0,
        }
    }
}

/// A queue in front of one server, by beats.
#[derive(Clone, Copy, Debug)]
pub struct Station {
    rate: f64,
    /// Work left from earlier beats, in queries.
    backlog: f64,
    /// Most work that may wait.
    backlog_max: f64,
    arrived: f64,
    service_ms: f64,
}

/// A beat of a station.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beat {
    /// Offered work over capacity, not cut at 1.
    pub load: f64,
    pub wait_ms: f64,
}

impl Station {
    pub fn new(rate: f64, patience_ms: f64, sample: f64) -> Station {
        let service_ms = 1000.0 / (rate * sample).max(1e-9);
        let backlog_max = rate * patience_ms / 1000.0;
        Station { rate, backlog: 0.0, backlog_max, arrived: 0.0, service_ms }
    }

    /// Work arrives, a lookup being 1; `false` where it would wait longer than anybody does.
    pub fn arrive(&mut self, work: f64) -> bool {
        self.arrived += work;
        self.backlog + self.arrived <= self.rate * BEAT + self.backlog_max
    }

    /// Ends a beat.
    pub fn beat(&mut self) -> Beat {
        let room = self.rate * BEAT;
        let load = self.arrived / room;
        let before = self.backlog;
        self.backlog = (before + self.arrived - room).clamp(0.0, self.backlog_max);
        self.arrived = 0.0;
        // Chance within the beat: a queue with even service (Pollaczek and Khinchine), at the real rate.
        let busy = load.min(0.98);
        let by_chance = self.service_ms * busy / (2.0 * (1.0 - busy));
        let by_overload = 1000.0 * (before + self.backlog) / 2.0 / self.rate;
        Beat { load, wait_ms: by_chance + by_overload }
    }

    /// Nobody waits any more: the node is gone, or new.
    pub fn clear(&mut self) {
        (self.backlog, self.arrived) = (0.0, 0.0);
    }
}

/// Times by tenths of a millisecond.
#[derive(Clone)]
pub struct Times {
    tenths: Vec<u64>,
    sum_ms: f64,
    count: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times { tenths: vec![0; 20_000], sum_ms: 0.0, count: 0 }
    }
}

impl Times {
    pub fn add(&mut self, ms: f64, count: u64) {
        let at = ((ms * 10.0) as usize).min(self.tenths.len() - 1);
        self.tenths[at] += count;
        self.sum_ms += ms * count as f64;
        self.count += count;
    }

    /// Times with an exponential tail, as eight equal parts.
    pub fn add_tailed(&mut self, ms: f64, tail_ms: f64, count: u64) {
        let part = count / 8;
        for i in 0..8u32 {
            let n = if i == 0 { count - 7 * part } else { part };
            // Each part at the mean of its eighth.
            self.add(ms + tail_ms * EIGHTHS[i as usize], n);
        }
    }

    pub fn mean(&self) -> f64 {
        self.sum_ms / self.count.max(1) as f64
    }

    /// The time that this share took at most.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share) as u64;
        let mut seen = 0;
        for (at, count) in self.tenths.iter().enumerate() {
            seen += count;
            if seen > wanted {
                return at as f64 / 10.0;
            }
        }
        0.0
    }

    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Means of the eighths of an exponential distribution of mean 1; they average to 1.
const EIGHTHS: [f64; 8] = [0.0653, 0.2086, 0.3761, 0.5774, 0.8301, 1.1699, 1.6931, 3.0794];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_station_answers_at_once_and_a_full_one_refuses() {
        let mut station = Station::new(50.0, 100.0, 100.0);
        assert!((0..400).all(|_| station.arrive(1.0)));
        let calm = station.beat();
        assert!((calm.load - 0.8).abs() < 1e-9 && calm.wait_ms < 1.0, "{calm:?}");
        let taken = (0..1000).filter(|_| station.arrive(1.0)).count();
        assert_eq!(taken, 505);
        let full = station.beat();
        assert!((full.load - 2.0).abs() < 1e-9 && full.wait_ms > 50.0, "{full:?}");
        // A quiet beat works the queue off.
        station.arrive(1.0);
        station.beat();
        assert!(station.beat().wait_ms < 0.1);
    }

    #[test]
    fn quantiles_and_means() {
        let mut times = Times::default();
        times.add(6.6, 500);
        times.add_tailed(54.15, 1.65, 500);
        assert!((times.mean() - 31.2).abs() < 0.05, "{}", times.mean());
        // Half hits: the 0.90 quantile is the 0.80 quantile of the misses.
        assert!((times.quantile(0.9) - 56.7).abs() < 0.6, "{}", times.quantile(0.9));
        assert!((EIGHTHS.iter().sum::<f64>() / 8.0 - 1.0).abs() < 0.001);
        assert_eq!(Times::default().quantile(0.5), 0.0);
    }
}
