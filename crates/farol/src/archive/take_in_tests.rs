//! Pages of another engine, taken in by a real folder.

use super::*;
use crate::archive::Opened;
use crate::archive::interpret::PageOutcome;
use crate::archive::replay::tests::{exchange, opened, url};
use crate::fabric::Change;
use crate::federation::pages::{Sendable, Sender};
use crate::folder::Folder;
use farol_base::{Document, Shown};
use farol_federation::packet::{Gone, GoneReason};
use farol_store::pages::Exchange;
use std::time::Duration;

const ME: EngineId = EngineId([1; 32]);
const PARTNER: EngineId = EngineId([2; 32]);
const THIRD: EngineId = EngineId([3; 32]);

fn now() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

fn folder(dir: &tempfile::TempDir) -> Folder {
    Folder::open_or_create(&dir.path().join("data")).unwrap()
}

/// A page as a partner sends it that fetched it so many seconds before now.
fn entry(opened: &Opened, address: &str, body: &str, seconds: u64, grade: Grade) -> PageEntry {
    let fetched = now() - Duration::from_secs(seconds);
    let archived = Archived::Exchange(Exchange { fetched, ..exchange(address, body) });
    match Sender::new(PARTNER, opened.interpreter.clone(), true, grade).read(&archived) {
        Some(Sendable::Page(page, _)) => *page,
        other => panic!("{other:?}"),
    }
}

fn gone(address: &str, seconds: u64) -> Gone {
    Gone { url: url(address), at: now() - Duration::from_secs(seconds), reason: GoneReason::Gone }
}

fn arrived(pages: Vec<PageEntry>, gone: Vec<Gone>) -> Arrived {
    Arrived {
        me: ME,
        from: PARTNER,
        agreement: AgreementId([7; 16]),
        sequence: 1,
        view: View::parse("domain:a.test or domain:b.test").unwrap(),
        grade: Grade::Text,
        analysis: 0,
        body: Body {
            engines: vec![(PARTNER, "Partner <http://partner.test/>".to_string())],
            pages,
            gone,
            ..Body::default()
        },
    }
}

fn take(opened: &mut Opened, arrived: Arrived) -> TakenIn {
    let Opened { archive, followers, interpreter, .. } = opened;
    let mut append = |archive: &mut Archive, batch: &[Encoded]| Ok(archive.append(batch)?);
    take_in(archive, &mut append, followers, interpreter, now(), arrived).unwrap()
}

/// What the index is told, in order.
fn told(opened: &Opened) -> Vec<String> {
    let changes = &opened.followers.fabric.changes;
    let mut told = Vec::new();
    while let Some(delivery) = changes.receive(Duration::ZERO) {
        match delivery.change {
            Change::Put(document) => told.push(format!("put {} {}", document.url, document.title)),
            Change::Delete(url) => told.push(format!("delete {url}")),
            _ => {}
        }
        changes.ack(delivery.seqno);
    }
    told
}

fn entries_of(opened: &Opened) -> Vec<Archived> {
    opened.archive.reader().scan(PagePosition::default()).map(|record| record.unwrap().2).collect()
}

#[test]
fn a_page_is_taken_in_once_and_tells_where_it_comes_from() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = opened(&folder(&dir));
    let body = "<title>One</title><p>Some words of it</p><a href=/more>More of it</a>";
    let page = entry(&opened, "http://a.test/", body, 60, Grade::Text);
    let taken = take(&mut opened, arrived(vec![page.clone(), page.clone()], vec![]));
    assert_eq!((taken.pages, taken.dropped), (1, BTreeMap::from([(Dropped::Old, 1)])));
    assert_eq!(told(&opened), ["put http://a.test/ One"]);
    let again = take(&mut opened, arrived(vec![page], vec![]));
    assert_eq!((again.pages, again.wrong()), (0, 0));
    assert_eq!(again.dropped, BTreeMap::from([(Dropped::Old, 1)]));
    assert_eq!(entries_of(&opened).len(), 1);
    let Archived::Conversion(kept) = &entries_of(&opened)[0] else { panic!() };
    assert_eq!(kept.content_type, conversion::PAGE);
    let noted = Archived::Conversion(kept.clone());
    assert_eq!(noted.noted("federation-from"), Some(&*"02".repeat(32)));
    assert_eq!(noted.noted("federation-sequence"), Some("1"));
    let interpreted = opened.interpreter.interpret_archived(&noted, 0);
    assert_eq!(interpreted.links.len(), 1);
    let PageOutcome::Page(content) = interpreted.outcome else { panic!() };
    let source = content.document.unwrap().source.unwrap();
    assert_eq!((source.label().as_str(), source.site.as_str()), ("Partner", "http://partner.test/"));
    assert!(source.copy && source.engine == PARTNER.0);
    // It is known as visited, and its link as found, once they are in the store.
    opened.followers.urls.compact_all().unwrap();
    let record = opened.followers.urls.get(&url("http://a.test/")).unwrap().unwrap();
    assert_eq!((record.visits, record.state), (1, State::Collected));
}

#[test]
fn what_may_not_be_sent_is_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = opened(&folder(&dir));
    let page = |address: &str| entry(&opened, address, "<title>T</title>words", 60, Grade::Text);
    let outside = page("http://c.test/");
    let ours = PageEntry { origin: ME, ..page("http://a.test/ours") };
    let came_by_us = PageEntry { origin: THIRD, via: vec![ME, PARTNER], ..page("http://a.test/via") };
    let twice = PageEntry { origin: THIRD, via: vec![PARTNER, PARTNER], ..page("http://a.test/twice") };
    let future = PageEntry { fetched: now() + Duration::from_secs(3600), ..page("http://a.test/future") };
    let removed = page("http://b.test/");
    let fine = PageEntry { origin: THIRD, via: vec![PARTNER], ..page("http://a.test/fine") };
    opened.followers.remove_host(&url("http://b.test/").host(), opened.archive.end()).unwrap();
    let pages = vec![outside, ours, came_by_us, twice, future, removed, fine];
    let taken = take(&mut opened, arrived(pages, vec![gone("http://a.test/never", 5)]));
    assert_eq!((taken.pages, taken.gone), (1, 0));
    let counts = [
        (Dropped::Outside, 1),
        (Dropped::Ours, 2),
        (Dropped::Via, 1),
        (Dropped::Future, 1),
        (Dropped::Removed, 1),
        (Dropped::Old, 1),
    ];
    assert_eq!(taken.dropped, BTreeMap::from(counts));
    assert_eq!(taken.wrong(), 6);
    assert_eq!(entries_of(&opened).len(), 1);
}

#[test]
fn versions_in_any_order_end_in_one_state_and_the_archive_alone_says_which() {
    let titles = ["Old", "Middle", "New"];
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
    for order in orders {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir);
        let mut opened = self::opened(&folder);
        let mut steps: Vec<Arrived> = (titles.iter().zip([400u64, 300, 100]))
            .map(|(title, seconds)| {
                let body = format!("<title>{title}</title>words of {title}");
                arrived(vec![entry(&opened, "http://a.test/", &body, seconds, Grade::Text)], vec![])
            })
            .collect();
        steps.push(arrived(vec![], vec![gone("http://a.test/", 200)]));
        for step in order.into_iter().chain(order) {
            take(&mut opened, steps[step].clone());
        }
        let end = |opened: &mut Opened| {
            opened.followers.urls.compact_all().unwrap();
            let record = opened.followers.urls.get(&url("http://a.test/")).unwrap().unwrap();
            (record.state, record.last_visit, record.content_hash)
        };
        let state = end(&mut opened);
        assert_eq!((state.0, state.1), (State::Collected, now() - Duration::from_secs(100)), "{order:?}");
        assert!(told(&opened).last().unwrap().ends_with(" New"), "{order:?}");
        // Everything but the archive is lost, and comes to the same.
        drop(opened);
        for lost in [folder.urls(), folder.links()] {
            std::fs::remove_dir_all(lost).unwrap();
        }
        assert_eq!(end(&mut self::opened(&folder)), state, "{order:?}");
    }
}

/// What the index is told of a page that was fetched, and of the same that was received.
fn documents(opened: &Opened, body: &str, grade: Grade) -> (Document, Document) {
    let page = Archived::Exchange(exchange("http://a.test/x", body));
    let document = |archived: &Archived| match opened.interpreter.interpret_archived(archived, 0).outcome {
        PageOutcome::Page(page) => page.document.unwrap(),
        other => panic!("{other:?}"),
    };
    let sent = Sender::new(PARTNER, opened.interpreter.clone(), false, grade).read(&page);
    let Some(Sendable::Page(entry, _)) = sent else { panic!() };
    let one = Body { pages: vec![*entry], ..Body::default() };
    let received = conversion::archived(&one, grade, 1, Vec::new()).unwrap();
    (document(&page), document(&Archived::Conversion(received)))
}

#[test]
fn a_received_page_is_the_page_that_was_fetched_but_for_what_may_be_shown() {
    let dir = tempfile::tempdir().unwrap();
    let opened = opened(&folder(&dir));
    let body = "<html lang=pt><title>Pós-Graduação</title><meta name=description content='Tudo sobre ela.'>\
        <nav><a href=/1>Um</a> <a href=/2>Dois</a></nav><h1>Inscrições</h1><p>As inscrições estão abertas no \
        write-ahead C++ até amanhã, diz o Centro.</p></html>";
    let (own, received) = documents(&opened, body, Grade::Text);
    let source = received.source.clone();
    assert!(source.is_some_and(|source| !source.copy));
    assert_eq!(format!("{:?}", Document { source: None, ..received }), format!("{own:?}"));
    let (own, words) = documents(&opened, body, Grade::Words);
    assert_eq!(
        (&words.title, words.content_hash, words.simhash),
        (&own.title, own.content_hash, own.simhash)
    );
    assert!(words.body.contains("inscrições estão abertas no write-ahead c++ até"), "{}", words.body);
    assert_eq!(words.shown, Shown::Lead("Tudo sobre ela.".to_string()));
    let secret = body.replace("<title>", "<meta name=robots content=nosnippet><title>");
    for grade in [Grade::Text, Grade::Words] {
        assert_eq!(documents(&opened, &secret, grade).1.shown, Shown::Nothing);
    }
}
