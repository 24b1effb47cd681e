//! One line in the terminal that tells how the crawl is going; without a terminal only what is said once.

use crate::engine::Running;
use farol_base::status::EngineState;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The rate shown is a mean over this time.
const WINDOW: Duration = Duration::from_secs(5);

/// The line.
pub struct ProgressLine {
    bar: ProgressBar,
    shown: bool,
    recent: VecDeque<(Instant, u64)>,
}

impl ProgressLine {
    pub fn new() -> ProgressLine {
        let shown = std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        // The template is a constant of ours and valid; the plain style is there for the type's sake.
        bar.set_style(
            ProgressStyle::with_template("{spinner:.yellow} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        ProgressLine { bar, shown, recent: VecDeque::new() }
    }

    /// Says something that stays: above the line, or in the log of whoever has no terminal.
    pub fn say(&self, text: &str) {
        if self.shown { self.bar.println(text) } else { eprintln!("{text}") }
    }

    /// Renews the line.
    pub fn update(&mut self, running: &Running) {
        if !self.shown {
            return;
        }
        let snapshot = running.snapshot();
        let now = Instant::now();
        self.recent.push_back((now, snapshot.totals.pages));
        while self.recent.front().is_some_and(|(at, _)| now - *at > WINDOW) {
            self.recent.pop_front();
        }
        let (first_at, first) = self.recent.front().copied().unwrap_or((now, snapshot.totals.pages));
        let rate = (snapshot.totals.pages - first) as f64 / (now - first_at).as_secs_f64().max(0.5);
        let mut parts = vec![
            counted(snapshot.totals.pages, "page"),
            format!("{rate:.1}/s"),
            counted(snapshot.hosts_known, "host"),
            format!("{} queued", grouped(snapshot.queue)),
            counted(snapshot.totals.errors_sum(), "error"),
            format!("{} on disk", size(snapshot.archive_bytes + snapshot.urls_bytes + snapshot.links_bytes)),
        ];
        parts.extend(running.documents().map(|documents| format!("{} searchable", grouped(documents))));
        match snapshot.state {
            EngineState::Crawling => {}
            state => parts.push(format!("[{}]", state.code().replace('_', " "))),
        }
        if !snapshot.message.is_empty() {
            parts.push(snapshot.message);
        }
        self.bar.set_message(parts.join(" · "));
        self.bar.tick();
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 page`, `2 pages`: a number with the English word for what is counted.
pub fn counted(number: u64, one: &str) -> String {
    let several = match one.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{one}s"),
    };
    format!("{} {}", grouped(number), if number == 1 { one } else { &several })
}

/// Seconds as people read them, in the unit that fits.
pub fn span(secs: f64) -> String {
    match secs {
        ..60.0 => format!("{secs:.1} s"),
        60.0..3600.0 => format!("{:.1} min", secs / 60.0),
        3600.0..86_400.0 => format!("{:.1} h", secs / 3600.0),
        _ => format!("{:.1} d", secs / 86_400.0),
    }
}

/// Bytes as people read them.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(
            (grouped(0), grouped(999), grouped(1234567)),
            ("0".into(), "999".into(), "1,234,567".into())
        );
        assert_eq!(
            (size(1500), size(2_500_000), size(3_210_000_000)),
            ("2 kB".into(), "2.5 MB".into(), "3.21 GB".into())
        );
        assert_eq!(
            [counted(0, "page"), counted(1, "page"), counted(1200, "entry"), counted(1, "entry")],
            ["0 pages", "1 page", "1,200 entries", "1 entry"]
        );
        assert_eq!([0.25, 90.0, 11_400.0, 216_000.0].map(span), ["0.2 s", "1.5 min", "3.2 h", "2.5 d"]);
    }
}
