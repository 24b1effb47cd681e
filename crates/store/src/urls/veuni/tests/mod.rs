//! The store as a whole: small by hand, then large against the naive one.

mod damage;
mod due;
mod handover;
mod load;
mod policies;
mod race;

use super::bucket::Bucket;
use super::*;
use crate::urls::{Naive, VisitOutcome};
use farol_base::disk::Mem;
use farol_base::{ContentHash, HostHash};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_secs(5);

fn url(text: &str) -> CanonicalUrl {
    CanonicalUrl::parse(text).unwrap()
}

fn found(text: &str, depth: u16) -> Found {
    Found { url: url(text), depth, hint: None }
}

fn page(due: Timestamp) -> Visit {
    Visit {
        at: NOW,
        outcome: VisitOutcome::Page,
        content_hash: ContentHash(7),
        changed: true,
        position: Some(PagePosition { file: 1, offset: 2 }),
        download: Duration::from_millis(30),
        due,
        memo: [3; 8],
    }
}

fn options() -> VeuniOptions {
    VeuniOptions { threads: 0, seen_cache_bytes: 1 << 20, ..VeuniOptions::default() }
}

fn open(mem: &Mem, options: VeuniOptions) -> Veuni {
    Veuni::open(Arc::new(mem.clone()), options).unwrap().0
}

fn texts(drawn: &Drawn) -> Vec<&str> {
    drawn.urls.iter().map(|drawn| drawn.url.as_str()).collect()
}

/// Names of the files that hold buckets.
fn bucket_files(mem: &Mem) -> BTreeSet<String> {
    mem.list().unwrap().into_iter().filter(|name| name.starts_with("block-")).collect()
}

/// Visits whatever comes up, until nothing does: each of these URLs comes up once, and no other.
fn visit_all(store: &mut Veuni, mut expected: BTreeSet<CanonicalUrl>, draw: usize) {
    let mut idle = 0;
    loop {
        let hosts = store.hosts_due(NOW, 64).unwrap();
        for host in &hosts {
            loop {
                let drawn = store.draw(host, draw, NOW).unwrap();
                if drawn.urls.is_empty() {
                    break;
                }
                for drawn in drawn.urls {
                    assert!(expected.remove(&drawn.url), "{} came up twice or was never found", drawn.url);
                    assert!(!drawn.revisit);
                    store.visited(&drawn.url, &page(Timestamp::NEVER)).unwrap();
                }
            }
            store.release_host(host);
        }
        store.flush().unwrap();
        let waited = hosts.is_empty() && store.wait().unwrap();
        if hosts.is_empty() && !waited && store.next_host_due().is_none_or(|next| next > NOW) {
            break;
        }
        idle = if hosts.is_empty() && !waited { idle + 1 } else { 0 };
        assert!(idle < 1000, "{} URLs are said to come up and do not", expected.len());
    }
    assert!(expected.is_empty(), "{} never came up, such as {:?}", expected.len(), expected.first());
}

/// Both stores know the same of these URLs.
fn same(store: &Veuni, naive: &Naive, urls: impl IntoIterator<Item = CanonicalUrl>) {
    for url in urls {
        assert_eq!(store.get(&url).unwrap(), naive.get(&url).unwrap(), "{url}");
    }
}

#[test]
fn new_urls_come_up_once_and_known_ones_do_not() {
    let mem = Mem::new();
    let mut store = open(&mem, options());
    store
        .found(&[
            found("http://h/c", 2),
            found("http://h/a", 1),
            found("http://h/a", 1),
            found("http://g/", 0),
        ])
        .unwrap();
    store.flush().unwrap();
    let hosts = store.hosts_due(NOW, 9).unwrap();
    assert_eq!(hosts.len(), 2);
    let host = Host::parse("http://h/").unwrap();
    let drawn = store.draw(&host, 9, NOW).unwrap();
    assert_eq!(texts(&drawn), ["http://h/a", "http://h/c"]);
    assert_eq!(store.draw(&host, 9, NOW).unwrap(), Drawn::default());
    store.release(&[url("http://h/c")]).unwrap();
    assert_eq!(store.draw(&host, 9, NOW).unwrap().urls.len(), 1);
    assert_eq!(store.counts().known, 3);
    drop(store);
    let mut store = open(&mem, options());
    assert_eq!(store.counts().known, 3);
    assert_eq!(store.hosts_due(NOW, 9).unwrap().len(), 2);
    assert!(store.get(&url("http://h/c")).unwrap().is_some());
    assert!(store.get(&url("http://h/d")).unwrap().is_none());
}

#[test]
fn a_leased_host_is_named_when_links_to_it_were_found_meanwhile() {
    let mut store = open(&Mem::new(), options());
    store.found(&[found("http://h/a", 1), found("http://g/", 1)]).unwrap();
    store.flush().unwrap();
    assert_eq!(store.hosts_due(NOW, 9).unwrap().len(), 2);
    let host = url("http://h/").host();
    assert_eq!(texts(&store.draw(&host, 9, NOW).unwrap()), ["http://h/a"]);
    store.visited(&url("http://h/a"), &page(NOW + Duration::from_secs(300))).unwrap();
    store.flush().unwrap();
    let later = NOW + Duration::from_secs(1);
    let drawn = store.draw(&host, 9, later).unwrap();
    assert_eq!((drawn.urls.len(), drawn.next_due), (0, Some(NOW + Duration::from_secs(300))));
    store.newly_ready();
    store.found(&[found("http://h/new", 2)]).unwrap();
    store.flush().unwrap();
    // Nobody else gets the host, and it is named once.
    assert!(!store.hosts_due(later, 9).unwrap().contains(&host));
    assert!(store.newly_ready().contains(&host));
    assert_eq!(store.newly_ready(), []);
    assert_eq!(texts(&store.draw(&host, 9, later).unwrap()), ["http://h/new"]);
    // Once released it comes up by itself.
    store.found(&[found("http://h/newer", 2)]).unwrap();
    store.flush().unwrap();
    store.release_host(&host);
    assert_eq!(store.hosts_due(later, 9).unwrap(), std::slice::from_ref(&host));
    assert!(!store.newly_ready().contains(&host));
}
