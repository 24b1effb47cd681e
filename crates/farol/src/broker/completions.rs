//! Completions of what somebody types, from all shards: weights of equal ones are summed.
//!
//! Whoever types does not wait: what has not come after a twentieth of a second is left out.

use super::RemoteIndex;
use super::known::{COMPLETIONS_AGE_MAX, COMPLETIONS_MAX, Remembered};
use crate::wire::v1::node::{ShardHead, SuggestRequest, WireCompletion};
use crate::wire::v1::verb;
use farol_index::without_accents;
use farol_query::scatter::Wanted;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long shards have.
const COMPLETE_MAX: Duration = Duration::from_millis(50);
/// Longest text that is completed.
const PREFIX_BYTES_MAX: usize = 200;
/// Each shard names so many times the completions that are wanted: one that is rare in each may be frequent in all.
const NAMED_TIMES: usize = 3;

/// Completions of the last minute.
pub struct Completions(Remembered<(String, usize), Vec<String>>);

impl Default for Completions {
    fn default() -> Completions {
        Completions(Remembered::new(COMPLETIONS_MAX))
    }
}

impl RemoteIndex {
    pub(super) fn complete(&self, prefix: &str, count: usize) -> Vec<String> {
        let end = prefix.floor_char_boundary(PREFIX_BYTES_MAX);
        let (key, now) = ((prefix[..end].to_string(), count), Instant::now());
        if let Some((completions, age)) = self.completions.0.get(&key, now)
            && age < COMPLETIONS_AGE_MAX
        {
            return completions;
        }
        let table = self.table();
        let wanted = table.shard_numbers().map(Wanted::from);
        let gathered = self.ask(&table, verb::SUGGEST, wanted, now + COMPLETE_MAX, |shard| SuggestRequest {
            head: ShardHead { map: table.map, shard: shard.0 },
            prefix: key.0.clone(),
            count: u32::try_from(count.saturating_mul(NAMED_TIMES)).unwrap_or(u32::MAX),
        });
        let whole = gathered.missing.is_empty();
        let completions = together(gathered.answers.into_iter().map(|answer| answer.answer), count);
        if whole {
            self.completions.0.set(key, completions.clone(), Instant::now());
        }
        completions
    }
}

/// The best completions of all shards: what continues everything typed comes before what continues a part of it.
fn together(shards: impl Iterator<Item = Vec<WireCompletion>>, count: usize) -> Vec<String> {
    // By what they are without case and accents: the tail, the sum, and the heaviest spelling with its weight.
    let mut sums: HashMap<String, (u8, u64, String, u64)> = HashMap::new();
    for completion in shards.flatten() {
        let WireCompletion { text, tail, weight } = completion;
        let entry = sums.entry(without_accents(&text)).or_insert((tail, 0, String::new(), 0));
        entry.0 = entry.0.min(tail);
        entry.1 = entry.1.saturating_add(weight);
        if entry.2.is_empty() || (weight, Reverse(&text)) > (entry.3, Reverse(&entry.2)) {
            (entry.2, entry.3) = (text, weight);
        }
    }
    let mut best: Vec<(u8, u64, String, u64)> = sums.into_values().collect();
    best.sort_by(|a, b| (a.0, Reverse(a.1), &a.2).cmp(&(b.0, Reverse(b.1), &b.2)));
    best.into_iter().take(count).map(|(_, _, text, _)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(completions: &[(&str, u8, u64)]) -> Vec<WireCompletion> {
        let completion = |(text, tail, weight): &(&str, u8, u64)| WireCompletion {
            text: text.to_string(),
            tail: *tail,
            weight: *weight,
        };
        completions.iter().map(completion).collect()
    }

    #[test]
    fn weights_are_summed_whatever_the_case_and_accents() {
        let one = shard(&[("farol", 0, 5), ("farois", 0, 6), ("faro light", 1, 90)]);
        let two = shard(&[("Fárol", 0, 4), ("farmácia", 0, 1)]);
        let all = together([one.clone(), two.clone()].into_iter(), 10);
        assert_eq!(all, ["farol", "farois", "farmácia", "faro light"]);
        assert_eq!(together([two, one].into_iter(), 2), ["farol", "farois"]);
        assert_eq!(together([].into_iter(), 3), Vec::<String>::new());
    }
}
