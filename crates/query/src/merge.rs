//! Makes one answer of those of several shards.
//!
//! Scores of different shards are comparable because shards share their statistics; this file only puts hits in
//! order. It does not collapse similar pages or crowding hosts again: each shard has done so for its own pages.

use farol_base::query::{Answer, Hit};
use std::collections::HashSet;
use std::time::Duration;

/// Merges answers to one question, each from rank 0 to at least `first + count`, and keeps the part wanted.
///
/// - Hits stand by score, best first, equal scores by URL, so that pages of results never overlap. A score that is
///   not a number counts as the worst.
/// - A URL that several shards hold (it is moving between them) is kept once, with its best score.
/// - `total` is the sum, less the copies seen.
/// - `generation` is the least: the answer is as old as its oldest part. `took` is the greatest.
/// - `suggestion` and `corrected` come from the shard that knows most pages for the question.
///
/// Nothing to merge gives the empty answer.
pub fn merge(answers: Vec<Answer>, first: usize, count: usize) -> Answer {
    let mut merged = Answer {
        generation: answers.iter().map(|answer| answer.generation).min().unwrap_or(0),
        took: answers.iter().map(|answer| answer.took).max().unwrap_or(Duration::ZERO),
        more: answers.iter().any(|answer| answer.more),
        total: answers.iter().fold(0, |sum: usize, answer| sum.saturating_add(answer.total)),
        ..Answer::default()
    };
    // The first of the greatest wins, so that the order of shards decides ties, always the same way.
    let spelt = answers.iter().filter(|answer| answer.suggestion.is_some());
    merged.suggestion =
        spelt.rev().max_by_key(|answer| answer.total).and_then(|answer| answer.suggestion.clone());
    let most = answers.iter().rev().max_by_key(|answer| answer.total);
    merged.corrected = most.and_then(|answer| answer.corrected.clone());

    let mut hits: Vec<Hit> = answers.into_iter().flat_map(|answer| answer.hits).collect();
    hits.sort_by(|a, b| order(b).total_cmp(&order(a)).then_with(|| a.url.cmp(&b.url)));
    let all = hits.len();
    let mut seen = HashSet::with_capacity(all);
    hits.retain(|hit| seen.insert(hit.url.clone()));
    merged.total = merged.total.saturating_sub(all - hits.len()).max(hits.len());
    merged.more |= hits.len() > first.saturating_add(count);
    merged.hits = hits.into_iter().skip(first).take(count).collect();
    merged
}

fn order(hit: &Hit) -> f32 {
    if hit.score.is_nan() { f32::NEG_INFINITY } else { hit.score }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{CanonicalUrl, PagePosition, Timestamp};
    use proptest::prelude::*;

    fn answer(hits: &[(&str, f32)]) -> Answer {
        let hit = |(name, score): &(&str, f32)| Hit {
            url: CanonicalUrl::parse(&format!("http://{name}.test/")).unwrap(),
            title: Vec::new(),
            snippet: Vec::new(),
            language: None,
            dated: None,
            fetched: Timestamp::EPOCH,
            score: *score,
            duplicates: 0,
            more_from_host: false,
            pinned: false,
            position: PagePosition::default(),
        };
        Answer { hits: hits.iter().map(hit).collect(), total: hits.len(), generation: 7, ..Answer::default() }
    }

    fn names(answer: &Answer) -> String {
        let name = |hit: &Hit| hit.url.host().name().split('.').next().unwrap_or("").to_string();
        answer.hits.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn best_first_and_each_page_once() {
        let shards = vec![
            answer(&[("a", 3.0), ("b", 1.0), ("n", f32::NAN)]),
            answer(&[("b", 2.0), ("c", 1.0), ("d", 1.0)]),
        ];
        let merged = merge(shards.clone(), 0, 3);
        assert_eq!((names(&merged).as_str(), merged.total, merged.more), ("a b c", 5, true));
        assert_eq!(merged.hits[1].score, 2.0);
        let next = merge(shards, 3, 3);
        assert_eq!((names(&next).as_str(), next.more), ("d n", false));
    }

    #[test]
    fn an_answer_is_as_old_as_its_oldest_part() {
        let late = Answer {
            generation: 9,
            took: Duration::from_millis(5),
            suggestion: Some(crate::read("late").query),
            total: 3,
            ..Answer::default()
        };
        let early = Answer { suggestion: Some(crate::read("early").query), total: 3, ..answer(&[]) };
        let merged = merge(vec![early, late], 0, 10);
        assert_eq!((merged.generation, merged.took), (7, Duration::from_millis(5)));
        assert_eq!(merged.suggestion, Some(crate::read("early").query));
        assert_eq!(merge(Vec::new(), 0, 10).total, 0);
    }

    proptest! {
        #[test]
        fn pages_of_results_add_up_to_the_whole(
            shards in proptest::collection::vec(proptest::collection::vec((0u8..20, 0u8..4), 0..8), 0..4),
            count in 1usize..5,
        ) {
            let letters: Vec<String> = (0..20).map(|i| format!("h{i}")).collect();
            let shards: Vec<Answer> = shards.iter().map(|hits| {
                let hits: Vec<(&str, f32)> =
                    hits.iter().map(|(name, score)| (letters[*name as usize].as_str(), f32::from(*score))).collect();
                answer(&hits)
            }).collect();
            let whole = merge(shards.clone(), 0, usize::MAX);
            let mut paged = Vec::new();
            for page in 0.. {
                let part = merge(shards.clone(), page * count, count);
                paged.extend(part.hits);
                if !part.more { break; }
            }
            prop_assert_eq!(paged, whole.hits);
        }
    }
}
