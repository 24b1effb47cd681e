//! Visits under way. Their leases stay here, with the core: whatever becomes of a visit, its host is not lost.
//!
//! INVARIANT: every visit that was started is reported exactly once, also one that breaks down half-way, unless it was
//! abandoned; then nobody hears of it.

use super::core::Event;
use super::visit::{Answer, NoAnswer, Visited};
use farol_frontier::Lease;
use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::time::Instant;
use tokio::task::AbortHandle;

/// What a visit brings: an answer, or why there is none.
pub type Brought = Result<Box<Answer>, NoAnswer>;

/// The visits that were started and have not ended.
pub struct UnderWay {
    runtime: tokio::runtime::Handle,
    sender: Sender<Event>,
    visits: HashMap<u64, (Lease, AbortHandle)>,
    next_id: u64,
}

impl UnderWay {
    pub fn new(runtime: tokio::runtime::Handle, sender: Sender<Event>) -> UnderWay {
        UnderWay { runtime, sender, visits: HashMap::new(), next_id: 0 }
    }

    pub fn len(&self) -> usize {
        self.visits.len()
    }

    pub fn is_empty(&self) -> bool {
        self.visits.is_empty()
    }

    /// The number of the visit that is started next.
    pub fn next_id(&self) -> u64 {
        self.next_id + 1
    }

    /// Starts the visit that the lease allows; it ends with an [`Event::Visited`].
    pub fn start(&mut self, lease: Lease, visit: impl Future<Output = Brought> + Send + 'static) {
        self.next_id += 1;
        let id = self.next_id;
        let mut report = Report { id, begun: Instant::now(), sender: self.sender.clone(), is_made: false };
        let task = self.runtime.spawn(async move {
            let brought = visit.await;
            report.make(brought);
        });
        self.visits.insert(id, (lease, task.abort_handle()));
    }

    /// The lease of a visit that has ended; `None` where it was abandoned.
    pub fn end(&mut self, id: u64) -> Option<Lease> {
        self.visits.remove(&id).map(|(lease, _)| lease)
    }

    /// Ends one visit where it is, and gives its lease back; `None` where it has ended already.
    pub fn abandon_one(&mut self, id: u64) -> Option<Lease> {
        let (lease, task) = self.visits.remove(&id)?;
        task.abort();
        Some(lease)
    }

    /// Ends all visits where they are, and gives their leases back.
    pub fn abandon(&mut self) -> Vec<Lease> {
        let visits = self.visits.drain().map(|(_, (lease, task))| {
            task.abort();
            lease
        });
        visits.collect()
    }
}

/// Tells the core how a visit ended; dropped without having been made, it says that the visit broke down.
struct Report {
    id: u64,
    begun: Instant,
    sender: Sender<Event>,
    is_made: bool,
}

impl Report {
    fn make(&mut self, brought: Brought) {
        self.is_made = true;
        let visited = Visited { id: self.id, brought, took: self.begun.elapsed() };
        // The core has ended when nobody listens; then nobody needs the answer.
        let _ = self.sender.send(Event::Visited(visited));
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.is_made {
            self.make(Err(NoAnswer::BrokeDown));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Clock, Host, Scheduled, SystemClock};
    use farol_frontier::polite::Constant;
    use farol_frontier::{Disposition, Frontier, HostMemory, Limits, Outcome, Resolution, Step, Task};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// A frontier with one host that has two pages, and no rests.
    fn frontier(host: &Host) -> Frontier {
        let limits = Limits { delay_min: Duration::ZERO, ..Limits::default() };
        let mut frontier = Frontier::new(Box::new(Constant(Duration::ZERO)), limits);
        let now = SystemClock.now();
        let valid =
            HostMemory { robots_valid_until: Some(now + Duration::from_secs(3600)), ..HostMemory::default() };
        frontier.add_host(now, host, valid);
        let Step::Resolve(asked) = frontier.poll(now) else { panic!() };
        let _ = frontier.resolved(now, &asked, Resolution::Address([192, 0, 2, 1].into()));
        let Step::Refill { .. } = frontier.poll(now) else { panic!() };
        let page = |path| Scheduled { url: host.url(path).unwrap(), revisit: false, depth: 0 };
        frontier.offer(now, host, vec![page("/1"), page("/2")], None);
        frontier
    }

    #[test]
    fn a_visit_that_panics_gives_its_host_back() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (sender, events) = channel();
        let mut under_way = UnderWay::new(runtime.handle().clone(), sender);
        let host = Host::parse("http://a.test/").unwrap();
        let mut frontier = frontier(&host);
        let now = SystemClock.now();
        let Step::Fetch(lease) = frontier.poll(now) else { panic!() };
        under_way.start(lease, async { panic!("a page that breaks the reader") });
        let Ok(Event::Visited(visited)) = events.recv_timeout(Duration::from_secs(60)) else { panic!() };
        let Err(error) = &visited.brought else { panic!("there is no answer") };
        assert_eq!((error.kind(), error.is_transient()), ("broke_down", false));
        let lease = under_way.end(visited.id).unwrap();
        assert!(under_way.is_empty());
        // The page is given up, and the next one has its turn.
        let gave_up = frontier.done(now, lease, Outcome::Failed { transient: false });
        assert!(matches!(gave_up, Disposition::GaveUp(page) if page.url == host.url("/1").unwrap()));
        let Step::Fetch(lease) = frontier.poll(now) else { panic!() };
        assert!(matches!(lease.task(), Task::Page(page) if page.url == host.url("/2").unwrap()));
    }

    #[test]
    fn visits_that_are_abandoned_give_their_pages_back() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (sender, events) = channel();
        let mut under_way = UnderWay::new(runtime.handle().clone(), sender);
        let host = Host::parse("http://a.test/").unwrap();
        let mut frontier = frontier(&host);
        let now = SystemClock.now();
        let Step::Fetch(lease) = frontier.poll(now) else { panic!() };
        under_way.start(lease, std::future::pending());
        assert_eq!(under_way.len(), 1);
        let queued: usize = frontier.drain().iter().map(|(_, _, pages)| pages.len()).sum();
        let mut given_back = 0;
        for lease in under_way.abandon() {
            let disposition = frontier.done(now, lease, Outcome::Failed { transient: true });
            given_back += usize::from(matches!(disposition, Disposition::GivenBack(_)));
        }
        assert_eq!((queued, given_back), (1, 1));
        // The visit itself is dropped. Whatever it still says is about nobody.
        if let Ok(Event::Visited(visited)) = events.recv_timeout(Duration::from_secs(60)) {
            assert!(under_way.end(visited.id).is_none());
        }
    }
}
