//! The ways in which pages go from one engine to another, as processes: when they go, how far, and what becomes of them when the
//! operator removes some, or the agreement changes or ends.

use crate::federation::{Stranger, WORDS, free_port, now, page, wait_for_hits, wait_for_state};
use crate::fixture::{Data, Farol, PATIENCE};
use crate::nginx::Nginx;
use crate::site::{Site, SiteReply};
use aws_lc_rs::signature::Ed25519KeyPair;
use farol_federation::View;
use farol_federation::agreement::{
    AgreementId, Delivery, EngineId, Grade, Kind, Message, OnEnd, Quota, Terms,
};
use farol_federation::message::{Card, said};
use farol_federation::packet::Sealed;
use std::time::{Duration, Instant};

const HOSTS: [&str; 3] = ["www.uni.test", "www.dept.uni.test", "www.lab.uni.test"];

/// A university, a department and a laboratory, at an address for each engine.
fn campus(engines: u8) -> Site {
    Site::start_at(engines, |host, path| match (host, path) {
        (_, "/robots.txt") => SiteReply::missing(),
        ("www.uni.test", "/") => page(
            "University",
            "The university by the sea teaches many things. ",
            &["http://www.dept.uni.test/beyond".to_string()],
        ),
        ("www.dept.uni.test", "/") => {
            page("Department", "The department studies the coast. ", &WORDS.map(|word| format!("/{word}")))
        }
        ("www.lab.uni.test", "/") => page("Laboratory", "Here quartz is ground and looked at. ", &[]),
        ("www.uni.test", "/links") => {
            page("Links", "Where to go from here. ", &["http://www.dept.uni.test/unheard".to_string()])
        }
        (_, path) => {
            let word = path.trim_start_matches('/');
            page(&format!("About {word}"), &format!("Here the {word} is told of at some length. "), &[])
        }
    })
}

/// An engine and its settings; its door is at the port.
struct Member {
    data: Data,
    farol: Farol,
    port: u16,
}

/// Starts an engine that finds all hosts at one of the site's addresses.
fn member(site: &Site, last: u8, name: &str, scope: &str, seed: &str, more: &str) -> Member {
    let (data, port) = (Data::new(), free_port());
    data.configure(&format!(
        "[identity]\nname = '{name}'\n[crawl]\nscope = '{scope}'\ndelay_min = '0s'\nallow_private = true\n\
         revisit_first = '6h'\n[federation]\nenabled = true\nlisten = '127.0.0.1:{port}'\naccept = 'known'\nlease = '15s'\n\
         takeback_after = '5s'\ndelay_max = '500ms'\n{more}"
    ));
    let farol = start(&data, site, last, seed);
    Member { data, farol, port }
}

fn start(data: &Data, site: &Site, last: u8, seed: &str) -> Farol {
    let mut flags = vec![seed.to_string()];
    for host in HOSTS {
        flags.extend(["--resolve".to_string(), format!("{host}=127.0.0.{last}:{}", site.port())]);
    }
    let mut farol = Farol::start(data, "up", &flags);
    farol.address();
    farol
}

fn join(a: &Member, b: &Member) {
    for (one, other) in [(a, b), (b, a)] {
        introduce(&one.data, &format!("https://127.0.0.1:{}", other.port));
    }
}

/// On a busy machine the first handshake may take longer than an order may.
#[track_caller]
fn introduce(data: &Data, address: &str) {
    wait_until("the other engine to be known", || {
        data.run(&["federation", "join", address]).status.success()
    });
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn total(farol: &mut Farol, word: &str) -> u64 {
    farol.json(&format!("/api/v1/search?q={word}"))["total"].as_u64().unwrap()
}

fn asked(site: &Site, last: u8, host: &str) -> usize {
    site.asked_at(last).iter().filter(|asked| asked.url.starts_with(host)).count()
}

#[test]
#[ignore = "has not passed yet, nor been run since hits of the own list of links do not count: docs/results/federation.md"]
fn a_removed_page_leaves_the_partner_and_a_wider_part_comes_and_its_end_is_crawled() {
    let site = campus(2);
    let both = ".dept.uni.test or .lab.uni.test";
    let mut provider = member(&site, 2, "Provider", both, "http://www.dept.uni.test/", "");
    provider.farol.order("seeds", &serde_json::json!({ "url": "http://www.lab.uni.test/" }));
    provider.farol.wait_for("its pages to be there", |status| status["index"]["documents"] == 7);
    let mut consumer = member(&site, 1, "Consumer", ".uni.test", "http://www.uni.test/", "");
    join(&consumer, &provider);
    let view = ["--view", ".dept.uni.test", "--as", "consumer"];
    consumer.data.run_well(&[&["federation", "propose", "Provider"][..], &view].concat());
    let active = wait_for_state(&mut consumer.farol, "active");
    wait_for_hits(&mut consumer.farol, "lantern");
    assert_eq!(total(&mut consumer.farol, "quartz"), 0, "the laboratory was not agreed on");
    // What the provider's operator takes out leaves the consumer too.
    provider.data.run_well(&["remove", "http://www.dept.uni.test/lantern"]);
    wait_until("the removed page to leave", || total(&mut consumer.farol, "lantern") == 0);
    assert_eq!(total(&mut consumer.farol, "harbour"), 1, "the others stay");
    // A wider part: what it adds comes first, and is left to the provider after that.
    let id = active["id"].as_str().unwrap().to_string();
    consumer.data.run_well(&["federation", "amend", &id, "--view", both]);
    wait_for_hits(&mut consumer.farol, "quartz");
    wait_until("the wider part to be left", || {
        let status = consumer.farol.json("/api/v1/federation");
        status["agreements"][0]["in_force"] == "domain:dept.uni.test or domain:lab.uni.test"
    });
    assert_eq!(total(&mut consumer.farol, "lantern"), 0, "what was removed is not sent again");
    consumer.farol.order("seeds", &serde_json::json!({ "url": "http://www.lab.uni.test/" }));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(asked(&site, 1, "www.lab.uni.test"), 0, "the consumer asked for what it had left");
    // A page that only the consumer knows of is not asked for, until the agreement ends.
    consumer.farol.order("seeds", &serde_json::json!({ "url": "http://www.uni.test/links" }));
    wait_until("the links to be found", || asked(&site, 1, "www.uni.test/links") > 0);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(asked(&site, 1, "www.dept.uni.test/unheard"), 0);
    provider.data.run_well(&["federation", "end", &id]);
    wait_for_state(&mut consumer.farol, "ended");
    wait_until("the part to be crawled again", || asked(&site, 1, "www.dept.uni.test/unheard") > 0);
    provider.farol.interrupt();
    consumer.farol.interrupt();
}

#[test]
fn pages_go_on_only_as_far_as_their_own_engine_lets_them() {
    for (forward, word_arrives) in [("0", false), ("1", true)] {
        let site = campus(3);
        let mut department =
            member(&site, 2, "Department", ".dept.uni.test", "http://www.dept.uni.test/", "");
        department.farol.wait_for("its pages to be there", |status| status["index"]["documents"] == 6);
        let mut university = member(&site, 1, "University", ".uni.test", "http://www.uni.test/", "");
        let mut general = member(&site, 3, "General", ".test", "http://www.nowhere.test/", "");
        join(&university, &department);
        join(&general, &university);
        university.data.run_well(&[
            "federation",
            "propose",
            "Department",
            "--view",
            ".dept.uni.test",
            "--as",
            "consumer",
            "--forward",
            forward,
        ]);
        wait_for_state(&mut university.farol, "active");
        general.data.run_well(&[
            "federation",
            "propose",
            "University",
            "--view",
            ".uni.test",
            "--as",
            "consumer",
        ]);
        wait_for_hits(&mut general.farol, "teaches");
        match word_arrives {
            true => {
                wait_for_hits(&mut general.farol, "lantern");
                wait_for_state(&mut general.farol, "active");
            }
            false => {
                // It may not have them from the university, so it is not to leave them to it.
                std::thread::sleep(Duration::from_secs(6));
                wait_for_state(&mut general.farol, "chaining");
                assert_eq!(total(&mut general.farol, "lantern"), 0);
                let log = university.farol.json("/api/v1/federation");
                let given = log["agreements"].as_array().unwrap().iter().find(|one| one["provider"] == true);
                let trouble = given.unwrap()["trouble"].as_str().unwrap().to_string();
                assert!(trouble.contains("may not be sent on"), "{trouble}");
            }
        }
        for one in [department, university, general] {
            one.farol.interrupt();
        }
    }
}

/// An agreement under which a test fetches what an engine has.
fn fetched_by(me: EngineId, provider: EngineId, delivery: Delivery) -> Terms {
    Terms {
        id: AgreementId([6; 16]),
        revision: 1,
        provider,
        consumer: me,
        kind: Kind::Index,
        view: View::parse(".dept.uni.test").unwrap(),
        grade: Grade::Text,
        delivery,
        delay_max: Duration::from_millis(500),
        quota: Quota { pages_day: 1_000, bytes_day: 64 << 20 },
        forward: 0,
        on_end: OnEnd::Keep,
        notice: Duration::from_secs(1),
        lease: Duration::from_secs(600),
    }
}

#[test]
fn packets_are_fetched_whole_and_in_ranges_and_acknowledged_by_asking_for_more() {
    let site = campus(2);
    let port = free_port();
    let data = Data::new();
    data.configure(&format!(
        "[identity]\nname = 'Provider'\n[crawl]\nscope = '.dept.uni.test'\ndelay_min = '0s'\nallow_private = true\n\
         [federation]\nenabled = true\nlisten = '127.0.0.1:{port}'\nbehind_proxy = true\n\
         address = 'http://127.0.0.1:{port}'\ndelay_max = '500ms'\n"
    ));
    let mut farol = start(&data, &site, 2, "http://www.dept.uni.test/");
    farol.wait_for("its pages to be there", |status| status["index"]["documents"] == 6);
    let to: EngineId = data.run_well(&["federation", "id"]).trim().parse().unwrap();
    let at = format!("127.0.0.1:{port}").parse().unwrap();
    let key = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap();
    let mut consumer = Stranger { key, at, to, letters: 0 };
    let hello = Card {
        name: "Consumer".into(),
        address: format!("http://127.0.0.1:{}", free_port()),
        behind_proxy: true,
        view: View::parse(".uni.test").unwrap(),
        agent: "farol".into(),
        contact: String::new(),
    };
    assert_eq!(consumer.say("hello", hello.to_json().into_bytes()).status, 200);
    let terms = fetched_by(consumer.id(), to, Delivery::Pull);
    let id = terms.id;
    assert_eq!(consumer.say("agreement", said(id, &Message::Propose(Box::new(terms)))).status, 200);
    wait_for_state(&mut farol, "considering");
    data.run_well(&["federation", "accept", "0606"]);
    let path = format!("packets/{id}");
    let mut numbers: Vec<u64> = Vec::new();
    wait_until("a packet to be ready", || {
        let (status, list) = consumer.fetch(&path, "?after=0", "");
        assert_eq!(status, 200);
        numbers = serde_json::from_slice(&list).unwrap();
        !numbers.is_empty()
    });
    assert_eq!(numbers[0], 1);
    let (status, whole) = consumer.fetch(&format!("{path}/1"), "", "");
    let sealed = Sealed::read(&whole).unwrap();
    assert_eq!((status, sealed.header.pages, sealed.header.start.receiver), (200, 6, consumer.id()));
    let mut pieces = Vec::new();
    for range in ["0-99".to_string(), format!("100-{}", whole.len() - 2), format!("{}-", whole.len() - 1)] {
        let (status, piece) = consumer.fetch(&format!("{path}/1"), "", &format!("\r\nRange: bytes={range}"));
        assert_eq!(status, 206, "{range}");
        pieces.extend(piece);
    }
    assert!(pieces == whole, "what came in ranges is what came as a whole");
    let beyond = consumer.fetch(&format!("{path}/1"), "", &format!("\r\nRange: bytes={}-", whole.len()));
    assert_eq!(beyond.0, 416);
    assert_eq!(consumer.fetch(&format!("{path}/99"), "", "").0, 404);
    assert_eq!(consumer.fetch(&path, "", "").0, 400, "it must say what it has");
    // Asking for what comes after a packet acknowledges it.
    let (_, list) = consumer.fetch(&path, &format!("?after={}", numbers[numbers.len() - 1]), "");
    assert_eq!(serde_json::from_slice::<Vec<u64>>(&list).unwrap(), Vec::<u64>::new());
    wait_until("the packet to be let go", || {
        let status = farol.json("/api/v1/federation");
        let agreement = &status["agreements"][0];
        agreement["sent"]["pages"] == 6 && agreement["waiting"]["packets"] == 0
    });
    assert_eq!(consumer.fetch(&format!("{path}/1"), "", "").0, 404);
    farol.interrupt();
}

/// A window in UTC, from so many minutes after now for so many.
fn window(from: u64, minutes: u64) -> String {
    let minute = now().as_secs() / 60 + 1440;
    let at = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
    format!("{}-{}", at(minute + from), at(minute + from + minutes))
}

#[test]
#[ignore = "has not passed yet, nor been run since hits of the own list of links do not count: docs/results/federation.md"]
fn pages_are_fetched_or_come_in_the_hours_that_were_agreed() {
    let site = campus(2);
    let mut provider = member(&site, 2, "Provider", ".uni.test", "http://www.dept.uni.test/", "");
    provider.farol.order("seeds", &serde_json::json!({ "url": "http://www.lab.uni.test/" }));
    provider.farol.order("seeds", &serde_json::json!({ "url": "http://www.uni.test/" }));
    provider.farol.wait_for("its pages to be there", |status| status["index"]["documents"] == 9);
    let mut consumer = member(&site, 1, "Consumer", ".uni.test", "http://www.nowhere.test/", "");
    join(&consumer, &provider);
    // One part is fetched, one comes in an hour that is now, one in an hour that is not.
    let ways = [
        (".dept.uni.test", "pull".to_string()),
        (".lab.uni.test", window(0, 60)),
        ("host:www.uni.test", window(180, 60)),
    ];
    for (view, way) in &ways {
        let with = ["--view", view, "--as", "consumer", "--delivery", way];
        consumer.data.run_well(&[&["federation", "propose", "Provider"][..], &with].concat());
    }
    wait_for_hits(&mut consumer.farol, "lantern");
    wait_for_hits(&mut consumer.farol, "quartz");
    wait_until("what waits for its hour to be ready", || {
        let status = provider.farol.json("/api/v1/federation");
        let waits = |one: &serde_json::Value| {
            one["view"] == "host:www.uni.test" && one["waiting"]["packets"].as_u64() > Some(0)
        };
        status["agreements"].as_array().unwrap().iter().any(waits)
    });
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(total(&mut consumer.farol, "teaches"), 0, "its hour has not come");
    provider.farol.interrupt();
    consumer.farol.interrupt();
}

#[test]
#[ignore = "has not passed yet, nor been run since hits of the own list of links do not count: docs/results/federation.md"]
fn an_engine_behind_nginx_is_reached_through_it() {
    let site = campus(2);
    let (data, port) = (Data::new(), free_port());
    let door = format!("127.0.0.1:{port}").parse().unwrap();
    let nginx = Nginx::proxy(door, "client_max_body_size 2m;");
    data.configure(&format!(
        "[identity]\nname = 'Consumer'\n[crawl]\nscope = '.uni.test'\ndelay_min = '0s'\nallow_private = true\n\
         [federation]\nenabled = true\nlisten = '127.0.0.1:{port}'\nbehind_proxy = true\naccept = 'known'\n\
         address = 'http://{}'\n",
        nginx.address()
    ));
    let mut provider = member(&site, 2, "Provider", ".dept.uni.test", "http://www.dept.uni.test/", "");
    let mut farol = start(&data, &site, 1, "http://www.uni.test/");
    provider.farol.wait_for("its pages to be there", |status| status["index"]["documents"] == 6);
    introduce(&provider.data, &format!("http://{}", nginx.address()));
    introduce(&data, &format!("https://127.0.0.1:{}", provider.port));
    let view = ["--view", ".dept.uni.test", "--as", "consumer"];
    data.run_well(&[&["federation", "propose", "Provider"][..], &view].concat());
    wait_for_state(&mut farol, "active");
    wait_for_hits(&mut farol, "lantern");
    farol.interrupt();
    provider.farol.interrupt();
}

/// Pages of which packets do not get small: 24 of 20 KB.
fn noise() -> Site {
    Site::start_at(2, |_, path| match path {
        "/robots.txt" => SiteReply::missing(),
        "/" => page("Noise", "Pages of noise. ", &(0..24).map(|n| format!("/n{n}")).collect::<Vec<_>>()),
        path => {
            let mut state = path.bytes().fold(7_u64, |sum, byte| sum * 31 + u64::from(byte));
            let words = (0..1_500).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("{:012x} ", state >> 16)
            });
            let text: String = words.collect();
            SiteReply::html(format!("<html lang=en><title>{path}</title><p>{text}</p></html>"))
        }
    })
}

#[test]
#[ignore = "has not passed yet, nor been run since hits of the own list of links do not count: docs/results/federation.md"]
fn what_is_too_much_for_the_outbox_waits_in_the_archive_until_the_partner_is_back() {
    let site = noise();
    let small = "packet_max = '64KiB'\noutbox_max = '128KiB'\n";
    let mut provider = member(&site, 2, "Provider", ".dept.uni.test", "http://www.nowhere.test/", small);
    let mut consumer = member(&site, 1, "Consumer", ".uni.test", "http://www.nowhere.test/", "");
    join(&consumer, &provider);
    let view = ["--view", ".dept.uni.test", "--as", "consumer", "--purge"];
    consumer.data.run_well(&[&["federation", "propose", "Provider"][..], &view].concat());
    let id = wait_for_state(&mut consumer.farol, "active")["id"].as_str().unwrap().to_string();
    consumer.farol.kill();
    // The consumer is away while the provider gets its pages.
    let began = Instant::now();
    provider.farol.order("seeds", &serde_json::json!({ "url": "http://www.dept.uni.test/" }));
    provider.farol.wait_for("its pages to be there", |status| status["index"]["documents"] == 25);
    println!("25 pages are indexed {:.1?} after their seed, with a partner that is away", began.elapsed());
    let out = provider.data.path().join("federation/out");
    std::thread::sleep(Duration::from_secs(3));
    let waiting: u64 = walk(&out);
    assert!(waiting <= 192 << 10, "{waiting} bytes wait");
    let mut farol = start(&consumer.data, &site, 1, "http://www.nowhere.test/");
    farol.wait_for("all pages to be sent", |status| status["index"]["documents"] == 25);
    // It ends, and what was received leaves.
    consumer.data.run_well(&["federation", "end", &id]);
    farol.wait_for("the received pages to leave", |status| status["index"]["documents"] == 0);
    let hits = farol.json("/api/v1/search?q=noise")["total"].clone();
    assert_eq!(hits, 0);
    farol.interrupt();
    provider.farol.interrupt();
}

fn walk(folder: &std::path::Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { walk(&path) } else { path.metadata().map_or(0, |file| file.len()) })
        .sum()
}
