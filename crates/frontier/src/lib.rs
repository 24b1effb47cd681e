//! Which page next and when: host queues, politeness, revisits, traps.
//!
//! # The life of a host
//!
//! A host is born by [`Frontier::add_host`], which says that it has pages to fetch. The frontier first wants
//! its address ([`Step::Resolve`], answered by [`Frontier::resolved`]). With an address it stands in that
//! address's line. Its turn comes when neither the host nor the address is being asked by anybody and both have
//! rested: then it is *leased* ([`Step::Fetch`]). The first lease is for robots.txt ([`Task::Robots`]), unless
//! what the host remembers from earlier ([`HostMemory`]) is still valid. After that the frontier asks for some
//! of its pages ([`Step::Refill`], answered by [`Frontier::offer`]) and leases them one by one.
//!
//! Each lease comes back by [`Frontier::done`] with what happened. The host rests as its
//! [delay rule](polite) says, longer when it answered slowly, much longer when it said 429 or 503 or did not
//! answer at all, and then stands in line again. A host that fails too often in a row is *quarantined*: it
//! keeps its pages and is tried again far later. When a refill brings nothing, the host sleeps until its next
//! page is due, or leaves, and `offer` hands its memory over for the next time.
//!
//! Places are shared out: a registrable domain, or an address, with more hosts than its share
//! ([`Limits::hosts_share`]) has the others wait outside ([`Added::Crowded`], [`Resolved::Crowded`]), and those inside
//! make way after a while ([`Frontier::makes_way`]). So whoever makes up names without end waits for himself.
//!
//! A robots.txt may be elsewhere ([`Outcome::RobotsMoved`]). Then the host there is asked for it in its own turn
//! ([`Task::MovedRobots`]), with its own rests, while the host whose rules they are waits for the answer; if need be
//! the other becomes a guest here for as long as that takes.
//!
//! ```
//! use farol_base::{CanonicalUrl, Scheduled, Timestamp};
//! use farol_frontier::polite::Constant;
//! use farol_frontier::{Frontier, HostMemory, Limits, Outcome, Resolution, Step, Task};
//! use std::time::Duration;
//!
//! let mut frontier = Frontier::new(Box::new(Constant(Duration::from_secs(2))), Limits::default());
//! let page = CanonicalUrl::parse("http://example.org/").unwrap();
//! let host = page.host();
//! let now = Timestamp::from_secs(1_000);
//!
//! frontier.add_host(now, &host, HostMemory::default());
//! let Step::Resolve(asked) = frontier.poll(now) else { panic!() };
//! let _taken = frontier.resolved(now, &asked, Resolution::Address("192.0.2.1".parse().unwrap()));
//!
//! let Step::Fetch(lease) = frontier.poll(now) else { panic!() };
//! assert!(matches!(lease.task(), Task::Robots));
//! let read = Outcome::Robots { delay: None, valid_until: now + Duration::from_secs(3600), download: Duration::ZERO };
//! frontier.done(now, lease, read);
//! let Step::WaitUntil(then) = frontier.poll(now) else { panic!() };
//! assert_eq!(then, now + Duration::from_secs(2));
//!
//! let Step::Refill { host, .. } = frontier.poll(then) else { panic!() };
//! frontier.offer(then, &host, vec![Scheduled { url: page, revisit: false, depth: 0 }], None);
//! let Step::Fetch(lease) = frontier.poll(then) else { panic!() };
//! assert!(matches!(lease.task(), Task::Page(_)));
//! ```
//!
//! # Promises
//!
//! INVARIANT: a host is leased at most once at a time, and so is an address.
//! INVARIANT: between the end of a request and the start of the next one to the same host lies at least the
//! delay in force; to the same address, at least the delay rule's answer (a site's own Crawl-delay binds that
//! site alone).
//! INVARIANT: a URL that was offered comes back exactly once: by a [`Disposition`] other than
//! [`Disposition::Requeued`], by [`Frontier::remove_host`], [`Frontier::retire`] or [`Frontier::drain`].
//! INVARIANT: whoever is ready first is leased first, so nobody waits for ever.
//!
//! The crate never reads the clock, the disk or the network, and never draws a random number: the same calls
//! give the same steps. Whether robots.txt *allows* a page is not decided here; whoever holds the lease asks
//! `farol_parse::robots` and answers [`Outcome::NotAsked`] where it does not.
//!
//! # One request per host at a time: who is the authority
//!
//! A crawl holds a host back in three places. **The [`Lease`] is the authority**: only the frontier knows
//! delays, addresses and when robots.txt is to be read, and the crawl makes no request without a lease. The
//! other two have jobs of their own:
//!
//! - The URL store's *leased hosts* (from `farol_store::urls::UrlStore::hosts_due` to `release_host`) keep a
//!   host that the frontier has from being offered to it again. They say who may *draw* its URLs, and nothing
//!   about requests: a host is leased there for as long as the frontier has it, through many leases of this
//!   crate.
//! - `farol_fetch`'s *permit per host* bounds connections: at most one request and one kept connection of each
//!   host. In a crawl a leased host finds its permit free, as a rule. It matters where no lease was taken: a
//!   robots.txt that redirects to another host, and programs that use `farol_fetch` without a frontier.
//!
//! To see it at work: `examples/host_life.rs` plays a host's life through, without a network.

mod addresses;
mod domains;
mod frontier;
mod hosts;
mod lease;
mod limits;
pub mod polite;
pub mod revisit;
mod timers;
pub mod trap;

#[cfg(test)]
mod simulated;

pub use frontier::Frontier;
pub use hosts::{Counts, HostMemory, HostState, HostView};
pub use lease::{Added, Disposition, Lease, MovedRobots, Offered, Outcome, Resolution, Resolved, Step, Task};
pub use limits::{Limits, ROBOTS_VALID, RetryPolicy};
