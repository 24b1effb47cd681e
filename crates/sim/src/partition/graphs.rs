//! Graphs of several shapes, for races of partitioners: what is good on one may be bad on another.

use super::web::{Web, WebCounts, made_cities};
use farol_base::{Random, Seeded};
use farol_partition::Graph;

/// The shape of a made graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Links at all distances of a line, and to popular vertices of each neighbourhood: see [`grown_graph`].
    Grown,
    /// Hosts of a made Web with communities, weighted by how many links join them.
    Hosts,
    /// Preferential attachment: hubs, and next to no communities.
    Popular,
    /// A square mesh with holes, as streets are: small cuts, found only by shape.
    Mesh,
    /// Separate sites of very different sizes, each a shallow tree with links across, few links between sites.
    Sites,
}

impl Shape {
    pub const ALL: [Shape; 5] = [Shape::Grown, Shape::Hosts, Shape::Popular, Shape::Mesh, Shape::Sites];

    pub fn name(self) -> &'static str {
        match self {
            Shape::Grown => "made: grown",
            Shape::Hosts => "made: hosts",
            Shape::Popular => "made: popular",
            Shape::Mesh => "made: mesh",
            Shape::Sites => "made: sites",
        }
    }

    /// A graph of this shape with about so many vertices.
    pub fn make(self, vertices: usize, seed: u64) -> Graph {
        let vertices = vertices.max(64);
        match self {
            Shape::Grown => grown_graph(vertices, 10 * vertices, seed),
            Shape::Hosts => hosts(vertices, seed),
            Shape::Popular => popular(vertices, seed),
            Shape::Mesh => mesh(vertices, seed),
            Shape::Sites => sites(vertices, seed),
        }
    }
}

fn of_edges(vertices: usize, edges: &[(u32, u32, u32)]) -> Graph {
    Graph::from_edges(vertices, edges).unwrap_or_else(|_| Graph::empty(vertices))
}

fn hosts(vertices: usize, seed: u64) -> Graph {
    let hosts = vertices as u32;
    let counts = WebCounts {
        urls: 40 * hosts,
        links: 160 * hosts,
        hosts,
        addresses: hosts / 4,
        densest: 4 * hosts,
        external: 0.15,
        locality: 0.75,
        community: 60,
    };
    of_edges(vertices, &Web::make(&counts, made_cities(seed), seed).host_links)
}

fn popular(vertices: usize, seed: u64) -> Graph {
    let mut random = Seeded::new(seed);
    let mut ends: Vec<u32> = vec![0, 1];
    let mut edges = vec![(0, 1, 1)];
    for v in 2..vertices as u32 {
        for _ in 0..5.min(v) {
            let to = ends[random.below(ends.len() as u64) as usize];
            edges.push((v, to, 1));
            ends.extend([v, to]);
        }
    }
    of_edges(vertices, &edges)
}

fn mesh(vertices: usize, seed: u64) -> Graph {
    let mut random = Seeded::new(seed);
    let side = (vertices as f64).sqrt().ceil() as u32;
    let mut edges = Vec::new();
    for row in 0..side {
        for column in 0..side {
            let v = row * side + column;
            if column + 1 < side && random.below(10) < 8 {
                edges.push((v, v + 1, 1));
            }
            if row + 1 < side && random.below(10) < 8 {
                edges.push((v, v + side, 1));
            }
        }
    }
    of_edges((side * side) as usize, &edges)
}

fn sites(vertices: usize, seed: u64) -> Graph {
    let mut random = Seeded::new(seed);
    let mut first: Vec<u32> = vec![0];
    let mut end = 0;
    while end < vertices as u32 {
        // Sizes by a power law from 20 pages to a twentieth of all.
        let size = 20.0 / (1.0 - random.unit()).powf(0.8);
        end = (end + (size.min(vertices as f64 / 20.0)) as u32).min(vertices as u32);
        first.push(end);
    }
    let mut edges = Vec::new();
    for site in first.windows(2) {
        let (from, to) = (site[0], site[1]);
        for v in from + 1..to {
            let above = from + (random.unit().powi(3) * f64::from(v - from)) as u32;
            edges.push((above, v, 1));
            // Links within a neighbourhood of the site, and to its front pages.
            for _ in 0..6 {
                let near = from + (v - from).saturating_sub(random.below(60) as u32);
                edges.push((v, near, 1));
            }
            edges.push((v, from + random.below(5.min(u64::from(to - from))) as u32, 1));
            if random.below(200) == 0 {
                let other = first[random.below(first.len() as u64 - 1) as usize];
                edges.push((v, other, 1));
            }
        }
    }
    of_edges(vertices, &edges)
}

/// A graph that grows to any size: links at all distances of a line, few of them far, and some to popular vertices.
pub fn grown_graph(vertices: usize, edges: usize, seed: u64) -> Graph {
    let mut random = Seeded::new(seed);
    let n = vertices.max(2) as u64;
    let far = (n as f64 / 2.0).ln();
    let list: Vec<(u32, u32, u32)> = (0..edges)
        .map(|_| {
            let a = random.below(n);
            let b = if random.below(10) == 0 {
                // Popular ones in every neighbourhood of a thousand.
                let hub = (random.unit().powi(4) * 1000.0) as u64;
                (a / 1000 * 1000 + hub).min(n - 1)
            } else {
                let step = (random.unit() * far).exp() as u64 + 1;
                if random.below(2) == 0 { (a + step) % n } else { (a + n - step) % n }
            };
            (a as u32, b as u32, 1)
        })
        .collect();
    Graph::from_edges(vertices.max(2), &list).unwrap_or_else(|_| Graph::empty(vertices))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_has_the_size_that_was_asked_for_and_hangs_together() {
        for shape in Shape::ALL {
            let graph = shape.make(3000, 1);
            assert!((3000..3100).contains(&graph.vertices()), "{}: {}", shape.name(), graph.vertices());
            assert!(graph.edges() > graph.vertices(), "{}: {} edges", shape.name(), graph.edges());
            assert_eq!(graph, shape.make(3000, 1), "{} is not the same again", shape.name());
        }
    }
}
