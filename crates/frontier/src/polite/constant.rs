//! The same rest for everybody \[Exposto08\] ("constant").

use super::{DelayRule, Facts};
use std::time::Duration;

/// Rests this long after every request. The thesis used 15 s throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant(pub Duration);

impl Default for Constant {
    fn default() -> Constant {
        Constant(Duration::from_secs(15))
    }
}

impl DelayRule for Constant {
    fn delay(&self, _: &Facts) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_it() {
        let slow = Facts { last_download: Duration::from_secs(60), pages_known: 9, ..Facts::default() };
        assert_eq!(Constant::default().delay(&slow), Duration::from_secs(15));
        assert_eq!(Constant(Duration::ZERO).delay(&slow), Duration::ZERO);
    }
}
