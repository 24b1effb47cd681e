//! Brings the URL store, the link graph and the hosts' table up to the end of the archive.
//!
//! After a clean stop there is nothing to do. After a crash the last few pages are in the archive but not yet
//! everywhere else; they are read again, so that none is lost and none is fetched twice.

use super::followers::{ArchivedVisit, FollowerSet, Followers};
use super::interpret::Interpreter;
use anyhow::{Context, Result};
use farol_base::PagePosition;
use farol_store::pages::{ArchiveReader, Exchange};
use std::time::Duration;

/// Applies what is missing; answers how many records that were.
pub fn catch_up(
    archive: &ArchiveReader,
    end: PagePosition,
    followers: &mut Followers,
    interpreter: &Interpreter,
) -> Result<u64> {
    let (urls, hosts) = (followers.urls.watermark(), followers.hosts.watermark());
    let links = followers.linker.links.lock().watermark();
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
        let wanted = FollowerSet {
            urls: position >= urls,
            links: position >= links,
            hosts: position >= hosts,
            index: false,
        };
        let removed =
            followers.operator().removed().get(&exchange.url.host()).is_some_and(|end| position < *end);
        if !removed {
            apply(followers, interpreter, &exchange, position, wanted)?;
        }
        // What only the hosts' table had not noted yet is not worth a word to the operator.
        count += u64::from(wanted.urls || wanted.links);
    }
    followers.flush(end)?;
    followers.hosts.write(end)?;
    Ok(count)
}

/// Notes again what belongs to these hashes of hosts, from the whole archive as far as the URL store had taken it in;
/// answers how many records were read.
pub fn rebuild(
    archive: &ArchiveReader,
    followers: &mut Followers,
    interpreter: &Interpreter,
    ranges: Vec<std::ops::RangeInclusive<u64>>,
) -> Result<u64> {
    let end = followers.urls.watermark();
    let wanted = FollowerSet { urls: true, links: false, hosts: false, index: false };
    followers.only = Some(ranges);
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
        let removed =
            followers.operator().removed().get(&exchange.url.host()).is_some_and(|end| position < *end);
        if !removed {
            apply(followers, interpreter, &exchange, position, wanted)?;
        }
        count += 1;
    }
    followers.find_seeds()?;
    followers.urls.compact_all()?;
    followers.urls.rebuilt()?;
    followers.only = None;
    Ok(count)
}

/// Whether a record is damaged: the scan goes on behind it, and so should its reader.
pub fn is_damage(error: &farol_store::Error) -> bool {
    matches!(error, farol_store::Error::Damaged { .. } | farol_store::Error::Torn { .. })
}

/// Takes in one archived exchange as if it had just been fetched.
pub fn apply(
    followers: &mut Followers,
    interpreter: &Interpreter,
    exchange: &Exchange,
    position: PagePosition,
    wanted: FollowerSet,
) -> Result<()> {
    let told = |name: &str| {
        exchange.metadata.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let depth = u16::try_from(told("hopsFromSeed").unwrap_or(0)).unwrap_or(u16::MAX);
    let interpreted = interpreter.interpret(exchange, depth);
    let visit = ArchivedVisit {
        url: &exchange.url,
        status: exchange.status,
        fetched: exchange.fetched,
        download: Duration::from_millis(told("fetchTimeMs").unwrap_or(0)),
        position,
        robots: Some(&exchange.body),
    };
    followers.apply(&visit, interpreted, wanted)
}
