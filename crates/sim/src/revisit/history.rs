//! Change histories of real pages, replayed as they happened.
//!
//! Tab-separated with a header: `unix_time`, `kind`, `document`, and more that is not read. `kind` is `first` (the page
//! was seen), `change` (it is another) or anything else (not counted). A document is named `server/page`.

use super::repository::Repository;
use farol_frontier::revisit::Change;
use farol_frontier::revisit::allocate::Page;
use std::collections::BTreeMap;

/// Changes of pages, in seconds since the replay begins.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub changes: Vec<Vec<f64>>,
    /// First page of each server, and the number of pages.
    pub starts: Vec<usize>,
    /// How long it lasts, in seconds.
    pub lasts: f64,
    /// When it begins, in seconds since 1970.
    pub begins: f64,
}

impl History {
    pub const HEADER: &str = "unix_time\tkind\tdocument";

    /// Reads a history. It begins when half of the pages have been seen for the first time; the others are left out.
    pub fn read(text: &str) -> Result<History, String> {
        let mut lines = text.lines().enumerate();
        if !lines.next().is_some_and(|(_, header)| header.starts_with(History::HEADER)) {
            return Err(format!("the history does not begin with {:?}", History::HEADER));
        }
        let mut pages: BTreeMap<(&str, &str), (f64, Vec<f64>)> = BTreeMap::new();
        let mut ends = f64::NEG_INFINITY;
        for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let mut fields = line.split('\t');
            let time =
                fields.next().and_then(|time| time.parse::<f64>().ok()).filter(|time| time.is_finite());
            let (Some(time), Some(kind), Some(document)) = (time, fields.next(), fields.next()) else {
                return Err(format!("line {} of the history is not a time, a kind and a document", at + 1));
            };
            let page =
                pages.entry(document.split_once('/').unwrap_or((document, ""))).or_insert((time, Vec::new()));
            page.0 = page.0.min(time);
            if kind == "change" {
                page.1.push(time);
            }
            ends = ends.max(time);
        }
        let mut firsts: Vec<f64> = pages.values().map(|(first, _)| *first).collect();
        firsts.sort_by(f64::total_cmp);
        let Some(begins) = firsts.get(firsts.len() / 2).copied() else {
            return Err("the history has no pages".to_string());
        };
        let mut history = History { starts: vec![0], lasts: ends - begins, begins, ..History::default() };
        let mut server = None;
        for ((name, _), (first, mut changes)) in pages {
            if first > begins {
                continue;
            }
            if server.is_some_and(|server| server != name) {
                history.starts.push(history.changes.len());
            }
            server = Some(name);
            changes.sort_by(f64::total_cmp);
            history
                .changes
                .push(changes.iter().map(|time| time - begins).filter(|time| *time > 0.0).collect());
        }
        history.starts.push(history.changes.len());
        Ok(history)
    }

    /// The pages with the rates they turned out to have.
    pub fn repository(&self, delay: f64) -> Repository {
        let rate = |changes: &Vec<f64>| (changes.len() as f64).max(0.5) / self.lasts;
        let page = |changes: &Vec<f64>| Page {
            change: Change::known(rate(changes)).unwrap_or(Change::NEVER),
            weight: 1.0,
        };
        Repository {
            pages: self.changes.iter().map(page).collect(),
            starts: self.starts.clone(),
            delays: vec![delay; self.starts.len() - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_read_and_a_wrong_line_is_named() {
        let text = "unix_time\tkind\tdocument\tmore\n\
                    100\tfirst\ta/x\t1\n150\tfirst\tb/y\n200\tfirst\ta/z\n300\tchange\ta/x\n120\tchange\ta/x\n\
                    400\ttechnical\ta/x\n500\tchange\tb/y\n450\tfirst\tc/late\n";
        let history = History::read(text).unwrap();
        // Half of the four pages exist from 200 on; the late one is left out.
        assert_eq!((history.begins, history.lasts), (200.0, 300.0));
        assert_eq!(history.changes, [vec![100.0], vec![], vec![300.0]]);
        assert_eq!(history.starts, [0, 2, 3]);
        assert!(
            History::read("unix_time\tkind\tdocument\nNaN\tfirst\ta/x\n").unwrap_err().starts_with("line 2")
        );
        assert!(History::read("unix_time\tkind\tdocument\n").is_err());
        assert!(History::read("").is_err());
    }
}
