//! A batch: the operations between two flushes, encoded as they are added.

use super::BATCH_HEAD_BYTES;
use crate::urls::veuni::codec::{put_record, put_visit, record_of, visit_of};
use crate::urls::{Record, Source, Visit};
use farol_base::codec::{DecodeError, Decoder, put_bytes, put_varint};
use farol_base::{CanonicalUrl, PagePosition, Timestamp};
use std::ops::Range;

const HOST: u8 = 1;
const FOUND: u8 = 2;
const HINT: u8 = 3;
const VISIT: u8 = 4;
const TOMBSTONE: u8 = 5;
const MARK: u8 = 6;
const URL: u8 = 7;
const NOTE: u8 = 8;
const IMPORT: u8 = 9;

/// An operation of a batch; all but the first and the last two are about the host that was named last.
#[derive(Clone, Debug, PartialEq)]
pub enum WalOp<'a> {
    Host(&'a str),
    Found {
        path: &'a str,
        depth: u16,
    },
    Hint {
        path: &'a str,
        depth: u16,
        at: Timestamp,
    },
    Visit {
        path: &'a str,
        visit: Visit,
    },
    /// What another store knew of a visited URL.
    Import {
        path: &'a str,
        record: Record,
    },
    DeleteHost,
    Mark(PagePosition),
    Note {
        source: Source,
        number: u64,
    },
}

/// The batch that is being filled.
#[derive(Debug)]
pub struct WriteBatch {
    /// Room for the head, then the operations.
    pub(super) bytes: Vec<u8>,
    /// Where in it the host is that was named last; at the beginning none was.
    host: Range<usize>,
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        WriteBatch { bytes: vec![0; BATCH_HEAD_BYTES], host: 0..0 }
    }
}

impl WriteBatch {
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == BATCH_HEAD_BYTES
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.truncate(BATCH_HEAD_BYTES);
        self.host = 0..0;
    }

    fn host(&mut self, host: &str) {
        if !self.is_host(host) {
            self.bytes.push(HOST);
            put_bytes(&mut self.bytes, host.as_bytes());
            self.host = self.bytes.len() - host.len()..self.bytes.len();
        }
    }

    pub fn found(&mut self, url: &CanonicalUrl, depth: u16, hint: Option<Timestamp>) {
        let host = url.host_str();
        if let Some(hint) = hint {
            self.host(host);
            self.path(HINT, url);
            put_varint(&mut self.bytes, u64::from(depth));
            return put_varint(&mut self.bytes, hint.as_millis());
        }
        if self.is_host(host) {
            self.path(FOUND, url);
        } else {
            self.bytes.push(URL);
            put_varint(&mut self.bytes, host.len() as u64);
            put_bytes(&mut self.bytes, url.as_str().as_bytes());
            let start = self.bytes.len() - url.as_str().len();
            self.host = start..start + host.len();
        }
        put_varint(&mut self.bytes, u64::from(depth));
    }

    fn path(&mut self, what: u8, url: &CanonicalUrl) {
        self.bytes.push(what);
        put_bytes(&mut self.bytes, url.path_and_query().as_bytes());
    }

    /// Whether this host was named last.
    fn is_host(&self, host: &str) -> bool {
        self.bytes[self.host.clone()] == *host.as_bytes()
    }

    pub fn visited(&mut self, host: &str, path: &str, visit: &Visit) {
        self.host(host);
        self.bytes.push(VISIT);
        put_bytes(&mut self.bytes, path.as_bytes());
        put_visit(&mut self.bytes, visit);
    }

    pub fn imported(&mut self, host: &str, path: &str, record: &Record) {
        self.host(host);
        self.bytes.push(IMPORT);
        put_bytes(&mut self.bytes, path.as_bytes());
        put_varint(&mut self.bytes, u64::from(record.depth));
        put_record(&mut self.bytes, record);
    }

    pub fn delete_host(&mut self, host: &str) {
        self.host(host);
        self.bytes.push(TOMBSTONE);
    }

    pub(super) fn mark(&mut self, upto: PagePosition) {
        self.bytes.push(MARK);
        put_varint(&mut self.bytes, u64::from(upto.file));
        put_varint(&mut self.bytes, upto.offset);
    }

    pub(super) fn note(&mut self, source: Source, number: u64) {
        self.bytes.push(NOTE);
        put_varint(&mut self.bytes, source.0);
        put_varint(&mut self.bytes, number);
    }
}

/// Decodes the operations of a batch, and hands them to `take`.
pub(super) fn read_ops(bytes: &[u8], take: &mut dyn FnMut(WalOp<'_>)) -> Result<(), DecodeError> {
    let mut bytes = Decoder::of(bytes);
    while !bytes.is_empty() {
        let op = match bytes.byte()? {
            HOST => WalOp::Host(bytes.text()?),
            FOUND => WalOp::Found { path: bytes.text()?, depth: bytes.varint_as()? },
            URL => {
                let (host, url) = (bytes.varint_as()?, bytes.text()?);
                let (host, path) = url.split_at_checked(host).ok_or("a host longer than its URL")?;
                take(WalOp::Host(host));
                WalOp::Found { path, depth: bytes.varint_as()? }
            }
            HINT => {
                let (path, depth) = (bytes.text()?, bytes.varint_as()?);
                WalOp::Hint { path, depth, at: Timestamp::from_millis(bytes.varint()?) }
            }
            VISIT => WalOp::Visit { path: bytes.text()?, visit: visit_of(&mut bytes)? },
            IMPORT => {
                let (path, depth) = (bytes.text()?, bytes.varint_as()?);
                WalOp::Import { path, record: record_of(&mut bytes, depth)? }
            }
            TOMBSTONE => WalOp::DeleteHost,
            MARK => WalOp::Mark(PagePosition { file: bytes.varint_as()?, offset: bytes.varint()? }),
            NOTE => WalOp::Note { source: Source(bytes.varint()?), number: bytes.varint()? },
            _ => return Err("an unknown operation"),
        };
        take(op);
    }
    Ok(())
}
