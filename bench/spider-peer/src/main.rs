//! The crate `spider` as a crawler to compare with: `spider-peer URL PROXY CONCURRENCY`.
//!
//! It crawls every host that it finds, obeys the first host's robots.txt (it reads no other), waits for nobody, and
//! hands each page to a task that counts it. Without the features for disk, TLS and pacing, which only slow it down.

use spider::tokio;
use spider::website::Website;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, proxy, concurrency] = &arguments[..] else {
        eprintln!("usage: spider-peer URL PROXY CONCURRENCY");
        std::process::exit(2);
    };
    let Ok(concurrency) = concurrency.parse() else {
        eprintln!("CONCURRENCY is a number, not {concurrency}");
        std::process::exit(2);
    };
    let mut website = Website::new(url);
    website
        .with_respect_robots_txt(true)
        .with_subdomains(true)
        .with_external_domains(Some(std::iter::once("*".to_string())))
        .with_proxies(Some(vec![proxy.clone()]))
        .with_concurrency_limit(Some(concurrency))
        .with_delay(0);
    let mut pages = website.subscribe(4096);
    let counter = tokio::spawn(async move {
        let mut count = 0u64;
        loop {
            match pages.recv().await {
                Ok(_) => count += 1,
                Err(tokio::sync::broadcast::error::RecvError::Lagged(missed)) => count += missed,
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return count,
            }
        }
    });
    website.crawl().await;
    website.unsubscribe();
    println!("{} pages", counter.await.unwrap_or_default());
}
