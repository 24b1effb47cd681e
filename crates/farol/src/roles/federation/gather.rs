//! Reads the archive for an agreement: which of its entries the consumer is to get.

use super::partner_desk::{ToldAgreement, ToldAgreements};
use crate::archive::interpret::Interpreter;
use crate::archive::places::Places;
use crate::archive::replay::is_damage;
use crate::archive::take_in::facts_of;
use crate::federation::pages::{Sendable, Sender};
use crate::operator::OperatorState;
use anyhow::{Context, Result};
use farol_base::{CanonicalUrl, PagePosition};
use farol_federation::agreement::pages::Provenance;
use farol_federation::agreement::{AgreementId, EngineId, Grade};
use farol_federation::packet::{Gone, GoneReason, PageEntry};
use farol_federation::{Answer, Facts, View};
use farol_store::pages::{ArchiveReader, Archived};
use std::sync::Arc;

/// Tells whether the index has a newer version of a page than the one at a position.
pub type IsOutdated = Arc<dyn Fn(&CanonicalUrl, PagePosition) -> bool + Send + Sync>;

/// Reads the archive on behalf of agreements.
pub struct PageGatherer {
    archive: ArchiveReader,
    places: Option<Arc<Places>>,
    is_outdated: IsOutdated,
    texts: Sender,
    words: Sender,
}

/// For whom it is read.
pub struct GatherFor<'a> {
    pub known: &'a ToldAgreement,
    /// All agreements: those under which pages came say how far these may go on.
    pub told: &'a ToldAgreements,
    pub operator: &'a OperatorState,
    /// What is outdated may be left out.
    pub is_snapshot: bool,
    /// Up to a position all was read before, and only pages of this view are new to the consumer.
    pub again: Option<(&'a View, PagePosition)>,
}

/// An entry of the archive, as far as the consumer is to get it.
pub struct Gathered {
    /// Where the next entry begins.
    pub next: PagePosition,
    pub page: Option<PageEntry>,
    pub gone: Option<Gone>,
    /// Names of engines that the page came by.
    pub engines: Vec<(EngineId, String)>,
}

impl PageGatherer {
    pub fn new(
        me: EngineId,
        archive: ArchiveReader,
        places: Option<Arc<Places>>,
        interpreter: Interpreter,
        offers_copies: bool,
        is_outdated: IsOutdated,
    ) -> PageGatherer {
        let sender = |grade| Sender::new(me, interpreter.clone(), offers_copies, grade);
        PageGatherer { archive, places, is_outdated, texts: sender(Grade::Text), words: sender(Grade::Words) }
    }

    /// The archive that it reads.
    pub fn archive(&self) -> &ArchiveReader {
        &self.archive
    }

    /// Number of the analysis that cuts words.
    pub fn analysis(&self, grade: Grade) -> u32 {
        match grade {
            Grade::Text => 0,
            Grade::Words => farol_index::ANALYSIS,
        }
    }

    /// Reads on from a position, so many entries at most; says also whether that was the end.
    pub fn read(
        &mut self,
        from: PagePosition,
        most: usize,
        asked: &GatherFor<'_>,
    ) -> Result<(Vec<Gathered>, bool)> {
        let mut gathered = Vec::new();
        let scan = self.archive.scan(from).take(most);
        for entry in scan {
            let (position, next, archived) = match entry {
                Ok(entry) => entry,
                Err(error) if is_damage(&error) => continue,
                Err(error) => return Err(error).context("the archive cannot be read"),
            };
            let mut one = Gathered { next, page: None, gone: None, engines: Vec::new() };
            let facts = Facts::of(archived.url());
            let may_lie_inside = asked.known.terms.view.has(&facts) != Answer::No;
            if may_lie_inside && may_go_on(&archived, asked) {
                if is_removed(asked.operator, &archived, position) {
                    let (url, at) = (archived.url().clone(), archived.fetched());
                    one.gone = Some(Gone { url, at, reason: GoneReason::Withdrawn });
                } else if self.is_new(&facts, &archived, position, asked) {
                    self.gather(&archived, asked.known, &mut one);
                }
            }
            gathered.push(one);
        }
        let is_end = gathered.len() < most;
        Ok((gathered, is_end))
    }

    /// Whether the consumer may not have it yet.
    fn is_new(&self, facts: &Facts, archived: &Archived, at: PagePosition, asked: &GatherFor<'_>) -> bool {
        let was_sent = asked.again.is_some_and(|(added, upto)| at < upto && added.has(facts) == Answer::No);
        let is_outdated = || asked.is_snapshot && (self.is_outdated)(archived.url(), at);
        !was_sent && !is_outdated()
    }

    fn gather(&mut self, archived: &Archived, known: &ToldAgreement, one: &mut Gathered) {
        let sender = match known.terms.grade {
            Grade::Text => &mut self.texts,
            Grade::Words => &mut self.words,
        };
        match sender.read(archived) {
            Some(Sendable::Page(page, engines)) => {
                choose(*page, engines, known, self.places.as_deref(), one);
            }
            Some(Sendable::Gone(gone)) => one.gone = Some(gone),
            None => {}
        }
    }
}

/// Whether the agreement under which an entry came, if it came under one, lets it go on under this one. What was taken in by hand
/// came under none.
fn may_go_on(archived: &Archived, asked: &GatherFor<'_>) -> bool {
    let Archived::Conversion(_) = archived else { return true };
    let came = archived.noted("federation-agreement").and_then(|id| id.parse::<AgreementId>().ok());
    let came = came.and_then(|id| asked.told.agreements.get(&id));
    came.is_some_and(|came| came.terms.reach(&asked.known.terms))
}

/// Whether our operator has removed a page, or its host after it was archived.
fn is_removed(operator: &OperatorState, archived: &Archived, at: PagePosition) -> bool {
    let url = archived.url();
    operator.removed().get(&url.host()).is_some_and(|end| at < *end) || operator.removal_of(url).is_some()
}

/// A page goes on where it is surely what was agreed on, and where its way allows it.
fn choose(
    page: PageEntry,
    engines: Vec<(EngineId, String)>,
    known: &ToldAgreement,
    places: Option<&Places>,
    one: &mut Gathered,
) {
    // It has us at the end of its way already, where we did not fetch it.
    let me = known.terms.provider;
    let via: Vec<EngineId> = page.via.iter().copied().filter(|engine| *engine != me).collect();
    let way = Provenance { origin: page.origin, via };
    if page.origin != me && !way.may_go_to(known.terms.consumer) {
        return;
    }
    if known.terms.view.has(&facts_of(&page, places)) == Answer::Yes {
        one.page = Some(page);
        one.engines = engines;
    } else {
        one.gone = Some(Gone { url: page.url, at: page.fetched, reason: GoneReason::LeftView });
    }
}
