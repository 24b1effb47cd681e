//! Sorted runs of deltas: what was written for a bucket and is not merged into its file yet.
//!
//! A bucket's level-0 file is runs, one after the other, appended as its memtable fills up. A run is a head
//! and then blocks ([`block_frame`](crate::urls::veuni::block_frame)), each of which can be read by itself:
//!
//! ```text
//! head:   u32 magic | u64 flushed_seqno | u32 blocks | u64 bytes | u32 crc
//! index:  per block u64 first hash, u64 offset | u32 crc
//! block:  as columns, like with like: hosts (name, flags, number of URLs) | front coding (shared bytes, own bytes) |
//!         own bytes of paths | flags, one byte per URL | depths | events
//! ```
//! A host that does not fit into a block goes on in the next, under its name again.

mod builder;
mod level0;
mod reader;

use crate::urls::veuni::memtable::Event;

pub use builder::RunBuilder;
pub use level0::{Level0File, Run, runs_of, write_run};
pub use reader::{RunBlock, RunReader};

/// A block is closed when its raw bytes reach this.
const RAW_BYTES: usize = 64 << 10;

/// Flag of a host: all that was known of it before is deleted.
pub const TOMBSTONE: u8 = 1;

/// Flags of a URL.
pub const HAS_DEPTH: u8 = 1;
pub const VISIT_FIRST: u8 = 2;
pub const HAS_EVENTS: u8 = 4;

/// The deltas of one URL, put together.
#[derive(Clone, Debug, PartialEq)]
pub struct UrlDelta {
    /// Smallest depth at which it was found; `u16::MAX` where it was not.
    pub depth: u16,
    /// It was visited before it was found.
    pub visit_first: bool,
    pub events: Vec<Event>,
}

#[cfg(test)]
mod tests {
    use super::level0::append_run;
    use super::*;
    use crate::urls::veuni::compaction::delta::HostDelta;
    use crate::urls::veuni::memtable::Memtable;
    use farol_base::HostHash;
    use farol_base::Timestamp;
    use farol_base::disk::{Disk, Mem};
    use std::sync::Arc;

    #[test]
    fn what_was_flushed_comes_back_sorted() {
        let mut memtable = Memtable::default();
        for number in 0..20_000 {
            let host = if number % 3 == 0 { "http://small" } else { "http://large" };
            let path = format!("/{}/{number}", "x".repeat(number % 60));
            memtable.found(host, &path, (number % 7) as u16, None);
        }
        let mut hosts = ["http://small", "http://large"].map(|host| (HostHash::of(host), host));
        hosts.sort_unstable();
        let large = HostHash::of("http://large");
        memtable.found("http://large", "/a", 1, Some(Timestamp::from_secs(5)));
        let mem: Arc<dyn Disk> = Arc::new(Mem::new());
        let run = append_run(&*mem, "p", &memtable, 77, 0).unwrap();
        append_run(&*mem, "p", &memtable, 78, run.end).unwrap();
        mem.truncate("p", 2 * run.end - 1).unwrap();
        let Level0File { runs, torn, damaged } = runs_of(&mem, "p").unwrap();
        assert_eq!((runs.len(), runs[0].flushed_seqno, runs[0].end), (1, 77, run.end));
        assert_eq!((torn, damaged), (Some(run.end), None));
        assert!(runs[0].index.len() > 1, "{} blocks", runs[0].index.len());
        let offsets = runs[0].index.iter().map(|(_, offset)| *offset).collect();
        for mut reader in
            [RunReader::file(mem.clone(), "p", offsets).unwrap(), RunReader::memtable(Arc::new(memtable))]
        {
            let mut seen = 0;
            for (hash, host) in hosts {
                assert_eq!(reader.peek(), Some((hash, host)));
                let mut delta = HostDelta::default();
                reader.read_host(&mut delta).unwrap();
                delta.sort();
                let paths: Vec<&[u8]> = (0..delta.len()).map(|at| delta.get(at).path).collect();
                assert!(paths.windows(2).all(|pair| pair[0] < pair[1]));
                seen += delta.len();
                if hash == large {
                    let at = paths.iter().position(|path| *path == b"/a").unwrap();
                    assert_eq!(delta.get(at).events, [Event::Hint(Timestamp::from_secs(5))]);
                }
            }
            assert_eq!((seen, reader.peek()), (20_001, None));
        }
    }

    #[test]
    fn hosts_with_nothing_but_a_tombstone_fill_blocks_too() {
        let mut memtable = Memtable::default();
        for number in 0..20_000 {
            let host = format!("http://host-{number}.example");
            memtable.delete_host(&host);
        }
        let mem: Arc<dyn Disk> = Arc::new(Mem::new());
        let run = append_run(&*mem, "p", &memtable, 1, 0).unwrap();
        assert!(run.index.len() > 5, "{} blocks", run.index.len());
        let offsets = run.index.iter().map(|(_, offset)| *offset).collect();
        let mut reader = RunReader::file(mem, "p", offsets).unwrap();
        let mut seen = 0;
        while reader.peek().is_some() {
            let mut delta = HostDelta::default();
            reader.read_host(&mut delta).unwrap();
            seen += u32::from(delta.tombstone);
        }
        assert_eq!(seen, 20_000);
    }
}
