//! The page graph on disk: written once per job, read once per pass, deleted at the end.
//!
//! A file of blocks of up to 1 MiB, each its length and then rows of 32-bit numbers: source, count of targets on the
//! same host, count of others, the targets. Never read by another process, hence without checksums; a number that is
//! out of range all the same is an error.

use super::power::Graph;
use crate::error::Error;
use crate::files::{read_exact_at, remove_replaced};
use farol_base::disk::Disk;
use std::sync::Arc;

/// What a link inside a host counts; one between hosts counts 1.
pub(crate) const SAME_HOST_WEIGHT: f64 = 0.25;

/// Numbers per block, 1 MiB; a row of the worst page has 10,003.
const BLOCK_NUMBERS: usize = 1 << 18;

/// A file that is deleted when its owner is done with it, or fails.
struct ScratchFile {
    disk: Arc<dyn Disk>,
    name: String,
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        remove_replaced(&*self.disk, &self.name);
    }
}

pub(crate) struct EdgeWriter {
    file: ScratchFile,
    block: Vec<u32>,
    bytes: Vec<u8>,
    edges: u64,
}

impl EdgeWriter {
    pub(crate) fn create(disk: &Arc<dyn Disk>, name: String) -> Result<EdgeWriter, Error> {
        disk.remove(&name).map_err(Error::io("create", &name))?;
        let file = ScratchFile { disk: Arc::clone(disk), name };
        Ok(EdgeWriter { file, block: Vec::new(), bytes: Vec::new(), edges: 0 })
    }

    /// Adds the links of one page. Each page comes at most once.
    pub(crate) fn row(&mut self, source: u32, same_host: &[u32], others: &[u32]) -> Result<(), Error> {
        let numbers = same_host.len() + others.len();
        if numbers == 0 {
            return Ok(());
        }
        if self.block.len() + numbers + 3 > BLOCK_NUMBERS {
            self.close_block()?;
        }
        self.edges += numbers as u64;
        self.block.extend_from_slice(&[source, same_host.len() as u32, others.len() as u32]);
        self.block.extend_from_slice(same_host);
        self.block.extend_from_slice(others);
        Ok(())
    }

    fn close_block(&mut self) -> Result<(), Error> {
        self.bytes.clear();
        self.bytes.extend_from_slice(&(self.block.len() as u32).to_le_bytes());
        self.bytes.extend(self.block.iter().flat_map(|number| number.to_le_bytes()));
        self.block.clear();
        self.file.disk.append(&self.file.name, &self.bytes).map_err(Error::io("write", &self.file.name))
    }

    pub(crate) fn finish(mut self, nodes: usize) -> Result<Edges, Error> {
        if !self.block.is_empty() {
            self.close_block()?;
        }
        Ok(Edges { file: self.file, nodes, edges: self.edges })
    }
}

pub(crate) struct Edges {
    file: ScratchFile,
    nodes: usize,
    pub edges: u64,
}

impl Graph for Edges {
    fn nodes(&self) -> usize {
        self.nodes
    }

    fn spread(&mut self, rank: &[f32], next: &mut [f64]) -> Result<f64, Error> {
        let ScratchFile { disk, name } = &self.file;
        let damaged = || Error::damaged(name, 0, "the scratch file of a rank job is not as it was written");
        let (mut linked, mut left, mut offset) = (0.0, self.edges, 0);
        let (mut bytes, mut block) = (Vec::new(), Vec::new());
        while left > 0 {
            let mut length = [0; 4];
            read_exact_at(&**disk, name, offset, &mut length)?;
            let length = u32::from_le_bytes(length) as usize;
            if length > BLOCK_NUMBERS {
                return Err(damaged());
            }
            bytes.resize(length * 4, 0);
            read_exact_at(&**disk, name, offset + 4, &mut bytes)?;
            offset += 4 + bytes.len() as u64;
            block.clear();
            block.extend(bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)));
            let mut rest: &[u32] = &block;
            while let [source, same_host, others, tail @ ..] = rest {
                let (same_host, others) = (*same_host as usize, *others as usize);
                let (targets, tail) = tail.split_at_checked(same_host + others).ok_or_else(damaged)?;
                let has = f64::from(*rank.get(*source as usize).ok_or_else(damaged)?);
                linked += has;
                let share = has / (same_host as f64 * SAME_HOST_WEIGHT + others as f64);
                let (near, far) = targets.split_at(same_host);
                for (targets, gift) in [(near, share * SAME_HOST_WEIGHT), (far, share)] {
                    for target in targets {
                        *next.get_mut(*target as usize).ok_or_else(damaged)? += gift;
                    }
                }
                left = left.saturating_sub(targets.len() as u64);
                rest = tail;
            }
        }
        Ok(linked)
    }
}
