//! The algebraic cost model [Exposto08 §5.2.2, eqs. 5.1 to 5.3].

use farol_partition::Space;

/// Constants of the model; defaults are the thesis' [Exposto08 §5.2.2].
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Bytes of a page.
    pub page_bytes: f64,
    /// Bytes of a URL.
    pub url_bytes: f64,
    /// Pages fetched on one connection to a server.
    pub pages_per_connection: f64,
    /// Connections at a time; also links forwarded at a time.
    pub connections: f64,
    /// Seconds between connections to a server.
    pub politeness: f64,
    /// Bytes a second.
    pub bandwidth: f64,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            page_bytes: 10_000.0,
            url_bytes: 40.0,
            pages_per_connection: 10.0,
            connections: 10.0,
            politeness: 15.0,
            bandwidth: 16_000.0 / 8.0,
        }
    }
}

/// URLs from each agent to each other, agent by agent.
#[derive(Clone, Debug)]
pub struct Flow {
    k: usize,
    counts: Vec<u64>,
}

impl Flow {
    pub fn new(k: usize) -> Flow {
        Flow { k, counts: vec![0; k * k] }
    }

    pub fn add(&mut self, from: u32, to: u32, count: u64) {
        self.counts[from as usize * self.k + to as usize] += count;
    }

    /// Links between servers of different agents.
    pub fn of_links(space: &Space, part: &[u32]) -> Flow {
        let mut flow = Flow::new(space.parts());
        for (a, b, links) in &space.links {
            flow.add(part[*a as usize], part[*b as usize], u64::from(*links));
        }
        flow
    }

    /// Pages whose owner changes; agents of before are the first ones of now.
    pub fn of_moves(space: &Space, before: &[u32], after: &[u32]) -> Flow {
        let mut flow = Flow::new(space.parts());
        for (s, server) in space.servers.iter().enumerate() {
            flow.add(before[s], after[s], server.pages);
        }
        flow
    }

    /// What goes from somebody to somebody else.
    pub fn moved(&self) -> u64 {
        let all: u64 = self.counts.iter().sum();
        all - (0..self.k).map(|j| self.counts[j * self.k + j]).sum::<u64>()
    }
}

impl Model {
    /// Download time in seconds of the slowest agent (5.1, 5.2), and what the densest server alone takes, which no
    /// number of connections shortens.
    pub fn download(&self, space: &Space, part: &[u32]) -> (f64, f64) {
        let mut times = vec![0.0; space.parts()];
        let mut longest: f64 = 0.0;
        for (s, server) in space.servers.iter().enumerate() {
            let j = part[s] as usize;
            let rtt = space.rtt(s, j).unwrap_or(0.0) / 1000.0;
            let per_connection =
                2.0 * rtt + self.pages_per_connection * self.page_bytes / self.bandwidth + self.politeness;
            let time = server.pages as f64 / self.pages_per_connection * per_connection;
            times[j] += time;
            longest = longest.max(time);
        }
        (times.into_iter().fold(0.0, f64::max) / self.connections, longest)
    }

    /// Time in seconds of the agent that takes longest to send its URLs (5.3); also for relocation.
    pub fn exchange(&self, flow: &Flow, agents_rtt: impl Fn(usize, usize) -> f64) -> f64 {
        let one = |j: usize| -> f64 {
            let others = (0..flow.k).filter(|l| *l != j);
            let times = others.map(|l| {
                let urls = flow.counts[j * flow.k + l] as f64;
                2.0 * agents_rtt(j, l) / 1000.0 + self.url_bytes * urls / self.bandwidth
            });
            times.sum::<f64>() / self.connections
        };
        (0..flow.k).map(one).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_partition::{Agent, Server};

    #[test]
    fn the_formulas_are_those_of_the_thesis() {
        let server = |pages| Server { pages, ..Server::default() };
        let space = Space {
            servers: vec![server(100), server(40), server(10)],
            links: vec![(0, 1, 7), (1, 2, 5), (2, 0, 3)],
            agents: vec![Agent::named("a"), Agent::named("b")],
            rtt: vec![100.0, 900.0, 900.0, 100.0, 900.0, 100.0],
        };
        let model = Model::default();
        // (5.1) 100/10 · (0.2 + 10·10000/2000 + 15) = 652; (5.2) over 10 connections.
        let (time, densest) = model.download(&space, &[0, 1, 1]);
        assert!((time - 65.2).abs() < 1e-9 && (densest - 652.0).abs() < 1e-9, "{time} {densest}");
        // (5.3) agent 0 sends 7 URLs: (2·0.05 + 40·7/2000) / 10; agent 1 sends 3.
        let flow = Flow::of_links(&space, &[0, 1, 1]);
        assert_eq!(flow.moved(), 10);
        assert!((model.exchange(&flow, |_, _| 50.0) - 0.024).abs() < 1e-9);
        let moves = Flow::of_moves(&space, &[0, 0, 0], &[0, 1, 0]);
        assert_eq!(moves.moved(), 40);
    }
}
