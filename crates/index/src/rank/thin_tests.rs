//! Copies and hosts thinned, seen through a whole shard; how it is done is in [`farol_query::thin`].

use crate::testing::{TestShard, page, page_in, paths, query};
use crate::{NoRanks, Ranks, Searcher};
use farol_base::query::{Filters, Request};
use farol_base::{CanonicalUrl, Document, Language, Languages, PageId};

fn lighthouse(host: &str, path: usize) -> Document {
    page(&format!("http://{host}/{path}"), &format!("Lighthouse {path}"), &format!("the light {path}"))
}

#[test]
fn copies_are_counted_and_left_out() {
    let first = lighthouse("a", 1);
    let exact = Document { content_hash: first.content_hash, ..lighthouse("b", 2) };
    let near = Document { simhash: first.simhash ^ 0b1011, ..lighthouse("c", 3) };
    let other = Document { simhash: first.simhash ^ 0b1111, ..lighthouse("d", 4) };
    let shard = TestShard::new(&[first, exact, near, other]);
    let answer = shard.ask("lighthouse");
    assert_eq!((answer.total, answer.hits.len()), (2, 2)); // What can be reached is counted.
    assert_eq!(answer.hits.iter().map(|hit| hit.duplicates).sum::<u32>(), 2);
}

#[test]
fn pages_without_text_are_no_copies() {
    let empty = |path| Document { simhash: 0, content_hash: Default::default(), ..lighthouse("a", path) };
    let shard = TestShard::new(&[empty(1), empty(2)]);
    assert_eq!(shard.ask("lighthouse").hits.len(), 2);
}

/// One page has a link rank.
struct OneRank(PageId);

impl Ranks for OneRank {
    fn page(&self, page: PageId) -> f32 {
        if page == self.0 { 0.5 } else { 0.0 }
    }

    fn host(&self, _: &str) -> f32 {
        0.0
    }
}

#[test]
fn the_copy_shown_is_in_the_readers_language_then_well_linked_then_short() {
    let copies = [
        page_in("es", "http://a/largo/camino", "Ajuda", "print configuration"),
        page_in("pt", "http://b/caminho/longo", "Ajuda", "print configuration"),
        page_in("pt", "http://c/curto", "Ajuda", "print configuration"),
        page_in("en", "http://d/e", "Ajuda", "print configuration"),
    ];
    let copies = copies.map(|copy| Document { content_hash: Default::default(), simhash: 77, ..copy });
    let shard = TestShard::new(&copies);
    let check = |codes: &[&str], ranks: &dyn Ranks, want: &str| {
        let languages: Languages = codes.iter().filter_map(|code| Language::parse(code)).collect();
        let query = query("configuration", Filters::default());
        let request = Request { query, first: 0, count: 10, languages };
        let answer = shard.searcher().search(&request, ranks).unwrap();
        assert_eq!((paths(&answer), answer.hits[0].duplicates), (vec![want.to_string()], 3), "{codes:?}");
    };
    check(&["es", "en"], &NoRanks, "/largo/camino");
    check(&["gl", "en"], &NoRanks, "/e");
    check(&["pt"], &NoRanks, "/curto");
    check(&[], &NoRanks, "/e");
    let linked = OneRank(CanonicalUrl::parse("http://b/caminho/longo").unwrap().id());
    check(&["pt"], &linked, "/caminho/longo");
    check(&["es"], &linked, "/largo/camino");
}

#[test]
fn other_hosts_come_before_the_third_page_of_one() {
    let mut pages: Vec<Document> = (0..5).map(|path| lighthouse("a", path)).collect();
    let alone = TestShard::new(&pages);
    assert_eq!(alone.ask("lighthouse").hits.len(), 5); // The only host of an index is not collapsed.
    pages.push(lighthouse("b", 9));
    let shard = TestShard::new(&pages);
    let answer = shard.ask("light");
    assert_eq!((answer.total, answer.hits.len()), (6, 6));
    let hosts: Vec<&str> = answer.hits.iter().map(|hit| hit.url.host_str()).collect();
    let first = hosts.iter().position(|host| *host == "http://b").unwrap();
    assert!(first < 3, "{hosts:?}");
    assert_eq!(hosts[3..], ["http://a"; 3]);
    let request = Request {
        query: query("light", Filters::default()),
        first: 0,
        count: 10,
        languages: Default::default(),
    };
    let one = shard.searcher().with_hits_per_host(1).search(&request, &NoRanks).unwrap();
    assert!(one.hits[..2].iter().any(|hit| hit.url.host_str() == "http://b"));
    let filters = Filters { sites: vec!["a".into()], ..Filters::default() };
    assert_eq!(shard.ask_filtered("lighthouse", filters).hits.len(), 5);
}

#[test]
fn pages_of_an_answer_join_without_a_seam() {
    let pages: Vec<Document> = (0..60).map(|path| lighthouse(&format!("h{}", path % 25), path)).collect();
    let shard = TestShard::new(&pages);
    let part = |searcher: &Searcher, first, count| {
        let request = Request {
            query: query("lighthouse", Filters::default()),
            first,
            count,
            languages: Default::default(),
        };
        searcher.search(&request, &NoRanks).unwrap()
    };
    let searcher = shard.searcher();
    let whole = part(&searcher, 0, usize::MAX);
    assert_eq!((whole.hits.len(), whole.total, whole.more), (60, 60, false));
    let mut joined = Vec::new();
    for first in (0..60).step_by(7) {
        let answer = part(&searcher, first, 7);
        assert_eq!((answer.total, answer.more), (60, first + 7 < 60));
        joined.extend(paths(&answer));
    }
    assert_eq!(joined, paths(&whole));
    assert!(part(&searcher, usize::MAX, usize::MAX).hits.is_empty());
}
