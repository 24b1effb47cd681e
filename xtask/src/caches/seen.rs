//! What a load told of a stretch of time, added up from its lines, and what must hold of all of them.

use crate::json::Json;
use std::collections::BTreeMap;

/// Buckets of times to the power of two, as `farol cache replay` has them.
const PER_OCTAVE: f64 = 8.0;

/// What a stretch of a load was like.
pub struct Seen {
    pub asked: f64,
    pub failed: f64,
    /// Answers that the index made.
    pub made: f64,
    pub hottest: f64,
    pub adopted: f64,
    pub late: f64,
    pub refused: f64,
    /// Times by bucket.
    times: BTreeMap<u32, f64>,
}

/// Lines of a load from one second to another.
pub fn seen(lines: &[Json], from: f64, to: f64) -> Seen {
    let among = || lines.iter().filter(|line| (from..to).contains(&(line.get("second").number() - 0.5)));
    let sum = |path: &str| {
        among()
            .map(|line| line.get(path).number())
            .filter(|number| number.is_finite())
            .fold(0.0, |a, b| a + b)
    };
    let mut times: BTreeMap<u32, f64> = BTreeMap::new();
    for pair in among().flat_map(|line| line.get("times").list()).map(Json::list) {
        if let [bucket, count] = pair {
            *times.entry(bucket.number() as u32).or_default() += count.number();
        }
    }
    Seen {
        asked: sum("asked"),
        failed: sum("failed"),
        made: sum("made"),
        hottest: among().next_back().map_or(0.0, |line| line.get("hottest_over_mean").number()),
        adopted: sum("counters.adopted"),
        late: sum("counters.late"),
        refused: sum("counters.refused"),
        times,
    }
}

impl Seen {
    pub fn hit_rate(&self) -> f64 {
        100.0 * (1.0 - self.made / self.asked.max(1.0))
    }

    /// The time that this share took at most, in milliseconds.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = self.times.values().sum::<f64>() * share;
        let mut sum = 0.0;
        let bucket = self.times.iter().find(|(_, count)| {
            sum += **count;
            sum >= wanted
        });
        bucket.map_or(0.0, |(bucket, _)| middle_ms(*bucket))
    }

    /// Milliseconds of an answer in the mean.
    pub fn mean_ms(&self) -> f64 {
        let sum: f64 = self.times.iter().map(|(bucket, count)| middle_ms(*bucket) * count).sum();
        sum / self.times.values().sum::<f64>().max(1.0)
    }

    pub fn told(&self, what: &str) -> String {
        format!(
            "  {what:<28} {:>7} asked  {:>3} failed  hits {:5.1} %  from copies {:>5}  late {:>4}  refused {:>3}  p99 {:6.1} ms  hottest/mean {:.3}",
            self.asked,
            self.failed,
            self.hit_rate(),
            self.adopted,
            self.late,
            self.refused,
            self.quantile(0.99),
            self.hottest
        )
    }
}

/// The middle of a bucket.
fn middle_ms(bucket: u32) -> f64 {
    2f64.powf((f64::from(bucket) + 0.5) / PER_OCTAVE) / 1e3
}

/// No question may fail, whatever is done to the nodes.
pub fn none_failed(total: &Json) -> Result<(), String> {
    match total.get("failed").number() {
        0.0 => Ok(()),
        some => Err(format!("{some} of {} questions failed", total.get("asked").number())),
    }
}

/// What an asker goes by never becomes older.
pub fn epochs_grow(lines: &[Json]) -> Result<(), String> {
    for name in ["epoch", "hot_epoch"] {
        let epochs: Vec<Vec<f64>> =
            lines.iter().map(|line| line.get(name).list().iter().map(Json::number).collect()).collect();
        if let Some(pair) = epochs.windows(2).find(|pair| pair[1] < pair[0]) {
            return Err(format!("{name} fell from {:?} to {:?}", pair[0], pair[1]));
        }
    }
    Ok(())
}

/// An error unless it holds.
pub fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u32, bucket: u32, epoch: u32) -> Json {
        Json::read(&format!(
            r#"{{"second":{second},"asked":10,"made":4,"failed":0,"times":[[{bucket},9],[104,1]],
                "counters":{{"late":1}},"hottest_over_mean":1.5,"epoch":[1,{epoch}],"hot_epoch":[0,0]}}"#
        ))
        .unwrap()
    }

    #[test]
    fn quantiles_are_of_the_whole_stretch() {
        let lines = [line(2, 80, 1), line(4, 80, 1), line(6, 88, 2)];
        let all = seen(&lines, 0.0, 10.0);
        assert_eq!((all.asked, all.hit_rate(), all.late), (30.0, 60.0, 3.0));
        // Bucket 80 is 1.02 to 1.12 ms, 88 twice that, 104 eight times.
        assert!((1.0..1.2).contains(&all.quantile(0.5)), "{}", all.quantile(0.5));
        assert!((8.0..9.0).contains(&all.quantile(0.99)), "{}", all.quantile(0.99));
        assert!((1.9..2.4).contains(&all.mean_ms()), "{}", all.mean_ms());
        assert_eq!(seen(&lines, 0.0, 3.0).asked, 10.0);
    }

    #[test]
    fn an_epoch_that_falls_is_noticed() {
        assert!(epochs_grow(&[line(1, 1, 1), line(2, 1, 1), line(3, 1, 5)]).is_ok());
        assert!(epochs_grow(&[line(1, 1, 3), line(2, 1, 2)]).unwrap_err().contains("epoch fell"));
    }
}
