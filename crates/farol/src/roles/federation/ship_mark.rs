//! How far the distribution agent has come with an agreement, on disk; and what it must read again when the agreement's pages
//! change, or the operator removes some.

use crate::operator::OperatorState;
use farol_base::PagePosition;
use farol_federation::agreement::Terms;
use farol_federation::{Answer, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How far an agreement has come.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShipMark {
    file: u32,
    offset: u64,
    /// The last packet that was made.
    pub sequence: u64,
    /// What the next one says of it.
    pub digest: String,
    /// The last that was acknowledged.
    pub acknowledged: u64,
    /// All that there was has been packed since the consumer last asked for it.
    pub is_whole: bool,
    /// The consumer's last question for all.
    pub round: u64,
    pub packets: u64,
    pub pages: u64,
    pub gone: u64,
    pub bytes: u64,
    /// The terms by which it was read so far.
    revision: u32,
    view: String,
    /// What a change has added, to be read again up to a position.
    added: String,
    again_file: u32,
    again_offset: u64,
    /// Removals by the operator that the consumer was told of.
    removals: BTreeSet<String>,
}

impl ShipMark {
    /// From where to read on.
    pub fn position(&self) -> PagePosition {
        PagePosition { file: self.file, offset: self.offset }
    }

    pub fn move_to(&mut self, position: PagePosition) {
        (self.file, self.offset) = (position.file, position.offset);
    }

    /// What was read before a change, and which pages of it are new to the consumer.
    pub fn again(&self) -> Option<(View, PagePosition)> {
        let upto = PagePosition { file: self.again_file, offset: self.again_offset };
        if self.position() >= upto {
            return None;
        }
        // What cannot be read is sent once more as a whole.
        Some((View::parse(&self.added).unwrap_or_else(|_| View::all()), upto))
    }

    /// All is packed anew, whatever was sent.
    pub fn begin_anew(&mut self) {
        (self.file, self.offset, self.is_whole) = (0, 0, false);
        (self.again_file, self.again_offset) = (0, 0);
        self.digest.clear();
        self.acknowledged = self.sequence;
    }

    /// Takes note of terms; whether pages must be read again, since they have come to be part of it.
    pub fn follow_terms(&mut self, terms: &Terms) -> bool {
        if self.revision == terms.revision {
            return false;
        }
        let before = std::mem::replace(&mut self.view, terms.view.to_string());
        let is_first = std::mem::replace(&mut self.revision, terms.revision) == 0 && terms.revision == 1;
        if is_first || self.position() == PagePosition::default() {
            return false;
        }
        let added = View::parse(&before).map_or_else(|_| View::all(), |before| terms.view.minus(&before));
        let is_none = added.boxes().is_ok_and(|boxes| boxes.any_page().0 == Answer::No);
        if is_none {
            return false;
        }
        self.is_whole = false;
        self.read_again(added);
        true
    }

    /// Takes note of what the operator has removed; whether the archive must be read again for pages that were sent.
    pub fn follow_removals(&mut self, operator: &OperatorState) -> bool {
        let now = removals_of(operator);
        let is_more = now.iter().any(|removal| !self.removals.contains(removal));
        self.removals = now;
        if !is_more || self.position() == PagePosition::default() {
            return false;
        }
        self.read_again(View::none());
        true
    }

    /// Whether a removal is known that [`ShipMark::follow_removals`] has not taken note of.
    pub fn knows_removals(&self, operator: &OperatorState) -> bool {
        self.removals == removals_of(operator)
    }

    fn read_again(&mut self, added: View) {
        let (added, upto) = match self.again() {
            Some((before, upto)) => (before.or(&added), upto.max(self.position())),
            None => (added, self.position()),
        };
        self.added = added.to_string();
        (self.again_file, self.again_offset) = (upto.file, upto.offset);
        self.move_to(PagePosition::default());
    }
}

fn removals_of(operator: &OperatorState) -> BTreeSet<String> {
    let at = |end: PagePosition| format!("{}/{}", end.file, end.offset);
    let hosts = operator.removed().iter().map(|(host, end)| format!("host {host} {}", at(*end)));
    let pages = operator.removed_pages().map(|(pages, end)| format!("pages {pages} {}", at(end)));
    hosts.chain(pages).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::LocalTables;
    use crate::page_set::PageSet;
    use farol_base::CanonicalUrl;
    use farol_federation::Facts;
    use farol_federation::agreement::{AgreementId, Delivery, EngineId, Grade, Kind, OnEnd, Quota};
    use std::sync::Arc;
    use std::time::Duration;

    fn terms(revision: u32, view: &str) -> Terms {
        Terms {
            id: AgreementId([1; 16]),
            revision,
            provider: EngineId([1; 32]),
            consumer: EngineId([2; 32]),
            kind: Kind::Index,
            view: View::parse(view).unwrap(),
            grade: Grade::Text,
            delivery: Delivery::Push,
            delay_max: Duration::from_secs(1),
            quota: Quota { pages_day: 1, bytes_day: 1 },
            forward: 0,
            on_end: OnEnd::Keep,
            notice: Duration::from_secs(1),
            lease: Duration::from_secs(60),
        }
    }

    #[test]
    fn what_a_change_adds_is_read_again_and_what_it_takes_away_is_not() {
        let mut mark = ShipMark::default();
        let at = |offset| PagePosition { file: 0, offset };
        assert!(!mark.follow_terms(&terms(1, ".a.pt or .b.pt")));
        mark.move_to(at(900));
        mark.is_whole = true;
        assert!(!mark.follow_terms(&terms(2, ".a.pt")) && mark.is_whole && mark.again().is_none());
        assert!(mark.follow_terms(&terms(3, ".a.pt or .c.pt")) && !mark.is_whole);
        let (added, upto) = mark.again().unwrap();
        let has = |view: &View, url: &str| view.has(&Facts::of(&CanonicalUrl::parse(url).unwrap()));
        assert_eq!((has(&added, "http://c.pt/"), has(&added, "http://a.pt/")), (Answer::Yes, Answer::No));
        assert_eq!(upto, at(900));
        // Another change, half way.
        mark.move_to(at(300));
        assert!(mark.follow_terms(&terms(4, ".a.pt or .c.pt or .d.pt")));
        let (added, upto) = mark.again().unwrap();
        assert_eq!((has(&added, "http://c.pt/"), has(&added, "http://d.pt/")), (Answer::Yes, Answer::Yes));
        assert_eq!(upto, at(900));
        mark.move_to(at(900));
        assert!(mark.again().is_none());
    }

    #[test]
    fn a_removal_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let tables = Arc::new(LocalTables::open(&dir.path().join("t")).unwrap());
        let mut operator = OperatorState::open(tables).unwrap();
        let mut mark = ShipMark::default();
        let at = |offset| PagePosition { file: 0, offset };
        mark.move_to(at(900));
        assert!(mark.knows_removals(&operator) && !mark.follow_removals(&operator));
        operator.remove_pages(&PageSet::read("http://a/x").unwrap(), at(800)).unwrap();
        assert!(!mark.knows_removals(&operator) && mark.follow_removals(&operator));
        assert_eq!(mark.again().unwrap().1, at(900));
        mark.move_to(at(900));
        assert!(mark.knows_removals(&operator) && !mark.follow_removals(&operator));
        operator.restore_pages(&PageSet::read("http://a/x").unwrap()).unwrap();
        assert!(!mark.follow_removals(&operator), "what is put back is sent when it is visited");
    }
}
