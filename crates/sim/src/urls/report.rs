//! The tables: the figures of \[Henrique11\] beside ours, each store beside the first.
//!
//! Stores that merge now and then have cheap cycles and dear ones, so that all figures per cycle are means of the ten
//! cycles up to it (of fewer where there are fewer).

use super::driver::{Cycle, End, Start};
use std::fmt;

/// DRUM's and VEUNI's seconds per cycle in the thesis, by millions of known URLs.
pub const THESIS: [(u64, f64, f64); 8] = [
    (1, 22.17, 1.35),
    (50, 53.53, 2.60),
    (100, 81.24, 3.53),
    (150, 114.55, 4.47),
    (200, 149.11, 6.11),
    (250, 196.60, 6.17),
    (300, 238.53, 7.26),
    (350, 284.92, 9.07),
];

/// Rows of our own between the thesis' first two.
const MORE_ROWS: [u64; 6] = [2, 5, 10, 20, 30, 40];
/// Cycles that a moving mean is taken over.
const WINDOW: usize = 10;
/// Seconds that fetching and parsing 100,000 pages take, in the thesis' second experiment.
const OTHER_WORK_SECS: f64 = 270.0;

/// One store's record.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub name: String,
    pub what: String,
    pub start: Option<Start>,
    pub cycles: Vec<Cycle>,
    pub end: Option<End>,
}

impl Run {
    /// Mean seconds of the ten cycles that end with the `count`th.
    pub fn seconds_at(&self, count: usize) -> Option<f64> {
        self.mean_at(count, |cycle| cycle.seconds)
    }

    fn mean_at(&self, count: usize, of: impl Fn(&Cycle) -> f64) -> Option<f64> {
        let upto = self.cycles.get(..count)?;
        let window = &upto[upto.len().saturating_sub(WINDOW)..];
        (!window.is_empty()).then(|| window.iter().map(of).sum::<f64>() / window.len() as f64)
    }

    /// URLs that were brought in a cycle, in millions; all loads by formula bring the same number in each.
    pub fn millions_per_cycle(&self) -> f64 {
        self.start.as_ref().map_or(1.0, |start| start.load.new as f64 / 1e6)
    }

    fn total(&self, of: impl Fn(&Cycle) -> f64) -> f64 {
        self.cycles.iter().map(of).sum()
    }

    /// The number of cycles after which this many millions are known, where the run came so far.
    fn cycles_at(&self, millions: f64) -> Option<usize> {
        let count = millions / self.millions_per_cycle();
        let whole = count.fract() == 0.0 && count >= 1.0 && count <= self.cycles.len() as f64;
        whole.then_some(count as usize)
    }

    /// URLs that a complete store knows at the end.
    fn known(&self) -> f64 {
        let merged = self.end.as_ref().map(|end| end.known);
        merged.or(self.cycles.last().map(|cycle| cycle.known)).unwrap_or(0).max(1) as f64
    }
}

/// A figure of a cycle.
type Of = fn(&Cycle) -> f64;

fn mean(cycles: &[Cycle], of: Of) -> f64 {
    cycles.iter().map(of).sum::<f64>() / cycles.len().max(1) as f64
}

/// All runs, ready to be printed as Markdown.
#[derive(Clone, Debug)]
pub struct UrlsReport {
    runs: Vec<Run>,
}

impl UrlsReport {
    /// Compares runs with the first of them.
    pub fn new(runs: Vec<Run>) -> UrlsReport {
        UrlsReport { runs }
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Millions of known URLs for which there is a row: those that some run reached, and the longest run's end.
    fn rows(&self) -> Vec<f64> {
        let rows = THESIS.iter().map(|row| row.0).chain(MORE_ROWS).map(|millions| millions as f64);
        let ends = self.runs.iter().map(|run| run.cycles.len() as f64 * run.millions_per_cycle());
        let mut rows: Vec<f64> = rows.chain(ends).collect();
        rows.retain(|row| self.runs.iter().any(|run| run.cycles_at(*row).is_some()));
        rows.sort_by(f64::total_cmp);
        rows.dedup();
        rows
    }

    fn header(&self, f: &mut fmt::Formatter<'_>, first: &str) -> fmt::Result {
        write!(f, "\n| {first} |")?;
        self.runs.iter().try_for_each(|run| write!(f, " {} |", run.name))?;
        write!(f, "\n|---:|")?;
        first.matches('|').try_for_each(|_| write!(f, "---:|"))?;
        self.runs.iter().try_for_each(|_| write!(f, "---:|"))?;
        writeln!(f)
    }

    fn seconds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Seconds per cycle\n\nThe thesis' columns are from other machines and other URLs.")?;
        self.header(f, "M URLs known | thesis: DRUM | thesis: VEUNI")?;
        for row in self.rows() {
            write!(f, "| {row} |")?;
            match THESIS.iter().find(|thesis| thesis.0 as f64 == row) {
                Some((_, drum, veuni)) => write!(f, " {drum:.2} | {veuni:.2} |")?,
                None => write!(f, " | |")?,
            }
            for run in &self.runs {
                cell(f, run.cycles_at(row).and_then(|count| run.seconds_at(count)), 2)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn cpu_seconds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n## CPU seconds per cycle\n\nOf the whole process without the generator. A store that works in the background \
             while the generator runs shows it here and not above; how much that is stands below."
        )?;
        self.header(f, "M URLs known")?;
        for row in self.rows() {
            write!(f, "| {row} |")?;
            for run in &self.runs {
                cell(
                    f,
                    run.cycles_at(row).and_then(|count| run.mean_at(count, |cycle| cycle.cpu_seconds)),
                    2,
                )?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn ratios(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.runs.first() else { return Ok(()) };
        writeln!(f, "\n## Times as long as {}", first.name)?;
        self.header(f, "M URLs known | thesis: DRUM")?;
        for row in self.rows() {
            write!(f, "| {row} |")?;
            let thesis = THESIS.iter().find(|thesis| thesis.0 as f64 == row);
            cell(f, thesis.map(|(_, drum, veuni)| drum / veuni), 1)?;
            let seconds = |run: &Run| run.cycles_at(row).and_then(|count| run.seconds_at(count));
            for run in &self.runs {
                cell(f, seconds(run).zip(seconds(first)).map(|(ours, first)| ours / first), 2)?;
            }
            writeln!(f)?;
        }
        type Pick = fn(f64, f64) -> f64;
        for (name, pick) in
            [("least from cycle 10 on", f64::min as Pick), ("most from cycle 10 on", f64::max)]
        {
            write!(f, "| {name} | |")?;
            for run in &self.runs {
                let both = run.cycles.len().min(first.cycles.len());
                let ratio = |count| Some(run.seconds_at(count)? / first.seconds_at(count)?);
                cell(f, (WINDOW..=both).filter_map(ratio).reduce(pick), 2)?;
            }
            writeln!(f)?;
        }
        for (name, of) in [
            ("all cycles that both ran", (|cycle| cycle.seconds) as Of),
            ("the same with the generator's time on both sides", |cycle| {
                cycle.seconds + cycle.generator_seconds
            }),
            ("the same in CPU seconds", |cycle| cycle.cpu_seconds),
        ] {
            write!(f, "| {name} | |")?;
            for run in &self.runs {
                let both = run.cycles.len().min(first.cycles.len());
                cell(f, Some(mean(&run.cycles[..both], of) / mean(&first.cycles[..both], of)), 2)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n## Each store's whole run")?;
        self.header(f, "")?;
        let each = |f: &mut fmt::Formatter<'_>, name: &str, digits, of: &dyn Fn(&Run) -> Option<f64>| {
            write!(f, "| {name} |")?;
            self.runs.iter().try_for_each(|run| cell(f, of(run), digits))?;
            writeln!(f)
        };
        let mebi = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        each(f, "cycles", 0, &|run| Some(run.cycles.len() as f64))?;
        each(f, "known at the end, M", 2, &|run| Some(run.known() / 1e6))?;
        each(f, "store, s", 1, &|run| Some(run.total(|cycle| cycle.seconds)))?;
        each(f, "store, CPU s", 1, &|run| Some(run.total(|cycle| cycle.cpu_seconds)))?;
        each(f, "of it beside the generator, CPU s", 1, &|run| {
            Some(run.total(|cycle| cycle.beside_seconds))
        })?;
        each(f, "of it the caller's own, CPU s", 1, &|run| Some(run.total(|cycle| cycle.caller_seconds)))?;
        each(f, "slowest cycle, s", 2, &|run| run.cycles.iter().map(|c| c.seconds).max_by(f64::total_cmp))?;
        each(f, "compacting everything at the end, s", 2, &|run| {
            run.end.as_ref().map(|end| end.compact_all_seconds)
        })?;
        each(f, "generator, s (not counted)", 1, &|run| Some(run.total(|cycle| cycle.generator_seconds)))?;
        for (name, of) in [
            ("last ten cycles / cycles 41 to 50", (|cycle| cycle.seconds) as Of),
            ("the same of CPU seconds", |cycle| cycle.cpu_seconds),
            ("the same of the caller's CPU seconds", |cycle| cycle.caller_seconds),
            ("the same of the generator: the machine's pace", |cycle| cycle.generator_seconds),
        ] {
            each(f, name, 2, &|run| {
                let last = run.cycles.len().checked_sub(WINDOW).filter(|start| *start >= 50)?;
                Some(mean(&run.cycles[last..], of) / mean(&run.cycles[40..50], of))
            })?;
        }
        each(f, "checks/s at 100 M", 0, &|run| {
            let count = run.cycles_at(100.0)?;
            let cycle = &run.cycles[count - 1];
            Some((cycle.found + cycle.taken) as f64 / run.seconds_at(count)?)
        })?;
        each(f, "checks/s, whole run", 0, &|run| {
            Some(run.total(|cycle| (cycle.found + cycle.taken) as f64) / run.total(|cycle| cycle.seconds))
        })?;
        each(f, "peak memory, MiB", 0, &|run| run.end.as_ref().map(|end| mebi(end.rss_peak)))?;
        each(f, "of it the generator's, MiB", 0, &|run| run.start.as_ref().map(|s| mebi(s.generator_rss)))?;
        each(f, "bytes on disk per URL", 1, &|run| {
            run.end.as_ref().map(|e| e.bytes_on_disk as f64 / run.known())
        })?;
        each(f, "bytes written per URL", 0, &|run| {
            run.end.as_ref().map(|e| e.bytes_written as f64 / run.known())
        })?;
        each(f, "URLs handed out", 0, &|run| Some(run.total(|cycle| cycle.taken as f64)))
    }

    fn pages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n## Pages per second of a whole crawl\n\nThe thesis' second experiment: {OTHER_WORK_SECS} s of other work per \
             100,000 pages. Thesis: DRUM 341.85 in the first cycle, 244.00 over 350 cycles (−28.62 %); VEUNI 368.49 \
             and 363.51 (−1.34 %)."
        )?;
        self.header(f, "")?;
        let rate = |run: &Run, count: usize| {
            let pages = run.start.as_ref()?.load.collected as f64;
            let other = OTHER_WORK_SECS * pages / 1e5;
            Some(pages / (other + mean(run.cycles.get(..count)?, |cycle| cycle.seconds)))
        };
        write!(f, "| first cycle |")?;
        self.runs.iter().try_for_each(|run| cell(f, rate(run, 1), 2))?;
        write!(f, "\n| all cycles |")?;
        self.runs.iter().try_for_each(|run| cell(f, rate(run, run.cycles.len()), 2))?;
        write!(f, "\n| change, % |")?;
        for run in &self.runs {
            let change =
                rate(run, run.cycles.len()).zip(rate(run, 1)).map(|(all, first)| 100.0 * (all / first - 1.0));
            cell(f, change, 2)?;
        }
        writeln!(f)
    }
}

fn cell(f: &mut fmt::Formatter<'_>, value: Option<f64>, digits: usize) -> fmt::Result {
    match value {
        Some(value) => write!(f, " {value:.digits$} |"),
        None => write!(f, " |"),
    }
}

impl fmt::Display for UrlsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# URL stores side by side")?;
        if let Some(start) = self.runs.iter().find_map(|run| run.start.as_ref()) {
            let (load, sample) = (&start.load, &start.sample);
            let extracted = match start.files {
                0 => {
                    format!("{} new and {} known ones extracted, seed {}", load.new, load.repeats, load.seed)
                }
                files => format!("{} more read from {files} files", load.new),
            };
            writeln!(
                f,
                "\nEach cycle: {} URLs taken and reported as visited, {extracted}. The first {} URLs: {:.1} bytes each, \
                 {:.1} of them scheme and host, {:.1} % with a query, on {} hosts.\n",
                load.collected,
                sample.urls,
                sample.url_bytes,
                sample.host_bytes,
                100.0 * sample.queries,
                sample.hosts
            )?;
        }
        self.runs.iter().try_for_each(|run| writeln!(f, "- {}: {}", run.name, run.what))?;
        self.seconds(f)?;
        self.cpu_seconds(f)?;
        self.ratios(f)?;
        self.summary(f)?;
        self.pages(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, seconds: impl Fn(u64) -> f64, cycles: u64) -> Run {
        let cycle = |cycle| Cycle {
            cycle,
            seconds: seconds(cycle),
            cpu_seconds: 1.0,
            known: cycle * 1_000_000,
            ..Cycle::default()
        };
        Run { name: name.into(), cycles: (1..=cycles).map(cycle).collect(), ..Run::default() }
    }

    #[test]
    fn tables_put_ours_beside_the_thesis() {
        let runs = vec![run("ours", |_| 2.0, 60), run("theirs", |cycle| cycle as f64, 50)];
        let text = UrlsReport::new(runs).to_string();
        let rows: Vec<&str> = text.lines().collect();
        // Mean of cycles 41 to 50 = 45.5.
        assert!(rows.contains(&"| 50 | 53.53 | 2.60 | 2.00 | 45.50 |"), "{text}");
        assert!(rows.contains(&"| 50 | 20.6 | 1.00 | 22.75 |"), "{text}");
        assert!(rows.contains(&"| 60 | | | 2.00 | |"), "{text}");
        // Means of cycles 1 to 10 and 41 to 50, by 2.
        assert!(rows.contains(&"| least from cycle 10 on | | 1.00 | 2.75 |"), "{text}");
        assert!(rows.contains(&"| most from cycle 10 on | | 1.00 | 22.75 |"), "{text}");
        // (1 + … + 50) / 50 / 2 = 12.75.
        assert!(rows.contains(&"| all cycles that both ran | | 1.00 | 12.75 |"), "{text}");
        assert!(rows.contains(&"| last ten cycles / cycles 41 to 50 | 1.00 | |"), "{text}");
    }
}
