//! Walks XML from front to back, as far as it can be read, for sitemaps and feeds.
//!
//! INVARIANT: time and memory are linear in the input. Declared entities are never expanded (only HTML's own
//! names and numbers mean something), so no document is larger inside than outside.
//! Does not check that tags match: a reader that asks for little understands more of a broken file.

use crate::html::entities::{self, Place};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::borrow::Cow;

/// Longest text of one element that is kept, markup and escapes included; the rest is left out.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

/// A part of a document. Names are without their prefix.
pub enum XmlNode<'a> {
    Start(&'a str, Attributes<'a>),
    Text(Text<'a>),
    End(&'a str),
}

/// A piece of text between tags.
#[derive(Clone, Copy)]
pub enum Text<'a> {
    /// Ordinary text, without references.
    Plain(&'a str),
    /// The name of a reference: `amp`, `#233`.
    Reference(&'a str),
    /// From a CDATA section: `&` means itself.
    Literal(&'a str),
}

/// Why a document was not read to its end.
#[derive(Debug, PartialEq, Eq)]
pub struct XmlError {
    /// Byte of the decoded text.
    pub offset: u64,
    pub why: String,
}

/// Shows every node to `visit`, until it says `false`.
pub fn walk(text: &str, mut visit: impl FnMut(XmlNode<'_>) -> bool) -> Result<(), XmlError> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    loop {
        let event = reader
            .read_event()
            .map_err(|error| XmlError { offset: reader.error_position(), why: error.to_string() })?;
        let more = match &event {
            Event::Start(tag) => visit(XmlNode::Start(tag.local_name().as_ref(), Attributes(tag))),
            Event::Empty(tag) => {
                let name = tag.local_name();
                visit(XmlNode::Start(name.as_ref(), Attributes(tag))) && visit(XmlNode::End(name.as_ref()))
            }
            Event::End(tag) => visit(XmlNode::End(tag.local_name().as_ref())),
            Event::Text(text) => visit(XmlNode::Text(Text::Plain(text))),
            Event::GeneralRef(name) => visit(XmlNode::Text(Text::Reference(name))),
            Event::CData(text) => visit(XmlNode::Text(Text::Literal(text))),
            Event::Eof => return Ok(()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => true,
        };
        if !more {
            return Ok(());
        }
    }
}

/// The attributes of a tag.
pub struct Attributes<'a>(&'a BytesStart<'a>);

impl<'a> Attributes<'a> {
    /// The decoded value of the first attribute with this name, its prefix not counted.
    pub fn get(&self, name: &str) -> Option<String> {
        let mut attributes = self.0.html_attributes();
        let attributes = attributes.with_checks(false).flatten();
        let found =
            attributes.filter(|attribute| attribute.key.local_name().as_ref() == name).take(1).last()?;
        let raw: &str = cut(&found.value);
        Some(entities::decode(raw, Place::Attribute).into_owned())
    }
}

/// The text of an element as it comes in pieces.
#[derive(Debug, Default)]
pub struct TextBuffer {
    /// With references as they are written; decoded at the end, since names can be split over pieces.
    raw: String,
}

impl TextBuffer {
    pub fn clear(&mut self) {
        self.raw.clear();
    }

    pub fn push(&mut self, text: Text<'_>) {
        if self.raw.len() >= TEXT_BYTES_MAX {
            return;
        }
        match text {
            Text::Plain(text) => self.raw.push_str(cut(text)),
            Text::Reference(name) => {
                self.raw.push('&');
                self.raw.push_str(cut(name));
                self.raw.push(';');
            }
            Text::Literal(text) => self.raw.push_str(&cut(text).replace('&', "&amp;")),
        }
    }

    /// The text, decoded.
    pub fn text(&self) -> Cow<'_, str> {
        entities::decode(&self.raw, Place::Text)
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}
