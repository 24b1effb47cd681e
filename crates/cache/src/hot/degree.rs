//! On how many nodes a hot query is served [Gomez14 §4.3.2, Algorithm 2].
//!
//! The capacity that is compared with is dynamic and of the top queries alone: `C_d = Σ f(q) / P`. A query above it
//! needs `r(q) = ⌈f(q) / C_d⌉` nodes. Both sides are counts of one interval, so a sample of the stream gives the same.

/// A query's required number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Degree {
    pub hash: u64,
    /// Nodes in all, the owner among them.
    pub nodes: usize,
}

/// `C_d` of these frequencies on so many nodes; 0 where there is nothing.
pub fn dynamic_capacity(frequencies: impl Iterator<Item = f64>, nodes: usize) -> f64 {
    let sum: f64 = frequencies.filter(|frequency| frequency.is_finite() && *frequency > 0.0).sum();
    if nodes == 0 { 0.0 } else { sum / nodes as f64 }
}

/// Algorithm 2: the top queries that need more than one node, and how many they need.
pub fn degrees(top: &[(u64, f64)], nodes: usize) -> Vec<Degree> {
    let capacity = dynamic_capacity(top.iter().map(|(_, frequency)| *frequency), nodes);
    if capacity <= 0.0 {
        return Vec::new();
    }
    top.iter()
        .filter(|(_, frequency)| *frequency > capacity)
        .map(|(hash, frequency)| Degree {
            hash: *hash,
            nodes: ((frequency / capacity).ceil() as usize).min(nodes),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 4.1, January 2012, in per cent of the traffic.
    const TOP: [f64; 30] = [
        2.59, 0.97, 0.72, 0.44, 0.32, 0.28, 0.25, 0.23, 0.21, 0.18, 0.18, 0.17, 0.17, 0.16, 0.16, 0.14, 0.11,
        0.11, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.09, 0.09, 0.09, 0.09,
    ];

    #[test]
    fn degrees_of_january_2012() {
        // The worked example of [Gomez14 §4.5].
        let check = |k: usize, nodes: usize, sum: f64, capacity: f64, want: &[usize]| {
            let top: Vec<(u64, f64)> = TOP[..k].iter().enumerate().map(|(i, f)| (i as u64, *f)).collect();
            let got = dynamic_capacity(TOP[..k].iter().copied(), nodes);
            assert!((got - capacity).abs() < 1e-4 && (got * nodes as f64 - sum).abs() < 1e-9, "C_d {got}");
            let degrees: Vec<usize> = degrees(&top, nodes).iter().map(|degree| degree.nodes).collect();
            assert_eq!(degrees, want, "k {k} P {nodes}");
        };
        check(20, 20, 7.59, 0.3795, &[7, 3, 2, 2]);
        check(30, 20, 8.55, 0.4275, &[7, 3, 2, 2]);
        check(20, 30, 7.59, 0.2530, &[11, 4, 3, 2, 2, 2]);
        check(30, 30, 8.55, 0.2850, &[10, 4, 3, 2, 2]);
    }

    #[test]
    fn a_sample_of_the_stream_gives_the_same_degrees() {
        let whole: Vec<(u64, f64)> = TOP.iter().enumerate().map(|(i, f)| (i as u64, f * 1e5)).collect();
        let sample: Vec<(u64, f64)> = TOP.iter().enumerate().map(|(i, f)| (i as u64, f * 1e3)).collect();
        assert_eq!(degrees(&whole, 30), degrees(&sample, 30));
    }

    #[test]
    fn nonsense_needs_no_nodes() {
        assert!(degrees(&[], 10).is_empty());
        assert!(degrees(&[(1, 5.0)], 0).is_empty());
        assert!(degrees(&[(1, f64::NAN), (2, 0.0), (3, -4.0)], 10).is_empty());
        // A single query is all of the top: it needs every node.
        assert_eq!(degrees(&[(1, 5.0)], 10), [Degree { hash: 1, nodes: 10 }]);
    }
}
