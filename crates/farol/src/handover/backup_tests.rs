//! A crawled folder is backed up while it goes on, lost, and handed out from what was uploaded.

use super::*;
use crate::archive::followers::FollowerSet;
use crate::archive::replay::tests::{crawled, exchange, opened, url};
use crate::archive::{Opened, replay};
use crate::config::Config;
use crate::folder::Folder;
use crate::handover::export::ParcelSink;
use crate::handover::export::tests::{Agent, Log, blobs, exported, unpaced};
use crate::handover::undertake::{Estate, ParcelSinks};
use crate::wire::parcel::ParcelId;
use farol_base::{Host, Seeded};
use farol_store::urls::Source;

const AGENT: NodeNo = NodeNo(4);

/// Fetches a page of `a.org` that has a link to another.
fn fetch(opened: &mut Opened, number: u64) {
    let Opened { archive, followers, interpreter, .. } = opened;
    let body = format!("<title>Page {number}</title><a href=/p{}>More</a>", number + 1);
    let exchange = exchange(&format!("http://a.org/p{number}"), &body);
    let encoded = farol_store::pages::encode(&exchange, &mut Seeded::new(number), 1);
    let position = archive.append(&[encoded]).unwrap()[0];
    replay::apply(followers, interpreter, &exchange.into(), position, FollowerSet::ALL).unwrap();
    archive.sync().unwrap();
    followers.flush(archive.end()).unwrap();
}

fn seeds() -> [farol_base::CanonicalUrl; 2] {
    ["http://a.org/", "http://b.org/"].map(url)
}

fn hosts() -> [Host; 2] {
    seeds().map(|seed| seed.host())
}

#[test]
fn an_agent_that_is_gone_is_handed_out_from_its_backup_and_the_tail_of_its_archive() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = blobs(&dir);
    let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
    crawled(&folder);
    let mut agent = opened(&folder);
    agent.followers.urls.note(Source(9), 77).unwrap();
    (0..3).for_each(|number| fetch(&mut agent, number));
    let moment = Moment::take(&mut *agent.followers.urls, &mut agent.archive).unwrap();
    // The crawl goes on while the backup is uploaded.
    (3..6).for_each(|number| fetch(&mut agent, number));
    agent.followers.urls.compact_all().unwrap();
    let first = moment
        .upload(AGENT, &blobs, &folder.pages(), None, &mut std::iter::empty(), &mut std::iter::empty())
        .unwrap();
    drop(moment);
    assert_eq!((first.mark, first.end.file, &first.numbers[..]), (first.end, 0, &[(9, 77)][..]));
    let pointer = pointer_to(&first, None).unwrap();
    assert_eq!(pointer.expects["urls-4"], [(NodeNo(9), 78)].into());
    assert_eq!(AgentManifest::read(&blobs, &pointer.manifest).unwrap(), first);

    // A backup whose store is older than its archive: as where the upload of a store fails and that of pages goes on.
    let before = first.mark;
    let moment = Moment::take(&mut *agent.followers.urls, &mut agent.archive).unwrap();
    let second = moment
        .upload(
            AGENT,
            &blobs,
            &folder.pages(),
            Some(&first),
            &mut std::iter::empty(),
            &mut std::iter::empty(),
        )
        .unwrap();
    let all = exported(&mut *agent.followers.urls, &hosts());
    drop((moment, agent));
    std::fs::remove_dir_all(folder.path()).unwrap();
    let tail = AgentManifest { mark: before, urls: first.urls.clone(), ..second.clone() };
    for (manifest, replayed) in [(&second, 0), (&tail, 3)] {
        let at = dir.path().join(format!("estate-{replayed}"));
        let mut estate = Estate::open(&blobs, manifest, &at, &Config::default(), &seeds()).unwrap();
        assert_eq!(estate.replayed, replayed);
        let (mut taker, mut log) = (Agent::new(), Log::default());
        let parcel = ParcelId { epoch: 3, attempt: 1, from: 2 };
        let sent = estate.hand_out(parcel, &|_, _| Some(NodeNo(1)), &mut unpaced(), &mut log).unwrap();
        assert_eq!((sent.hosts, sent.urls), (2, all.len() as u64));
        log.batches.iter().enumerate().for_each(|(at, batch)| taker.take(at as u64 + 1, batch, &blobs));
        let whole = taker.flush();
        assert_eq!(whole.len(), 2);
        assert!(whole.iter().all(|whole| whole.right.is_none()), "an undertaker gives no rights");
        let known = exported(&mut taker.urls, &hosts());
        let visits = |urls: &[farol_store::urls::KnownUrl]| -> Vec<_> {
            urls.iter()
                .map(|known| {
                    let record = &known.record;
                    (known.url.clone(), record.state, record.visits, record.last_visit, record.content_hash)
                })
                .collect()
        };
        assert_eq!(visits(&known), visits(&all));
        assert!(known.iter().all(|known| known.record.position.is_none()));
    }
}

impl ParcelSinks for Log<'_> {
    fn send(&mut self, _: NodeNo, batch: Vec<u8>) -> Result<()> {
        ParcelSink::send(self, batch)
    }

    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        ParcelSink::put_blob(self, name, bytes)
    }
}

#[test]
fn a_backup_uploads_what_is_new_and_deletes_what_two_manifests_no_longer_name() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = blobs(&dir);
    let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
    crawled(&folder);
    let mut agent = opened(&folder);
    let (mut last, mut pointer): (Option<AgentManifest>, Option<BackupRecord>) = (None, None);
    let names = || {
        let mut names = blobs.list("urls/4/").unwrap();
        names.extend(blobs.list("pages/4/").unwrap());
        names
    };
    let mut kept_pages = 0;
    for round in 0..6 {
        fetch(&mut agent, round);
        if round % 2 == 1 {
            agent.followers.urls.compact_all().unwrap();
        }
        let moment = Moment::take(&mut *agent.followers.urls, &mut agent.archive).unwrap();
        let manifest = moment
            .upload(
                AGENT,
                &blobs,
                &folder.pages(),
                last.as_ref(),
                &mut std::iter::empty(),
                &mut std::iter::empty(),
            )
            .unwrap();
        let next = pointer_to(&manifest, pointer.as_ref()).unwrap();
        assert_eq!(pointer_to(&manifest, Some(&next)), None, "a pointer does not go back");
        for blob in deletable(&names(), &manifest, last.as_ref()) {
            blobs.delete(&blob).unwrap();
        }
        for manifest in last.iter().chain([&manifest]) {
            let left = names();
            assert!(manifest.blobs().all(|blob| left.iter().any(|name| name == blob)));
            assert!(left.contains(&manifest.name()));
        }
        if let Some(last) = &last {
            kept_pages += last.pages.iter().filter(|file| manifest.pages.contains(file)).count();
        }
        (last, pointer) = (Some(manifest), Some(next));
    }
    assert_eq!(kept_pages, 1 + 2 + 3 + 4 + 5, "each file of the archive is uploaded once");
    // A blob of an upload under way is nobody's to delete.
    let newest = last.unwrap();
    let under_way = "urls/4/0000000099-blocks-0".to_string();
    assert_eq!(deletable(std::slice::from_ref(&under_way), &newest, None), [""; 0]);
    // A file of the archive that is here no more stays in the backup.
    std::fs::remove_file(folder.pages().join(file_name(0))).unwrap();
    fetch(&mut agent, 9);
    let moment = Moment::take(&mut *agent.followers.urls, &mut agent.archive).unwrap();
    let manifest = moment
        .upload(
            AGENT,
            &blobs,
            &folder.pages(),
            Some(&newest),
            &mut std::iter::empty(),
            &mut std::iter::empty(),
        )
        .unwrap();
    assert_eq!(manifest.pages[0], newest.pages[0]);
}

#[test]
fn a_blob_that_is_not_what_was_uploaded_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = blobs(&dir);
    let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
    crawled(&folder);
    let mut agent = opened(&folder);
    fetch(&mut agent, 0);
    let moment = Moment::take(&mut *agent.followers.urls, &mut agent.archive).unwrap();
    let manifest = moment
        .upload(AGENT, &blobs, &folder.pages(), None, &mut std::iter::empty(), &mut std::iter::empty())
        .unwrap();
    let names: Vec<String> = manifest.blobs().map(str::to_string).collect();
    for (number, name) in names.iter().enumerate() {
        let good = blobs.get(name).unwrap();
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        for bad in [bad, good[..good.len() - 1].to_vec()] {
            blobs.put(name, &bad).unwrap();
            let at = dir.path().join(format!("estate-{number}-{}", bad.len()));
            let error = Estate::open(&blobs, &manifest, &at, &Config::default(), &[]).err().unwrap();
            assert!(format!("{error:#}").contains(name), "{error:#}");
        }
        blobs.put(name, &good).unwrap();
    }
}

#[test]
fn a_backup_is_due_by_time_or_by_size_and_not_without_news() {
    let (second, mib) = (Duration::from_secs(1), 1 << 20);
    let rules = BackupRules { every: 300 * second, archive_bytes: 64 * mib };
    let due = |seconds, archive_bytes, batches, is_wanted| {
        rules.is_due(&SinceBackup { time: seconds * second, archive_bytes, batches, is_wanted })
    };
    assert!(!due(3000, 0, 0, false));
    assert!(!due(299, mib, 5, false) && due(300, 1, 0, false) && due(300, 0, 1, false));
    assert!(due(1, 64 * mib, 0, false) && !due(1, 63 * mib, 0, false));
    assert!(due(1, 0, BATCHES_MAX, false));
    // Somebody who waits gets one soon, and not one after the other.
    assert!(due(15, 0, 0, true) && !due(14, mib, 0, true));
}

#[test]
fn urls_that_waited_for_other_agents_are_in_the_backup() {
    use crate::wire::freight::{pack_notes, pack_urls};
    use crate::wire::urls::{UrlBody, WireFound, WireHost};
    let dir = tempfile::tempdir().unwrap();
    let blobs = blobs(&dir);
    let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
    crawled(&folder);
    let mut agent = opened(&folder);
    let body = |page: usize| {
        let found = WireFound { path: format!("/{page}"), depth: 1, hint: None };
        let host = WireHost { host: "http://c.test".to_string(), hops: 0, urls: vec![found] };
        UrlBody { hosts: vec![host], learned: Vec::new() }
    };
    let mut waiting: Vec<_> = (0..5).map(|page| pack_urls(&body(page))).collect();
    waiting.insert(2, pack_notes(1, &[]));
    let moment = Moment::take(&mut *agent.followers.urls, &mut agent.archive).unwrap();
    let manifest = moment
        .upload(AGENT, &blobs, &folder.pages(), None, &mut waiting.into_iter(), &mut std::iter::empty())
        .unwrap();
    assert_eq!(manifest.outbox.len(), 1);
    let mut read = Vec::new();
    manifest
        .waiting_urls(&blobs, &mut |body| {
            read.push(body);
            Ok(())
        })
        .unwrap();
    assert_eq!(read, (0..5).map(body).collect::<Vec<_>>());
    blobs.put(&manifest.outbox[0].blob, b"else").unwrap();
    let error = manifest.waiting_urls(&blobs, &mut |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains(&manifest.outbox[0].blob), "{error}");
}

#[test]
fn a_pause_that_a_server_asked_for_outlives_its_agent() {
    use farol_base::{Clock, SystemClock};
    use std::time::Duration;
    let dir = tempfile::tempdir().unwrap();
    let blobs = blobs(&dir);
    let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
    crawled(&folder);
    let mut agent = opened(&folder);
    fetch(&mut agent, 0);
    let [host, _] = hosts();
    let now = SystemClock.now();
    let until = now + Duration::from_secs(3600);
    let known = &mut agent.followers.hosts;
    known.connected(&host, [192, 0, 2, 7].into(), Duration::from_millis(30), now).unwrap();
    known.asked_to_wait(&host, until).unwrap();
    known.rest_until(&host, until.as_millis()).unwrap();
    known.write(agent.archive.end()).unwrap();
    let moment = Moment::take(&mut *agent.followers.urls, &mut agent.archive).unwrap();
    let tables = agent.followers.fabric.tables.clone();
    let manifest = moment
        .upload(
            AGENT,
            &blobs,
            &folder.pages(),
            None,
            &mut std::iter::empty(),
            &mut RememberedHosts::of(&*tables),
        )
        .unwrap();
    assert_eq!(manifest.rows.len(), 1);
    let at = dir.path().join("estate");
    let estate = Estate::open(&blobs, &manifest, &at, &Config::default(), &seeds()).unwrap();
    let row = estate.row(&host).unwrap();
    assert_eq!((row.asked_to_wait_ms, row.not_before_ms), (until.as_millis(), until.as_millis()));
    assert_eq!((row.address, row.connects.len()), (Some([192, 0, 2, 7].into()), 1));
    assert_eq!(row.robots_fetched_ms, 0, "whoever takes it over asks for robots.txt first");
}
