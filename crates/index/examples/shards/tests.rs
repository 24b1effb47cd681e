//! Several shards answer as one index does.

use crate::made::{MadeRanks, pages, questions, rules};
use crate::{Built, Equal, Way};
use farol_base::query::Request;

#[track_caller]
fn same_answers(seed: u64, count: usize, shards: usize, asked: usize) {
    let pages = pages(seed, count);
    let rules = rules(&pages);
    let (one, many) = (Built::new(&pages, 1).unwrap(), Built::new(&pages, shards).unwrap());
    let mut equal = Equal::default();
    let asked = questions(seed, &pages, asked).into_iter().enumerate();
    for (number, (query, languages)) in asked {
        let first = if number % 3 == 0 { number % 40 } else { 0 };
        let request = Request { query, first, count: 10, languages };
        let ask = |built: &Built, way| built.ask(way, &request, &rules, &MadeRanks).unwrap();
        let one = ask(&one, Way::Together);
        for way in Way::ALL {
            let many = ask(&many, way);
            let told = |answer: &farol_base::query::Answer| {
                let hits: Vec<String> =
                    answer.hits.iter().map(|hit| format!("{} {}", hit.score, hit.url)).collect();
                format!("{} {:?} {:?} {:#?}", answer.total, answer.corrected, answer.suggestion, hits)
            };
            assert!(
                equal.count(&one, &many),
                "{way:?} {request:?}\none:  {}\nmany: {}",
                told(&one),
                told(&many)
            );
            for (a, b) in one.hits.iter().zip(&many.hits).filter(|(a, b)| a.url == b.url) {
                assert_eq!((&a.snippet, &a.title), (&b.snippet, &b.title));
            }
        }
    }
    assert!(equal.pages * 100 >= equal.asked * 98, "{} of {} in the same order", equal.pages, equal.asked);
}

#[test]
fn four_shards_answer_as_one_index() {
    same_answers(1, 1_200, 4, 300);
}

#[test]
fn sixteen_shards_answer_as_one_index() {
    same_answers(2, 1_200, 16, 150);
}

#[test]
fn a_few_pages_in_two_shards_answer_as_one_index() {
    for seed in 3..6 {
        same_answers(seed, 40, 2, 60);
    }
}
