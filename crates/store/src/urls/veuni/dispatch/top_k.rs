//! Top-k selection: which of a host's pre-scheduled URLs come next.
//!
//! Most of those that a crawl has visited are due much later, and a host is scanned as a whole to find those
//! that are due now. So a URL that is not chosen costs no more than the scan, and few of those that are due
//! later are chosen at all.

use crate::urls::veuni::bucket::UrlEntry;
use crate::urls::veuni::compaction::entry_buf::EntryBuf;

/// URLs that are chosen of those that are due later.
const LATER: usize = 16;

/// Key of a URL, and its number among those that are kept: of equal keys the first in the alphabet comes
/// first.
type Ranked = (u64, usize);

/// Buffers for the selection, used over and over.
#[derive(Debug, Default)]
pub struct TopK {
    /// In the order of their paths.
    urls: EntryBuf,
    due: Vec<Ranked>,
    later: Vec<Ranked>,
    /// None from this key on is among the first that are due later.
    later_max: Option<u64>,
    pushed: usize,
}

impl TopK {
    pub fn clear(&mut self) {
        self.urls.clear();
        self.due.clear();
        self.later.clear();
        (self.later_max, self.pushed) = (None, 0);
    }

    /// URLs that were pushed.
    pub fn len(&self) -> usize {
        self.pushed
    }

    /// Pushes a URL with its key; they come in the order of their paths.
    pub fn push(&mut self, key: u64, entry: &UrlEntry<'_>, is_later: bool) {
        self.pushed += 1;
        if is_later && self.later_max.is_some_and(|max| key >= max) {
            return;
        }
        let ranked = if is_later { &mut self.later } else { &mut self.due };
        ranked.push((key, self.urls.len()));
        self.urls.push(entry, false);
        if self.later.len() == 2 * LATER {
            let (_, last, _) = self.later.select_nth_unstable(LATER - 1);
            self.later_max = Some(last.0);
            self.later.truncate(LATER);
        }
    }

    /// Those with the smallest keys, in their order: up to `count`, and none after the last that is chosen of
    /// those that are due later.
    pub fn smallest(&mut self, count: usize) -> impl Iterator<Item = (u64, UrlEntry<'_>)> {
        self.later.sort_unstable();
        self.later.truncate(LATER);
        let last = self.later.get(LATER - 1).copied();
        self.due.append(&mut self.later);
        self.due.sort_unstable();
        let chosen = last.map_or(self.due.len(), |last| self.due.partition_point(|ranked| *ranked <= last));
        let urls = &self.urls;
        self.due[..chosen.min(count)].iter().map(|(key, at)| (*key, urls.get(*at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Beside a sort of everything: a prefix of it, which ends where it should.
        #[test]
        fn the_first_of_all_are_chosen(
            pushed in proptest::collection::vec((0u64..60, any::<bool>()), 0..300),
            count in 1usize..200,
        ) {
            let paths: Vec<String> = (0..pushed.len()).map(|at| format!("/{at:04}")).collect();
            let mut top_k = TopK::default();
            let stale = UrlEntry { path: b"/before", depth: 0, state: 0, visits: &[] };
            top_k.push(0, &stale, true);
            top_k.clear();
            for (path, (key, is_later)) in paths.iter().zip(&pushed) {
                top_k.push(*key, &UrlEntry { path: path.as_bytes(), ..stale }, *is_later);
            }
            prop_assert_eq!(top_k.len(), pushed.len());
            let mut all: Vec<(u64, &[u8], bool)> = paths.iter().zip(&pushed)
                .map(|(path, (key, is_later))| (*key, path.as_bytes(), *is_later)).collect();
            all.sort();
            let later = all.iter().enumerate().filter(|(_, url)| url.2).map(|(at, _)| at + 1);
            let upto = later.take(LATER).nth(LATER - 1).unwrap_or(all.len()).min(count);
            let smallest: Vec<(u64, Vec<u8>)> = top_k.smallest(count).map(|(key, url)| (key, url.path.to_vec())).collect();
            let expected: Vec<(u64, Vec<u8>)> = all[..upto].iter().map(|url| (url.0, url.1.to_vec())).collect();
            prop_assert_eq!(smallest, expected);
        }
    }
}
