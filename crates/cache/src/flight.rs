//! Single flight: while somebody asks the index a question, others with the same question wait for that answer.
//!
//! Holds no answers and does not wait itself; who waits is a token of the caller's (a channel, a request number).
//! INVARIANT: of all who ask for one key at one time, exactly one leads.

use std::collections::HashMap;
use std::hash::Hash;

/// Whether to ask or to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Ask the index, then call [`Flights::land`].
    Leads,
    /// Somebody else asks; the token is handed back to them when they are done.
    Waits,
    /// So many wait already that one more is not taken; ask without a flight.
    Full,
}

/// Questions on their way.
pub struct Flights<K, W> {
    on_the_way: HashMap<K, Vec<W>>,
    waiters_max: usize,
}

impl<K: Hash + Eq + Clone, W> Flights<K, W> {
    /// At most so many wait for one question.
    pub fn new(waiters_max: usize) -> Flights<K, W> {
        Flights { on_the_way: HashMap::new(), waiters_max }
    }

    /// Joins the flight of a question, or begins it. The token is made only for those who wait.
    pub fn join(&mut self, key: &K, waiter: impl FnOnce() -> W) -> Joined {
        match self.on_the_way.get_mut(key) {
            None => {
                self.on_the_way.insert(key.clone(), Vec::new());
                Joined::Leads
            }
            Some(waiters) if waiters.len() >= self.waiters_max => Joined::Full,
            Some(waiters) => {
                waiters.push(waiter());
                Joined::Waits
            }
        }
    }

    /// Waits for a flight that is on its way; `false` where there is none, or no room.
    pub fn wait(&mut self, key: &K, waiter: impl FnOnce() -> W) -> bool {
        match self.on_the_way.get_mut(key) {
            Some(waiters) if waiters.len() < self.waiters_max => {
                waiters.push(waiter());
                true
            }
            _ => false,
        }
    }

    /// Ends a flight, with or without an answer; those who waited are the caller's to tell.
    pub fn land(&mut self, key: &K) -> Vec<W> {
        self.on_the_way.remove(key).unwrap_or_default()
    }

    /// Questions on their way.
    pub fn len(&self) -> usize {
        self.on_the_way.len()
    }

    pub fn is_empty(&self) -> bool {
        self.on_the_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leads_and_the_others_wait() {
        let mut flights = Flights::new(2);
        assert!(!flights.wait(&"q", || 0), "nobody is on the way");
        assert_eq!(flights.join(&"q", || 0), Joined::Leads);
        assert!(flights.wait(&"q", || 1));
        assert_eq!(flights.join(&"other", || 9), Joined::Leads);
        assert_eq!(flights.join(&"q", || 2), Joined::Waits);
        assert_eq!(flights.join(&"q", || 3), Joined::Full);
        assert!(!flights.wait(&"q", || 3), "so many wait already");
        assert_eq!(flights.land(&"q"), [1, 2]);
        assert_eq!(flights.join(&"q", || 4), Joined::Leads, "the next one asks again");
        assert_eq!(flights.land(&"never"), Vec::<i32>::new());
        assert_eq!(flights.len(), 2);
    }
}
