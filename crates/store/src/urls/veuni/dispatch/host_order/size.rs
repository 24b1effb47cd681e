//! By number of pages: the largest hosts first, because under politeness they take longest.

use super::{HostFacts, HostOrder};

/// Orders by URLs that wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size;

impl HostOrder for Size {
    fn key(&self, host: &HostFacts<'_>) -> Option<u64> {
        Some(u64::MAX - host.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_servers_come_first() {
        let key = |waiting| Size.key(&HostFacts { waiting, ..HostFacts::default() });
        assert!(key(9) < key(8));
    }
}
