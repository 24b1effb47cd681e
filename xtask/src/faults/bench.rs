//! One fault under load: what people noticed, how long it took until all was whole again, and which bounds broke.

use super::figures::Figures;
use super::lab::{Lab, REPLICAS};
use super::load::Load;
use std::time::{Duration, Instant};

/// Load before the fault, to compare with.
const BEFORE: Duration = Duration::from_secs(8);
/// Load after all is whole again.
const AFTER: Duration = Duration::from_secs(3);
/// In one fault questions may be late in so many seconds.
const LATE_SECONDS_MAX: usize = 1;

/// A cluster that is asked.
pub struct Bench {
    pub lab: Lab,
    pub questions: Vec<String>,
    /// In the index; 0 where that is not known yet.
    pub pages: u64,
    pub per_second: f64,
    /// Whether people ask the same again and again, so that most answers are ones that were kept.
    pub repeats: bool,
    /// How long what was killed stays away.
    pub away: Duration,
}

/// What people may notice of a fault, beside one late second.
#[derive(Clone, Copy, Default)]
pub struct Allowed {
    pub partial: bool,
    /// A front that is gone is noticed by whoever asks it first, and the other one is asked.
    pub moved: bool,
    pub replicas: Option<usize>,
}

/// What a fault left to be waited for.
#[derive(Default)]
pub struct Healed {
    /// Nodes that were started, or woken, and when.
    pub started: Vec<(String, Instant)>,
    pub notes: Vec<String>,
    pub broken: Vec<String>,
}

impl Healed {
    pub fn started(name: &str) -> Healed {
        Healed { started: vec![(name.to_string(), Instant::now())], ..Healed::default() }
    }
}

/// A line of the report.
pub struct Row {
    pub fault: String,
    pub inside: Figures,
    pub outside: Figures,
    /// Seconds from the end of the fault until each replica had everything and answered.
    pub recovery: Option<f64>,
    pub notes: Vec<String>,
    /// Bounds that were broken.
    pub broken: Vec<String>,
}

impl Bench {
    /// Does harm while people ask, and waits until the cluster is whole again.
    pub fn under_load(
        &mut self,
        fault: &str,
        allowed: Allowed,
        harm: impl FnOnce(&mut Lab, Duration) -> Result<Healed, String>,
    ) -> Result<Row, String> {
        let load = Load::start(&self.lab.fronts(), &self.questions, self.per_second, self.repeats)?;
        std::thread::sleep(BEFORE);
        let from = load.now();
        let healed = harm(&mut self.lab, self.away);
        let ended = load.now();
        let pages = (self.pages > 0).then_some(self.pages);
        let replicas = allowed.replicas.unwrap_or(REPLICAS);
        let whole = match &healed {
            Ok(healed) => self.lab.wait_for("a whole cluster", |status| {
                status.is_whole(replicas, pages)
                    && healed.started.iter().all(|(name, at)| status.is_heard(name, *at))
            }),
            Err(error) => Err(error.clone()),
        };
        let to = load.now();
        std::thread::sleep(AFTER);
        let (samples, troubles) = load.end();
        let mut row = Row {
            fault: fault.to_string(),
            inside: Figures::of(&samples, from..to),
            outside: Figures::of(&samples, 0.0..from),
            recovery: whole.is_ok().then_some(to - ended),
            notes: troubles.iter().map(|(text, count)| format!("{count} × {text}")).collect(),
            broken: whole.err().into_iter().collect(),
        };
        if let Ok(healed) = healed {
            row.notes.extend(healed.notes);
            row.broken.extend(healed.broken);
        }
        row.judge(allowed);
        Ok(row)
    }
}

impl Row {
    fn judge(&mut self, allowed: Allowed) {
        let mut must = |holds: bool, text: String| self.broken.extend((!holds).then_some(text));
        let inside = &self.inside;
        must(inside.sent > 0, "nothing was asked".to_string());
        must(inside.failed == 0, format!("{} failed", inside.failed));
        must(allowed.partial || inside.partial == 0, format!("{} in part", inside.partial));
        must(allowed.moved || inside.moved == 0, format!("{} dropped by a front", inside.moved));
        let late = inside.late_seconds;
        must(late <= LATE_SECONDS_MAX, format!("{late} late seconds, {LATE_SECONDS_MAX} allowed"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_judged() {
        let broken = |inside: Figures, allowed| {
            let (fault, outside) = (String::new(), Figures::default());
            let mut row = Row { fault, inside, outside, recovery: None, notes: vec![], broken: vec![] };
            row.judge(allowed);
            row.broken.len()
        };
        let good = Figures { sent: 9, late_seconds: 1, ..Figures::default() };
        let none = Allowed::default();
        assert_eq!(broken(good.clone(), none), 0);
        assert_eq!(broken(Figures { failed: 1, ..good.clone() }, none), 1);
        assert_eq!(broken(Figures { late_seconds: 2, ..good.clone() }, none), 1);
        let noticed = Figures { partial: 1, moved: 1, ..good };
        assert_eq!(broken(noticed.clone(), none), 2);
        assert_eq!(broken(noticed, Allowed { partial: true, moved: true, replicas: None }), 0);
        assert_eq!(broken(Figures::default(), none), 1);
    }
}
