//! What a crawl knows of hosts, as text: the file of `farol export graph` (docs/formats/graph.md).
//!
//! Several agents' files can be read together: hosts are known by name, counts of links and pages are those of whoever
//! has most, round-trip times are each agent's own.

use crate::geo::Position;
use crate::{Agent, Error, Server, Space};
use std::collections::HashMap;
use std::fmt::Write;

/// First line of a file.
const HEADER: &str = "farol-graph\t1";

/// A space as it is exported: agents only where somebody measured.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    pub servers: Vec<Server>,
    /// From, to, how many links.
    pub links: Vec<(u32, u32, u32)>,
    pub agents: Vec<Agent>,
    /// Server, agent, milliseconds.
    pub rtt: Vec<(u32, u32, f64)>,
}

impl Exported {
    /// Writes all of it.
    pub fn write(&self) -> String {
        let mut out = format!("{HEADER}\n");
        let place = |position: Option<Position>| match position {
            Some(at) => format!("{:.4}\t{:.4}", at.latitude(), at.longitude()),
            None => "-\t-".to_string(),
        };
        // Writing to a String cannot fail.
        for agent in &self.agents {
            let _ = writeln!(out, "agent\t{}\t{}\t{}", agent.name, agent.connections, place(agent.position));
        }
        for server in &self.servers {
            let address = server.address.map_or("-".to_string(), |address| address.to_string());
            let _ = writeln!(
                out,
                "host\t{}\t{}\t{address}\t{}",
                server.name,
                server.pages,
                place(server.position)
            );
        }
        for (from, to, count) in &self.links {
            let _ = writeln!(out, "link\t{from}\t{to}\t{count}");
        }
        for (server, agent, millis) in &self.rtt {
            let _ = writeln!(out, "rtt\t{server}\t{agent}\t{millis:.3}");
        }
        out
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Names the first line that is wrong.
    pub fn read(text: &str) -> Result<Exported, Error> {
        let mut lines = text.lines().enumerate();
        let wrong = |at: usize, what: &str| Error::Line { line: at + 1, what: what.to_string() };
        match lines.next() {
            Some((_, HEADER)) => {}
            _ => {
                return Err(wrong(
                    0,
                    "it does not begin with `farol-graph 1`, as files of `farol export graph` do",
                ));
            }
        }
        let mut read = Exported::default();
        for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let fields: Vec<&str> = line.split('\t').collect();
            let known = match fields[..] {
                ["agent", name, connections, north, east] => {
                    agent(name, connections, north, east).map(|agent| read.agents.push(agent))
                }
                ["host", name, pages, address, north, east] => {
                    host(name, pages, address, north, east).map(|server| read.servers.push(server))
                }
                ["link", from, to, count] => {
                    let servers = read.servers.len() as u32;
                    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number < servers);
                    let ends = number(from).zip(number(to));
                    ends.zip(count.parse().ok()).map(|((from, to), count)| read.links.push((from, to, count)))
                }
                ["rtt", server, agent, millis] => {
                    let (servers, agents) = (read.servers.len() as u32, read.agents.len() as u32);
                    let server = server.parse::<u32>().ok().filter(|number| *number < servers);
                    let agent = agent.parse::<u32>().ok().filter(|number| *number < agents);
                    let ends = server.zip(agent);
                    ends.zip(millis.parse().ok())
                        .map(|((server, agent), millis)| read.rtt.push((server, agent, millis)))
                }
                _ => None,
            };
            known.ok_or_else(|| wrong(at, "it is no agent, host, link or rtt; see docs/formats/graph.md"))?;
        }
        Ok(read)
    }

    /// Adds what another agent knows.
    pub fn add(&mut self, other: &Exported) {
        let mut numbers: HashMap<String, u32> =
            self.servers.iter().enumerate().map(|(n, server)| (server.name.clone(), n as u32)).collect();
        let map: Vec<u32> = other
            .servers
            .iter()
            .map(|server| match numbers.get(&server.name) {
                Some(number) => {
                    let own = &mut self.servers[*number as usize];
                    own.pages = own.pages.max(server.pages);
                    // A host may have moved: whoever crawls it more knows better, and later files win.
                    own.address = server.address.or(own.address);
                    own.position = server.position.or(own.position);
                    *number
                }
                None => {
                    let number = self.servers.len() as u32;
                    numbers.insert(server.name.clone(), number);
                    self.servers.push(server.clone());
                    number
                }
            })
            .collect();
        let mut counts: HashMap<(u32, u32), u32> =
            self.links.iter().map(|(from, to, count)| ((*from, *to), *count)).collect();
        for (from, to, count) in &other.links {
            let known = counts.entry((map[*from as usize], map[*to as usize])).or_default();
            *known = (*known).max(*count);
        }
        self.links = counts.into_iter().map(|((from, to), count)| (from, to, count)).collect();
        self.links.sort_unstable();
        let agents: Vec<u32> = other
            .agents
            .iter()
            .map(|agent| match self.agents.iter().position(|known| known.name == agent.name) {
                Some(at) => at as u32,
                None => {
                    self.agents.push(agent.clone());
                    self.agents.len() as u32 - 1
                }
            })
            .collect();
        let rtt = other.rtt.iter().map(|(s, a, millis)| (map[*s as usize], agents[*a as usize], *millis));
        self.rtt.extend(rtt);
    }

    /// The space of these hosts and some agents. Round-trip times are those that an agent of the same name measured; where
    /// nobody did, and both places are known, they are guessed by distance.
    pub fn space(&self, agents: Vec<Agent>) -> Space {
        let k = agents.len();
        let mut rtt = vec![f32::NAN; self.servers.len() * k];
        for (s, server) in self.servers.iter().enumerate() {
            for (j, agent) in agents.iter().enumerate() {
                if let (Some(there), Some(here)) = (server.position, agent.position) {
                    rtt[s * k + j] = there.rtt_guess(here) as f32;
                }
            }
        }
        for (s, a, millis) in &self.rtt {
            let by_name = |agent: &Agent| agent.name == self.agents[*a as usize].name;
            if let Some(j) = agents.iter().position(by_name) {
                rtt[*s as usize * k + j] = *millis as f32;
            }
        }
        let known = rtt.iter().any(|rtt| *rtt > 0.0);
        Space {
            servers: self.servers.clone(),
            links: self.links.clone(),
            agents,
            rtt: if known { rtt } else { Vec::new() },
        }
    }
}

fn place(north: &str, east: &str) -> Option<Option<Position>> {
    if (north, east) == ("-", "-") {
        return Some(None);
    }
    Some(Some(Position::new(north.parse().ok()?, east.parse().ok()?)?))
}

fn agent(name: &str, connections: &str, north: &str, east: &str) -> Option<Agent> {
    let connections: f64 =
        connections.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)?;
    Some(Agent { name: name.to_string(), connections, position: place(north, east)? })
}

fn host(name: &str, pages: &str, address: &str, north: &str, east: &str) -> Option<Server> {
    let address = match address {
        "-" => None,
        text => Some(text.parse().ok()?),
    };
    Some(Server {
        name: name.to_string(),
        pages: pages.parse().ok()?,
        address,
        position: place(north, east)?,
    })
}

/// Reads a list of agents: a name, its connections, and where it is, with blanks or tabs between; the last two may be
/// missing, `#` begins a comment.
///
/// # Errors
/// Names the first line that is wrong.
pub fn read_agents(text: &str) -> Result<Vec<Agent>, Error> {
    let mut agents: Vec<Agent> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        let read = match words[..] {
            [] => continue,
            [name] => Some(Agent::named(name)),
            [name, connections] => agent(name, connections, "-", "-"),
            [name, connections, north, east] => agent(name, connections, north, east),
            _ => None,
        };
        let wrong = |what: &str| Error::Line { line: at + 1, what: what.to_string() };
        let read = read.ok_or_else(|| wrong("it is not NAME [CONNECTIONS [LATITUDE LONGITUDE]]"))?;
        if agents.iter().any(|known| known.name == read.name) {
            return Err(wrong("an agent of this name came before"));
        }
        agents.push(read);
    }
    if agents.is_empty() { Err(Error::NoAgents) } else { Ok(agents) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Exported {
        let server = |name: &str, pages, address: &str| Server {
            name: name.to_string(),
            pages,
            address: address.parse().ok(),
            position: Position::new(41.8, -6.75),
        };
        Exported {
            servers: vec![server("http://a.test", 5, "192.0.2.1"), server("https://b.test:8443", 0, "-")],
            links: vec![(0, 1, 7)],
            agents: vec![Agent::named("here")],
            rtt: vec![(0, 0, 12.5)],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = sample().write();
        let read = Exported::read(&text).unwrap();
        assert_eq!(read.write(), text);
        assert_eq!((read.servers, read.links, read.rtt), (sample().servers, sample().links, sample().rtt));
    }

    #[test]
    fn wrong_lines_are_named() {
        for line in [
            "host\tx",
            "link\t0\t9\t1",
            "rtt\t0\t0\t1",
            "host\tx\t1\tnowhere\t-\t-",
            "agent\tx\tNaN\t-\t-",
            "host\tx\t1\t-\t91\t0",
            "link\t0\t0\t-3",
            "what",
        ] {
            let error = Exported::read(&format!("{HEADER}\nhost\ta\t1\t-\t-\t-\n{line}\n")).unwrap_err();
            assert!(error.to_string().starts_with("line 3: "), "{line}: {error}");
        }
        assert!(Exported::read("").unwrap_err().to_string().contains("farol export graph"));
    }

    #[test]
    fn agents_files_are_put_together() {
        let mut all = sample();
        let mut other = sample();
        other.agents = vec![Agent::named("there")];
        other.servers[0].pages = 50;
        other.servers[0].address = "192.0.2.9".parse().ok();
        other.servers[1].name = "http://c.test".to_string();
        other.rtt = vec![(0, 0, 90.0)];
        all.add(&other);
        assert_eq!((all.servers.len(), all.servers[0].pages, all.agents.len()), (3, 50, 2));
        // A host that changed its address.
        assert_eq!(all.servers[0].address, "192.0.2.9".parse().ok());
        assert_eq!(all.links, [(0, 1, 7), (0, 2, 7)]);
        let space = all.space(vec![Agent::named("there"), Agent::named("here"), Agent::named("new")]);
        assert_eq!((space.rtt(0, 0), space.rtt(0, 1), space.rtt(0, 2)), (Some(90.0), Some(12.5), None));
        assert!(sample().space(vec![Agent::named("x")]).rtt.is_empty());
    }

    #[test]
    fn lists_of_agents_are_read() {
        let agents = read_agents("# ours\nlisbon 50 38.7 -9.1\nporto\nbraga 9\n").unwrap();
        assert_eq!((agents.len(), agents[0].connections, agents[1].connections), (3, 50.0, 50.0));
        for (text, want) in
            [("", "name at least one"), ("a 0\n", "line 1"), ("a\na\n", "line 2"), ("a 1 2\n", "line 1")]
        {
            assert!(read_agents(text).unwrap_err().to_string().contains(want), "{text}");
        }
    }
}
