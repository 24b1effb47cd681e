//! Engines of different owners as processes of their own: they agree, one crawls for the other, and what is wrong is refused.

use crate::fixture::{Data, Farol, PATIENCE, Reply, get, request};
use crate::site::{Site, SiteReply};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use farol_base::{CanonicalUrl, ContentHash, PagePosition, Timestamp};
use farol_federation::View;
use farol_federation::agreement::{
    AgreementId, Delivery, EngineId, Grade, Kind, Message, OnEnd, Quota, Terms,
};
use farol_federation::message::{Card, Envelope, said};
use farol_federation::packet::{
    Body, Codec, Draft, Flags, Gone, GoneReason, HeaderStart, PacketKind, PageEntry, Texts, digest,
};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// Pages of the department, each with a word of its own.
pub const WORDS: [&str; 5] = ["lantern", "harbour", "granite", "estuary", "compass"];

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn page(title: &str, text: &str, links: &[String]) -> SiteReply {
    let links: String = links.iter().map(|to| format!("<a href=\"{to}\">{to}</a> ")).collect();
    SiteReply::html(format!("<html lang=en><title>{title}</title><p>{}</p>{links}</html>", text.repeat(4)))
}

/// A university with a department, at two addresses: one is where the consumer finds it, the other where the provider does.
pub fn university() -> Site {
    Site::start_at(2, |host, path| match (host, path) {
        (_, "/robots.txt") => SiteReply::missing(),
        ("www.uni.test", "/") => page("University", "The university by the sea teaches many things. ", &[]),
        ("www.uni.test", "/links") => page(
            "Links",
            "Departments of the university and what they are about. ",
            &[&WORDS[..], &["unheard"]]
                .concat()
                .iter()
                .map(|word| format!("http://www.dept.uni.test/{word}"))
                .collect::<Vec<_>>(),
        ),
        ("www.dept.uni.test", "/") => page(
            "Department",
            "The department studies the coast and its lights. ",
            &WORDS.map(|word| format!("/{word}")),
        ),
        ("www.dept.uni.test", path) => {
            let word = path.trim_start_matches('/');
            page(&format!("About {word}"), &format!("Here the {word} is told of at some length. "), &[])
        }
        _ => SiteReply::missing(),
    })
}

/// An engine that finds the university's hosts at one of its addresses.
pub fn engine(name: &str, scope: &str, port: u16, more: &str) -> Data {
    let data = Data::new();
    data.configure(&format!(
        "[identity]\nname = '{name}'\n[crawl]\nscope = '{scope}'\ndelay_min = '0s'\nallow_private = true\n\
         revisit_first = '6h'\n[federation]\nenabled = true\nlisten = '127.0.0.1:{port}'\nlease = '15s'\n\
         takeback_after = '5s'\ndelay_max = '500ms'\n{more}"
    ));
    data
}

fn start(data: &Data, site: &Site, last: u8, seed: &str) -> Farol {
    let mut flags = vec![seed.to_string()];
    for host in ["www.uni.test", "www.dept.uni.test"] {
        flags.extend(["--resolve".to_string(), format!("{host}=127.0.0.{last}:{}", site.port())]);
    }
    let mut farol = Farol::start(data, "up", &flags);
    farol.address();
    farol
}

/// Waits until the only agreement of an engine is in a state.
#[track_caller]
pub fn wait_for_state(farol: &mut Farol, want: &str) -> Value {
    let begun = Instant::now();
    loop {
        let status = farol.json("/api/v1/federation");
        let agreement = &status["agreements"][0];
        if agreement["state"] == want {
            return agreement.clone();
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {want}: {status:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[track_caller]
pub fn wait_for_hits(farol: &mut Farol, word: &str) {
    let begun = Instant::now();
    let is_there = |answer: Value| {
        let hits = answer["hits"].as_array().cloned().unwrap_or_default();
        // A list of links may name the word in an address.
        hits.iter().any(|hit| !hit["url"].as_str().unwrap().ends_with("/links"))
    };
    while !is_there(farol.json(&format!("/api/v1/search?q={word}"))) {
        assert!(begun.elapsed() < PATIENCE, "{word} is not found");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn asked_of_department(site: &Site) -> Vec<String> {
    let asked = site.asked_at(1).into_iter().map(|asked| asked.url);
    asked.filter(|url| url.starts_with("www.dept.uni.test")).collect()
}

#[test]
fn a_department_is_left_to_its_own_engine_and_taken_back_when_that_dies() {
    let site = university();
    let ports = [free_port(), free_port()];
    let general = engine("General", ".uni.test", ports[0], "");
    let department = engine("Department", ".dept.uni.test", ports[1], "");
    let mut consumer = start(&general, &site, 1, "http://www.uni.test/");
    let mut provider = start(&department, &site, 2, "http://www.dept.uni.test/");
    provider.wait_for("the department to be crawled", |status| status["index"]["documents"] == 6);
    let key = department.run_well(&["federation", "id"]);
    // Each gets to know the other by its address; the key may be named.
    let address = format!("https://127.0.0.1:{}", ports[1]);
    let wrong = general.run(&["federation", "join", &address, "--key", &format!("farol:{}", "a".repeat(52))]);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("another key"));
    let joined = general.run_well(&["federation", "join", &address, "--key", key.trim()]);
    assert!(joined.contains("Department is known now"), "{joined}");
    let outside = general.run(&["federation", "propose", "Department", "--view", ".es", "--as", "consumer"]);
    let said = String::from_utf8_lossy(&outside.stderr).into_owned();
    assert!(!outside.status.success() && said.contains("is not about all of these pages"), "{said}");
    let view = ".dept.uni.test";
    let proposed =
        general.run_well(&["federation", "propose", "Department", "--view", view, "--as", "consumer"]);
    assert!(proposed.contains("is proposed to Department"), "{proposed}");
    let undecided = wait_for_state(&mut provider, "considering");
    let id = undecided["id"].as_str().unwrap().to_string();
    assert_eq!(department.run(&["federation", "status"]).status.code(), Some(3), "something waits");
    department.run_well(&["federation", "accept", &id[..6]]);
    let active = wait_for_state(&mut consumer, "active");
    assert_eq!(active["in_force"], "domain:dept.uni.test");
    wait_for_state(&mut provider, "serving");
    // The robot finds the links, and passes them over; what the partner has is found all the same.
    consumer.order("seeds", &json!({ "url": "http://www.uni.test/links" }));
    WORDS.iter().for_each(|word| wait_for_hits(&mut consumer, word));
    let begun = Instant::now();
    while !site.asked().contains_key("www.uni.test/links") {
        assert!(begun.elapsed() < PATIENCE, "the seed is not asked for");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(asked_of_department(&site), Vec::<String>::new(), "the consumer asked for what it had left");
    let hit = consumer.json("/api/v1/search?q=lantern")["hits"][0].clone();
    assert_eq!(hit["url"], "http://www.dept.uni.test/lantern");
    let shown = consumer.get(&format!("/admin/federation/agreement?id={id}&hl=en"));
    assert!(shown.body.contains("gets from Department") && shown.body.contains("left to the provider"));
    // It dies: its part is crawled again, and its pages stay meanwhile.
    provider.kill();
    wait_for_state(&mut consumer, "taken-back");
    wait_for_hits(&mut consumer, "lantern");
    let begun = Instant::now();
    // What only the consumer knows of is visited first.
    while asked_of_department(&site).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "nobody crawls the department");
        std::thread::sleep(Duration::from_millis(100));
    }
    // It returns, and the part is handed back.
    let provider = start(&department, &site, 2, "http://www.dept.uni.test/");
    wait_for_state(&mut consumer, "active");
    let ended = general.run_well(&["federation", "end", &id]);
    assert!(ended.contains("ends"), "{ended}");
    wait_for_state(&mut consumer, "ended");
    provider.interrupt();
    consumer.interrupt();
}

#[test]
fn without_federation_nothing_listens_and_nothing_shows() {
    let site = university();
    let port = free_port();
    let data = Data::new();
    data.configure(&format!(
        "[crawl]\ndelay_min = '0s'\nallow_private = true\n[federation]\nlisten = '127.0.0.1:{port}'\n"
    ));
    let mut farol = start(&data, &site, 1, "http://www.dept.uni.test/");
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(farol.get("/api/v1/federation").status, 404);
    assert!(!farol.get("/admin?hl=en").body.contains("/admin/federation"));
    assert!(!data.path().join("federation").exists());
    let refused = data.run(&["federation", "status"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("enabled = true"), "{refused:?}");
    // Answers are the same, on and off.
    farol.wait_for("the pages to be there", |status| status["index"]["documents"] == 6);
    let answers = |farol: &mut Farol| -> Vec<String> {
        let questions = WORDS.iter().copied().chain(["department", "nothing"]);
        // Scores change once link ranks are computed, which is not of interest here.
        let told =
            |hit: &Value| format!("{} {} {} {}", hit["url"], hit["title"], hit["snippet"], hit["source"]);
        questions
            .map(|word| {
                let answer = farol.json(&format!("/api/v1/search?q={word}"));
                answer["hits"].as_array().unwrap().iter().map(told).collect::<Vec<_>>().join("\n")
            })
            .collect()
    };
    let off = answers(&mut farol);
    farol.interrupt();
    data.configure(&format!(
        "[crawl]\ndelay_min = '0s'\nallow_private = true\n[federation]\nenabled = true\nlisten = '127.0.0.1:{port}'\n"
    ));
    let mut farol = start(&data, &site, 1, "http://www.dept.uni.test/");
    assert_eq!(answers(&mut farol), off);
    assert!(off[0].contains("lantern"), "{off:?}");
    farol.interrupt();
}

/// An engine that a test plays: it has a key, and says what the test wants.
pub struct Stranger {
    pub key: Ed25519KeyPair,
    pub at: SocketAddr,
    pub to: EngineId,
    pub letters: u8,
}

impl Stranger {
    pub fn id(&self) -> EngineId {
        EngineId(self.key.public_key().as_ref().try_into().unwrap())
    }

    pub fn seal(&mut self, kind: &str, payload: Vec<u8>) -> Envelope {
        self.letters += 1;
        let mut envelope = Envelope {
            from: self.id(),
            to: self.to,
            kind: kind.to_string(),
            id: [self.letters; 16],
            at: now(),
            payload,
            signature: [0; 64],
        };
        envelope.signature = self.sign(&envelope.signed_bytes());
        envelope
    }

    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        self.key.sign(bytes).as_ref().try_into().unwrap()
    }

    pub fn post(&self, envelope: &Envelope) -> Reply {
        request(self.at, "POST /federation/v1/message HTTP/1.0", &[], &envelope.to_json())
    }

    pub fn say(&mut self, kind: &str, payload: Vec<u8>) -> Reply {
        let envelope = self.seal(kind, payload);
        self.post(&envelope)
    }

    pub fn put(&mut self, agreement: AgreementId, sequence: u64, packet: &[u8]) -> (u16, String) {
        let path = format!("packets/{agreement}/{sequence}");
        let letter = self.seal(&format!("PUT {path}"), Vec::new()).to_json();
        let letter = data_encoding::BASE64.encode(letter.as_bytes());
        send(
            self.at,
            &format!("PUT /federation/v1/{path} HTTP/1.0"),
            &format!("farol-letter: {letter}"),
            packet,
        )
    }

    /// Asks for packets, as a consumer does; `more` is a query, `header` one more header line.
    pub fn fetch(&mut self, path: &str, more: &str, header: &str) -> (u16, Vec<u8>) {
        let letter = self.seal(&format!("GET {path}"), Vec::new()).to_json();
        let letter = data_encoding::BASE64.encode(letter.as_bytes());
        let headers = format!("farol-letter: {letter}{header}");
        let (status, answer) =
            send_raw(self.at, &format!("GET /federation/v1/{path}{more} HTTP/1.0"), &headers, &[]);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
        (status, answer[end..].to_vec())
    }

    fn put_piece(
        &mut self,
        agreement: AgreementId,
        sequence: u64,
        piece: &[u8],
        range: &str,
    ) -> (u16, String) {
        let path = format!("packets/{agreement}/{sequence}");
        let letter = self.seal(&format!("PUT {path}"), Vec::new()).to_json();
        let letter = data_encoding::BASE64.encode(letter.as_bytes());
        let headers = format!("farol-letter: {letter}\r\nContent-Range: {range}");
        send(self.at, &format!("PUT /federation/v1/{path} HTTP/1.0"), &headers, piece)
    }

    pub fn packet(&self, start: HeaderStart, body: &Body) -> Vec<u8> {
        let plain = body.encode(Grade::Text);
        let draft = Draft::new(start, body.counts(), plain.len(), Codec::Plain, plain);
        let signature = self.sign(&draft.to_sign());
        draft.signed(signature)
    }
}

/// A request with a body that is no text.
fn send(at: SocketAddr, what: &str, header: &str, body: &[u8]) -> (u16, String) {
    let (status, answer) = send_raw(at, what, header, body);
    (status, String::from_utf8_lossy(&answer).into_owned())
}

fn send_raw(at: SocketAddr, what: &str, header: &str, body: &[u8]) -> (u16, Vec<u8>) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    let head = format!("{what}\r\nHost: {at}\r\n{header}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    // Who refuses a body may not read it to its end.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let head = String::from_utf8_lossy(&answer[..answer.len().min(64)]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer)
}

pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_millis(since.as_millis() as u64)
}

pub fn entry(url: &str, origin: EngineId, word: &str) -> PageEntry {
    PageEntry {
        url: CanonicalUrl::parse(url).unwrap(),
        origin,
        via: Vec::new(),
        fetched: now(),
        dated: None,
        language: None,
        flags: Flags::default(),
        hops: 1,
        size: 100,
        content_hash: ContentHash(u128::from(now().as_millis())),
        simhash: 1,
        file_type: "html".into(),
        media_type: None,
        address: None,
        texts: Texts { title: word.into(), body: format!("{word} and more of it"), ..Texts::default() },
        links: Vec::new(),
    }
}

#[test]
fn what_is_forged_replayed_reordered_cut_or_outside_is_refused_and_counted() {
    let site = university();
    let port = free_port();
    let data = engine(
        "General",
        ".uni.test",
        port,
        &format!("behind_proxy = true\naddress = 'http://127.0.0.1:{port}'\n"),
    );
    let mut farol = start(&data, &site, 1, "http://www.uni.test/");
    let at: SocketAddr = format!("127.0.0.1:{port}").parse().unwrap();
    let to: EngineId = data.run_well(&["federation", "id"]).trim().parse().unwrap();
    let mut stranger =
        Stranger { key: Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap(), at, to, letters: 0 };
    let me = stranger.id();
    // The card is for everybody; letters are for those who are known.
    let card = get(at, "/federation/v1/card", &[]);
    let envelope = Envelope::from_json(card.body.as_bytes()).unwrap();
    assert_eq!((card.status, envelope.from), (200, to));
    let id = AgreementId([5; 16]);
    let terms = Terms {
        id,
        revision: 1,
        provider: me,
        consumer: to,
        kind: Kind::Index,
        view: View::parse(".dept.uni.test").unwrap(),
        grade: Grade::Text,
        delivery: Delivery::Push,
        delay_max: Duration::from_secs(1),
        quota: Quota { pages_day: 1_000, bytes_day: 64 << 20 },
        forward: 0,
        on_end: OnEnd::Keep,
        notice: Duration::from_secs(1),
        lease: Duration::from_secs(600),
    };
    let proposal = said(id, &Message::Propose(Box::new(terms.clone())));
    assert_eq!(stranger.say("agreement", proposal.clone()).status, 403, "nobody knows it yet");
    let hello = Card {
        name: "Stranger".into(),
        address: format!("http://127.0.0.1:{}", free_port()),
        behind_proxy: true,
        view: View::parse(".uni.test").unwrap(),
        agent: "farol".into(),
        contact: String::new(),
    };
    assert_eq!(stranger.say("hello", hello.to_json().into_bytes()).status, 200);
    // A letter that was changed, one of another, one for another, one that is late, and one that comes twice.
    let letter = stranger.seal("agreement", proposal.clone());
    assert_eq!(stranger.post(&Envelope { payload: b"{}".to_vec(), ..letter.clone() }).status, 401);
    assert_eq!(stranger.post(&Envelope { to: me, ..letter.clone() }).status, 401);
    let mut late = Envelope { at: now() - Duration::from_secs(400), ..letter.clone() };
    late.signature = stranger.sign(&late.signed_bytes());
    assert_eq!(stranger.post(&late).status, 401);
    assert_eq!(stranger.post(&letter).status, 200);
    assert_eq!(stranger.post(&letter).status, 409);
    wait_for_state(&mut farol, "considering");
    data.run_well(&["federation", "accept", "0505"]);
    wait_for_state(&mut farol, "filling");
    let start = |sequence, before| HeaderStart {
        sender: me,
        receiver: to,
        agreement: id,
        revision: 1,
        sequence,
        before,
        made: now(),
        position: PagePosition::default(),
        view: terms.view.digest(),
        analysis: 0,
        grade: Grade::Text,
        kind: PacketKind::Snapshot,
    };
    let body =
        |pages: Vec<PageEntry>| Body { engines: vec![(me, "Stranger".into())], pages, ..Body::default() };
    let changes = |sequence, before| HeaderStart { kind: PacketKind::Changes, ..start(sequence, before) };
    let first =
        stranger.packet(start(1, [0; 32]), &body(vec![entry("http://www.dept.uni.test/a", me, "albatross")]));
    let mut put = |sequence, packet: &[u8]| stranger.put(id, sequence, packet).0;
    // Cut, changed, forged, for another, too large.
    assert_eq!(put(1, &first[..first.len() - 1]), 400);
    let mut flipped = first.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert_eq!(put(1, &flipped), 400);
    let mut forged = first.clone();
    let header = u32::from_le_bytes(forged[12..16].try_into().unwrap()) as usize;
    forged[16 + header] ^= 1;
    assert_eq!(put(1, &forged), 400);
    assert_eq!(put(1, &first), 200);
    assert_eq!(put(1, &first), 200, "what comes again is acknowledged again");
    wait_for_hits(&mut farol, "albatross");
    // Out of order: the next but one.
    let second_body = body(vec![
        entry("http://www.dept.uni.test/b", me, "bittern"),
        entry("http://www.uni.test/outside", me, "cormorant"),
        entry("http://elsewhere.test/", me, "dunlin"),
    ]);
    let second = stranger.packet(changes(2, digest(&first).unwrap()), &second_body);
    let gone = Body {
        gone: vec![Gone {
            url: CanonicalUrl::parse("http://www.dept.uni.test/a").unwrap(),
            at: now() + Duration::from_secs(1),
            reason: GoneReason::Gone,
        }],
        ..body(Vec::new())
    };
    let third = stranger.packet(changes(3, digest(&second).unwrap()), &gone);
    let (status, answer) = stranger.put(id, 3, &third);
    assert!(status == 409 && answer.contains("\"expected\":2"), "{answer}");
    let other =
        stranger.packet(HeaderStart { receiver: me, ..changes(2, digest(&first).unwrap()) }, &second_body);
    assert_eq!(stranger.put(id, 2, &other).0, 400);
    let huge = stranger.put_piece(id, 2, &second, &format!("bytes 0-{}/{}", second.len() - 1, 64 << 20));
    assert_eq!(huge.0, 413);
    // In pieces, of which one goes astray: it is told how much is there.
    let range = |from: usize, to: usize| format!("bytes {from}-{}/{}", to - 1, second.len());
    assert_eq!(stranger.put_piece(id, 2, &second[..100], &range(0, 100)).0, 202);
    let astray = stranger.put_piece(id, 2, &second[200..], &range(200, second.len()));
    assert!(astray.0 == 416 && astray.1.contains("farol-received: 100"), "{}", astray.1);
    assert_eq!(stranger.put_piece(id, 2, &second[100..], &range(100, second.len())).0, 200);
    assert_eq!(stranger.put(id, 3, &third).0, 200);
    wait_for_hits(&mut farol, "bittern");
    let begun = Instant::now();
    while farol.json("/api/v1/search?q=albatross")["total"] != 0 {
        assert!(begun.elapsed() < PATIENCE, "a page that is gone is found");
        std::thread::sleep(Duration::from_millis(100));
    }
    for word in ["cormorant", "dunlin"] {
        assert_eq!(farol.json(&format!("/api/v1/search?q={word}"))["total"], 0, "{word} was not agreed on");
    }
    let status = farol.json("/api/v1/federation");
    let counted = |of: &Value, reason: &str| {
        let found = of["refused"].as_array().unwrap().iter().find(|refused| refused["reason"] == reason);
        found.map_or(0, |refused| refused["count"].as_u64().unwrap())
    };
    for (reason, want) in [
        ("letter_of_unknown", 1),
        ("letter_forged", 1),
        ("letter_not_for_us", 1),
        ("letter_out_of_time", 1),
        ("letter_replayed", 1),
    ] {
        assert_eq!(counted(&status, reason), want, "{reason}: {status:#}");
    }
    let agreement = &status["agreements"][0];
    for (reason, want) in [
        ("packet_cut", 1),
        ("packet_damaged", 1),
        ("packet_forged", 1),
        ("packet_replayed", 1),
        ("packet_gap", 1),
        ("packet_not_for_us", 1),
        ("packet_too_large", 1),
        ("page_outside", 2),
    ] {
        assert_eq!(counted(agreement, reason), want, "{reason}: {status:#}");
    }
    assert_eq!(agreement["received"]["packets"], 3);
    farol.interrupt();
}
