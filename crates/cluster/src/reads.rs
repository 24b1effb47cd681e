//! Which keys a state machine must read, and not too often.

use crate::Monotonic;
use std::collections::BTreeMap;

/// A read that brought nothing is repeated after this.
const AGAIN_MS: u64 = 500;

/// When each wanted key was last asked for.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    asked: BTreeMap<String, Monotonic>,
}

impl Reads {
    /// Of the keys that are wanted, those to read now.
    pub fn due(&mut self, wanted: Vec<String>, now: Monotonic) -> Vec<String> {
        self.asked.retain(|key, _| wanted.contains(key));
        let is_due = |key: &String| self.asked.get(key).is_none_or(|at| now.since(*at) >= AGAIN_MS);
        let due: Vec<String> = wanted.into_iter().filter(is_due).collect();
        self.asked.extend(due.iter().map(|key| (key.clone(), now)));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_asked_for_at_once_and_then_now_and_then() {
        let mut reads = Reads::default();
        let mut check = |wanted: &[&str], millis, want: &[&str]| {
            let wanted = wanted.iter().map(|key| key.to_string()).collect();
            assert_eq!(reads.due(wanted, Monotonic::from_millis(millis)), want, "{millis}");
        };
        check(&["a"], 0, &["a"]);
        check(&["a", "b"], 100, &["b"]);
        check(&["a", "b"], 500, &["a"]);
        check(&[], 600, &[]);
        check(&["a"], 601, &["a"]);
    }
}
