//! The links as they stand at one moment, readable on another thread while the store goes on.
//!
//! Holds on to sealed segments (their files stay while they are read), a copy of the active one, and four bytes per
//! page that say which records count.

use crate::error::Error;
use crate::files::HEADER_BYTES;
use crate::rank::ids::{IdSet, PairCounts};
use crate::record::{HEAD_BYTES, Record, checked_body};
use crate::segment::Segment;
use crate::store::Links;
use farol_base::HostHash;
use std::ops::RangeInclusive;
use std::sync::Arc;

pub(crate) struct Snapshot {
    parts: Vec<Part>,
}

struct Part {
    from: From,
    /// Offsets of the records that count, in order.
    current: Vec<u32>,
}

enum From {
    Sealed(Arc<Segment>),
    ActiveSegment(Vec<u8>),
}

impl Snapshot {
    pub(crate) fn of(links: &Links) -> Snapshot {
        let mut current: Vec<Vec<u32>> = links.slots.iter().map(|_| Vec::new()).collect();
        for (_, place) in links.sources.iter() {
            current[usize::from(place.slot)].push(place.offset);
        }
        let mut take = |slot: u16| {
            let mut offsets = std::mem::take(&mut current[usize::from(slot)]);
            offsets.sort_unstable();
            offsets
        };
        let mut parts = Vec::with_capacity(links.order.len() + 1);
        for slot in &links.order {
            if let Some(segment) = links.segment(*slot) {
                parts.push(Part { from: From::Sealed(Arc::clone(segment)), current: take(*slot) });
            }
        }
        let active = From::ActiveSegment(links.active.bytes().to_vec());
        parts.push(Part { from: active, current: take(links.active.slot) });
        Snapshot { parts }
    }

    /// Shows the newest record of every page, always in the same order.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(&Record<'_>) -> Result<(), Error>) -> Result<(), Error> {
        for part in &self.parts {
            let mut awaited = part.current.iter().copied().peekable();
            let mut show = |offset: u32, body: &[u8]| {
                if awaited.next_if_eq(&offset).is_some()
                    && let Some(record) = Record::read(body)
                {
                    visit(&record)?;
                }
                Ok(())
            };
            match &part.from {
                From::Sealed(segment) => segment.walk(&mut show)?,
                From::ActiveSegment(bytes) => {
                    let mut at = HEADER_BYTES;
                    while let Some(body) = bytes.get(at..).and_then(checked_body) {
                        show(at as u32, body)?;
                        at += HEAD_BYTES + body.len();
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts the links between hosts, of those hosts that are wanted as sources.
    pub(crate) fn host_links(
        &self,
        is_wanted: &dyn Fn(HostHash) -> bool,
    ) -> Result<impl Iterator<Item = (HostHash, HostHash, u64)> + use<>, Error> {
        let mut hosts = IdSet::default();
        self.each(&mut |record| {
            if is_wanted(record.host) {
                hosts.push(record.host.0);
                let others = record.links().filter(|link| link.other_host);
                others.for_each(|link| hosts.push(link.target_host.0));
            }
            Ok(())
        })?;
        let hosts = hosts.finish();
        let mut pairs = PairCounts::default();
        self.each(&mut |record| {
            let Some(from) = hosts.find(record.host.0).filter(|_| is_wanted(record.host)) else {
                return Ok(());
            };
            for link in record.links().filter(|link| link.other_host && !link.nofollow) {
                if let Some(to) = hosts.find(link.target_host.0) {
                    pairs.push(from, to);
                }
            }
            Ok(())
        })?;
        let name = move |index: u32| HostHash(hosts.ids()[index as usize]);
        Ok(pairs.finish().into_iter().map(move |(from, to, count)| (name(from), name(to), u64::from(count))))
    }
}

/// Links between hosts as they stood at one moment, to be counted on another thread.
pub struct HostLinks(Snapshot);

impl HostLinks {
    pub(crate) fn of(links: &Links) -> HostLinks {
        HostLinks(Snapshot::of(links))
    }

    /// How many links lead from each host in a range of fingerprints to each other host, links not to be counted left out,
    /// ordered by hosts. A narrow range takes little memory; every record is read twice all the same.
    ///
    /// # Errors
    /// Where segments cannot be read.
    pub fn of_hosts(
        &self,
        from: RangeInclusive<u64>,
    ) -> Result<impl Iterator<Item = (HostHash, HostHash, u64)> + use<>, Error> {
        self.0.host_links(&|host| from.contains(&host.0))
    }
}
