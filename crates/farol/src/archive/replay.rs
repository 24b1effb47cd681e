//! Brings the URL store, the link graph and the hosts' table up to the end of the archive.
//!
//! After a clean stop there is nothing to do. After a crash the last few pages are in the archive but not yet
//! everywhere else; they are read again, so that none is lost and none is fetched twice.

use super::followers::{ArchivedVisit, FollowerSet, Followers};
use super::interpret::{Interpreted, Interpreter};
use anyhow::{Context, Result};
use farol_base::{Host, PagePosition};
use farol_store::pages::{ArchiveReader, Archived, Exchange};
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
    let sent = followers.exchange.as_ref().map_or(end, |exchange| exchange.watermark());
    let from = urls.min(links).min(hosts).min(sent);
    let mut count = 0;
    delete_hosts_again(followers, urls, hosts)?;
    if from >= end {
        return Ok(count);
    }
    for record in archive.scan(from) {
        let (position, _, archived) = match record {
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
            exchange: position >= sent,
        };
        let removed =
            followers.operator().removed().get(&archived.url().host()).is_some_and(|end| position < *end);
        if !removed {
            apply(followers, interpreter, &archived, position, wanted)?;
        }
        // What only the hosts' table had not noted yet is not worth a word to the operator.
        count += u64::from(wanted.urls || wanted.links);
    }
    followers.flush(end)?;
    followers.hosts.write(end)?;
    Ok(count)
}

/// Carries out removals of hosts that the last run may have ended before. They are not in the archive; each is
/// remembered with the archive's end at that time, so a follower has done what lies before its watermark.
fn delete_hosts_again(followers: &mut Followers, urls: PagePosition, hosts: PagePosition) -> Result<()> {
    let removed: Vec<(Host, PagePosition)> =
        followers.operator().removed().iter().map(|(host, end)| (host.clone(), *end)).collect();
    for (host, end) in removed {
        if end >= urls {
            followers.urls.delete_host(&host)?;
        }
        if end >= hosts {
            followers.hosts.forget(&host)?;
        }
    }
    Ok(())
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
    let wanted = FollowerSet { urls: true, ..FollowerSet::NONE };
    followers.only = Some(ranges);
    let mut count = 0;
    for record in archive.scan(PagePosition::default()) {
        let (position, _, archived) = match record {
            Ok(record) => record,
            Err(error) if is_damage(&error) => continue,
            Err(error) => return Err(error).context("cannot read the archive"),
        };
        if position >= end {
            break;
        }
        let removed =
            followers.operator().removed().get(&archived.url().host()).is_some_and(|end| position < *end);
        if !removed {
            apply(followers, interpreter, &archived, position, wanted)?;
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

/// Takes in one archived entry as if it had just been fetched or received.
pub fn apply(
    followers: &mut Followers,
    interpreter: &Interpreter,
    archived: &Archived,
    position: PagePosition,
    wanted: FollowerSet,
) -> Result<()> {
    let interpreted = interpreter.interpret_archived(archived, depth_of_archived(archived));
    apply_read(followers, archived, interpreted, position, wanted)
}

/// The same where it was interpreted already.
pub fn apply_read(
    followers: &mut Followers,
    archived: &Archived,
    interpreted: Interpreted,
    position: PagePosition,
    wanted: FollowerSet,
) -> Result<()> {
    match archived {
        Archived::Exchange(exchange) => followers.apply(&visit_of(exchange, position), interpreted, wanted),
        Archived::Conversion(page) => {
            let visit = ArchivedVisit {
                url: &page.url,
                status: 0,
                fetched: page.fetched,
                download: Duration::ZERO,
                position,
                robots: None,
                pace: None,
                received: true,
            };
            followers.apply(&visit, interpreted, wanted)
        }
    }
}

/// The same of an entry of either kind; what was received says it itself.
pub fn depth_of_archived(archived: &Archived) -> u16 {
    archived.exchange_ref().map_or(0, depth_of)
}

/// How many links lie between a seed and the page, as the archive tells it.
pub fn depth_of(exchange: &Exchange) -> u16 {
    u16::try_from(told(exchange, "hopsFromSeed").unwrap_or(0)).unwrap_or(u16::MAX)
}

/// The visit that brought an archived exchange.
pub fn visit_of(exchange: &Exchange, position: PagePosition) -> ArchivedVisit<'_> {
    ArchivedVisit {
        url: &exchange.url,
        status: exchange.status,
        fetched: exchange.fetched,
        download: Duration::from_millis(told(exchange, "fetchTimeMs").unwrap_or(0)),
        position,
        robots: Some(&exchange.body),
        pace: None,
        received: false,
    }
}

fn told(exchange: &Exchange, name: &str) -> Option<u64> {
    exchange.metadata.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse().ok())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::archive::{Opened, open};
    use crate::config::Config;
    use crate::fabric::Fabric;
    use crate::folder::Folder;
    use crate::operator::OperatorState;
    use farol_base::{CanonicalUrl, Seeded, Timestamp};

    pub fn url(text: &str) -> CanonicalUrl {
        CanonicalUrl::parse(text).unwrap()
    }

    pub fn exchange(address: &str, body: &str) -> Exchange {
        Exchange {
            url: url(address),
            fetched: Timestamp::from_secs(1_700_000_000),
            address: None,
            status: 200,
            request_head: Vec::new(),
            response_head: b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_vec(),
            body: body.as_bytes().to_vec().into(),
            truncated: None,
            protocol: "http/1.1".into(),
            revisit_of: None,
            metadata: Vec::new(),
        }
    }

    /// Opens the folder as a crawler does.
    pub fn opened(folder: &Folder) -> Opened {
        open(folder, &Config::default(), Fabric::local(&folder.tables()).unwrap(), true).unwrap()
    }

    /// A folder whose archive has a page and a robots.txt of each of two hosts, all of it taken in but by the index.
    pub fn crawled(folder: &Folder) {
        let Opened { mut archive, mut followers, interpreter, .. } = opened(folder);
        let mut ids = Seeded::new(1);
        for host in ["http://a.org", "http://b.org"] {
            followers.add_seed(&url(&format!("{host}/"))).unwrap();
            let robots = exchange(&format!("{host}/robots.txt"), "User-agent: *\nDisallow: /x");
            let page = exchange(&format!("{host}/"), "<title>A page</title><a href=/more>More of it</a>");
            for exchange in [robots, page] {
                let encoded = farol_store::pages::encode(&exchange, &mut ids, 1);
                let position = archive.append(&[encoded]).unwrap()[0];
                apply(&mut followers, &interpreter, &exchange.into(), position, FollowerSet::ALL).unwrap();
            }
        }
        archive.sync().unwrap();
        followers.flush(archive.end()).unwrap();
        followers.hosts.write(archive.end()).unwrap();
    }

    /// Writes down that the host is to be removed, and does nothing of it: so a crash at the wrong moment leaves it.
    pub fn order_removal(folder: &Folder, host: &Host) {
        let end = opened(folder).archive.end();
        let tables = Fabric::local(&folder.tables()).unwrap().tables;
        OperatorState::open(tables).unwrap().remove_host(host, end).unwrap();
    }

    #[test]
    fn a_host_is_removed_though_the_process_ends_before_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        crawled(&folder);
        let (a, b) = (url("http://a.org/"), url("http://b.org/"));
        let knows = |opened: &mut Opened, page: &CanonicalUrl| {
            let followers = &mut opened.followers;
            followers.urls.compact_all().unwrap();
            let more = page.join("/more").unwrap();
            let known = [page, &more].map(|url| followers.urls.get(url).unwrap().is_some());
            (known, followers.hosts.robots_text(&page.host()).unwrap().is_some())
        };
        let mut before = opened(&folder);
        assert_eq!(knows(&mut before, &a), ([true, true], true));
        drop(before);
        order_removal(&folder, &a.host());
        let mut after = opened(&folder);
        assert_eq!(knows(&mut after, &a), ([false, false], false));
        assert_eq!(knows(&mut after, &b), ([true, true], true));
        drop(after);
        // A seed lets it back in, and a later start does not take that for what was removed.
        let mut again = opened(&folder);
        again.followers.add_seed(&a).unwrap();
        drop(again);
        let mut last = opened(&folder);
        last.followers.find_seeds().unwrap();
        assert_eq!(knows(&mut last, &a), ([true, false], false));
    }
}
