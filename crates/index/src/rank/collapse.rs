//! Collapses the third page of a host and those after it (host collapsing).
//!
//! INVARIANT: the list for a question is the same whichever part of it is asked for.

use super::{Ranked, ScoredCandidate};
use farol_base::HostHash;
use std::collections::HashMap;

/// Hits of one host in an answer; the others are collapsed into them.
const HITS_PER_HOST: u32 = 2;

/// Collapses a list; by host only where `by_host` says so and more than one host answers.
pub(crate) fn collapse(scored: Vec<ScoredCandidate>, by_host: bool) -> Vec<Ranked> {
    let several_hosts = scored.windows(2).any(|pair| pair[0].host != pair[1].host);
    let hits_per_host = if by_host && several_hosts { HITS_PER_HOST } else { u32::MAX };
    let mut list: Vec<Ranked> = Vec::new();
    let mut hosts: HashMap<HostHash, Vec<usize>> = HashMap::new();
    for page in scored {
        let of_host = hosts.entry(page.host).or_default();
        if of_host.len() as u32 >= hits_per_host {
            of_host.iter().for_each(|at| list[*at].more_from_host = true);
            continue;
        }
        let at = list.len();
        of_host.push(at);
        let ScoredCandidate { candidate, score, duplicates, .. } = page;
        list.push(Ranked { at: candidate.at, score, duplicates, more_from_host: false });
    }
    list
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
    fn a_host_has_two_hits_unless_asked_for() {
        let mut pages: Vec<Document> = (0..5).map(|path| lighthouse("a", path)).collect();
        let alone = TestShard::new(&pages);
        assert_eq!(alone.ask("lighthouse").hits.len(), 5); // The only host of an index is not collapsed.
        pages.push(lighthouse("b", 9));
        let shard = TestShard::new(&pages);
        let answer = shard.ask("lighthouse");
        assert_eq!((answer.total, answer.hits.len()), (6, 3));
        assert!(answer.hits.iter().all(|hit| hit.more_from_host == (hit.url.host_str() == "http://a")));
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
        assert_eq!((whole.hits.len(), whole.more), (50, false));
        let mut joined = Vec::new();
        for first in (0..60).step_by(7) {
            let answer = part(&searcher, first, 7);
            assert_eq!(answer.more, first + 7 < 50);
            joined.extend(paths(&answer));
        }
        assert_eq!(joined, paths(&whole));
        assert!(part(&searcher, usize::MAX, usize::MAX).hits.is_empty());
    }
}
