//! Doubly linked lists of slots, their links in an array: no allocation per entry, one cache line per touch.

use crate::chunks::Chunks;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// The links of all slots; a slot is in at most one list.
#[derive(Default)]
pub(super) struct Links(Chunks<(u32, u32)>);

/// One list: newest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub head: u32,
    pub tail: u32,
    pub len: usize,
    pub weight: u64,
}

impl Default for List {
    fn default() -> List {
        List { head: NONE, tail: NONE, len: 0, weight: 0 }
    }
}

impl Links {
    pub fn push_front(&mut self, list: &mut List, slot: u32, weight: u32) {
        if self.0.len() <= slot as usize {
            self.0.grow_to(slot as usize + 1);
        }
        self.0[slot as usize] = (NONE, list.head);
        match list.head {
            NONE => list.tail = slot,
            head => self.0[head as usize].0 = slot,
        }
        list.head = slot;
        list.len += 1;
        list.weight += u64::from(weight);
    }

    pub fn unlink(&mut self, list: &mut List, slot: u32, weight: u32) {
        let (prev, next) = self.0[slot as usize];
        match prev {
            NONE => list.head = next,
            prev => self.0[prev as usize].1 = next,
        }
        match next {
            NONE => list.tail = prev,
            next => self.0[next as usize].0 = prev,
        }
        list.len -= 1;
        list.weight -= u64::from(weight);
    }

    /// An entry of a list weighs more or less than before.
    pub fn reweigh(list: &mut List, before: u32, after: u32) {
        list.weight = list.weight - u64::from(before) + u64::from(after);
    }

    /// Moves a slot to the front of its own list.
    pub fn refresh(&mut self, list: &mut List, slot: u32) {
        if list.head != slot {
            self.unlink(list, slot, 0);
            self.push_front(list, slot, 0);
        }
    }

    /// The slots of a list, newest first.
    pub fn iter(&self, list: &List) -> impl Iterator<Item = u32> + '_ {
        let mut at = list.head;
        std::iter::from_fn(move || {
            (at != NONE).then(|| {
                let slot = at;
                at = self.0[slot as usize].1;
                slot
            })
        })
    }
}
