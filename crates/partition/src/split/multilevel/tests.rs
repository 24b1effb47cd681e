//! Small graphs whose best split is known, hostile ones, and random ones beside a naive method.

use super::*;
use crate::split::{FREE, Flat};
use farol_base::Random;
use proptest::prelude::*;

/// Cliques of `size` vertices, one edge from each to the next.
fn cliques(count: usize, size: usize) -> Graph {
    let mut edges = Vec::new();
    for c in 0..count {
        let at = |v: usize| (c * size + v) as u32;
        for a in 0..size {
            (0..a).for_each(|b| edges.push((at(a), at(b), 1)));
        }
        edges.push((at(0), (((c + 1) % count) * size + 1) as u32, 1));
    }
    Graph::from_edges(count * size, &edges).unwrap()
}

fn split(graph: &Graph, pages: Vec<u64>, k: usize, slack: f64) -> Split {
    let loads = Loads::pages(pages);
    let balance = Balance::equal(&loads, k, slack).unwrap();
    Multilevel::default().split(&Problem::new(graph, &loads, &balance)).unwrap()
}

#[test]
fn cliques_stay_whole() {
    for (count, k) in [(8, 2), (8, 4), (8, 8), (40, 8), (120, 6)] {
        let graph = cliques(count, 10);
        let split = split(&graph, vec![1; count * 10], k, 0.03);
        assert_eq!(split.overload, 1.0, "{count} cliques in {k} parts");
        for clique in split.part.chunks(10) {
            assert!(
                clique.iter().all(|part| *part == clique[0]),
                "{count} cliques in {k} parts: {:?} cut {}",
                split.part,
                split.cut
            );
        }
        // Two borders for each part, if neighbouring cliques stay together too.
        assert!(split.cut <= 2 * k as u64, "{} cut, {count} cliques in {k} parts", split.cut);
    }
}

/// The least that any balanced split in two cuts.
fn least_cut(graph: &Graph, pages: &[u64], limits: &[u64]) -> u64 {
    let n = pages.len();
    let splits = (0u32..1 << n).map(|bits| (0..n).map(|v| bits >> v & 1).collect::<Vec<u32>>());
    let fair = splits.filter(|part| {
        let load: u64 = (0..n).filter(|v| part[*v] == 0).map(|v| pages[v]).sum();
        load <= limits[0] && pages.iter().sum::<u64>() - load <= limits[1]
    });
    fair.map(|part| graph.cut(&part)).min().unwrap()
}

#[test]
fn small_graphs_without_places_are_split_almost_as_well_as_can_be() {
    let mut random = Seeded::new(5);
    for _ in 0..30 {
        let n = 8 + random.below(5) as usize;
        let edges: Vec<(u32, u32, u32)> = (0..n as u32)
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .map(|(a, b)| (a, b, 1 + random.below(9) as u32))
            .collect();
        let graph = Graph::from_edges(n, &edges).unwrap();
        let pages: Vec<u64> = (0..n).map(|_| 5 + random.below(5)).collect();
        let balance = Balance::equal(&Loads::pages(pages.clone()), 2, 0.05).unwrap();
        let found = split(&graph, pages.clone(), 2, 0.05);
        let least = least_cut(&graph, &pages, balance.limits());
        assert!(found.cut as f64 <= 1.05 * least as f64, "{} instead of {least}", found.cut);
    }
}

#[test]
fn a_grid_is_cut_straight() {
    let n = 60;
    let mut edges = Vec::new();
    for y in 0..n {
        for x in 0..n {
            if x + 1 < n {
                edges.push((y * n + x, y * n + x + 1, 1));
            }
            if y + 1 < n {
                edges.push((y * n + x, y * n + x + n, 1));
            }
        }
    }
    let graph = Graph::from_edges((n * n) as usize, &edges).unwrap();
    let split = split(&graph, vec![1; (n * n) as usize], 2, 0.03);
    assert!(split.cut <= 66, "{}", split.cut);
    assert!(split.overload <= 1.03);
}

#[test]
fn agents_get_what_has_an_affinity_to_them() {
    // No edges, ten vertices with an affinity to each of three agents.
    let graph = Graph::empty(30);
    let loads = Loads::equal(30);
    let balance = Balance::equal(&loads, 3, 0.0).unwrap();
    let affinities: Vec<u32> =
        (0..30).flat_map(|v| (0..3).map(move |j| if v % 3 == j { 9 } else { 1 })).collect();
    let problem = Problem { affinities: Some(&affinities), ..Problem::new(&graph, &loads, &balance) };
    for split in [Multilevel::default().split(&problem).unwrap(), Flat::default().split(&problem).unwrap()] {
        assert!(split.part.iter().enumerate().all(|(v, part)| v as u32 % 3 == *part));
        assert_eq!(split.affinity_cut, 60);
    }
}

#[test]
fn fixed_vertices_stay_and_draw_their_neighbours() {
    let graph = cliques(4, 8);
    let loads = Loads::equal(32);
    let balance = Balance::equal(&loads, 4, 0.03).unwrap();
    let mut fixed = vec![FREE; 32];
    for (clique, part) in [(0, 3), (1, 2), (2, 1), (3, 0)] {
        fixed[clique * 8 + 5] = part;
    }
    let problem = Problem { fixed: Some(&fixed), ..Problem::new(&graph, &loads, &balance) };
    let split = Multilevel::default().split(&problem).unwrap();
    let want: Vec<u32> = [3, 2, 1, 0].iter().flat_map(|part| [*part; 8]).collect();
    assert_eq!(split.part, want);
}

#[test]
fn one_host_with_half_of_all_pages_has_an_agent_to_itself() {
    let mut pages = vec![10; 101];
    pages[7] = 1000;
    let graph = cliques(1, 101);
    let split = split(&graph, pages, 4, 0.05);
    let alone: Vec<usize> = (0..101).filter(|v| split.part[*v] == split.part[7]).collect();
    assert_eq!(alone, [7]);
    let mut loads = split.loads[0].clone();
    loads.sort_unstable();
    assert!(loads[0] >= 300 && loads[2] <= 360 && loads[3] == 1000, "{loads:?}");
}

#[test]
fn odd_graphs_have_answers() {
    // More parts than hosts.
    let three = Graph::from_edges(3, &[(0, 1, 1), (1, 2, 1)]).unwrap();
    let answer = split(&three, vec![1; 3], 8, 0.03);
    assert!(answer.part.iter().all(|part| *part < 8));
    assert_eq!(answer.loads[0].iter().max(), Some(&1));
    // Nothing at all, nothing but loops, no pages, huge pages.
    assert!(split(&Graph::empty(0), vec![], 3, 0.03).part.is_empty());
    assert_eq!(split(&Graph::empty(9), vec![0; 9], 3, 0.03).part.len(), 9);
    let huge = split(&Graph::empty(6), vec![u64::MAX >> 8; 6], 3, 0.03);
    assert_eq!(huge.loads[0], vec![(u64::MAX >> 8) * 2; 3]);
    // Disconnected: 500 pairs.
    let pairs: Vec<_> = (0..500).map(|v| (2 * v, 2 * v + 1, 1)).collect();
    let pairs = Graph::from_edges(1000, &pairs).unwrap();
    let answer = split(&pairs, vec![1; 1000], 7, 0.03);
    assert!(answer.overload <= 1.03 && answer.cut <= 4, "{} {}", answer.overload, answer.cut);
    // A star: the leaves must be shared out, whatever it costs.
    let star: Vec<_> = (1..2000).map(|v| (0, v, 1)).collect();
    let star = Graph::from_edges(2000, &star).unwrap();
    let answer = split(&star, vec![1; 2000], 4, 0.03);
    assert!(answer.overload <= 1.03 && answer.cut <= 1500, "{} {}", answer.overload, answer.cut);
}

#[test]
fn what_does_not_fit_together_is_said() {
    let graph = Graph::empty(3);
    let loads = Loads::equal(2);
    let balance = Balance::equal(&loads, 2, 0.1).unwrap();
    let error = Multilevel::default().split(&Problem::new(&graph, &loads, &balance)).unwrap_err();
    assert_eq!(error.to_string(), "2 values of weight were given for 3; give one for each");
    let loads = Loads::equal(3);
    let problem = Problem { fixed: Some(&[0, FREE, 9]), ..Problem::new(&graph, &loads, &balance) };
    assert!(Flat::default().split(&problem).unwrap_err().to_string().contains("part 9"));
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let graph = cliques(50, 12);
    assert_eq!(split(&graph, vec![1; 600], 5, 0.03), split(&graph, vec![1; 600], 5, 0.03));
}

/// A random graph in which most edges stay within groups of 25.
fn grouped(n: u32, edges: usize, seed: u64) -> Graph {
    let mut random = Seeded::new(seed);
    let edges: Vec<_> = (0..edges)
        .map(|_| {
            let a = random.below(u64::from(n)) as u32;
            let near = a / 25 * 25 + random.below(25) as u32;
            let b = if random.below(10) < 8 { near.min(n - 1) } else { random.below(u64::from(n)) as u32 };
            (a, b, 1 + random.below(3) as u32)
        })
        .collect();
    Graph::from_edges(n as usize, &edges).unwrap()
}

#[test]
fn levels_beat_the_flat_method() {
    let graph = grouped(2000, 10_000, 3);
    let loads = Loads::equal(2000);
    let balance = Balance::equal(&loads, 8, 0.03).unwrap();
    let problem = Problem::new(&graph, &loads, &balance);
    let levels = Multilevel::default().split(&problem).unwrap();
    let flat = Flat::default().split(&problem).unwrap();
    assert!(levels.overload <= 1.03 && flat.overload <= 1.03);
    assert!(levels.cut < flat.cut, "{} against {}", levels.cut, flat.cut);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_split_is_whole_balanced_and_counted_right(
        n in 1u32..300, edges in 0usize..900, k in 1usize..9, seed in any::<u64>(), heavy in 0u64..50,
    ) {
        let graph = grouped(n, edges, seed);
        let mut random = Seeded::new(seed);
        let pages: Vec<u64> = (0..n).map(|_| 1 + random.below(heavy + 1)).collect();
        let greatest = *pages.iter().max().unwrap();
        let loads = Loads::pages(pages);
        let balance = Balance::equal(&loads, k, 0.1).unwrap();
        let affinities: Vec<u32> = (0..n as usize * k).map(|_| random.below(5) as u32).collect();
        let problem = Problem { affinities: Some(&affinities), ..Problem::new(&graph, &loads, &balance) };
        let split = Multilevel { seed, ..Multilevel::default() }.split(&problem).unwrap();
        prop_assert_eq!(split.part.len(), n as usize);
        prop_assert!(split.part.iter().all(|part| (*part as usize) < k));
        let recounted: u64 = graph.each_edge()
            .filter(|(a, b, _)| split.part[*a as usize] != split.part[*b as usize]).map(|edge| u64::from(edge.2)).sum();
        prop_assert_eq!(split.cut, recounted);
        // Whole hosts cannot be shared out more finely than by the heaviest.
        let limit = balance.limits()[0] + greatest;
        prop_assert!(split.loads[0].iter().all(|load| *load <= limit), "{:?} beyond {}", split.loads, limit);
    }
}
