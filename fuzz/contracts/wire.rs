//! Any bytes as the body of a call between nodes, the first byte says of which.
//!
//! Contract: a body is refused, or read; what was read is written as something that reads the same; what means nothing
//! is refused before it is used; and no part of an answer, whoever made it, breaks those of the other shards.

#[allow(dead_code)]
#[path = "../../crates/farol/src/wire/mod.rs"]
pub mod protocol;
#[path = "cache.rs"]
mod cache;

use farol_base::query::{Hit, Query};
use farol_base::{CanonicalUrl, Document, Timestamp};
use farol_partition::Agent;
use farol_partition::replan::{Atlas, Bounds, HostFacts, Replanner, Report, Settings, Trigger};
use farol_query::parts::{Counts, Figures, Part, Sizes, merge};
use farol_query::spell;
use serde::Serialize;
use serde::de::DeserializeOwned;
use protocol::graph::{WireAtlas, WireGraphReport, read_memory};
use protocol::v1::node::{
    CopyRequest, DocumentRequest, Health, HostPagesRequest, Resend, ShardHead, SuggestRequest, TwinsRequest,
    WireCompletion, WireCopy,
};
use protocol::v1::part::{CountRequest, SearchRequest, ShowRequest, WireCounts, WirePart, WireSizes};
use protocol::v1::question::{WireHit, WireQuery};
use protocol::values::WireDocument;

pub fn check(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else { return };
    match kind % 20 {
        0 => drop(read::<Health>(body)),
        1 => drop(read::<Resend>(body)),
        2 => drop(read::<CopyRequest>(body)),
        3 => copy(body),
        4 => drop(read::<ShardHead>(body)),
        5 => drop(read::<DocumentRequest>(body)),
        6 => drop(read::<TwinsRequest>(body).map(|request| Document::try_from(request.page))),
        7 => drop(read::<HostPagesRequest>(body)),
        8 => drop(read::<SuggestRequest>(body)),
        9 => drop(read::<Vec<WireCompletion>>(body)),
        10 => count(body),
        11 => search(body),
        12 => drop(read::<ShowRequest>(body).map(|request| (query(request.query), Figures::try_from(request.figures)))),
        13 => sizes(body),
        14 => counts(body),
        15 => part(body),
        16 => drop(read::<Vec<Option<WireHit>>>(body).map(|hits| {
            hits.into_iter().flatten().map(Hit::try_from).filter(Result::is_ok).count()
        })),
        17 => drop(read::<Option<WireDocument>>(body).map(|document| document.map(Document::try_from))),
        18 => cache::check(body),
        _ => graph(body),
    }
}

/// What an agent tells the planner: whatever it is, a plan can be made of it, and other agents' hosts stay theirs.
fn graph(body: &[u8]) {
    if let Some(atlas) = read::<WireAtlas>(body) {
        let _ = Atlas::restore(Bounds::default(), read_memory(atlas, Vec::new()));
    }
    let Some(told) = read::<WireGraphReport>(body) else { return };
    let now = Timestamp::from_secs(1_700_000_000);
    let mut planner = Replanner::new(Settings::default()).expect("there are no rules");
    planner.set_agents(["1", "2"].map(Agent::named).to_vec());
    let own = HostFacts {
        host: "http://a.test".into(),
        address: [10, 0, 0, 1].into(),
        pages: 5,
        rtt: None,
        position: None,
        language: None,
        links: Vec::new(),
    };
    let honest = Report { agent: "1".into(), number: 1, hosts: vec![own], ..Report::default() };
    assert_eq!(planner.take(now, &honest).taken, 1);
    let receipt = planner.take(now, &WireGraphReport { agent: 2, ..told }.read());
    assert!(receipt.taken <= planner.atlas().hosts().len());
    planner.job_for(now, Trigger::Ordered).run().expect("two agents are enough");
}

/// Reads a body as calls do, all of it.
fn read<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes::<T>(bytes).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let written = postcard::to_stdvec(&value).expect("what was read can be written");
    let again: T = postcard::from_bytes(&written).expect("what was written can be read");
    assert_eq!(postcard::to_stdvec(&again).expect("it was written before"), written);
    Some(value)
}

fn query(wire: WireQuery) -> Option<Query> {
    let query = Query::try_from(wire.clone()).ok()?;
    assert_eq!(Query::try_from(WireQuery::from(&query)).ok().as_ref(), Some(&query));
    Some(query)
}

fn copy(body: &[u8]) {
    let Some(Some(copy)) = read::<Option<WireCopy>>(body) else { return };
    let Ok(url) = CanonicalUrl::parse(&copy.url) else {
        let other = CanonicalUrl::parse("http://a/").expect("it is one");
        assert!(copy.read(&other).is_err());
        return;
    };
    assert_eq!(copy.read(&url).expect("it is that page").url, url);
}

fn count(body: &[u8]) {
    let Some(request) = read::<CountRequest>(body) else { return };
    let _ = (query(request.query), Sizes::try_from(request.sizes));
}

fn search(body: &[u8]) {
    let Some(request) = read::<SearchRequest>(body) else { return };
    let _ = (query(request.query), Figures::try_from(request.figures));
}

fn sizes(body: &[u8]) {
    let Some(Ok(sizes)) = read::<WireSizes>(body).map(Sizes::try_from) else { return };
    let sum = Sizes::sum([&sizes; 3]);
    assert!(sum.documents >= sizes.documents);
}

fn counts(body: &[u8]) {
    let Some(counts) = read::<WireCounts>(body).map(Counts::from) else { return };
    let sum = Counts::sum([counts.clone(), counts.clone()]);
    for word in counts.words() {
        assert_eq!(sum.pages(word.field, &word.text), 2 * word.pages);
    }
}

fn part(body: &[u8]) {
    let Some(Ok(part)) = read::<WirePart>(body).map(Part::try_from) else { return };
    let parts = [part.clone(), Part::default(), part];
    let places = merge(&parts, &Query::default(), 2);
    assert!(places.iter().all(|place| place.part < parts.len()));
    let _ = (spell::corrected(&parts), spell::suggested(&parts));
}
