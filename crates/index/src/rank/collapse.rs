//! Has the third page of a host wait until other hosts are used up (host crowding).
//!
//! INVARIANT: the list for a question is the same whichever part of it is asked for.

use super::{Band, Ranked, ScoredCandidate};
use farol_base::HostHash;
use std::collections::{HashMap, HashSet};

/// Shares places out among hosts: in each band the first `hits_per_host` pages of every host come before the others, in their order;
/// 0 leaves the order as it is.
pub(crate) fn collapse(scored: Vec<ScoredCandidate>, hits_per_host: usize) -> Vec<Ranked> {
    let hits_per_host = if hits_per_host == 0 { usize::MAX } else { hits_per_host };
    let mut list: Vec<Ranked> = Vec::new();
    // Beside each hit: its host, its band, and whether it is one too many of that host.
    let mut places: Vec<(HostHash, Band, bool)> = Vec::new();
    let mut hosts: HashMap<HostHash, usize> = HashMap::new();
    for page in scored {
        let of_host = hosts.entry(page.host).or_default();
        *of_host += 1;
        places.push((page.host, page.band, *of_host > hits_per_host));
        let ScoredCandidate { candidate, score, duplicates, .. } = page;
        list.push(Ranked { at: candidate.at, score, duplicates, more_from_host: false });
    }
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|at| (places[*at].1, places[*at].2)); // Stable.
    let moved: HashSet<HostHash> =
        order.iter().enumerate().filter(|(to, from)| to > from).map(|(_, from)| places[*from].0).collect();
    order
        .into_iter()
        .map(|at| {
            let (host, _, crowds) = places[at];
            Ranked { more_from_host: !crowds && moved.contains(&host), ..list[at].clone() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestShard, page, paths, query};
    use crate::{NoRanks, Searcher};
    use farol_base::Document;
    use farol_base::query::{Filters, Request};

    fn lighthouse(host: &str, path: usize) -> Document {
        page(&format!("http://{host}/{path}"), &format!("Lighthouse {path}"), &format!("the light {path}"))
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
}
