//! Which pages are left to engines of other owners, for the crawl to pass over.
//!
//! A page is left where that is sure before it is visited: by its address, and by its server's where that is known. A host all
//! of whose pages are left is not asked at all, not even for its robots.txt.

use crate::archive::places::Places;
use farol_base::sync::{Mutex, RwLock};
use farol_base::{CanonicalUrl, Host};
use farol_federation::agreement::EngineId;
use farol_federation::view::Matcher;
use farol_federation::{Answer, Facts, View};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Hosts whose answer is remembered: 100,000 × about 100 bytes = 10 MB.
const HOSTS_MAX: usize = 100_000;

/// The parts that are left; clones share them. Empty where nothing is shared.
#[derive(Clone, Default)]
pub struct LeftParts {
    parts: Arc<RwLock<Arc<Parts>>>,
    places: Option<Arc<Places>>,
}

#[derive(Default)]
struct Parts {
    parts: Vec<LeftPart>,
    hosts: Mutex<HashMap<Host, bool>>,
}

struct LeftPart {
    view: View,
    matcher: Matcher,
    to: EngineId,
}

impl LeftParts {
    /// The same where it is known where servers stand.
    pub fn with_places(places: Option<Arc<Places>>) -> LeftParts {
        LeftParts { places, ..LeftParts::default() }
    }

    /// Where servers stand.
    pub fn places(&self) -> Option<&Arc<Places>> {
        self.places.as_ref()
    }

    /// Leaves these parts to these engines, and nothing else.
    pub fn set(&self, parts: &[(View, EngineId)]) {
        let parts = parts.iter().map(|(view, to)| LeftPart {
            view: view.clone(),
            matcher: Matcher::of(view),
            to: *to,
        });
        *self.parts.write() = Arc::new(Parts { parts: parts.collect(), hosts: Mutex::default() });
    }

    /// Whether nothing is left to anybody.
    pub fn is_empty(&self) -> bool {
        self.parts.read().parts.is_empty()
    }

    /// Whether all pages of a host are left.
    pub fn has_host(&self, host: &Host) -> bool {
        let parts = self.parts.read().clone();
        if parts.parts.is_empty() {
            return false;
        }
        if let Some(known) = parts.hosts.lock().get(host) {
            return *known;
        }
        let is_left = View::parse(&format!("host:{}", host_name(host)))
            .is_ok_and(|whole| parts.parts.iter().any(|part| holds(&part.view, &whole)));
        let mut hosts = parts.hosts.lock();
        if hosts.len() >= HOSTS_MAX {
            hosts.clear();
        }
        hosts.insert(host.clone(), is_left);
        is_left
    }

    /// To whom a page is left, if it is.
    pub fn of_page(&self, url: &CanonicalUrl, address: Option<IpAddr>) -> Option<EngineId> {
        let parts = self.parts.read().clone();
        if parts.parts.is_empty() {
            return None;
        }
        let facts = Facts::of(url);
        let facts = match (address, &self.places) {
            (Some(address), Some(places)) => places.facts_at(facts, address),
            (Some(address), None) => facts.address(address),
            (None, _) => facts,
        };
        parts.parts.iter().find(|part| part.matcher.has(&facts) == Answer::Yes).map(|part| part.to)
    }
}

fn holds(view: &View, whole: &View) -> bool {
    view.contains(whole).is_ok_and(|(answer, _)| answer == Answer::Yes)
}

/// A host as views name it: the ports of http and https are one.
fn host_name(host: &Host) -> String {
    match host.port() {
        80 | 443 => host.name().to_string(),
        port => format!("{}:{port}", host.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_pages_are_left_where_that_is_sure() {
        let left = LeftParts::default();
        let url = |text: &str| CanonicalUrl::parse(text).unwrap();
        let host = |text: &str| url(text).host();
        assert!(left.is_empty() && !left.has_host(&host("http://a.pt/")));
        let to = [EngineId([1; 32]), EngineId([2; 32])];
        let view = |text: &str| View::parse(text).unwrap();
        left.set(&[
            (view(".a.pt or prefix:b.pt/docs or (.c.pt and lang:pt)"), to[0]),
            (view("ip:10.0.0.0/8"), to[1]),
        ]);
        assert!(left.has_host(&host("http://a.pt/")) && left.has_host(&host("https://x.a.pt:8080/")));
        assert!(!left.has_host(&host("http://b.pt/")) && !left.has_host(&host("http://c.pt/")));
        assert_eq!(left.of_page(&url("http://b.pt/docs/x"), None), Some(to[0]));
        assert_eq!(left.of_page(&url("http://b.pt/x"), None), None);
        assert_eq!(left.of_page(&url("http://c.pt/"), None), None, "its language is known after the visit");
        assert_eq!(left.of_page(&url("http://d.pt/"), "10.1.1.1".parse().ok()), Some(to[1]));
        // Where servers stand is told by a table.
        let places = Places::parse("10.2.0.0/16,pt\n10.3.0.0/16,es").unwrap();
        let by_country = LeftParts::with_places(Some(Arc::new(places)));
        by_country.set(&[(view("country:pt"), to[0])]);
        assert_eq!(by_country.of_page(&url("http://d.pt/"), "10.2.1.1".parse().ok()), Some(to[0]));
        assert_eq!(by_country.of_page(&url("http://d.pt/"), "10.3.1.1".parse().ok()), None);
        assert_eq!(by_country.of_page(&url("http://d.pt/"), None), None, "its server is not known");
        left.set(&[]);
        assert!(!left.has_host(&host("http://a.pt/")) && left.of_page(&url("http://a.pt/"), None).is_none());
    }
}
