//! Takes parcels in, and says which hosts are whole.
//!
//! A part is merged into the URL store as soon as it comes; parts may come twice, in any order, and from several givers.
//! The caller notes the number of the batch in the store ([`UrlStore::note`]), calls [`ParcelImporter::write`], flushes the
//! store, and asks [`ParcelImporter::flushed`] which hosts are whole now.
//!
//! INVARIANT: a host is whole only when every part of its parcel is in the store *for good*. Which parts came stands in
//! the tables before the flush, each with the number of its batch; after a crash those count whose numbers the store
//! still has, and the others come again, because their sender was never told.
//!
//! Memory: some 200 bytes per host on its way, [`COMING_MAX`] hosts at most.
//!
//! [`UrlStore::note`]: farol_store::urls::UrlStore::note

use super::luggage::read_row;
use crate::archive::hosts::Hosts;
use crate::fabric::{Table, Tables};
use crate::wire::WireError;
use crate::wire::parcel::{Envelope, PARTS_MAX, ParcelId, ParcelPart, PartsInBlob};
use anyhow::Result;
use farol_base::{Host, Timestamp};
use farol_fabric::blobs::{BlobError, Blobs};
use farol_store::urls::{KnownUrl, Source, UrlStore};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Hosts whose parcels are on their way at a time: 200,000 × 200 bytes = 40 MB. More are merged all the same, and are
/// never called whole: they may be asked once their epoch is settled.
const COMING_MAX: usize = 200_000;
/// Before a host's name, among the marks.
const MARK: &str = "parcel ";

/// Why a batch was not taken. It helps nobody to try it again, unless a blob could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum RefusedParcel {
    #[error("a parcel cannot be read: {0}")]
    Wire(#[from] WireError),
    #[error("a part of a parcel is not there: {0}")]
    Blob(#[from] BlobError),
    #[error(
        "a part of a parcel lies in a blob, and this node knows no place for blobs: set blobs under [cluster]"
    )]
    NoPlace,
}

impl RefusedParcel {
    /// Whether the same batch may be read later.
    pub fn is_away(&self) -> bool {
        matches!(self, RefusedParcel::Blob(error) if !matches!(error, BlobError::Missing(_)))
    }
}

/// A batch of a parcel, with the blob that it names. Read before it is taken, on any thread.
pub enum ParcelBatch {
    Part(Box<ParcelPart>),
    Blob(PartsInBlob, Vec<u8>),
}

impl ParcelBatch {
    /// Checks what came, and fetches the blob that it names.
    pub fn open(envelope: Envelope, blobs: Option<&Blobs>) -> Result<ParcelBatch, RefusedParcel> {
        match envelope {
            Envelope::Part(part) => {
                part.host()?;
                Ok(ParcelBatch::Part(Box::new(part)))
            }
            Envelope::Blob(announced) => {
                let name = announced.name()?;
                let bytes = blobs.ok_or(RefusedParcel::NoPlace)?.get(&name)?;
                Ok(ParcelBatch::Blob(announced, bytes))
            }
        }
    }

    /// Its parts, one after the other.
    pub fn parts(&self) -> Result<Box<dyn Iterator<Item = Result<ParcelPart, WireError>> + '_>, WireError> {
        Ok(match self {
            ParcelBatch::Part(part) => Box::new(std::iter::once(Ok(part.as_ref().clone()))),
            ParcelBatch::Blob(announced, bytes) => Box::new(announced.parts(bytes)?),
        })
    }
}

/// What became of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub urls: u64,
    /// URLs that are none here.
    pub left_out: u64,
}

/// A host of which everything has arrived, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeHost {
    pub host: Host,
    pub parcel: ParcelId,
    /// The epoch under which it may be asked, if its giver could say so.
    pub right: Option<u64>,
    /// Where its giver reached it last, and when.
    pub address: Option<(IpAddr, Timestamp)>,
    /// Not before, whatever the right says: its giver may have asked it a moment ago.
    pub ask_from: Timestamp,
}

/// A parcel on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Coming {
    parcel: ParcelId,
    of: Option<u32>,
    ranges: Vec<PartRange>,
    right: Option<u64>,
    address: Option<(IpAddr, u64)>,
    not_before: u64,
    crawl_delay: u64,
}

/// Parts that came with one batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PartRange {
    first: u32,
    end: u32,
    source: u64,
    number: u64,
}

impl Coming {
    fn new(parcel: ParcelId) -> Coming {
        Coming {
            parcel,
            of: None,
            ranges: Vec::new(),
            right: None,
            address: None,
            not_before: 0,
            crawl_delay: 0,
        }
    }

    fn add(&mut self, part: u32, (source, number): (Source, u64)) {
        let is_known = |range: &PartRange| (range.first..range.end).contains(&part);
        if self.ranges.iter().any(is_known) {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if (last.end, last.source, last.number) == (part, source.0, number) => last.end += 1,
            _ => self.ranges.push(PartRange { first: part, end: part + 1, source: source.0, number }),
        }
    }

    fn is_whole(&self) -> bool {
        // No part is in two ranges.
        let came: u64 = self.ranges.iter().map(|range| u64::from(range.end - range.first)).sum();
        self.of.is_some_and(|of| came == u64::from(of) && self.ranges.iter().all(|range| range.end <= of))
    }
}

/// Takes parcels in.
pub struct ParcelImporter {
    tables: Arc<dyn Tables>,
    coming: HashMap<Host, Coming>,
    /// Hosts of which something has changed since the last write; and those that wait for the flush.
    changed: BTreeSet<Host>,
    unflushed: BTreeSet<Host>,
}

impl ParcelImporter {
    /// Opens what came before. `numbers` are those that the URL store has.
    pub fn open(tables: Arc<dyn Tables>, numbers: &BTreeMap<Source, u64>) -> Result<ParcelImporter> {
        let mut coming = HashMap::new();
        for (key, value) in tables.scan(Table::Marks)? {
            let Some(host) = key.strip_prefix(MARK).and_then(|host| Host::parse(host).ok()) else { continue };
            // What cannot be read is sent again by whoever hears that the host is not here.
            let Ok(mut parcel) = postcard::from_bytes::<Coming>(&value) else { continue };
            let is_durable = |range: &PartRange| {
                numbers.get(&Source(range.source)).is_some_and(|durable| *durable >= range.number)
            };
            parcel.ranges.retain(is_durable);
            coming.insert(host, parcel);
        }
        let unflushed = coming.keys().cloned().collect();
        Ok(ParcelImporter { tables, coming, changed: BTreeSet::new(), unflushed })
    }

    /// Merges a part that came with this number of this sender.
    ///
    /// # Errors
    /// Where the stores fail; a part that makes no sense is refused by [`ParcelBatch`] before.
    pub fn take(
        &mut self,
        part: ParcelPart,
        from: (Source, u64),
        now: Timestamp,
        urls: &mut dyn UrlStore,
        hosts: &mut Hosts,
    ) -> Result<Taken> {
        let host = part.host()?;
        let all = part.urls.len() as u64;
        let known: Vec<KnownUrl> = part.urls.into_iter().filter_map(|url| url.read(&host, now)).collect();
        urls.import(&known)?;
        let taken = Taken { urls: known.len() as u64, left_out: all - known.len() as u64 };
        let mut told = None;
        if let Some(mut head) = part.head {
            let row = head.row.take().map(|row| read_row(row, now));
            told = Some((
                head.right,
                head.address,
                row.as_ref().map_or(0, |row| row.not_before_ms),
                row.as_ref().and_then(|row| row.crawl_delay_ms).unwrap_or(0),
            ));
            if let Some(row) = row {
                hosts.take_over(&host, row, head.robots.take())?;
            }
        }
        if self.coming.len() >= COMING_MAX && !self.coming.contains_key(&host) {
            return Ok(taken);
        }
        let coming = self.coming.entry(host.clone()).or_insert_with(|| Coming::new(part.parcel));
        if part.parcel < coming.parcel {
            return Ok(taken);
        }
        if part.parcel > coming.parcel {
            *coming = Coming::new(part.parcel);
        }
        coming.add(part.part, from);
        coming.of = part.of.filter(|of| *of <= PARTS_MAX).or(coming.of);
        if let Some((right, address, not_before, crawl_delay)) = told {
            (coming.right, coming.address) = (right, address);
            (coming.not_before, coming.crawl_delay) = (not_before, crawl_delay);
        }
        self.changed.insert(host.clone());
        self.unflushed.insert(host);
        Ok(taken)
    }

    /// Writes which parts came, and the rows that they brought. Call it before the store is flushed.
    pub fn write(&mut self, hosts: &mut Hosts) -> Result<()> {
        // Rows may be ahead of the mark: what is read again of the archive changes nothing.
        hosts.write(hosts.watermark())?;
        let coming = |host: &Host| Some((format!("{MARK}{}", host.as_str()), self.coming.get(host)?));
        let marks: Vec<(String, Vec<u8>)> = (self.changed.iter().filter_map(coming))
            .map(|(key, coming)| Ok((key, postcard::to_stdvec(coming)?)))
            .collect::<Result<_>>()?;
        let entries: Vec<(Table, &str, &[u8])> =
            marks.iter().map(|(key, mark)| (Table::Marks, key.as_str(), &mark[..])).collect();
        if !entries.is_empty() {
            self.tables.put(&entries)?;
        }
        self.changed.clear();
        Ok(())
    }

    /// Hosts that are whole since the store was flushed. `delay` is the least time between two requests to a server.
    pub fn flushed(&mut self, now: Timestamp, delay: Duration) -> Vec<WholeHost> {
        let whole = |host: Host| {
            let coming = self.coming.get(&host).filter(|coming| coming.is_whole())?;
            let pause = delay.max(Duration::from_millis(coming.crawl_delay));
            let ask_from = (now + pause).max(Timestamp::from_millis(coming.not_before));
            let address = coming.address.map(|(address, at)| (address, Timestamp::from_millis(at)));
            Some(WholeHost { parcel: coming.parcel, right: coming.right, address, ask_from, host })
        };
        std::mem::take(&mut self.unflushed).into_iter().filter_map(whole).collect()
    }

    /// Whether a part of this parcel was taken before.
    pub fn is_expecting(&self, host: &Host, parcel: ParcelId) -> bool {
        self.coming.get(host).is_some_and(|coming| coming.parcel == parcel)
    }

    /// Hosts of which something came, and not all.
    pub fn coming(&self) -> usize {
        self.coming.values().filter(|coming| !coming.is_whole()).count()
    }

    /// Whether something of a host came, and not all.
    #[cfg(test)]
    pub fn is_coming(&self, host: &Host) -> bool {
        self.coming.get(host).is_some_and(|coming| !coming.is_whole())
    }

    /// Forgets the parcels of hosts that nobody waits for any more.
    pub fn done(&mut self, hosts: &[Host]) -> Result<()> {
        let keys: Vec<String> = hosts.iter().map(|host| format!("{MARK}{}", host.as_str())).collect();
        let entries: Vec<(Table, &str, &[u8])> =
            keys.iter().map(|key| (Table::Marks, key.as_str(), &b""[..])).collect();
        self.tables.put(&entries)?;
        for host in hosts {
            self.coming.remove(host);
            self.changed.remove(host);
            self.unflushed.remove(host);
        }
        Ok(())
    }
}
