//! Reads the URLs of a block, from any place on.

use super::entry::PieceReader;
use super::{BlockFile, Entry, Group, Spot};
use crate::Error;
use crate::urls::veuni::block_frame::Frames;
use std::cmp::Ordering;
use std::sync::Arc;

/// Stands before a URL of a block. Keeps one piece in memory, whatever the size of the server.
#[derive(Debug)]
pub struct Cursor {
    block: Arc<BlockFile>,
    frames: Frames,
    /// The piece that `reader` has.
    piece: Option<u32>,
    reader: PieceReader,
    raw: Vec<u8>,
}

impl Cursor {
    pub(super) fn new(block: Arc<BlockFile>, frames: Frames) -> Cursor {
        Cursor { block, frames, piece: None, reader: PieceReader::default(), raw: Vec::new() }
    }

    fn load(&mut self, piece: u32) -> Result<(), Error> {
        self.piece = None;
        let offset = match self.block.pieces.get(piece as usize) {
            Some(offset) if (piece as usize) < self.block.pieces() => *offset,
            _ => return Err(self.block.damaged(0, "its directory names a piece that is not there")),
        };
        self.frames.read(offset, &mut self.raw)?;
        self.reader.open(&mut self.raw).map_err(|what| self.block.damaged(offset, what))?;
        self.piece = Some(piece);
        Ok(())
    }

    /// Goes to the first URL of a group.
    pub fn seek(&mut self, spot: Spot) -> Result<(), Error> {
        if self.piece != Some(spot.piece) {
            self.load(spot.piece)?;
        }
        if self.reader.index() > spot.index {
            self.reader.rewind();
            if self.reader.index() > spot.index {
                self.load(spot.piece)?;
            }
        }
        while self.reader.index() < spot.index {
            self.step()?;
        }
        self.reader.note();
        Ok(())
    }

    fn step(&mut self) -> Result<bool, Error> {
        let piece = self.piece.unwrap_or(0);
        self.reader.advance().map_err(|what| self.block.damaged(self.block.pieces[piece as usize], what))
    }

    /// Reads the next URL.
    ///
    /// # Errors
    /// Where there is none: whoever calls knows from the directory how many there are.
    pub fn advance(&mut self) -> Result<Entry<'_>, Error> {
        if !self.step()? {
            self.load(self.piece.map_or(0, |piece| piece + 1))?;
            if !self.step()? {
                return Err(self.block.damaged(0, "a piece without URLs"));
            }
        }
        Ok(self.reader.entry())
    }

    /// Looks a path up in a group: first the piece, by halving, then the URL in it.
    pub fn find(&mut self, group: &Group, path: &[u8]) -> Result<Option<Entry<'_>>, Error> {
        if group.len == 0 {
            return Ok(None);
        }
        let (mut low, mut high) = (group.at.piece, group.end.piece);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            self.load(middle)?;
            if self.step()? && self.reader.entry().path <= path { low = middle } else { high = middle - 1 }
        }
        let start = if low == group.at.piece { group.at } else { Spot { piece: low, index: 0 } };
        self.seek(start)?;
        let end = if low == group.end.piece { group.end.index } else { self.reader.len() };
        while self.reader.index() < end && self.step()? {
            match self.reader.entry().path.cmp(path) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(Some(self.reader.entry())),
                Ordering::Greater => break,
            }
        }
        Ok(None)
    }
}
