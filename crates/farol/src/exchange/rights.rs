//! What this agent may ask now: the one [`Holder`] of the process, for the crawl's thread and for the threads that ask.
//!
//! The crawl's thread tells it everything and carries out what it wants done. Threads that ask look here right before a
//! request is written ([`Rights::begin`]), and as long as it goes on ([`Rights::is_leased_as`]).
//!
//! INVARIANT: nothing begins without a lease of the very incarnation that the holder stands for, and every visit that has
//! begun is under way for the holder until the crawl's thread has taken in what came of it.

use super::route::TableFiles;
use farol_base::Host;
use farol_base::sync::Mutex;
use farol_cluster::{Epoch, Monotonic, NodeNo, RouteRecord};
use farol_partition::hold::{
    AgentId, Destination, EpochOwners, HoldRules, HoldSettings, Holder, Move, Note, Place, Ticket, Verdict,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Until when an incarnation of this node may act for the cluster; `None` where it may not.
pub type LeaseSource = Arc<dyn Fn(AgentId) -> Option<Monotonic> + Send + Sync>;

/// The agent's rights, shared.
pub struct Rights {
    inner: Mutex<Inner>,
    lease: LeaseSource,
    clock: fn() -> Monotonic,
    settings: HoldSettings,
}

struct Inner {
    holder: Holder,
    /// The record that the holder goes by.
    heard: Option<Arc<RouteRecord>>,
    /// Visits that may begin or have begun, by their numbers.
    visits: BTreeMap<u64, Option<Ticket>>,
}

impl Rights {
    pub fn new(me: AgentId, settings: HoldSettings, lease: LeaseSource, clock: fn() -> Monotonic) -> Rights {
        let inner = Inner {
            holder: Holder::new(me, settings, HoldRules::default()),
            heard: None,
            visits: BTreeMap::new(),
        };
        Rights { inner: Mutex::new(inner), lease, clock, settings }
    }

    pub fn me(&self) -> AgentId {
        self.inner.lock().holder.me()
    }

    /// Begins anew as another incarnation: the one before was buried, and everything that it had is void.
    pub fn begin_anew(&self, me: AgentId) {
        let mut inner = self.inner.lock();
        inner.holder = Holder::new(me, self.settings, HoldRules::default());
        inner.heard = None;
        inner.visits.clear();
    }

    /// Whether the lease is valid at this instant.
    pub fn is_leased(&self) -> bool {
        self.is_leased_as(self.me())
    }

    /// The same for an incarnation that somebody began under, whatever else hangs.
    pub fn is_leased_as(&self, me: AgentId) -> bool {
        (self.lease)(me).is_some_and(|until| (self.clock)() < until)
    }

    /// Takes in the lease and the record of who crawls what, and lets time pass.
    pub fn tick(&self, record: Option<&Arc<RouteRecord>>, files: TableFiles<'_>) {
        let news = record.filter(|record| {
            let inner = self.inner.lock();
            inner.heard.as_ref().is_none_or(|heard| !Arc::ptr_eq(heard, record))
        });
        let lacking = news.map(|record| self.inner.lock().holder.lacks(record)).unwrap_or_default();
        for file in lacking {
            // Where it cannot be had, the agent goes on by the table before, as long as others let it.
            if let Some(table) = files(&file) {
                self.inner.lock().holder.learn(&file, &table);
            }
        }
        let mut inner = self.inner.lock();
        let lease = (self.lease)(inner.holder.me());
        inner.holder.lease(lease);
        let now = (self.clock)();
        if let Some(record) = news
            && inner.holder.hear(record, now)
        {
            inner.heard = Some(record.clone());
        }
        inner.holder.tick(now);
    }

    pub fn epoch(&self) -> Epoch {
        self.inner.lock().holder.epoch()
    }

    pub fn is_settled(&self) -> bool {
        self.inner.lock().holder.is_settled()
    }

    pub fn released(&self) -> Epoch {
        self.inner.lock().holder.released()
    }

    pub fn moves(&self) -> Vec<Move> {
        self.inner.lock().holder.moves()
    }

    /// A visit that is to begin; it ends with [`Rights::end`].
    pub fn expect(&self, visit: u64) {
        self.inner.lock().visits.insert(visit, None);
    }

    /// To be called right before a request is written.
    ///
    /// # Errors
    /// The verdict, where it is another than yes.
    pub fn begin(&self, visit: u64, host: &Host, address: IpAddr) -> Result<(), Verdict> {
        let mut inner = self.inner.lock();
        if !inner.visits.contains_key(&visit) {
            return Err(Verdict::Wait);
        }
        let lease = (self.lease)(inner.holder.me());
        inner.holder.lease(lease);
        let ticket = inner.holder.begin(host.as_str(), address, (self.clock)())?;
        inner.visits.insert(visit, Some(ticket));
        Ok(())
    }

    /// What came of a visit is taken in, or it was broken off.
    pub fn end(&self, visit: u64) {
        let mut inner = self.inner.lock();
        if let Some(ticket) = inner.visits.remove(&visit).flatten() {
            let now = (self.clock)();
            inner.holder.end(ticket, now);
        }
    }

    /// Visits that are to be broken off now.
    pub fn overdue(&self) -> Vec<u64> {
        let mut inner = self.inner.lock();
        let lease = (self.lease)(inner.holder.me());
        inner.holder.lease(lease);
        let overdue = inner.holder.overdue((self.clock)());
        if overdue.is_empty() {
            return Vec::new();
        }
        let is_over = |ticket: &Option<Ticket>| ticket.is_some_and(|ticket| overdue.contains(&ticket));
        inner.visits.iter().filter(|(_, ticket)| is_over(ticket)).map(|(visit, _)| *visit).collect()
    }

    /// Whether a host may be asked at an address, as far as is known now.
    pub fn may(&self, host: &Host, address: IpAddr) -> Verdict {
        let mut inner = self.inner.lock();
        let lease = (self.lease)(inner.holder.me());
        inner.holder.lease(lease);
        inner.holder.may(host.as_str(), address, (self.clock)())
    }

    /// Who gets what is found of a host, and whether this agent itself has said so.
    pub fn route(&self, host: &str) -> (Destination, bool) {
        let inner = self.inner.lock();
        let is_own_word = matches!(inner.holder.standing(host), Some(Place::Lent { .. }));
        (inner.holder.route(host), is_own_word)
    }

    /// Who gets what an undertaker brings of a host; without an address, its home.
    pub fn heir(&self, host: &Host, address: Option<IpAddr>) -> Destination {
        let inner = self.inner.lock();
        match address {
            Some(address) => inner.holder.heir(host.as_str(), address),
            None => inner.holder.route(host.as_str()),
        }
    }

    pub fn pinned(&self, host: &Host) -> Option<IpAddr> {
        self.inner.lock().holder.pinned(host.as_str())
    }

    pub fn place(&self, host: &Host, address: IpAddr) {
        self.inner.lock().holder.place(host.as_str(), address);
    }

    /// Nobody knows where a host is.
    pub fn keep(&self, host: &Host) {
        self.inner.lock().holder.keep(host.as_str());
    }

    /// Whether its home, which is here, waits for its address.
    pub fn is_open(&self, host: &Host) -> bool {
        matches!(self.inner.lock().holder.standing(host.as_str()), Some(Place::Open { address: None }))
    }

    /// Hosts whose homes were asked who is to have what is known of them.
    pub fn asked(&self) -> usize {
        self.inner.lock().holder.asked()
    }

    pub fn resolved(&self, host: &Host, addresses: &[IpAddr]) {
        self.inner.lock().holder.resolved(host.as_str(), addresses);
    }

    pub fn sweep(&self, host: &Host, address: Option<IpAddr>) {
        self.inner.lock().holder.sweep(host.as_str(), address);
    }

    /// A note, in the order of its sender; false where a table must come first.
    pub fn heard(&self, from: AgentId, note: &Note) -> bool {
        let now = (self.clock)();
        self.inner.lock().holder.heard(from, note, now)
    }

    /// Whether nobody may connect to an address before a table names it.
    pub fn is_held(&self, address: IpAddr) -> bool {
        self.inner.lock().holder.is_held(address)
    }

    /// Whether an agent may have had a host that was asked at an address.
    pub fn may_have_had(&self, from: NodeNo, host: &Host, address: Option<IpAddr>) -> bool {
        self.inner.lock().holder.may_have_had(from, host.as_str(), address)
    }

    /// Whom a hash alone would give what is in force now, for comparison.
    pub fn by_hash(&self) -> Option<EpochOwners> {
        let inner = self.inner.lock();
        inner.heard.as_ref().map(|record| EpochOwners::new(&record.newest, record.seed, None))
    }

    /// Whether an agent is in the table in force, though it may have nothing.
    pub fn is_member(&self, no: NodeNo) -> bool {
        let inner = self.inner.lock();
        inner.heard.as_ref().is_some_and(|record| record.newest.members.contains_key(&no))
    }

    /// Whether others are to have everything that is here.
    pub fn is_leaving(&self) -> bool {
        let inner = self.inner.lock();
        let me = inner.holder.me();
        let Some(record) = &inner.heard else { return false };
        let has_share = record.newest.members.get(&me.no).is_some_and(|member| member.share > 0);
        !has_share && record.owners().any(|owner| owner != me.no)
    }

    pub fn is_empty_handed(&self) -> bool {
        let inner = self.inner.lock();
        inner.holder.is_empty_handed() && inner.visits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_cluster::route::{RouteMember, RouteStep};
    use std::sync::atomic::{AtomicU64, Ordering};

    const ME: AgentId = AgentId { no: NodeNo(3), incarnation: 1 };

    fn record(incarnation: u64, epoch: u64) -> Arc<RouteRecord> {
        let member = RouteMember { incarnation, share: 100 };
        Arc::new(RouteRecord {
            v: 1,
            term: 1,
            settled: true,
            newest: RouteStep { epoch: Epoch(epoch), members: [(ME.no, member)].into(), table: None },
            before: Vec::new(),
            seed: 3,
            bequests: Vec::new(),
            why: String::new(),
        })
    }

    /// Rights at the time 1,000, with a lease until a time that the test sets, for one incarnation at a time.
    fn rights() -> (Rights, Arc<AtomicU64>, Arc<AtomicU64>) {
        let (until, incarnation) = (Arc::new(AtomicU64::new(9_000)), Arc::new(AtomicU64::new(1)));
        let (leased, present) = (until.clone(), incarnation.clone());
        let lease = move |me: AgentId| {
            let is_present = present.load(Ordering::SeqCst) == me.incarnation;
            is_present.then(|| Monotonic::from_millis(leased.load(Ordering::SeqCst)))
        };
        let clock = || Monotonic::from_millis(1_000);
        let rights = Rights::new(ME, HoldSettings::default(), Arc::new(lease), clock);
        rights.tick(Some(&record(1, 1)), &|_| None);
        (rights, until, incarnation)
    }

    fn host() -> Host {
        Host::parse("http://a.test").unwrap()
    }

    #[test]
    fn a_visit_begins_once_expected_and_ends_with_the_lease() {
        let (rights, until, _) = rights();
        let address = [127, 0, 0, 1].into();
        assert_eq!(
            rights.begin(5, &host(), address),
            Err(Verdict::Wait),
            "nobody has said that it is to begin"
        );
        rights.expect(5);
        assert_eq!(rights.begin(5, &host(), address), Ok(()));
        assert!(rights.overdue().is_empty() && !rights.is_empty_handed());
        until.store(1_000, Ordering::SeqCst);
        assert_eq!((rights.overdue(), rights.is_leased()), (vec![5], false));
        rights.expect(6);
        assert_eq!(rights.begin(6, &host(), address), Err(Verdict::Wait));
        rights.end(5);
        rights.end(6);
        assert!(rights.overdue().is_empty() && rights.is_empty_handed());
    }

    #[test]
    fn the_lease_of_another_incarnation_is_none() {
        let (rights, _, incarnation) = rights();
        let address = [127, 0, 0, 1].into();
        rights.expect(1);
        incarnation.store(2, Ordering::SeqCst);
        assert_eq!(
            rights.begin(1, &host(), address),
            Err(Verdict::Wait),
            "it was buried and is another one now"
        );
        let other = AgentId { incarnation: 2, ..ME };
        rights.begin_anew(other);
        assert!(!rights.is_leased_as(ME) && rights.is_leased_as(other));
        assert_eq!(rights.begin(1, &host(), address), Err(Verdict::Wait), "whatever was expected before");
        rights.expect(2);
        rights.tick(Some(&record(1, 1)), &|_| None);
        assert_eq!(rights.begin(2, &host(), address), Err(Verdict::Wait), "the table knows the one before");
        rights.tick(Some(&record(2, 2)), &|_| None);
        assert_eq!(rights.begin(2, &host(), address), Ok(()));
        assert!(!rights.is_leaving() && rights.is_member(ME.no) && !rights.is_member(NodeNo(9)));
    }
}
