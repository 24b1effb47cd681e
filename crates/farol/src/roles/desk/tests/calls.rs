//! Each verb, and bytes that are none.

use super::world::{World, questions, request, shown};
use crate::broker;
use crate::handles::cluster::ClusterView;
use crate::handles::index::{IndexAccess, RulesInForce};
use crate::handles::sender::SendProgress;
use crate::wire::v1::node::ShardHead;
use crate::wire::v1::part::WireSizes;
use crate::wire::v1::verb;
use crate::wire::values::WireDocument;
use bytes::Bytes;
use farol_base::disk::Mem;
use farol_base::{CanonicalUrl, PagePosition, Random, Seeded, Timestamp};
use farol_cluster::{NodeId, NodeNo, ReplicaEntry, ReplicaState, ShardMap};
use farol_fabric::Topic;
use farol_index::{Pins, SearchRules, Synonyms};
use farol_rpc::CallError;
use farol_store::pages::{Archive, ArchiveOptions, Exchange, encode};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

#[test]
fn an_answer_of_two_shards_is_that_of_one_index() {
    let world = World::new(LONG);
    let mut found = 0;
    for line in questions() {
        let (answer, whole) = (world.ask(&line).unwrap(), world.ask_whole(&line));
        assert_eq!(shown(&answer), shown(&whole), "{line}");
        assert_eq!((answer.total, answer.more), (whole.total, whole.more), "{line}");
        assert_eq!(answer.corrected, whole.corrected, "{line}");
        assert_eq!(answer.suggestion, whole.suggestion, "{line}");
        assert!(!answer.shards.unwrap().is_partial());
        found += usize::from(!answer.hits.is_empty());
    }
    assert!(found > 50, "{found} of {} questions have an answer", questions().len());
    let second = farol_base::query::Request { first: 10, ..request("lighthouse storm") };
    let (next, _) = world.index.search(&second, &RulesInForce::default()).unwrap();
    let whole = world.whole.search(&second, &farol_index::NoRanks).unwrap();
    assert_eq!(shown(&next), shown(&whole));
}

#[test]
fn the_operators_rules_travel_with_the_question() {
    let world = World::new(LONG);
    let page = &world.ask_whole("chart pilot").hits[5].url.clone();
    let texts = ("beacon, lighthouse\n".to_string(), format!("storm => {page}\n"));
    let rules =
        SearchRules { synonyms: Synonyms::parse(&texts.0).unwrap(), pins: Pins::parse(&texts.1).unwrap() };
    let rules = RulesInForce { rules: Arc::new(rules), texts: Arc::new(texts), version: 1 };
    for line in ["beacon", "storm"] {
        let (answer, _) = world.index.search(&request(line), &rules).unwrap();
        let whole = world.whole.search_by(&request(line), &rules.rules, &farol_index::NoRanks).unwrap();
        assert!(!whole.hits.is_empty());
        assert_eq!(shown(&answer), shown(&whole), "{line}");
        assert_eq!(answer.hits[0].pinned, line == "storm");
    }
    assert!(world.ask("beacon").unwrap().hits.is_empty(), "without the rules nobody knows the word");
}

#[test]
fn pages_hosts_twins_and_completions_come_from_all_shards() {
    let world = World::new(LONG);
    let index = &world.index;
    let url =
        |number: u64| CanonicalUrl::parse(&format!("http://h{}.example/p/{number}", number % 37)).unwrap();
    for number in [0, 1, 2, 3, 399] {
        let document = index.document(&url(number)).unwrap().unwrap();
        let whole = world.whole.document(&url(number)).unwrap().unwrap();
        assert_eq!(WireDocument::from(&document), WireDocument::from(&whole));
    }
    assert!(index.document(&CanonicalUrl::parse("http://h0.example/none").unwrap()).unwrap().is_none());
    let page = index.document(&url(19)).unwrap().unwrap();
    assert_eq!(index.twins(&page, 5).unwrap(), [url(18)]);
    let host = url(0).host();
    assert_eq!(index.pages_of_host(&host), world.whole.pages_of_host(&host).unwrap() as u64);
    let mut completions = index.suggest("li", 3);
    // In fifty milliseconds a busy machine may not have heard all.
    for _ in 0..100 {
        if completions == world.whole.suggest("li", 3) {
            break;
        }
        completions = index.suggest("li", 3);
    }
    assert_eq!(completions, world.whole.suggest("li", 3));
    let summary = index.summary();
    assert_eq!((summary.documents, summary.trouble.as_str()), (world.whole.documents(), ""));
    assert_eq!(summary.languages, world.whole.languages());
}

#[test]
fn the_state_of_an_answer_is_that_of_the_tables() {
    let world = World::new(LONG);
    let state = |world: &World| world.index.search(&request("storm"), &RulesInForce::default()).unwrap().1;
    assert_eq!((world.index.state(), state(&world)), (1, 1));
    world.change(|table| table.state = 2);
    assert_eq!((world.index.state(), state(&world)), (2, 2));
}

#[test]
fn without_a_map_it_is_said_that_there_is_none() {
    let world = World::new(LONG);
    world.change(|table| table.shards.clear());
    assert!(world.ask("storm").unwrap_err().contains("has no shards yet"));
    assert!(world.index.document(&CanonicalUrl::parse("http://a/").unwrap()).is_err());
    assert_eq!(world.index.suggest("st", 3), Vec::<String>::new());
}

#[test]
fn copies_come_from_the_agent_that_has_the_page() {
    let world = World::new(LONG);
    let url = |text: &str| CanonicalUrl::parse(text).unwrap();
    let mut positions = Vec::new();
    for (desk, text) in world.desks.iter().zip(["http://a/1", "http://b/22"]) {
        let (mut archive, _) = Archive::open(Arc::new(Mem::new()), ArchiveOptions::default()).unwrap();
        let head =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Robots-Tag: none\r\nContent-Length: 4\r\n\r\n";
        let exchange = Exchange {
            url: url(text),
            fetched: Timestamp::from_secs(7),
            address: None,
            status: 200,
            request_head: Vec::new(),
            response_head: head.to_vec(),
            body: Bytes::from_static(b"body"),
            truncated: None,
            protocol: "http/1.1".to_string(),
            revisit_of: None,
            metadata: Vec::new(),
        };
        positions.extend(archive.append(&[encode(&exchange, &mut Seeded::new(1), 1)]).unwrap());
        archive.sync().unwrap();
        desk.open_archive(archive.reader());
    }
    // Both are at the beginning of their archives: the address tells which is meant.
    for (text, at) in ["http://a/1", "http://b/22"].into_iter().zip(&positions) {
        let copy = world.index.copy(&url(text), *at).unwrap().unwrap();
        assert_eq!((copy.url.as_str(), &copy.body[..], copy.status), (text, b"body".as_slice(), 200));
        assert_eq!(copy.header("x-robots-tag").unwrap(), "none");
    }
    assert_eq!(world.index.copy(&url("http://c/3"), positions[0]).unwrap().map(|copy| copy.url), None);
    world.kill(1);
    assert!(world.index.copy(&url("http://a/1"), positions[0]).unwrap_err().contains("does not answer"));
    assert!(world.index.copy(&url("http://b/22"), positions[1]).unwrap().is_some());
}

#[test]
fn orders_reach_the_node_that_is_meant() {
    let world = World::new(LONG);
    let health = broker::health(&world.caller, &world.peer(2)).unwrap();
    assert_eq!((health.shards, health.draining, health.map), (vec![0, 1], false, 0));
    assert_eq!(health.program, env!("CARGO_PKG_VERSION"));
    for _ in 0..2 {
        world.caller.call::<_, ()>(&world.peer(2), verb::DRAIN, &(), Instant::now() + LONG).unwrap();
    }
    let draining: Vec<bool> = world.boards.iter().map(|cluster| cluster.is_to_drain()).collect();
    assert_eq!(draining, [false, true, false]);
    assert!(broker::health(&world.caller, &world.peer(2)).unwrap().draining);

    let (table, sender) = (world.table_source(), Arc::new(SendProgress::default()));
    let ask_again = broker::ask_again(table, world.caller.clone());
    let from = PagePosition { file: 1, offset: 300 };
    // Nobody sends anything there yet, nor is there a node 9: it is told in the log.
    ask_again(NodeNo(3), Topic::Docs(1), from);
    ask_again(NodeNo(9), Topic::Docs(1), from);
    world.desks[2].open_sender(sender.clone());
    ask_again(NodeNo(3), Topic::Docs(1), from);
    ask_again(NodeNo(3), Topic::Docs(1), PagePosition { file: 0, offset: 7 });
    let wanted: Vec<_> = sender.take_wanted().into_iter().collect();
    assert_eq!(wanted, [(Topic::Docs(1), PagePosition { file: 0, offset: 7 })]);
}

#[test]
fn a_node_that_was_started_again_sends_questions_elsewhere_until_its_replicas_are_open() {
    let world = World::new(LONG);
    let ask = |shard| {
        let head = ShardHead { map: 9, shard };
        world.caller.call::<_, WireSizes>(&world.peer(1), verb::SIZES, &head, Instant::now() + LONG)
    };
    // It has not read the tables yet.
    assert!(matches!(ask(7), Err(CallError::Busy(why)) if why.contains("shard 7 is being opened here")));
    // It has, and they give it the shard, or do not.
    let mut map = ShardMap::new(9, 1);
    map.shards[7].replicas.push(ReplicaEntry { node: NodeId(1), state: ReplicaState::Serving });
    world.boards[0].set(ClusterView { shards: Some(Arc::new(map)), ..ClusterView::new(NodeId(1)) });
    assert!(matches!(ask(7), Err(CallError::Busy(_))));
    assert!(matches!(ask(8), Err(CallError::Refused(_))));
    assert!(ask(0).is_ok());
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    let world = World::new(LONG);
    let deadline = || Instant::now() + LONG;
    let call = |verb: &str, body: Vec<u8>| {
        let (client, peer) = (world.caller.client(), world.peer(1));
        world.caller.block_on(client.call_bytes(&peer, verb, Bytes::from(body), deadline(), None))
    };
    let head = ShardHead { map: 9, shard: 7 };
    let map = ShardMap::new(2, 2);
    world.boards[0].set(ClusterView { shards: Some(Arc::new(map)), ..ClusterView::new(NodeId(1)) });
    let elsewhere = world.caller.call::<_, WireSizes>(&world.peer(1), verb::SIZES, &head, deadline());
    assert!(
        matches!(&elsewhere, Err(CallError::Refused(why)) if why.contains("shard 7 is not here") && why.contains("the caller 9")),
        "{elsewhere:?}"
    );
    assert!(matches!(call("fly", vec![]), Err(CallError::Refused(why)) if why.contains("no verb \"fly\"")));
    let verbs = [
        verb::SIZES,
        verb::COUNT,
        verb::SEARCH,
        verb::SHOW,
        verb::SUGGEST,
        verb::DOCUMENT,
        verb::TWINS,
        verb::PAGES_OF_HOST,
        verb::HEALTH,
        verb::DRAIN,
        verb::RESEND,
        verb::COPY,
    ];
    let mut random = Seeded::new(1);
    for verb in verbs {
        for length in 0..60 {
            let bytes: Vec<u8> = (0..length + 40).map(|_| random.next_u64() as u8 | 0x80).collect();
            let answer = call(verb, bytes);
            assert!(matches!(answer, Err(CallError::Refused(_))), "{verb}: {answer:?}");
        }
    }
    assert!(!world.boards[0].is_to_drain());
    assert_eq!(shown(&world.ask("storm").unwrap()), shown(&world.ask_whole("storm")), "it goes on answering");
}
