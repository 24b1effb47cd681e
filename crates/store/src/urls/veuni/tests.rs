//! The store as a whole: small by hand, then against the naive one.

use super::*;
use farol_base::disk::Mem;

fn url(text: &str) -> CanonicalUrl {
    CanonicalUrl::parse(text).unwrap()
}

fn found(text: &str, depth: u16) -> Found {
    Found { url: url(text), depth, hint: None }
}

fn options() -> VeuniOptions {
    VeuniOptions { threads: 0, ..VeuniOptions::default() }
}

#[test]
fn new_urls_come_up_once_and_known_ones_do_not() {
    let mem = Mem::new();
    let mut store = Veuni::open(Arc::new(mem.clone()), options()).unwrap().0;
    store
        .found(&[
            found("http://h/c", 2),
            found("http://h/a", 1),
            found("http://h/a", 1),
            found("http://g/", 0),
        ])
        .unwrap();
    store.flush().unwrap();
    let now = Timestamp::from_secs(5);
    let hosts = store.hosts_due(now, 9).unwrap();
    assert_eq!(hosts.len(), 2);
    let host = Host::parse("http://h/").unwrap();
    let drawn = store.draw(&host, 9, now).unwrap();
    let texts: Vec<&str> = drawn.urls.iter().map(|drawn| drawn.url.as_str()).collect();
    assert_eq!(texts, ["http://h/a", "http://h/c"]);
    assert_eq!(store.draw(&host, 9, now).unwrap(), Drawn::default());
    store.release(&[url("http://h/c")]).unwrap();
    assert_eq!(store.draw(&host, 9, now).unwrap().urls.len(), 1);
    assert_eq!(store.counts().known, 3);
    drop(store);
    let mut store = Veuni::open(Arc::new(mem), options()).unwrap().0;
    assert_eq!(store.counts().known, 3);
    assert_eq!(store.hosts_due(now, 9).unwrap().len(), 2);
    assert!(store.get(&url("http://h/c")).unwrap().is_some());
    assert!(store.get(&url("http://h/d")).unwrap().is_none());
}
