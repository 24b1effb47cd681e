//! A cache node under a small stream of questions: `cargo run -p farol-cache --example small_stream`.
//!
//! A few questions are asked all the time, most of them once. Each policy has room for a hundredth of them.

use farol_base::random::mix;
use farol_base::{Random, Seeded};
use farol_cache::freshness::Now;
use farol_cache::node::{CacheNode, NodeOptions};
use farol_cache::replace::Policy;
use farol_cache::store::Entry;

const QUESTIONS: u64 = 200_000;
const ROOM: u64 = 1_000;

/// Asks a node one question after another; what it misses is "computed" and put in. Returns the hit rate.
fn ask(policy: Policy) -> f64 {
    let mut node: CacheNode<u64, String> = CacheNode::new(&NodeOptions::of_entries(ROOM, policy));
    let (mut random, now) = (Seeded::new(1), Now::default());
    for _ in 0..QUESTIONS {
        // Question r is asked about 1/r as often as the first, which is how people ask.
        let question = (random.unit() * (100_000f64).ln()).exp() as u64;
        let hash = mix(question);
        match node.lookup(hash, &question, &now, false).found() {
            Some(found) => assert_eq!(found.value, format!("answer {question}")),
            None => {
                let value = format!("answer {question}");
                let (made, state) = (now.time, now.need);
                node.insert(Entry { hash, key: question, value, weight: 1, made, state });
            }
        }
    }
    assert!(node.weight() <= ROOM, "never more than there is room for");
    node.counts().hit_rate()
}

fn main() {
    let policies = [
        ("LRU", Policy::Lru),
        ("LFU", Policy::Lfu),
        ("S3-FIFO", Policy::S3Fifo),
        ("W-TinyLFU", Policy::TinyLfu),
    ];
    let rates = policies.map(|(name, policy)| (name, ask(policy)));
    for (name, rate) in rates {
        println!("{name:<10} {:.1} % of the questions answered from memory", rate * 100.0);
    }
    // A newcomer that nobody asks for again should not push out what everybody asks for: LRU lets it.
    assert!(rates[2].1 > rates[0].1, "S3-FIFO, the default, beats LRU on such a stream");
}
