//! Long runs of engines of different owners; ignored by default. Their figures are kept in `docs/results/federation.md`.
//!
//! `cargo test -p farol --test it federation_long -- --ignored --nocapture`; `FAROL_KILLS` says how often either side is killed,
//! `FAROL_SITES` names a folder with a folder of pages for each of the five sites of the case study.

use crate::federation::{free_port, wait_for_state};
use crate::fixture::{Data, Farol, PATIENCE};
use crate::nginx::Nginx;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sites of the case study, as they stand to each other: the general engine is about all, the university about two.
const SITES: [&str; 5] =
    ["www.cin.uni.test", "www.uni.test", "www.institute.test", "www.homes.test", "www.other.test"];
/// Engines: name, view, seed, and what each gets from whom.
const ENGINES: [(&str, &str, usize); 5] = [
    ("cin", ".cin.uni.test", 0),
    ("uni", ".uni.test", 1),
    ("institute", ".institute.test", 2),
    ("homes", ".homes.test", 3),
    ("general", ".test", 4),
];

struct Sites {
    dir: tempfile::TempDir,
    pages: BTreeMap<&'static str, u64>,
    bytes: BTreeMap<&'static str, u64>,
}

/// Pages of the sites: those of `FAROL_SITES`, or made-up ones. Each site's front page links to all of its pages and to the other
/// sites.
fn sites(made_up: usize) -> Sites {
    let dir = tempfile::tempdir().unwrap();
    let given = std::env::var_os("FAROL_SITES").map(PathBuf::from);
    let (mut pages, mut bytes) = (BTreeMap::new(), BTreeMap::new());
    for host in SITES {
        let root = dir.path().join(host);
        std::fs::create_dir_all(&root).unwrap();
        let mut names = Vec::new();
        match &given {
            Some(folder) => copy_pages(&folder.join(host), &root, &mut names),
            None => {
                for number in 0..made_up {
                    let text = format!("Page {number} of {host} tells of the lighthouse number {number}. ")
                        .repeat(30);
                    let html = format!("<html lang=en><title>{host} {number}</title><p>{text}</p></html>");
                    std::fs::write(root.join(format!("p{number}.html")), html).unwrap();
                    names.push(format!("p{number}.html"));
                }
            }
        }
        let own: String = names.iter().map(|name| format!("<li><a href=\"/{name}\">{name}</a>\n")).collect();
        let others: String =
            SITES.iter().map(|other| format!("<li><a href=\"http://{other}/\">{other}</a>\n")).collect();
        let front = format!(
            "<html lang=en><title>{host}</title><p>The pages of this site.</p><ul>{own}{others}</ul></html>"
        );
        std::fs::write(root.join("index.html"), front).unwrap();
        let size = |name: &String| std::fs::metadata(root.join(name)).unwrap().len();
        pages.insert(host, names.len() as u64 + 1);
        bytes.insert(host, names.iter().map(size).sum());
    }
    Sites { dir, pages, bytes }
}

fn copy_pages(from: &Path, to: &Path, names: &mut Vec<String>) {
    let mut files: Vec<PathBuf> = std::fs::read_dir(from)
        .unwrap_or_else(|error| panic!("{}: {error}", from.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "html" || extension == "htm"))
        .collect();
    files.sort();
    for (number, file) in files.into_iter().enumerate() {
        let name = format!("p{number}.html");
        std::fs::copy(file, to.join(&name)).unwrap();
        names.push(name);
    }
}

fn engine(name: &str, view: &str, port: u16) -> Data {
    let data = Data::new();
    data.configure(&format!(
        "[identity]\nname = '{name}'\n[crawl]\nagent = '{name}'\nscope = '{view}'\ndelay_min = '0s'\nallow_private = true\n\
         [federation]\nenabled = true\nlisten = '127.0.0.1:{port}'\naccept = 'known'\nlease = '20s'\ntakeback_after = '10s'\n\
         delay_max = '1s'\n"
    ));
    data
}

fn up(data: &Data, flags: &[String], seed: &str) -> Farol {
    let mut all = vec![format!("http://{seed}/")];
    all.extend(flags.iter().cloned());
    let mut farol = Farol::start(data, "up", &all);
    farol.address();
    farol
}

/// Has two engines know each other.
fn join(a: &Data, to_b: u16, b: &Data, to_a: u16) {
    a.run_well(&["federation", "join", &format!("https://127.0.0.1:{to_b}")]);
    b.run_well(&["federation", "join", &format!("https://127.0.0.1:{to_a}")]);
}

#[test]
#[ignore = "minutes; cargo test -p farol --test it five_engines -- --ignored --nocapture"]
fn five_engines_with_nested_scopes_ask_each_server_once() {
    let sites = sites(200);
    let nginx = Nginx::serving(&sites.dir, &SITES);
    let flags = nginx.flags(&SITES);
    let ports: Vec<u16> = ENGINES.iter().map(|_| free_port()).collect();
    let datas: Vec<Data> =
        ENGINES.iter().zip(&ports).map(|((name, view, _), port)| engine(name, view, *port)).collect();
    let mut farols: Vec<Option<Farol>> = Vec::new();
    let begun = Instant::now();
    // The specific engines have crawled their part before anybody leaves it to them.
    for ((_, _, seed), data) in ENGINES.iter().zip(&datas).take(4) {
        farols.push(Some(up(data, &flags, SITES[*seed])));
    }
    for (number, farol) in farols.iter_mut().enumerate() {
        let own = if number == 1 { sites.pages[SITES[1]] } else { sites.pages[SITES[ENGINES[number].2]] };
        farol.as_mut().unwrap().wait_for("a specific engine to have its pages", |status| {
            status["index"]["documents"].as_u64() >= Some(own)
        });
    }
    let alone = requests(&nginx);
    // The university leaves the department to it; the general engine leaves the university, the institute and the homes to theirs.
    farols.push(Some(up(&datas[4], &flags, "www.nowhere.test")));
    join(&datas[1], ports[0], &datas[0], ports[1]);
    for number in 1..4 {
        join(&datas[4], ports[number], &datas[number], ports[4]);
    }
    datas[1].run_well(&[
        "federation",
        "propose",
        "cin",
        "--view",
        ".cin.uni.test",
        "--as",
        "consumer",
        "--forward",
        "1",
    ]);
    wait_for_state(farols[1].as_mut().unwrap(), "active");
    for (name, view) in [("uni", ".uni.test"), ("institute", ".institute.test"), ("homes", ".homes.test")] {
        datas[4].run_well(&["federation", "propose", name, "--view", view, "--as", "consumer"]);
    }
    let general = farols[4].as_mut().unwrap();
    let waited = Instant::now();
    loop {
        let status = general.json("/api/v1/federation");
        let states: Vec<String> = status["agreements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["state"].as_str().unwrap().into())
            .collect();
        if states.len() == 3 && states.iter().all(|state| state == "active") {
            break;
        }
        assert!(waited.elapsed() < PATIENCE * 3, "{status:#}");
        std::thread::sleep(Duration::from_millis(200));
    }
    general.order("seeds", &serde_json::json!({ "url": "http://www.other.test/" }));
    let all: u64 = sites.pages.values().sum();
    general.wait_for("the general engine to have all", |status| {
        status["index"]["documents"].as_u64() >= Some(all)
    });
    std::thread::sleep(Duration::from_secs(5));
    let log = requests(&nginx);
    let general_asked: BTreeSet<&str> =
        log.keys().filter(|(agent, _)| agent == "general").map(|(_, host)| host.as_str()).collect();
    assert_eq!(general_asked, BTreeSet::from(["www.other.test"]), "it asked for what it had left");
    let status = general.json("/api/v1/federation");
    println!("# {} pages of five sites, {:.0?} in all", all, begun.elapsed());
    println!(
        "{:<12} {:>8} {:>10} {:>8} {:>12} {:>12} {:>8}",
        "provider", "pages", "HTML", "packets", "bytes", "bytes/page", "saved"
    );
    for one in status["agreements"].as_array().unwrap() {
        let (pages, bytes) =
            (one["received"]["pages"].as_u64().unwrap(), one["received"]["bytes"].as_u64().unwrap());
        let name = one["partner_name"].as_str().unwrap();
        let hosts = SITES.iter().filter(|host| host.contains(&format!("{name}.test")));
        let html: u64 = hosts.map(|host| sites.bytes[host]).sum();
        println!(
            "{name:<12} {pages:>8} {html:>10} {:>8} {bytes:>12} {:>12} {:>7.1}%",
            one["received"]["packets"],
            bytes / pages.max(1),
            100.0 * (1.0 - bytes as f64 / html.max(1) as f64)
        );
    }
    println!("{:<12} {:<20} {:>9} {:>9}", "agent", "host", "before", "after");
    for ((agent, host), count) in &log {
        let before = alone.get(&(agent.clone(), host.clone())).copied().unwrap_or(0);
        println!("{agent:<12} {host:<20} {before:>9} {count:>9}");
    }
    for farol in farols.into_iter().flatten() {
        farol.interrupt();
    }
}

/// Requests by agent and host, as nginx has written them down.
fn requests(nginx: &Nginx) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for (agent, host) in nginx.agents() {
        let agent = agent.split('/').next().unwrap_or_default().to_string();
        *counts.entry((agent, host)).or_default() += 1;
    }
    counts
}

#[test]
#[ignore = "minutes; FAROL_KILLS=200 cargo test -p farol --test it either_side -- --ignored --nocapture"]
fn either_side_is_killed_at_random_and_nothing_is_lost_or_doubled() {
    let kills: u64 = std::env::var("FAROL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let sites = sites(400);
    let nginx = Nginx::serving(&sites.dir, &SITES);
    let flags = nginx.flags(&SITES);
    let ports = [free_port(), free_port()];
    let datas = [engine("uni", ".test", ports[0]), engine("cin", ".cin.uni.test", ports[1])];
    let seeds = ["www.nowhere.test", SITES[0]];
    let mut farols = [0, 1].map(|side| Some(up(&datas[side], &flags, seeds[side])));
    join(&datas[0], ports[1], &datas[1], ports[0]);
    datas[0].run_well(&["federation", "propose", "cin", "--view", ".cin.uni.test", "--as", "consumer"]);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let begun = Instant::now();
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(100 + random(1_500)));
        let side = random(2) as usize;
        farols[side].take().unwrap().kill();
        farols[side] = Some(up(&datas[side], &flags, seeds[side]));
    }
    let pages = sites.pages[SITES[0]];
    let consumer = farols[0].as_mut().unwrap();
    wait_for_state(consumer, "active");
    let status = consumer
        .wait_for("all pages to be there", |status| status["index"]["documents"].as_u64() >= Some(pages));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(consumer.json("/api/v1/status")["index"]["documents"], status["index"]["documents"]);
    for number in 0..pages - 1 {
        let url = format!("http://{}/p{number}.html", SITES[0]);
        let found = consumer.json(&format!("/api/v1/search?q=site:{url}"));
        assert_eq!(found["total"], 1, "{url}");
    }
    let agreement = consumer.json("/api/v1/federation")["agreements"][0].clone();
    println!(
        "{kills} kills in {:.0?}: {pages} pages, none lost, none doubled; {agreement:#}",
        begun.elapsed()
    );
    for farol in farols.into_iter().flatten() {
        farol.interrupt();
    }
    datas.iter().for_each(|data| drop(data.run_well(&["check"])));
}
