//! The roles of an engine: each runs by itself and meets the others only through the fabric.

pub mod cacher;
pub mod clicks;
pub mod control;
pub mod crawler;
pub mod front;
pub mod indexer;
