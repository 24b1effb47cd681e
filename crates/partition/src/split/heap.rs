//! A priority queue of vertices whose keys change: the greatest first.

const ABSENT: u32 = u32::MAX;
/// Children of a node; four fit a cache line with their keys.
const WIDTH: usize = 4;

pub(super) struct Heap {
    entries: Vec<(i64, u32)>,
    /// Where each vertex stands.
    place: Vec<u32>,
}

impl Heap {
    pub fn new(vertices: usize) -> Heap {
        Heap { entries: Vec::new(), place: vec![ABSENT; vertices] }
    }

    pub fn is_in(&self, vertex: u32) -> bool {
        self.place[vertex as usize] != ABSENT
    }

    /// Puts a vertex in, or gives it another key.
    pub fn set(&mut self, vertex: u32, key: i64) {
        let at = self.place[vertex as usize];
        if at == ABSENT {
            self.entries.push((key, vertex));
            self.rise(self.entries.len() - 1);
            return;
        }
        let before = std::mem::replace(&mut self.entries[at as usize].0, key);
        if key > before {
            self.rise(at as usize);
        } else if key < before {
            self.sink(at as usize);
        }
    }

    pub fn remove(&mut self, vertex: u32) {
        let at = self.place[vertex as usize];
        if at == ABSENT {
            return;
        }
        self.place[vertex as usize] = ABSENT;
        let (at, last) = (at as usize, self.entries.len() - 1);
        self.entries.swap_remove(at);
        if at < last {
            self.place[self.entries[at].1 as usize] = at as u32;
            self.rise(at);
            self.sink(self.place[self.entries[at].1 as usize] as usize);
        }
    }

    pub fn pop(&mut self) -> Option<(i64, u32)> {
        let top = *self.entries.first()?;
        self.remove(top.1);
        Some(top)
    }

    /// Empties the queue and tells who was in it.
    pub fn clear(&mut self, mut each: impl FnMut(u32)) {
        for (_, vertex) in self.entries.drain(..) {
            self.place[vertex as usize] = ABSENT;
            each(vertex);
        }
    }

    fn put(&mut self, at: usize, entry: (i64, u32)) {
        self.entries[at] = entry;
        self.place[entry.1 as usize] = at as u32;
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / WIDTH;
            if self.entries[parent].0 >= entry.0 {
                break;
            }
            self.put(at, self.entries[parent]);
            at = parent;
        }
        self.put(at, entry);
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.entries[at];
        loop {
            let first = at * WIDTH + 1;
            let children = first..(first + WIDTH).min(self.entries.len());
            let Some(most) = children.max_by_key(|child| self.entries[*child].0) else { break };
            if self.entries[most].0 <= entry.0 {
                break;
            }
            self.put(at, self.entries[most]);
            at = most;
        }
        self.put(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{Random, Seeded};
    use std::collections::BTreeMap;

    /// Races a list that is searched from end to end.
    #[test]
    fn the_greatest_comes_first_whatever_happened_before() {
        let mut random = Seeded::new(7);
        let mut heap = Heap::new(50);
        let mut naive: BTreeMap<u32, i64> = BTreeMap::new();
        for _ in 0..20_000 {
            let vertex = random.below(50) as u32;
            match random.below(4) {
                0 | 1 => {
                    let key = random.below(100) as i64 - 50;
                    heap.set(vertex, key);
                    naive.insert(vertex, key);
                }
                2 => {
                    heap.remove(vertex);
                    naive.remove(&vertex);
                }
                _ => {
                    let got = heap.pop();
                    assert_eq!(got.map(|(key, _)| key), naive.values().max().copied());
                    if let Some((key, vertex)) = got {
                        assert_eq!(naive.remove(&vertex), Some(key));
                    }
                }
            }
            assert_eq!(heap.is_in(vertex), naive.contains_key(&vertex));
        }
    }
}
