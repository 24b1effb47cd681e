//! The bytes of every body, as they were when the wire was frozen: `v1/golden.txt` has a line for each, and a program
//! that writes or reads other bytes cannot live beside those that are there.

use super::batch::{self, DocumentBatch, LinkBatch, LinkChange, Stretch, WireChange};
use super::freight::{self, Freight, FreightHead, NoteBatch};
use super::graph::{WireAtlas, WireAtlasPart, WireFacts, WireGraphReport, WireKnown, WireTold};
use super::parcel::{
    self, Envelope, ParcelHead, ParcelId, ParcelPart, PartsInBlob, WireHostRow, WireUrl, WireVisits,
};
use super::urls::{UrlBody, WireFound, WireHost};
use super::v1::backup::{ArchiveFiles, PieceRequest, ToldEntries, ToldRequest, WirePiece};
use super::v1::cache::{
    CacheHead, CacheTail, HandOverReply, HandOverRequest, InsertReply, InsertRequest, LookupReply,
    LookupRequest, ProtectRequest, ReleaseRequest, WireAged, WireAnswer, WireBeat, WireCounted, WireEntry,
    WireEpoch, WireHot, WireKept, WireLookup, WireRankedHit, WireReport, WireRing, WireRingNode, WireSender,
    WireSummary, WireTally,
};
use super::v1::node::{
    CopyRequest, DocumentRequest, Health, HostPagesRequest, Resend, ShardHead, SuggestRequest, TwinsRequest,
    WireCompletion, WireCopy,
};
use super::v1::page::{ExplainRequest, RefetchRequest, WirePage, WirePlan};
use super::v1::part::{
    CountRequest, SearchRequest, ShowRequest, WireAsking, WireCand, WireCounts, WireFigures, WirePart,
    WireSizes, WireSpelling, WireTypedWord,
};
use super::v1::question::{WireField, WireFilters, WireFragment, WireHit, WireQuery, WireRequest, WireTerm};
use super::values::{WireDocument, WireLink, WireOrigin, WireShown};
use data_encoding::HEXLOWER;
use farol_cluster::{Epoch, NodeNo};
use farol_partition::hold::{Note, NoteBody};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::net::IpAddr;

const FROZEN: &str = include_str!("v1/golden.txt");

/// Compares bodies with the lines of the file.
struct Golden {
    lines: BTreeMap<&'static str, Vec<u8>>,
    wrong: Vec<String>,
}

impl Golden {
    fn read() -> Golden {
        let line = |line: &'static str| {
            let (name, hex) = line.split_once(' ').unwrap();
            (name, HEXLOWER.decode(hex.as_bytes()).unwrap())
        };
        let lines = FROZEN.lines().filter(|text| !text.starts_with('#') && !text.is_empty()).map(line);
        Golden { lines: lines.collect(), wrong: Vec::new() }
    }

    /// The frozen bytes, where these are the same.
    fn compare(&mut self, name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let frozen = self.lines.remove(name);
        if frozen.as_deref() != Some(bytes) {
            self.wrong.push(format!("{name} {}", HEXLOWER.encode(bytes)));
            return None;
        }
        frozen
    }

    fn body<T: Serialize + DeserializeOwned>(&mut self, name: &str, value: &T) {
        if let Some(frozen) = self.compare(name, &postcard::to_stdvec(value).unwrap()) {
            let (read, rest) = postcard::take_from_bytes::<T>(&frozen).unwrap();
            assert!(rest.is_empty(), "{name} does not read its own end");
            assert_eq!(postcard::to_stdvec(&read).unwrap(), frozen, "{name} is read as something else");
        }
    }

    /// A batch of a log: its version, and its body packed. How tightly zstd packs is not frozen.
    fn packed(&mut self, name: &str, bytes: &[u8], read: impl Fn(&[u8]) -> bool) {
        let plain = |packed: &[u8]| zstd::stream::decode_all(packed).unwrap();
        let split = [&bytes[..1], &plain(&bytes[1..])].concat();
        if let Some(frozen) = self.compare(name, &split) {
            let packed = zstd::stream::encode_all(&frozen[1..], 3).unwrap();
            assert!(read(&[&frozen[..1], &packed].concat()), "{name} is read as something else");
        }
    }
}

fn text(text: &str) -> String {
    text.to_string()
}

fn origin() -> WireOrigin {
    WireOrigin { engine: [7; 32], name: text("n"), site: text("s"), copy: true }
}

fn document() -> WireDocument {
    WireDocument {
        url: text("http://a.test/"),
        title: text("t"),
        headings: text("h"),
        body: text("b"),
        rest: text("r"),
        description: text("d"),
        anchors: text("a"),
        language: Some(text("pt")),
        file_type: text("html"),
        fetched: 1_700_000_000_000,
        dated: Some(2),
        content_hash: u128::MAX - 1,
        simhash: 4,
        position: (5, 6),
        shown: WireShown::Lead(text("l")),
        source: Some(origin()),
    }
}

fn term(word: &str, field: WireField, phrase: bool) -> WireTerm {
    WireTerm { text: text(word), field, phrase }
}

fn query() -> WireQuery {
    WireQuery {
        wanted: vec![term("a", WireField::Any, false), term("b c", WireField::Title, true)],
        unwanted: vec![term("d", WireField::Url, false)],
        filters: WireFilters {
            sites: vec![text("s")],
            not_sites: vec![text("n")],
            languages: vec![text("pt")],
            not_languages: vec![text("en")],
            file_types: vec![text("pdf")],
            not_file_types: vec![text("txt")],
            after: Some(300),
            before: Some(400),
        },
        as_written: true,
    }
}

fn hit() -> WireHit {
    WireHit {
        url: text("http://a.test/"),
        title: vec![WireFragment { text: text("t"), hit: true }],
        snippet: vec![WireFragment { text: text("s"), hit: false }],
        language: Some(text("pt")),
        dated: Some(9),
        fetched: 1,
        position: (2, 300),
        source: Some(origin()),
        content: 300,
        simhash: 4,
    }
}

const HEAD: ShardHead = ShardHead { map: 300, shard: 2 };

fn nodes_and_pages(golden: &mut Golden) {
    let trouble = vec![text("t")];
    let health = Health {
        program: text("0.1.0"),
        number: Some(3),
        draining: true,
        map: 300,
        shards: vec![0, 2],
        trouble,
    };
    golden.body("Health", &health);
    golden.body("Resend", &Resend { topic: text("links"), from: (1, 300) });
    golden.body("CopyRequest", &CopyRequest { url: text("u"), position: (0, 300) });
    let copy =
        WireCopy { url: text("u"), fetched: 300, status: 200, response_head: vec![0, 1], body: vec![2, 255] };
    golden.body("WireCopy", &Some(copy));
    golden.body("ShardHead", &HEAD);
    golden.body("DocumentRequest", &DocumentRequest { head: HEAD, url: text("u") });
    golden.body("TwinsRequest", &TwinsRequest { head: HEAD, page: document(), limit: 3 });
    golden.body("HostPagesRequest", &HostPagesRequest { head: HEAD, host: text("h") });
    golden.body("SuggestRequest", &SuggestRequest { head: HEAD, prefix: text("p"), count: 9 });
    golden.body("WireCompletion", &vec![WireCompletion { text: text("t"), tail: 1, weight: 300 }]);
    golden.body("WireDocument", &document());
    golden.body("WireShown", &[WireShown::Passage, WireShown::Nothing, WireShown::Lead(text("l"))]);
    golden.body("ArchiveFiles", &ArchiveFiles { files: vec![(0, 300), (1, 2)] });
    golden.body("PieceRequest", &PieceRequest { file: 1, offset: 300, bytes: 9 });
    golden.body("WirePiece", &WirePiece { bytes: vec![7, 0] });
    golden.body("ToldRequest", &ToldRequest { table: text("orders"), after: text("k") });
    golden.body("ToldEntries", &ToldEntries { entries: vec![(text("k"), vec![1, 2])] });
    golden.body("ExplainRequest", &ExplainRequest { url: text("u") });
    golden.body("RefetchRequest", &RefetchRequest { pages: text("p*"), anyhow: true });
    let plan = WirePlan {
        changes: 0.5,
        changes_per_day: 1.5,
        weight: 2.0,
        fresh: 0.25,
        worth: 300,
        price: 4,
        host_is_full: true,
        interval: 5,
    };
    let page = WirePage {
        url: text("u"),
        verdict: (text("v"), text("d")),
        state: Some(text("s")),
        is_seed: true,
        depth: Some(2),
        removed_by: Some(text("x")),
        out_of_scope: Some(text("o")),
        robots: Some((true, Some(text("r")))),
        host_state: Some(text("h")),
        host_wakes: Some(5),
        host_failures: 3,
        moved_to: Some(text("m")),
        is_indexed: true,
        title: text("t"),
        language: Some(text("en")),
        twins: vec![text("w")],
        similar: vec![text("z")],
        linked_from: (2, vec![(text("l"), text("x"), true)]),
        log: vec![(7, Some(200), text("o"), 4)],
        log_is_whole: true,
        visits: 6,
        failures: 1,
        last_visit: Some(9),
        last_change: Some(8),
        due: Some(10),
        plan,
    };
    golden.body("WirePage", &page);
}

fn questions(golden: &mut Golden) {
    let languages = vec![text("pt")];
    let request = WireRequest { query: query(), first: 10, count: 20, languages: languages.clone() };
    golden.body("WireRequest", &request);
    golden.body("WireHit", &vec![Some(hit()), None]);
    let sizes = WireSizes {
        slots: 500,
        documents: 400,
        tokens: [3, 2, 1],
        languages: vec![(text("pt"), 4)],
        generation: 9,
    };
    let counts = WireCounts {
        words: vec![(1, text("a"), 300)],
        beginnings: vec![(1, text("a"), vec![(text("ab"), 7)])],
    };
    let figures = WireFigures { sizes: sizes.clone(), counts: counts.clone(), shards: 3 };
    golden.body("WireSizes", &sizes);
    golden.body("WireCounts", &counts);
    let synonyms = text("a = b");
    let count = CountRequest {
        head: HEAD,
        query: query(),
        languages: languages.clone(),
        sizes,
        synonyms: synonyms.clone(),
    };
    golden.body("CountRequest", &count);
    for (name, asking) in [
        ("SearchRequest-typed", WireAsking::Typed),
        ("SearchRequest-corrected", WireAsking::Corrected),
        ("SearchRequest-as-typed", WireAsking::AsTyped),
    ] {
        let search = SearchRequest {
            head: HEAD,
            query: query(),
            languages: languages.clone(),
            asking,
            figures: figures.clone(),
            synonyms: synonyms.clone(),
            pins: vec![1, 300],
        };
        golden.body(name, &search);
    }
    let show = ShowRequest { head: HEAD, query: query(), languages, figures, synonyms, pages: vec![300] };
    golden.body("ShowRequest", &show);
    let cand = WireCand {
        page: 1,
        host: 2,
        content: 3,
        simhash: 4,
        strict: true,
        named: 1,
        text: 1.0,
        linked: 2.0,
        near: 3.0,
        tie: 300,
        language: 6,
        link_rank: 0.5,
        address: 7,
    };
    let near = WireSpelling::Near {
        documents: 4,
        words: vec![(text("ab"), text("Ab"), 7)],
        phrases: vec![text("a b")],
        begins: true,
    };
    let corrected = Some(vec![term("c", WireField::Any, false)]);
    let decided = WireSpelling::Decided { corrected, suggested: None };
    for (name, spelling) in
        [("WirePart-near", near), ("WirePart-right", WireSpelling::Right), ("WirePart-decided", decided)]
    {
        let word = WireTypedWord { form: text("a"), pages: 6, has_forms: true };
        let part = WirePart {
            generation: 1,
            typed: vec![(term("a", WireField::Any, false), Some(word))],
            spelling,
            searched: true,
            listing: false,
            by_name: true,
            words: 2,
            strict: 300,
            cands: vec![cand],
            pinned: vec![(0, 5)],
        };
        golden.body(name, &part);
    }
}

fn cache_service(golden: &mut Golden) {
    let ring = WireEpoch { term: 1, version: 300 };
    let tail = CacheTail { node: 1, incarnation: 2, ring, busy: 500 };
    let head = CacheHead { ring, from: WireSender::Node { id: 300, incarnation: 4 } };
    let front = CacheHead { ring, from: WireSender::Front(300) };
    let aged = WireAged { kept: WireKept { answer: vec![0, 255], spelling: Some(9) }, age_ms: 300, state: 6 };
    let entry = WireEntry { key: text("k"), aged: aged.clone(), uses: 3 };
    let lookup = LookupRequest { head: front, key: text("k"), need: 7, lease_wanted: true };
    golden.body("LookupRequest", &lookup);
    for (name, found) in [
        ("LookupReply-hit", WireLookup::Hit(aged.clone())),
        ("LookupReply-adopted", WireLookup::Adopted(aged.clone())),
        ("LookupReply-stale", WireLookup::Stale(aged, Some(8))),
        ("LookupReply-miss", WireLookup::Miss { lease: Some(8), wait_ms: 40 }),
    ] {
        golden.body(name, &LookupReply { tail, found });
    }
    golden.body("InsertRequest", &InsertRequest { head, entry: entry.clone(), lease: Some(8) });
    golden.body("InsertReply", &InsertReply { tail, kept: true });
    golden.body("ReleaseRequest", &ReleaseRequest { head, key: text("k"), lease: 8 });
    let entries = vec![entry];
    golden.body("ProtectRequest", &ProtectRequest { head, round: 9, last: true, entries: entries.clone() });
    golden.body("HandOverRequest", &HandOverRequest { head, last: false, entries });
    golden.body("HandOverReply", &HandOverReply { tail, room: 300 });
    let ranked = WireRankedHit {
        hit: hit(),
        score: 1.5,
        duplicates: 2,
        more_from_host: true,
        pinned: false,
        strict: true,
    };
    let answer = WireAnswer {
        hits: vec![ranked],
        total: 300,
        more: true,
        suggestion: Some(query()),
        corrected: None,
        generation: 5,
        missing: vec![text("m")],
    };
    golden.body("WireAnswer", &answer);
    let beat = WireBeat {
        node: 1,
        incarnation: 2,
        ring,
        capacity: 5,
        lookups: 6,
        hits: 7,
        adopted: 8,
        misses: 9,
        inserts: 10,
        refused: 11,
        protects: 12,
        handed: 13,
        busy: 14,
        bytes: 15,
        entries: 300,
    };
    golden.body("WireBeat", &beat);
    let counted = vec![WireCounted { hash: 16, text: text("q"), count: 17, error: 1 }];
    let report = WireReport {
        front: 1,
        incarnation: 2,
        number: 3,
        ring,
        nodes: vec![WireTally { node: 6, sent: 7, owned: 8, late: 9, refused: 10, refusing_ms: Some(11) }],
        density: vec![(12, 13)],
        minute: Some(WireSummary { seen: 14, rest: 15, counted }),
        raised: vec![(18, 19)],
    };
    golden.body("WireReport", &report);
    let nodes = vec![WireRingNode { id: 4, incarnation: 5, capacity: 6 }];
    golden.body("WireRing", &WireRing { epoch: ring, seed: 3, nodes, ends: vec![(300, 4)] });
    golden.body("WireHot", &WireHot { epoch: ring, fronts: 3, at_once: 4, hot: vec![(5, 6, 7)] });
}

fn logs(golden: &mut Golden) {
    let stretch = Stretch { from: 3, prev: (0, 300), upto: (1, 2), cut: 70_000, piece: 1 };
    let changes = vec![
        WireChange::Put(Box::new(document())),
        WireChange::Delete(text("http://a.test/")),
        WireChange::DeleteHost(text("http://a.test")),
        WireChange::DeleteUnder(text("http://a.test/x")),
        WireChange::Anchors { page: 5, text: text("b") },
    ];
    let batch = DocumentBatch { stretch: Some(stretch), changes };
    golden.packed("DocumentBatch", &batch::pack(&batch).unwrap(), |bytes| {
        batch::unpack::<DocumentBatch>(bytes).as_ref() == Ok(&batch)
    });
    let link = WireLink { target: 7, target_host: 8, anchor: text("a"), nofollow: true };
    let changes = vec![
        LinkChange::Put { page: 1, host: 2, at: (0, 4), links: vec![link] },
        LinkChange::Remove { page: 300 },
    ];
    let links = LinkBatch { stretch, changes };
    golden.packed("LinkBatch", &batch::pack(&links).unwrap(), |bytes| {
        batch::unpack::<LinkBatch>(bytes).as_ref() == Ok(&links)
    });
    let head = FreightHead { from: 3, incarnation: 2, number: 300, kept: 7, epoch: 1 };
    golden.compare("FreightHead", &freight::write(&head, &[]).unwrap());
    golden.body("FreightHead-body", &head);
    let found = WireFound { path: text("/a"), depth: 4, hint: Some(9) };
    let urls = UrlBody {
        hosts: vec![WireHost { host: text("http://a.test"), hops: 1, urls: vec![found] }],
        learned: vec![(5, 6)],
    };
    golden.body("UrlBody", &urls);
    let address = IpAddr::from([127, 0, 0, 1]);
    let host = text("http://a.test");
    // WireNotes, WireNote and WireNoteBody are freight's own.
    let notes: Vec<Note> = [
        NoteBody::Free { address: "::1".parse().unwrap() },
        NoteBody::Grant { host: host.clone(), address, grant: 7, is_last: true },
        NoteBody::Back { host: host.clone(), address: None, grant: Some(7), with_right: true },
        NoteBody::Placed { host: host.clone(), by: NodeNo(9) },
    ]
    .map(|body| Note { epoch: Epoch(4), body })
    .into();
    let packed = freight::pack_notes(5, &notes).unwrap();
    golden.packed("WireNotes", &packed[1..], |bytes| {
        let expected = Freight::Notes(NoteBatch { incarnation: 5, notes: notes.clone() });
        freight::unpack_freight(&[&packed[..1], bytes].concat()) == Ok(expected)
    });
    let kinds = [freight::pack_urls(&urls).unwrap()[0], packed[0], freight::pack_parcel(&[])[0]];
    golden.compare("freight-kinds", &kinds);
    let row = WireHostRow {
        robots_status: 200,
        robots_fetched: 300,
        crawl_delay: Some(4),
        not_before: 5,
        failures: 6,
        asked_to_wait: 7,
        bytes_fetched: 8,
        errors: vec![(text("e"), 9)],
        address: Some(address),
        connects: vec![(10, 11)],
    };
    let visits = WireVisits {
        state: 1,
        visits: 2,
        last_visit: 300,
        last_change: 4,
        content_hash: 7,
        download: 4,
        due: 301,
        failures: 1,
        memo: [1; 8],
    };
    let parcel = ParcelId { epoch: 5, attempt: 1, from: 3 };
    let part = ParcelPart {
        parcel,
        host: host.clone(),
        part: 0,
        of: Some(1),
        head: Some(Box::new(ParcelHead {
            right: Some(5),
            address: Some((address, 300)),
            row: Some(row),
            robots: Some(b"x".to_vec()),
        })),
        urls: vec![
            WireUrl { path: text("/"), depth: 0, visits: None },
            WireUrl { path: text("/a"), depth: 1, visits: Some(Box::new(visits)) },
        ],
    };
    let blob = PartsInBlob { parcel, host, first: 0, count: 2, bytes: 300, crc: u32::MAX };
    for (name, envelope) in [("ParcelPart", Envelope::Part(part)), ("PartsInBlob", Envelope::Blob(blob))] {
        golden.packed(name, &parcel::pack(&envelope).unwrap(), |bytes| {
            parcel::unpack(bytes).as_ref() == Ok(&envelope)
        });
    }
}

fn files(golden: &mut Golden) {
    let address = IpAddr::from([127, 0, 0, 1]);
    let facts = WireFacts {
        host: text("http://a.test"),
        address,
        pages: 300,
        rtt: Some((4, 5)),
        place: Some((-6, 7)),
        language: Some(*b"pt"),
        links: vec![(8, 9)],
    };
    let report = WireGraphReport {
        agent: 1,
        epoch: 2,
        number: 3,
        hosts: vec![facts],
        peers: vec![(4, (5, 6))],
        exchanged: (7, 8),
    };
    golden.body("WireGraphReport", &report);
    let atlas = WireAtlas {
        parts: 1,
        agents: vec![text("1")],
        numbers: vec![2],
        peers: vec![(3, 4, (5, 6, (7, 8)))],
        exchanged: vec![(9, 10, 11, 12)],
        refused: vec![(text("1"), 2, 3)],
    };
    golden.body("WireAtlas", &atlas);
    let told = WireTold {
        agent: 1,
        at: 300,
        address,
        pages: 4,
        place: Some((5, -6)),
        language: Some(*b"pt"),
        links: vec![(7, 8)],
    };
    let part = WireAtlasPart {
        hosts: vec![WireKnown { name: text("http://a.test"), told: vec![told] }],
        rtt: vec![(address, vec![(1, 2, (3, 4))])],
    };
    golden.body("WireAtlasPart", &part);
}

#[test]
fn version_1_is_frozen() {
    let mut golden = Golden::read();
    nodes_and_pages(&mut golden);
    questions(&mut golden);
    cache_service(&mut golden);
    logs(&mut golden);
    files(&mut golden);
    assert!(
        golden.wrong.is_empty(),
        "version 1 of the wire is frozen, and these bodies are not what v1/golden.txt says: leave them as they were and \
         add wire::v2 (docs/formats/wire.md says how); a body that is new gets its line.\n{}",
        golden.wrong.join("\n")
    );
    let unknown: Vec<&&str> = golden.lines.keys().collect();
    assert!(unknown.is_empty(), "nobody writes these any more, which others still read: {unknown:?}");
}

/// Whoever adds a body must freeze it as well.
#[test]
fn every_body_has_frozen_bytes() {
    let here = include_str!("golden.rs");
    let sources = [
        include_str!("batch.rs"),
        include_str!("freight.rs"),
        include_str!("graph.rs"),
        include_str!("parcel.rs"),
        include_str!("urls.rs"),
        include_str!("values.rs"),
        include_str!("v1/backup.rs"),
        include_str!("v1/cache.rs"),
        include_str!("v1/node.rs"),
        include_str!("v1/page.rs"),
        include_str!("v1/part.rs"),
        include_str!("v1/question.rs"),
    ];
    let mut count = 0;
    for source in sources {
        let mut is_body = false;
        for line in source.lines() {
            let line = line.trim_start_matches("pub ");
            if line.starts_with("#[derive(") {
                is_body = line.contains("Serialize");
            } else if let Some(rest) = line.strip_prefix("struct ").or_else(|| line.strip_prefix("enum "))
                && std::mem::take(&mut is_body)
            {
                let name = rest.split([' ', '<', '(', ';']).next().unwrap_or_default();
                assert!(here.contains(name), "{name} travels, and golden.rs has none: freeze its bytes");
                count += 1;
            }
        }
    }
    assert!(count > 60, "only {count} bodies were found");
}
