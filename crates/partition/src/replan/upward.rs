//! A group as an agent of the level above.
//!
//! What a group's children told it goes up as if the group had crawled it all itself: an address is as near to the group
//! as to the nearest of its children. What the level above gives to others the group forgets.

use super::report::{Exchanged, HostFacts, Reason, Report, RttMedian};
use super::{Atlas, Receipt, Replanner};
use crate::table::{Route, Router};
use crate::{Agent, RoutingTable};
use std::net::IpAddr;

/// The part of the Web that is a group's, by the table of the level above.
#[derive(Clone, Debug)]
pub(super) struct Within {
    router: Router,
    /// Number of the group in that table; `None` where the table does not name it, and nothing is its own.
    own: Option<u32>,
}

impl Within {
    fn holds(&self, host: &str, address: IpAddr) -> bool {
        match self.router.route_host(host, Some(address)) {
            Route::To(owner) => self.own == Some(owner),
            Route::Hold => true,
        }
    }
}

impl Replanner {
    /// The agent that this planner's group is to the level above: all its children's connections together.
    pub fn as_agent(&self, name: &str) -> Agent {
        let connections: f64 = self.agents.iter().map(|agent| agent.connections).sum();
        // A group in several places has none; round trips say how near it is.
        let position = match &self.agents[..] {
            [only] => only.position,
            _ => None,
        };
        Agent { name: name.to_string(), connections: connections.max(f64::MIN_POSITIVE), position }
    }

    /// What the group tells the level above, in reports as large as may be. `number` is that of the first of them,
    /// `version` that of the table above.
    pub fn report_as(&self, name: &str, version: u64, number: u64, exchanged: Exchanged) -> Vec<Report> {
        let (hosts_max, links_max) =
            (self.settings.bounds.report_hosts_max, self.settings.bounds.report_links_max);
        let mut reports =
            vec![Report { agent: name.to_string(), version, number, exchanged, ..Report::default() }];
        let mut links = 0;
        for facts in all_hosts(&self.atlas) {
            let full = reports.last().is_some_and(|report| {
                report.hosts.len() >= hosts_max || links + facts.links.len() > links_max
            });
            if full {
                let number = number + reports.len() as u64;
                reports.push(Report { agent: name.to_string(), version, number, ..Report::default() });
                links = 0;
            }
            links += facts.links.len();
            if let Some(last) = reports.last_mut() {
                last.hosts.push(facts);
            }
        }
        reports
    }

    /// Plans only what the table of the level above gives to this group, and forgets the rest.
    pub fn stay_within(&mut self, above: &RoutingTable, name: &str) {
        let own = above.destinations.iter().position(|known| known == name).map(|at| at as u32);
        let within = Within { router: Router::new(above), own };
        self.atlas.retain(|host, address| within.holds(host, address));
        self.within = Some(within);
    }

    /// A report without what lies outside of the group.
    pub(super) fn only_within(&self, report: &Report) -> Option<(Report, Receipt)> {
        let within = self.within.as_ref()?;
        let mut receipt = Receipt::default();
        let mut kept = Report { hosts: Vec::with_capacity(report.hosts.len()), ..report.clone() };
        for facts in &report.hosts {
            match within.holds(&facts.host, facts.address) {
                true => kept.hosts.push(facts.clone()),
                false => receipt.refuse(Reason::NotYours),
            }
        }
        Some((kept, receipt))
    }
}

/// All hosts, each as the newest account says, with the shortest round trip of all.
fn all_hosts(atlas: &Atlas) -> impl Iterator<Item = HostFacts> + '_ {
    atlas.hosts().map(|(_, known)| {
        let newest = &known.told[0];
        let nearest = atlas.rtt(newest.address).iter().map(|told| told.median);
        let rtt: Option<RttMedian> = nearest.min_by_key(|median| median.micros);
        HostFacts {
            host: known.name.clone(),
            address: newest.address,
            pages: known.told.iter().map(|told| told.pages).max().unwrap_or(0),
            rtt,
            position: newest.position,
            language: newest.language,
            links: newest.links.clone(),
        }
    })
}
