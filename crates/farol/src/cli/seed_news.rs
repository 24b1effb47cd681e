//! Tells in the terminal what came of the seeds, each thing once.

use farol_base::CanonicalUrl;
use farol_base::status::{SeedReport, SeedSummary};
use farol_front::{seed_moved, seed_sentence};
use std::collections::HashMap;
use std::sync::Arc;

/// Lines told while a crawl runs; who has more seeds in trouble asks `farol status`.
const LINES_MAX: usize = 20;

/// What has been told.
#[derive(Default)]
pub struct SeedNews {
    summary: Arc<SeedSummary>,
    told: HashMap<CanonicalUrl, SeedReport>,
    lines: usize,
}

impl SeedNews {
    /// What is to be told now.
    pub fn lines(&mut self, summary: &Arc<SeedSummary>) -> Vec<String> {
        if Arc::ptr_eq(&self.summary, summary) {
            return Vec::new();
        }
        self.summary = summary.clone();
        let mut lines = Vec::new();
        for report in &summary.reports {
            let before = self.told.insert(report.url.clone(), report.clone());
            let before = before.as_ref();
            if before.is_none_or(|before| before.leads_to != report.leads_to) {
                lines.extend(seed_moved(report).map(|text| format!("{}: {text}", report.url)));
            }
            let is_news =
                |before: &SeedReport| (before.state, &before.detail) != (report.state, &report.detail);
            if report.state.is_trouble() && before.is_none_or(is_news) {
                lines.push(line(report));
            }
        }
        let left = LINES_MAX.saturating_sub(self.lines);
        let is_more = lines.len() > left && self.lines <= LINES_MAX;
        self.lines += lines.len();
        lines.truncate(left);
        if is_more {
            lines.push("More seeds need a look: `farol status` tells of them.".to_string());
        }
        lines
    }
}

/// The seeds in trouble, as a crawl that has ended sums them up; empty where there are none.
pub fn summed_up(summary: &SeedSummary) -> Vec<String> {
    let troubled: Vec<&SeedReport> =
        summary.reports.iter().filter(|report| report.state.is_trouble()).collect();
    if troubled.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("Seeds in trouble: {} of {}", summary.troubled(), summary.total)];
    lines.extend(troubled.into_iter().take(LINES_MAX).map(|report| format!("  {}", line(report))));
    lines
}

fn line(report: &SeedReport) -> String {
    format!("{}: {}", report.url, seed_sentence(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::status::SeedState;

    fn summary(reports: Vec<SeedReport>) -> Arc<SeedSummary> {
        Arc::new(SeedSummary { total: reports.len() as u64, fine: 0, waiting: 0, reports })
    }

    fn report(address: &str, state: SeedState, leads_to: Option<&str>) -> SeedReport {
        let url = |text: &str| CanonicalUrl::parse(text).unwrap();
        SeedReport { url: url(address), leads_to: leads_to.map(url), state, detail: "404".into(), at: None }
    }

    #[test]
    fn each_thing_is_told_once() {
        let mut news = SeedNews::default();
        let missing = || report("http://a.org/", SeedState::NotFound, None);
        let first = summary(vec![missing(), report("http://b.org/", SeedState::Waiting, None)]);
        let lines = news.lines(&first);
        assert!(
            lines.len() == 1 && lines[0].starts_with("http://a.org/: There is no such page"),
            "{lines:?}"
        );
        assert!(news.lines(&first).is_empty() && news.lines(&summary(vec![missing()])).is_empty());
        let moved = report("http://b.org/", SeedState::Fine, Some("http://www.b.org/"));
        let lines = news.lines(&summary(vec![missing(), moved]));
        assert!(lines.len() == 1 && lines[0].contains("Leads to http://www.b.org/"), "{lines:?}");
        assert_eq!(summed_up(&first).len(), 2);
        assert!(summed_up(&summary(vec![])).is_empty());
    }

    #[test]
    fn a_thousand_seeds_in_trouble_do_not_fill_the_screen() {
        let mut news = SeedNews::default();
        let trouble = |n: usize| report(&format!("http://a.org/{n}"), SeedState::NotFound, None);
        let lines = |news: &mut SeedNews, many| news.lines(&summary((0..many).map(trouble).collect())).len();
        let told: usize = [15, 30, 60, 90].map(|many| lines(&mut news, many)).into_iter().sum();
        assert_eq!(told, LINES_MAX + 1);
    }
}
