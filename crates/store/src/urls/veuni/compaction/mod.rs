//! Compaction: merges a bucket's file, its level-0 runs and its memtable into a new file of the bucket, off
//! the caller's path.

pub mod choose;
pub mod delta;
pub mod entry_buf;
pub mod join;
pub mod merge;
pub mod obsolete_files;
pub mod scheduler;
mod split_writer;
pub mod workers;
