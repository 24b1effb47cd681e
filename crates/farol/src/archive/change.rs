//! What an archived answer, or an order of the operator, means for the index.

use super::interpret::PageOutcome;
use crate::fabric::Change;
use crate::page_set::PageSet;
use farol_base::{CanonicalUrl, Document, PagePosition};

/// What an answer means for the index; an unchanged page is no news.
pub fn change_of(url: &CanonicalUrl, position: PagePosition, outcome: PageOutcome) -> Option<Change> {
    match outcome {
        PageOutcome::Page(page) => Some(match page.document {
            Ok(document) => Change::Put(Box::new(Document { position, ..document })),
            Err(_) => Change::Delete(url.clone()),
        }),
        PageOutcome::Gone | PageOutcome::Redirect => Some(Change::Delete(url.clone())),
        PageOutcome::NotModified | PageOutcome::List | PageOutcome::Robots(_) => None,
    }
}

/// What removing pages means for the index.
pub fn deletion_of(pages: PageSet) -> Change {
    match pages {
        PageSet::One(url) => Change::Delete(url),
        PageSet::Under(prefix) => Change::DeleteUnder(prefix),
    }
}
