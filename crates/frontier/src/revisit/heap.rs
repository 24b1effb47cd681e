//! A 4-ary min-heap of pages: the children of a node share a cache line.
//!
//! Does not know where in the heap a page is; who needs to move a page looks near the top, or waits for its turn.

/// Pages by key.
#[derive(Clone, Debug, Default)]
pub struct Heap<K> {
    entries: Vec<(K, u32)>,
}

const CHILDREN: usize = 4;

impl<K: PartialOrd + Copy> Heap<K> {
    /// Builds in O(n).
    pub fn new(entries: Vec<(K, u32)>) -> Heap<K> {
        let mut heap = Heap { entries };
        for at in (0..heap.entries.len().div_ceil(CHILDREN)).rev() {
            heap.sink(at);
        }
        heap
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn first(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// The entries nearest the top, the first one first, in no other order.
    pub fn top(&self, count: usize) -> &[(K, u32)] {
        &self.entries[..count.min(self.entries.len())]
    }

    pub fn push(&mut self, key: K, page: u32) {
        self.entries.push((key, page));
        self.rise(self.entries.len() - 1);
    }

    /// Takes out the entry at a place that [`Heap::top`] showed.
    pub fn remove(&mut self, at: usize) -> Option<(K, u32)> {
        if at >= self.entries.len() {
            return None;
        }
        let removed = self.entries.swap_remove(at);
        if at < self.entries.len() {
            self.sink(at);
            self.rise(at);
        }
        Some(removed)
    }

    pub fn pop(&mut self) -> Option<(K, u32)> {
        self.remove(0)
    }

    /// Gives the first entry another key, in one descent instead of two.
    pub fn rekey_first(&mut self, key: K) {
        if let Some(first) = self.entries.first_mut() {
            first.0 = key;
            self.sink(0);
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.entries[parent].0 <= self.entries[at].0 {
                return;
            }
            self.entries.swap(parent, at);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        let Some(moving) = self.entries.get(at).copied() else { return };
        loop {
            let first = at * CHILDREN + 1;
            let Some(children) =
                self.entries.get(first..(first + CHILDREN).min(self.entries.len()).max(first))
            else {
                break;
            };
            let Some(mut least) = children.first().copied() else { break };
            let mut which = first;
            for (offset, child) in children.iter().enumerate().skip(1) {
                if child.0 < least.0 {
                    (least, which) = (*child, first + offset);
                }
            }
            if moving.0 <= least.0 {
                break;
            }
            self.entries[at] = least;
            at = which;
        }
        self.entries[at] = moving;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_leave_in_the_order_of_a_sort(
            built in proptest::collection::vec(0u32..50, 0..40), pushed in proptest::collection::vec(0u32..50, 0..40),
            rekeyed in proptest::option::of(0u32..50), removed in 0usize..8,
        ) {
            let mut want: Vec<u32> = built.iter().chain(&pushed).copied().collect();
            let mut heap = Heap::new(built.iter().map(|key| (*key, 0)).collect());
            pushed.iter().for_each(|key| heap.push(*key, 0));
            want.sort_unstable();
            if let (Some(key), Some((first, _))) = (rekeyed, heap.first()) {
                prop_assert_eq!(first, want[0]);
                heap.rekey_first(key);
                want[0] = key;
            }
            if let Some((key, _)) = heap.remove(removed) {
                want.swap_remove(want.iter().position(|other| *other == key).unwrap());
            }
            want.sort_unstable();
            prop_assert_eq!(heap.len(), want.len());
            let got: Vec<u32> = std::iter::from_fn(|| heap.pop()).map(|(key, _)| key).collect();
            prop_assert_eq!(got, want);
        }
    }
}
