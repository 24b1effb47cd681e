//! The policies in use: which hosts come first, and which of their URLs.

use super::*;
use crate::urls::veuni::dispatch::host_order::{HostFacts, HostOrder};
use crate::urls::veuni::dispatch::url_order::{Refresh, Shortest, UrlOrder};

/// Orders hosts by a key of their facts.
struct ByKey(fn(&HostFacts<'_>) -> Option<u64>);

impl std::fmt::Debug for ByKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByKey")
    }
}

impl HostOrder for ByKey {
    fn key(&self, host: &HostFacts<'_>) -> Option<u64> {
        (self.0)(host)
    }
}

fn ordered(key: fn(&HostFacts<'_>) -> Option<u64>) -> Veuni {
    open(&Mem::new(), VeuniOptions { host_order: Arc::new(ByKey(key)), ..options() })
}

/// Hosts `h0` to `h11`, of which each has three URLs more than the one before.
fn staircase() -> Vec<Found> {
    (0..12)
        .flat_map(|host| (0..3 * (host + 1)).map(move |page| found(&format!("http://h{host}/{page}"), 1)))
        .collect()
}

fn names(hosts: &[Host]) -> Vec<&str> {
    hosts.iter().map(Host::name).collect()
}

#[test]
fn by_size_the_largest_hosts_come_first() {
    let mut store = ordered(|host| Some(u64::MAX - host.waiting));
    store.found(&staircase()).unwrap();
    store.flush().unwrap();
    assert_eq!(names(&store.hosts_due(NOW, 3).unwrap()), ["h11", "h10", "h9"]);
    // What was visited does not count: of h8 two URLs are left, fewer than of any other.
    for page in 0..25 {
        store.visited(&url(&format!("http://h8/{page}")), &page_visit()).unwrap();
    }
    store.compact_all().unwrap();
    let rest = store.hosts_due(NOW, 99).unwrap();
    assert_eq!(names(&rest), ["h7", "h6", "h5", "h4", "h3", "h2", "h1", "h0", "h8"]);
}

fn page_visit() -> Visit {
    page(Timestamp::NEVER)
}

#[test]
fn by_rank_low_hosts_wait() {
    let mut store = ordered(|host| {
        let rank: u64 = host.host.trim_start_matches("http://h").parse().unwrap_or(0);
        (rank >= 4).then_some(u64::MAX - rank)
    });
    store.found(&staircase()).unwrap();
    store.flush().unwrap();
    let hosts = store.hosts_due(NOW, 99).unwrap();
    assert_eq!(names(&hosts), ["h11", "h10", "h9", "h8", "h7", "h6", "h5", "h4"]);
    // A caller that asks for one of the others by name gets it.
    assert_eq!(store.draw(&Host::parse("http://h1").unwrap(), 9, NOW).unwrap().urls.len(), 6);
}

fn with_url_order(policy: impl UrlOrder + 'static, prescheduled: usize) -> Veuni {
    open(&Mem::new(), VeuniOptions { url_order: Arc::new(policy), prescheduled, ..options() })
}

#[test]
fn the_shortest_paths_are_pre_scheduled_and_come_first() {
    let mut store = with_url_order(Shortest, 3);
    let paths = ["/long/1", "/a", "/longer/2", "/bb", "/z", "/even/longer"];
    store.found(&paths.map(|path| found(&format!("http://h{path}"), 1))).unwrap();
    store.flush().unwrap();
    let host = store.hosts_due(NOW, 9).unwrap().remove(0);
    let drawn = store.draw(&host, 99, NOW).unwrap();
    assert_eq!(texts(&drawn), ["http://h/a", "http://h/z", "http://h/bb"]);
    drawn.urls.iter().for_each(|drawn| store.visited(&drawn.url, &page_visit()).unwrap());
    store.release_host(&host);
    store.flush().unwrap();
    assert_eq!(store.hosts_due(NOW, 9).unwrap(), std::slice::from_ref(&host));
    let drawn = store.draw(&host, 99, NOW).unwrap();
    assert_eq!(texts(&drawn), ["http://h/long/1", "http://h/longer/2", "http://h/even/longer"]);
}

#[test]
fn refresh_brings_due_pages_before_new_ones_and_breadth_after() {
    for (mut store, expected) in [
        (with_url_order(Refresh, 2), ["http://h/old", "http://h/new"]),
        (with_url_order(Breadth, 2), ["http://h/new", "http://h/old"]),
    ] {
        store.visited(&url("http://h/old"), &page(Timestamp::from_secs(4))).unwrap();
        store.visited(&url("http://h/later"), &page(Timestamp::from_secs(9))).unwrap();
        store.found(&[found("http://h/new", 3)]).unwrap();
        store.flush().unwrap();
        let host = store.hosts_due(NOW, 9).unwrap().remove(0);
        let drawn = store.draw(&host, 99, NOW).unwrap();
        assert_eq!(texts(&drawn), expected);
        assert_eq!(drawn.urls.iter().filter(|drawn| drawn.revisit).count(), 1);
        // The one that is due later is not lost.
        drawn.urls.iter().for_each(|drawn| store.visited(&drawn.url, &page_visit()).unwrap());
        store.release_host(&host);
        store.flush().unwrap();
        assert_eq!(store.hosts_due(NOW, 9).unwrap(), []);
        let later = Timestamp::from_secs(9);
        assert_eq!(store.next_host_due(), Some(later));
        assert_eq!(store.hosts_due(later, 9).unwrap(), std::slice::from_ref(&host));
        assert_eq!(texts(&store.draw(&host, 9, later).unwrap()), ["http://h/later"]);
    }
}

#[test]
fn hosts_that_are_not_wanted_yet_do_not_stand_in_the_way() {
    let mut store = open(&Mem::new(), options());
    let page_of = |name: &str| found(&format!("http://{name}/"), 1);
    store.found(&(0..500).map(|n| page_of(&format!("n{n}.trap.test"))).collect::<Vec<_>>()).unwrap();
    store.found(&[page_of("a.good.test"), page_of("b.good.test")]).unwrap();
    store.flush().unwrap();
    store.compact_all().unwrap();
    let (soon, mut asked) = (Timestamp::from_secs(60), 0);
    let mut crowded = |host: &Host| {
        asked += 1;
        host.name().ends_with("trap.test").then_some(soon)
    };
    let mut hosts = store.hosts_due_but(NOW, 1, &mut crowded).unwrap();
    hosts.extend(store.hosts_due_but(NOW, 1, &mut crowded).unwrap());
    let mut hosts = names(&hosts);
    hosts.sort();
    assert_eq!(hosts, ["a.good.test", "b.good.test"]);
    assert!(store.hosts_due_but(NOW, 9, &mut crowded).unwrap().is_empty());
    assert!(asked <= 502, "each was asked about once, not {asked} times in all");
    // Nothing is lost: they come up when they said, and one that is given back comes when it says.
    let mut back = store.hosts_due(soon, 600).unwrap();
    assert_eq!(back.len(), 500);
    let last = back.pop().unwrap();
    let later = Timestamp::from_secs(90);
    store.release_host_until(&last, later);
    assert_eq!(store.hosts_due(soon, 600).unwrap(), []);
    assert_eq!(store.hosts_due(later, 600).unwrap(), std::slice::from_ref(&last));
}
