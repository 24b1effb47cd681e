//! The route graph: segments of traceroutes, and times between machines that were never measured [Exposto08 §4.5].
//!
//! Each traceroute gives hops with their times from the source. A segment between two hops gets the difference of
//! their times, never below 0; several samples of a segment count by their median. An unknown time is that of the
//! shortest path. Edges have no direction; hops that do not answer are skipped by joining their neighbours; what lies
//! behind the last hop that answered is dropped (decision D-10).

use super::median;
use crate::Error;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

/// Machines of all routes together; a hop that would be one more ends its route.
const MACHINES_MAX: usize = 1 << 20;
/// Samples that are kept of a segment, the newest: 15 × 8 bytes.
const SAMPLES_MAX: usize = 15;

/// A hop of a traceroute: who answered, and the mean of its times in milliseconds; `None` where nobody did.
pub type Hop = Option<(IpAddr, f64)>;

/// A traceroute.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub source: IpAddr,
    pub hops: Vec<Hop>,
}

/// Segments of routes with their times.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    numbers: HashMap<IpAddr, u32>,
    /// Samples of each segment, by its ends, the lesser number first.
    segments: HashMap<(u32, u32), Vec<f64>>,
    /// Ends and times of each machine's segments; made when first needed.
    near: Vec<Vec<(u32, f64)>>,
}

impl Routes {
    /// Adds a traceroute. Times that are not numbers, or negative, are as if the hop had not answered.
    pub fn add(&mut self, trace: &Trace) {
        let Some(source) = self.number(trace.source) else { return };
        let mut before = (source, 0.0);
        for (address, time) in trace.hops.iter().flatten() {
            if !(time.is_finite() && *time >= 0.0) {
                continue;
            }
            let Some(here) = self.number(*address) else { break };
            let ends = (here.min(before.0), here.max(before.0));
            if ends.0 != ends.1 {
                let samples = self.segments.entry(ends).or_default();
                if samples.len() == SAMPLES_MAX {
                    samples.remove(0);
                }
                samples.push((time - before.1).max(0.0));
            }
            before = (here, *time);
        }
        self.near.clear();
    }

    fn number(&mut self, address: IpAddr) -> Option<u32> {
        let next = self.numbers.len();
        match self.numbers.get(&address) {
            Some(number) => Some(*number),
            None if next >= MACHINES_MAX => None,
            None => {
                self.numbers.insert(address, next as u32);
                Some(next as u32)
            }
        }
    }

    pub fn machines(&self) -> usize {
        self.numbers.len()
    }

    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Milliseconds from a machine to every machine that can be reached (Dijkstra's method).
    pub fn from(&mut self, source: IpAddr) -> HashMap<IpAddr, f64> {
        let Some(start) = self.numbers.get(&source).copied() else { return HashMap::new() };
        self.draw();
        let mut times = vec![f64::INFINITY; self.numbers.len()];
        times[start as usize] = 0.0;
        // Times are never negative, and as bits such numbers keep their order.
        let mut queue = BinaryHeap::from([(Reverse(0u64), start)]);
        while let Some((Reverse(bits), machine)) = queue.pop() {
            let time = f64::from_bits(bits);
            if time > times[machine as usize] {
                continue;
            }
            for (next, segment) in &self.near[machine as usize] {
                let there = time + segment;
                if there < times[*next as usize] {
                    times[*next as usize] = there;
                    queue.push((Reverse(there.to_bits()), *next));
                }
            }
        }
        let known = self.numbers.iter().map(|(address, number)| (*address, times[*number as usize]));
        known.filter(|(_, time)| time.is_finite()).collect()
    }

    fn draw(&mut self) {
        if !self.near.is_empty() {
            return;
        }
        self.near = vec![Vec::new(); self.numbers.len()];
        for ((a, b), samples) in &self.segments {
            let time = median(samples).unwrap_or(0.0);
            self.near[*a as usize].push((*b, time));
            self.near[*b as usize].push((*a, time));
        }
    }
}

impl Trace {
    /// Time to the destination, measured, and as the sum of hop differences: their difference is the error δ of the
    /// thesis' Fig. 4.9. `None` where the last hop did not answer.
    pub fn error(&self) -> Option<f64> {
        let (_, end) = (*self.hops.last()?)?;
        let mut before = 0.0;
        let mut sum = 0.0;
        for (_, time) in self.hops.iter().flatten() {
            sum += (time - before).max(0.0);
            before = *time;
        }
        Some(end - sum)
    }
}

/// Reads traceroutes as `traceroute -n` writes them: `traceroute to NAME (ADDRESS), …`, then one line per hop,
/// `N  ADDRESS  TIME ms  TIME ms  TIME ms`, with `*` for what did not answer. Each begins with a line
/// `from ADDRESS`, which says where it was run.
///
/// # Errors
/// Names the first line that cannot be read.
pub fn read_traces(text: &str) -> Result<Vec<Trace>, Error> {
    let wrong = |at: usize, what: &str| Error::Line { line: at + 1, what: what.to_string() };
    let mut traces: Vec<Trace> = Vec::new();
    let mut source = None;
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if let Some(address) = line.strip_prefix("from ") {
            source = Some(address.trim().parse().map_err(|_| wrong(at, "after `from` there is no address"))?);
        } else if line.starts_with("traceroute ") {
            let source = source.ok_or_else(|| wrong(at, "no line `from ADDRESS` says where this was run"))?;
            traces.push(Trace { source, hops: Vec::new() });
        } else {
            let trace = traces.last_mut().ok_or_else(|| wrong(at, "a hop before any `traceroute to`"))?;
            let hop =
                read_hop(line).ok_or_else(|| wrong(at, "it is no hop, such as `3  192.0.2.1  1.5 ms`"))?;
            trace.hops.push(hop);
        }
    }
    Ok(traces)
}

fn read_hop(line: &str) -> Option<Hop> {
    let mut words = line.split_whitespace();
    words.next()?.parse::<u8>().ok()?;
    let (mut address, mut times) = (None, Vec::new());
    for word in words {
        if matches!(word, "*" | "ms") || word.starts_with('!') {
            continue;
        } else if let Ok(ip) = word.parse::<IpAddr>() {
            // Where several routers answer the first stands for the hop.
            address = address.or(Some(ip));
        } else {
            times.push(word.parse::<f64>().ok().filter(|time| time.is_finite() && *time >= 0.0)?);
        }
    }
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    Some(address.filter(|_| !times.is_empty()).map(|address| (address, mean)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn trace(source: u8, hops: &[Option<(u8, f64)>]) -> Trace {
        Trace {
            source: ip(source),
            hops: hops.iter().map(|hop| hop.map(|(at, time)| (ip(at), time))).collect(),
        }
    }

    #[test]
    fn unknown_times_are_those_of_the_shortest_path() {
        let mut routes = Routes::default();
        // Two agents (1, 2) reach a router (10); servers 21 and 22 lie behind it.
        routes.add(&trace(1, &[Some((10, 5.0)), Some((21, 25.0))]));
        routes.add(&trace(2, &[Some((10, 8.0)), None, Some((22, 11.0))]));
        let from = routes.from(ip(1));
        assert_eq!((from[&ip(21)], from[&ip(22)]), (25.0, 8.0));
        assert_eq!(routes.from(ip(2))[&ip(21)], 28.0);
        assert_eq!((routes.machines(), routes.segments()), (5, 4));
        assert!(routes.from(ip(99)).is_empty());
    }

    #[test]
    fn contradictions_and_nonsense_are_borne() {
        let mut routes = Routes::default();
        // The second hop answers sooner than the first; one time is no number.
        let odd = trace(1, &[Some((10, 9.0)), Some((11, 4.0)), Some((12, f64::NAN)), Some((13, 6.0))]);
        routes.add(&odd);
        let from = routes.from(ip(1));
        assert_eq!((from[&ip(11)], from[&ip(13)]), (9.0, 11.0));
        assert!(!from.contains_key(&ip(12)));
        // Three samples of one segment: the median counts.
        for time in [10.0, 500.0, 12.0] {
            routes.add(&trace(1, &[Some((30, time))]));
        }
        assert_eq!(routes.from(ip(1))[&ip(30)], 12.0);
        assert_eq!(trace(1, &[Some((10, 9.0)), Some((11, 4.0)), Some((13, 6.0))]).error(), Some(-5.0));
        assert_eq!(trace(1, &[None]).error(), None);
    }

    #[test]
    fn the_usual_output_is_read() {
        let text = "from 192.0.2.1\ntraceroute to h.test (192.0.2.9), 30 hops max\n 1  192.0.2.254  1.0 ms  3.0 ms\n 2  * * *\n 3  192.0.2.9  9.5 ms !X\n";
        let traces = read_traces(text).unwrap();
        assert_eq!(traces, [trace(1, &[Some((254, 2.0)), None, Some((9, 9.5))])]);
        for (text, line) in [
            ("traceroute to x\n", 1),
            ("from x\n", 1),
            ("from 192.0.2.1\n 1 * *\n", 2),
            ("from 192.0.2.1\ntraceroute to x\nfoo\n", 3),
        ] {
            assert!(
                read_traces(text).unwrap_err().to_string().starts_with(&format!("line {line}: ")),
                "{text}"
            );
        }
    }
}
