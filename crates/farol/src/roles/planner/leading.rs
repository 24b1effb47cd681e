//! The planner's work under one term.

use super::{PlannerSources, told};
use crate::graph::tables::{self, TableStore};
use crate::graph::{atlas, known};
use anyhow::{Result, bail};
use farol_base::{Clock, SystemClock, Timestamp};
use farol_cluster::planned::{LastPlanRecord, PlanRecord, ToldRecord, cut};
use farol_cluster::record::{RECORD_VERSION, read, write};
use farol_cluster::route::{Proposal, TableBlob};
use farol_cluster::{Key, NodeNo, RouteRecord};
use farol_fabric::{Lost, Revision};
use farol_partition::geo::GeoTable;
use farol_partition::replan::{Decision, PlanJob, Replanner, Rule};
use farol_partition::rtt::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A proposal that did not come into force by then is given up: its agents are not those of now.
const PROPOSED_MAX: Duration = Duration::from_secs(60);
/// How often it is asked whether a plan is due, at most; agents that come or go and orders are heard at once.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Going through all hosts, to ask that or to tell what is known, takes a fiftieth of a thread at most.
const IDLE_FACTOR: u32 = 50;
/// A plan that failed is made again after this.
const FAILED_RESTS: Duration = Duration::from_secs(60);
/// How often what is known is told, at most.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// How often shared storage is looked after.
const TIDY_EVERY: Duration = Duration::from_secs(30);
/// Tables that nobody names any more and that stay for stragglers.
const TABLES_KEPT: usize = 4;

/// A table that was handed to the leader.
struct Proposed {
    blob: TableBlob,
    version: u64,
    since: Instant,
}

/// What a leader's planner knows.
pub struct Leading {
    sources: Arc<PlannerSources>,
    term: u64,
    planner: Replanner,
    rules: Vec<Rule>,
    files: TableStore,
    record: PlanRecord,
    revision: Revision,
    is_changed: bool,
    /// Reports that were taken in and are not in a stored atlas yet.
    taken: BTreeSet<String>,
    looked: Option<Instant>,
    saved: Instant,
    atlases: u64,
    tidied: Instant,
    begun: Instant,
    installed: u64,
    /// When it is asked again whether a plan is due, and when what is known is told again.
    asked_again: Instant,
    told_again: Instant,
    proposed: Option<Proposed>,
    /// When a plan failed, and why.
    failed: Option<(Instant, String)>,
}

impl Leading {
    /// Goes on where the leader before has stopped.
    pub fn begin(
        sources: &Arc<PlannerSources>,
        term: u64,
        places: Option<Arc<GeoTable>>,
        traces: &[Trace],
        rules: Vec<Rule>,
    ) -> Result<Leading> {
        let key = Key::Plan.to_string();
        let (mut record, revision) = match sources.fabric.get(&key)? {
            Some((value, revision)) => (read::<PlanRecord>(&key, &value)?, revision),
            None => (PlanRecord::default(), Revision::NONE),
        };
        if record.term > term {
            bail!("a later leader plans");
        }
        let (mut planner, is_known) = known::planner(&sources.config.partition, &sources.blobs, &record)?;
        planner.set_places(places);
        traces.iter().for_each(|trace| planner.add_trace(trace));
        if !is_known || record.atlas.is_empty() {
            // Whoever told of hosts before has to tell again.
            record.atlas = format!("{term}-{}", sources.me);
        }
        (record.v, record.term) = (RECORD_VERSION, term);
        let now = Instant::now();
        Ok(Leading {
            files: TableStore::new(Some(sources.blobs.clone()), Some(sources.folder.clone())),
            sources: sources.clone(),
            term,
            planner,
            rules,
            record,
            revision,
            is_changed: true,
            taken: BTreeSet::new(),
            looked: None,
            saved: now,
            atlases: 0,
            tidied: now,
            begun: now,
            installed: 0,
            asked_again: now,
            told_again: now,
            proposed: None,
            failed: None,
        })
    }

    pub fn term(&self) -> u64 {
        self.term
    }

    /// One turn.
    pub fn tick(&mut self) -> Result<()> {
        let view = self.sources.cluster.view();
        let Some(route) = view.route.clone() else { return Ok(()) };
        self.follow(&route)?;
        let nodes = || view.nodes.values();
        self.planner.set_agents(known::agents(nodes(), &route));
        known::set_sources(&mut self.planner, nodes());
        self.planner.set_rules(known::rules(&self.rules, nodes()))?;
        if view.plan_wish != 0 && view.plan_wish != self.record.wish {
            self.record.wish = view.plan_wish;
            self.planner.order();
            self.asked_again = Instant::now();
        }
        self.take_reports()?;
        if self.may_plan(&route) && Instant::now() >= self.asked_again {
            let begun = Instant::now();
            self.plan(&route)?;
            self.asked_again = Instant::now() + (begun.elapsed() * IDLE_FACTOR).max(ASK_EVERY);
        }
        self.tell()?;
        self.save()?;
        self.tidy(&route)
    }

    /// Takes note of the table in force.
    fn follow(&mut self, route: &RouteRecord) -> Result<()> {
        let epoch = route.epoch().0;
        if self.installed >= epoch {
            return Ok(());
        }
        let Some(table) = known::in_force(route, &self.files) else { bail!("{}", self.files.trouble()) };
        self.planner.install(table);
        self.installed = epoch;
        self.asked_again = Instant::now();
        let now = SystemClock.now();
        self.record.saw_epoch(epoch, now.as_millis(), &route.why);
        if self.proposed.as_ref().is_some_and(|proposed| route.newest.table.as_ref() == Some(&proposed.blob))
        {
            self.proposed = None;
        }
        self.is_changed = true;
        Ok(())
    }

    fn take_reports(&mut self) -> Result<()> {
        let every = (self.sources.config.partition.report_every.get() / 4)
            .clamp(Duration::from_millis(200), Duration::from_secs(30));
        if self.looked.is_some_and(|at| at.elapsed() < every) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let now = SystemClock.now();
        let taken = &self.taken;
        let reports =
            known::take_reports(&mut self.planner, &self.sources.blobs, now, &|name| taken.contains(name))?;
        for report in reports {
            let agent = report.agent.to_string();
            if report.receipt.as_ref().is_none_or(|receipt| receipt.is_refused()) {
                self.record.agents.entry(report.agent).or_default().lost += 1;
            }
            match &report.receipt {
                Some(receipt) => {
                    for (reason, count) in &receipt.refused {
                        tracing::warn!(
                            agent,
                            count,
                            "told the planner what it does not believe: {}",
                            reason.text()
                        );
                    }
                    let number = self.planner.atlas().number(&agent);
                    let told = self.record.agents.entry(report.agent).or_default();
                    *told = ToldRecord { number, at: now.as_millis(), ..*told };
                }
                None => {
                    tracing::warn!(agent, name = report.name, "a report cannot be read");
                    self.planner.unreadable(&agent);
                }
            }
            self.taken.insert(report.name);
            self.is_changed = true;
        }
        Ok(())
    }

    /// Whether a plan may be made now: nothing is on its way, and everybody has told something or had the time to.
    fn may_plan(&mut self, route: &RouteRecord) -> bool {
        if let Some(proposed) = self.proposed.take_if(|proposed| proposed.since.elapsed() >= PROPOSED_MAX) {
            self.planner.withdrawn(proposed.version);
        }
        let patience = self.sources.config.partition.report_every.get() * 3;
        let has_heard = self.planner.silent().next().is_none() || self.begun.elapsed() >= patience;
        let rests = self.failed.as_ref().is_some_and(|(at, _)| at.elapsed() < FAILED_RESTS);
        self.proposed.is_none() && route.settled && has_heard && !rests
    }

    fn plan(&mut self, route: &RouteRecord) -> Result<()> {
        let now = SystemClock.now();
        let Some(job) = self.planner.job(now) else { return Ok(()) };
        let begun = Instant::now();
        let decision = match job.run() {
            Ok(decision) => decision,
            Err(error) => {
                // What cannot be planned now cannot be in a second either.
                self.failed = Some((begun, format!("it cannot be planned: {error}")));
                return Ok(());
            }
        };
        self.failed = None;
        self.planner.decided(now, &decision);
        self.note(now, &job, &decision, begun.elapsed());
        let Decision::Publish { table, gain, .. } = &decision else { return Ok(()) };
        let blob = tables::publish(&self.sources.blobs, table, self.term)?;
        let why = told::sentence(job.trigger(), &decision);
        tracing::info!(version = table.version, pages = gain.pages, "a routing table is proposed: {why}");
        let members: BTreeSet<NodeNo> = route.owners().collect();
        // Sooner or later the term is another one: whatever is proposed under it is void.
        if self.sources.desk.term() == self.term {
            self.sources.desk.propose(Proposal { table: Some(blob.clone()), members, why: cut(&why) });
        }
        self.proposed = Some(Proposed { blob, version: table.version, since: begun });
        Ok(())
    }

    /// Writes down what a plan came to.
    fn note(&mut self, now: Timestamp, job: &PlanJob, decision: &Decision, took: Duration) {
        let number = self.record.last.as_ref().map_or(0, |last| last.number) + 1;
        let (gain, why, version) = match decision {
            Decision::Publish { table, gain, why, .. } => (gain, why, table.version),
            Decision::Keep { gain, why } => (gain, why, 0),
        };
        self.record.known.times =
            job.sources().iter().map(|(source, pairs)| (told::source(*source).to_string(), *pairs)).collect();
        self.record.known.addresses = job.addresses() as u64;
        let last = self.planner.last();
        self.record.last = Some(LastPlanRecord {
            number,
            at: now.as_millis(),
            trigger: cut(&job.trigger().text()),
            published: version > 0,
            why: why.text().to_string(),
            version,
            gain: known::gain_record(gain),
            moves: told::moves(decision),
            took: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            hosts: last.hosts,
            overload: if last.overload.is_finite() { last.overload } else { 0.0 },
        });
        self.is_changed = true;
        // Whoever waits for it hears at once.
        self.told_again = Instant::now();
    }

    /// Tells what is known, for people and for the next leader.
    fn tell(&mut self) -> Result<()> {
        if !self.is_changed || Instant::now() < self.told_again {
            return Ok(());
        }
        let begun = Instant::now();
        told::describe(&mut self.record, &self.planner);
        self.record.trouble = self.failed.as_ref().map(|(_, why)| cut(why)).unwrap_or_default();
        if self.sources.desk.term() != self.term {
            return Ok(());
        }
        self.told_again = Instant::now() + (begun.elapsed() * IDLE_FACTOR).max(TELL_EVERY);
        let key = Key::Plan.to_string();
        match self.sources.fabric.set(&key, &write(&self.record), self.revision) {
            Ok(revision) => (self.revision, self.is_changed) = (revision, false),
            Err(Lost::Conflict | Lost::Unknown(_)) => {
                let known = self.sources.fabric.get(&key)?;
                let Some((value, revision)) = known else {
                    self.revision = Revision::NONE;
                    return Ok(());
                };
                let other: PlanRecord = read(&key, &value)?;
                if other.term > self.term {
                    bail!("a later leader plans");
                }
                self.revision = revision;
            }
        }
        Ok(())
    }

    /// Stores what is known, and lets go of the reports that it came from.
    fn save(&mut self) -> Result<()> {
        let every = self.sources.config.partition.report_every.get();
        if self.taken.is_empty() || self.saved.elapsed() < every || self.sources.desk.term() != self.term {
            return Ok(());
        }
        self.saved = Instant::now();
        self.atlases += 1;
        atlas::save(&self.sources.blobs, self.term, self.atlases, self.planner.atlas().memory())?;
        for name in std::mem::take(&mut self.taken) {
            // What stays behind is refused as told before, and deleted then.
            let _ = self.sources.blobs.delete(&name);
        }
        Ok(())
    }

    /// Removes tables that nobody goes by, and writes those again that are missing.
    fn tidy(&mut self, route: &RouteRecord) -> Result<()> {
        if self.tidied.elapsed() < TIDY_EVERY || self.sources.desk.term() != self.term {
            return Ok(());
        }
        self.tidied = Instant::now();
        let there = self.sources.blobs.list(tables::FOLDER)?;
        let wanted: BTreeMap<&String, &TableBlob> =
            tables::named(route).map(|blob| (&blob.name, blob)).collect();
        let proposed = self.proposed.as_ref().map(|proposed| &proposed.blob.name);
        let mut old: Vec<&String> =
            there.iter().filter(|name| !wanted.contains_key(name) && Some(*name) != proposed).collect();
        old.truncate(old.len().saturating_sub(TABLES_KEPT));
        for name in old {
            self.sources.blobs.delete(name)?;
        }
        for blob in wanted.into_values().filter(|blob| !there.contains(&blob.name)) {
            if let Some(table) = self.files.get(blob) {
                self.sources.blobs.put(&blob.name, &farol_partition::table::binary::write(&table))?;
            }
        }
        Ok(())
    }
}
