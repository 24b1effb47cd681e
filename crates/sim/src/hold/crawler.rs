//! A crawler around [`Holder`]: its store, what it sends and reads, and what is under way. What is on its disk survives.

use super::HoldAblation;
use super::web::PageNo;
use farol_cluster::{Epoch, Monotonic, NodeNo, RouteRecord};
use farol_partition::hold::{
    AgentId, Arrival, Destination, HoldRules, HoldSettings, Holder, Move, Note, NoteBody, Numbers, Ticket,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Messages that no answer has come to are sent again after this.
const AGAIN_MS: u64 = 8_000;

/// What a message carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Freight {
    Note(Note),
    /// Host and page.
    Urls(Vec<(usize, PageNo)>),
    /// All pages of a host, and whether they were visited. An undertaker says where it was asked last.
    Luggage {
        host: usize,
        pages: BTreeMap<PageNo, bool>,
        address: Option<IpAddr>,
    },
    /// Its receiver has died, and others got it instead.
    Void,
}

/// A numbered message.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentMessage {
    pub from: AgentId,
    pub number: u64,
    pub freight: Freight,
}

/// What is known of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostStore {
    pub pages: BTreeMap<PageNo, bool>,
    pub address: Option<IpAddr>,
    /// It was sent to another agent, in the message of this number.
    leaving: Option<(NodeNo, u64)>,
}

/// A message that its receiver has not told yet that it has it.
#[derive(Clone, Debug)]
struct Posted {
    message: AgentMessage,
    sent: Option<u64>,
}

/// What survives a crash.
#[derive(Clone, Debug, Default)]
pub struct CrawlDisk {
    pub hosts: BTreeMap<usize, HostStore>,
    pub numbers: Numbers,
    /// How far it has read its own log.
    pub read: usize,
    outbox: BTreeMap<NodeNo, Vec<Posted>>,
    next: BTreeMap<NodeNo, u64>,
}

impl CrawlDisk {
    pub fn is_all_told(&self) -> bool {
        self.outbox.values().flatten().all(|posted| posted.message.freight == Freight::Void)
    }

    fn post(&mut self, from: AgentId, to: NodeNo, freight: Freight) -> u64 {
        let next = self.next.entry(to).or_insert(1);
        let number = *next;
        *next += 1;
        let message = AgentMessage { from, number, freight };
        self.outbox.entry(to).or_default().push(Posted { message, sent: None });
        number
    }

    /// Whether luggage waits that was never sent: what was found on its pages must be in a backup first, because whoever
    /// gets it will not visit them again as new.
    pub fn has_new_luggage(&self) -> bool {
        let is_new =
            |one: &Posted| one.sent.is_none() && matches!(one.message.freight, Freight::Luggage { .. });
        self.outbox.values().flatten().any(is_new)
    }

    /// Messages that are to be appended now, in order; all that follow one go with it.
    pub fn due(&mut self, now: u64) -> Vec<(NodeNo, AgentMessage)> {
        let mut due = Vec::new();
        for (to, posted) in &mut self.outbox {
            let is_due = |one: &Posted| one.sent.is_none_or(|sent| now >= sent + AGAIN_MS);
            let Some(first) = posted.iter().position(is_due) else { continue };
            for one in &mut posted[first..] {
                one.sent = Some(now);
                due.push((*to, one.message.clone()));
            }
        }
        due
    }

    /// A receiver has told which number it expects next: what it took leaves the outbox.
    fn told(&mut self, to: NodeNo, expects: u64) -> Vec<AgentMessage> {
        let Some(posted) = self.outbox.get_mut(&to) else { return Vec::new() };
        let taken = posted.iter().filter(|one| one.message.number < expects);
        let taken = taken.map(|one| one.message.clone()).collect();
        posted.retain(|one| one.message.number >= expects);
        taken
    }

    /// Whether something up to a number has not been told yet.
    fn awaits(&self, to: NodeNo, upto: u64) -> bool {
        let posted = self.outbox.get(&to).into_iter().flatten();
        posted.clone().any(|one| one.message.number <= upto && one.message.freight != Freight::Void)
    }
}

/// A running crawler, without its lease.
#[derive(Debug)]
pub struct HoldCrawler {
    pub holder: Holder,
    names: Vec<String>,
    /// When each host may be asked again.
    pub next: BTreeMap<usize, u64>,
    /// When DNS is asked again for hosts that were granted.
    pub look: BTreeMap<usize, u64>,
    pub under_way: BTreeMap<Ticket, (usize, PageNo)>,
    /// Hosts to find an address for, when, and a hint.
    pub resolving: BTreeMap<usize, (u64, Option<IpAddr>)>,
    /// The epoch that its store was swept for, and whether that was settled.
    swept: (Epoch, bool),
    members: BTreeSet<NodeNo>,
    /// The newest record that the holder goes by, and since when each backup in it has been awaited, in true time.
    pub heard: Option<RouteRecord>,
    pub awaited: BTreeMap<(NodeNo, u64), u64>,
    /// The dead whose backups were sent, and up to which number to whom.
    undertaken: BTreeMap<(NodeNo, u64), BTreeMap<NodeNo, u64>>,
    clock: u64,
}

impl HoldCrawler {
    pub fn new(me: AgentId, ablation: Option<HoldAblation>, names: Vec<String>) -> HoldCrawler {
        let mut rules = HoldRules::default();
        match ablation {
            Some(HoldAblation::Lease) => rules.lease = false,
            Some(HoldAblation::Incarnation) => rules.incarnation = false,
            Some(HoldAblation::Address) => rules.address = false,
            Some(HoldAblation::Right) => rules.right_awaited = false,
            Some(HoldAblation::Epoch) => rules.right_of_epoch = false,
            Some(HoldAblation::Drain) => rules.drained = false,
            Some(HoldAblation::Luggage) => rules.luggage_awaited = false,
            Some(HoldAblation::Home) => rules.home = false,
            Some(HoldAblation::Hops) => rules.hops = false,
            Some(HoldAblation::Filter) => rules.filters = false,
            Some(HoldAblation::Pin) => rules.given_up = false,
            _ => {}
        }
        let settings = HoldSettings { inherit_max_ms: 90_000, ..HoldSettings::default() };
        HoldCrawler {
            holder: Holder::new(me, settings, rules),
            names,
            next: BTreeMap::new(),
            look: BTreeMap::new(),
            under_way: BTreeMap::new(),
            resolving: BTreeMap::new(),
            swept: (Epoch(0), false),
            members: BTreeSet::new(),
            heard: None,
            awaited: BTreeMap::new(),
            undertaken: BTreeMap::new(),
            clock: 0,
        }
    }

    /// True time, for delays only.
    pub fn tick(&mut self, clock: u64) {
        self.clock = clock;
    }

    pub fn name(&self, host: usize) -> &str {
        &self.names[host]
    }

    /// The holder goes by a record now.
    pub fn meet(&mut self, route: &RouteRecord) {
        if self.heard.as_ref() == Some(route) {
            return;
        }
        self.members = route.newest.members.keys().copied().collect();
        for bequest in &route.bequests {
            self.awaited.entry((bequest.no, bequest.incarnation)).or_insert(self.clock);
        }
        self.heard = Some(route.clone());
    }

    /// Walks over the whole store after a new epoch, and once that is settled.
    pub fn sweep(&mut self, disk: &mut CrawlDisk) {
        let epoch = (self.holder.epoch(), self.holder.is_settled());
        if epoch <= self.swept || self.members.is_empty() {
            return;
        }
        self.swept = epoch;
        for (host, store) in &disk.hosts {
            self.holder.sweep(&self.names[*host], store.address);
        }
        self.carry_out(disk);
    }

    /// Gives to others what was meant for those who are gone.
    pub fn give_up(&mut self, disk: &mut CrawlDisk, gone: &BTreeSet<NodeNo>) {
        let is_waiting = |posted: &Vec<Posted>| posted.iter().any(|one| one.message.freight != Freight::Void);
        let waiting = disk.outbox.iter().filter(|(_, posted)| is_waiting(posted)).map(|(to, _)| *to);
        // As long as the table gives them something it would come to them again.
        let dead: Vec<NodeNo> =
            waiting.filter(|to| gone.contains(to) && !self.members.contains(to)).collect();
        if !dead.is_empty() {
            // An heir may have died with what an undertaker brought.
            self.undertaken.clear();
        }
        for to in dead {
            for store in disk.hosts.values_mut().filter(|store| store.leaving.is_some_and(|at| at.0 == to)) {
                store.leaving = None;
            }
            for (host, store) in &disk.hosts {
                self.holder.sweep(&self.names[*host], store.address);
            }
            let posted = disk.outbox.get_mut(&to).into_iter().flatten();
            let lost: Vec<Freight> =
                posted.map(|one| std::mem::replace(&mut one.message.freight, Freight::Void)).collect();
            lost.into_iter().for_each(|freight| self.deliver_again(disk, freight));
        }
        self.carry_out(disk);
    }

    /// URLs and luggage for somebody who is dead. Rights are not passed on.
    fn deliver_again(&mut self, disk: &mut CrawlDisk, freight: Freight) {
        match freight {
            Freight::Urls(urls) => self.found(disk, &urls),
            Freight::Luggage { host, pages, address } => self.import(disk, host, &pages, address),
            Freight::Note(_) | Freight::Void => {}
        }
    }

    /// URLs were found, or have come.
    pub fn found(&mut self, disk: &mut CrawlDisk, urls: &[(usize, PageNo)]) {
        let mut away: BTreeMap<NodeNo, Vec<(usize, PageNo)>> = BTreeMap::new();
        for (host, page) in urls {
            match self.holder.route(&self.names[*host]) {
                Destination::Here => {
                    disk.hosts.entry(*host).or_default().pages.entry(*page).or_insert(false);
                }
                Destination::To(no) => away.entry(no).or_default().push((*host, *page)),
            }
        }
        for (to, urls) in away {
            disk.post(self.holder.me(), to, Freight::Urls(urls));
        }
    }

    /// Luggage has come; whoever has it, a page that was visited was visited.
    pub fn import(
        &mut self,
        disk: &mut CrawlDisk,
        host: usize,
        pages: &BTreeMap<PageNo, bool>,
        address: Option<IpAddr>,
    ) {
        let name = &self.names[host];
        let destination = match address {
            Some(address) => self.holder.heir(name, address),
            None => self.holder.route(name),
        };
        match destination {
            Destination::Here => {
                let store = disk.hosts.entry(host).or_default();
                for (page, visited) in pages {
                    *store.pages.entry(*page).or_insert(false) |= visited;
                }
                store.address = store.address.or(address);
                // What was sent away may have come back: it is not forgotten when that was told.
                store.leaving = None;
                self.holder.sweep(name, store.address);
                self.carry_out(disk);
            }
            Destination::To(to) => {
                disk.post(self.holder.me(), to, Freight::Luggage { host, pages: pages.clone(), address });
            }
        }
    }

    /// Does what the holder wants done.
    pub fn carry_out(&mut self, disk: &mut CrawlDisk) {
        for next in self.holder.moves() {
            match next {
                Move::Tell { to, note } => drop(disk.post(self.holder.me(), to, Freight::Note(note))),
                Move::Luggage { host, to } => {
                    let host = self.names.iter().position(|name| *name == host).unwrap_or(0);
                    if let Some(store) = disk.hosts.get(&host) {
                        let pages = store.pages.clone();
                        let freight = Freight::Luggage { host, pages, address: None };
                        let number = disk.post(self.holder.me(), to, freight);
                        disk.hosts.entry(host).or_default().leaving = Some((to, number));
                    }
                }
                Move::Resolve { host, hint } => {
                    let host = self.names.iter().position(|name| *name == host).unwrap_or(0);
                    self.resolving.insert(host, (self.clock + 200, hint));
                }
            }
        }
    }

    /// A receiver has told which number it expects next.
    pub fn told(&mut self, disk: &mut CrawlDisk, to: NodeNo, expects: u64) {
        for message in disk.told(to, expects) {
            let Freight::Luggage { host, pages, .. } = message.freight else { continue };
            let Some(store) = disk.hosts.get_mut(&host) else { continue };
            let away = match self.holder.route(&self.names[host]) {
                Destination::To(away) if store.leaving == Some((to, message.number)) => away,
                _ => continue,
            };
            store.leaving = None;
            store.pages.retain(|page, visited| pages.get(page) != Some(visited));
            if store.pages.is_empty() {
                disk.hosts.remove(&host);
            } else {
                // Something came while it was on its way.
                let freight = Freight::Luggage { host, pages: store.pages.clone(), address: None };
                let number = disk.post(self.holder.me(), away, freight);
                disk.hosts.entry(host).or_default().leaving = Some((away, number));
            }
        }
    }

    /// Reads its log from where it was, up to `many` messages. Answers the grants that it took.
    pub fn read(
        &mut self,
        disk: &mut CrawlDisk,
        log: &[AgentMessage],
        many: usize,
        now: Monotonic,
    ) -> Vec<(Epoch, String)> {
        let mut grants = Vec::new();
        disk.read = disk.read.min(log.len());
        for message in log.iter().skip(disk.read).take(many) {
            if disk.numbers.arrives(message.from.no, message.number) == Arrival::Take {
                match &message.freight {
                    Freight::Note(note) => {
                        if !self.holder.heard(message.from, note, now) {
                            break;
                        }
                        if let NoteBody::Grant { host, address, .. } = &note.body
                            && self.holder.pinned(host) == Some(*address)
                        {
                            grants.push((note.epoch, host.clone()));
                        }
                        self.carry_out(disk);
                    }
                    freight => self.deliver_again(disk, freight.clone()),
                }
                disk.numbers.took(message.from.no, message.number);
            }
            disk.read += 1;
        }
        grants
    }

    /// Brings a dead agent's backup, and what came for it since, to its heirs. Whether all of it has arrived.
    pub fn undertake(
        &mut self,
        disk: &mut CrawlDisk,
        dead: (NodeNo, u64),
        backup: &CrawlDisk,
        log: &[AgentMessage],
        sends_rights: bool,
    ) -> bool {
        if !self.undertaken.contains_key(&dead) {
            let before = disk.next.clone();
            for (host, store) in &backup.hosts {
                if let (true, Some(address)) = (sends_rights, store.address)
                    && let Destination::To(to) = self.holder.heir(&self.names[*host], address)
                {
                    let host = self.names[*host].clone();
                    let back = NoteBody::Back { host, address: Some(address), grant: None, with_right: true };
                    for body in [NoteBody::Free { address }, back] {
                        let note = Note { epoch: self.holder.epoch(), body };
                        disk.post(self.holder.me(), to, Freight::Note(note));
                    }
                }
                self.import(disk, *host, &store.pages, store.address);
            }
            let posted = backup.outbox.values().flatten().map(|posted| posted.message.freight.clone());
            let since = |message: &&AgentMessage| message.number >= backup.numbers.next(message.from.no);
            let came = log.iter().filter(since).map(|message| message.freight.clone());
            for freight in posted.chain(came).collect::<Vec<_>>() {
                self.deliver_again(disk, freight);
            }
            let upto = disk.next.iter().filter(|(to, next)| before.get(to) != Some(next));
            let upto = upto.map(|(to, next)| (*to, next - 1)).collect();
            self.undertaken.insert(dead, upto);
        }
        self.undertaken[&dead].iter().all(|(to, upto)| !disk.awaits(*to, *upto))
    }
}
