//! Searches for which nobody waits any more.

use super::world::{World, pages_of, searcher_of};
use crate::wire::v1::node::ShardHead;
use crate::wire::v1::part::{
    CountRequest, SearchRequest, WireAsking, WireCounts, WireFigures, WirePart, WireSizes,
};
use crate::wire::v1::question::WireQuery;
use crate::wire::v1::verb;
use farol_base::query::Query;
use farol_query::parts::{Counts, Figures, Sizes};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// The pages of a question that is not stopped: sixty-four words, each on most pages.
const PAGES: u64 = 6_000;

#[test]
fn a_search_whose_call_is_dropped_ends_early() {
    let (searcher, dir) = searcher_of(&pages_of(3, PAGES));
    let world = World::of(LONG, searcher.clone(), vec![vec![(1, searcher)]], vec![dir]);
    let line: Vec<String> = super::world::questions().into_iter().take(24).collect();
    // One of the words is on no page, so that pages that lack words are looked for, and all the others are ranked.
    let query: Query =
        farol_query::read(&format!("{} nowhere -\"storm bell rope tide\"", line.join(" "))).query;
    let head = ShardHead { map: 4, shard: 0 };
    let (peer, wire) = (world.peer(1), WireQuery::from(&query));
    let sizes: WireSizes = world.caller.call(&peer, verb::SIZES, &head, Instant::now() + LONG).unwrap();
    let count = CountRequest {
        head,
        query: wire.clone(),
        languages: Vec::new(),
        sizes: sizes.clone(),
        synonyms: String::new(),
    };
    let counts: WireCounts = world.caller.call(&peer, verb::COUNT, &count, Instant::now() + LONG).unwrap();
    let figures = Figures { sizes: Sizes::try_from(sizes).unwrap(), counts: Counts::from(counts), shards: 1 };
    let search = SearchRequest {
        head,
        query: wire,
        languages: Vec::new(),
        asking: WireAsking::AsTyped,
        figures: WireFigures::from(&figures),
        synonyms: String::new(),
        pins: Vec::new(),
    };
    let begun = Instant::now();
    let part: WirePart = world.caller.call(&peer, verb::SEARCH, &search, begun + LONG).unwrap();
    let whole = begun.elapsed();
    assert!(!part.cands.is_empty());
    let given_up = || world.desks[0].given_up();
    assert_eq!(given_up(), (0, 0));
    // As a hedge that lost: the call is dropped while the search is at work. How long that takes to be noticed depends on
    // what else the machine does, so it is tried with several times.
    let client = world.caller.client().clone();
    for share in (1..=40).cycle().take(400) {
        let patience = whole * share / 50;
        let call = client.call::<_, WirePart>(&peer, verb::SEARCH, &search, Instant::now() + LONG);
        let _ = world.caller.block_on(async { tokio::time::timeout(patience, call).await });
        let until = Instant::now() + LONG;
        while world.load(1) != (0, 0) {
            assert!(Instant::now() < until, "a search that nobody waits for is still at work");
            std::thread::sleep(Duration::from_millis(1));
        }
        if given_up().1 > 0 {
            break;
        }
    }
    let (searches, pages) = given_up();
    let all = 20 * PAGES;
    assert!(searches > 0 && pages > 0, "no search was given up");
    assert!(pages < searches * all, "{pages} pages in {searches} searches, {all} are there to be looked at");
    // By its deadline it ends, too.
    for share in (1..=40).cycle().take(400) {
        let _ = world.caller.call::<_, WirePart>(
            &peer,
            verb::SEARCH,
            &search,
            Instant::now() + whole * share / 50,
        );
        let until = Instant::now() + LONG;
        while world.load(1) != (0, 0) {
            assert!(Instant::now() < until, "a search beyond its deadline is still at work");
            std::thread::sleep(Duration::from_millis(1));
        }
        if given_up().0 > searches {
            break;
        }
    }
    assert!(given_up().0 > searches);
    let text = world.desks[0].metrics_text();
    assert!(text.contains(&format!("farol_index_given_up_total {}\n", given_up().0)), "{text}");
}
