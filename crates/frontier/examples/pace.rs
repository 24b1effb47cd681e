//! Measures how many leases a second the frontier hands out and takes back: `pace [HOSTS] [DELAY_MS] [LEASES]`.
//!
//! Every host has its own address; answers come at once, so nothing but the frontier is measured. With a delay,
//! the clock jumps to the instant that the frontier waits for.

use farol_base::Scheduled;
use farol_base::{CanonicalUrl, Host, Timestamp};
use farol_frontier::polite::Constant;
use farol_frontier::{Frontier, HostMemory, Limits, Outcome, Resolution, Step};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let hosts = args.next().unwrap_or(10_000);
    let delay = Duration::from_millis(args.next().unwrap_or(0));
    let wanted = args.next().unwrap_or(2_000_000);

    let limits = Limits { hosts_max: hosts as usize, delay_min: delay, ..Limits::default() };
    let mut frontier = Frontier::new(Box::new(Constant(delay)), limits);
    let mut now = Timestamp::from_secs(1_700_000_000);
    for n in 0..hosts {
        let host = Host::parse(&format!("http://host{n}.test/")).expect("a host");
        let memory = HostMemory {
            robots_valid_until: Some(now + Duration::from_secs(86_400)),
            ..HostMemory::default()
        };
        frontier.add_host(now, &host, memory);
    }

    // The same pages for everybody: reading URLs is not what is measured.
    let page = |n: usize| CanonicalUrl::parse(&format!("http://host.test/page/{n}")).expect("a URL");
    let pages: Vec<Scheduled> =
        (0..32).map(|n| Scheduled { url: page(n), revisit: false, depth: 0 }).collect();

    let (mut leases, mut refills, mut waits, mut addresses) = (0u64, 0u64, 0u64, 0u32);
    let start = Instant::now();
    while leases < wanted {
        match frontier.poll(now) {
            Step::Resolve(host) => {
                addresses += 1;
                let address = IpAddr::from(Ipv4Addr::from_bits(0x0A00_0000 + addresses));
                let _taken = frontier.resolved(now, &host, Resolution::Address(address));
            }
            Step::Refill { host, want } => {
                refills += 1;
                let pages = (0..want).map(|n| pages[n % pages.len()].clone()).collect();
                frontier.offer(now, &host, pages, None);
            }
            Step::Fetch(lease) => {
                leases += 1;
                let download = Duration::from_millis(5);
                let read = Outcome::Robots { delay: None, valid_until: Timestamp::NEVER, download };
                let is_robots = *lease.task() == farol_frontier::Task::Robots;
                let outcome = if is_robots { read } else { Outcome::Fetched { download, bytes: 20_000 } };
                let _ = frontier.done(now, lease, outcome);
            }
            Step::WaitUntil(then) => {
                waits += 1;
                now = then;
            }
            Step::Left { .. } | Step::Idle => panic!("nothing to do"),
        }
    }
    let took = start.elapsed();
    println!(
        "{hosts} hosts, delay {delay:?}: {leases} leases, {refills} refills, {waits} waits in {took:?}: {:.0} leases/s",
        leases as f64 / took.as_secs_f64()
    );
}
