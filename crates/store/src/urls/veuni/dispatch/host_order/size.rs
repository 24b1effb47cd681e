//! By number of pages: the largest servers first, because under politeness they take longest.

use super::{Facts, Schedule};

/// Orders by URLs that wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size;

impl Schedule for Size {
    fn key(&self, server: &Facts<'_>) -> Option<u64> {
        Some(u64::MAX - server.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_servers_come_first() {
        let key = |waiting| Size.key(&Facts { waiting, ..Facts::default() });
        assert!(key(9) < key(8));
    }
}
