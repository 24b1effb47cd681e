//! What came in for a block and is in no file of it yet: in memory, each URL once.
//!
//! The log has it all, so nothing is lost with the process. A URL that is found again costs a look-up and nothing
//! else. Takes about 35 bytes per URL besides its path.

use super::run::{Item, RunBuilder};
use crate::Error;
use crate::urls::Visit;
use farol_base::Timestamp;
use farol_base::fingerprint::hash64;
use hashbrown::HashTable;

/// No next one.
const NONE: u32 = u32::MAX;

/// What happened to a URL, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A page said that it changed then.
    Hint(Timestamp),
    Visit(Visit),
}

/// What came in for one block.
#[derive(Debug)]
pub struct Stage {
    hosts: HashTable<u32>,
    servers: Vec<StagedServer>,
    urls: HashTable<u32>,
    items: Vec<Staged>,
    events: Vec<(Event, u32)>,
    texts: Vec<u8>,
    /// Number of the log's batch that the first of it stands in.
    pub first_batch: u64,
    /// Earliest instant at which a URL visited since is due again.
    pub due: Timestamp,
    /// Whether there is something among it without which the block must not be handed out: visits, forgotten hosts.
    pub is_urgent: bool,
}

#[derive(Debug)]
struct StagedServer {
    hash: u64,
    host: Box<str>,
    /// All that was known of it before is void.
    forgotten: bool,
}

#[derive(Clone, Copy, Debug)]
struct Staged {
    hash: u64,
    server: u32,
    start: u32,
    len: u16,
    /// Smallest depth at which it was found; `u16::MAX` where it was not.
    depth: u16,
    /// It was visited before it was found.
    visit_first: bool,
    first_event: u32,
    last_event: u32,
}

impl Default for Stage {
    fn default() -> Stage {
        Stage {
            hosts: HashTable::new(),
            servers: Vec::new(),
            urls: HashTable::new(),
            items: Vec::new(),
            events: Vec::new(),
            texts: Vec::new(),
            first_batch: u64::MAX,
            due: Timestamp::NEVER,
            is_urgent: false,
        }
    }
}

impl Stage {
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// URLs in it.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Memory in use, near enough.
    pub fn bytes(&self) -> u64 {
        let items = self.items.len() * (size_of::<Staged>() + 5);
        let servers = self.servers.len() * (size_of::<StagedServer>() + 30);
        (items + servers + self.events.len() * size_of::<(Event, u32)>() + self.texts.len()) as u64
    }

    /// Notes that a URL was found; `false` where that changes nothing.
    pub fn found(&mut self, hash: u64, host: &str, path: &str, depth: u16, hint: Option<Timestamp>) -> bool {
        let (at, new) = self.item(hash, host, path);
        let item = &mut self.items[at as usize];
        let mut changed = new;
        if depth < item.depth {
            item.depth = depth;
            changed = true;
        }
        if let Some(hint) = hint {
            self.happened(at, Event::Hint(hint));
            changed = true;
        }
        changed
    }

    pub fn visited(&mut self, hash: u64, host: &str, path: &str, visit: &Visit) {
        let (at, new) = self.item(hash, host, path);
        if new {
            self.items[at as usize].visit_first = true;
        }
        self.due = self.due.min(visit.due);
        self.is_urgent = true;
        self.happened(at, Event::Visit(visit.clone()));
    }

    /// What came in for a URL, as a run would have it.
    pub fn get(&self, hash: u64, host: &str, path: &str) -> (bool, Option<Item>) {
        let forgotten = self.server(hash, host).is_some_and(|at| self.servers[at as usize].forgotten);
        let item = self.find(hash, host, path).map(|at| {
            let item = &self.items[at as usize];
            Item {
                depth: item.depth,
                visit_first: item.visit_first,
                events: self.events_of(item).cloned().collect(),
            }
        });
        (forgotten, item)
    }

    /// Voids all that was known of a server.
    pub fn forget(&mut self, hash: u64, host: &str) {
        let server = self.server_or_new(hash, host);
        self.servers[server as usize].forgotten = true;
        // Rare, so it may take long: the others move into new tables.
        let old = std::mem::take(self);
        self.adopt_servers(&old, |_| true);
        old.items.iter().filter(|item| item.server != server).for_each(|item| self.adopt(&old, item));
        self.is_urgent = true;
    }

    /// Moves all servers from this hash on into another stage.
    pub fn split_off(&mut self, from: u64) -> Stage {
        let (old, mut other) = (std::mem::take(self), Stage::default());
        self.adopt_servers(&old, |hash| hash < from);
        other.adopt_servers(&old, |hash| hash >= from);
        for item in &old.items {
            let into = if old.servers[item.server as usize].hash < from { &mut *self } else { &mut other };
            into.adopt(&old, item);
        }
        other
    }

    /// Takes in what another stage, later than this one, has.
    pub fn append(&mut self, later: &Stage) {
        for server in later.servers.iter().filter(|server| server.forgotten) {
            self.forget(server.hash, &server.host);
        }
        self.adopt_servers(later, |_| true);
        later.items.iter().for_each(|item| self.adopt(later, item));
    }

    fn adopt_servers(&mut self, other: &Stage, wanted: impl Fn(u64) -> bool) {
        for server in other.servers.iter().filter(|server| wanted(server.hash)) {
            let at = self.server_or_new(server.hash, &server.host);
            self.servers[at as usize].forgotten |= server.forgotten;
            self.is_urgent |= server.forgotten;
            self.first_batch = self.first_batch.min(other.first_batch);
        }
    }

    fn adopt(&mut self, other: &Stage, item: &Staged) {
        let StagedServer { hash, host, .. } = &other.servers[item.server as usize];
        let (at, new) = self.item(*hash, host, other.path(item));
        let mine = &mut self.items[at as usize];
        mine.depth = mine.depth.min(item.depth);
        mine.visit_first |= new && item.visit_first;
        for event in other.events_of(item) {
            if let Event::Visit(visit) = event {
                self.due = self.due.min(visit.due);
                self.is_urgent = true;
            }
            self.happened(at, event.clone());
        }
    }

    fn path(&self, item: &Staged) -> &str {
        let bytes = &self.texts[item.start as usize..item.start as usize + item.len as usize];
        // Only whole texts went in.
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    fn path_bytes(&self, item: &Staged) -> &[u8] {
        &self.texts[item.start as usize..item.start as usize + item.len as usize]
    }

    fn server(&self, hash: u64, host: &str) -> Option<u32> {
        let is_it = |at: &u32| {
            let server = &self.servers[*at as usize];
            server.hash == hash && *server.host == *host
        };
        self.hosts.find(hash, is_it).copied()
    }

    fn server_or_new(&mut self, hash: u64, host: &str) -> u32 {
        if let Some(at) = self.server(hash, host) {
            return at;
        }
        let at = self.servers.len() as u32;
        self.servers.push(StagedServer { hash, host: host.into(), forgotten: false });
        let servers = &self.servers;
        self.hosts.insert_unique(hash, at, |at| servers[*at as usize].hash);
        at
    }

    fn find(&self, server: u64, host: &str, path: &str) -> Option<u32> {
        let hash = url_hash(server, path);
        let is_it = |at: &u32| {
            let item = &self.items[*at as usize];
            item.hash == hash
                && self.path_bytes(item) == path.as_bytes()
                && *self.servers[item.server as usize].host == *host
        };
        self.urls.find(hash, is_it).copied()
    }

    fn item(&mut self, server: u64, host: &str, path: &str) -> (u32, bool) {
        if let Some(at) = self.find(server, host, path) {
            return (at, false);
        }
        let (at, hash) = (self.items.len() as u32, url_hash(server, path));
        let item = Staged {
            hash,
            server: self.server_or_new(server, host),
            start: self.texts.len() as u32,
            len: path.len() as u16,
            depth: u16::MAX,
            visit_first: false,
            first_event: NONE,
            last_event: NONE,
        };
        self.texts.extend_from_slice(path.as_bytes());
        self.items.push(item);
        let items = &self.items;
        self.urls.insert_unique(hash, at, |at| items[*at as usize].hash);
        (at, true)
    }

    fn happened(&mut self, at: u32, event: Event) {
        let number = self.events.len() as u32;
        self.events.push((event, NONE));
        let item = &mut self.items[at as usize];
        match item.last_event {
            NONE => item.first_event = number,
            last => self.events[last as usize].1 = number,
        }
        item.last_event = number;
    }

    fn events_of(&self, item: &Staged) -> impl Iterator<Item = &Event> {
        let mut next = item.first_event;
        std::iter::from_fn(move || {
            let (event, after) = self.events.get(next as usize)?;
            next = *after;
            Some(event)
        })
    }

    /// Writes everything as a run: servers in the order of their hashes, their URLs in that of their paths.
    pub fn write(&self, run: &mut RunBuilder<'_>) -> Result<(), Error> {
        let mut starts = vec![0u32; self.servers.len() + 1];
        self.items.iter().for_each(|item| starts[item.server as usize + 1] += 1);
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut places = starts.clone();
        // The first eight bytes of a path, to settle most comparisons without looking at it.
        let mut sorted = vec![(0u64, 0u32); self.items.len()];
        for (at, item) in self.items.iter().enumerate() {
            let place = &mut places[item.server as usize];
            sorted[*place as usize] = (head_of(self.path_bytes(item)), at as u32);
            *place += 1;
        }
        let mut order: Vec<u32> = (0..self.servers.len() as u32).collect();
        order.sort_unstable_by(|a, b| {
            let (a, b) = (&self.servers[*a as usize], &self.servers[*b as usize]);
            a.hash.cmp(&b.hash).then_with(|| a.host.cmp(&b.host))
        });
        for number in order {
            let server = &self.servers[number as usize];
            run.begin(server.hash, &server.host, server.forgotten)?;
            let items = &mut sorted[starts[number as usize] as usize..starts[number as usize + 1] as usize];
            let path = |at: u32| self.path_bytes(&self.items[at as usize]);
            items.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| path(a.1).cmp(path(b.1))));
            for (_, at) in items {
                let item = &self.items[*at as usize];
                run.push(path(*at), item.depth, item.visit_first, self.events_of(item))?;
            }
            run.end()?;
        }
        Ok(())
    }
}

fn url_hash(server: u64, path: &str) -> u64 {
    hash64(path.as_bytes()) ^ server.rotate_left(23)
}

pub fn head_of(path: &[u8]) -> u64 {
    let mut head = [0; 8];
    // All paths begin with a slash.
    let rest = path.get(1..).unwrap_or_default();
    let count = rest.len().min(8);
    head[..count].copy_from_slice(&rest[..count]);
    u64::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_url_stands_once() {
        let mut stage = Stage::default();
        assert!(stage.found(1, "http://h", "/a", 3, None));
        assert!(!stage.found(1, "http://h", "/a", 3, None));
        assert!(stage.found(1, "http://h", "/a", 2, None));
        assert!(stage.found(1, "http://h", "/a", 9, Some(Timestamp::EPOCH)));
        // Another host with the same hash, and another hash with the same path.
        assert!(stage.found(1, "http://g", "/a", 1, None));
        assert!(stage.found(2, "http://f", "/a", 1, None));
        assert_eq!(stage.len(), 3);
        let (forgotten, item) = stage.get(1, "http://h", "/a");
        assert!(!forgotten);
        assert_eq!(
            item,
            Some(Item { depth: 2, visit_first: false, events: vec![Event::Hint(Timestamp::EPOCH)] })
        );
        stage.forget(1, "http://h");
        assert_eq!(stage.len(), 2);
        assert_eq!(stage.get(1, "http://h", "/a"), (true, None));
        assert!(stage.found(1, "http://h", "/a", 7, None));
        let other = stage.split_off(2);
        assert_eq!((stage.len(), other.len()), (2, 1));
        assert!(stage.get(1, "http://h", "/a").0);
    }
}
