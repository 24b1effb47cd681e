//! The connection pool: a single permit per host, and at most one idle keep-alive connection behind it.
//!
//! INVARIANT: of each host at most one [`HostPermit`] exists, and at most one connection is kept.
//! INVARIANT: at most `idle_max` connections are kept in all; the longest idle one goes first.
//!
//! That a crawl asks a host once at a time is the frontier's promise, see `crates/frontier/src/lib.rs`; the permit holds
//! where no lease was taken.
//!
//! Knows nothing of HTTP: a connection is whatever the caller hands in. Opens and closes nothing itself except
//! that a connection which is no longer kept is dropped, never under the lock.

use farol_base::Host;
use farol_base::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

pub(crate) struct Pool<C> {
    idle_max: usize,
    idle_timeout: Duration,
    state: Mutex<PoolState<C>>,
}

struct PoolState<C> {
    /// Hosts that are being asked, waited for, or have a kept connection; about 200 bytes each.
    hosts: HashMap<Host, Slot<C>>,
    /// IdleConnection connections, longest idle first. An entry whose mark is not its slot's is out of date.
    order: VecDeque<(Host, u64)>,
    idle: usize,
    next_mark: u64,
}

struct Slot<C> {
    busy: bool,
    waiting: VecDeque<oneshot::Sender<HostPermit<C>>>,
    kept: Option<IdleConnection<C>>,
}

struct IdleConnection<C> {
    connection: C,
    since: Instant,
    mark: u64,
}

/// The single permit to ask a host; released when dropped.
pub(crate) struct HostPermit<C> {
    pool: Arc<Pool<C>>,
    /// `None` once released.
    host: Option<Host>,
    kept: Option<C>,
}

impl<C> Pool<C> {
    pub fn new(idle_max: usize, idle_timeout: Duration) -> Arc<Pool<C>> {
        let state = PoolState { hosts: HashMap::new(), order: VecDeque::new(), idle: 0, next_mark: 0 };
        Arc::new(Pool { idle_max, idle_timeout, state: Mutex::new(state) })
    }

    /// Takes the host's permit if it is free.
    pub fn try_acquire(self: &Arc<Self>, host: &Host) -> Option<HostPermit<C>> {
        self.acquire_or_wait(host, false).ok()
    }

    /// Waits for the host's permit, first come first served.
    pub async fn acquire(self: &Arc<Self>, host: &Host) -> HostPermit<C> {
        loop {
            match self.acquire_or_wait(host, true) {
                Ok(permit) => return permit,
                Err(Some(waiting)) => {
                    if let Ok(permit) = waiting.await {
                        return permit;
                    }
                }
                Err(None) => {}
            }
        }
    }

    fn acquire_or_wait(
        self: &Arc<Self>,
        host: &Host,
        wait: bool,
    ) -> Result<HostPermit<C>, Option<oneshot::Receiver<HostPermit<C>>>> {
        let mut state = self.lock();
        let kept = match state.hosts.get_mut(host) {
            Some(slot) if slot.busy => {
                return Err(wait.then(|| {
                    let (sender, receiver) = oneshot::channel();
                    slot.waiting.push_back(sender);
                    receiver
                }));
            }
            Some(slot) => {
                slot.busy = true;
                slot.kept.take()
            }
            None => {
                state.hosts.insert(host.clone(), Slot { busy: true, waiting: VecDeque::new(), kept: None });
                None
            }
        };
        state.idle -= usize::from(kept.is_some());
        drop(state);
        // One that has been idle for too long is dropped here rather than tried.
        let kept = kept.filter(|kept| kept.since.elapsed() < self.idle_timeout).map(|kept| kept.connection);
        Ok(HostPermit { pool: self.clone(), host: Some(host.clone()), kept })
    }

    /// Drops connections that have been idle for too long, and tells how many are left.
    pub fn reap(&self, now: Instant) -> usize {
        let mut dropped = Vec::new();
        let mut state = self.lock();
        while let Some(mark) = state.order.front().map(|(_, mark)| *mark) {
            let PoolState { hosts, order, .. } = &mut *state;
            let kept = hosts.get(&order[0].0).and_then(|slot| slot.kept.as_ref());
            let is_current = kept.is_some_and(|kept| kept.mark == mark);
            if is_current && kept.is_some_and(|kept| now.duration_since(kept.since) < self.idle_timeout) {
                break;
            }
            state.drop_oldest(&mut dropped);
        }
        state.idle
    }

    /// Drops half of the kept connections, for when the process has no more files to open.
    pub fn halve(&self) {
        let mut dropped = Vec::new();
        let mut state = self.lock();
        let goal = state.idle / 2;
        while state.idle > goal {
            state.drop_oldest(&mut dropped);
        }
        drop(state);
    }

    /// Releases a permit, with the connection if it can be used again.
    fn release(mut permit: HostPermit<C>, mut connection: Option<C>) {
        let pool = permit.pool.clone();
        let Some(host) = permit.host.clone() else { return };
        loop {
            let mut state = pool.lock();
            let Some(slot) = state.hosts.get_mut(&host) else { break };
            let Some(waiting) = slot.waiting.pop_front() else {
                slot.busy = false;
                permit.host = None;
                let mut dropped = Vec::new();
                match connection.take() {
                    Some(connection) if pool.idle_max > 0 => {
                        state.keep(&host, connection, pool.idle_max, &mut dropped)
                    }
                    other => {
                        state.hosts.remove(&host);
                        dropped.extend(other);
                    }
                }
                drop(state);
                return;
            };
            drop(state);
            // The next in line gets permit and connection at once. If it has gone away, the one after it.
            permit.kept = connection.take();
            match waiting.send(permit) {
                Ok(()) => return,
                Err(mut back) => {
                    connection = back.kept.take();
                    permit = back;
                }
            }
        }
        permit.host = None;
    }

    fn lock(&self) -> MutexGuard<'_, PoolState<C>> {
        // Nothing under the lock can panic half-way through a change.
        self.state.lock()
    }
}

impl<C> PoolState<C> {
    fn keep(&mut self, host: &Host, connection: C, idle_max: usize, dropped: &mut Vec<C>) {
        let mark = self.next_mark;
        self.next_mark += 1;
        if let Some(slot) = self.hosts.get_mut(host) {
            slot.kept = Some(IdleConnection { connection, since: Instant::now(), mark });
            self.order.push_back((host.clone(), mark));
            self.idle += 1;
        }
        while self.idle > idle_max {
            self.drop_oldest(dropped);
        }
        // Out-of-date entries are at most as many as current ones, plus a few: 2 × idle_max × 80 bytes.
        if self.order.len() > 2 * self.idle + 64 {
            let PoolState { hosts, order, .. } = self;
            order.retain(|(host, mark)| {
                hosts.get(host).and_then(|slot| slot.kept.as_ref()).is_some_and(|kept| kept.mark == *mark)
            });
        }
    }

    fn drop_oldest(&mut self, dropped: &mut Vec<C>) {
        let Some((host, mark)) = self.order.pop_front() else { return };
        let Some(slot) = self.hosts.get_mut(&host) else { return };
        if let Some(kept) = slot.kept.take_if(|kept| kept.mark == mark) {
            self.idle -= 1;
            dropped.push(kept.connection);
            if !slot.busy {
                self.hosts.remove(&host);
            }
        }
    }
}

impl<C> HostPermit<C> {
    /// Takes the idle connection of the host, where there is one.
    pub fn take_idle(&mut self) -> Option<C> {
        self.kept.take()
    }

    /// Releases the permit and keeps its connection for the next one.
    pub fn keep(self, connection: C) {
        Pool::release(self, Some(connection));
    }
}

impl<C> Drop for HostPermit<C> {
    fn drop(&mut self) {
        if let Some(host) = self.host.take() {
            // The connection, if it was never taken, is as good as it was.
            let connection = self.kept.take();
            Pool::release(HostPermit { pool: self.pool.clone(), host: Some(host), kept: None }, connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(i: u32) -> Host {
        Host::parse(&format!("http://h{i}.test/")).unwrap()
    }

    fn counts<C>(pool: &Pool<C>) -> (usize, usize, usize) {
        let state = pool.lock();
        (state.hosts.len(), state.idle, state.order.len())
    }

    #[tokio::test]
    async fn a_host_is_asked_one_thing_at_a_time_in_order() {
        let pool = Pool::<u32>::new(8, Duration::from_secs(60));
        let first = pool.acquire(&host(1)).await;
        assert!(pool.try_acquire(&host(1)).is_none());
        assert!(pool.try_acquire(&host(2)).is_some(), "another host is free");
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for i in 0..3 {
            let (pool, log) = (pool.clone(), log.clone());
            tasks.push(tokio::spawn(async move {
                let mut permit = pool.acquire(&host(1)).await;
                let kept = permit.take_idle();
                log.lock().push((i, kept));
                permit.keep(10 + i);
            }));
            tokio::task::yield_now().await;
        }
        // The second in line gives up; its permit goes to the next.
        tasks.remove(1).abort();
        tokio::task::yield_now().await;
        first.keep(9);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*log.lock(), [(0, Some(9)), (2, Some(10))]);
        assert_eq!(pool.acquire(&host(1)).await.take_idle(), Some(12));
    }

    #[tokio::test]
    async fn a_turn_that_was_granted_but_never_taken_is_not_lost() {
        let pool = Pool::<u32>::new(8, Duration::from_secs(60));
        let first = pool.acquire(&host(1)).await;
        let Err(Some(granted)) = pool.acquire_or_wait(&host(1), true) else { panic!("the host is busy") };
        first.keep(5);
        drop(granted);
        assert_eq!(pool.try_acquire(&host(1)).unwrap().take_idle(), Some(5));
    }

    #[tokio::test]
    async fn idle_connections_are_bounded_and_reaped() {
        let pool = Pool::<u32>::new(3, Duration::from_millis(20));
        for i in 0..10 {
            pool.acquire(&host(i)).await.keep(i);
        }
        assert_eq!(counts(&pool).1, 3);
        assert!(pool.acquire(&host(0)).await.take_idle().is_none());
        assert_eq!(pool.acquire(&host(9)).await.take_idle(), Some(9));
        assert_eq!(pool.reap(Instant::now() + Duration::from_secs(1)), 0);
        assert_eq!(counts(&pool), (0, 0, 0));
        for i in 0..3 {
            pool.acquire(&host(i)).await.keep(i);
        }
        pool.halve();
        assert_eq!(counts(&pool).1, 1);
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(pool.acquire(&host(2)).await.take_idle().is_none(), "idle for too long");
    }

    #[derive(Clone, Debug)]
    enum Op {
        Take(u32),
        Keep(u32),
        Drop(u32),
        Reap,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0u32..6).prop_map(Op::Take),
            (0u32..6).prop_map(Op::Keep),
            (0u32..6).prop_map(Op::Drop),
            Just(Op::Reap)
        ]
    }

    proptest! {
        /// Races a plain list: who holds a permit, and which connections are kept in which order.
        #[test]
        fn agrees_with_a_plain_list(ops in proptest::collection::vec(op(), 0..200), idle_max in 0usize..5) {
            let pool = Pool::<u32>::new(idle_max, Duration::from_secs(600));
            let mut permits: HashMap<u32, HostPermit<u32>> = HashMap::new();
            let mut kept: Vec<u32> = Vec::new();
            for op in ops {
                match op {
                    Op::Take(i) => match pool.try_acquire(&host(i)) {
                        Some(mut permit) => {
                            prop_assert!(!permits.contains_key(&i));
                            prop_assert_eq!(permit.take_idle(), kept.iter().find(|k| **k == i).copied());
                            kept.retain(|k| *k != i);
                            permits.insert(i, permit);
                        }
                        None => prop_assert!(permits.contains_key(&i)),
                    },
                    Op::Keep(i) => if let Some(permit) = permits.remove(&i) {
                        permit.keep(i);
                        kept.push(i);
                        if kept.len() > idle_max { kept.remove(0); }
                    },
                    Op::Drop(i) => drop(permits.remove(&i)),
                    Op::Reap => { pool.reap(Instant::now()); }
                }
                let (hosts, idle, order) = counts(&pool);
                prop_assert_eq!(idle, kept.len());
                prop_assert_eq!(hosts, kept.len() + permits.len());
                prop_assert!(order <= 2 * idle + 65);
            }
        }
    }
}
