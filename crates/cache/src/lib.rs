//! The result cache: answers kept in memory on a ring of nodes, and four mechanisms that keep the ring healthy.
//!
//! The life of a question: the front makes its [`key`], so that two spellings of the same question are one. Its
//! [`front::FrontRouter`] counts it ([`hot::SpaceSaving`]) and names one node: the [`ring::Ring`]'s owner of the key's
//! point, or, for a hot question, one of several. The [`node::CacheNode`] has the answer in one of its two
//! [`store::Store`]s, fresh or within its grace ([`freshness`]), or says that it has not; then whoever has the [`lease`]
//! asks the index, however many people wait ([`flight::Flights`] in the front itself), and the answer goes to the node
//! that missed. If a node does not answer, its successor is asked, which has its copies ([`health`]).
//!
//! Around this, at their own pace, work the four mechanisms of \[Gomez14\]. What must be decided once is decided by the
//! [`lead::Leader`] and published ([`tables`]):
//!
//! | mechanism (\[Gomez14\]'s letter) | against | where | decided by | \[Gomez14\] |
//! |---|---|---|---|---|
//! | hot-key replication (D) | queries that are asked far more than others | [`hot`] | leader; at once: front | ch. 4 |
//! | rebalancing by moving borders (B) | drift, nodes that come and go | [`balance`] | leader | ch. 5 |
//! | burst detection (R) | sudden interest | [`burst`] | leader | ch. 6 |
//! | failover copies of the top entries (F) | answers lost with a node | [`failover`] | node | ch. 7 |
//!
//! `farol up` is one process: it runs one node ([`shards`]) and counts hot queries; `farol cache` runs [`log`] and
//! [`trace`]. Whole services run in the simulator (`crates/sim/src/cache`), from the same types with the same defaults.
//!
//! INVARIANT: pure. No files, sockets, threads, clock or random source of its own: the time, hashes and loads are
//! handed in, decisions come out. Between processes only a transport is missing.
//! INVARIANT: memory is bounded everywhere: stores by their limit, monitors by their counters, tables by their room.
//!
//! Not here: what an answer is (a type parameter), how words are analysed (handed to [`key`]), and the network.
//!
//! To see it at work: `examples/small_stream.rs` puts a node under a small stream of questions.

pub mod balance;
pub mod burst;
mod chunks;
pub mod copies;
mod error;
pub mod failover;
pub mod flight;
pub mod freshness;
pub mod front;
pub mod health;
pub mod hot;
pub mod key;
pub mod lead;
pub mod lease;
pub mod log;
mod members;
pub mod node;
pub mod replace;
pub mod ring;
pub mod rotating_bloom;
pub mod shards;
pub mod store;
pub mod tables;
pub mod trace;

pub use error::Error;
pub use node::{CacheNode, NodeLookup};
pub use ring::{NodeId, Ring};
pub use store::Store;
