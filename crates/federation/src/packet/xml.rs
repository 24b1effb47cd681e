//! The form `radix-1`: packets as the thesis published them, for engines that are not Farol \[Fernandes01, appendix A\].
//!
//! ```text
//! packet (webview, page*, URL*)    page (address, visitedDate, modifiedDate, size, title, paragraph, word*, link*)
//! word (name, occurrency, positions)
//! ```
//! Texts are spelled as [`super::form`] says; dates are milliseconds since 1970. The thesis declares its leaves as
//! `(CDATA)`, which XML forbids; we write `(#PCDATA)`, and read either, as a document type is never looked at.
//!
//! INVARIANT: time and memory are linear in the input; declared entities are never expanded.
//! What pages mean by it is in `xml_page.rs`; whoever reads a file undoes gzip.

use super::{ENTRIES_MAX, form};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::fmt::Write as _;

/// Longest document that is read, unpacked.
pub const XML_BYTES_MAX: usize = 64 << 20;
/// Words of a page that are read.
pub const WORDS_MAX: usize = 100_000;
/// Places of all words of a page that are read.
pub const POSITIONS_MAX: usize = 500_000;
/// Longest text of one element.
const LEAF_BYTES_MAX: usize = 4 << 20;

/// A packet in this form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RadixPacket {
    /// What the packet is about: `.br`.
    pub webview: String,
    /// Its pages.
    pub pages: Vec<RadixPage>,
    /// Addresses without pages. The thesis does not say what they are; we take them for pages that are gone.
    pub urls: Vec<String>,
}

/// A page in this form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RadixPage {
    /// Its address.
    pub address: String,
    /// When it was fetched, milliseconds since 1970.
    pub visited: Option<u64>,
    /// When it was last changed, the same.
    pub modified: Option<u64>,
    /// Bytes of the page.
    pub size: u64,
    /// Its title.
    pub title: String,
    /// Its opening text.
    pub paragraph: String,
    /// Its words.
    pub words: Vec<RadixWord>,
    /// Addresses of pages that it links to.
    pub links: Vec<String>,
}

/// A word of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RadixWord {
    /// The word, or `#suffix#` of the host's name.
    pub name: String,
    /// How often it stands there, counted by where.
    pub occurrency: u32,
    /// Where, from 1.
    pub positions: Vec<u32>,
}

/// Why a document is no packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}: {why}")]
pub struct XmlError {
    /// Where reading stopped.
    pub offset: u64,
    /// What is wrong there, as a sentence.
    pub why: String,
}

/// Reads a packet.
///
/// # Errors
/// Where the document is no packet, is too large, or names entities of its own.
pub fn read(text: &str) -> Result<RadixPacket, XmlError> {
    if text.len() > XML_BYTES_MAX {
        return Err(XmlError {
            offset: 0,
            why: format!("the document is larger than {XML_BYTES_MAX} bytes"),
        });
    }
    let mut reader = Reader::from_str(text);
    let mut at = Reading::default();
    loop {
        let event = reader
            .read_event()
            .map_err(|error| XmlError { offset: reader.error_position(), why: error.to_string() })?;
        let step = match &event {
            Event::Start(tag) => at.open(tag.local_name().as_ref()),
            Event::Empty(tag) => {
                let name = tag.local_name();
                at.open(name.as_ref()).and_then(|()| at.close())
            }
            Event::End(_) => at.close(),
            Event::Text(text) => at.text(text),
            Event::CData(text) => at.text(text),
            Event::GeneralRef(name) => at.reference(name),
            Event::Eof => return at.end().map_err(|why| XmlError { offset: text.len() as u64, why }),
            Event::Comment(_) | Event::Decl(_) | Event::DocType(_) | Event::PI(_) => Ok(()),
        };
        step.map_err(|why| XmlError { offset: reader.buffer_position(), why })?;
    }
}

/// Elements that hold a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaf {
    WebView,
    Url,
    Address,
    Visited,
    Modified,
    Size,
    Title,
    Paragraph,
    Link,
    Name,
    Occurrency,
    Positions,
}

/// Where in the document reading is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Before,
    Packet,
    Page,
    Word,
    Leaf(Leaf),
    After,
}

#[derive(Debug, Default)]
struct Reading {
    packet: RadixPacket,
    page: RadixPage,
    word: RadixWord,
    leaf: String,
    inside: Inside,
    /// Elements that are not of the form, and what is in them, are passed over.
    unknown: u32,
    positions: usize,
}

impl Reading {
    fn open(&mut self, name: &str) -> Result<(), String> {
        if self.unknown > 0 {
            self.unknown += 1;
            return Ok(());
        }
        self.inside = match (self.inside, name) {
            (Inside::Before, "packet") => Inside::Packet,
            (Inside::Before | Inside::After, _) => {
                return Err(format!("expected <packet>, found <{}>", shown(name)));
            }
            (Inside::Packet, "page") => {
                self.page = RadixPage::default();
                self.positions = 0;
                Inside::Page
            }
            (Inside::Page, "word") => {
                self.word = RadixWord::default();
                Inside::Word
            }
            (inside, name) => match leaf(inside, name) {
                Some(leaf) => {
                    self.leaf.clear();
                    Inside::Leaf(leaf)
                }
                None => {
                    self.unknown = 1;
                    inside
                }
            },
        };
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        if self.unknown > 0 {
            self.unknown -= 1;
            return Ok(());
        }
        self.inside = match self.inside {
            Inside::Leaf(leaf) => self.close_leaf(leaf)?,
            Inside::Word => {
                if self.page.words.len() >= WORDS_MAX {
                    return Err(format!("a page has more than {WORDS_MAX} words"));
                }
                self.page.words.push(std::mem::take(&mut self.word));
                Inside::Page
            }
            Inside::Page => {
                self.has_room()?;
                self.packet.pages.push(std::mem::take(&mut self.page));
                Inside::Packet
            }
            Inside::Packet => Inside::After,
            Inside::Before | Inside::After => return Err("an element ends that did not begin".to_string()),
        };
        Ok(())
    }

    fn close_leaf(&mut self, leaf: Leaf) -> Result<Inside, String> {
        let text = form::decode(self.leaf.trim());
        let page = &mut self.page;
        match leaf {
            Leaf::WebView => self.packet.webview = text,
            Leaf::Url => {
                self.has_room()?;
                self.packet.urls.push(text);
            }
            Leaf::Address => page.address = text,
            Leaf::Visited => page.visited = number(&text, "visitedDate")?,
            Leaf::Modified => page.modified = number(&text, "modifiedDate")?,
            Leaf::Size => page.size = number(&text, "size")?.unwrap_or(0),
            Leaf::Title => page.title = text,
            Leaf::Paragraph => page.paragraph = text,
            Leaf::Link if page.links.len() >= super::LINKS_MAX => page.links.truncate(super::LINKS_MAX),
            Leaf::Link => page.links.push(text),
            Leaf::Name => self.word.name = text,
            Leaf::Occurrency => {
                let count = number(&text, "occurrency")?.unwrap_or(0);
                self.word.occurrency = u32::try_from(count).unwrap_or(u32::MAX);
            }
            Leaf::Positions => {
                for place in text.split(',').map(str::trim).filter(|place| !place.is_empty()) {
                    self.positions += 1;
                    if self.positions > POSITIONS_MAX {
                        return Err(format!("a page has more than {POSITIONS_MAX} places of words"));
                    }
                    let place = place.parse().ok().filter(|place| *place > 0);
                    self.word.positions.push(place.ok_or("positions are numbers from 1, between commas")?);
                }
            }
        }
        Ok(match leaf {
            Leaf::WebView | Leaf::Url => Inside::Packet,
            Leaf::Name | Leaf::Occurrency | Leaf::Positions => Inside::Word,
            _ => Inside::Page,
        })
    }

    fn has_room(&self) -> Result<(), String> {
        let entries = self.packet.pages.len() + self.packet.urls.len();
        if entries < ENTRIES_MAX {
            Ok(())
        } else {
            Err(format!("the packet has more than {ENTRIES_MAX} pages"))
        }
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        if self.unknown > 0 || !matches!(self.inside, Inside::Leaf(_)) {
            return Ok(());
        }
        if self.leaf.len() + text.len() > LEAF_BYTES_MAX {
            return Err(format!("an element has more than {LEAF_BYTES_MAX} bytes of text"));
        }
        self.leaf.push_str(text);
        Ok(())
    }

    fn reference(&mut self, name: &str) -> Result<(), String> {
        let number = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        });
        let letter = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => number.and_then(char::from_u32),
        };
        match letter {
            Some(letter) => self.text(letter.encode_utf8(&mut [0; 4])),
            None => Err(format!("&{};: entities of a document's own are not read", shown(name))),
        }
    }

    fn end(self) -> Result<RadixPacket, String> {
        match self.inside {
            Inside::After => Ok(self.packet),
            Inside::Before => Err("there is no <packet>".to_string()),
            _ => Err("the document ends before </packet>".to_string()),
        }
    }
}

fn leaf(inside: Inside, name: &str) -> Option<Leaf> {
    match (inside, name) {
        (Inside::Packet, "webview") => Some(Leaf::WebView),
        (Inside::Packet, "URL") => Some(Leaf::Url),
        (Inside::Page, "address") => Some(Leaf::Address),
        (Inside::Page, "visitedDate") => Some(Leaf::Visited),
        (Inside::Page, "modifiedDate") => Some(Leaf::Modified),
        (Inside::Page, "size") => Some(Leaf::Size),
        (Inside::Page, "title") => Some(Leaf::Title),
        (Inside::Page, "paragraph") => Some(Leaf::Paragraph),
        (Inside::Page, "link") => Some(Leaf::Link),
        (Inside::Word, "name") => Some(Leaf::Name),
        (Inside::Word, "occurrency") => Some(Leaf::Occurrency),
        (Inside::Word, "positions") => Some(Leaf::Positions),
        _ => None,
    }
}

/// A number; dates before 1970 and empty texts are unknown.
fn number(text: &str, what: &str) -> Result<Option<u64>, String> {
    match text.trim() {
        "" => Ok(None),
        text if text.strip_prefix('-').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())) => {
            Ok(None)
        }
        text => text.parse().map(Some).map_err(|_| format!("{what} is no number: {}", shown(text))),
    }
}

/// The beginning of a text, for a sentence.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

const DOCUMENT_TYPE: &str = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE packet [
<!ELEMENT packet (webview, page*, URL*)>
<!ELEMENT page (address, visitedDate, modifiedDate, size, title, paragraph, word*, link*)>
<!ELEMENT word (name, occurrency, positions)>
<!ELEMENT webview (#PCDATA)>
<!ELEMENT address (#PCDATA)>
<!ELEMENT visitedDate (#PCDATA)>
<!ELEMENT modifiedDate (#PCDATA)>
<!ELEMENT size (#PCDATA)>
<!ELEMENT title (#PCDATA)>
<!ELEMENT paragraph (#PCDATA)>
<!ELEMENT name (#PCDATA)>
<!ELEMENT occurrency (#PCDATA)>
<!ELEMENT positions (#PCDATA)>
<!ELEMENT link (#PCDATA)>
<!ELEMENT URL (#PCDATA)>
]>
";

/// Writes a packet.
pub fn write(packet: &RadixPacket) -> String {
    let mut out = String::from(DOCUMENT_TYPE);
    let line = |out: &mut String, name: &str, text: &str| {
        let _ = writeln!(out, "<{name}>{}</{name}>", form::encode(text));
    };
    let date = |at: Option<u64>| at.map_or(String::new(), |at| at.to_string());
    out.push_str("<packet>\n");
    line(&mut out, "webview", &packet.webview);
    for page in &packet.pages {
        out.push_str("<page>\n");
        line(&mut out, "address", &page.address);
        line(&mut out, "visitedDate", &date(page.visited));
        line(&mut out, "modifiedDate", &date(page.modified));
        line(&mut out, "size", &page.size.to_string());
        line(&mut out, "title", &page.title);
        line(&mut out, "paragraph", &page.paragraph);
        for word in &page.words {
            let places: Vec<String> = word.positions.iter().map(u32::to_string).collect();
            let _ = writeln!(
                out,
                "<word><name>{}</name><occurrency>{}</occurrency><positions>{}</positions></word>",
                form::encode(&word.name),
                word.occurrency,
                places.join(",")
            );
        }
        page.links.iter().for_each(|link| line(&mut out, "link", link));
        out.push_str("</page>\n");
    }
    packet.urls.iter().for_each(|url| line(&mut out, "URL", url));
    out.push_str("</packet>\n");
    out
}
