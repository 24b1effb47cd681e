//! Brings the URL store, the link graph and the hosts' table up to the end of the archive.
//!
//! After a clean stop there is nothing to do. After a crash the last few pages are in the archive but not yet
//! everywhere else; they are read again, so that none is lost and none is fetched twice.

use super::keep::{For, Keep, Kept, lock};
use super::orders::Orders;
use super::reading::Reader;
use anyhow::{Context, Result};
use farol_base::PagePosition;
use farol_store::pages::{ArchiveReader, Exchange};
use farol_store::urls::Found;
use std::time::Duration;

/// Applies what is missing; answers how many records that were.
pub fn catch_up(
    archive: &ArchiveReader,
    end: PagePosition,
    keep: &mut Keep,
    reader: &Reader,
    orders: &Orders,
) -> Result<u64> {
    let (urls, hosts) = (keep.urls.watermark(), keep.hosts.watermark());
    let links = lock(&keep.linker.links).watermark();
    let from = urls.min(links).min(hosts);
    let mut count = 0;
    if from >= end {
        return Ok(count);
    }
    for record in archive.scan(from) {
        let (position, _, exchange) = match record {
            Ok(record) => record,
            Err(error) if is_damage(&error) => {
                tracing::warn!(error = %error, "a damaged page is left out; run `farol check`");
                continue;
            }
            Err(error) => return Err(error).context("cannot read the archive"),
        };
        let wanted =
            For { urls: position >= urls, links: position >= links, hosts: position >= hosts, index: false };
        let removed = orders.removed().get(&exchange.url.host()).is_some_and(|end| position < *end);
        if !removed {
            apply(keep, reader, &exchange, position, wanted)?;
        }
        // What only the hosts' table had not noted yet is not worth a word to the operator.
        count += u64::from(wanted.urls || wanted.links);
    }
    keep.flush(end)?;
    keep.hosts.write(end)?;
    Ok(count)
}

/// Notes again what belongs to these hashes of hosts, from the whole archive as far as the URL store had taken it in;
/// answers how many records were read.
pub fn rebuild(
    archive: &ArchiveReader,
    keep: &mut Keep,
    reader: &Reader,
    orders: &Orders,
    ranges: Vec<std::ops::RangeInclusive<u64>>,
) -> Result<u64> {
    let end = keep.urls.watermark();
    let wanted = For { urls: true, links: false, hosts: false, index: false };
    keep.only = Some(ranges);
    let mut count = 0;
    for record in archive.scan(PagePosition::default()) {
        let (position, _, exchange) = match record {
            Ok(record) => record,
            Err(error) if is_damage(&error) => continue,
            Err(error) => return Err(error).context("cannot read the archive"),
        };
        if position >= end {
            break;
        }
        let removed = orders.removed().get(&exchange.url.host()).is_some_and(|end| position < *end);
        if !removed {
            apply(keep, reader, &exchange, position, wanted)?;
        }
        count += 1;
    }
    let seeds = orders.seeds().iter().map(|seed| Found { url: seed.clone(), depth: 0, hint: None }).collect();
    keep.find(seeds)?;
    keep.urls.compact_all()?;
    keep.urls.rebuilt()?;
    keep.only = None;
    Ok(count)
}

/// Whether a record is damaged: the scan goes on behind it, and so should its reader.
pub fn is_damage(error: &farol_store::Error) -> bool {
    matches!(error, farol_store::Error::Damaged { .. } | farol_store::Error::Torn { .. })
}

/// Takes in one archived exchange as if it had just been fetched.
pub fn apply(
    keep: &mut Keep,
    reader: &Reader,
    exchange: &Exchange,
    position: PagePosition,
    wanted: For,
) -> Result<()> {
    let told = |name: &str| {
        exchange.metadata.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let depth = u16::try_from(told("hopsFromSeed").unwrap_or(0)).unwrap_or(u16::MAX);
    let reading = reader.read(exchange, depth);
    let kept = Kept {
        url: &exchange.url,
        status: exchange.status,
        fetched: exchange.fetched,
        download: Duration::from_millis(told("fetchTimeMs").unwrap_or(0)),
        position,
        robots: Some(&exchange.body),
    };
    keep.apply(&kept, reading, wanted)
}
