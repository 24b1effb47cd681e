//! Merging vertices that belong together.
//!
//! Each vertex joins the cluster that it has most links to, as long as that does not become too heavy (label
//! propagation with a bound). Vertices whose cluster is full meet others that wait for the same one: the leaves of a hub
//! end up together, which no matching along edges can bring about.

use super::Level;
use crate::Graph;
use crate::graph::Arc;
use crate::split::Loads;
use farol_base::Random;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Vertices that are visited one after the other before the next run of them is drawn: they lie side by side in memory.
const RUN: usize = 128;
/// Times that all vertices may change their cluster.
const ROUNDS: usize = 3;
const NONE: u32 = u32::MAX;

/// How much is merged in one step.
#[derive(Clone, Copy, Debug)]
pub(in crate::split) struct Merging {
    /// Vertices that one cluster may be made of.
    members: u32,
    /// How many times fewer vertices a step leaves, at most.
    shrink: usize,
}

impl Merging {
    /// Few steps: quick, and stars become one vertex.
    pub const CLUSTERS: Merging = Merging { members: u32::MAX, shrink: 4 };
    /// Many small steps: dearer, and refinement has something to say at each of them.
    pub const PAIRS: Merging = Merging { members: 2, shrink: 2 };

    pub fn least(self, vertices: usize, enough: usize) -> usize {
        (enough / 2).max(vertices / self.shrink)
    }
}

/// Finds clusters no heavier than `most`, and not fewer than about `least` of them; answers each vertex's cluster.
pub(in crate::split) fn cluster(
    level: &Level<'_>,
    most: u64,
    least: usize,
    merging: Merging,
    random: &mut dyn Random,
) -> Vec<u32> {
    let n = level.vertices();
    let mut label: Vec<u32> = (0..n as u32).collect();
    let mut weight: Vec<u64> = (0..n).map(|v| level.loads.first(v)).collect();
    let mut size = vec![1u32; n];
    let mut favourite = vec![NONE; n];
    let mut rating = vec![0u32; n];
    let mut near: Vec<u32> = Vec::new();
    let mut runs: Vec<u32> = (0..n.div_ceil(RUN) as u32).collect();
    let mut clusters = n;
    for _ in 0..ROUNDS {
        shuffle(&mut runs, random);
        let mut coins = random.next_u64();
        let mut moved = 0;
        'all: for run in &runs {
            for v in *run as usize * RUN..(*run as usize * RUN + RUN).min(n) {
                for arc in level.graph.arcs(v) {
                    let cluster = label[arc.to as usize];
                    let rating = &mut rating[cluster as usize];
                    if *rating == 0 {
                        near.push(cluster);
                    }
                    *rating += arc.weight;
                }
                let own = label[v];
                let (mut best, mut best_rating) = (own, rating[own as usize]);
                let (mut liked, mut liked_rating) = (NONE, 0);
                let heavy = weight_of(level, v);
                for cluster in near.drain(..) {
                    let rated = std::mem::take(&mut rating[cluster as usize]);
                    if rated > liked_rating && cluster != own {
                        (liked, liked_rating) = (cluster, rated);
                    }
                    if cluster == own || rated < best_rating {
                        continue;
                    }
                    // Where two clusters are as good, either may be taken; staying needs no coin.
                    coins = coins.rotate_left(1).wrapping_mul(0x9E37_79B9_7F4A_7C15 | 1);
                    let wins = rated > best_rating || (best != own && coins >> 63 == 1);
                    let has_room = weight[cluster as usize] + heavy <= most
                        && size[cluster as usize] < merging.members
                        && same_home(level, v, cluster);
                    if wins && has_room {
                        (best, best_rating) = (cluster, rated);
                    }
                }
                favourite[v] = liked;
                if best != own {
                    label[v] = best;
                    weight[own as usize] -= heavy;
                    weight[best as usize] += heavy;
                    size[own as usize] -= 1;
                    size[best as usize] += 1;
                    clusters -= usize::from(size[own as usize] == 0);
                    moved += 1;
                    if clusters <= least {
                        break 'all;
                    }
                }
            }
        }
        if clusters <= least || moved * 20 < n {
            break;
        }
    }
    if clusters > least.max(n / 2) {
        meet(level, most, &favourite, &mut label, &mut weight, &mut size);
    }
    label
}

fn weight_of(level: &Level<'_>, v: usize) -> u64 {
    level.loads.first(v)
}

fn same_home(level: &Level<'_>, v: usize, cluster: u32) -> bool {
    // A cluster bears the number of one of its first vertices, which was at home where all of it is.
    level.home.as_ref().is_none_or(|home| home[v] == home[cluster as usize])
}

/// Merges vertices that are still alone with others that wished for the same cluster, and those without any neighbour
/// with each other.
fn meet(
    level: &Level<'_>,
    most: u64,
    favourite: &[u32],
    label: &mut [u32],
    weight: &mut [u64],
    size: &mut [u32],
) {
    let n = label.len();
    let mut waiting = vec![NONE; n];
    // Without a neighbour there is nobody to wish for: one queue for each home and each agent of greatest affinity.
    let mut alone: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for v in 0..n {
        if label[v] != v as u32 || size[v] != 1 {
            continue;
        }
        let home = level.home.as_ref().map_or(0, |home| home[v]);
        let queue = match favourite[v] {
            NONE => alone.entry((home, nearest_agent(level, v))).or_insert(NONE),
            liked => &mut waiting[liked as usize],
        };
        let first = *queue;
        let joins = first != NONE && weight[first as usize] + weight[v] <= most && same_home(level, v, first);
        if joins {
            label[v] = first;
            weight[first as usize] += weight[v];
            size[first as usize] += 1;
            size[v] = 0;
        } else {
            *queue = v as u32;
        }
    }
}

/// The part to whose agent a vertex has the greatest affinity.
fn nearest_agent(level: &Level<'_>, v: usize) -> u32 {
    let Some(affinities) = &level.affinities else { return 0 };
    let k = affinities.len() / level.vertices();
    let row = affinities[v * k..(v + 1) * k].iter().enumerate();
    row.max_by_key(|(_, affinity)| **affinity).map_or(0, |(part, _)| part as u32)
}

/// Makes one vertex of each cluster; answers the coarser graph and where each vertex went.
pub(in crate::split) fn contract(level: &Level<'_>, label: &[u32]) -> (Level<'static>, Vec<u32>) {
    let n = level.vertices();
    // Numbers in the order of first appearance keep neighbours near each other.
    let mut number = vec![NONE; n];
    let mut count = 0u32;
    let map: Vec<u32> = label
        .iter()
        .map(|cluster| {
            let number = &mut number[*cluster as usize];
            if *number == NONE {
                *number = count;
                count += 1;
            }
            *number
        })
        .collect();
    drop(number);
    let m = count as usize;
    let (starts, members) = gather(&map, m);
    let kinds = level.loads.kinds();
    let mut weights = vec![0u64; m * kinds];
    for (v, to) in map.iter().enumerate() {
        let to = *to as usize * kinds;
        weights[to..to + kinds].iter_mut().zip(level.loads.of(v)).for_each(|(sum, weight)| *sum += weight);
    }
    let mut offsets = Vec::with_capacity(m + 1);
    offsets.push(0);
    let mut arcs: Vec<Arc> = Vec::new();
    let mut place = vec![usize::MAX; m];
    for cluster in 0..m {
        let begin = arcs.len();
        for v in &members[starts[cluster]..starts[cluster + 1]] {
            for arc in level.graph.arcs(*v as usize) {
                let to = map[arc.to as usize];
                if to as usize == cluster {
                    continue;
                }
                let at = place[to as usize];
                if at >= begin && at < arcs.len() {
                    arcs[at].weight += arc.weight;
                } else {
                    place[to as usize] = arcs.len();
                    arcs.push(Arc { to, weight: arc.weight });
                }
            }
        }
        offsets.push(arcs.len());
    }
    arcs.shrink_to_fit();
    let affinities = level.affinities.as_ref().map(|fine| add_affinities(fine, &map, n, m));
    let home = level.home.as_ref().map(|home| {
        let mut coarse = vec![0; m];
        map.iter().zip(home).for_each(|(to, home)| coarse[*to as usize] = *home);
        coarse
    });
    let coarser = Level {
        graph: Cow::Owned(Graph::from_rows(offsets, arcs)),
        loads: Cow::Owned(Loads::from_rows(kinds, weights)),
        affinities: affinities.map(Cow::Owned),
        home,
    };
    (coarser, map)
}

fn add_affinities(fine: &[u32], map: &[u32], n: usize, m: usize) -> Vec<u32> {
    let k = fine.len() / n.max(1);
    let mut coarse = vec![0u32; m * k];
    for (to, row) in map.iter().zip(fine.chunks_exact(k.max(1))) {
        let to = *to as usize * k;
        coarse[to..to + k].iter_mut().zip(row).for_each(|(sum, affinity)| *sum += affinity);
    }
    coarse
}

/// The vertices of each cluster, one cluster after the other.
fn gather(map: &[u32], clusters: usize) -> (Vec<usize>, Vec<u32>) {
    let mut starts = vec![0usize; clusters + 1];
    map.iter().for_each(|to| starts[*to as usize + 1] += 1);
    for c in 0..clusters {
        starts[c + 1] += starts[c];
    }
    let mut next = starts.clone();
    let mut members = vec![0u32; map.len()];
    for (v, to) in map.iter().enumerate() {
        let at = &mut next[*to as usize];
        members[*at] = v as u32;
        *at += 1;
    }
    (starts, members)
}

/// Fisher and Yates.
pub(in crate::split) fn shuffle(items: &mut [u32], random: &mut dyn Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at as u64 + 1) as usize);
    }
}
