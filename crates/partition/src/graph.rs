//! A weighted, undirected graph in compressed rows: what partitioners work on.
//!
//! INVARIANT: every arc has its twin with the same weight, no vertex is joined to itself, the arcs of a vertex lead to
//! different vertices, and all weights together stay below [`WEIGHT_SUM_MAX`], so that no sum of them overflows.

use crate::Error;

/// Greatest sum of the weights of all edges, or of all affinities of agents.
pub const WEIGHT_SUM_MAX: u64 = 1 << 30;

/// One end of an edge, as seen from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    pub to: u32,
    pub weight: u32,
}

/// Vertices 0..n and weighted edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    offsets: Vec<usize>,
    arcs: Vec<Arc>,
}

impl Graph {
    /// A graph without edges.
    pub fn empty(vertices: usize) -> Graph {
        Graph { offsets: vec![0; vertices + 1], arcs: Vec::new() }
    }

    /// Makes a graph of edges in any order and direction. Edges that are named more than once are added up, loops are
    /// left out, as are edges of weight 0. Where the sum of weights is too large all are scaled down, none to 0.
    ///
    /// ```
    /// use farol_partition::Graph;
    /// let graph = Graph::from_edges(3, &[(0, 1, 2), (1, 0, 3), (2, 2, 9)]).unwrap();
    /// assert_eq!((graph.edges(), graph.weight()), (1, 5));
    /// ```
    ///
    /// # Errors
    /// Where an edge leads to a vertex that there is not.
    pub fn from_edges(vertices: usize, edges: &[(u32, u32, u32)]) -> Result<Graph, Error> {
        let mut sum = 0u64;
        let mut offsets = vec![0usize; vertices + 1];
        for (from, to, weight) in edges {
            let most = (*from).max(*to) as usize;
            if most >= vertices {
                return Err(Error::NoVertex { vertex: most as u64, vertices });
            }
            if from != to && *weight > 0 {
                offsets[*from as usize + 1] += 1;
                offsets[*to as usize + 1] += 1;
                sum += u64::from(*weight);
            }
        }
        for v in 0..vertices {
            offsets[v + 1] += offsets[v];
        }
        let shrink = sum.div_ceil(WEIGHT_SUM_MAX).max(1);
        let mut next = offsets.clone();
        let mut arcs = vec![Arc { to: 0, weight: 0 }; offsets[vertices]];
        for (from, to, weight) in edges {
            if from != to && *weight > 0 {
                let weight = (u64::from(*weight) / shrink).max(1) as u32;
                for (a, b) in [(*from, *to), (*to, *from)] {
                    arcs[next[a as usize]] = Arc { to: b, weight };
                    next[a as usize] += 1;
                }
            }
        }
        Ok(Graph::merged(offsets, arcs))
    }

    /// Like [`Graph::from_edges`] with weights of any scale: they are scaled so that their sum is [`WEIGHT_SUM_MAX`]
    /// times `share`. Weights that are not positive numbers are left out.
    ///
    /// # Errors
    /// As for [`Graph::from_edges`].
    pub fn scaled(vertices: usize, edges: &[(u32, u32, f64)], share: f64) -> Result<Graph, Error> {
        let counts = |weight: f64| weight.is_finite() && weight > 0.0;
        let sum: f64 =
            edges.iter().filter(|edge| edge.0 != edge.1 && counts(edge.2)).map(|edge| edge.2).sum();
        let scale = if sum > 0.0 { WEIGHT_SUM_MAX as f64 * share.clamp(0.0, 1.0) / sum } else { 0.0 };
        let whole = |weight: f64| (weight * scale).round() as u32;
        let edges: Vec<_> =
            edges.iter().filter(|edge| counts(edge.2)).map(|(a, b, w)| (*a, *b, whole(*w))).collect();
        Graph::from_edges(vertices, &edges)
    }

    /// Sorts each vertex's arcs and adds up those that lead to the same vertex.
    fn merged(offsets: Vec<usize>, mut arcs: Vec<Arc>) -> Graph {
        let mut merged = vec![0usize; offsets.len()];
        let mut end = 0;
        for v in 0..offsets.len() - 1 {
            let (from, to) = (offsets[v], offsets[v + 1]);
            arcs[from..to].sort_unstable_by_key(|arc| arc.to);
            let begin = end;
            for at in from..to {
                let arc = arcs[at];
                if end > begin && arcs[end - 1].to == arc.to {
                    arcs[end - 1].weight += arc.weight;
                } else {
                    arcs[end] = arc;
                    end += 1;
                }
            }
            merged[v + 1] = end;
        }
        arcs.truncate(end);
        arcs.shrink_to_fit();
        Graph { offsets: merged, arcs }
    }

    /// Takes rows that obey the invariants already; for coarser graphs made from finer ones.
    pub(crate) fn from_rows(offsets: Vec<usize>, arcs: Vec<Arc>) -> Graph {
        debug_assert_eq!(offsets.last(), Some(&arcs.len()));
        Graph { offsets, arcs }
    }

    pub fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn edges(&self) -> usize {
        self.arcs.len() / 2
    }

    /// Arcs of a vertex.
    #[inline]
    pub fn arcs(&self, vertex: usize) -> &[Arc] {
        &self.arcs[self.offsets[vertex]..self.offsets[vertex + 1]]
    }

    #[inline]
    pub fn degree(&self, vertex: usize) -> usize {
        self.offsets[vertex + 1] - self.offsets[vertex]
    }

    /// Sum of the weights of all edges.
    pub fn weight(&self) -> u64 {
        self.arcs.iter().map(|arc| u64::from(arc.weight)).sum::<u64>() / 2
    }

    /// Each edge once, with the lesser vertex first.
    pub fn each_edge(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        (0..self.vertices()).flat_map(move |v| {
            let later = self.arcs(v).iter().filter(move |arc| arc.to as usize > v);
            later.map(move |arc| (v as u32, arc.to, arc.weight))
        })
    }

    /// Weight of the edges whose ends are in different parts.
    pub fn cut(&self, part: &[u32]) -> u64 {
        let outside = |v: usize| {
            let arcs = self.arcs(v).iter().filter(|arc| part[arc.to as usize] != part[v]);
            arcs.map(|arc| u64::from(arc.weight)).sum::<u64>()
        };
        (0..self.vertices()).map(outside).sum::<u64>() / 2
    }

    /// Offsets and arcs, for those who hand the graph to another program.
    pub fn rows(&self) -> (&[usize], &[Arc]) {
        (&self.offsets, &self.arcs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_added_up_and_loops_go() {
        let graph = Graph::from_edges(4, &[(2, 0, 5), (0, 1, 1), (1, 0, 2), (3, 3, 7), (1, 2, 0)]).unwrap();
        assert_eq!(graph.arcs(0), [Arc { to: 1, weight: 3 }, Arc { to: 2, weight: 5 }]);
        assert_eq!((graph.degree(3), graph.edges(), graph.weight()), (0, 2, 8));
        assert_eq!(graph.cut(&[0, 0, 1, 1]), 5);
        assert_eq!(graph.each_edge().collect::<Vec<_>>(), [(0, 1, 3), (0, 2, 5)]);
    }

    #[test]
    fn a_vertex_that_there_is_not_is_an_error() {
        let error = Graph::from_edges(2, &[(0, 2, 1)]).unwrap_err();
        assert_eq!(error.to_string(), "an edge leads to vertex 2, but there are only 2 vertices");
        assert_eq!(Graph::from_edges(0, &[]).unwrap().vertices(), 0);
    }

    #[test]
    fn huge_weights_are_scaled_and_nonsense_is_left_out() {
        let graph = Graph::from_edges(3, &[(0, 1, u32::MAX), (1, 2, 1)]).unwrap();
        assert!(graph.weight() <= WEIGHT_SUM_MAX && graph.arcs(2)[0].weight == 1);
        let edges = [(0, 1, 1e300), (1, 2, f64::NAN), (0, 2, -1.0), (2, 0, f64::INFINITY)];
        let graph = Graph::scaled(3, &edges, 1.0).unwrap();
        assert_eq!((graph.edges(), graph.weight()), (1, WEIGHT_SUM_MAX));
        assert_eq!(Graph::scaled(2, &[], 1.0).unwrap().edges(), 0);
    }
}
