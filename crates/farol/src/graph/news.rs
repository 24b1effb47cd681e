//! Which hosts an agent tells of: those of which it knows something new.
//!
//! Pure. INVARIANT: memory does not grow with hosts beyond [`REMEMBERED_MAX`]; hosts beyond are told of every time.

use std::collections::HashMap;
use std::net::IpAddr;

/// 2,000,000 hosts × 24 bytes and the table's gaps are some 70 MB.
const REMEMBERED_MAX: usize = 2_000_000;
/// A host has grown where it has so many times the pages, or links, that were told.
const GROWN: f64 = 1.05;

/// What was told of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastTold {
    pages: u32,
    links: u32,
    samples: u16,
    address: u32,
}

/// What was told of all of them.
#[derive(Debug, Default)]
pub struct News {
    told: HashMap<u64, LastTold>,
}

impl News {
    /// Forgets what was told, so that everything is news.
    pub fn forget(&mut self) {
        self.told.clear();
    }

    /// Whether something about a host is news; if so, it counts as told.
    pub fn is_news(&mut self, host: u64, address: IpAddr, pages: u64, links: u64, samples: u16) -> bool {
        let short = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let now = LastTold { pages: short(pages), links: short(links), samples, address: folded(address) };
        let grown = |now: u32, then: u32| f64::from(now) >= GROWN * f64::from(then) && now > then;
        let is_news = self.told.get(&host).is_none_or(|then| {
            now.address != then.address
                || grown(now.pages, then.pages)
                || f64::from(now.pages) * GROWN < f64::from(then.pages)
                || grown(now.links, then.links)
                // Seven samples are what a time is believed by.
                || (now.samples >= 7 && then.samples < 7)
        });
        if is_news && (self.told.len() < REMEMBERED_MAX || self.told.contains_key(&host)) {
            self.told.insert(host, now);
        }
        is_news
    }
}

fn folded(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(four) => u32::from(four),
        IpAddr::V6(six) => {
            let bits = farol_base::fingerprint::hash64(&six.octets());
            (bits ^ (bits >> 32)) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_told_of_again_when_it_has_changed() {
        let mut news = News::default();
        let mut check = |pages, links, samples, last: u8, want: bool| {
            let address = IpAddr::from([10, 0, 0, last]);
            assert_eq!(
                news.is_news(5, address, pages, links, samples),
                want,
                "{pages} {links} {samples} {last}"
            );
        };
        check(100, 10, 1, 1, true);
        check(100, 10, 3, 1, false);
        check(104, 10, 3, 1, false);
        check(105, 10, 3, 1, true);
        check(105, 11, 3, 1, true);
        check(105, 11, 7, 1, true);
        check(105, 11, 9, 1, false);
        check(105, 11, 9, 2, true);
        check(90, 11, 9, 2, true);
        news.forget();
        assert!(news.is_news(5, [10, 0, 0, 2].into(), 90, 11, 9));
    }
}
