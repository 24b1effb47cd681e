//! What an archived answer, or an order of the operator, means for the index and for the graph of links.

use super::interpret::{Interpreted, PageOutcome};
use crate::fabric::Change;
use crate::page_set::PageSet;
use farol_base::{CanonicalUrl, Document, PagePosition};
use farol_links::OutLink;

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

/// What an answer means for the graph of links; takes the links out of it.
pub fn links_of(url: &CanonicalUrl, at: PagePosition, interpreted: &mut Interpreted) -> Option<Change> {
    match &interpreted.outcome {
        PageOutcome::Page(_) => {
            let links = std::mem::take(&mut interpreted.links).into_iter().map(|link| OutLink {
                target: link.url.id(),
                target_host: link.url.host_hash(),
                anchor: link.anchor,
                nofollow: link.nofollow,
            });
            Some(Change::Links { page: url.id(), host: url.host_hash(), links: links.collect(), at })
        }
        PageOutcome::Gone | PageOutcome::Redirect => Some(Change::LinksGone(url.id())),
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
