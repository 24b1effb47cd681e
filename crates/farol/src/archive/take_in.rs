//! Takes pages of other engines in: archived first, then applied as any archived page is.
//!
//! Which packet may be taken in at all (whose it is, under which agreement, its signature, its place in the sequence) was
//! decided before. Here each page is looked at: it must lie in the agreed view, must not be one that the operator removed,
//! must not have come from us, and must be newer than what is kept. So a packet may be taken in twice, or half of it
//! before a crash and all of it after, and comes to the same.
//!
//! INVARIANT: when [`take_in`] has answered, every page that was admitted is in the archive and would survive a power cut.

use super::conversion;
use super::followers::{FollowerSet, Followers};
use super::interpret::Interpreter;
use super::places::Places;
use super::replay;
use anyhow::Result;
use farol_base::{CanonicalUrl, ContentHash, PagePosition, Seeded, Timestamp};
use farol_federation::agreement::pages::{Dropped, Provenance, Version, admit};
use farol_federation::agreement::{AgreementId, EngineId, Grade};
use farol_federation::packet::{Body, PageEntry};
use farol_federation::{Facts, View};
use farol_store::pages::{Archive, ArchiveReader, Archived, Encoded, Encoder};
use farol_store::urls::State;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Pages that are written in one go: 64 × some 10 KB.
const BATCH_MAX: usize = 64;

/// The pages of one packet that passed its checks.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Who we are.
    pub me: EngineId,
    /// Who sent it.
    pub from: EngineId,
    pub agreement: AgreementId,
    pub sequence: u64,
    /// The pages that the sender may send.
    pub view: View,
    pub grade: Grade,
    pub analysis: u32,
    pub body: Body,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenIn {
    pub pages: u64,
    pub gone: u64,
    /// What was left out, by reason.
    pub dropped: BTreeMap<Dropped, u64>,
}

impl TakenIn {
    /// Pages that were left out because the sender should not have sent them: not those that we have as new already.
    pub fn wrong(&self) -> u64 {
        let old = self.dropped.get(&Dropped::Old).copied().unwrap_or(0);
        self.dropped.values().sum::<u64>() - old
    }
}

/// What writes entries to the archive, all of a batch or none.
pub type Append<'a> = dyn FnMut(&mut Archive, &[Encoded]) -> Result<Vec<PagePosition>> + 'a;

/// One page or one gone page on its way.
struct Entry {
    url: CanonicalUrl,
    version: Version,
    provenance: Provenance,
    one: Body,
}

/// Takes the pages of a packet in.
pub fn take_in(
    archive: &mut Archive,
    append: &mut Append<'_>,
    followers: &mut Followers,
    interpreter: &Interpreter,
    now: Timestamp,
    arrived: Arrived,
) -> Result<TakenIn> {
    let Arrived { me, from, agreement, sequence, view, grade, analysis, body } = arrived;
    let mut ids = Seeded::new(farol_base::random::mix(now.as_millis() ^ sequence << 48));
    let mut encoder = Encoder::new(Encoder::LEVEL);
    let mut taken = TakenIn::default();
    let metadata = vec![
        ("federation-from".to_string(), hex(&from.0)),
        ("federation-agreement".to_string(), hex(&agreement.0)),
        ("federation-sequence".to_string(), sequence.to_string()),
    ];
    let names: HashMap<EngineId, String> = body.engines.iter().cloned().collect();
    let mut waiting = VecDeque::from(entries(body, from, &names));
    let reader = archive.reader();
    while !waiting.is_empty() {
        let mut batch: Vec<(Archived, Encoded)> = Vec::with_capacity(BATCH_MAX);
        while batch.len() < BATCH_MAX
            && let Some(entry) = waiting.pop_front()
        {
            // Twice in one packet: the second is compared with the first once that is applied.
            if batch.iter().any(|(archived, _)| *archived.url() == entry.url) {
                waiting.push_front(entry);
                break;
            }
            match decide(followers, &reader, me, &view, now, &entry)? {
                Err(why) => *taken.dropped.entry(why).or_default() += 1,
                Ok(()) => {
                    taken.pages += entry.one.pages.len() as u64;
                    taken.gone += entry.one.gone.len() as u64;
                    let page = conversion::archived(&entry.one, grade, analysis, metadata.clone());
                    let Some(page) = page else { continue };
                    let encoded = encoder.encode_conversion(&page, &mut ids);
                    batch.push((Archived::Conversion(page), encoded));
                }
            }
        }
        let (entries, encoded): (Vec<Archived>, Vec<Encoded>) = batch.into_iter().unzip();
        let positions = append(archive, &encoded)?;
        followers.now = now;
        for (entry, position) in entries.iter().zip(positions) {
            replay::apply(followers, interpreter, entry, position, FollowerSet::ALL)?;
        }
    }
    archive.sync()?;
    followers.flush(archive.end())?;
    Ok(taken)
}

/// The entries of a body one by one, each with the engines that it names.
fn entries(body: Body, from: EngineId, names: &HashMap<EngineId, String>) -> Vec<Entry> {
    let named = |engines: &mut dyn Iterator<Item = EngineId>| {
        engines.map(|engine| (engine, names.get(&engine).cloned().unwrap_or_default())).collect()
    };
    let pages = body.pages.into_iter().map(|page| {
        let provenance = Provenance { origin: page.origin, via: page.via.clone() };
        let version =
            Version { fetched: page.fetched, gone: false, content: page.content_hash, origin: page.origin };
        let engines = named(&mut std::iter::once(page.origin).chain(page.via.iter().copied()));
        Entry {
            url: page.url.clone(),
            version,
            provenance,
            one: Body { engines, pages: vec![page], ..Body::default() },
        }
    });
    let gone = body.gone.into_iter().map(|gone| Entry {
        url: gone.url.clone(),
        version: Version { fetched: gone.at, gone: true, content: ContentHash::default(), origin: from },
        provenance: Provenance { origin: from, via: Vec::new() },
        one: Body { engines: named(&mut std::iter::once(from)), gone: vec![gone], ..Body::default() },
    });
    pages.chain(gone).collect()
}

fn decide(
    followers: &Followers,
    archive: &ArchiveReader,
    me: EngineId,
    view: &View,
    now: Timestamp,
    entry: &Entry,
) -> Result<Result<(), Dropped>> {
    let url = &entry.url;
    if followers.is_host_removed(&url.host()) || followers.operator().removal_of(url).is_some() {
        return Ok(Err(Dropped::Removed));
    }
    let have = followers.version(url, me, archive)?;
    let facts = match entry.one.pages.first() {
        Some(page) => facts_of(page, followers.places()),
        // A gone page has no facts but its address; it does nothing where the page is not known.
        None if have.is_none() => return Ok(Err(Dropped::Old)),
        None => Facts::of(url),
    };
    // What is known of a gone page cannot prove that it lies in a view of languages: that it may lie there is enough.
    let whole = View::all();
    let view = match entry.one.pages.first() {
        Some(_) => view,
        None if view.has(&facts) != farol_federation::Answer::No => &whole,
        None => view,
    };
    Ok(admit(me, view, now, &facts, entry.version, &entry.provenance, have))
}

/// What a packet says of a page, for views; where its server stands is looked up here.
pub fn facts_of(page: &PageEntry, places: Option<&Places>) -> Facts {
    let kind = match page.file_type.as_str() {
        "html" => Some("text/html"),
        "txt" => Some("text/plain"),
        _ => None,
    };
    let mut facts = Facts::of(&page.url).language(page.language).dated(page.dated).title(&page.texts.title);
    if let Some(kind) = page.media_type.as_deref().or(kind) {
        facts = facts.media_type(kind);
    }
    match (page.address, places) {
        (Some(address), Some(places)) => places.facts_at(facts, address),
        (Some(address), None) => facts.address(address),
        (None, _) => facts,
    }
}

impl Followers {
    /// The version that is kept of a page, as it stands in the order of versions.
    pub fn version(
        &self,
        url: &CanonicalUrl,
        me: EngineId,
        archive: &ArchiveReader,
    ) -> Result<Option<Version>> {
        let Some(record) = self.urls.get(url)?.filter(|record| record.visits > 0) else { return Ok(None) };
        // A copy that cannot be read is none.
        let copy = record.position.and_then(|position| archive.read(position).ok());
        let is_answered = record.failures == 0 && !matches!(record.state, State::Refused | State::OutOfScope);
        let fetched = match &copy {
            _ if is_answered => record.last_visit,
            Some(copy) => copy.fetched(),
            None => return Ok(None),
        };
        let origin = match &copy {
            Some(Archived::Conversion(page)) if page.fetched == fetched => conversion::origin_of(page),
            _ => None,
        };
        let gone = matches!(record.state, State::Gone | State::Redirect);
        let content = if gone { ContentHash::default() } else { record.content_hash };
        Ok(Some(Version { fetched, gone, content, origin: origin.unwrap_or(me) }))
    }
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[cfg(test)]
#[path = "take_in_tests.rs"]
mod tests;
