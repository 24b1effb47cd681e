//! What vertices weigh and what parts bear [Exposto08 §5.1].
//!
//! Weights come in kinds. The first is pages; a second may count the servers that are too dense for one agent to have
//! many of them. A part's fair share of each kind goes by the agent's capacity.

use crate::Error;

/// Weights of vertices, in one or more kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loads {
    kinds: usize,
    /// Vertex by vertex.
    weights: Vec<u64>,
}

impl Loads {
    /// Pages of each vertex.
    pub fn pages(pages: Vec<u64>) -> Loads {
        Loads { kinds: 1, weights: pages }
    }

    /// Every vertex weighs the same.
    pub fn equal(vertices: usize) -> Loads {
        Loads::pages(vec![1; vertices])
    }

    /// Pages, and whether each server is *dense*: has more pages than one of an agent's connections should carry, so
    /// that an agent with several of them cannot use its connections (C5).
    pub fn with_dense(pages: Vec<u64>, dense_from: u64) -> Loads {
        let weights = pages.iter().flat_map(|pages| [*pages, u64::from(*pages >= dense_from.max(1))]);
        Loads { kinds: 2, weights: weights.collect() }
    }

    pub(crate) fn from_rows(kinds: usize, weights: Vec<u64>) -> Loads {
        Loads { kinds, weights }
    }

    pub fn kinds(&self) -> usize {
        self.kinds
    }

    pub fn vertices(&self) -> usize {
        self.weights.len() / self.kinds
    }

    /// All kinds of one vertex.
    #[inline]
    pub fn of(&self, vertex: usize) -> &[u64] {
        &self.weights[vertex * self.kinds..(vertex + 1) * self.kinds]
    }

    /// Pages of one vertex.
    #[inline]
    pub fn first(&self, vertex: usize) -> u64 {
        self.weights[vertex * self.kinds]
    }

    pub fn total(&self, kind: usize) -> u64 {
        self.weights.iter().skip(kind).step_by(self.kinds).sum()
    }

    /// Load of each part, by kind.
    pub fn by_part(&self, part: &[u32], parts: usize) -> Vec<Vec<u64>> {
        let mut loads = vec![vec![0; parts]; self.kinds];
        for (v, part) in part.iter().enumerate() {
            for (kind, weight) in self.of(v).iter().enumerate() {
                loads[kind][*part as usize] += weight;
            }
        }
        loads
    }
}

/// What each part bears.
#[derive(Clone, Debug, PartialEq)]
pub struct Balance {
    parts: usize,
    /// By kind, then part.
    fair: Vec<f64>,
    limits: Vec<u64>,
    /// Least load of pages of each part; 0 where any will do.
    floors: Vec<u64>,
}

impl Balance {
    /// Parts with these capacities, relative to each other; each bears its fair share and `slack` more (0.03 is 3 %).
    ///
    /// # Errors
    /// Where there is no part, or a capacity is not a number above 0. Slack that is not is taken as 0.
    pub fn new(loads: &Loads, capacities: &[f64], slack: f64) -> Result<Balance, Error> {
        if capacities.is_empty() {
            return Err(Error::NoAgents);
        }
        for (part, value) in capacities.iter().enumerate() {
            if !(value.is_finite() && *value > 0.0) {
                let whose = format!("agent {part}");
                return Err(Error::Number { what: "capacity", whose, value: *value });
            }
        }
        let slack = if slack.is_finite() { slack.max(0.0) } else { 0.0 };
        let sum: f64 = capacities.iter().sum();
        let (mut fair, mut limits) = (Vec::new(), Vec::new());
        for kind in 0..loads.kinds() {
            let total = loads.total(kind) as f64;
            for capacity in capacities {
                let share = total * capacity / sum;
                fair.push(share);
                // Whole vertices cannot be shared more fairly than this; scarce kinds need a whole one of slack.
                let more = if kind == 0 { share * slack } else { (share * slack).max(1.0) };
                limits.push((share + more).floor().max(share.ceil()) as u64);
            }
        }
        Ok(Balance { parts: capacities.len(), fair, limits, floors: vec![0; capacities.len()] })
    }

    /// The same parts, none of which should get less than its share by more than `slack`, as far as whole vertices
    /// allow.
    pub fn with_floors(mut self, slack: f64) -> Balance {
        let least = 1.0 - if slack.is_finite() { slack.clamp(0.0, 1.0) } else { 1.0 };
        self.floors = self.fair().iter().map(|fair| (fair * least) as u64).collect();
        self
    }

    /// Equal parts.
    ///
    /// # Errors
    /// Where there is no part.
    pub fn equal(loads: &Loads, parts: usize, slack: f64) -> Result<Balance, Error> {
        Balance::new(loads, &vec![1.0; parts], slack)
    }

    pub fn parts(&self) -> usize {
        self.parts
    }

    pub fn kinds(&self) -> usize {
        self.limits.len() / self.parts.max(1)
    }

    /// Greatest load of each part; by kind, then part.
    pub fn limits(&self) -> &[u64] {
        &self.limits
    }

    /// Least load of pages of each part.
    pub fn floors(&self) -> &[u64] {
        &self.floors
    }

    /// Fair share of pages of each part.
    pub fn fair(&self) -> &[f64] {
        &self.fair[..self.parts]
    }

    /// Greatest load of pages as a share of the fair one.
    pub fn overload(&self, loads: &[Vec<u64>]) -> f64 {
        let pages = loads.first().map_or(&[][..], |pages| pages);
        let shares =
            pages.iter().zip(self.fair()).map(|(load, fair)| *load as f64 / fair.max(f64::MIN_POSITIVE));
        if self.fair().iter().all(|fair| *fair == 0.0) { 1.0 } else { shares.fold(0.0, f64::max) }
    }

    /// The same parts with other limits; what a part bears less it needs less.
    pub(crate) fn with_limits(&self, limits: Vec<u64>) -> Balance {
        debug_assert_eq!(limits.len(), self.limits.len());
        let less = self.limits.iter().zip(&limits).map(|(before, now)| before.saturating_sub(*now));
        let floors = self.floors.iter().zip(less).map(|(floor, less)| floor.saturating_sub(less)).collect();
        Balance { limits, floors, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_go_by_capacity() {
        let loads = Loads::pages(vec![50, 30, 20]);
        let balance = Balance::new(&loads, &[3.0, 1.0], 0.1).unwrap();
        assert_eq!(balance.limits(), [82, 27]);
        assert_eq!(balance.fair(), [75.0, 25.0]);
        assert_eq!(balance.floors(), [0, 0]);
        let floored = balance.clone().with_floors(0.1);
        assert_eq!((floored.floors(), floored.limits()), (&[67, 22][..], balance.limits()));
        assert_eq!(floored.with_limits(vec![40, 27]).floors(), [25, 22]);
        assert!((balance.overload(&loads.by_part(&[0, 1, 0], 2)) - 1.2).abs() < 1e-9);
    }

    #[test]
    fn dense_servers_are_a_kind_of_their_own() {
        let loads = Loads::with_dense(vec![100, 1, 90, 5], 50);
        assert_eq!((loads.total(0), loads.total(1)), (196, 2));
        assert_eq!(loads.by_part(&[0, 0, 1, 1], 2), [vec![101, 95], vec![1, 1]]);
        assert_eq!(Balance::equal(&loads, 2, 0.0).unwrap().limits(), [98, 98, 2, 2]);
    }

    #[test]
    fn nonsense_is_refused_or_harmless() {
        let loads = Loads::equal(3);
        assert_eq!(Balance::new(&loads, &[], 0.1).unwrap_err(), Error::NoAgents);
        for capacity in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Balance::new(&loads, &[1.0, capacity], 0.1).is_err());
        }
        assert_eq!(Balance::new(&loads, &[1.0], f64::NAN).unwrap().limits(), [3]);
        let none = Loads::pages(vec![]);
        assert_eq!(Balance::equal(&none, 2, 0.1).unwrap().overload(&none.by_part(&[], 2)), 1.0);
    }
}
