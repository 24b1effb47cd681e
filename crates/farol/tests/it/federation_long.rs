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

/// The page of a site that lists its pages.
const LIST: &str = "all-pages.html";

struct Sites {
    dir: tempfile::TempDir,
    /// Addresses of each site's pages, below it.
    pages: BTreeMap<&'static str, Vec<String>>,
    bytes: BTreeMap<&'static str, u64>,
}

/// Pages of the sites: trees of real pages with their folders and links, or made-up ones. Each site has one more page, which
/// lists all of its pages and leads to the other sites.
fn sites(made_up: usize) -> Sites {
    let dir = tempfile::tempdir().unwrap();
    let given = std::env::var_os("FAROL_SITES").map(PathBuf::from);
    let (mut pages, mut bytes) = (BTreeMap::new(), BTreeMap::new());
    for host in SITES {
        let root = dir.path().join(host);
        std::fs::create_dir_all(&root).unwrap();
        let mut names = Vec::new();
        match &given {
            Some(folder) => copy_tree(&folder.join(host), &root, "", &mut names),
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
        names.sort();
        let own: String = names.iter().map(|name| format!("<li><a href=\"/{name}\">{name}</a>\n")).collect();
        let others: String = SITES
            .iter()
            .map(|other| format!("<li><a href=\"http://{other}/{LIST}\">{other}</a>\n"))
            .collect();
        let list = format!(
            "<html lang=en><title>{host}</title><p>The pages of this site.</p><ul>{own}{others}</ul></html>"
        );
        std::fs::write(root.join(LIST), list).unwrap();
        names.push(LIST.to_string());
        let size = |name: &String| std::fs::metadata(root.join(name)).unwrap().len();
        bytes.insert(host, names.iter().map(size).sum());
        pages.insert(host, names);
    }
    Sites { dir, pages, bytes }
}

/// Copies the pages below a folder, each at its place.
fn copy_tree(from: &Path, to: &Path, below: &str, names: &mut Vec<String>) {
    let entries = std::fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        let name = format!("{below}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            std::fs::create_dir_all(to.join(&name)).unwrap();
            copy_tree(&path, to, &format!("{name}/"), names);
        } else if path.extension().is_some_and(|extension| extension == "html" || extension == "htm") {
            std::fs::copy(&path, to.join(&name)).unwrap();
            names.push(name);
        }
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
    let mut all = vec![format!("http://{seed}/{LIST}")];
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

/// A setting in which pages are found as soon as they are there, and nothing is visited twice.
const PLAIN: &str = "[crawl]\ndelay_min = '0s'\nallow_private = true\nrevisit_first = '6h'\n";

/// One engine that crawls everything itself, as the others are measured by.
struct Alone {
    /// Processor time for each page.
    time: Duration,
    /// How many pages of each site it finds: some say themselves that they are not for an index.
    found: BTreeMap<&'static str, u64>,
    /// Some of these pages.
    samples: Vec<String>,
}

fn alone(sites: &Sites, flags: &[String]) -> Alone {
    let data = Data::new();
    data.configure(&format!("{PLAIN}agent = 'alone'\nscope = '.test'\n"));
    let mut farol = up(&data, flags, SITES[0]);
    let fetched: u64 = sites.pages.values().map(|names| names.len() as u64).sum();
    let fetches = |status: &serde_json::Value| status["crawl"]["pages_fetched"].as_u64() >= Some(fetched);
    farol.wait_for("one engine to have all", |status| fetches(status) && status["crawl"]["queue"] == 0);
    farol.wait_until_idle();
    let time = farol.processor_time() / fetched as u32;
    let mut total =
        |what: &str| farol.json(&format!("/api/v1/search?q=site:{what}"))["total"].as_u64().unwrap();
    let found = SITES.map(|host| (host, total(host)));
    let mut samples = Vec::new();
    for (host, names) in &sites.pages {
        let some = names.iter().step_by((names.len() / 20).max(1));
        samples.extend(some.map(|name| format!("http://{host}/{name}")).filter(|url| total(url) > 0));
    }
    assert!(samples.len() >= 40, "{samples:?}");
    farol.interrupt();
    Alone { time, found: BTreeMap::from(found), samples }
}

/// The sites below a view of the case study.
fn hosts_of(view: &str) -> Vec<&'static str> {
    SITES.into_iter().filter(|host| host.ends_with(view)).collect()
}

#[test]
#[ignore = "minutes; FAROL_SITES=FOLDER cargo test -p farol --test it five_engines -- --ignored --nocapture"]
fn five_engines_with_nested_scopes_ask_each_server_once() {
    let sites = sites(200);
    let nginx = Nginx::serving(&sites.dir, &SITES);
    let flags = nginx.flags(&SITES);
    let alone = alone(&sites, &flags);
    let documents = |hosts: &[&str]| -> u64 { hosts.iter().map(|host| alone.found[host]).sum() };
    let ports: Vec<u16> = ENGINES.iter().map(|_| free_port()).collect();
    let datas: Vec<Data> =
        ENGINES.iter().zip(&ports).map(|((name, view, _), port)| engine(name, view, *port)).collect();
    let mut farols: Vec<Farol> = Vec::new();
    let begun = Instant::now();
    // The specific engines have crawled their part before anybody leaves it to them.
    for ((_, _, seed), data) in ENGINES.iter().zip(&datas).take(4) {
        farols.push(up(data, &flags, SITES[*seed]));
    }
    for ((_, view, _), farol) in ENGINES.iter().zip(&mut farols) {
        let own = documents(&hosts_of(view));
        farol.wait_for("a specific engine to have its pages", |status| {
            status["index"]["documents"].as_u64() >= Some(own)
        });
    }
    let before = requests(&nginx);
    // The university leaves the department to it, and may send its pages on; the general engine leaves the university, the
    // institute and the homes to theirs.
    farols.push(up(&datas[4], &flags, "www.nowhere.test"));
    join(&datas[1], ports[0], &datas[0], ports[1]);
    for number in 1..4 {
        join(&datas[4], ports[number], &datas[number], ports[4]);
    }
    let propose = |data: &Data, name: &str, view: &str, more: &[&str]| {
        let what = ["federation", "propose", name, "--view", view, "--as", "consumer"];
        data.run_well(&[&what[..], more].concat());
    };
    propose(&datas[1], "cin", ".cin.uni.test", &["--forward", "1"]);
    wait_for_state(&mut farols[1], "active");
    let idle = farols[4].processor_time();
    let shared = Instant::now();
    for (name, view, _) in &ENGINES[1..4] {
        propose(&datas[4], name, view, &[]);
    }
    let general = &mut farols[4];
    let waited = Instant::now();
    loop {
        let status = general.json("/api/v1/federation");
        let agreements = status["agreements"].as_array().unwrap();
        if agreements.len() == 3 && agreements.iter().all(|one| one["state"] == "active") {
            break;
        }
        assert!(waited.elapsed() < PATIENCE * 5, "{status:#}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let received = documents(&SITES[..4]);
    general.wait_for("the general engine to have what is shared", |status| {
        status["index"]["documents"].as_u64() >= Some(received)
    });
    let (receiving, filled) = ((general.processor_time() - idle) / received as u32, shared.elapsed());
    general.order("seeds", &serde_json::json!({ "url": format!("http://www.other.test/{LIST}") }));
    let all = documents(&SITES);
    general.wait_for("the general engine to have all", |status| {
        status["index"]["documents"].as_u64() >= Some(all)
    });
    // A new page of the department comes to the general engine, by way of the university.
    let news = "<html lang=en><title>News</title><p>A zeppelin has landed on the roof.</p></html>";
    std::fs::write(sites.dir.path().join(SITES[0]).join("news.html"), news).unwrap();
    farols[0].order("seeds", &serde_json::json!({ "url": format!("http://{}/news.html", SITES[0]) }));
    let fresh: Vec<Duration> = [0, 1, 4]
        .into_iter()
        .map(|number: usize| {
            let asked = Instant::now();
            while farols[number].json("/api/v1/search?q=zeppelin")["total"] != 1 {
                assert!(asked.elapsed() < PATIENCE, "{} does not find the news", ENGINES[number].0);
                std::thread::sleep(Duration::from_millis(50));
            }
            asked.elapsed()
        })
        .collect();
    std::thread::sleep(Duration::from_secs(5));
    // Its servers' own log: the general engine has asked nobody for what it has left.
    let log = requests(&nginx);
    let asked = |agent: &str| -> BTreeSet<&str> {
        log.keys().filter(|(by, _)| by == agent).map(|(_, host)| host.as_str()).collect()
    };
    assert_eq!(asked("general"), BTreeSet::from(["www.other.test"]), "it asked for what it had left");
    let general = &mut farols[4];
    for url in &alone.samples {
        let found = general.json(&format!("/api/v1/search?q=site:{url}"))["total"].as_u64();
        assert!(found >= Some(1), "{url} is not found by the general engine");
    }
    println!(
        "# {all} pages of five sites, {:.0?} in all; shared parts are filled and left within {filled:.0?}",
        begun.elapsed()
    );
    println!(
        "# scope, pages of it at its own engine, pages at the general engine, its requests there, by whom they come"
    );
    for (name, view, _) in ENGINES {
        let hosts = hosts_of(view);
        let by_general: u64 =
            hosts.iter().filter_map(|host| log.get(&("general".to_string(), host.to_string()))).sum();
        let found = general.json(&format!("/api/v1/search?q=site:{}", &view[1..]))["total"].clone();
        println!("{view:<16} {:>7} {:>9} {by_general:>9}  {name}", documents(&hosts), found);
    }
    println!("# provider, pages, HTML a page, packets, bytes a page, saved");
    let status = general.json("/api/v1/federation");
    let (mut html_all, mut sent_all) = (0, 0);
    for one in status["agreements"].as_array().unwrap() {
        let number = |key: &str| one["received"][key].as_u64().unwrap();
        let (pages, bytes) = (number("pages"), number("bytes"));
        let name = one["partner_name"].as_str().unwrap();
        let view = ENGINES.iter().find(|engine| engine.0 == name).unwrap().1;
        let html: u64 = hosts_of(view).iter().map(|host| sites.bytes[host]).sum();
        (html_all, sent_all) = (html_all + html, sent_all + bytes);
        println!(
            "{name:<12} {pages:>7} {:>9} {:>7} {:>9} {:>7.2} %",
            html / pages.max(1),
            number("packets"),
            bytes / pages.max(1),
            100.0 * (1.0 - bytes as f64 / html.max(1) as f64)
        );
    }
    let saved = 100.0 * (1.0 - sent_all as f64 / html_all as f64);
    println!("# bytes saved in all: {saved:.2} % (thesis 86.96 %, wanted 90 %)");
    println!(
        "# processor time a page: {:.2} ms crawled by one engine alone, {:.2} ms received (thesis: 107 and 266)",
        alone.time.as_secs_f64() * 1e3,
        receiving.as_secs_f64() * 1e3
    );
    println!(
        "# a new page is found by the department, the university, the general engine after {fresh:.1?}, one after the other"
    );
    println!("# requests by agent and host, before sharing and after");
    for ((agent, host), count) in &log {
        println!(
            "{agent:<12} {host:<20} {:>9} {count:>9}",
            before.get(&(agent.clone(), host.clone())).unwrap_or(&0)
        );
    }
    farols.into_iter().for_each(Farol::interrupt);
    assert!(saved >= 90.0, "{saved:.2} % of the bytes are saved");
    assert!(receiving < alone.time, "receiving a page takes {receiving:?}, crawling it {:?}", alone.time);
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
    let pages = sites.pages[SITES[0]].len() as u64;
    let consumer = farols[0].as_mut().unwrap();
    wait_for_state(consumer, "active");
    let status = consumer
        .wait_for("all pages to be there", |status| status["index"]["documents"].as_u64() >= Some(pages));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(consumer.json("/api/v1/status")["index"]["documents"], status["index"]["documents"]);
    for name in &sites.pages[SITES[0]] {
        let url = format!("http://{}/{name}", SITES[0]);
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
