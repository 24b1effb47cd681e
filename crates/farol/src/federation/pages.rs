//! Archived pages as they are sent to other engines.
//!
//! INVARIANT: of a page that was fetched here and one that was received and goes on, the entry says the same to whoever
//! takes it in: texts, links, fingerprints and dates are those that the index has here.

use crate::archive::interpret::{Interpreter, PageContent, PageOutcome, StaysOut};
use crate::archive::replay::depth_of;
use farol_base::{Document, Shown};
use farol_federation::agreement::EngineId;
use farol_federation::agreement::Grade;
use farol_federation::packet::{
    Flags, Gone, GoneReason, LEAD_BYTES_MAX, LINKS_MAX, PageEntry, Texts, VIA_MAX, read_record,
};
use farol_index::WordCutter;
use farol_parse::Wants;
use farol_store::pages::{Archived, Exchange};

/// Bytes of a page's texts that travel: what an index keeps, 2,048 KiB of main text and 512 KiB around it.
const BODY_BYTES_MAX: usize = 2048 << 10;
const REST_BYTES_MAX: usize = 512 << 10;
const SHORT_BYTES_MAX: usize = 32 << 10;

/// What an archived entry has for other engines.
#[derive(Clone, Debug)]
pub enum Sendable {
    /// A page, in the grade in which it can travel, with the names of the engines that it came by.
    Page(Box<PageEntry>, Vec<(EngineId, String)>),
    /// A page is gone, or not for the index.
    Gone(Gone),
}

/// Makes entries of archived pages.
pub struct Sender {
    pub me: EngineId,
    pub interpreter: Interpreter,
    /// Whether anybody can see stored copies here.
    pub offers_copies: bool,
    pub grade: Grade,
    cutter: WordCutter,
}

impl Sender {
    pub fn new(me: EngineId, interpreter: Interpreter, offers_copies: bool, grade: Grade) -> Sender {
        // The texts as well, wherever the interpreter was used before.
        let interpreter = Interpreter { wants: Wants::Everything, ..interpreter };
        Sender { me, interpreter, offers_copies, grade, cutter: WordCutter::default() }
    }

    /// What other engines are told of an entry; nothing of robots rules, lists, and pages that came unchanged, nor of a
    /// page that came as words where texts are sent.
    pub fn read(&mut self, archived: &Archived) -> Option<Sendable> {
        match archived {
            Archived::Exchange(exchange) => self.fetched(exchange),
            Archived::Conversion(page) => {
                let (body, grade, _) = read_record(&page.block).ok()?;
                if let Some(gone) = body.gone.into_iter().next() {
                    return Some(Sendable::Gone(gone));
                }
                let mut entry = body.pages.into_iter().next()?;
                match (grade, self.grade) {
                    (Grade::Words, Grade::Text) => return None,
                    (Grade::Text, Grade::Words) => self.reduce_to_words(&mut entry),
                    _ => {}
                }
                if entry.via.len() >= VIA_MAX || entry.via.contains(&self.me) {
                    return None;
                }
                entry.via.push(self.me);
                Some(Sendable::Page(Box::new(entry), body.engines))
            }
        }
    }

    fn fetched(&mut self, exchange: &Exchange) -> Option<Sendable> {
        let interpreted = self.interpreter.interpret(exchange, depth_of(exchange));
        let gone =
            |reason| Some(Sendable::Gone(Gone { url: exchange.url.clone(), at: exchange.fetched, reason }));
        let page = match interpreted.outcome {
            PageOutcome::Page(page) => *page,
            PageOutcome::Gone => return gone(GoneReason::Gone),
            PageOutcome::Redirect => return gone(GoneReason::Moved),
            PageOutcome::NotModified | PageOutcome::List | PageOutcome::Robots(_) => return None,
        };
        let PageContent { document, nofollow, noarchive, .. } = page;
        let document = match document {
            Ok(document) => document,
            Err(StaysOut::NoIndex) => return gone(GoneReason::NoIndex),
            Err(StaysOut::Elsewhere(_)) => return gone(GoneReason::Moved),
            Err(StaysOut::OutsideView(_)) => return gone(GoneReason::LeftView),
            Err(StaysOut::Expired | StaysOut::NotText(_) | StaysOut::Empty) => return gone(GoneReason::Gone),
        };
        let mut links = interpreted.links;
        let was_cut = links.len() > LINKS_MAX || document.body.len() > BODY_BYTES_MAX;
        links.truncate(LINKS_MAX);
        let flags = Flags {
            noarchive,
            nosnippet: document.shown == Shown::Nothing,
            nofollow,
            copy_offered: self.offers_copies && !noarchive,
            cut: was_cut,
        };
        let media_type = exchange.header("content-type");
        let media_type =
            media_type.map(|text| text.split(';').next().unwrap_or("").trim().to_ascii_lowercase());
        let mut entry = PageEntry {
            origin: self.me,
            via: Vec::new(),
            fetched: document.fetched,
            dated: document.dated,
            language: document.language,
            flags,
            hops: depth_of(exchange),
            size: exchange.body.len() as u64,
            content_hash: document.content_hash,
            simhash: document.simhash,
            file_type: document.file_type.clone(),
            media_type: media_type.filter(|media| media != "text/html" || document.file_type != "html"),
            address: exchange.address,
            texts: texts_of(&document),
            links,
            url: document.url,
        };
        if self.grade == Grade::Words {
            self.reduce_to_words(&mut entry);
        }
        Some(Sendable::Page(Box::new(entry), Vec::new()))
    }

    /// Leaves a page's texts away for their words.
    fn reduce_to_words(&mut self, entry: &mut PageEntry) {
        let texts = &entry.texts;
        let opening = [&texts.description, &texts.body, &texts.headings];
        let opening = opening.into_iter().find(|text| !text.trim().is_empty()).map_or("", |text| text.trim());
        let lead = match entry.flags.nosnippet {
            true => String::new(),
            false => cut(opening, LEAD_BYTES_MAX).to_string(),
        };
        let mut words = |text: &str| self.cutter.cut(text);
        entry.texts = Texts {
            title: texts.title.clone(),
            lead,
            title_words: words(&texts.title),
            description: words(&texts.description),
            headings: words(&texts.headings),
            body: words(&texts.body),
            rest: words(&texts.rest),
        };
    }
}

fn texts_of(document: &Document) -> Texts {
    Texts {
        title: cut(&document.title, SHORT_BYTES_MAX).to_string(),
        description: cut(&document.description, SHORT_BYTES_MAX).to_string(),
        headings: cut(&document.headings, SHORT_BYTES_MAX).to_string(),
        body: cut(&document.body, BODY_BYTES_MAX).to_string(),
        rest: cut(&document.rest, REST_BYTES_MAX).to_string(),
        ..Texts::default()
    }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
