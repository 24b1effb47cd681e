//! What is done with a URL store whose files somebody else wrote. Not a target; see `bucket`, `level0`,
//! `log`, `manifest`.

use farol_base::disk::Mem;
use farol_base::{CanonicalUrl, ContentHash, Host, Timestamp};
use farol_store::urls::veuni::{Veuni, VeuniOptions};
use farol_store::urls::{Found, KnownUrl, Source, UrlStore, Visit, VisitOutcome, Walk};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

pub const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

pub fn options() -> VeuniOptions {
    VeuniOptions { threads: 0, memtable_bytes: 1 << 20, seen_cache_bytes: 1 << 12, ..VeuniOptions::default() }
}

pub fn url(text: &str) -> CanonicalUrl {
    CanonicalUrl::parse(text).expect("a constant URL")
}

pub fn visit() -> Visit {
    Visit {
        at: NOW,
        outcome: VisitOutcome::Page,
        content_hash: ContentHash(7),
        changed: true,
        position: None,
        download: Duration::from_millis(30),
        due: NOW + Duration::from_secs(9),
        memo: [3; 8],
    }
}

/// Opens the store and does everything that a crawler does with it; every error is fine, a panic is not. What
/// could be opened can be opened again.
pub fn use_store(disk: &Mem) {
    let Ok((mut store, _)) = Veuni::open(Arc::new(disk.clone()), options()) else { return };
    let _ = store.check();
    let (_, _) = (store.counts(), store.damage());
    let _ = store.walk(Walk::All, &mut |_, _, _| ());
    let mut hosts: Vec<Host> = store.hosts(0, 4, "").into_iter().map(|(host, _)| host).collect();
    hosts.push(url("http://h/").host());
    for host in &hosts {
        let _ = (store.host_counts(host), host.url("/a").map(|url| store.get(&url)));
    }
    let _ = store.found(&[Found { url: url("http://h/a"), depth: 1, hint: None }]);
    let _ = store.flush();
    let mut known = Vec::new();
    if let Ok(export) = store.export(&hosts) {
        let _ = export.walk(&mut |host, path, record| {
            let url = host.url(path).ok();
            known.extend(url.map(|url| KnownUrl { url, record: record.clone() }));
            ControlFlow::Continue(())
        });
    }
    let (_, _) = (store.import(&known), store.note(Source(1), 2));
    let numbers = store.numbers();
    if let Ok(Some(files)) = store.files() {
        let copy = Mem::new();
        // A list that names a file twice is nothing that can be copied.
        let copied = files.copy_to(&copy).and_then(|()| Veuni::open(Arc::new(copy), options()));
        if let Ok((copy, _)) = copied {
            assert_eq!(copy.numbers(), numbers);
        }
    }
    for host in store.hosts_due(NOW, 4).unwrap_or_default() {
        for drawn in store.draw(&host, 4, NOW).map(|drawn| drawn.urls).unwrap_or_default() {
            let _ = store.visited(&drawn.url, &visit());
        }
        store.release_host(&host);
    }
    let _ = store.flush();
    let compacted = store.compact_all();
    let _ = store.delete_host(&url("http://h/").host());
    let _ = store.empty_damaged();
    drop(store);
    let again = Veuni::open(Arc::new(disk.clone()), options());
    assert!(again.is_ok(), "{compacted:?}, then {:?}", again.err());
}
