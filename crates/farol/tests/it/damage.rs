//! Files of a data folder that are flipped, cut or gone: `check` tells the truth, `--repair` mends it, `up` goes on.

use crate::fixture::{Data, Farol, Web, files};
use farol_base::{Random, Seeded};
use farol_synthetic::WebConfig;
use std::path::{Path, PathBuf};
use std::process::Output;

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// Flips one bit, at this part of the file.
    Flip(f64),
    /// Cuts it to this part of its length.
    Cut(f64),
    Remove,
}

impl Harm {
    fn to(self, file: &Path) {
        let mut bytes = std::fs::read(file).unwrap();
        let at = |part: f64| ((bytes.len() as f64 * part) as usize).min(bytes.len().saturating_sub(1));
        match self {
            Harm::Flip(part) if !bytes.is_empty() => {
                let at = at(part);
                bytes[at] ^= 1 << (at % 8);
                std::fs::write(file, bytes).unwrap();
            }
            Harm::Flip(_) => {}
            Harm::Cut(part) => {
                let length = at(part) as u64;
                std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length).unwrap();
            }
            Harm::Remove => std::fs::remove_file(file).unwrap(),
        }
    }
}

/// All files below a folder, by their paths in it.
fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(all_files(&path).into_iter().map(|file| Path::new(&entry.file_name()).join(file)));
        } else {
            found.push(PathBuf::from(entry.file_name()));
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    for file in all_files(from) {
        std::fs::create_dir_all(to.join(&file).parent().unwrap()).unwrap();
        std::fs::copy(from.join(&file), to.join(&file)).unwrap();
    }
}

/// Standard output and error; neither may tell of a panic.
fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    let text = both.concat();
    assert!(!text.contains("panicked") && output.status.code().is_some(), "{text}");
    text
}

/// A small crawl that has ended, and what can be found of it.
struct Crawled {
    web: Web,
    whole: Data,
    urls: Vec<String>,
}

const PAGES: u64 = 30;

impl Crawled {
    fn new() -> Crawled {
        let web = Web::start(WebConfig { hosts: 3, pages: PAGES, ..WebConfig::tame() });
        let whole = Data::new();
        let mut arguments = web.flags();
        arguments.extend([web.seed(), "--delay".into(), "0".into(), "--index".into()]);
        Farol::start(&whole, "crawl", &arguments).finish();
        let urls = exported(&whole);
        assert_eq!(urls.len() as u64, PAGES);
        Crawled { web, whole, urls }
    }

    /// Harms one file of a copy, then checks, repairs, crawls on and checks again.
    fn harm(&self, file: &Path, harm: Harm) {
        let case = format!("{} {harm:?}", file.display());
        let data = Data::new();
        copy(&self.whole.path(), &data.path());
        harm.to(&data.path().join(file));
        let output = data.run(&["check"]);
        let (before, was_fine) = (said(&output), output.status.success());
        assert!(was_fine || before.contains("farol check --repair"), "{case}: {before}");
        let other_format = before.contains("format");
        if file == Path::new("FAROL") && !was_fine && other_format {
            // Nobody can tell a flipped number from the number of another version.
            return;
        }
        if was_fine {
            // Then nothing is lost, without any repair.
            let found = self.crawl_on(&data, &case);
            assert_eq!(found, self.urls, "{case}: fine, but something was lost\n{before}");
        } else {
            let output = data.run(&["check", "--repair"]);
            let repaired = said(&output);
            assert!(output.status.success(), "{case}: {repaired}");
            let output = data.run(&["check"]);
            let after = said(&output);
            assert!(output.status.success(), "{case}\n{before}\nrepaired:\n{repaired}\nand then:\n{after}");
            let found = self.crawl_on(&data, &case);
            assert_eq!(found, self.urls, "{case}\n{before}\nrepaired:\n{repaired}");
        }
        let output = data.run(&["check"]);
        assert!(output.status.success(), "{case}, after crawling on: {}", said(&output));
    }

    /// Crawls to the end, naming the seed again; what can be found then.
    fn crawl_on(&self, data: &Data, case: &str) -> Vec<String> {
        let mut arguments: Vec<String> = vec!["crawl".into(), self.web.seed(), "--index".into()];
        arguments.extend(self.web.flags());
        arguments.extend(["--delay".into(), "0".into()]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = data.run(&arguments);
        let text = said(&output);
        assert!(output.status.success(), "{case}: {text}");
        exported(data)
    }
}

fn exported(data: &Data) -> Vec<String> {
    // Asking takes in what is not indexed yet.
    said(&data.run(&["search", "mar"]));
    let mut urls: Vec<String> = data.run_well(&["export", "urls"]).lines().map(String::from).collect();
    urls.sort();
    urls
}

/// One file of each kind: numbers and letters of names do not count.
fn kinds(folder: &Path) -> Vec<PathBuf> {
    let kind = |path: &PathBuf| -> String {
        let name = path.to_string_lossy().into_owned();
        let ending = name.strip_prefix("index/").and_then(|name| name.split_once('.'));
        match ending {
            Some((segment, ending)) if segment.len() == 32 => format!("index/segment.{ending}"),
            _ => name.chars().filter(|c| !c.is_ascii_digit()).collect(),
        }
    };
    let mut files = all_files(folder);
    files.sort_by_key(kind);
    files.dedup_by_key(|file| kind(file));
    files
}

#[test]
fn whatever_file_is_harmed_check_tells_the_truth_and_repair_mends_it() {
    let crawled = Crawled::new();
    let kinds = kinds(&crawled.whole.path());
    for wanted in ["FAROL", "lock", "running.json", "tables.redb", "urls/blocks", "index/meta.json"] {
        assert!(kinds.contains(&PathBuf::from(wanted)) || wanted == "running.json", "{wanted}: {kinds:?}");
    }
    let mut random = Seeded::new(11);
    for (number, file) in kinds.iter().enumerate() {
        let part = random.below(1000) as f64 / 1000.0;
        // Each kind once, in turn; the ones that matter most in each way.
        let all = [Harm::Flip(part), Harm::Cut(part), Harm::Remove];
        let name = file.to_string_lossy();
        if name.starts_with("urls/") || name.starts_with("pages/farol-") {
            all.iter().for_each(|harm| crawled.harm(file, *harm));
        } else {
            crawled.harm(file, all[number % 3]);
        }
    }
}

/// As above at random, two hundred times: some ten minutes.
#[test]
#[ignore = "takes minutes; its result is in docs/results/safety.md"]
fn two_hundred_harms_at_random() {
    let crawled = Crawled::new();
    let files = all_files(&crawled.whole.path());
    let seed = std::env::var("FAROL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Seeded::new(seed);
    for _ in 0..200 {
        let file = &files[random.below(files.len() as u64) as usize];
        let part = random.below(10_000) as f64 / 10_000.0;
        let harm = match random.below(5) {
            0 => Harm::Remove,
            1 => Harm::Cut(part),
            _ => Harm::Flip(part),
        };
        println!("{} {harm:?}", file.display());
        crawled.harm(file, harm);
    }
}

#[test]
fn pages_that_were_cut_off_are_told_and_fetched_again_after_a_repair() {
    let crawled = Crawled::new();
    let data = &crawled.whole;
    let warc = files(&data.path().join("pages"), ".warc.gz").remove(0);
    let length = std::fs::metadata(&warc).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&warc).unwrap().set_len(length / 2).unwrap();
    let output = data.run(&["check"]);
    let report = said(&output);
    assert!(!output.status.success(), "{report}");
    assert!(report.contains("pages    DAMAGED: farol-00000.warc.gz ends at byte "), "{report}");
    // Going on loses nothing more, and says what is lost.
    let output = data.run(&["status"]);
    assert!(output.status.success() && said(&output).contains("30 pages"), "{}", said(&output));
    let requests = crawled.web.server.counts().requests;
    assert_eq!(crawled.crawl_on(data, "cut"), crawled.urls);
    assert_eq!(crawled.web.server.counts().requests, requests, "nothing is fetched before the repair");
    let repaired = data.run_well(&["check", "--repair"]);
    assert!(repaired.contains("fetched again by the next crawl: "), "{repaired}");
    data.run_well(&["check"]);
    assert_eq!(crawled.crawl_on(data, "repaired"), crawled.urls);
    assert!(crawled.web.server.counts().requests > requests + 5, "what was lost is fetched again");
    data.run_well(&["check"]);
    let visits = data.run_well(&["export", "visits"]);
    let archived: std::collections::BTreeSet<&str> = visits
        .lines()
        .filter(|line| !line.ends_with("/robots.txt"))
        .filter_map(|line| line.split('\t').nth(5))
        .collect();
    assert_eq!(archived.len() as u64, PAGES, "each page has a copy again");
}
