//! Refinement: border vertices move to the part where they have most neighbours (\[Fiduccia82\]; k-way).
//!
//! Searches are local: from a few border vertices at a time, always the best move next, even one that makes things
//! worse for a while; what came after the best point is undone. A vertex moves once per pass.
//!
//! For each vertex the weight towards each part is kept up to date, agents' affinities included, so that a vertex joined to
//! every agent costs no more than any other. Memory: 4 bytes per vertex and part.

use super::heap::Heap;
use super::multilevel::Level;
use super::multilevel::coarsen::shuffle;
use super::{Balance, FREE};
use farol_base::{Random, Seeded};

/// How much may be taken from where it was. Counts the weight of vertices that are not at home.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub most: u64,
    away: u64,
}

impl Budget {
    pub fn new(most: u64) -> Budget {
        Budget { most, away: 0 }
    }

    /// Counts what is away from home now.
    pub fn enter(&mut self, level: &Level<'_>, part: &[u32]) {
        let home = level.home.as_deref().unwrap_or(part);
        let away = (0..part.len()).filter(|v| part[*v] != home[*v] && home[*v] != FREE);
        self.away = away.map(|v| level.loads.first(v)).sum();
    }
}

const NOT_SEEN: u8 = 0;
const QUEUED: u8 = 1;
const MOVED: u8 = 2;

/// Vertices up to which a graph is small.
const SMALL: usize = 256;

/// Border vertices from which one search starts.
const SEEDS: usize = 16;

/// How thoroughly to refine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Passes at most.
    pub passes: usize,
    /// Moves without gain after which a search ends.
    pub patience: usize,
}

pub(super) struct Refiner<'a> {
    level: &'a Level<'a>,
    k: usize,
    limits: &'a [u64],
    floors: &'a [u64],
    part: &'a mut [u32],
    /// Weight towards each part, vertex by vertex.
    towards: Vec<u32>,
    /// By kind, then part.
    loads: Vec<u64>,
    state: Vec<u8>,
    heap: Heap,
    moves: Vec<(u32, u32)>,
    budget: Option<Budget>,
    /// Edges visited by moves.
    pub work: usize,
    /// What parts may bear beyond their limits while a search goes on, so that vertices can go round.
    tolerance: u64,
}

impl<'a> Refiner<'a> {
    pub fn new(
        level: &'a Level<'a>,
        balance: &'a Balance,
        part: &'a mut [u32],
        budget: Option<Budget>,
    ) -> Refiner<'a> {
        let (n, k) = (level.vertices(), balance.parts());
        let mut towards = match &level.affinities {
            Some(affinities) => affinities.to_vec(),
            None => vec![0; n * k],
        };
        let mut loads = vec![0; level.loads.kinds() * k];
        for v in 0..n {
            let row = &mut towards[v * k..(v + 1) * k];
            for arc in level.graph.arcs(v) {
                row[part[arc.to as usize] as usize] += arc.weight;
            }
            for (kind, weight) in level.loads.of(v).iter().enumerate() {
                loads[kind * k + part[v] as usize] += weight;
            }
        }
        Refiner {
            level,
            k,
            limits: balance.limits(),
            floors: balance.floors(),
            part,
            towards,
            loads,
            state: vec![NOT_SEEN; n],
            heap: Heap::new(n),
            moves: Vec::new(),
            budget,
            work: 0,
            tolerance: 0,
        }
    }

    pub fn into_budget(self) -> Option<Budget> {
        self.budget
    }

    /// Load beyond what parts bear, in all kinds.
    pub fn excess(&self) -> u64 {
        self.loads.iter().zip(self.limits).map(|(load, limit)| load.saturating_sub(*limit)).sum()
    }

    /// A number that falls as the cut and affinities that are cut do.
    pub fn cost(&self) -> i64 {
        let own: i64 =
            (0..self.part.len()).map(|v| i64::from(self.towards[v * self.k + self.part[v] as usize])).sum();
        // An edge inside a part is seen from both ends, an affinity from one.
        let affinity_kept: i64 = self.level.affinities.as_ref().map_or(0, |affinities| {
            (0..self.part.len()).map(|v| i64::from(affinities[v * self.k + self.part[v] as usize])).sum()
        });
        -(own - affinity_kept) / 2 - affinity_kept
    }

    /// Makes passes as long as they help.
    pub fn refine(&mut self, effort: Effort, random: &mut Seeded) {
        let mut first = 0;
        for _ in 0..effort.passes {
            let gained = self.pass(SEEDS, effort.patience, random);
            first = first.max(gained);
            if gained * 10 <= first {
                break;
            }
        }
    }

    /// One pass of searches, each from so many border vertices; answers what was gained.
    pub fn pass(&mut self, seeds_each: usize, patience: usize, random: &mut Seeded) -> i64 {
        let mut border: Vec<u32> = (0..self.part.len() as u32).filter(|v| self.is_border(*v)).collect();
        shuffle(&mut border, random);
        let mut gained = 0;
        for seeds in border.chunks(seeds_each.max(1)) {
            for v in seeds {
                if self.state[*v as usize] == NOT_SEEN {
                    self.queue_if_likely(*v);
                }
            }
            gained += self.search(patience);
        }
        self.state.fill(NOT_SEEN);
        gained
    }

    fn is_border(&self, v: u32) -> bool {
        let (row, own) = (self.row(v), self.part[v as usize] as usize);
        row.iter().enumerate().any(|(part, weight)| part != own && *weight > 0)
    }

    fn row(&self, v: u32) -> &[u32] {
        &self.towards[v as usize * self.k..(v as usize + 1) * self.k]
    }

    fn queue(&mut self, v: u32) {
        if let Some((gain, _)) = self.best_move(v) {
            self.state[v as usize] = QUEUED;
            self.heap.set(v, gain);
        }
    }

    /// Leaves out vertices that have far more to do with their own part than with any other: they would only fill the
    /// queue, and a hub has thousands of them.
    fn queue_if_likely(&mut self, v: u32) {
        if let Some((gain, _)) = self.best_move(v) {
            let own = i64::from(self.row(v)[self.part[v as usize] as usize]);
            if 2 * gain + own >= 0 {
                self.state[v as usize] = QUEUED;
                self.heap.set(v, gain);
            }
        }
    }

    /// One local search; answers what it gained.
    fn search(&mut self, patience: usize) -> i64 {
        let (mut sum, mut best, mut best_at) = (0i64, 0i64, 0);
        let excess = if self.tolerance > 0 { self.excess() } else { 0 };
        self.moves.clear();
        while let Some((key, v)) = self.heap.pop() {
            let Some((gain, to)) = self.best_move(v) else {
                self.state[v as usize] = NOT_SEEN;
                continue;
            };
            if gain < key {
                self.heap.set(v, gain);
                continue;
            }
            let from = self.part[v as usize];
            self.state[v as usize] = MOVED;
            self.shift(v, to);
            self.moves.push((v, from));
            sum += gain;
            if sum > best && (self.tolerance == 0 || self.excess() <= excess) {
                (best, best_at) = (sum, self.moves.len());
            } else if self.moves.len() - best_at > patience {
                break;
            }
            self.queue_neighbours(v, to);
        }
        let state = &mut self.state;
        self.heap.clear(|v| state[v as usize] = NOT_SEEN);
        while self.moves.len() > best_at {
            if let Some((v, from)) = self.moves.pop() {
                self.shift(v, from);
            }
        }
        best
    }

    fn queue_neighbours(&mut self, v: u32, to: u32) {
        let level = self.level;
        for arc in level.graph.arcs(v as usize) {
            match self.state[arc.to as usize] {
                MOVED => {}
                QUEUED => self.queue(arc.to),
                // A neighbour inside the part that v came to has no new reason to leave it.
                _ if self.part[arc.to as usize] == to => {}
                _ => self.queue_if_likely(arc.to),
            }
        }
    }

    /// The best part for a vertex to move to among those that it has to do with, and what is gained.
    #[inline]
    fn best_move(&self, v: u32) -> Option<(i64, u32)> {
        let own = self.part[v as usize] as usize;
        let row = self.row(v);
        let (mut best, mut most) = (None, 0u32);
        for (part, weight) in row.iter().enumerate() {
            if *weight > most && part != own && self.fits(v, own, part) {
                (best, most) = (Some(part as u32), *weight);
            }
        }
        best.map(|part| (i64::from(most) - i64::from(row[own]), part))
    }

    /// The same among all parts.
    fn best_escape(&self, v: u32) -> Option<(i64, u32)> {
        self.best_move(v).or_else(|| {
            let own = self.part[v as usize] as usize;
            let to = (0..self.k).find(|part| *part != own && self.fits(v, own, *part))?;
            Some((-i64::from(self.row(v)[own]), to as u32))
        })
    }

    #[inline]
    fn fits(&self, v: u32, from: usize, to: usize) -> bool {
        for (kind, weight) in self.level.loads.of(v as usize).iter().enumerate() {
            let (at, own) = (kind * self.k + to, kind * self.k + from);
            if self.loads[at] + weight > self.limits[at] + self.tolerance && *weight > 0 {
                // Out of a part that bears too much it may go where there is less of it afterwards.
                let eases = self.loads[own] > self.limits[own]
                    && filled(self.loads[at] + weight, self.limits[at])
                        < filled(self.loads[own], self.limits[own]);
                if !eases {
                    return false;
                }
            }
        }
        // Nor may a part fall below what it should have.
        let (load, weight) = (self.loads[from], self.level.loads.first(v as usize));
        if load >= self.floors[from] && load < self.floors[from] + weight && weight > 0 {
            return false;
        }
        match (&self.budget, &self.level.home) {
            (Some(budget), Some(home)) if home[v as usize] as usize == from => {
                budget.away + self.level.loads.first(v as usize) <= budget.most
            }
            _ => true,
        }
    }

    fn shift(&mut self, v: u32, to: u32) {
        let (k, level) = (self.k, self.level);
        let from = std::mem::replace(&mut self.part[v as usize], to);
        for (kind, weight) in level.loads.of(v as usize).iter().enumerate() {
            self.loads[kind * k + from as usize] -= weight;
            self.loads[kind * k + to as usize] += weight;
        }
        self.work += level.graph.arcs(v as usize).len();
        for arc in level.graph.arcs(v as usize) {
            let at = arc.to as usize * k;
            self.towards[at + from as usize] -= arc.weight;
            self.towards[at + to as usize] += arc.weight;
        }
        if let (Some(budget), Some(home)) = (&mut self.budget, &level.home) {
            let (weight, home) = (level.loads.first(v as usize), home[v as usize]);
            if home == from {
                budget.away += weight;
            } else if home == to {
                budget.away -= weight;
            }
        }
    }

    /// Searches a small graph more thoroughly: pairs are exchanged, and vertices may go round several parts.
    pub fn refine_small(&mut self, effort: Effort, random: &mut Seeded) {
        if self.part.len() > SMALL {
            return;
        }
        self.exchange();
        self.tolerance = (0..self.part.len()).map(|v| self.level.loads.first(v)).max().unwrap_or(0);
        self.refine(effort, random);
        self.tolerance = 0;
    }

    /// Exchanges pairs of vertices as long as that helps \[Kernighan70\]: where parts are full, no vertex can
    /// move alone. Looks at every pair.
    fn exchange(&mut self) {
        let n = self.part.len();
        let mut joined = vec![0i64; n];
        let mut helped = true;
        while helped {
            helped = false;
            for u in 0..n {
                let level = self.level;
                level.graph.arcs(u).iter().for_each(|arc| joined[arc.to as usize] = i64::from(arc.weight));
                let best = (0..n)
                    .filter(|v| self.part[*v] != self.part[u])
                    .map(|v| (self.gain(u, self.part[v]) + self.gain(v, self.part[u]) - 2 * joined[v], v))
                    .filter(|(gain, v)| *gain > 0 && self.may_exchange(u, *v))
                    .max();
                level.graph.arcs(u).iter().for_each(|arc| joined[arc.to as usize] = 0);
                if let Some((_, v)) = best {
                    let (one, other) = (self.part[u], self.part[v]);
                    self.shift(u as u32, other);
                    self.shift(v as u32, one);
                    helped = true;
                }
            }
        }
    }

    fn gain(&self, v: usize, to: u32) -> i64 {
        let row = self.row(v as u32);
        i64::from(row[to as usize]) - i64::from(row[self.part[v] as usize])
    }

    /// Whether neither part bears too much, or more than before, once two vertices have changed places.
    fn may_exchange(&self, u: usize, v: usize) -> bool {
        let (one, other) = (self.part[u] as usize, self.part[v] as usize);
        let weights = self.level.loads.of(u).iter().zip(self.level.loads.of(v));
        weights.enumerate().all(|(kind, (mine, theirs))| {
            let bears = |part: usize, gives: u64, gets: u64| {
                let at = kind * self.k + part;
                gets <= gives || self.loads[at] - gives + gets <= self.limits[at]
            };
            bears(one, *mine, *theirs) && bears(other, *theirs, *mine)
        })
    }

    /// Fills an empty part with what belongs together and costs least to take, from parts that keep at least what
    /// `keep` says.
    pub fn carve(&mut self, empty: u32, wanted: u64, keep: &[u64], random: &mut Seeded) {
        let n = self.part.len();
        let level = self.level;
        while self.loads[empty as usize] < wanted {
            let next = self.heap.pop().map(|(_, v)| v).or_else(|| {
                let from = random.below(n as u64) as usize;
                (from..n).chain(0..from).find(|v| self.may_go(*v as u32, empty, keep)).map(|v| v as u32)
            });
            let Some(v) = next else { break };
            if !self.may_go(v, empty, keep) {
                continue;
            }
            self.shift(v, empty);
            for arc in level.graph.arcs(v as usize) {
                if self.part[arc.to as usize] != empty {
                    let row = self.row(arc.to);
                    let gain =
                        i64::from(row[empty as usize]) - i64::from(row[self.part[arc.to as usize] as usize]);
                    self.heap.set(arc.to, gain);
                }
            }
        }
        self.heap.clear(|_| {});
    }

    fn may_go(&self, v: u32, empty: u32, keep: &[u64]) -> bool {
        let from = self.part[v as usize] as usize;
        let weight = self.level.loads.first(v as usize);
        from != empty as usize
            && self.loads[from] >= keep[from] + weight
            && self.fits(v, from, empty as usize)
    }

    /// Takes vertices out of parts that bear too much, those first that cost least for what they weigh.
    pub fn rebalance(&mut self) {
        let kinds = self.loads.len() / self.k;
        for kind in 0..kinds {
            for part in 0..self.k {
                if self.loads[kind * self.k + part] > self.limits[kind * self.k + part] {
                    self.relieve(kind, part);
                }
            }
        }
        for part in 0..self.k {
            if self.loads[part] < self.floors[part] {
                self.feed(part as u32);
            }
        }
    }

    /// Fills a part that has too little, with what costs least to take.
    fn feed(&mut self, part: u32) {
        let level = self.level;
        for v in 0..self.part.len() as u32 {
            if self.part[v as usize] != part && level.loads.first(v as usize) > 0 {
                let key = self.key(v, 0, self.gain(v as usize, part));
                self.heap.set(v, key);
            }
        }
        while self.loads[part as usize] < self.floors[part as usize] {
            let Some((key, v)) = self.heap.pop() else { break };
            let now = self.key(v, 0, self.gain(v as usize, part));
            if now < key {
                self.heap.set(v, now);
                continue;
            }
            if !self.fits(v, self.part[v as usize] as usize, part as usize) {
                continue;
            }
            self.shift(v, part);
            for arc in level.graph.arcs(v as usize) {
                if self.heap.is_in(arc.to) {
                    let key = self.key(arc.to, 0, self.gain(arc.to as usize, part));
                    self.heap.set(arc.to, key);
                }
            }
        }
        self.heap.clear(|_| {});
    }

    fn relieve(&mut self, kind: usize, part: usize) {
        let at = kind * self.k + part;
        for v in 0..self.part.len() as u32 {
            if self.part[v as usize] as usize == part && self.level.loads.of(v as usize)[kind] > 0 {
                self.queue_by_weight(v, kind);
            }
        }
        while self.loads[at] > self.limits[at] {
            let Some((key, v)) = self.heap.pop() else { break };
            let Some((gain, to)) = self.best_escape(v) else { continue };
            let now = self.key(v, kind, gain);
            if now < key {
                self.heap.set(v, now);
                continue;
            }
            self.shift(v, to);
            let level = self.level;
            for arc in level.graph.arcs(v as usize) {
                if self.heap.is_in(arc.to) {
                    self.queue_by_weight(arc.to, kind);
                }
            }
        }
        self.heap.clear(|_| {});
    }

    fn queue_by_weight(&mut self, v: u32, kind: usize) {
        match self.best_escape(v) {
            Some((gain, _)) => {
                let key = self.key(v, kind, gain);
                self.heap.set(v, key);
            }
            None => self.heap.remove(v),
        }
    }

    /// Gains count by weight, losses per weight.
    fn key(&self, v: u32, kind: usize, gain: i64) -> i64 {
        let weight = self.level.loads.of(v as usize)[kind].clamp(1, 1 << 24) as i64;
        if gain > 0 { gain.saturating_mul(weight) } else { gain.saturating_mul(1 << 24) / weight }
    }
}

fn filled(load: u64, limit: u64) -> f64 {
    load as f64 / limit.max(1) as f64
}
