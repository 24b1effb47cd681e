//! The result cache: answers kept in memory on a ring of nodes, and four mechanisms that keep the ring healthy.
//!
//! The life of a question: the front makes its [`key`], so that two spellings of the same question are one. The
//! [`route::Router`] counts it ([`hot::SpaceSaving`]) and names one node: the [`ring::Ring`]'s owner of the key's
//! point, or, for a hot question, one of several. The [`node::CacheNode`] has the answer in one of its two
//! [`area::Area`]s, or says that it has not; then the index is asked once, however many people wait
//! ([`flight::Flights`]), and the answer goes to the node that missed.
//!
//! Around this, at their own pace, work the four mechanisms of C. Gómez Pantoja, *Servicios de Cache Distribuidos
//! para Motores de Búsqueda Web* (Universidad de Chile, 2014):
//!
//! | mechanism | against | where | thesis |
//! |---|---|---|---|
//! | D, hot queries on several nodes | queries that are asked far more than others | [`hot`] | ch. 4 |
//! | B, balance by moving borders | drift, nodes that come and go | [`balance`] | ch. 5 |
//! | R, bursts found before their peak | sudden interest | [`burst`] | ch. 6 |
//! | F, top entries copied to the successor | answers lost with a node | [`protect`] | ch. 7 |
//!
//! INVARIANT: pure. No files, sockets, threads, clock or random source of its own: the time, hashes and loads are
//! handed in, decisions come out. One process uses it through calls; between processes only a transport is missing.
//! INVARIANT: memory is bounded everywhere: areas by their limit, the monitor by its counters, the hot table by its size.
//!
//! Not here: what an answer is (a type parameter), how words are analysed (handed to [`key`]), and the network.
//!
//! To see it at work: `examples/small_stream.rs` puts a node under a small stream of questions.

pub mod area;
pub mod balance;
pub mod burst;
pub mod flight;
pub mod hot;
pub mod key;
pub mod log;
pub mod node;
pub mod protect;
pub mod replace;
pub mod ring;
pub mod route;
pub mod seen;
pub mod trace;

pub use area::{Area, Found};
pub use node::{CacheNode, Lookup};
pub use ring::{NodeId, Ring};
