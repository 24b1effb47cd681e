//! What the settings of the last run said of who may be asked, and how: where this run says something else, what was in
//! vain under the old settings is tried at once.
//!
//! Does not undo what a server asked for: a host that told us to wait is left alone until then.

use super::followers::Followers;
use crate::config::{Config, CrawlScope};
use crate::disk::is_full;
use crate::fabric::Table;
use anyhow::Result;
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, Host, Timestamp};
use farol_store::urls::{Found, State, Walk};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Among the marks: the settings of the last run.
const MARK: &str = "settings";

/// Addresses that are noted in one go: 4,096 × some 200 bytes = 0.8 MB.
const BATCH: usize = 4_096;

/// Pages of one change of settings that are tried at once; others come when they are due. 65,536 × some 200 bytes = 13 MB.
const PAGES_MAX: usize = 65_536;

/// The settings that decide which sites can be crawled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SettingsMark {
    allow_private: bool,
    resolve: Vec<String>,
    /// A fingerprint of the others.
    others: u64,
    /// What an earlier run was told and no later one.
    #[serde(default)]
    missed: Missed,
    /// A fingerprint of the seeds.
    #[serde(default)]
    seeds: u64,
}

/// Flags that were given once and not since, while the seeds remained the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Missed {
    allow_private: bool,
    resolve: Vec<String>,
}

impl Missed {
    /// A sentence for each.
    fn told(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.allow_private {
            notes.push(
                "an earlier run was let to private addresses and this one is not: to go on with sites there, name \
                 --allow-private again, or set allow_private = true under [crawl] in farol.toml"
                    .to_string(),
            );
        }
        if let Some(first) = self.resolve.first() {
            let names = self.resolve.iter().map(|one| one.split('=').next().unwrap_or_default());
            notes.push(format!(
                "an earlier run was told the addresses of {} and this one is not: to go on with sites there, name \
                 --resolve {first} again, or set resolve under [crawl] in farol.toml",
                names.collect::<Vec<_>>().join(", "),
            ));
        }
        notes
    }
}

fn file_of(scope: &CrawlScope) -> Option<PathBuf> {
    match scope {
        CrawlScope::Listed(file) => Some(file.clone()),
        CrawlScope::Around(_) | CrawlScope::Pages(_) => None,
    }
}

impl SettingsMark {
    fn of<'a>(config: &Config, seeds: impl Iterator<Item = &'a CanonicalUrl>) -> SettingsMark {
        let seeds: BTreeSet<&str> = seeds.map(CanonicalUrl::as_str).collect();
        let (crawl, identity) = (&config.crawl, &config.identity);
        let names = (&crawl.agent, &identity.operator, &identity.contact, &identity.public_url);
        let reach = (&crawl.nameservers, &crawl.accept_language, crawl.http2, crawl.redirects_max);
        let times = (crawl.connect_timeout, crawl.first_byte_timeout, crawl.total_timeout);
        let bounds = (&crawl.scope, &crawl.patterns, crawl.max_depth);
        // What stands in a file counts, not what it is called; without one this is as before there were such files.
        let files =
            [file_of(&crawl.scope), Some(&crawl.places).filter(|name| !name.is_empty()).map(PathBuf::from)];
        let files: Vec<u64> =
            files.into_iter().flatten().map(|file| std::fs::read(file).map_or(0, |b| hash64(&b))).collect();
        let files = if files.is_empty() { String::new() } else { format!(" {files:?}") };
        SettingsMark {
            allow_private: crawl.allow_private,
            resolve: crawl.resolve.clone(),
            others: hash64(format!("{names:?} {reach:?} {times:?} {bounds:?}{files}").as_bytes()),
            missed: Missed::default(),
            seeds: hash64(format!("{seeds:?}").as_bytes()),
        }
    }

    /// Whether sites are asked that this run may ask and that one could not, or differently.
    fn differs(&self, other: &SettingsMark) -> bool {
        (self.allow_private, &self.resolve, self.others)
            != (other.allow_private, &other.resolve, other.others)
    }

    /// What the last run was told, or missed itself, and this one is not told.
    fn missed_by(&self, now: &SettingsMark) -> Missed {
        let known = self.resolve.iter().chain(&self.missed.resolve);
        Missed {
            allow_private: (self.allow_private || self.missed.allow_private) && !now.allow_private,
            resolve: known.filter(|one| !now.resolve.contains(one)).cloned().collect(),
        }
    }
}

impl Followers {
    /// Compares the settings with those of the last run, for a process that crawls and was given these seeds. Where they
    /// differ, seeds in trouble, hosts that are left alone after failures and pages that could not be had are tried at once.
    /// Answers what to tell: of a flag that is missing at every start, until it is given again or the seeds have changed.
    pub fn compare_settings(
        &mut self,
        config: &Config,
        seeds: &[CanonicalUrl],
        now: Timestamp,
    ) -> Result<Vec<String>> {
        let mut mark = SettingsMark::of(config, self.operator.seeds().iter().chain(seeds));
        let tables = self.fabric.tables.clone();
        let bytes = tables.get(Table::Marks, MARK)?;
        let before: Option<SettingsMark> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let missed = before.as_ref().map_or(Missed::default(), |before| before.missed_by(&mark));
        // Who names other seeds may have done with the sites that needed the flag: it is told once more.
        if before.as_ref().is_some_and(|before| before.seeds == mark.seeds) {
            mark.missed = missed.clone();
        }
        if before.as_ref() != Some(&mark) {
            let written = match &before {
                Some(before) if before.differs(&mark) => self.try_all_again(now),
                _ => Ok(()),
            };
            let bytes = serde_json::to_vec(&mark)?;
            match written.and_then(|()| tables.put(&[(Table::Marks, MARK, &bytes)])) {
                // The next start compares again.
                Err(error) if is_full(&error) => {}
                written => written?,
            }
        }
        Ok(missed.told())
    }

    fn try_all_again(&mut self, now: Timestamp) -> Result<()> {
        for (host, row) in self.hosts.stored_rows()? {
            if row.failures > 0 || row.robots_refuses() {
                self.hosts.wake(&host, now, row.robots_refuses())?;
            }
        }
        for seed in self.operator().seeds().to_vec() {
            self.wake_seed(&seed, now)?;
        }
        self.urls.compact_all()?;
        let mut again: Vec<Found> = Vec::new();
        self.urls.walk(Walk::All, &mut |host: &Host, path, record| {
            let in_vain = matches!(record.state, State::Failed | State::Refused | State::OutOfScope);
            if in_vain
                && again.len() < PAGES_MAX
                && let Ok(url) = host.url(path)
            {
                again.push(Found { url, depth: record.depth, hint: Some(now) });
            }
        })?;
        // A removed page is thought of no more, whatever the settings say.
        again.retain(|found| !self.is_removed(&found.url));
        again.chunks(BATCH).try_for_each(|batch| Ok(self.urls.found(batch)?))
    }

    fn is_removed(&self, url: &CanonicalUrl) -> bool {
        self.operator.removal_of(url).is_some() || self.scope.is_removed(&url.host())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::not_asked::NotAsked;
    use crate::archive::replay::tests::{crawled, opened, url};
    use crate::folder::Folder;
    use farol_frontier::HostMemory;
    use std::time::Duration;

    #[test]
    fn changed_settings_wake_what_failed_and_others_wake_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        crawled(&folder);
        let mut opened = opened(&folder);
        let followers = &mut opened.followers;
        let now = Timestamp::from_secs(1_700_001_000);
        let later = now + Duration::from_secs(24 * 3600);
        let (a, b) = (url("http://a.org/").host(), url("http://b.org/").host());
        let refused = url("http://a.org/more");
        let put_off = |followers: &mut Followers| {
            for host in [&a, &b] {
                followers.hosts.enter(host, 2).unwrap();
                let memory = HostMemory { not_before: later, failures: 3, ..HostMemory::default() };
                followers.hosts.remember(host, &memory);
            }
            followers.hosts.asked_to_wait(&b, later).unwrap();
            let before = Timestamp::from_secs(1_700_000_900);
            followers.refused(&refused, NotAsked::Excluded, before, later).unwrap();
            followers.confirm(&opened.archive).unwrap();
        };
        let wakes = |followers: &mut Followers| {
            followers.urls.compact_all().unwrap();
            let due = followers.urls.get(&refused).unwrap().unwrap().due;
            let row = |host| followers.hosts.row(host).unwrap();
            (due, [&a, &b].map(|host| (row(host).not_before_ms, row(host).failures)))
        };
        let mut config = Config::default();
        // What an older version left has no settings to compare with.
        put_off(followers);
        assert_eq!(followers.compare_settings(&config, &[], now).unwrap(), Vec::<String>::new());
        let asleep = (later, [(later.as_millis(), 3), (later.as_millis(), 3)]);
        assert_eq!(wakes(followers), asleep);
        config.crawl.max_pages = 7;
        config.crawl.delay_min = crate::config::Span::secs(3);
        followers.compare_settings(&config, &[], now).unwrap();
        assert_eq!(wakes(followers), asleep, "these decide nothing of who may be asked");
        // b.org has asked us itself to wait.
        let awake = (now, [(now.as_millis(), 0), (later.as_millis(), 0)]);
        let changes: [fn(&mut Config); 5] = [
            |config| config.crawl.allow_private = true,
            |config| config.crawl.resolve = vec!["a.org=127.0.0.1".into(), "*.b.org=127.0.0.1:8".into()],
            |config| config.crawl.patterns = vec!["-/x/".parse().unwrap()],
            |config| config.crawl.agent = "other".into(),
            |config| config.identity.contact = "me@example.org".into(),
        ];
        for change in changes {
            put_off(followers);
            change(&mut config);
            assert_eq!(followers.compare_settings(&config, &[], now).unwrap(), Vec::<String>::new());
            assert_eq!(wakes(followers), awake);
        }
        config.crawl.allow_private = false;
        config.crawl.resolve.truncate(1);
        let notes = followers.compare_settings(&config, &[], now).unwrap();
        assert!(notes[0].contains("name --allow-private again"), "{notes:?}");
        assert!(
            notes[1].contains("addresses of *.b.org") && notes[1].contains("--resolve *.b.org=127.0.0.1:8")
        );
        assert_eq!(followers.compare_settings(&config, &[], now).unwrap(), notes, "told at every start");
        config.crawl.allow_private = true;
        assert_eq!(followers.compare_settings(&config, &[], now).unwrap(), notes[1..]);
        // With other seeds it is told once more.
        let seed = [url("http://c.org/")];
        assert_eq!(followers.compare_settings(&config, &seed, now).unwrap(), notes[1..]);
        assert_eq!(followers.compare_settings(&config, &seed, now).unwrap(), Vec::<String>::new());
    }
}
