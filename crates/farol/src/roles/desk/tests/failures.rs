//! Nodes that die, hang and forget while questions are asked.

use super::world::{World, questions, shown};
use crate::wire::v1::question::WireHit;
use crate::wire::v1::verb;
use bytes::Bytes;
use farol_base::query::Answer;
use farol_rpc::{BoxFuture, CallContext, Handler, RpcError, decode, encode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Takes every call and answers none: so looks a stopped process, once its connections stand.
#[derive(Default)]
struct Hanging(AtomicUsize);

impl Handler for Hanging {
    fn call<'a>(&'a self, _: &'a str, _: Bytes, _: CallContext) -> BoxFuture<'a, Result<Bytes, RpcError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

/// Has lost pages since it named them.
struct Forgetful(Arc<dyn Handler>, Vec<String>);

impl Handler for Forgetful {
    fn call<'a>(
        &'a self,
        verb: &'a str,
        body: Bytes,
        context: CallContext,
    ) -> BoxFuture<'a, Result<Bytes, RpcError>> {
        Box::pin(async move {
            let answer = self.0.call(verb, body, context).await?;
            if verb != verb::SHOW {
                return Ok(answer);
            }
            let mut hits: Vec<Option<WireHit>> = decode(&answer)?;
            for hit in &mut hits {
                hit.take_if(|hit| self.1.contains(&hit.url));
            }
            Ok(encode(&hits)?)
        })
    }
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_node_that_dies_under_load_fails_no_question() {
    let world = World::new(LONG);
    let (asked, whole) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (world, asked, whole) = (&world, &asked, &whole);
            scope.spawn(move || {
                for line in questions().iter().cycle().skip(thread * 7).take(60) {
                    let answer = world.ask(line).unwrap();
                    assert_eq!(shown(&answer), shown(&world.ask_whole(line)), "{line}");
                    let shards = answer.shards.unwrap();
                    whole.fetch_add(usize::from(!shards.is_partial()), Ordering::SeqCst);
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while asked.load(Ordering::SeqCst) < 60 {
            std::thread::yield_now();
        }
        // It serves both shards.
        world.kill(2);
    });
    assert_eq!((asked.into_inner(), whole.into_inner()), (240, 240));
}

#[test]
fn a_node_that_hangs_fails_no_question_and_costs_few_hedges() {
    let world = World::new(Duration::from_secs(4));
    let lines = questions();
    for line in &lines {
        world.ask(line).unwrap();
    }
    let hanging = Arc::new(Hanging::default());
    world.serve(2, hanging.clone());
    let mut times = Vec::new();
    for line in lines.iter().cycle().take(200) {
        let begun = Instant::now();
        let answer = world.ask(line).unwrap();
        times.push(begun.elapsed());
        assert!(!answer.shards.unwrap().is_partial(), "{line}: {:?}", times.last());
        assert_eq!(shown(&answer), shown(&world.ask_whole(line)), "{line}");
    }
    times.sort();
    println!(
        "median {:?}, slowest {:?}; {} calls hung",
        times[100],
        times[199],
        hanging.0.load(Ordering::SeqCst)
    );
    // Of some 900 calls an even share would be 450.
    assert!((1..60).contains(&hanging.0.load(Ordering::SeqCst)), "{:?}", hanging.0);
    let text = world.index.metrics_text();
    let number = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    let (asks, hedges) = (number("farol_broker_asks_total"), number("farol_broker_hedges_total"));
    assert!(hedges > 0 && hedges * 20 <= asks, "{hedges} hedges of {asks} asks");
    assert_eq!(number("farol_broker_partial_total"), 0);
}

#[test]
fn a_shard_that_is_gone_leaves_a_partial_answer_and_none_an_error() {
    let world = World::new(LONG);
    let line = "lighthouse";
    world.ask(line).unwrap();
    world.kill(1);
    world.kill(2);
    let answer = world.ask(line).unwrap();
    let shards = answer.shards.unwrap();
    assert_eq!((shards.total, shards.answered), (2, 1));
    assert!(!answer.hits.is_empty());
    assert!(answer.hits.iter().all(|hit| hit.url.id().0 > u64::MAX / 2), "they are of the other shard");
    // Words that were never asked for: half of the counts are missing too.
    assert!(world.ask("rope anchor signal").unwrap().shards.unwrap().is_partial());
    let text = world.index.metrics_text();
    assert!(text.contains("farol_broker_partial_total 2\n"), "{text}");
    assert!(text.contains("farol_broker_replica_passed_over{node=\"node1\"} 1\n"), "{text}");
    assert!(text.contains("farol_broker_replica_passed_over{node=\"node3\"} 0\n"), "{text}");
    world.kill(3);
    let error = world.ask(line).unwrap_err();
    assert!(error.contains("no shard of the index answers (node node"), "{error}");
    // It is back, elsewhere.
    (1..=3).for_each(|node| world.serve(node, world.desks[node as usize - 1].clone()));
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(shown(&world.ask(line).unwrap()), shown(&world.ask_whole(line)));
}

#[test]
fn a_shard_that_hangs_costs_no_page_of_the_other() {
    let world = World::new(Duration::from_secs(4));
    world.change(|table| table.shards[1].replicas.retain(|(replica, _)| replica.0 == 3));
    let of_the_other = |answer: &Answer| -> Vec<String> {
        let urls = answer.hits.iter().filter(|hit| hit.url.id().0 > u64::MAX / 2);
        urls.map(|hit| hit.url.to_string()).collect()
    };
    (1..=2).for_each(|node| world.serve(node, Arc::new(Hanging::default())));
    // Neither words nor sizes were ever asked for: all figures are those of the shard that answers.
    for line in ["lighthouse", "storm lamp"] {
        let answer = world.ask(line).unwrap();
        let shards = answer.shards.unwrap();
        assert_eq!((shards.total, shards.answered), (2, 1), "{line}");
        assert_eq!(answer.hits.len(), 10, "{line}");
        assert_eq!(of_the_other(&answer).len(), 10, "{line}");
        let found = of_the_other(&world.ask_whole(line));
        assert!(!found.is_empty() && found.iter().all(|url| of_the_other(&answer).contains(url)), "{line}");
    }
}

#[test]
fn no_word_is_called_misspelt_while_a_shard_that_may_have_it_is_silent() {
    let world = World::new(Duration::from_secs(4));
    world.change(|table| table.shards[1].replicas.retain(|(replica, _)| replica.0 == 3));
    (1..=2).for_each(|node| world.serve(node, Arc::new(Hanging::default())));
    let answer = world.ask("lighthuose").unwrap();
    assert_eq!((answer.corrected, answer.suggestion), (None, None));
    assert!(answer.shards.unwrap().is_partial());
    assert!(world.ask_whole("lighthuose").corrected.is_some());
}

#[test]
fn where_all_nodes_hang_the_deadline_ends_the_question() {
    let world = World::new(Duration::from_millis(300));
    (1..=3).for_each(|node| world.serve(node, Arc::new(Hanging::default())));
    let begun = Instant::now();
    assert!(world.ask("lighthouse").unwrap_err().contains("no shard"));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_page_that_is_gone_meanwhile_is_followed_by_the_next() {
    let world = World::new(LONG);
    let line = "lighthouse keeper";
    let before = shown(&world.ask(line).unwrap());
    assert_eq!(before.len(), 10);
    let lost = vec![before[0].0.clone(), before[3].0.clone()];
    for node in 1..=3 {
        let desk = world.desks[node as usize - 1].clone();
        world.serve(node, Arc::new(Forgetful(desk, lost.clone())));
    }
    let after = shown(&world.ask(line).unwrap());
    assert_eq!(after.len(), 10, "others have come in their places");
    let kept: Vec<_> = before.into_iter().filter(|hit| !lost.contains(&hit.0)).collect();
    assert_eq!(after[..8], kept);
}
