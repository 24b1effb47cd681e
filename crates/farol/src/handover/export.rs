//! Walks hosts out of a running URL store, as parts of parcels.
//!
//! Memory: one part that is being filled, up to 4 MiB of packed ones, or one blob of 8 MiB, whatever the size of the host.
//! Blocks while it is paced, so it has a thread of its own.

use super::luggage::head_of;
use super::pace::Pacer;
use crate::fabric::Tables;
use crate::wire::parcel::{
    BLOB_BYTES_MAX, Envelope, PART_BYTES_MAX, ParcelHead, ParcelId, ParcelPart, PartsInBlob, WireUrl, pack,
    put_in_blob,
};
use anyhow::Result;
use farol_base::Host;
use farol_store::urls::Export;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// A parcel whose parts take more than this goes through blobs.
const HELD_BYTES_MAX: usize = 4 << 20;
/// A part is closed at this many bytes before compression, or at this many URLs.
const PART_RAW_BYTES: usize = 640 << 10;
const PART_URLS: usize = 16_384;

/// Where parts go. What has returned is kept until the taker tells that it has it.
pub trait ParcelSink {
    /// Takes a batch for the taker's log.
    fn send(&mut self, batch: Vec<u8>) -> Result<()>;

    /// Whether there is a place for blobs; without one large hosts go part by part.
    fn takes_blobs(&self) -> bool;

    /// Writes a blob, before the batch that names it is sent.
    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<()>;
}

/// What stands at the beginning of each host's parcel.
pub struct Heads<'a> {
    pub tables: &'a dyn Tables,
    /// The epoch under which the taker may ask the hosts; `None` from one who cannot say so.
    pub right: Option<u64>,
}

impl Heads<'_> {
    fn of(&self, host: &Host) -> Result<ParcelHead> {
        let mut head = ParcelHead { right: self.right, ..head_of(self.tables, host)? };
        // Where the right goes the host's last address goes too: with it begins whatever the taker is told of it.
        head.address = head.row.as_ref().and_then(|row| Some((row.address?, row.connects.last()?.0)));
        Ok(head)
    }
}

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub hosts: u64,
    pub urls: u64,
    /// Packed, in batches and blobs.
    pub bytes: u64,
    /// To be removed once the taker has everything.
    pub blobs: Vec<String>,
}

/// Sends hosts, those of an export and those that it knows nothing of, each as one parcel.
///
/// # Errors
/// Where the store or the tables cannot be read, or the sink takes nothing: then it is done again, under the next attempt.
pub fn hand_out(
    export: Box<dyn Export>,
    hosts: &[Host],
    heads: &Heads<'_>,
    parcel: ParcelId,
    pacer: &mut Pacer,
    sink: &mut dyn ParcelSink,
) -> Result<Sent> {
    let out = Outgoing { sink, pacer, sent: Sent::default() };
    let mut writer = ParcelWriter { parcel, out, open: None };
    let mut without_urls: HashSet<&Host> = hosts.iter().collect();
    let mut failed = None;
    export.walk(&mut |host, path, record| {
        let is_open = writer.open.as_ref().is_some_and(|open| open.host == *host);
        let begun = if is_open {
            Ok(())
        } else {
            without_urls.remove(host);
            writer.finish().and_then(|()| writer.begin(host, heads.of(host)?))
        };
        match begun.and_then(|()| writer.push(WireUrl::of(path, record))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    writer.finish()?;
    for host in hosts.iter().filter(|host| without_urls.contains(host)) {
        writer.begin(host, heads.of(host)?)?;
        writer.finish()?;
    }
    Ok(writer.out.sent)
}

/// Makes parts of a host after the other.
struct ParcelWriter<'a> {
    parcel: ParcelId,
    out: Outgoing<'a>,
    open: Option<OpenParcel>,
}

/// The parcel that is being written.
struct OpenParcel {
    host: Host,
    /// Of the part that is being filled.
    next: ParcelPart,
    raw_bytes: usize,
    /// Packed parts that were not sent, the first of which has this number.
    held: Vec<Vec<u8>>,
    held_bytes: usize,
    held_first: u32,
    in_blobs: bool,
}

/// Sends at its pace.
struct Outgoing<'a> {
    sink: &'a mut dyn ParcelSink,
    pacer: &'a mut Pacer,
    sent: Sent,
}

impl Outgoing<'_> {
    fn pay(&mut self, bytes: usize) {
        self.sent.bytes += bytes as u64;
        self.pacer.wait(bytes);
    }
}

impl ParcelWriter<'_> {
    fn begin(&mut self, host: &Host, head: ParcelHead) -> Result<()> {
        let head = Some(Box::new(head));
        let host_text = host.as_str().to_string();
        let next =
            ParcelPart { parcel: self.parcel, host: host_text, part: 0, of: None, head, urls: Vec::new() };
        let mut open = OpenParcel {
            host: host.clone(),
            next,
            raw_bytes: 0,
            held: Vec::new(),
            held_bytes: 0,
            held_first: 0,
            in_blobs: false,
        };
        let robots = |part: &ParcelPart| part.head.as_ref()?.robots.as_ref().map(Vec::len);
        open.raw_bytes = robots(&open.next).unwrap_or(0);
        // A robots.txt that does not even fit when it is compressed is asked for again.
        if open.raw_bytes > PART_BYTES_MAX / 2
            && pack(&Envelope::Part(open.next.clone()))?.len() > PART_BYTES_MAX / 2
            && let Some(head) = &mut open.next.head
        {
            (head.robots, open.raw_bytes) = (None, 0);
            head.row.iter_mut().for_each(|row| row.robots_fetched = 0);
        }
        self.out.sent.hosts += 1;
        self.open = Some(open);
        Ok(())
    }

    fn push(&mut self, url: WireUrl) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.raw_bytes += url.bytes();
        open.next.urls.push(url);
        self.out.sent.urls += 1;
        if open.raw_bytes >= PART_RAW_BYTES || open.next.urls.len() >= PART_URLS {
            open.close_part(false)?;
            open.send_held(&mut self.out, false)?;
        }
        Ok(())
    }

    /// Ends the parcel of the open host.
    fn finish(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.close_part(true)?;
        open.send_held(&mut self.out, true)
    }
}

impl OpenParcel {
    /// Packs the part that is being filled, as several where it has become too large.
    fn close_part(&mut self, is_last: bool) -> Result<()> {
        self.raw_bytes = 0;
        let urls = std::mem::take(&mut self.next.urls);
        self.pack(urls, is_last)
    }

    fn pack(&mut self, urls: Vec<WireUrl>, is_last: bool) -> Result<()> {
        self.next.of = is_last.then_some(self.next.part + 1);
        self.next.urls = urls;
        let packed = pack(&Envelope::Part(self.next.clone()))?;
        let mut urls = std::mem::take(&mut self.next.urls);
        if packed.len() > PART_BYTES_MAX && urls.len() > 1 {
            let rest = urls.split_off(urls.len() / 2);
            self.pack(urls, false)?;
            return self.pack(rest, is_last);
        }
        self.held_bytes += packed.len();
        self.held.push(packed);
        self.next.part += 1;
        self.next.head = None;
        Ok(())
    }

    /// Sends what is held, where that is all or is much.
    fn send_held(&mut self, out: &mut Outgoing<'_>, is_last: bool) -> Result<()> {
        let is_much = self.held_bytes > HELD_BYTES_MAX;
        self.in_blobs |= is_much && out.sink.takes_blobs();
        if !self.in_blobs {
            if is_last || is_much {
                for part in std::mem::take(&mut self.held) {
                    out.pay(part.len());
                    out.sink.send(part)?;
                }
                self.held_bytes = 0;
            }
            return Ok(());
        }
        // Two parts more may come before the next look.
        if !is_last && self.held_bytes + 2 * PART_BYTES_MAX < BLOB_BYTES_MAX {
            return Ok(());
        }
        let (mut blob, count) =
            (Vec::with_capacity(self.held_bytes + 4 * self.held.len()), self.held.len() as u32);
        self.held.drain(..).for_each(|part| put_in_blob(&mut blob, &part));
        let announced = PartsInBlob {
            parcel: self.next.parcel,
            host: self.next.host.clone(),
            first: self.held_first,
            count,
            bytes: blob.len() as u64,
            crc: crc32fast::hash(&blob),
        };
        (self.held_bytes, self.held_first) = (0, self.next.part);
        if count == 0 {
            return Ok(());
        }
        let name = announced.name()?;
        out.pay(blob.len());
        out.sink.put_blob(&name, &blob)?;
        out.sink.send(pack(&Envelope::Blob(announced))?)?;
        out.sent.blobs.push(name);
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
pub mod tests;
