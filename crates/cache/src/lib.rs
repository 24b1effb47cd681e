//! The result cache: answers kept in memory on a ring of nodes, and four mechanisms that keep the ring healthy.
//!
//! The life of a question: the front makes its [`key`], so that two spellings of the same question are one. The
//! [`route::Router`] counts it ([`hot::SpaceSaving`]) and names one node: the [`ring::Ring`]'s owner of the key's
//! point, or, for a hot question, one of several. The [`node::CacheNode`] has the answer in one of its two
//! [`store::Store`]s, or says that it has not; then the index is asked once, however many people wait
//! ([`flight::Flights`]), and the answer goes to the node that missed.
//!
//! Around this, at their own pace, work the four mechanisms of \[Gomez14\]:
//!
//! | mechanism (\[Gomez14\]'s letter) | against | where | \[Gomez14\] |
//! |---|---|---|---|
//! | hot-key replication (D) | queries that are asked far more than others | [`hot`] | ch. 4 |
//! | rebalancing by moving borders (B) | drift, nodes that come and go | [`balance`] | ch. 5 |
//! | burst detection (R) | sudden interest | [`burst`] | ch. 6 |
//! | failover copies of the top entries (F) | answers lost with a node | [`failover`] | ch. 7 |
//!
//! `farol up` is one process, so it runs [`key`], [`store`], [`node`], [`replace`], [`flight`], [`hot`], [`burst`] and
//! [`route`] on a [`ring`] of one node; `farol cache` runs [`log`] and [`trace`]. [`balance`], [`failover`] and
//! [`rotating_bloom`] need several nodes: for now only the simulator (`crates/sim/src/cache`) runs them.
//!
//! INVARIANT: pure. No files, sockets, threads, clock or random source of its own: the time, hashes and loads are
//! handed in, decisions come out. One process uses it through calls; between processes only a transport is missing.
//! INVARIANT: memory is bounded everywhere: stores by their limit, the monitor by its counters, the hot table by its size.
//!
//! Not here: what an answer is (a type parameter), how words are analysed (handed to [`key`]), and the network.
//!
//! To see it at work: `examples/small_stream.rs` puts a node under a small stream of questions.

pub mod balance;
pub mod burst;
pub mod failover;
pub mod flight;
pub mod hot;
pub mod key;
pub mod log;
pub mod node;
pub mod replace;
pub mod ring;
pub mod rotating_bloom;
pub mod route;
pub mod store;
pub mod trace;

pub use node::{CacheNode, NodeLookup};
pub use ring::{NodeId, Ring};
pub use store::{Lookup, Store};
