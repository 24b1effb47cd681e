//! Twins of the nouns that cross nodes.

use super::WireError;
use farol_base::{
    CanonicalUrl, ContentHash, Document, HostHash, Language, Origin, PageId, PagePosition, Shown, Timestamp,
};
use farol_links::OutLink;
use serde::{Deserialize, Serialize};

/// A position in an agent's archive: file, byte.
pub type WirePosition = (u32, u64);

pub fn position(at: PagePosition) -> WirePosition {
    (at.file, at.offset)
}

pub fn read_position((file, offset): WirePosition) -> PagePosition {
    PagePosition { file, offset }
}

pub fn language(language: Language) -> String {
    language.code().to_string()
}

pub fn read_language(code: &str) -> Result<Language, WireError> {
    Language::parse(code).ok_or_else(|| WireError::Damaged(format!("{code:?} is no language")))
}

/// An address that another node calls canonical; it is not believed.
pub fn read_url(text: &str) -> Result<CanonicalUrl, WireError> {
    CanonicalUrl::parse(text).map_err(|error| WireError::Damaged(format!("{text:?} is no address: {error}")))
}

/// Twin of [`Document`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireDocument {
    pub url: String,
    pub title: String,
    pub headings: String,
    pub body: String,
    pub rest: String,
    pub description: String,
    pub anchors: String,
    pub language: Option<String>,
    pub file_type: String,
    pub fetched: u64,
    pub dated: Option<u64>,
    pub content_hash: u128,
    pub simhash: u64,
    pub position: WirePosition,
    pub shown: WireShown,
    pub source: Option<WireOrigin>,
}

/// Twin of [`Shown`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireShown {
    Passage,
    Nothing,
    Lead(String),
}

/// Twin of [`Origin`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireOrigin {
    pub engine: [u8; 32],
    pub name: String,
    pub site: String,
    pub copy: bool,
}

impl From<&Origin> for WireOrigin {
    fn from(origin: &Origin) -> WireOrigin {
        let Origin { engine, name, site, copy } = origin.clone();
        WireOrigin { engine, name, site, copy }
    }
}

impl From<WireOrigin> for Origin {
    fn from(wire: WireOrigin) -> Origin {
        let WireOrigin { engine, name, site, copy } = wire;
        Origin { engine, name, site, copy }
    }
}

impl From<&Document> for WireDocument {
    fn from(document: &Document) -> WireDocument {
        WireDocument {
            url: document.url.to_string(),
            title: document.title.clone(),
            headings: document.headings.clone(),
            body: document.body.clone(),
            rest: document.rest.clone(),
            description: document.description.clone(),
            anchors: document.anchors.clone(),
            language: document.language.map(language),
            file_type: document.file_type.clone(),
            fetched: document.fetched.as_millis(),
            dated: document.dated.map(Timestamp::as_millis),
            content_hash: document.content_hash.0,
            simhash: document.simhash,
            position: position(document.position),
            shown: match &document.shown {
                Shown::Passage => WireShown::Passage,
                Shown::Nothing => WireShown::Nothing,
                Shown::Lead(lead) => WireShown::Lead(lead.clone()),
            },
            source: document.source.as_ref().map(WireOrigin::from),
        }
    }
}

impl TryFrom<WireDocument> for Document {
    type Error = WireError;

    fn try_from(wire: WireDocument) -> Result<Document, WireError> {
        Ok(Document {
            url: read_url(&wire.url)?,
            title: wire.title,
            headings: wire.headings,
            body: wire.body,
            rest: wire.rest,
            description: wire.description,
            anchors: wire.anchors,
            language: wire.language.as_deref().map(read_language).transpose()?,
            file_type: wire.file_type,
            fetched: Timestamp::from_millis(wire.fetched),
            dated: wire.dated.map(Timestamp::from_millis),
            content_hash: ContentHash(wire.content_hash),
            simhash: wire.simhash,
            position: read_position(wire.position),
            shown: match wire.shown {
                WireShown::Passage => Shown::Passage,
                WireShown::Nothing => Shown::Nothing,
                WireShown::Lead(lead) => Shown::Lead(lead),
            },
            source: wire.source.map(Origin::from),
        })
    }
}

/// Twin of [`OutLink`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireLink {
    pub target: u64,
    pub target_host: u64,
    pub anchor: String,
    pub nofollow: bool,
}

impl From<&OutLink> for WireLink {
    fn from(link: &OutLink) -> WireLink {
        WireLink {
            target: link.target.0,
            target_host: link.target_host.0,
            anchor: link.anchor.clone(),
            nofollow: link.nofollow,
        }
    }
}

impl From<WireLink> for OutLink {
    fn from(wire: WireLink) -> OutLink {
        OutLink {
            target: PageId(wire.target),
            target_host: HostHash(wire.target_host),
            anchor: wire.anchor,
            nofollow: wire.nofollow,
        }
    }
}
