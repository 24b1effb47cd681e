//! A host's life, minute by minute and without a network: `cargo run -p farol-frontier --example host_life`.
//!
//! Two hosts share one address. The frontier says what to do next; this program does as if, and tells the outcome.

use farol_base::{CanonicalUrl, Scheduled, Timestamp};
use farol_frontier::polite::Constant;
use farol_frontier::{Frontier, HostMemory, Limits, Outcome, Resolution, Step, Task};
use std::time::Duration;

fn main() {
    let delay = Duration::from_secs(2);
    let mut frontier = Frontier::new(Box::new(Constant(delay)), Limits::default());
    let mut now = Timestamp::from_secs(1_000);
    for url in ["http://one.example/", "http://two.example/"] {
        let host = CanonicalUrl::parse(url).expect("a good URL").host();
        frontier.add_host(now, &host, HostMemory::default());
    }

    let (mut requests, mut refilled) = (Vec::new(), Vec::new());
    loop {
        let seconds = now.since(Timestamp::from_secs(1_000)).as_secs_f64();
        match frontier.poll(now) {
            // Both names lead to one machine, so the two take turns although they are different hosts.
            Step::Resolve(host) => {
                println!("{seconds:>5.1} s  resolve {host}");
                let _taken = frontier.resolved(
                    now,
                    &host,
                    Resolution::Address("192.0.2.1".parse().expect("an address")),
                );
            }
            // A host has three pages. Asked a second time it has none, and leaves.
            Step::Refill { host, .. } => {
                let pages = if refilled.contains(&host) { 0..0 } else { 1..4 };
                let page = |n: u32| CanonicalUrl::parse(&format!("{host}/{n}")).expect("a good URL");
                let urls = pages.map(|n| Scheduled { url: page(n), revisit: false, depth: 1 });
                let urls: Vec<Scheduled> = urls.collect();
                println!("{seconds:>5.1} s  refill  {host}: {} pages", urls.len());
                let _ = frontier.offer(now, &host, urls, None);
                refilled.push(host);
            }
            Step::Fetch(lease) => {
                let download = Duration::from_millis(100);
                let (what, outcome) = match lease.task() {
                    Task::Robots => {
                        let valid_until = now + Duration::from_secs(86_400);
                        ("robots.txt".to_string(), Outcome::Robots { delay: None, valid_until, download })
                    }
                    // Another host's robots.txt is here; none of these is moved.
                    Task::MovedRobots(moved) => (moved.url.to_string(), Outcome::NotAsked),
                    Task::Page(page) => (page.url.to_string(), Outcome::Fetched { download, bytes: 5_000 }),
                };
                println!("{seconds:>5.1} s  fetch   {what}");
                requests.push(now);
                now = now + download;
                let _ = frontier.done(now, lease, outcome);
            }
            Step::Left { host, .. } => println!("{seconds:>5.1} s  left    {host}"),
            Step::WaitUntil(then) => now = then,
            Step::Idle => break,
        }
    }

    assert_eq!(requests.len(), 8, "two robots.txt, three pages each");
    assert!(requests.windows(2).all(|pair| pair[1].since(pair[0]) >= delay), "one address, one delay");
    println!("Eight requests to one address, never less than {delay:?} apart.");
}
