//! Partners that send too much, too large, or what was not agreed on: refused with a reason, counted, nothing lost.

use crate::federation::{Stranger, engine, entry, free_port, now, university, wait_for_hits, wait_for_state};
use crate::fixture::{Data, Farol, PATIENCE, get};
use crate::site::Site;
use aws_lc_rs::signature::Ed25519KeyPair;
use farol_base::{PagePosition, Timestamp};
use farol_federation::View;
use farol_federation::agreement::{
    AgreementId, Delivery, EngineId, Grade, Kind, Message, OnEnd, Quota, Terms,
};
use farol_federation::message::{Card, said};
use farol_federation::packet::{Body, Codec, Draft, HeaderStart, PacketKind, PageEntry, digest};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A consumer behind a proxy, and where its door is.
fn consumer(site: &Site, more: &str) -> (Data, Farol, SocketAddr, EngineId) {
    let port = free_port();
    let proxied = format!("behind_proxy = true\naddress = 'http://127.0.0.1:{port}'\n{more}");
    let data = engine("General", ".uni.test", port, &proxied);
    let mut flags = vec!["http://www.uni.test/".to_string()];
    for host in ["www.uni.test", "www.dept.uni.test"] {
        flags.extend(["--resolve".to_string(), format!("{host}=127.0.0.1:{}", site.port())]);
    }
    let mut farol = Farol::start(&data, "up", &flags);
    farol.address();
    let to = data.run_well(&["federation", "id"]).trim().parse().unwrap();
    (data, farol, format!("127.0.0.1:{port}").parse().unwrap(), to)
}

fn stranger(seed: [u8; 32], at: SocketAddr, to: EngineId) -> Stranger {
    Stranger { key: Ed25519KeyPair::from_seed_unchecked(&seed).unwrap(), at, to, letters: 0 }
}

fn card(name: &str) -> Vec<u8> {
    let card = Card {
        name: name.into(),
        address: format!("http://127.0.0.1:{}", free_port()),
        behind_proxy: true,
        view: View::parse(".uni.test").unwrap(),
        agent: "farol".into(),
        contact: String::new(),
    };
    card.to_json().into_bytes()
}

/// What a stranger sends us pages under.
struct Agreed {
    stranger: Stranger,
    terms: Terms,
    /// The last packet that was taken in, and its digest.
    last: (u64, [u8; 32]),
}

fn agreed(data: &Data, farol: &mut Farol, at: SocketAddr, to: EngineId, quota: Quota) -> Agreed {
    let mut stranger = stranger([7; 32], at, to);
    assert_eq!(stranger.say("hello", card("Stranger")).status, 200);
    let id = AgreementId([5; 16]);
    let terms = Terms {
        id,
        revision: 1,
        provider: stranger.id(),
        consumer: to,
        kind: Kind::Index,
        view: View::parse(".dept.uni.test").unwrap(),
        grade: Grade::Text,
        delivery: Delivery::Push,
        delay_max: Duration::from_secs(1),
        quota,
        forward: 0,
        on_end: OnEnd::Keep,
        notice: Duration::from_secs(1),
        lease: Duration::from_secs(600),
    };
    let proposal = said(id, &Message::Propose(Box::new(terms.clone())));
    assert_eq!(stranger.say("agreement", proposal).status, 200);
    wait_for_state(farol, "considering");
    data.run_well(&["federation", "accept", "0505"]);
    wait_for_state(farol, "filling");
    Agreed { stranger, terms, last: (0, [0; 32]) }
}

impl Agreed {
    fn start(&self) -> HeaderStart {
        let is_first = self.last.0 == 0;
        HeaderStart {
            sender: self.stranger.id(),
            receiver: self.terms.consumer,
            agreement: self.terms.id,
            revision: 1,
            sequence: self.last.0 + 1,
            before: self.last.1,
            made: now(),
            position: PagePosition::default(),
            view: self.terms.view.digest(),
            analysis: 0,
            grade: Grade::Text,
            kind: if is_first { PacketKind::Snapshot } else { PacketKind::Changes },
        }
    }

    fn body(&self, pages: Vec<PageEntry>) -> Body {
        Body { engines: vec![(self.stranger.id(), "Stranger".into())], pages, ..Body::default() }
    }

    /// Sends the next packet; its status. One that is taken in is the one that the next follows.
    fn send(&mut self, pages: Vec<PageEntry>) -> (u16, String) {
        let packet = self.stranger.packet(self.start(), &self.body(pages));
        self.send_packet(&packet)
    }

    fn send_packet(&mut self, packet: &[u8]) -> (u16, String) {
        let answer = self.stranger.put(self.terms.id, self.last.0 + 1, packet);
        if answer.0 == 200 {
            self.last = (self.last.0 + 1, digest(packet).unwrap());
        }
        answer
    }

    fn pages(&self, from: usize, count: usize, host: &str) -> Vec<PageEntry> {
        let me = self.stranger.id();
        let number = from..from + count;
        number.map(|n| entry(&format!("http://{host}/w{n}"), me, &format!("weasel{n}"))).collect()
    }
}

fn counted(of: &Value, reason: &str) -> u64 {
    let found = of["refused"].as_array().unwrap().iter().find(|refused| refused["reason"] == reason);
    found.map_or(0, |refused| refused["count"].as_u64().unwrap())
}

fn agreement(farol: &mut Farol) -> Value {
    farol.json("/api/v1/federation")["agreements"][0].clone()
}

/// What is counted is shown with the next tick.
#[track_caller]
fn counts_to(farol: &mut Farol, reason: &str, want: u64) -> Value {
    let begun = Instant::now();
    loop {
        let shown = agreement(farol);
        if counted(&shown, reason) == want {
            return shown;
        }
        assert!(begun.elapsed() < PATIENCE, "{reason} does not come to {want}: {shown:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn bombs_removed_hosts_and_more_than_a_days_quota_are_refused_and_counted() {
    let site = university();
    let (data, mut farol, at, to) = consumer(&site, "");
    let quota = Quota { pages_day: 8, bytes_day: 64 << 20 };
    let mut agreed = agreed(&data, &mut farol, at, to, quota);
    // A body that says it unpacks to a little, and unpacks to 64 MiB; one that says so.
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
    for said in [1_000, bomb.len() * farol_federation::packet::RATIO_MAX] {
        let draft = Draft::new(agreed.start(), [1, 0, 0], said, Codec::Zstd, bomb.clone());
        let signature = agreed.stranger.sign(&draft.to_sign());
        let (status, answer) = agreed.send_packet(&draft.signed(signature));
        assert_eq!(status, 400, "{answer}");
    }
    counts_to(&mut farol, "packet_bomb", 2);
    // Another grade than agreed, and words of another analysis.
    let words = HeaderStart { grade: Grade::Words, analysis: 999, ..agreed.start() };
    let body = agreed.body(agreed.pages(0, 1, "www.dept.uni.test"));
    let packet = agreed.stranger.packet(words, &body);
    assert_eq!(agreed.send_packet(&packet).0, 400);
    counts_to(&mut farol, "packet_grade", 1);
    // The first packet of a day is taken though it is larger than a day's quota; the next one waits for tomorrow.
    assert_eq!(agreed.send(agreed.pages(0, 10, "www.dept.uni.test")).0, 200);
    wait_for_hits(&mut farol, "weasel9");
    let (status, answer) = agreed.send(agreed.pages(10, 1, "www.dept.uni.test"));
    let later = answer
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("retry-after: ").map(String::from));
    let later: u64 = later.unwrap_or_else(|| panic!("{answer}")).trim().parse().unwrap();
    assert!(status == 429 && later <= 86_400, "{answer}");
    counts_to(&mut farol, "quota", 1);
    assert_eq!(farol.json("/api/v1/search?q=weasel10")["total"], 0);
    farol.interrupt();
}

#[test]
fn pages_of_a_removed_host_stay_out_and_more_than_one_wrong_page_in_a_hundred_suspends() {
    let site = university();
    let (data, mut farol, at, to) = consumer(&site, "");
    let quota = Quota { pages_day: 10_000, bytes_day: 64 << 20 };
    let mut agreed = agreed(&data, &mut farol, at, to, quota);
    assert_eq!(agreed.send(agreed.pages(0, 99, "www.dept.uni.test")).0, 200);
    // One in a hundred is outside: that is borne.
    assert_eq!(agreed.send(agreed.pages(100, 1, "www.uni.test")).0, 200);
    let shown = counts_to(&mut farol, "page_outside", 1);
    assert_eq!(shown["trouble"], "");
    // The operator does not want a host; its pages are left out, and counted.
    let removed = farol.order("remove-host", &serde_json::json!({ "host": "http://old.dept.uni.test" }));
    assert_eq!(removed.status, 200, "{}", removed.body);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(agreed.send(agreed.pages(200, 2, "old.dept.uni.test")).0, 200);
    let shown = counts_to(&mut farol, "page_removed", 2);
    assert!(shown["trouble"].as_str().unwrap().contains("suspended"), "{shown:#}");
    // Nothing more is taken in until the operator says so; what is there stays.
    let (status, answer) = agreed.send(agreed.pages(300, 1, "www.dept.uni.test"));
    assert!(status == 403 && answer.contains("ask the owner"), "{answer}");
    wait_for_hits(&mut farol, "weasel98");
    data.run_well(&["federation", "accept", "0505"]);
    assert_eq!(agreed.send(agreed.pages(300, 1, "www.dept.uni.test")).0, 200);
    wait_for_hits(&mut farol, "weasel300");
    farol.interrupt();
}

#[test]
fn a_hundred_strangers_at_once_are_heard_and_those_after_them_are_told_why_not() {
    let site = university();
    let (data, mut farol, at, to) = consumer(&site, "");
    let begun = Instant::now();
    let statuses: Vec<(u16, u16)> = std::thread::scope(|scope| {
        let one = |number: u8| {
            scope.spawn(move || {
                let mut stranger = stranger([100 + number; 32], at, to);
                let hello = stranger.say("hello", card(&format!("Stranger {number}"))).status;
                // And each sends pages that nobody asked for.
                let put = stranger.put(AgreementId([number; 16]), 1, &[0; 1000]).0;
                (hello, put)
            })
        };
        let running: Vec<_> = (0..110).map(one).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let heard = statuses.iter().filter(|(hello, _)| *hello == 200).count();
    let refused = statuses.iter().filter(|(hello, _)| *hello == 403).count();
    assert_eq!((heard, refused), (100, 10), "{statuses:?}");
    assert!(statuses.iter().all(|(_, put)| *put == 403), "{statuses:?}");
    println!("110 strangers are answered in {:.1?}", begun.elapsed());
    let begun = Instant::now();
    loop {
        let status = farol.json("/api/v1/federation");
        let partners = status["partners"].as_array().unwrap().len();
        if (partners, counted(&status, "letter_of_too_many"), counted(&status, "no_agreement"))
            == (100, 10, 110)
        {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{partners} partners, {:#}", status["refused"]);
        std::thread::sleep(Duration::from_millis(100));
    }
    // Nothing is held up: people search, and who was let in is heard.
    assert_eq!(farol.get("/search?q=university").status, 200);
    let mut known = stranger([100; 32], at, to);
    known.letters = 10;
    assert!(matches!(known.say("hello", card("Stranger 0")).status, 200 | 403));
    // Whoever asks without end is told to come later, and that is counted.
    let told_later = (0..2_000).any(|_| get(at, "/federation/v1/card", &[]).status == 429);
    assert!(told_later, "2,000 requests of one address");
    let begun = Instant::now();
    while counted(&farol.json("/api/v1/federation"), "door_too_many_requests") == 0 {
        // What is counted is shown once something happens.
        assert!(begun.elapsed() < PATIENCE, "it is not counted");
        std::thread::sleep(Duration::from_millis(200));
    }
    let _ = data.run(&["federation", "status"]);
    farol.interrupt();
}

#[test]
fn a_letter_of_another_time_or_kind_is_counted() {
    let site = university();
    let (_data, mut farol, at, to) = consumer(&site, "");
    let mut stranger = stranger([9; 32], at, to);
    assert_eq!(stranger.say("hello", b"no card".to_vec()).status, 400);
    assert_eq!(stranger.say("hello", card("Stranger")).status, 200);
    assert_eq!(stranger.say("agreement", b"{}".to_vec()).status, 400);
    assert_eq!(stranger.say("fill", b"{}".to_vec()).status, 400);
    assert_eq!(stranger.say("greetings", b"{}".to_vec()).status, 400);
    let late = Timestamp::from_secs(1);
    let mut letter = stranger.seal("hello", card("Stranger"));
    letter.at = late;
    letter.signature = stranger.sign(&letter.signed_bytes());
    assert_eq!(stranger.post(&letter).status, 401);
    // The state is told anew with each tick.
    let begun = Instant::now();
    loop {
        let status = farol.json("/api/v1/federation");
        let all = ["letter_unreadable", "letter_of_other_type", "letter_out_of_time"];
        if all.map(|reason| counted(&status, reason)) == [3, 1, 1] {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{status:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
    farol.interrupt();
}
