//! Remembers addresses of names, in bounded memory.
//!
//! Two generations: names go into the young one; when it holds half of the limit it becomes the old one, and
//! what the old one held is forgotten. A name found in the old generation moves to the young one, so names in
//! use stay. Told the time, never reads it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Addresses in the order in which to try them, or why there are none.
pub(super) type Answer = Result<Vec<IpAddr>, LookupError>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookupError {
    pub transient: bool,
    pub reason: Arc<str>,
}

impl LookupError {
    pub fn new(transient: bool, reason: &str) -> LookupError {
        LookupError { transient, reason: reason.into() }
    }
}

pub(super) struct Cache {
    generation_max: usize,
    young: HashMap<Box<str>, Entry>,
    old: HashMap<Box<str>, Entry>,
}

struct Entry {
    answer: Answer,
    expires: Instant,
}

impl Cache {
    pub fn new(entries_max: usize) -> Cache {
        Cache { generation_max: entries_max.div_ceil(2), young: HashMap::new(), old: HashMap::new() }
    }

    pub fn get(&mut self, name: &str, now: Instant) -> Option<Answer> {
        if !self.young.contains_key(name)
            && let Some((name, entry)) = self.old.remove_entry(name)
        {
            self.insert(name, entry);
        }
        self.young.get(name).filter(|entry| now < entry.expires).map(|entry| entry.answer.clone())
    }

    pub fn put(&mut self, name: &str, answer: Answer, expires: Instant) {
        self.old.remove(name);
        self.insert(name.into(), Entry { answer, expires });
    }

    /// Moves an address to the end of its name's list.
    pub fn demote(&mut self, name: &str, address: IpAddr) {
        let entry = self.young.get_mut(name).or_else(|| self.old.get_mut(name));
        if let Some(Entry { answer: Ok(addresses), .. }) = entry
            && let Some(at) = addresses.iter().position(|known| *known == address)
        {
            addresses[at..].rotate_left(1);
        }
    }

    fn insert(&mut self, name: Box<str>, entry: Entry) {
        if self.generation_max == 0 {
            return;
        }
        if self.young.len() >= self.generation_max && !self.young.contains_key(&name) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(name, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn address(i: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, i])
    }

    #[test]
    fn an_address_is_forgotten_when_its_time_is_up() {
        let now = Instant::now();
        let mut cache = Cache::new(10);
        cache.put("a", Ok(vec![address(1)]), now + Duration::from_secs(5));
        assert_eq!(cache.get("a", now + Duration::from_secs(4)), Some(Ok(vec![address(1)])));
        assert_eq!(cache.get("a", now + Duration::from_secs(5)), None);
        assert_eq!(cache.get("b", now), None);
    }

    #[test]
    fn an_address_that_failed_goes_to_the_end() {
        let now = Instant::now();
        let mut cache = Cache::new(10);
        cache.put("a", Ok(vec![address(1), address(2), address(3)]), now + Duration::from_secs(5));
        cache.demote("a", address(1));
        assert_eq!(cache.get("a", now), Some(Ok(vec![address(2), address(3), address(1)])));
        cache.demote("a", address(1));
        cache.demote("a", address(9));
        cache.demote("b", address(1));
        assert_eq!(cache.get("a", now), Some(Ok(vec![address(2), address(3), address(1)])));
    }

    proptest! {
        /// Races an unbounded map: never a wrong answer, never more than the limit, and what is used stays.
        #[test]
        fn agrees_with_an_unbounded_map(names in proptest::collection::vec(0u8..30, 0..300), limit in 2usize..20) {
            let now = Instant::now();
            let mut cache = Cache::new(limit);
            let mut all: HashMap<u8, u8> = HashMap::new();
            for (i, name) in names.iter().enumerate() {
                let text = name.to_string();
                if let Some(answer) = cache.get(&text, now) {
                    prop_assert_eq!(answer, Ok(vec![address(all[name])]));
                }
                let value = i as u8;
                cache.put(&text, Ok(vec![address(value)]), now + Duration::from_secs(1));
                all.insert(*name, value);
                prop_assert!(cache.get(&text, now).is_some());
                prop_assert!(cache.young.len() + cache.old.len() <= limit + 1);
            }
        }
    }
}
