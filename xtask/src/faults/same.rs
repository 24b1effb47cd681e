//! Whether a cluster answers as one process with the same pages does: the same results in the same order, ties aside.

use super::bench::{Allowed, Bench, Healed, Row};
use super::history::History;
use super::lab::Lab;
use crate::debian_docs::http;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Questions that are compared.
const QUESTIONS: usize = 1000;
/// Results of each.
const COUNT: usize = 10;
/// Scores that differ by less, as a share, are ties: both sides add up in single precision, in orders of their own.
const TIE: f64 = 1e-4;
/// Ranks of links follow the pages: answers that have not changed for so long are the last ones.
const REST: Duration = Duration::from_secs(25);
const PATIENCE: Duration = Duration::from_secs(1200);
/// Questions by which it is seen whether answers still change.
const PROBES: usize = 20;

/// Results with their scores, best first, and how many pages have the words.
#[derive(Clone, Debug, PartialEq)]
struct Answered {
    hits: Vec<(String, f64)>,
    total: f64,
}

/// The cluster has crawled all; one process crawls the same, and both are asked the same.
pub fn answers(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let alone = bench.lab.start_alone()?;
    wait_for_pages(alone, bench.pages)?;
    let questions = questions(alone)?;
    let fronts = bench.lab.fronts();
    let probes = &questions[..PROBES.min(questions.len())];
    settle("the one process", alone, probes)?;
    for front in &fronts {
        settle("a front", *front, probes)?;
    }
    let (mut same, mut ties, mut other, mut totals) = (0, 0, Vec::new(), 0);
    for (nth, question) in questions.iter().enumerate() {
        let (one, many) = (ask(alone, question)?, ask(fronts[nth % fronts.len()], question)?);
        totals += usize::from(one.total != many.total);
        let urls = |answered: &Answered| -> Vec<String> {
            answered.hits.iter().map(|(url, _)| url.clone()).collect()
        };
        match (urls(&one) == urls(&many), alike(&one, &many)) {
            (true, _) => same += 1,
            (false, true) => ties += 1,
            (false, false) => {
                other.push(format!("{question}: {:?}, and in the cluster {:?}", one.hits, many.hits))
            }
        }
    }
    bench.lab.end_alone()?;
    let mut row = bench.under_load("none, compared before", Allowed::default(), |_, away| {
        std::thread::sleep(away.min(Duration::from_secs(5)));
        Ok(Healed::default())
    })?;
    row.notes.push(format!(
        "{} questions, {} pages: {same} have the same ten in the same order, {ties} up to ties, {} differ; {totals} \
         totals differ",
        questions.len(),
        bench.pages,
        other.len()
    ));
    row.broken.extend(other.into_iter().take(5));
    if totals > 0 {
        row.broken.push(format!("{totals} totals differ"));
    }
    if questions.len() < QUESTIONS {
        row.broken.push(format!("only {} questions", questions.len()));
    }
    Ok(vec![row])
}

/// Waits until one process has as many pages.
fn wait_for_pages(alone: SocketAddr, pages: u64) -> Result<(), String> {
    let (begun, mut last) = (Instant::now(), String::new());
    while begun.elapsed() < PATIENCE {
        match Lab::status_alone(alone) {
            Ok(json) if json.get("index.documents").number() == pages as f64 => return Ok(()),
            Ok(json) => last = format!("{} pages", json.get("index.documents").number()),
            Err(error) => last = error,
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    Err(format!("one process alone does not come to {pages} pages: {last}"))
}

fn settle(who: &str, front: SocketAddr, probes: &[String]) -> Result<(), String> {
    let begun = Instant::now();
    let look = || probes.iter().map(|question| ask(front, question)).collect::<Result<Vec<_>, _>>();
    let (mut last, mut since) = (look()?, Instant::now());
    while since.elapsed() < REST {
        std::thread::sleep(Duration::from_secs(1));
        let now = look()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("the answers of {who} never come to rest"));
        }
    }
    Ok(())
}

fn ask(front: SocketAddr, question: &str) -> Result<Answered, String> {
    let path = format!("/api/v1/search?count={COUNT}&q={}", http::escaped(question));
    let json = http::get(front, &path, "")?;
    let (total, answered) = (json.get("shards.total").number(), json.get("shards.answered").number());
    if answered < total {
        return Err(format!("{question} was answered in part"));
    }
    let hit = |hit: &crate::json::Json| (hit.get("url").text().to_string(), hit.get("score").number());
    Ok(Answered {
        hits: json.get("hits").list().iter().map(hit).collect(),
        total: json.get("total").number(),
    })
}

fn are_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= TIE * a.abs().max(b.abs())
}

/// Whether both have the same scores in the same order, and each page has its score in both; among pages that tie with
/// the last one either may be left out.
fn alike(one: &Answered, many: &Answered) -> bool {
    let has_all = |these: &Answered, those: &Answered| {
        let last = these.hits.last().map_or(0.0, |(_, score)| *score);
        these.hits.iter().all(|(url, score)| match those.hits.iter().find(|(other, _)| other == url) {
            Some((_, other)) => are_near(*score, *other),
            None => are_near(*score, last),
        })
    };
    let scores = one.hits.iter().zip(&many.hits).all(|(a, b)| are_near(a.1, b.1));
    one.hits.len() == many.hits.len() && scores && has_all(one, many) && has_all(many, one)
}

/// Words of pages, one, two and three at a time, as phrases, and within a site.
fn questions(front: SocketAddr) -> Result<Vec<String>, String> {
    let (mut words, mut sites) = (BTreeSet::new(), BTreeSet::new());
    for first in (0..1000).step_by(100) {
        let json = http::get(front, &format!("/api/v1/search?q=the&count=100&first={first}"), "")?;
        for hit in json.get("hits").list() {
            let text = format!("{} {}", hit.get("title").text(), hit.get("snippet").text());
            let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
            words.extend(parts.map(str::to_lowercase));
            sites.extend(hit.get("url").text().split('/').nth(2).map(str::to_string));
        }
    }
    let (words, sites): (Vec<String>, Vec<String>) =
        (words.into_iter().collect(), sites.into_iter().collect());
    if words.len() < 20 || sites.is_empty() {
        return Err(format!("too few words: {words:?}"));
    }
    let word = |at: usize| &words[at % words.len()];
    let mut questions = BTreeSet::new();
    for nth in 0..10 * QUESTIONS {
        // Primes, so that words meet others each time.
        let (one, two, three) = (word(nth), word(nth * 7 + 3), word(nth * 31 + 11));
        questions.insert(match nth % 5 {
            0 => one.clone(),
            1 => format!("{one} {two}"),
            2 => format!("{one} {two} {three}"),
            3 => format!("{one} -{two}"),
            _ => format!("{one} site:{}", sites[nth % sites.len()]),
        });
        if questions.len() == QUESTIONS {
            break;
        }
    }
    Ok(questions.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_may_stand_in_any_order() {
        let answered = |hits: &[(&str, f64)]| Answered {
            hits: hits.iter().map(|(url, score)| (url.to_string(), *score)).collect(),
            total: 9.0,
        };
        let one = answered(&[("a", 3.0), ("b", 2.0), ("c", 2.0), ("d", 1.0)]);
        assert!(alike(&one, &one));
        assert!(alike(&one, &answered(&[("a", 3.0), ("c", 2.0), ("b", 2.0), ("d", 1.0)])));
        assert!(
            alike(&one, &answered(&[("a", 3.0), ("b", 2.0), ("c", 2.0), ("e", 1.0)])),
            "the last ones tie"
        );
        assert!(!alike(&one, &answered(&[("b", 3.0), ("a", 2.0), ("c", 2.0), ("d", 1.0)])));
        assert!(!alike(&one, &answered(&[("a", 3.0), ("b", 2.0), ("e", 2.0), ("d", 1.0)])));
        assert!(!alike(&one, &answered(&[("a", 3.0), ("b", 2.0), ("c", 2.0)])));
        assert!(!alike(&one, &answered(&[("a", 3.1), ("b", 2.0), ("c", 2.0), ("d", 1.0)])));
    }
}
