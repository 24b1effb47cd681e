//! Stories of single rights. Whole clusters with everything going wrong are in `farol-sim hold`.

use super::*;
use crate::table::RoutingTable;
use farol_cluster::route::{Bequest, RouteMember, RouteRecord, RouteStep};
use farol_cluster::{Epoch, Monotonic};
use std::collections::BTreeMap;

const HOST: &str = "http://b.test";

fn at(millis: u64) -> Monotonic {
    Monotonic::from_millis(millis)
}

fn step(epoch: u64, members: &[(u16, u64)]) -> RouteStep {
    let member =
        |(no, incarnation): &(u16, u64)| (NodeNo(*no), RouteMember { incarnation: *incarnation, share: 100 });
    RouteStep { epoch: Epoch(epoch), members: members.iter().map(member).collect(), table: None }
}

fn record(steps: &[RouteStep]) -> RouteRecord {
    let (newest, before) = steps.split_last().unwrap();
    RouteRecord {
        v: 1,
        term: 1,
        settled: before.is_empty(),
        newest: newest.clone(),
        before: before.to_vec(),
        seed: 7,
        bequests: Vec::new(),
        why: String::new(),
    }
}

/// Agents whose notes arrive when the test says so.
struct Agents {
    holders: BTreeMap<u16, Holder>,
    letters: Vec<(AgentId, NodeNo, Note)>,
    luggage: Vec<(u16, String, NodeNo)>,
    resolve: Vec<(u16, String, Option<IpAddr>)>,
}

impl Agents {
    fn new(numbers: &[u16]) -> Agents {
        let mut agents = Agents {
            holders: BTreeMap::new(),
            letters: Vec::new(),
            luggage: Vec::new(),
            resolve: Vec::new(),
        };
        numbers.iter().for_each(|no| agents.start(*no, 1));
        agents
    }

    fn start(&mut self, no: u16, incarnation: u64) {
        let me = AgentId { no: NodeNo(no), incarnation };
        let mut holder = Holder::new(me, HoldSettings::default(), HoldRules::default());
        holder.lease(Some(at(1_000_000)));
        self.holders.insert(no, holder);
    }

    fn hear(&mut self, record: &RouteRecord) {
        let all: Vec<u16> = self.holders.keys().copied().collect();
        all.into_iter().for_each(|no| self.one_hears(no, record));
    }

    fn one_hears(&mut self, no: u16, record: &RouteRecord) {
        assert!(self.of(no).hear(record, at(0)));
        self.collect(no);
    }

    fn of(&mut self, no: u16) -> &mut Holder {
        self.holders.get_mut(&no).unwrap()
    }

    fn collect(&mut self, no: u16) {
        let me = self.of(no).me();
        for next in self.of(no).moves() {
            match next {
                Move::Tell { to, note } => self.letters.push((me, to, note)),
                Move::Luggage { host, to } => self.luggage.push((no, host, to)),
                Move::Resolve { host, hint } => self.resolve.push((no, host, hint)),
            }
        }
    }

    /// Everything arrives, and what is sent for that as well.
    fn deliver(&mut self) {
        while !self.letters.is_empty() {
            let (from, to, note) = self.letters.remove(0);
            if let Some(holder) = self.holders.get_mut(&to.0) {
                assert!(holder.heard(from, &note, at(0)), "{note:?}");
                self.collect(to.0);
            }
        }
    }

    fn place(&mut self, no: u16, address: IpAddr) {
        self.of(no).place(HOST, address);
        self.collect(no);
    }

    fn sweep(&mut self, no: u16, address: IpAddr) {
        self.of(no).sweep(HOST, Some(address));
        self.collect(no);
    }

    fn may(&self, address: IpAddr) -> Vec<u16> {
        let yes = |holder: &&Holder| holder.may(HOST, address, at(0)) == Verdict::Yes;
        self.holders.values().filter(yes).map(|holder| holder.me().no.0).collect()
    }
}

/// An address that each of these tables gives to the agent named beside it.
fn address(tables: &[(&RouteStep, u16)]) -> IpAddr {
    let fits = |address: &IpAddr| {
        tables.iter().all(|(step, owner)| {
            EpochOwners::new(step, 7, None).of_address(*address).map(|id| id.no.0) == Some(*owner)
        })
    };
    let mut all = (0..u32::MAX).map(|n| IpAddr::from(n.to_be_bytes()));
    all.find(fits).unwrap()
}

fn home(step: &RouteStep) -> u16 {
    EpochOwners::new(step, 7, None).home(HOST).unwrap().no.0
}

/// Two agents, the home and the other, under one settled table.
fn two() -> (Agents, RouteStep, u16, u16) {
    let first = step(1, &[(1, 1), (2, 1)]);
    let mut agents = Agents::new(&[1, 2]);
    agents.hear(&record(std::slice::from_ref(&first)));
    let home = home(&first);
    (agents, first, home, 3 - home)
}

#[test]
fn a_home_asks_what_is_at_its_own_addresses_and_grants_the_rest() {
    let (mut agents, first, home, other) = two();
    let (near, far) = (address(&[(&first, home)]), address(&[(&first, other)]));
    assert_eq!(agents.may(near), [home]);
    assert_eq!(agents.of(home).may(HOST, far, at(0)), Verdict::Place);
    assert_eq!(agents.of(other).may(HOST, far, at(0)), Verdict::Elsewhere, "whatever its DNS says");
    assert_eq!(agents.of(other).route(HOST), Destination::To(NodeNo(home)));
    let ticket = agents.of(home).begin(HOST, near, at(0)).unwrap();
    agents.place(home, far);
    agents.deliver();
    assert_eq!(agents.may(near), [0; 0], "its request must end first");
    agents.of(home).end(ticket, at(1));
    agents.collect(home);
    agents.deliver();
    assert_eq!((agents.may(far), agents.may(near)), (vec![other], vec![]));
    assert_eq!(agents.luggage, [(home, HOST.to_string(), NodeNo(other))]);
    assert_eq!(agents.of(home).route(HOST), Destination::To(NodeNo(other)));
    assert_eq!(agents.of(other).may(HOST, near, at(0)), Verdict::At(far));
}

#[test]
fn an_address_that_changes_leads_back_to_the_home_and_twice_at_most() {
    let (mut agents, first, home, other) = two();
    let far = address(&[(&first, other)]);
    let near = address(&[(&first, home)]);
    agents.place(home, far);
    agents.deliver();
    agents.of(other).resolved(HOST, &[far]);
    assert_eq!(agents.may(far), [other], "the pinned address is still there");
    agents.of(other).resolved(HOST, &[near]);
    agents.collect(other);
    assert_eq!(agents.may(far), [0; 0]);
    agents.deliver();
    assert_eq!(agents.resolve, [(home, HOST.to_string(), Some(near))]);
    // Its home sees it where it was: from now on that counts.
    agents.place(home, far);
    agents.deliver();
    assert_eq!(agents.may(far), [other]);
    agents.of(other).resolved(HOST, &[near]);
    agents.collect(other);
    agents.deliver();
    assert_eq!(agents.may(far), [other]);
}

#[test]
fn rights_pass_on_before_an_epoch_is_settled_and_count_for_it_alone() {
    let (mut agents, first, home, _) = two();
    let second = step(2, &[(1, 1), (2, 1), (3, 1)]);
    agents.start(3, 1);
    let moved = address(&[(&first, home), (&second, 3)]);
    let kept = address(&[(&first, home), (&second, home)]);
    let ticket = agents.of(home).begin(HOST, moved, at(0)).unwrap();
    let unsettled = record(&[first.clone(), second.clone()]);
    agents.hear(&unsettled);
    assert_eq!(EpochOwners::new(&second, 7, None).home(HOST).unwrap().no.0, home, "chosen so");
    assert_eq!(agents.may(kept), [home], "what all tables give goes on");
    assert_eq!(agents.of(home).released(), Epoch(1), "a request to what it lost is under way");
    assert_eq!(
        (agents.of(3).released(), agents.of(3).may(HOST, moved, at(0))),
        (Epoch(2), Verdict::Elsewhere)
    );
    agents.sweep(home, moved);
    agents.deliver();
    assert_eq!(agents.of(home).overdue(at(9_999)), []);
    assert_eq!(agents.of(home).overdue(at(10_000)), [ticket]);
    agents.of(home).end(ticket, at(10_000));
    agents.collect(home);
    assert_eq!(agents.of(home).released(), Epoch(2));
    let late = agents.letters.clone();
    assert!(late.iter().any(|(_, _, note)| matches!(note.body, NoteBody::Free { .. })), "{late:?}");
    agents.deliver();
    assert_eq!(agents.may(moved), [3], "without waiting for anybody else");
    // Under another epoch the same note brings nothing.
    agents.start(3, 1);
    let third = step(3, &[(1, 1), (2, 1), (3, 1)]);
    agents.one_hears(3, &record(&[first, second, third]));
    for (from, _, note) in late {
        assert!(agents.of(3).heard(from, &note, at(0)));
    }
    assert_eq!(agents.may(moved), [0; 0]);
}

#[test]
fn a_note_from_the_future_waits_for_its_table() {
    let (mut agents, _, home, other) = two();
    let note = Note { epoch: Epoch(9), body: NoteBody::Placed { host: HOST.to_string(), by: NodeNo(1) } };
    let from = agents.of(other).me();
    assert!(!agents.of(home).heard(from, &note, at(0)));
}

#[test]
fn without_lease_or_membership_nothing_is_asked() {
    let (mut agents, first, home, _) = two();
    let near = address(&[(&first, home)]);
    let ticket = agents.of(home).begin(HOST, near, at(0)).unwrap();
    agents.of(home).lease(Some(at(50)));
    assert_eq!(agents.of(home).overdue(at(49)), []);
    assert_eq!(agents.of(home).overdue(at(50)), [ticket]);
    assert_eq!(agents.of(home).begin(HOST, near, at(50)), Err(Verdict::Wait));
    // Another incarnation is another agent.
    agents.start(home, 2);
    agents.one_hears(home, &record(&[first]));
    assert_eq!(agents.may(near), [0; 0]);
}

#[test]
fn who_comes_back_gets_its_hosts_again_by_asking_their_homes() {
    let (mut agents, first, home, other) = two();
    let far = address(&[(&first, other)]);
    agents.place(home, far);
    agents.deliver();
    agents.luggage.clear();
    agents.start(other, 2);
    let incarnations = |no| if no == other { (no, 2) } else { (no, 1) };
    let second = step(2, &[incarnations(1), incarnations(2)]);
    agents.hear(&record(&[first.clone(), second.clone()]));
    agents.sweep(other, far);
    agents.deliver();
    assert_eq!(agents.resolve, [(home, HOST.to_string(), Some(far))]);
    agents.place(home, far);
    agents.deliver();
    assert_eq!(agents.may(far), [0; 0], "the address is settled only once all have released the epoch");
    agents.hear(&record(&[second]));
    assert_eq!(agents.may(far), [other]);
    let lost: Vec<_> = agents.luggage.iter().filter(|(from, ..)| *from == other).collect();
    assert!(lost.is_empty(), "what it has on its disk stays there: {lost:?}");
}

#[test]
fn heirs_wait_for_the_backup_of_the_dead() {
    let first = step(1, &[(1, 1), (2, 1), (3, 1)]);
    let second = step(2, &[(1, 1), (2, 1)]);
    let mut agents = Agents::new(&[1, 2]);
    agents.hear(&record(std::slice::from_ref(&first)));
    let heir = home(&second);
    let inherited = address(&[(&first, 3), (&second, heir)]);
    let own = address(&[(&first, heir), (&second, heir)]);
    let mut after = record(std::slice::from_ref(&second));
    after.bequests = vec![Bequest { no: NodeNo(3), incarnation: 1, steps: vec![first] }];
    agents.hear(&after);
    assert_eq!((agents.may(inherited), agents.may(own)), (vec![], vec![heir]));
    let max = HoldSettings::default().inherit_max_ms;
    assert_eq!(agents.of(heir).may(HOST, inherited, at(max)), Verdict::Yes);
    agents.hear(&record(&[second]));
    assert_eq!(agents.may(inherited), [heir], "its undertaker is done");
}

#[test]
fn who_leaves_is_empty_handed_once_homes_have_answered() {
    let (mut agents, first, home, other) = two();
    let near = address(&[(&first, home)]);
    let mut second = step(2, &[(1, 1), (2, 1)]);
    second.members.get_mut(&NodeNo(home)).unwrap().share = 0;
    assert_eq!(agents.may(near), [home]);
    agents.hear(&record(&[first, second]));
    agents.sweep(home, near);
    assert!(!agents.of(home).is_empty_handed());
    agents.deliver();
    assert_eq!(agents.resolve, [(other, HOST.to_string(), Some(near))]);
    agents.place(other, near);
    agents.deliver();
    assert!(agents.of(home).is_empty_handed());
    assert_eq!(agents.luggage, [(home, HOST.to_string(), NodeNo(other))]);
    assert_eq!(agents.may(near), [other], "both rights came along");
}

#[test]
fn a_host_that_nobody_finds_stays_with_its_home_and_is_not_asked() {
    let (mut agents, first, home, other) = two();
    // The other has something of it, and asks its home who is to have that.
    agents.sweep(other, address(&[(&first, other)]));
    agents.deliver();
    assert_eq!((agents.resolve.len(), agents.of(other).asked()), (1, 1));
    agents.of(home).keep(HOST);
    agents.collect(home);
    agents.deliver();
    assert_eq!(agents.luggage, [(other, HOST.to_string(), NodeNo(home))]);
    assert_eq!((agents.of(other).asked(), agents.of(home).standing(HOST)), (0, None));
    // Once there is an address, everything is as ever.
    assert_eq!(agents.of(home).may(HOST, address(&[(&first, other)]), at(0)), Verdict::Place);
}

#[test]
fn words_on_what_was_never_the_speakers_give_nothing() {
    let (mut agents, first, home, _) = two();
    let second = step(2, &[(1, 1), (2, 1), (3, 1), (4, 1)]);
    agents.start(3, 1);
    agents.start(4, 1);
    let moved = address(&[(&first, home), (&second, 3)]);
    agents.hear(&record(&[first, second]));
    let liar = agents.of(4).me();
    let say = |body| Note { epoch: Epoch(2), body };
    // An address that another still asks at, and a host whose home it is not.
    assert!(agents.of(3).heard(liar, &say(NoteBody::Free { address: moved }), at(0)));
    let grant = NoteBody::Grant { host: HOST.to_string(), address: moved, grant: 1, is_last: true };
    assert!(agents.of(3).heard(liar, &say(grant), at(0)));
    assert_eq!(agents.of(3).pinned(HOST), None);
    assert_ne!(agents.of(3).may(HOST, moved, at(0)), Verdict::Yes);
    // From whoever had both it is another matter.
    agents.sweep(home, moved);
    agents.place(home, moved);
    agents.deliver();
    assert_eq!(agents.may(moved), [3]);
}

/// A table that gives one address to agent 1, and by a filter the host to agent 2.
fn filtered() -> (RouteStep, RoutingTable, IpAddr) {
    let address = IpAddr::from([10, 0, 0, 9]);
    let table = RoutingTable {
        version: 1,
        destinations: vec!["1".into(), "2".into(), "3".into()],
        blocks: [(crate::Block::single(address), 0)].into(),
        filters: vec![(crate::table::Filter::Domain("b.test".into()), 1)],
        ..RoutingTable::default()
    };
    let file = farol_cluster::route::TableBlob { name: "t".into(), digest: String::new() };
    (RouteStep { table: Some(file), ..step(1, &[(1, 1), (2, 1), (3, 1)]) }, table, address)
}

#[test]
fn a_filter_holds_for_a_host_at_anothers_address_and_the_address_stays_whole() {
    let (first, table, address) = filtered();
    let mut agents = Agents::new(&[1, 2, 3]);
    for no in [1, 2, 3] {
        agents.of(no).learn(first.table.as_ref().unwrap(), &table);
    }
    agents.hear(&record(std::slice::from_ref(&first)));
    let at_first = EpochOwners::new(&first, 7, Some(std::sync::Arc::new(NamedOwners::new(&table))));
    // Another host, of the third agent's, is asked there by the owner of the address.
    let other = (0..).map(|n| format!("http://o{n}.test"));
    let other = other.into_iter().find(|host| at_first.home(host).unwrap().no == NodeNo(3)).unwrap();
    agents.of(3).place(&other, address);
    agents.collect(3);
    agents.deliver();
    let asking = agents.of(1).begin(&other, address, at(0)).unwrap();
    // The host that the operator gave to the second agent turns up there.
    assert_eq!(agents.of(2).may(HOST, address, at(0)), Verdict::Place);
    agents.place(2, address);
    agents.deliver();
    assert_eq!(agents.may(address), Vec::<u16>::new(), "the owner still asks there");
    assert!(agents.of(1).begin(&other, address, at(0)).is_err(), "and begins nothing any more");
    agents.of(1).end(asking, at(0));
    agents.collect(1);
    agents.deliver();
    assert_eq!(agents.may(address), [2]);
    // The other host follows its address.
    let (no, host, hint) = agents.resolve.pop().unwrap();
    assert_eq!((no, hint), (3, Some(address)));
    agents.of(3).place(&host, address);
    agents.collect(3);
    agents.deliver();
    assert_eq!(agents.of(2).may(&other, address, at(0)), Verdict::Yes);
    assert!(agents.of(1).may(&other, address, at(0)) != Verdict::Yes);
    // Who has no filter for a host claims nothing.
    let stranger = AgentId { no: NodeNo(3), incarnation: 1 };
    let elsewhere = (0..u32::MAX).map(|n| IpAddr::from(n.to_be_bytes()));
    let elsewhere =
        elsewhere.into_iter().find(|at| at_first.of_address(*at).unwrap().no == NodeNo(1)).unwrap();
    let claim = NoteBody::Claim { host: HOST.into(), address: elsewhere };
    agents.of(1).heard(stranger, &Note { epoch: Epoch(1), body: claim }, at(0));
    assert!(agents.of(1).moves().is_empty());
    // With another epoch the address is its owner's again, once that is settled.
    let second = RouteStep { epoch: Epoch(2), ..first.clone() };
    agents.hear(&record(&[first.clone(), second.clone()]));
    assert_eq!(agents.may(address), Vec::<u16>::new());
    assert!(agents.of(1).may(&other, address, at(0)) != Verdict::Yes);
    agents.hear(&record(std::slice::from_ref(&second)));
    agents.place(2, address);
    agents.deliver();
    assert_eq!(agents.may(address), [2]);
}

#[test]
fn who_cannot_have_had_a_host_is_known() {
    let first = step(1, &[(1, 1), (2, 1), (3, 1)]);
    let mut agents = Agents::new(&[1, 2, 3]);
    agents.hear(&record(std::slice::from_ref(&first)));
    let home = home(&first);
    let other = if home == 1 { 2 } else { 1 };
    let third = 6 - home - other;
    let far = address(&[(&first, other)]);
    let may = |agents: &mut Agents, from: u16| agents.of(other).may_have_had(NodeNo(from), HOST, Some(far));
    assert!(may(&mut agents, home) && may(&mut agents, other) && !may(&mut agents, third));
    // Whoever had it under the table before may bring it, and when somebody has died anybody may be the undertaker.
    let second = step(2, &[(1, 1), (2, 1), (3, 1), (4, 1)]);
    agents.hear(&record(&[first.clone(), second.clone()]));
    assert!(may(&mut agents, home) && !may(&mut agents, third));
    let mut died = record(&[first.clone(), second]);
    died.bequests = vec![Bequest { no: NodeNo(4), incarnation: 1, steps: vec![first] }];
    agents.hear(&died);
    assert!(may(&mut agents, third));
}
