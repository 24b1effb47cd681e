//! Commands as people type them: what they print, and what they say to mistakes.

use crate::fixture::{Data, Farol, Web, binary, files, root};
use farol_synthetic::WebConfig;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Runs a command that must fail with exactly one sentence, which says this.
#[track_caller]
fn refused(data: &Data, arguments: &[&str], want: &str) {
    let output = data.run(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "farol {arguments:?} succeeded");
    assert!(text.contains(want), "farol {arguments:?} says {text:?} rather than {want:?}");
    assert!(!text.contains("panicked") && text.trim().lines().count() <= 4, "{text}");
}

#[test]
fn mistakes_get_a_sentence_that_helps() {
    let data = Data::new();
    refused(&data, &["up"], "farol up https://docs.example.org");
    refused(&data, &["up", "ftp://a.org/"], "only http and https");
    refused(&data, &["up", "hello"], "https://docs.example.org");
    refused(&data, &["up", "http://a.org/", "--resolve", "nonsense"], "HOST=ADDR");
    refused(&data, &["up", "http://a.org/", "--listen", "here"], "--listen ADDR:PORT");
    refused(&data, &["up", "http://a.org/", "--delay", "soon"], "2s");
    refused(&data, &["import", "nowhere.warc.gz"], "there is no file nowhere.warc.gz");
    refused(
        &data,
        &["up", "http://a.org/", "--config", "nowhere.toml"],
        "cannot read the config file nowhere.toml",
    );
    let elsewhere = Data::new();
    refused(&elsewhere, &["search", "x"], "farol up URL");
    refused(&elsewhere, &["status"], "not a Farol data folder");
    refused(&elsewhere, &["check"], "not a Farol data folder");
    elsewhere.configure("[crawl]\ndelay_mim = '1s'\n");
    refused(&elsewhere, &["up", "http://a.org/"], "did you mean \"delay_min\"?");
}

#[test]
fn a_port_in_use_and_a_folder_in_use_are_told_apart() {
    let web = Web::start(WebConfig { hosts: 1, pages: 5, ..WebConfig::tame() });
    let data = Data::new();
    let mut first = Farol::up(&data, &web, &[]);
    let address = first.address().to_string();
    refused(&data, &["up", "http://a.org/"], "another Farol is using");
    refused(&Data::new(), &["up", "http://a.org/", "--listen", &address], "--listen 127.0.0.1:PORT");
    first.interrupt();
}

#[test]
fn help_settings_completions_and_manual_are_there() {
    let text = |arguments: &[&str]| {
        let output = binary().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let help = text(&["-h"]);
    assert!(help.lines().count() < 45, "-h should fit a screen:\n{help}");
    assert!(text(&["up", "--help"]).contains("--resolve"));
    assert!(text(&["config", "--explain"]).contains("delay_min = \"1s\""));
    assert!(text(&["completions", "bash"]).contains("_farol"));
    assert!(text(&["man"]).starts_with(".ie"));
    assert!(text(&["--version"]).starts_with("farol 0."));
}

#[test]
fn search_status_export_and_check_work_while_it_runs_and_after() {
    let web = Web::start(WebConfig { hosts: 2, pages: 30, ..WebConfig::tame() });
    let data = Data::new();
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_until_idle();
    let running = data.run_well(&["status"]);
    assert!(running.contains("30 fetched"), "{running}");
    let hit = data.run_well(&["search", "site:web.test", "--json"]);
    let hits: serde_json::Value = serde_json::from_str(&hit).unwrap();
    let url = hits["hits"][0]["url"].as_str().unwrap().to_string();
    farol.interrupt();
    let after = data.run_well(&["search", &format!("site:{}", url.split('/').nth(2).unwrap())]);
    assert!(after.contains("http://"), "{after}");
    assert_eq!(
        data.run(&["search", "xyzzyplugh"]).status.code(),
        Some(3),
        "nothing found is no failure, and not found either"
    );
    let stopped = data.run_well(&["status"]);
    assert!(stopped.starts_with("state        stopped; `farol up` goes on\n"), "{stopped}");
    assert!(stopped.contains("30 fetched") && !stopped.contains("memory"), "{stopped}");
    let json: serde_json::Value = serde_json::from_str(&data.run_well(&["status", "--json"])).unwrap();
    assert_eq!((&json["state"], json.get("queries")), (&"stopped".into(), None));
    assert_eq!(data.run_well(&["export", "urls"]).lines().count(), 30);
    let pages = data.run_well(&["export", "pages"]);
    let page: serde_json::Value = serde_json::from_str(pages.lines().next().unwrap()).unwrap();
    assert!(!page["title"].as_str().unwrap().is_empty());
    let check = data.run_well(&["check"]);
    assert_eq!(check.matches("fine:").count(), 5, "{check}");
}

#[test]
fn exit_codes_are_as_the_help_says() {
    let data = Data::new();
    let help = String::from_utf8(data.run(&["--help"]).stdout).unwrap();
    assert!(help.contains(
        "Exit codes: 0 done, 1 failed, 2 the command line is wrong, 3 `search` or `explain` did not find it."
    ));
    let code = |arguments: &[&str]| data.run(arguments).status.code();
    assert_eq!(code(&["config"]), Some(0));
    assert_eq!(code(&["status"]), Some(1), "there is no such folder");
    assert_eq!(code(&["up"]), Some(1), "there is nowhere to start");
    assert!(!data.path().exists(), "a command that refuses leaves nothing behind");
    assert_eq!(code(&["serch", "words"]), Some(2));
    assert_eq!(code(&["search", "words", "--first", "1001"]), Some(2));
}

#[test]
fn what_the_readme_says_to_type_works_in_a_fresh_folder() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let here = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_farol")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        let output = command.args(["-c", line]).current_dir(&here).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let blocks: Vec<&str> = readme.split("```").skip(1).step_by(2).collect();
    let lines: Vec<&str> =
        blocks.iter().flat_map(|block| block.lines()).filter(|line| line.contains("farol config")).collect();
    assert!(!lines.is_empty());
    lines.into_iter().for_each(|line| drop(shell(line)));
    assert_eq!(std::fs::metadata(here.path().join("farol-data")).unwrap().permissions().mode() & 0o077, 0);
    assert!(shell("farol config").contains("[crawl]"), "the manual is a file of settings");
    let sample = blocks.iter().find_map(|block| block.strip_prefix("toml\n")).unwrap();
    std::fs::write(here.path().join("farol-data/farol.toml"), sample).unwrap();
    assert!(shell("farol config").contains("name = \"Library search\""));
}

#[test]
fn a_flipped_bit_is_found() {
    let web = Web::start(WebConfig { hosts: 1, pages: 20, ..WebConfig::tame() });
    let data = Data::new();
    let mut arguments = web.flags();
    arguments.extend([web.seed(), "--delay".into(), "0".into(), "--index".into()]);
    Farol::start(&data, "crawl", &arguments).finish();
    data.run_well(&["check"]);
    let warc = files(&data.path().join("pages"), ".warc.gz").remove(0);
    let visits = data.run_well(&["export", "visits"]).lines().count();
    let mut bytes = std::fs::read(&warc).unwrap();
    let length = bytes.len();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&warc, bytes).unwrap();
    let output = data.run(&["check"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("pages    DAMAGED: damage in"), "{text}");
    // Nothing was cut off, and all the other pages are still there.
    assert_eq!(std::fs::metadata(&warc).unwrap().len(), length as u64);
    assert_eq!(data.run_well(&["export", "visits"]).lines().count(), visits - 1);
}

#[test]
fn archives_are_read_by_an_independent_reader_and_imported_again() {
    let web = Web::start(WebConfig { hosts: 3, pages: 60, ..WebConfig::default() });
    let data = Data::new();
    let mut arguments = web.flags();
    arguments.extend([web.seed(), "--delay".into(), "0".into(), "--max-pages".into(), "40".into()]);
    Farol::start(&data, "crawl", &arguments).finish();
    let warcs = files(&data.path().join("pages"), ".warc.gz");
    assert!(!warcs.is_empty());
    let warcio = root().join("target/python/bin/warcio");
    assert!(warcio.exists(), "warcio is not there; `cargo xtask test` installs it");
    let checked = Command::new(warcio).arg("check").arg("-v").args(&warcs).output().unwrap();
    let said =
        String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && !said.to_lowercase().contains("fail"), "{said}");
    // What was crawled can be taken in as a foreign archive and found.
    let fresh = Data::new();
    let files: Vec<&str> = warcs.iter().map(|path| path.to_str().unwrap()).collect();
    fresh.run_well(&[&["import"], &files[..]].concat());
    let imported = fresh.run_well(&["export", "urls"]);
    // Asking takes in what is not indexed yet.
    data.run_well(&["search", "mar"]);
    assert_eq!(sorted(&imported), sorted(&data.run_well(&["export", "urls"])));
    assert!(fresh.run_well(&["check"]).contains("fine:"));
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
