//! Epochs as agents come, go and die.

use super::*;
use crate::NodeState;

fn agent(incarnation: u64, state: NodeState, released: u64) -> AgentAtHand {
    AgentAtHand { incarnation, state, capacity: 100, released: Epoch(released), pages: 0, has_backup: true }
}

fn situation(agents: &[(u16, AgentAtHand)]) -> RouteSituation {
    RouteSituation {
        agents: agents.iter().map(|(no, agent)| (NodeNo(*no), agent.clone())).collect(),
        may_change: true,
        seed: 7,
        ..RouteSituation::default()
    }
}

fn up(released: u64) -> AgentAtHand {
    agent(1, NodeState::Up, released)
}

fn members(record: &RouteRecord) -> Vec<(u16, u64, u32)> {
    record.newest.members.iter().map(|(no, member)| (no.0, member.incarnation, member.share)).collect()
}

/// Two agents under epoch 2, which both have released.
fn two() -> RouteRecord {
    let first = plan(None, &situation(&[(1, up(0))])).unwrap();
    let second = plan(Some(&first), &situation(&[(1, up(1)), (2, up(0))])).unwrap();
    plan(Some(&second), &situation(&[(1, up(2)), (2, up(2))])).unwrap()
}

#[test]
fn the_first_agent_owns_everything_at_once() {
    let first = plan(None, &situation(&[(1, up(0)), (2, agent(1, NodeState::Joining, 0))])).unwrap();
    assert_eq!((first.epoch(), first.settled, members(&first)), (Epoch(1), true, vec![(1, 1, 100)]));
    assert_eq!(first.why, "agent 1 joined");
    assert_eq!(plan(Some(&first), &situation(&[(1, up(0))])), None, "a fixed point");
    assert_eq!(plan(None, &situation(&[])), None);
    assert_eq!(plan(None, &RouteSituation { may_change: false, ..situation(&[(1, up(0))]) }), None);
    // Where tables were lost somebody may still be busy under an epoch that nobody knows.
    let told = RouteSituation { told: Epoch(9), ..situation(&[(1, up(9))]) };
    let first = plan(None, &told).unwrap();
    assert_eq!((first.epoch(), first.settled), (Epoch(10), false));
}

#[test]
fn a_newcomer_waits_until_all_have_released() {
    let first = plan(None, &situation(&[(1, up(0))])).unwrap();
    let second = plan(Some(&first), &situation(&[(1, up(1)), (2, up(0))])).unwrap();
    assert_eq!((second.epoch(), second.settled, second.before.len()), (Epoch(2), false, 1));
    // One has released, and a third would like to join.
    let waits = [(1, up(2)), (2, up(1)), (3, up(0))];
    assert_eq!(plan(Some(&second), &situation(&waits)), None);
    let all = [(1, up(2)), (2, up(2)), (3, up(0))];
    let third = plan(Some(&second), &situation(&all)).unwrap();
    assert_eq!((third.epoch(), third.settled), (Epoch(3), false), "settled and followed in one step");
    assert_eq!(third.before, [second.newest], "from the last settled table on");
    assert_eq!(members(&third).len(), 3);
}

#[test]
fn a_death_does_not_wait_and_leaves_a_bequest() {
    let two = two();
    assert!(two.settled && two.before.is_empty());
    let three = plan(Some(&two), &situation(&[(1, up(2)), (2, up(2)), (3, up(0))])).unwrap();
    // The third dies before the epoch is settled.
    let dead = [(1, up(2)), (2, up(3)), (3, agent(1, NodeState::Dead, 0))];
    let after = plan(Some(&three), &situation(&dead)).unwrap();
    assert_eq!((after.epoch(), after.settled, members(&after).len()), (Epoch(4), false, 2));
    assert_eq!(after.before.iter().map(|step| step.epoch.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((after.bequests.len(), after.bequests[0].steps[0].epoch), (1, Epoch(3)));
    assert_eq!(after.why, "agent 3 is gone");
    // The undertaker is the one with the fewest pages for its capacity; when it dies, another is named.
    let mut agents = situation(&[(1, AgentAtHand { pages: 9, ..up(4) }), (2, up(4))]).agents;
    let named = undertaker(&after.bequests[0], None, &after, &agents).unwrap();
    assert_eq!((named.by, named.done), (NodeNo(2), false));
    assert_eq!(undertaker(&after.bequests[0], Some(&named), &after, &agents), None);
    agents.insert(NodeNo(2), agent(1, NodeState::Dead, 4));
    let next = undertaker(&after.bequests[0], Some(&named), &after, &agents).unwrap();
    assert_eq!(next.by, NodeNo(1));
    let done = UndertakeRecord { done: true, ..next };
    assert_eq!(undertaker(&after.bequests[0], Some(&done), &after, &agents), None);
    let buried = RouteSituation {
        buried: [(NodeNo(3), 1)].into(),
        ..situation(&[(1, up(4)), (2, up(4)), (3, agent(1, NodeState::Dead, 0))])
    };
    let last = plan(Some(&after), &buried).unwrap();
    assert_eq!((last.epoch(), last.settled, last.bequests.len()), (Epoch(4), true, 0));
}

#[test]
fn who_comes_back_is_another_member() {
    let after = plan(Some(&two()), &situation(&[(1, up(2)), (2, agent(2, NodeState::Up, 0))])).unwrap();
    assert_eq!(members(&after), [(1, 1, 100), (2, 2, 100)]);
    assert!(after.bequests.is_empty() && !after.settled);
    // Its former self has released nothing.
    assert_eq!(
        plan(Some(&after), &situation(&[(1, up(3)), (2, up(3))])).map(|next| next.settled),
        Some(false)
    );
}

#[test]
fn members_that_were_not_heard_yet_are_kept() {
    assert_eq!(plan(Some(&two()), &situation(&[(1, up(2))])), None);
    let dropping = RouteSituation { drops_unheard: true, ..situation(&[(1, up(2))]) };
    assert_eq!(plan(Some(&two()), &dropping).map(|next| members(&next).len()), Some(1));
}

#[test]
fn who_leaves_gives_all_away_unless_nobody_is_left() {
    let leaves = agent(1, NodeState::Draining, 2);
    let after = plan(Some(&two()), &situation(&[(1, leaves.clone()), (2, up(2))])).unwrap();
    assert_eq!((members(&after), after.why.as_str()), (vec![(1, 1, 0), (2, 1, 100)], "agent 1 is to leave"));
    let alone = plan(None, &situation(&[(1, up(0))])).unwrap();
    assert_eq!(plan(Some(&alone), &situation(&[(1, leaves)])), None);
    let gone = plan(Some(&alone), &situation(&[(1, agent(1, NodeState::Left, 1))])).unwrap();
    assert_eq!((members(&gone), gone.settled), (vec![], true));
}

#[test]
fn a_proposal_is_taken_once_the_epoch_is_settled_and_only_for_its_members() {
    let table = Some(TableBlob { name: "route/7".to_string(), digest: "d".to_string() });
    let proposal = |members: &[u16]| Proposal {
        table: table.clone(),
        members: members.iter().map(|no| NodeNo(*no)).collect(),
        why: "fewer exchanges".to_string(),
    };
    let with =
        |members: &[u16], agents| RouteSituation { proposal: Some(proposal(members)), ..situation(agents) };
    let agents = [(1, up(2)), (2, up(2))];
    assert_eq!(plan(Some(&two()), &with(&[1], &agents)), None);
    let after = plan(Some(&two()), &with(&[1, 2], &agents)).unwrap();
    assert_eq!((after.newest.table.clone(), after.why.as_str()), (table.clone(), "fewer exchanges"));
    assert_eq!(plan(Some(&after), &with(&[1, 2], &agents)), None, "taken, and waits to be settled");
    // A death before it is settled keeps the file: what it gives to the dead goes by the hash.
    let dead = plan(Some(&after), &situation(&[(1, up(2)), (2, agent(1, NodeState::Dead, 2))])).unwrap();
    assert_eq!((members(&dead).len(), dead.newest.table), (1, table));
}

#[test]
fn after_too_many_deaths_in_a_row_nobody_keeps_anything() {
    let mut record = two();
    for incarnation in 2..20 {
        let agents = [(1, up(2)), (2, agent(incarnation, NodeState::Up, 0))];
        record = plan(Some(&record), &situation(&agents)).unwrap();
        assert!(record.before.len() <= STEPS_MAX && !record.settled);
    }
    let released = record.epoch().0;
    let agents = [(1, up(released)), (2, agent(19, NodeState::Up, released))];
    assert!(plan(Some(&record), &situation(&agents)).unwrap().settled);
}
