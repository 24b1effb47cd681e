//! Writes the verdict down as Markdown.

use super::ask::{Answer, Hit};
use super::crawl::{Crawled, DELAY_MS};
use super::judge::Verdict;
use super::packages::SITES;
use super::walk::Walk;
use super::{Options, machine};
use std::fmt::Write as _;

/// Lines shown of a long list.
const SHOWN: usize = 20;

pub fn write(
    options: &Options,
    walk: &Walk,
    crawl: &Crawled,
    verdict: &Verdict,
    answers: &[Answer],
) -> String {
    let mut text = String::new();
    head(&mut text, options);
    figures(&mut text, walk, crawl, verdict);
    rules(&mut text, verdict);
    hosts(&mut text, walk, verdict);
    languages(&mut text, crawl);
    questions(&mut text, answers);
    text
}

fn head(text: &mut String, options: &Options) {
    let outcome = "`cargo xtask debian-docs`";
    let _ = writeln!(text, "# A crawl of Debian's documentation\n");
    let _ = writeln!(
        text,
        "Pages that nobody here wrote: {} of Debian 12's documentation packages, each served by nginx as a host of \
         its own. {outcome} downloads them, has them walked link by link by a small Python program that shares \
         no code with Farol, crawls them with the real binary, and judges the crawl by nginx's own log.\n",
        SITES.len()
    );
    let _ = writeln!(text, "- Date: {}", machine::today());
    let _ = writeln!(text, "- Machine: {}; load {} at the end", machine::describe(), machine::load());
    let pages = options.pages_min;
    let _ = writeln!(text, "- Command: `cargo xtask debian-docs --pages-min {pages}`\n");
}

fn figures(text: &mut String, walk: &Walk, crawl: &Crawled, verdict: &Verdict) {
    let number = |path: &str| crawl.status.get(path).number();
    let rate = verdict.pages as f64 / verdict.seconds.max(0.001);
    let _ = writeln!(text, "## Figures\n\n| what | figure |\n|---|---:|");
    for (what, count, least) in &verdict.amounts {
        let _ = writeln!(text, "| {what} (at least {least}) | {count} |");
    }
    let rows = [
        ("pages of the walk that Farol did not fetch", verdict.missing.len().to_string()),
        ("pages that Farol fetched", verdict.pages.to_string()),
        ("all requests by Farol", verdict.requests.to_string()),
        ("time from first request to last answer", format!("{:.0} s", verdict.seconds)),
        ("time from start of the process to idle", format!("{:.0} s", crawl.seconds)),
        ("pages per second", format!("{rate:.0}")),
        ("processor time of Farol, indexing and settling included", format!("{:.0} s", crawl.cpu_seconds)),
        ("most memory held (VmHWM)", format!("{} MiB", crawl.memory_kib / 1024)),
        ("documents in the index", format!("{:.0}", number("index.documents"))),
        ("archive on disk", mebibytes(number("disk.archive_bytes"))),
        ("index on disk", mebibytes(number("disk.index_bytes"))),
        (
            "time of the walk",
            walk.seconds.map_or("of an earlier run".to_string(), |time| format!("{time:.0} s")),
        ),
    ];
    for (what, figure) in rows {
        let _ = writeln!(text, "| {what} | {figure} |");
    }
    let _ = writeln!(text);
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.0} MiB", bytes / 1_048_576.0)
}

fn rules(text: &mut String, verdict: &Verdict) {
    let _ = writeln!(
        text,
        "## Rules, by nginx's log\n\nDelay {DELAY_MS} ms (the servers are ours); 3 ms of slack for the log's clock. \
         Two packages share one address. Four hosts have rules in a robots.txt: see below.\n"
    );
    let _ = writeln!(text, "| rule | broken |\n|---|---:|");
    for (rule, broken) in &verdict.rules {
        let _ = writeln!(text, "| {rule} | {} |", broken.len());
    }
    let _ = writeln!(text);
    for (rule, broken) in verdict.rules.iter().filter(|(_, broken)| !broken.is_empty()) {
        list(text, rule, broken);
    }
    if !verdict.missing.is_empty() {
        list(text, "missing pages", &verdict.missing);
    }
    let _ = writeln!(
        text,
        "What Farol asked beyond the walk's pages:\n\n| answer | requests | for example |\n|---|---:|---|"
    );
    for (answer, (count, example)) in &verdict.beyond {
        let _ = writeln!(text, "| {answer} | {count} | {example} |");
    }
    let _ = writeln!(text);
}

fn list(text: &mut String, name: &str, lines: &[String]) {
    let _ = writeln!(text, "{name}:\n");
    for line in lines.iter().take(SHOWN) {
        let _ = writeln!(text, "- {line}");
    }
    if lines.len() > SHOWN {
        let _ = writeln!(text, "- and {} more", lines.len() - SHOWN);
    }
    let _ = writeln!(text);
}

fn hosts(text: &mut String, walk: &Walk, verdict: &Verdict) {
    let _ = writeln!(
        text,
        "## Hosts\n\nWhere a package has no page of plain links to all of its pages (LibreOffice's contents are \
         JavaScript; two packages hold a folder per language and no front page), nginx lists the folder.\n\n\
         | package | host | pages | links by | robots.txt | shortest pause |\n|---|---|---:|---|---|---:|"
    );
    for site in SITES {
        let host = site.host();
        let beginning = format!("http://{host}/");
        let pages = walk.pages.iter().filter(|url| url.starts_with(&beginning)).count();
        let links = if site.listing.is_some() { "nginx's listing" } else { "its own front page" };
        let mut robots: Vec<String> =
            site.robots.refused.iter().map(|path| format!("not `{path}`")).collect();
        if site.robots.delay_ms > 0 {
            robots.push(format!("{} ms", site.robots.delay_ms));
        }
        let robots = if robots.is_empty() { "none".to_string() } else { robots.join(", ") };
        let pause = verdict.shortest_ms.get(&host).filter(|pause| **pause != i64::MAX);
        let pause = pause.map_or("-".to_string(), |pause| format!("{pause} ms"));
        let _ = writeln!(text, "| {} | {host} | {pages} | {links} | {robots} | {pause} |", site.package);
    }
    let others: Vec<String> = walk.others.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
    let _ = writeln!(text, "\nThe walk was answered besides: {}.\n", others.join(", "));
}

fn languages(text: &mut String, crawl: &Crawled) {
    let rows: Vec<String> = crawl.languages.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let _ = writeln!(text, "## Languages, as Farol sees them\n\n{}\n", rows.join(", "));
}

fn questions(text: &mut String, answers: &[Answer]) {
    let within =
        |rank: usize| answers.iter().filter(|answer| answer.rank.is_some_and(|at| at <= rank)).count();
    let share = |count: usize| 100.0 * count as f64 / answers.len().max(1) as f64;
    let _ = writeln!(
        text,
        "## Thirty questions\n\nSensible answers were written down from the packages' pages, not from Farol's answers \
         (`xtask/src/debian_docs/queries.rs`).\n\n\
         - sensible first result: {} of {} ({:.0} %)\n- sensible result among the first three: {} ({:.0} %)\n",
        within(1),
        answers.len(),
        share(within(1)),
        within(3),
        share(within(3)),
    );
    let _ = writeln!(text, "| | question | place | first result | ms |\n|---|---|---:|---|---:|");
    for answer in answers {
        let place = answer.rank.map_or("-".to_string(), |rank| rank.to_string());
        let first = answer.results.first().map_or("none".to_string(), result);
        let (language, words) = (answer.query.language, answer.query.words);
        let _ = writeln!(text, "| {language} | {words} | {place} | {first} | {:.0} |", answer.milliseconds);
    }
    let _ = writeln!(text);
    for answer in answers.iter().filter(|answer| answer.rank != Some(1)) {
        let _ = writeln!(text, "\"{}\" wants {}; got:\n", answer.query.words, answer.query.wanted());
        for hit in &answer.results {
            let _ = writeln!(text, "1. {}", result(hit));
        }
        let _ = writeln!(text);
    }
}

/// A result in one line.
pub fn result(hit: &Hit) -> String {
    format!("{} ({}, {})", cell(&hit.title), cell(hit.url.trim_start_matches("http://")), cell(&hit.language))
}

/// A text that cannot break a table.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_to_themselves() {
        assert_eq!(cell("a|b\n<c>"), "a\\|b &lt;c>");
    }
}
