//! What an undertaker does with the backup of an agent that is gone: opens its URL store as of the backup, replays what
//! the archive has beyond it, and hands out all hosts as parcels, without rights.
//!
//! Everything goes into a folder of its own, which the caller removes when all is done; nothing of the undertaker's own
//! crawl is touched. Each step may happen twice.
//!
//! Pages that were fetched after the last upload are not known here, and are fetched again. Pauses, delays and times to
//! connect are those of the backup. robots.txt files are known as far as they stand in the tail of the archive; of other
//! hosts their new owners ask for it before anything else.

use super::backup::{AgentManifest, restore_file};
use super::export::{Heads, ParcelSink, Sent, hand_out};
use super::luggage::read_row;
use super::pace::Pacer;
use crate::archive::followers::{FollowerSet, Followers};
use crate::archive::interpret::Interpreter;
use crate::archive::{open_links, open_urls, replay};
use crate::config::Config;
use crate::fabric::Fabric;
use crate::folder::Folder;
use crate::wire::parcel::ParcelId;
use anyhow::{Context, Result};
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Host, PagePosition};
use farol_cluster::NodeNo;
use farol_fabric::blobs::Blobs;
use farol_parse::Wants;
use farol_store::pages::{ArchiveReader, file_number};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// Hosts that are exported at a time.
const HOSTS_AT_A_TIME: usize = 1_000;

/// The ways to all agents.
pub trait ParcelSinks {
    /// Takes a batch for the log of an agent.
    fn send(&mut self, to: NodeNo, batch: Vec<u8>) -> Result<()>;

    /// Writes a blob, before the batch that names it is sent.
    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<()>;
}

/// The way to one of them.
struct ToHeir<'a> {
    heir: NodeNo,
    sinks: &'a mut dyn ParcelSinks,
}

impl ParcelSink for ToHeir<'_> {
    fn send(&mut self, batch: Vec<u8>) -> Result<()> {
        self.sinks.send(self.heir, batch)
    }

    fn takes_blobs(&self) -> bool {
        true
    }

    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.sinks.put_blob(name, bytes)
    }
}

/// What an agent left behind.
pub struct Estate {
    followers: Followers,
    /// Records of the archive's tail that were replayed.
    pub replayed: u64,
}

impl Estate {
    /// Restores a backup into a new folder, and replays the archive's tail. `seeds` are the crawl's: what is in scope
    /// depends on them.
    ///
    /// # Errors
    /// Where a blob is not what was uploaded, or cannot be reached. A damaged page of the tail is left out.
    pub fn open(
        blobs: &Blobs,
        manifest: &AgentManifest,
        at: &Path,
        config: &Config,
        seeds: &[CanonicalUrl],
    ) -> Result<Estate> {
        let folder = Folder::open_or_create(at)?;
        let mark = PagePosition::from(manifest.mark);
        for file in &manifest.urls {
            restore_file(blobs, file, &folder.urls())?;
        }
        let is_tail = |name: &str| file_number(name).is_some_and(|number| number >= mark.file);
        for file in manifest.pages.iter().filter(|file| is_tail(&file.name)) {
            restore_file(blobs, file, &folder.pages())?;
        }
        let urls = open_urls(&folder)?;
        let links = Arc::new(Mutex::new(open_links(&folder)?));
        let fabric = Fabric::local(&folder.tables())?;
        let mut followers = Followers::open(config, Box::new(urls), links, fabric, false)?;
        for seed in seeds {
            followers.add_seed(seed)?;
        }
        // As agents do: what a page's content hash covers depends on it.
        let view = followers.view();
        let interpreter = Interpreter { agent: config.crawl.agent.clone(), wants: Wants::Everything, view };
        remember(blobs, manifest, &mut followers)?;
        let replayed = replay_tail(&folder, manifest.end.into(), &mut followers, &interpreter)?;
        Ok(Estate { followers, replayed })
    }

    /// What is remembered of a host.
    #[cfg(test)]
    pub fn row(&self, host: &Host) -> Option<crate::archive::hosts::HostRow> {
        self.followers.hosts.row(host)
    }

    /// Hands all hosts out to their owners, who depend on where a host was asked last, as far as that is known; hosts without
    /// an owner stay.
    pub fn hand_out(
        &mut self,
        parcel: ParcelId,
        owner_of: &dyn Fn(&Host, Option<IpAddr>) -> Option<NodeNo>,
        pacer: &mut Pacer,
        sinks: &mut dyn ParcelSinks,
    ) -> Result<Sent> {
        self.followers.urls.compact_all()?;
        let tables = self.followers.fabric.tables.clone();
        let heads = Heads { tables: &*tables, right: None };
        let mut all = Sent::default();
        for first in (0..).step_by(HOSTS_AT_A_TIME) {
            let known = self.followers.urls.hosts(first, HOSTS_AT_A_TIME, "");
            if known.is_empty() {
                break;
            }
            let mut by_owner: BTreeMap<NodeNo, Vec<Host>> = BTreeMap::new();
            for (host, _) in known {
                let address = self.followers.hosts.row(&host).and_then(|row| row.address);
                if let Some(owner) = owner_of(&host, address) {
                    by_owner.entry(owner).or_default().push(host);
                }
            }
            for (owner, hosts) in by_owner {
                let export = self.followers.urls.export(&hosts)?;
                let mut sink = ToHeir { heir: owner, sinks };
                let sent = hand_out(export, &hosts, &heads, parcel, pacer, &mut sink)?;
                all.hosts += sent.hosts;
                all.urls += sent.urls;
                all.bytes += sent.bytes;
                all.blobs.extend(sent.blobs);
            }
        }
        Ok(all)
    }
}

/// Takes in what was remembered of hosts: a server that asked for a pause gets it, whoever asks it now.
fn remember(blobs: &Blobs, manifest: &AgentManifest, followers: &mut Followers) -> Result<()> {
    let now = farol_base::Clock::now(&farol_base::SystemClock);
    manifest.remembered(blobs, &mut |rows| {
        for (host, row) in rows {
            if let Ok(host) = Host::parse(&host) {
                followers.hosts.take_over(&host, read_row(row, now), None)?;
            }
        }
        let upto = followers.hosts.watermark();
        followers.hosts.write(upto)
    })
}

/// Takes in what the archive has beyond the store, as a crawler does that starts after a crash.
fn replay_tail(
    folder: &Folder,
    end: PagePosition,
    followers: &mut Followers,
    interpreter: &Interpreter,
) -> Result<u64> {
    let archive = ArchiveReader::open(crate::disk::at(&folder.pages())?)?;
    let wanted = FollowerSet { links: false, index: false, ..FollowerSet::ALL };
    let mut replayed = 0;
    for record in archive.scan(followers.urls.watermark()) {
        let (position, _, archived) = match record {
            Ok(record) => record,
            Err(error) if replay::is_damage(&error) => {
                tracing::warn!(error = %error, "a damaged page of a lost agent's archive is left out");
                continue;
            }
            Err(error) => return Err(error).context("cannot read a lost agent's archive"),
        };
        replay::apply(followers, interpreter, &archived, position, wanted)?;
        replayed += 1;
    }
    followers.flush(end)?;
    followers.hosts.write(end)?;
    Ok(replayed)
}
