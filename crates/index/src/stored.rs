//! A document as the bytes that the index keeps of it.
//!
//! ```text
//! u8       layout, 1
//! u8 × 2   language code, zeros where unknown
//! u64      fetched, milliseconds since 1970        u64  dated, the same, all ones where unknown
//! u128     content hash                            u64  simhash
//! u32 u64  position: file, offset
//! then seven texts, each u32 length and UTF-8: url, title, description, file type, headings, anchors, body
//! ```
//! Numbers are little-endian. Tantivy adds compression (zstd) and a checksum per file.
//!
//! INVARIANT: `decode(encode(d))` is `d`, its texts cut at the limits of [`crate::schema`].

use crate::schema::{
    ANCHORS_BYTES_MAX, BODY_BYTES_MAX, DESCRIPTION_BYTES_MAX, HEADINGS_BYTES_MAX, TITLE_BYTES_MAX, cut,
};
use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition, Timestamp};

const LAYOUT: u8 = 1;
const FILE_TYPE_BYTES_MAX: usize = 64;

/// Writes a document.
pub(crate) fn encode(document: &Document) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + document.title.len() + document.body.len());
    out.push(LAYOUT);
    out.extend(document.language.as_ref().map_or([0, 0], code_bytes));
    out.extend(document.fetched.as_millis().to_le_bytes());
    out.extend(document.dated.map_or(u64::MAX, Timestamp::as_millis).to_le_bytes());
    out.extend(document.content_hash.0.to_le_bytes());
    out.extend(document.simhash.to_le_bytes());
    out.extend(document.position.file.to_le_bytes());
    out.extend(document.position.offset.to_le_bytes());
    let texts = [
        document.url.as_str(),
        cut(&document.title, TITLE_BYTES_MAX),
        cut(&document.description, DESCRIPTION_BYTES_MAX),
        cut(&document.file_type, FILE_TYPE_BYTES_MAX),
        cut(&document.headings, HEADINGS_BYTES_MAX),
        cut(&document.anchors, ANCHORS_BYTES_MAX),
        cut(&document.body, BODY_BYTES_MAX),
    ];
    for text in texts {
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
    }
    out
}

/// What is stored of a document, its texts not copied.
#[derive(Clone, Debug)]
pub(crate) struct Stored<'a> {
    pub language: Option<Language>,
    pub fetched: Timestamp,
    pub dated: Option<Timestamp>,
    pub content_hash: ContentHash,
    pub simhash: u64,
    pub position: PagePosition,
    pub url: &'a str,
    pub title: &'a str,
    pub description: &'a str,
    pub file_type: &'a str,
    pub headings: &'a str,
    pub anchors: &'a str,
    pub body: &'a str,
}

impl<'a> Stored<'a> {
    /// Reads a document; `None` where the bytes are not one.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Stored<'a>> {
        let mut rest = Reader(bytes);
        if rest.array::<1>()? != [LAYOUT] {
            return None;
        }
        let code = rest.array::<2>()?;
        Some(Stored {
            language: std::str::from_utf8(&code).ok().and_then(Language::parse),
            fetched: Timestamp::from_millis(u64::from_le_bytes(rest.array()?)),
            dated: Some(u64::from_le_bytes(rest.array()?))
                .filter(|millis| *millis != u64::MAX)
                .map(Timestamp::from_millis),
            content_hash: ContentHash(u128::from_le_bytes(rest.array()?)),
            simhash: u64::from_le_bytes(rest.array()?),
            position: PagePosition {
                file: u32::from_le_bytes(rest.array()?),
                offset: u64::from_le_bytes(rest.array()?),
            },
            url: rest.text()?,
            title: rest.text()?,
            description: rest.text()?,
            file_type: rest.text()?,
            headings: rest.text()?,
            anchors: rest.text()?,
            body: rest.text()?,
        })
    }

    /// The URL, checked again.
    pub(crate) fn canonical_url(&self) -> Option<CanonicalUrl> {
        CanonicalUrl::from_stored(self.url).ok()
    }

    /// The whole document; `None` where its URL is not canonical.
    pub(crate) fn to_document(&self) -> Option<Document> {
        Some(Document {
            url: self.canonical_url()?,
            title: self.title.to_string(),
            headings: self.headings.to_string(),
            body: self.body.to_string(),
            description: self.description.to_string(),
            anchors: self.anchors.to_string(),
            language: self.language,
            file_type: self.file_type.to_string(),
            fetched: self.fetched,
            dated: self.dated,
            content_hash: self.content_hash,
            simhash: self.simhash,
            position: self.position,
        })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = u32::from_le_bytes(self.array()?) as usize;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}

fn code_bytes(language: &Language) -> [u8; 2] {
    language.code().as_bytes().try_into().unwrap_or([0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_document_survives_being_stored() {
        let mut document = crate::testing::page("https://h.org/a?b", "Título", "corpo do texto");
        document.language = Language::parse("pt");
        document.dated = Some(Timestamp::from_secs(7));
        document.position = PagePosition { file: 3, offset: 9_000_000_000 };
        let bytes = encode(&document);
        let back = Stored::decode(&bytes).unwrap().to_document().unwrap();
        assert_eq!(format!("{back:?}"), format!("{document:?}"));
        // A text that is too long is cut on a character.
        document.title = "é".repeat(TITLE_BYTES_MAX);
        let bytes = encode(&document);
        assert_eq!(Stored::decode(&bytes).unwrap().title.len(), TITLE_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let _ = Stored::decode(&bytes);
            let whole = encode(&crate::testing::page("http://h/", "t", "b"));
            let torn = Stored::decode(&whole[..cut.min(whole.len() - 1)]);
            prop_assert!(torn.is_none());
        }
    }
}
