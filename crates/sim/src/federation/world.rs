//! Engines of several owners in one thread from one seed: the product's own books of agreements, with a network that loses,
//! delays, doubles and reorders, links that are cut, clocks that do not run alike, and engines that crash.
//!
//! INVARIANT: everything comes from the seed.

use farol_base::{CanonicalUrl, Random, Seeded, Timestamp};
use farol_federation::agreement::{
    AgreementId, Book, Delivery, EngineId, GivenState, Grade, Kind, Message, OnEnd, Outgoing, PATH_MAX,
    Quota, Rules, TakenState, Terms, Timers,
};
use farol_federation::{Answer, Facts, View};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// Parts of the made-up Web; a view is some of them.
const PARTS: usize = 4;
/// Trouble lasts so long, and then the world is quiet for as long.
const TROUBLE_MS: u64 = 10 * 3_600_000;
const QUIET_MS: u64 = 8 * 3_600_000;

/// What happens.
#[derive(Clone, Debug)]
enum Happening {
    Arrive {
        to: usize,
        from: usize,
        agreement: AgreementId,
        message: Message,
    },
    Tick(usize),
    Decide(usize, AgreementId),
    Filled(usize, AgreementId, u32),
    /// An owner does something.
    Act,
    Crash,
    Restart(usize),
    Cut,
}

impl Happening {
    /// The engines that it happens to, where that may change their books.
    fn touches(&self, engines: usize) -> std::ops::Range<usize> {
        match self {
            Happening::Arrive { to: number, .. }
            | Happening::Tick(number)
            | Happening::Decide(number, _)
            | Happening::Filled(number, ..)
            | Happening::Restart(number) => *number..number + 1,
            Happening::Act => 0..engines,
            Happening::Crash | Happening::Cut => 0..0,
        }
    }
}

struct Machine {
    /// As on disk: it is saved before anything is sent.
    book: Book,
    up: bool,
    /// Parts per million that its clock is fast, and how far it is off.
    drift_ppm: i64,
    offset_ms: u64,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AgreementCounts {
    /// Messages that were sent.
    pub messages: u64,
    /// Agreements that were proposed.
    pub proposals: u64,
    /// Times that a part was left to another.
    pub activations: u64,
    /// Times that a part was taken back from who was silent.
    pub takebacks: u64,
    /// Crashes.
    pub crashes: u64,
    /// Engine-seconds in which a part of somebody's view was crawled by nobody that runs.
    pub orphan_secs: u64,
    /// Engine-seconds of parts of views in all, while there was trouble.
    pub part_secs: u64,
    /// Engine-seconds in which an engine crawls a part that another one that runs crawls too.
    pub double_secs: u64,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub rule: &'static str,
    /// When and where.
    pub told: String,
}

/// The world.
pub struct FederationWorld {
    random: Seeded,
    now_ms: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Happening>,
    next_event: u64,
    machines: Vec<Machine>,
    views: Vec<View>,
    pages: Vec<Facts>,
    /// Until when two engines cannot hear each other.
    cuts: BTreeMap<(usize, usize), u64>,
    /// Where each consumer stands, and by which revision it waits for pages.
    states: BTreeMap<AgreementId, (TakenState, Option<u32>)>,
    /// To whom each engine leaves each part, by which agreement.
    left: Vec<[Option<(usize, AgreementId)>; PARTS]>,
    /// What each engine's book said of it when that was looked at last.
    looked: Vec<Vec<(AgreementId, bool, View)>>,
    /// Whether nobody may leave a part to who may not send it on.
    is_reach_checked: bool,
    next_agreement: u64,
    loss: f64,
    doubling: f64,
    counts: AgreementCounts,
    checked_ms: u64,
}

fn engine(number: usize) -> EngineId {
    let mut id = [0; 32];
    id[0] = number as u8;
    EngineId(id)
}

fn view_of(parts: impl Iterator<Item = usize>) -> View {
    parts.fold(View::none(), |all, part| {
        all.or(&View::parse(&format!(".d{part}")).unwrap_or_else(|_| View::none()))
    })
}

impl FederationWorld {
    /// A world of three to six engines that are about two parts or more each. In every second one pages go on without end,
    /// as chains of many engines come about there.
    pub fn new(seed: u64, rules: Rules) -> FederationWorld {
        let is_reach_checked = seed.is_multiple_of(2);
        let rules = Rules { reach: rules.reach && is_reach_checked, ..rules };
        let mut random = Seeded::new(seed);
        // A day is long to watch; the other times are the product's.
        let timers = Timers { takeback_after: Duration::from_secs(2 * 3_600), ..Timers::default() };
        let engines = 3 + random.below(4) as usize;
        let mut machines = Vec::new();
        let mut views = Vec::new();
        for number in 0..engines {
            let mut parts: Vec<usize> = (0..PARTS).filter(|_| random.below(4) > 0).collect();
            if parts.is_empty() {
                parts.push(0);
            }
            let view = view_of(parts.into_iter());
            machines.push(Machine {
                book: Book::new(engine(number), view.clone(), timers, rules),
                up: true,
                drift_ppm: random.below(10_001) as i64 - 5_000,
                offset_ms: random.below(10_000_000_000),
            });
            views.push(view);
        }
        let pages = (0..PARTS).filter_map(|part| CanonicalUrl::parse(&format!("http://d{part}/")).ok());
        let (loss, doubling) = (random.unit() * 0.2, random.unit() * 0.2);
        let mut world = FederationWorld {
            pages: pages.map(|url| Facts::of(&url)).collect(),
            random,
            now_ms: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            machines,
            views,
            cuts: BTreeMap::new(),
            states: BTreeMap::new(),
            left: vec![[None; PARTS]; engines],
            looked: vec![Vec::new(); engines],
            is_reach_checked,
            next_agreement: 0,
            loss,
            doubling,
            counts: AgreementCounts::default(),
            checked_ms: 0,
        };
        (0..engines).for_each(|number| world.at(number as u64, Happening::Tick(number)));
        world.at(10, Happening::Act);
        world.at(600_000, Happening::Crash);
        world.at(900_000, Happening::Cut);
        world
    }

    /// Runs to the end; the first promise that was broken, if any was.
    pub fn run(mut self) -> (AgreementCounts, Option<Broken>) {
        while let Some(Reverse((at, number))) = self.queue.pop() {
            let Some(event) = self.events.remove(&number) else { continue };
            if at > TROUBLE_MS + QUIET_MS {
                break;
            }
            self.count_orphans(at);
            self.now_ms = at;
            let touched = event.touches(self.machines.len());
            self.happen(event);
            if let Err(broken) = touched.into_iter().try_for_each(|number| self.check(number)) {
                return (self.counts, Some(broken));
            }
        }
        let broken = self.check_quiet().err();
        (self.counts, broken)
    }

    fn at(&mut self, at_ms: u64, event: Happening) {
        self.next_event += 1;
        self.events.insert(self.next_event, event);
        self.queue.push(Reverse((at_ms, self.next_event)));
    }

    fn is_quiet(&self) -> bool {
        self.now_ms >= TROUBLE_MS
    }

    fn clock(&self, number: usize) -> Timestamp {
        let machine = &self.machines[number];
        let drift = self.now_ms as i64 * machine.drift_ppm / 1_000_000;
        Timestamp::from_millis((self.now_ms + machine.offset_ms).saturating_add_signed(drift))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn happen(&mut self, event: Happening) {
        match event {
            Happening::Arrive { to, from, agreement, message } => {
                if self.machines[to].up {
                    let now = self.clock(to);
                    let out = self.machines[to].book.receive(
                        now,
                        engine(from),
                        agreement,
                        message,
                        &mut self.random,
                    );
                    self.done(to, out);
                }
            }
            Happening::Tick(number) => {
                if self.machines[number].up {
                    let now = self.clock(number);
                    let out = self.machines[number].book.tick(now, &mut self.random);
                    self.done(number, out);
                }
                let asking = self.machines[number].book.is_asking();
                let pause =
                    if asking { 500 + self.random.below(2_000) } else { 20_000 + self.random.below(40_000) };
                self.at(self.now_ms + pause, Happening::Tick(number));
            }
            Happening::Decide(number, id) if self.machines[number].up => {
                let accept = self.random.below(10) > 0;
                let out = self.machines[number].book.decide(id, accept);
                self.done(number, out);
            }
            Happening::Filled(number, id, revision) if self.machines[number].up => {
                self.machines[number].book.filled(id, revision);
                self.done(number, Vec::new());
            }
            // Whoever is down decides later.
            Happening::Decide(..) | Happening::Filled(..) => self.at(self.now_ms + 60_000, event),
            Happening::Act => {
                self.act();
                if !self.is_quiet() {
                    let pause = 1_000 + self.random.below(120_000);
                    self.at(self.now_ms + pause, Happening::Act);
                }
            }
            Happening::Crash => {
                let number = self.below(self.machines.len());
                if !self.is_quiet() && self.machines[number].up {
                    self.machines[number].up = false;
                    self.counts.crashes += 1;
                    let most = [10_000, 600_000, 3 * 3_600_000][self.below(3)];
                    let back = (self.now_ms + 1_000 + self.random.below(most)).min(TROUBLE_MS);
                    self.at(back, Happening::Restart(number));
                }
                let pause = 60_000 + self.random.below(1_800_000);
                self.at(self.now_ms + pause, Happening::Crash);
            }
            Happening::Restart(number) => {
                let now = self.clock(number);
                self.machines[number].up = true;
                self.machines[number].book.restart(now);
            }
            Happening::Cut => {
                let (a, b) = (self.below(self.machines.len()), self.below(self.machines.len()));
                if !self.is_quiet() && a != b {
                    let most = [60_000, 3_600_000, 5 * 3_600_000][self.below(3)];
                    let until = (self.now_ms + self.random.below(most)).min(TROUBLE_MS);
                    self.cuts.insert((a.min(b), a.max(b)), until);
                }
                let pause = 60_000 + self.random.below(1_800_000);
                self.at(self.now_ms + pause, Happening::Cut);
            }
        }
    }

    /// The book is safe: what it said goes out, and what it waits for is planned.
    fn done(&mut self, number: usize, out: Vec<Outgoing>) {
        for Outgoing { to, agreement, message } in out {
            self.counts.messages += 1;
            let to = usize::from(to.0[0]);
            let cut =
                self.cuts.get(&(number.min(to), number.max(to))).is_some_and(|until| self.now_ms < *until);
            let copies = 1 + usize::from(!self.is_quiet() && self.random.unit() < self.doubling);
            for _ in 0..copies {
                if !self.is_quiet() && (cut || self.random.unit() < self.loss) {
                    continue;
                }
                // Most are quick, some are very late.
                let most = [200, 200, 200, 5_000, 60_000, 2_400_000]
                    [self.below(if self.is_quiet() { 3 } else { 6 })];
                let delay = 1 + self.random.below(most);
                let message = message.clone();
                self.at(self.now_ms + delay, Happening::Arrive { to, from: number, agreement, message });
            }
        }
        let book = &self.machines[number].book;
        let undecided =
            book.given.iter().filter(|(_, given)| given.state == GivenState::Considering).map(|(id, _)| *id);
        let undecided_too =
            book.taken.iter().filter(|(_, taken)| taken.state == TakenState::Considering).map(|(id, _)| *id);
        let decides: Vec<AgreementId> = undecided.chain(undecided_too).collect();
        let mut fills = Vec::new();
        for (id, taken) in &book.taken {
            let fills_by = taken.is_filling().then_some(taken.terms.revision);
            let before = self.states.insert(*id, (taken.state, fills_by));
            if let Some(revision) = fills_by.filter(|_| before.is_none_or(|before| before.1 != fills_by)) {
                fills.push((*id, revision));
            }
            if before.is_some_and(|before| before.0 == taken.state) {
                continue;
            }
            match taken.state {
                TakenState::Active if before.is_none_or(|before| before.0 != TakenState::Silent) => {
                    self.counts.activations += 1;
                }
                TakenState::TakenBack => self.counts.takebacks += 1,
                _ => {}
            }
        }
        for id in decides {
            let pause = self.random.below(60_000);
            self.at(self.now_ms + pause, Happening::Decide(number, id));
        }
        for (id, revision) in fills {
            let pause = self.random.below(120_000);
            self.at(self.now_ms + pause, Happening::Filled(number, id, revision));
        }
    }

    /// An owner proposes, ends or changes something.
    fn act(&mut self) {
        let number = self.below(self.machines.len());
        let partner = self.below(self.machines.len());
        if !self.machines[number].up || number == partner || self.is_quiet() {
            return;
        }
        let now = self.clock(number);
        let kind = self.random.below(10);
        let part = self.below(PARTS);
        let view = view_of(
            (0..PARTS).filter(|p| *p == part || self.random.below(4) == 0).collect::<Vec<_>>().into_iter(),
        );
        let book = &self.machines[number].book;
        let mine: Vec<AgreementId> = book.given.keys().chain(book.taken.keys()).copied().collect();
        let out = match (kind, mine.as_slice()) {
            (0, [_, ..]) => {
                let id = mine[self.below(mine.len())];
                self.machines[number].book.end(now, id)
            }
            (1, [_, ..]) => {
                let id = mine[self.below(mine.len())];
                self.machines[number].book.amend(id, view)
            }
            _ => {
                self.next_agreement += 1;
                let mut id = [0; 16];
                id[..8].copy_from_slice(&self.next_agreement.to_le_bytes());
                let (provider, consumer) =
                    if self.random.below(2) == 0 { (number, partner) } else { (partner, number) };
                let terms = Terms {
                    id: AgreementId(id),
                    revision: 1,
                    provider: engine(provider),
                    consumer: engine(consumer),
                    kind: Kind::Index,
                    view,
                    grade: Grade::Text,
                    delivery: Delivery::Push,
                    delay_max: Duration::from_secs(600),
                    quota: Quota { pages_day: 1_000_000, bytes_day: 4 << 30 },
                    forward: self.random.below(9) as u8,
                    on_end: OnEnd::Keep,
                    notice: Duration::from_secs(86_400),
                    lease: Duration::from_secs(1_800),
                };
                let out = self.machines[number].book.propose(now, terms);
                self.counts.proposals += u64::from(out.is_some());
                out.unwrap_or_default()
            }
        };
        self.done(number, out);
    }

    /// Who is reached by following who leaves a part to whom; an error where that does not end in time.
    fn crawler_of(&self, number: usize, part: usize) -> Result<usize, String> {
        let mut at = number;
        let mut way = vec![number];
        while let Some((next, _)) = self.left[at][part] {
            at = next;
            if way.contains(&at) || way.len() >= PATH_MAX {
                return Err(format!("{way:?} goes on to {at}"));
            }
            way.push(at);
        }
        Ok(at)
    }

    /// Looks again at what an engine leaves to others; whether that is not as before.
    fn look(&mut self, number: usize) -> bool {
        let book = &self.machines[number].book;
        let said: Vec<(AgreementId, bool, View)> = book
            .taken
            .iter()
            .filter(|(_, taken)| taken.is_left())
            .map(|(id, taken)| (*id, true, taken.in_force.clone()))
            .collect();
        if said == self.looked[number] {
            return false;
        }
        for (part, page) in self.pages.iter().enumerate() {
            let of = said.iter().find(|(_, _, in_force)| in_force.has(page) == Answer::Yes);
            self.left[number][part] = of.map(|(id, ..)| (usize::from(book.taken[id].provider().0[0]), *id));
        }
        self.looked[number] = said;
        true
    }

    /// After something happened to an engine: whether all still holds that it has a part in.
    fn check(&mut self, touched: usize) -> Result<(), Broken> {
        if self.look(touched) {
            self.check_ways()?;
        }
        self.check_bonds(touched)
    }

    fn when(&self, told: String) -> String {
        format!("at {} s: {told}", self.now_ms / 1000)
    }

    /// Following who leaves a part to whom ends within the views, and nobody leaves one to who may not send it on.
    fn check_ways(&self) -> Result<(), Broken> {
        for (part, page) in self.pages.iter().enumerate() {
            for number in 0..self.machines.len() {
                if self.views[number].has(page) != Answer::Yes {
                    continue;
                }
                let found = self.crawler_of(number, part);
                let last = found.map_err(|told| Broken {
                    rule: "I6: a loop",
                    told: self.when(format!("part {part}: {told}")),
                })?;
                if self.views[last].has(page) != Answer::Yes {
                    let told = self
                        .when(format!("part {part} of {number} is left to {last}, which is not about it"));
                    return Err(Broken { rule: "I5: outside a view", told });
                }
                let Some((next, ours)) = self.left[number][part].filter(|_| self.is_reach_checked) else {
                    continue;
                };
                let Some((_, theirs)) = self.left[next][part] else { continue };
                let ours = &self.machines[number].book.taken[&ours];
                let theirs = &self.machines[next].book.taken[&theirs].terms;
                if ours.state == TakenState::Active && !theirs.reach(&ours.terms) {
                    let told = self
                        .when(format!("part {part} of {number} is left to {next}, who may not send it on"));
                    return Err(Broken { rule: "reach: what is left arrives", told });
                }
            }
        }
        Ok(())
    }

    /// A consumer within its lease has a provider that is bound.
    fn check_bonds(&self, touched: usize) -> Result<(), Broken> {
        for (number, machine) in self.machines.iter().enumerate().filter(|(_, machine)| machine.up) {
            for (id, taken) in &machine.book.taken {
                let to = usize::from(taken.provider().0[0]);
                if taken.state != TakenState::Active || number != touched && to != touched {
                    continue;
                }
                let given = self.machines[to].book.given.get(id).map(|given| given.state);
                if !matches!(given, Some(GivenState::Serving | GivenState::Ending(_))) {
                    // Between two of its looks at the clock the consumer may not have seen that its lease is over.
                    let mut late = machine.book.clone();
                    late.tick(self.clock(number), &mut Seeded::new(0));
                    if late.taken[id].state == TakenState::Active {
                        let told = self.when(format!(
                            "{number} relies on {:?}, which holds {given:?}",
                            taken.provider()
                        ));
                        return Err(Broken { rule: "a consumer in its lease has a bound provider", told });
                    }
                }
            }
        }
        Ok(())
    }

    /// When all has been quiet for long, both sides of each agreement hold the same, and everything is crawled.
    fn check_quiet(&self) -> Result<(), Broken> {
        for machine in &self.machines {
            for (id, taken) in &machine.book.taken {
                let other = &self.machines[usize::from(taken.provider().0[0])].book;
                let given = other.given.get(id);
                let state = given.map(|given| given.state);
                let agrees = match taken.state {
                    TakenState::Active => state == Some(GivenState::Serving),
                    TakenState::Ended => matches!(state, None | Some(GivenState::Ended)),
                    TakenState::Chaining => {
                        matches!(state, Some(GivenState::Promised | GivenState::Serving | GivenState::Lapsed))
                    }
                    // Nothing else lasts.
                    _ => false,
                };
                let same =
                    taken.state == TakenState::Ended || given.is_some_and(|given| given.terms == taken.terms);
                if !agrees || !same {
                    let told = format!("{id:?}: {:?} and {state:?}, the same terms: {same}", taken.state);
                    return Err(Broken { rule: "I4: both sides hold the same", told });
                }
            }
        }
        Ok(())
    }

    fn count_orphans(&mut self, until_ms: u64) {
        let until = until_ms.min(TROUBLE_MS);
        if until / 1000 == self.checked_ms / 1000 || until <= self.checked_ms {
            return;
        }
        let secs = until / 1000 - self.checked_ms / 1000;
        for (part, page) in self.pages.iter().enumerate() {
            let mut crawlers = 0;
            for number in 0..self.machines.len() {
                if self.views[number].has(page) == Answer::Yes && self.machines[number].up {
                    self.counts.part_secs += secs;
                    crawlers += u64::from(self.left[number][part].is_none());
                    let crawled = self.crawler_of(number, part).is_ok_and(|last| self.machines[last].up);
                    self.counts.orphan_secs += if crawled { 0 } else { secs };
                }
            }
            self.counts.double_secs += secs * crawlers.saturating_sub(1);
        }
        self.checked_ms = until;
    }
}
