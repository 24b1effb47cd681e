//! What a page that was received means for the crawl, the link graph and the index.
//!
//! Works from the archived entry alone, as [`super::interpret`] does. Whether a page is taken in was decided before it
//! was archived ([`super::take_in`]); here it is believed.

use super::interpret::{Interpreted, Interpreter, PageContent, PageOutcome};
use farol_base::{Document, Origin, PagePosition, Shown};
use farol_federation::agreement::{EngineId, Grade};
use farol_federation::packet::{Body, PageEntry, read_record, write_record};
use farol_store::pages::{Archived, Conversion};
use farol_store::urls::Found;

/// Content type of an archived page that was received.
pub const PAGE: &str = "application/vnd.farol.page";
/// Content type of an archived word that a page is gone.
pub const GONE: &str = "application/vnd.farol.gone";

/// Whether a content type is that of entries that we archive of received pages.
pub fn is_ours(content_type: &str) -> bool {
    content_type == PAGE || content_type == GONE
}

impl Interpreter {
    /// Reads an entry of the archive; `depth` is how many links lie between a seed and the page, for pages that were
    /// fetched. Of those that were received it stands in the entry.
    pub fn interpret_archived(&self, archived: &Archived, depth: u16) -> Interpreted {
        match archived {
            Archived::Exchange(exchange) => self.interpret(exchange, depth),
            Archived::Conversion(page) => interpret(page),
        }
    }
}

fn interpret(page: &Conversion) -> Interpreted {
    let read = match read_record(&page.block) {
        Ok((body, grade, _)) => body.pages.first().cloned().map(|entry| of_page(entry, &body, grade)),
        Err(error) => {
            // The archive's checksums are right, so this is a form that is not known here: what is kept stays as it is.
            tracing::warn!(url = %page.url, %error, "a received page cannot be read");
            return Interpreted::plain(PageOutcome::NotModified);
        }
    };
    read.unwrap_or_else(|| Interpreted::plain(PageOutcome::Gone))
}

fn of_page(mut entry: PageEntry, body: &Body, grade: Grade) -> Interpreted {
    let links = std::mem::take(&mut entry.links);
    let next = entry.hops.saturating_add(1);
    let follows = !entry.flags.nofollow;
    let followed = links.iter().filter(|link| follows && !link.nofollow);
    let found = followed.map(|link| Found { url: link.url.clone(), depth: next, hint: None }).collect();
    let (content_hash, nofollow) = (entry.content_hash, entry.flags.nofollow);
    let noarchive = entry.flags.noarchive;
    let document = document_of(entry, body, grade);
    let content = PageContent {
        document: Ok(document),
        nofollow,
        noarchive,
        content_hash,
        timeless: None,
        modified: None,
    };
    Interpreted { outcome: PageOutcome::Page(Box::new(content)), links, found, moved: None }
}

fn document_of(entry: PageEntry, body: &Body, grade: Grade) -> Document {
    let origin = entry.origin;
    let name = body.engines.iter().find(|(engine, _)| *engine == origin).map_or("", |(_, name)| name);
    let texts = entry.texts;
    Document {
        url: entry.url,
        title: texts.title,
        headings: texts.headings,
        body: texts.body,
        rest: texts.rest,
        description: texts.description,
        anchors: String::new(),
        language: entry.language,
        file_type: entry.file_type,
        fetched: entry.fetched,
        dated: entry.dated,
        content_hash: entry.content_hash,
        simhash: entry.simhash,
        position: PagePosition::default(),
        shown: match grade {
            _ if entry.flags.nosnippet => Shown::Nothing,
            Grade::Text => Shown::Passage,
            Grade::Words => Shown::Lead(texts.lead),
        },
        source: Some(Origin::named(origin.0, name, entry.flags.copy_offered && !entry.flags.noarchive)),
    }
}

/// A body with one entry as it is archived.
pub fn archived(
    one: &Body,
    grade: Grade,
    analysis: u32,
    metadata: Vec<(String, String)>,
) -> Option<Conversion> {
    let (url, fetched, content_type) = match (one.pages.first(), one.gone.first()) {
        (Some(page), _) => (page.url.clone(), page.fetched, PAGE),
        (None, Some(gone)) => (gone.url.clone(), gone.at, GONE),
        (None, None) => return None,
    };
    Some(Conversion {
        url,
        fetched,
        content_type: content_type.to_string(),
        block: write_record(one, grade, analysis).into(),
        metadata,
    })
}

/// Who fetched a page that was received; who sent word of it where it is gone.
pub fn origin_of(page: &Conversion) -> Option<EngineId> {
    let (body, ..) = read_record(&page.block).ok()?;
    match body.pages.first() {
        Some(entry) => Some(entry.origin),
        None => body.engines.first().map(|(engine, _)| *engine),
    }
}
