//! Writes the places down as Markdown.

use super::questions::{KINDS, LANGUAGES, Placed};
use crate::debian_docs::crawl::Crawled;
use crate::debian_docs::machine;
use crate::debian_docs::packages::Site;
use crate::debian_docs::report::{cell, result};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Results shown for a loss.
const SHOWN: usize = 3;

pub fn write(
    sets: &[&str],
    sites: &[Site],
    pages: &BTreeMap<String, usize>,
    crawl: &Crawled,
    answers: &[Placed<'_>],
) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "# A trial with written questions\n\n\
         {} of Debian 12's documentation packages, each served by nginx \
         as a host of its own, crawled by the real binary, then asked what a person would ask. Questions and right \
         pages (`xtask/src/trial/questions.tsv`) were written from the pages and committed before the first run; \
         sets A and B were looked at while ranking was mended, set C was not.\n\n\
         - Date: {}\n- Machine: {}\n- Command: `cargo xtask trial --set {}`\n- Pages: {}, searchable after {:.0} s\n",
        sites.len(),
        machine::today(),
        machine::describe(),
        if sets.len() > 1 { "both" } else { sets[0] },
        pages.values().sum::<usize>(),
        crawl.seconds,
    );
    let _ = writeln!(text, "| package | host | made by | pages |\n|---|---|---|---:|");
    for site in sites {
        let count = pages.get(&site.host()).copied().unwrap_or(0);
        let _ = writeln!(text, "| {} | {} | {} | {count} |", site.package, site.host(), site.generator);
    }
    let _ = writeln!(text, "\n{}", self::answers(sets, answers));
    text
}

/// The part about questions alone.
pub fn answers(sets: &[&str], answers: &[Placed<'_>]) -> String {
    let mut text = String::new();
    for set in sets {
        let chosen: Vec<&Placed<'_>> = answers.iter().filter(|placed| placed.question.set == *set).collect();
        let _ = writeln!(text, "## Set {}\n", set.to_uppercase());
        totals(&mut text, &chosen);
        places(&mut text, &chosen);
        losses(&mut text, &chosen);
    }
    text.truncate(text.trim_end().len());
    text
}

fn totals(text: &mut String, answers: &[&Placed<'_>]) {
    let _ = writeln!(
        text,
        "| questions | number | right page first | in the first three | on the first page |\n|---|---:|---:|---:|---:|"
    );
    row(text, "**all**", answers, |_| true);
    for language in LANGUAGES {
        row(text, language, answers, |placed| placed.question.language == *language);
    }
    for kind in KINDS {
        row(text, kind, answers, |placed| placed.question.kind == *kind);
    }
    let _ = writeln!(text);
}

fn row(text: &mut String, name: &str, answers: &[&Placed<'_>], wanted: impl Fn(&Placed<'_>) -> bool) {
    let ranks: Vec<Option<usize>> =
        answers.iter().filter(|placed| wanted(placed)).map(|placed| placed.rank).collect();
    let within = |place: usize| {
        let count = ranks.iter().filter(|rank| rank.is_some_and(|at| at <= place)).count();
        format!("{count} ({:.0} %)", 100.0 * count as f64 / ranks.len().max(1) as f64)
    };
    let _ = writeln!(
        text,
        "| {name} | {} | {} | {} | {} |",
        ranks.len(),
        within(1),
        within(3),
        within(usize::MAX)
    );
}

fn places(text: &mut String, answers: &[&Placed<'_>]) {
    let _ = writeln!(text, "| | kind | question | place | ms |\n|---|---|---|---:|---:|");
    for placed in answers {
        let question = placed.question;
        let place = placed.rank.map_or("-".to_string(), |rank| rank.to_string());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {place} | {:.0} |",
            question.language,
            question.kind,
            cell(question.words),
            placed.milliseconds
        );
    }
    let _ = writeln!(text);
}

fn losses(text: &mut String, answers: &[&Placed<'_>]) {
    let _ = writeln!(text, "What came instead, where the right page was not first:\n");
    for placed in answers.iter().filter(|placed| placed.rank != Some(1)) {
        let wanted: Vec<&str> =
            placed.question.pages.iter().map(|url| url.trim_start_matches("http://")).collect();
        let _ = writeln!(text, "\"{}\" wants {}; got:\n", placed.question.words, wanted.join(" or "));
        for hit in placed.results.iter().take(SHOWN) {
            let _ = writeln!(text, "1. {}", result(hit));
        }
        if placed.results.is_empty() {
            let _ = writeln!(text, "nothing.");
        }
        let _ = writeln!(text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::questions::Question;
    use super::*;
    use crate::debian_docs::ask::Hit;

    #[test]
    fn places_are_counted_and_losses_shown() {
        let question = Question {
            set: "a",
            language: "pt",
            kind: "keyword",
            words: "x|y",
            pages: vec!["http://h/a".to_string()],
        };
        let hit = Hit { title: "T".to_string(), url: "http://h/b".to_string(), language: "pt".to_string() };
        let placed = |rank, results| Placed { question: &question, results, rank, milliseconds: 1.0 };
        let text = answers(
            &["a"],
            &[placed(Some(1), Vec::new()), placed(Some(3), vec![hit]), placed(None, Vec::new())],
        );
        assert!(text.contains("| **all** | 3 | 1 (33 %) | 2 (67 %) | 2 (67 %) |"), "{text}");
        assert!(text.contains("| pt | keyword | x\\|y | 3 | 1 |"), "{text}");
        assert!(text.contains("wants h/a; got:\n\n1. T (h/b, pt)"), "{text}");
        assert!(text.contains("got:\n\nnothing."), "{text}");
    }
}
