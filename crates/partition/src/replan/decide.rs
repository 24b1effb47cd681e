//! Whether a new table is worth what it moves.
//!
//! The rule: exchanges between agents fall by 5 % or more, or the round trip of a page does while exchanges do not rise
//! by more than 1 %; what is saved pays for what moves at the rate of 5 % for 10 % of all pages; and of hosts that the
//! table in force names no more than 10 % of all pages move. A plan because of agents that came or went is published in
//! any case, and so is one that the operator's rules ask for; one because of overload where it takes away half of it or more.

use crate::split::FREE;
use crate::{RoutingTable, Space};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What a table must save.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Least share of exchanges, or of the mean round trip of a page, that is saved.
    pub saved_min: f64,
    /// Pages that may move for each that is saved, both as shares: 2 is 10 % for 5 %.
    pub moved_per_saved: f64,
    /// Greatest share of all pages that moves from agents that the table in force names.
    pub moved_max: f64,
    /// What is saved from which on more than that may move, as far as it is paid for.
    pub moved_freely_from: f64,
    /// How much more than its share an agent may get.
    pub slack: f64,
}

impl Default for Price {
    fn default() -> Price {
        Price { saved_min: 0.05, moved_per_saved: 2.0, moved_max: 0.10, moved_freely_from: 0.25, slack: 0.05 }
    }
}

/// What a plan is expected to bring, on what is known now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// Share of links between hosts that lead to another agent, by the table in force and by the new one.
    pub exchange_before: f64,
    pub exchange_after: f64,
    /// Mean milliseconds of round trip for a page, where both agents' times are known better than by distance.
    pub rtt_before: Option<f64>,
    pub rtt_after: Option<f64>,
    pub pages: u64,
    /// Pages that move from agents that the table in force names.
    pub moved_named: u64,
    /// Pages that move from where only a hash had put them.
    pub moved_hashed: u64,
    /// Pages of agents that have gone.
    pub orphaned: u64,
    /// Greatest and least load over the share.
    pub overload_before: f64,
    pub overload_after: f64,
    pub underload_after: f64,
}

impl Gain {
    /// Share of exchanges that is saved; below 0 where there will be more.
    pub fn exchange_saved(&self) -> f64 {
        if self.exchange_before <= 0.0 { 0.0 } else { 1.0 - self.exchange_after / self.exchange_before }
    }

    /// Share of the mean round trip that is saved; 0 where nothing was measured.
    pub fn rtt_saved(&self) -> f64 {
        match (self.rtt_before, self.rtt_after) {
            (Some(before), Some(after)) if before > 0.0 => 1.0 - after / before,
            _ => 0.0,
        }
    }

    /// Share of all pages that change hands; those of agents that have gone must.
    pub fn moved(&self) -> f64 {
        (self.moved_named + self.moved_hashed) as f64 / self.pages.max(1) as f64
    }

    /// What is saved, at the rate that moving is paid for.
    pub(super) fn paid(&self) -> f64 {
        let rtt = if self.exchange_saved() >= -0.01 { self.rtt_saved() } else { 0.0 };
        let exchange = if self.rtt_saved() >= -0.05 { self.exchange_saved() } else { 0.0 };
        exchange.max(rtt)
    }
}

/// Why a table is published or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    First,
    AgentsChanged,
    /// The operator's rules say otherwise than the table in force.
    Ruled,
    /// Hosts wait until a table names them.
    Waited,
    Saves,
    Eases,
    /// Nothing would move.
    Same,
    SavesTooLittle,
    MovesTooMuch,
    Unbalanced,
    NothingKnown,
}

impl Why {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Why::First => "it is the first table",
            Why::AgentsChanged => "agents came or went",
            Why::Ruled => "the operator's rules say so",
            Why::Waited => "hosts wait for a table that names them",
            Why::Saves => "what it saves pays for what it moves",
            Why::Eases => "it relieves an agent that has too much",
            Why::Same => "nothing would change",
            Why::SavesTooLittle => "it would save too little",
            Why::MovesTooMuch => "it would move more than it saves",
            Why::Unbalanced => "an agent would get more than its share",
            Why::NothingKnown => "no host is known yet",
        }
    }
}

/// What changes hands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moves {
    pub addresses: u64,
    /// From, to, pages; `None` where the owner has gone.
    pub between: BTreeMap<(Option<String>, String), u64>,
    /// The largest: address, from, to, pages.
    pub largest: Vec<(IpAddr, Option<String>, String, u64)>,
}

/// Largest moves that are listed.
const LARGEST_MAX: usize = 20;

impl Moves {
    pub(super) fn of(space: &Space, before: &[u32], after: &[u32]) -> Moves {
        let name = |part: u32| space.agents.get(part as usize).map(|agent| agent.name.clone());
        let mut moves = Moves::default();
        for (s, server) in space.servers.iter().enumerate() {
            if before[s] == after[s] {
                continue;
            }
            let (from, Some(to)) = (name(before[s]), name(after[s])) else { continue };
            moves.addresses += 1;
            *moves.between.entry((from.clone(), to.clone())).or_default() += server.pages;
            if let Some(address) = server.address {
                moves.largest.push((address, from, to, server.pages));
                if moves.largest.len() >= 4 * LARGEST_MAX {
                    moves.keep_largest();
                }
            }
        }
        moves.keep_largest();
        moves
    }

    fn keep_largest(&mut self) {
        self.largest.sort_by_key(|(address, .., pages)| (std::cmp::Reverse(*pages), *address));
        self.largest.truncate(LARGEST_MAX);
    }
}

/// The planner's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    Publish { table: RoutingTable, moves: Moves, gain: Gain, why: Why },
    Keep { gain: Gain, why: Why },
}

/// What is asked of a gain.
pub(super) struct Case {
    pub first: bool,
    pub agents_changed: bool,
    /// The table in force gives something to another agent than the operator does.
    pub ruled: bool,
    pub waited: bool,
    pub overload_from: f64,
}

impl Price {
    /// Whether a gain is worth it.
    pub(super) fn judge(&self, gain: &Gain, case: &Case) -> Result<Why, Why> {
        if case.first {
            return Ok(Why::First);
        }
        if case.agents_changed {
            return Ok(Why::AgentsChanged);
        }
        if case.ruled {
            return Ok(Why::Ruled);
        }
        if case.waited {
            return Ok(Why::Waited);
        }
        let named = gain.moved_named as f64 / gain.pages.max(1) as f64;
        let bears = 1.0 + self.slack + 1e-9;
        if gain.moved_named + gain.moved_hashed + gain.orphaned == 0 {
            return Err(Why::Same);
        }
        let saves = self.saves(gain, named, bears);
        if saves.is_ok() {
            return saves;
        }
        let eased = gain.overload_before - gain.overload_after;
        let eases = gain.overload_before > case.overload_from
            && eased >= (gain.overload_before - 1.0) / 2.0
            && gain.exchange_saved() > -0.10;
        // What is too much must go: of two agents of which one has all, half of all pages.
        let may_move = self.moved_max.max((gain.overload_before - 1.0) / 2.0);
        match eases {
            true if named <= may_move => Ok(Why::Eases),
            true => Err(Why::MovesTooMuch),
            false => saves,
        }
    }

    fn saves(&self, gain: &Gain, named: f64, bears: f64) -> Result<Why, Why> {
        if gain.overload_after > bears && gain.overload_after > gain.overload_before {
            return Err(Why::Unbalanced);
        }
        let paid = gain.paid();
        if paid < self.saved_min {
            return Err(Why::SavesTooLittle);
        }
        let too_much = named > self.moved_max && paid < self.moved_freely_from;
        if gain.moved() > self.moved_per_saved * paid || too_much {
            return Err(Why::MovesTooMuch);
        }
        Ok(Why::Saves)
    }

    /// Which of two gains is better: what is left after moves are paid.
    pub(super) fn worth(&self, gain: &Gain) -> f64 {
        gain.paid() - gain.moved() / self.moved_per_saved.max(1e-9)
    }
}

/// Mean round trip of a page under two assignments, over addresses where `known` says that both times are.
pub(super) fn round_trips(
    space: &Space,
    before: &[u32],
    after: &[u32],
    known: impl Fn(usize, u32) -> bool,
) -> (Option<f64>, Option<f64>) {
    let (mut sums, mut pages) = ((0.0, 0.0), 0.0);
    for (s, server) in space.servers.iter().enumerate() {
        if before[s] == FREE || !known(s, before[s]) || !known(s, after[s]) {
            continue;
        }
        if let (Some(one), Some(other)) = (space.rtt(s, before[s] as usize), space.rtt(s, after[s] as usize))
        {
            let weight = server.pages.max(1) as f64;
            sums = (sums.0 + one * weight, sums.1 + other * weight);
            pages += weight;
        }
    }
    if pages > 0.0 { (Some(sums.0 / pages), Some(sums.1 / pages)) } else { (None, None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(before: f64, after: f64, named: u64, hashed: u64) -> Gain {
        Gain {
            exchange_before: before,
            exchange_after: after,
            pages: 1000,
            moved_named: named,
            moved_hashed: hashed,
            overload_before: 1.02,
            overload_after: 1.03,
            ..Gain::default()
        }
    }

    #[test]
    fn five_per_cent_of_exchanges_pay_for_ten_per_cent_of_pages() {
        let usual =
            Case { first: false, agents_changed: false, ruled: false, waited: false, overload_from: 1.10 };
        let check = |gain: Gain, want| assert_eq!(Price::default().judge(&gain, &usual), want, "{gain:?}");
        check(gain(0.20, 0.19, 100, 0), Ok(Why::Saves));
        check(gain(0.20, 0.1901, 90, 0), Err(Why::SavesTooLittle));
        check(gain(0.20, 0.19, 90, 11), Err(Why::MovesTooMuch));
        check(gain(0.20, 0.16, 101, 0), Err(Why::MovesTooMuch));
        check(gain(0.20, 0.15, 500, 0), Ok(Why::Saves)); // A quarter is worth a great move.
        check(gain(0.20, 0.15, 501, 0), Err(Why::MovesTooMuch));
        check(gain(0.75, 0.20, 0, 800), Ok(Why::Saves)); // From hash to the first real table.
        check(gain(0.20, 0.25, 50, 0), Err(Why::SavesTooLittle));
        check(gain(0.20, 0.10, 0, 0), Err(Why::Same));
        check(Gain { overload_after: 1.2, ..gain(0.2, 0.1, 50, 0) }, Err(Why::Unbalanced));
        let eases = Gain { overload_before: 1.4, overload_after: 1.05, ..gain(0.2, 0.21, 90, 0) };
        check(eases, Ok(Why::Eases));
        let nearer = Gain { rtt_before: Some(100.0), rtt_after: Some(90.0), ..gain(0.2, 0.2, 100, 0) };
        check(nearer, Ok(Why::Saves));
        check(Gain { exchange_after: 0.21, ..nearer }, Err(Why::SavesTooLittle));
    }

    #[test]
    fn agents_that_came_or_went_are_always_heard() {
        let case = |first, agents_changed| Case {
            first,
            agents_changed,
            ruled: false,
            waited: false,
            overload_from: 1.1,
        };
        let dear = gain(0.2, 0.3, 900, 0);
        assert_eq!(Price::default().judge(&dear, &case(false, true)), Ok(Why::AgentsChanged));
        assert_eq!(Price::default().judge(&dear, &case(true, false)), Ok(Why::First));
    }
}
