//! Each URL once: found, drawn, visited, opened again: `cargo run -p farol-store --example known_urls`.
//!
//! The disk is one in memory, the same that the tests cut and break.

use farol_base::disk::Mem;
use farol_base::{CanonicalUrl, ContentHash, PagePosition, Timestamp};
use farol_store::urls::{Found, UrlStore, Veuni, VeuniOptions, Visit, VisitOutcome};
use std::sync::Arc;
use std::time::Duration;

fn found(url: &str) -> Found {
    Found { url: CanonicalUrl::parse(url).expect("a good URL"), depth: 1, hint: None }
}

fn main() -> Result<(), farol_store::Error> {
    let (disk, now) = (Arc::new(Mem::new()), Timestamp::from_secs(1_000_000));
    let (mut urls, _) = Veuni::open(disk.clone(), VeuniOptions::default())?;

    // Three spellings, two pages: a canonical URL has one spelling, and the store keeps each once.
    urls.found(&[
        found("http://a.example/x"),
        found("HTTP://A.example:80/y/../x"),
        found("http://a.example/y"),
    ])?;
    urls.flush()?; // From here on they survive `kill -9`.

    // A draw gives what may be visited now; what is drawn is not given again.
    // (A crawl does not wait like this: compactions run beside it.)
    let host = found("http://a.example/").url.host();
    urls.compact_all()?;
    let drawn = urls.draw(&host, 10, now)?;
    println!("drawn: {:?}", drawn.urls.iter().map(|drawn| drawn.url.as_str()).collect::<Vec<_>>());
    assert_eq!(drawn.urls.len(), 2);
    assert!(urls.draw(&host, 10, now)?.urls.is_empty());

    // One is visited and due again tomorrow; the other is given back.
    let tomorrow = now + Duration::from_secs(86_400);
    let visit = Visit {
        at: now,
        outcome: VisitOutcome::Page,
        content_hash: ContentHash::default(),
        changed: true,
        position: Some(PagePosition { file: 0, offset: 0 }),
        download: Duration::from_millis(80),
        due: tomorrow,
        memo: [0; 8],
    };
    urls.visited(&drawn.urls[0].url, &visit)?;
    urls.release(&[drawn.urls[1].url.clone()])?;
    urls.sync()?;
    drop(urls);

    // Another process: everything is as it was, and both come up when they are due.
    let (mut urls, torn) = Veuni::open(disk, VeuniOptions::default())?;
    assert!(torn.is_none());
    urls.compact_all()?;
    println!("known: {}", urls.counts().known);
    assert_eq!(urls.draw(&host, 10, now)?.urls.len(), 1);
    let record = urls.get(&drawn.urls[0].url)?.expect("it is known");
    assert_eq!((record.visits, record.due), (1, tomorrow));
    assert_eq!(urls.draw(&host, 10, tomorrow)?.urls.len(), 1);
    println!("{} was visited {} time, and is due tomorrow", drawn.urls[0].url, record.visits);
    Ok(())
}
