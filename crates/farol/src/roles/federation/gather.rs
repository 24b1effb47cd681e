//! Reads the archive for an agreement: which of its entries the consumer is to get.

use super::desk::ToldAgreement;
use crate::archive::interpret::Interpreter;
use crate::archive::replay::is_damage;
use crate::archive::take_in::facts_of;
use crate::federation::pages::{Sendable, Sender};
use anyhow::{Context, Result};
use farol_base::{CanonicalUrl, PagePosition};
use farol_federation::agreement::pages::Provenance;
use farol_federation::agreement::{EngineId, Grade};
use farol_federation::packet::{Gone, GoneReason, PageEntry};
use farol_federation::{Answer, Facts};
use farol_store::pages::ArchiveReader;
use std::sync::Arc;

/// Tells whether the index has a newer version of a page than the one at a position.
pub type IsOutdated = Arc<dyn Fn(&CanonicalUrl, PagePosition) -> bool + Send + Sync>;

/// Reads the archive on behalf of agreements.
pub struct PageGatherer {
    archive: ArchiveReader,
    is_outdated: IsOutdated,
    texts: Sender,
    words: Sender,
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
        interpreter: Interpreter,
        offers_copies: bool,
        is_outdated: IsOutdated,
    ) -> PageGatherer {
        let sender = |grade| Sender::new(me, interpreter.clone(), offers_copies, grade);
        PageGatherer { archive, is_outdated, texts: sender(Grade::Text), words: sender(Grade::Words) }
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

    /// Reads on from a position, so many entries at most; says also whether that was the end. `is_snapshot`: what is outdated
    /// may be left out.
    pub fn read(
        &mut self,
        from: PagePosition,
        most: usize,
        known: &ToldAgreement,
        is_snapshot: bool,
    ) -> Result<(Vec<Gathered>, bool)> {
        let mut gathered = Vec::new();
        for entry in self.archive.scan(from).take(most) {
            let (position, next, archived) = match entry {
                Ok(entry) => entry,
                Err(error) if is_damage(&error) => continue,
                Err(error) => return Err(error).context("the archive cannot be read"),
            };
            let mut one = Gathered { next, page: None, gone: None, engines: Vec::new() };
            let may_lie_inside = known.terms.view.has(&Facts::of(archived.url())) != Answer::No;
            if may_lie_inside && !(is_snapshot && (self.is_outdated)(archived.url(), position)) {
                let sender = match known.terms.grade {
                    Grade::Text => &mut self.texts,
                    Grade::Words => &mut self.words,
                };
                match sender.read(&archived) {
                    Some(Sendable::Page(page, engines)) => choose(*page, engines, known, &mut one),
                    Some(Sendable::Gone(gone)) => one.gone = Some(gone),
                    None => {}
                }
            }
            gathered.push(one);
        }
        let is_end = gathered.len() < most;
        Ok((gathered, is_end))
    }
}

/// A page goes on where it is surely what was agreed on, and where its way allows it.
fn choose(page: PageEntry, engines: Vec<(EngineId, String)>, known: &ToldAgreement, one: &mut Gathered) {
    // It has us at the end of its way already, where we did not fetch it.
    let me = known.terms.provider;
    let via: Vec<EngineId> = page.via.iter().copied().filter(|engine| *engine != me).collect();
    let way = Provenance { origin: page.origin, via };
    let is_own = page.origin == me;
    let may_pass_on = known.terms.forward > 0 && way.may_go_to(known.terms.consumer, known.terms.forward - 1);
    if !is_own && !may_pass_on {
        return;
    }
    if known.terms.view.has(&facts_of(&page, None)) == Answer::Yes {
        one.page = Some(page);
        one.engines = engines;
    } else {
        one.gone = Some(Gone { url: page.url, at: page.fetched, reason: GoneReason::LeftView });
    }
}
