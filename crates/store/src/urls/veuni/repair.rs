//! Empties damaged blocks, so that they can be filled anew from the archive.
//!
//! What came in for such a block and is not damaged stays, but for visits that the archive has: reading the archive
//! again brings those, and each must count once.

use super::compaction::delta::Incoming;
use super::compaction::scheduler::write_run;
use super::manifest::{self, Listed};
use super::memtable::{Event, Stage};
use super::run::RunReader;
use super::{Block, Veuni};
use crate::Error;
use crate::urls::{UrlStore, VisitOutcome};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Veuni {
    /// Empties blocks whose files are damaged; answers with their ranges of host hashes ([`farol_base::fingerprint`]),
    /// whose URLs somebody
    /// must now note again, and then say so ([`UrlStore::rebuilt`]).
    pub fn empty_damaged(&mut self) -> Result<Vec<RangeInclusive<u64>>, Error> {
        UrlStore::flush(self)?;
        while self.wait_for_a_job()? {}
        let mut ranges = Vec::new();
        for at in 0..self.blocks.len() {
            if self.blocks[at].damage.is_some() {
                let last = self.blocks.get(at + 1).map_or(u64::MAX, |next| next.from - 1);
                ranges.push(self.blocks[at].from..=last);
                self.empty_block(at)?;
            }
        }
        Ok(ranges)
    }

    /// Notes that what was emptied is whole again. Until then a store that is opened counts it as damaged.
    pub(super) fn end_rebuilding(&mut self) -> Result<(), Error> {
        let mut list: Vec<Listed> = self.blocks.iter().map(Block::listed).collect();
        list.iter_mut().for_each(|listed| listed.rebuilding = false);
        manifest::write(&*self.disk, &list, self.numbers.load(Ordering::Relaxed))?;
        self.blocks.iter_mut().for_each(|block| block.rebuilding = false);
        Ok(())
    }

    fn empty_block(&mut self, at: usize) -> Result<(), Error> {
        self.lately.forget();
        let block = &self.blocks[at];
        let mut kept = Stage::default();
        for run in &block.runs {
            let offsets = run.index.iter().map(|(_, offset)| *offset).collect();
            let whole = RunReader::file(self.disk.clone(), &block.pending_file(), offsets)
                .and_then(|mut reader| keep(&mut reader, &mut kept));
            if let Err(error) = whole {
                tracing::warn!(error = %error, "what waited behind the damage is read from the archive again");
                break;
            }
        }
        let mut staged = Stage::default();
        staged.append(&block.stage);
        keep(&mut RunReader::stage(Arc::new(staged)), &mut kept)?;
        let upto = self.log.next - 1;
        let mut fresh = Block::new(block.number, block.generation + 1, block.from);
        fresh.upto = upto;
        fresh.rebuilding = true;
        if !kept.is_empty() {
            fresh.runs.push(write_run(&*self.disk, &fresh.pending_file(), &kept, upto, 0)?);
        }
        let files = [format!("block-{:06}-{:08}", block.number, block.generation), block.pending_file()];
        self.blocks[at] = fresh;
        let list: Vec<Listed> = self.blocks.iter().map(Block::listed).collect();
        manifest::write(&*self.disk, &list, self.numbers.load(Ordering::Relaxed))?;
        self.count_held(at..at + 1);
        for file in files {
            self.disk.remove(&file).map_err(Error::io("remove", &file))?;
        }
        Ok(())
    }
}

/// Takes over what a run has, but for visits that are in the archive.
fn keep(reader: &mut RunReader, into: &mut Stage) -> Result<(), Error> {
    into.in_batch(0);
    while let Some((_, host)) = reader.peek() {
        let host = host.to_string();
        let mut incoming = Incoming::default();
        reader.read_server(&mut incoming)?;
        if incoming.forgotten {
            into.forget(&host);
        }
        for at in 0..incoming.len() {
            let came = incoming.get(at);
            let Ok(path) = std::str::from_utf8(came.path) else { continue };
            if came.depth != u16::MAX {
                into.found(&host, path, came.depth, None);
            }
            for event in came.events {
                match event {
                    Event::Hint(hint) => into.found(&host, path, u16::MAX, Some(*hint)),
                    Event::Visit(visit)
                        if matches!(visit.outcome, VisitOutcome::Failed | VisitOutcome::Refused) =>
                    {
                        into.visited(&host, path, visit);
                    }
                    Event::Visit(_) => {}
                }
            }
        }
    }
    Ok(())
}
