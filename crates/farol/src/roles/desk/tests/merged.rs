//! Replicas that merged at different times, and shards of the asker's own node.

use super::world::{World, in_shards, pages_of, questions, request, searcher_of, shown};
use crate::handles::index::{IndexAccess, RulesInForce};
use farol_base::query::Answer;
use farol_base::{Document, PagePosition};
use farol_index::{Searcher, Shard, ShardOptions};
use std::time::Duration;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(20);

/// A replica that takes pages in with a commit after each `batch` of them: it merges at other times than others do.
struct Replica {
    shard: Shard,
    dir: TempDir,
    batch: usize,
    changes: usize,
}

impl Replica {
    fn new(batch: usize) -> Replica {
        let dir = tempfile::tempdir().unwrap();
        let options = ShardOptions { writer_memory_bytes: 15_000_000, ..ShardOptions::default() };
        Replica { shard: Shard::open(dir.path(), options).unwrap(), dir, batch, changes: 0 }
    }

    fn take(&mut self, pages: &[Document]) {
        for page in pages {
            self.shard.put(page).unwrap();
            self.changed();
        }
    }

    fn delete(&mut self, pages: &[Document]) {
        for page in pages {
            self.shard.delete(&page.url);
            self.changed();
        }
    }

    fn changed(&mut self) {
        self.changes += 1;
        if self.changes.is_multiple_of(self.batch) {
            self.commit();
        }
    }

    fn commit(&mut self) {
        self.shard.commit(PagePosition { file: 0, offset: self.changes as u64 }).unwrap();
    }
}

/// Everything that people see, and the scores to the last bit.
fn exactly(answer: &Answer) -> Vec<(String, u32, u32)> {
    answer.hits.iter().map(|hit| (hit.url.to_string(), hit.score.to_bits(), hit.duplicates)).collect()
}

#[test]
fn replicas_that_merged_at_different_times_answer_the_same_while_pages_are_deleted() {
    let pages = pages_of(5, 600);
    // The first page of ten is replaced by another text, the second deleted.
    let again: Vec<Document> = pages
        .iter()
        .step_by(10)
        .map(|page| Document { body: format!("{} fog bell fog", page.body), ..page.clone() })
        .collect();
    let gone: Vec<Document> = pages.iter().skip(1).step_by(10).cloned().collect();
    let mut replicas = [Replica::new(7), Replica::new(10_000)];
    for replica in &mut replicas {
        replica.take(&pages);
        replica.commit();
    }
    let segments = |replica: &Replica| {
        let files = std::fs::read_dir(replica.dir.path()).unwrap().flatten();
        files.filter(|file| file.path().extension().is_some_and(|end| end == "term")).count()
    };
    assert_ne!(segments(&replicas[0]), segments(&replicas[1]), "they merged alike, so this proves nothing");
    let steps: [&dyn Fn(&mut Replica); 4] =
        [&|_| {}, &|replica| replica.take(&again), &|replica| replica.delete(&gone[..30]), &|replica| {
            replica.delete(&gone[30..])
        }];
    for (step, change) in steps.iter().enumerate() {
        for replica in &mut replicas {
            change(replica);
            replica.commit();
        }
        let [first, second] = [&replicas[0], &replicas[1]].map(|replica| replica.shard.searcher());
        assert_eq!(first.sizes().documents, second.sizes().documents);
        assert_eq!(
            (first.sizes().tokens, first.sizes().languages),
            (second.sizes().tokens, second.sizes().languages),
            "step {step}"
        );
        // Two fronts, each with the figures and the pages of one replica, and one that has figures from either.
        let served = vec![vec![(1, first.clone()), (2, second.clone())]];
        let world = World::of(LONG, first, served, Vec::new());
        let fronts = [world.front(None), world.front(None), world.front(None)];
        for (front, line) in questions().iter().flat_map(|line| fronts.iter().map(move |front| (front, line)))
        {
            let answer = front.search(&request(line), &RulesInForce::default()).unwrap().0;
            let whole = world.ask_whole(line);
            assert_eq!(exactly(&answer), exactly(&whole), "step {step}: {line}");
            assert_eq!(
                (answer.total, &answer.suggestion),
                (whole.total, &whole.suggestion),
                "step {step}: {line}"
            );
        }
        let asked = world.calls_of_nodes();
        assert!(asked.iter().all(|calls| *calls > 0), "both replicas were asked: {asked:?}");
    }
}

#[test]
fn a_node_asks_its_own_shards_without_a_connection() {
    let world = World::new(LONG);
    let (own, other) = (world.front(Some(2)), world.front(Some(1)));
    // Nobody can be reached any more; node 2 serves both shards, node 1 one of them.
    let lines = &questions()[..10];
    (1..=3).for_each(|node| world.kill(node));
    for line in lines {
        let answer = own.search(&request(line), &RulesInForce::default()).unwrap().0;
        assert_eq!(shown(&answer), shown(&world.ask_whole(line)), "{line}");
        assert!(!answer.shards.unwrap().is_partial());
    }
    let answer = other.search(&request(&lines[0]), &RulesInForce::default()).unwrap().0;
    assert_eq!(answer.shards.unwrap().answered, 1);
}

/// Four shards on one node, and the same pages in one index.
pub fn four_on_one(count: u64) -> (World, Vec<Document>) {
    let pages = pages_of(7, count);
    let (whole, dir) = searcher_of(&pages);
    let mut dirs = vec![dir];
    let served = in_shards(&pages, 4)
        .iter()
        .map(|own| {
            let (searcher, dir): (Searcher, TempDir) = searcher_of(own);
            dirs.push(dir);
            vec![(1, searcher)]
        })
        .collect();
    (World::of(LONG, whole, served, dirs), pages)
}
