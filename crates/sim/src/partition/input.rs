//! Real graphs, distances and places from plain files.
//!
//! | what | lines |
//! |---|---|
//! | adjacency (`.adj`) | line i has the numbers of the successors of vertex i, from 0 on |
//! | host links (`.tsv`) | `FROM\|TO<TAB>COUNT`, with anything and a bar before |
//! | edges (any other) | `FROM TO [WEIGHT]`, numbers, with blanks or tabs between |
//! | pings | a header, then tab-separated: source city, `city country, region`, km, mean ms, … |
//! | cities | `city,latitude,longitude,population` with a header |
//!
//! All of them plain, gzipped (`.gz`) or with zstd (`.zst`).

use crate::Error;
use crate::input::read_text;
use farol_partition::{Graph, Position};
use std::collections::HashMap;
use std::path::Path;

/// A graph with pages per vertex.
pub struct Input {
    pub name: String,
    pub graph: Graph,
    /// Names of vertices; empty where they have none.
    pub names: Vec<String>,
    pub pages: Vec<u64>,
}

/// Reads a graph; its format is told by its name.
pub fn read_graph(path: &Path) -> Result<Input, Error> {
    let text = read_text(path)?;
    let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let plain = name.trim_end_matches(".zst").trim_end_matches(".gz").to_string();
    let said = |error: String| Error::Input(format!("{}: {error}", path.display()));
    let mut input = if plain.ends_with(".adj") {
        adjacency(&text)
    } else if plain.ends_with(".tsv") {
        host_links(&text)
    } else {
        edge_list(&text)
    }
    .map_err(said)?;
    input.name = plain;
    Ok(input)
}

fn made(
    names: Vec<String>,
    vertices: usize,
    edges: &[(u32, u32, u32)],
    pages: Vec<u64>,
) -> Result<Input, String> {
    let graph = Graph::from_edges(vertices, edges).map_err(|error| error.to_string())?;
    Ok(Input { name: String::new(), graph, names, pages })
}

fn adjacency(text: &str) -> Result<Input, String> {
    let mut edges = Vec::new();
    let (mut lines, mut most) = (0u32, 0u32);
    for (at, line) in text.lines().enumerate() {
        for word in line.split_whitespace() {
            let to: u32 = word.parse().map_err(|_| format!("line {}: {word:?} is no vertex", at + 1))?;
            most = most.max(to + 1);
            edges.push((at as u32, to, 1));
        }
        lines += 1;
    }
    let vertices = lines.max(most) as usize;
    made(Vec::new(), vertices, &edges, vec![1; vertices])
}

fn host_links(text: &str) -> Result<Input, String> {
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let (mut names, mut edges, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let read = || {
            let (hosts, count) = line.rsplit_once('\t')?;
            let (rest, to) = hosts.rsplit_once('|')?;
            Some((
                rest.rsplit_once('|').map_or(rest, |(_, from)| from),
                to,
                count.trim().parse::<u32>().ok()?,
            ))
        };
        let (from, to, count) =
            read().ok_or_else(|| format!("line {} is not FROM|TO and a count", at + 1))?;
        let mut number = |name: &str| {
            let next = names.len() as u32;
            *numbers.entry(name.to_string()).or_insert_with(|| {
                names.push(name.to_string());
                pages.push(1);
                next
            })
        };
        let (from, to) = (number(from), number(to));
        // Nobody counted the pages; links within a host go with how many it has.
        if from == to {
            pages[from as usize] += u64::from(count);
        }
        edges.push((from, to, count));
    }
    let vertices = names.len();
    made(names, vertices, &edges, pages)
}

fn edge_list(text: &str) -> Result<Input, String> {
    let mut edges = Vec::new();
    let mut most = 0;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', '%']));
    for (at, line) in lines {
        let mut words = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        let ends = words.next().flatten().zip(words.next().flatten());
        let (from, to) = ends.ok_or_else(|| format!("line {} is not FROM TO [WEIGHT]", at + 1))?;
        most = most.max(from.max(to) + 1);
        edges.push((from, to, words.next().flatten().unwrap_or(1)));
    }
    made(Vec::new(), most as usize, &edges, vec![1; most as usize])
}

/// Cities, where they are, and round-trip times between them.
#[derive(Clone, Debug, Default)]
pub struct Cities {
    pub names: Vec<String>,
    pub positions: Vec<Position>,
    /// How large each is, for drawing servers.
    pub people: Vec<u64>,
    /// Milliseconds; not a number where unknown.
    pub rtt: Vec<f32>,
}

impl Cities {
    /// Reads places and pings.
    pub fn read(cities: &str, pings: &str) -> Result<Cities, String> {
        let mut found = Cities::default();
        let mut numbers = HashMap::new();
        for (at, line) in cities.lines().enumerate().skip(1).filter(|(_, line)| !line.is_empty()) {
            let mut fields = line.rsplitn(4, ',');
            let mut number = || fields.next().and_then(|field| field.trim().parse::<f64>().ok());
            let (people, longitude, latitude) = (number(), number(), number());
            let place = latitude.zip(longitude).and_then(|(north, east)| Position::new(north, east));
            let (Some(place), Some(name)) = (place, fields.next()) else {
                return Err(format!("line {} of the cities is not a name, a place and a number", at + 1));
            };
            let name = name.trim_matches('"').to_string();
            numbers.insert(name.clone(), found.names.len());
            found.names.push(name);
            found.positions.push(place);
            found.people.push(people.unwrap_or(1.0).max(1.0) as u64);
        }
        let n = found.names.len();
        found.rtt = vec![f32::NAN; n * n];
        for line in pings.lines().skip(1) {
            let mut fields = line.split('\t');
            let (Some(from), Some(to), _, Some(millis)) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            // The target stands with its country; the longest name of a city that fits is meant.
            let words: Vec<&str> = to.split(' ').collect();
            let to = (1..=words.len()).rev().find_map(|count| numbers.get(&words[..count].join(" ")));
            if let (Some(from), Some(to), Ok(millis)) = (numbers.get(from), to, millis.parse::<f32>()) {
                found.rtt[from * n + to] = millis;
            }
        }
        Ok(found)
    }

    /// Milliseconds between two cities: measured either way, or by distance.
    pub fn rtt(&self, a: usize, b: usize) -> f64 {
        let n = self.names.len();
        let measured = [self.rtt[a * n + b], self.rtt[b * n + a]];
        let known = measured.into_iter().find(|rtt| rtt.is_finite() && *rtt > 0.0);
        // A route is about a third longer than the straight line, and has some milliseconds of routers.
        let guessed = || 4.0 + 1.35 * self.positions[a].rtt_least(self.positions[b]);
        known.map_or_else(guessed, f64::from)
    }

    /// How many pairs were measured.
    pub fn measured(&self) -> usize {
        self.rtt.iter().filter(|rtt| rtt.is_finite()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_of_all_formats_are_read() {
        let adjacency = adjacency("1 2\n\n0\n").unwrap();
        assert_eq!((adjacency.graph.vertices(), adjacency.graph.weight()), (3, 3));
        let hosts = host_links("1996|a.uk|b.uk\t2\n1996|a.uk|a.uk\t9\n1996|b.uk|a.uk\t1\n").unwrap();
        assert_eq!(
            (hosts.names.join(" "), hosts.pages, hosts.graph.weight()),
            ("a.uk b.uk".to_string(), vec![10, 1], 3)
        );
        let edges = edge_list("# x\n0 1 5\n1\t2\n").unwrap();
        assert_eq!((edges.graph.edges(), edges.graph.weight()), (2, 6));
        for (read, text) in [
            (host_links("a b 3\n"), "host"),
            (edge_list("0\n"), "edge"),
            (
                adjacency.graph.vertices().checked_sub(9).map_or(super::adjacency("x\n"), |_| edge_list("")),
                "adjacency",
            ),
        ] {
            assert!(read.err().unwrap().starts_with("line 1"), "{text}");
        }
    }

    #[test]
    fn cities_and_pings_are_read() {
        let cities = "city,Lat,Long,Population\nA,10,20,5\nNew B,11,21,6\n";
        let pings = "src\tdst\tkm\tavg\nA\tNew B Land, Region\t155\t9.5\nA\tNowhere\t1\t1\n";
        let read = Cities::read(cities, pings).unwrap();
        assert_eq!((read.rtt(0, 1), read.rtt(1, 0), read.measured()), (9.5, 9.5, 1));
        assert!(read.rtt(0, 0) > 0.0);
        assert!(Cities::read("h\nA,x,20,5\n", "").unwrap_err().contains("line 2"));
    }
}
