//! Stored fields: a document as the bytes that the index keeps of it.
//!
//! ```text
//! u8       layout, 2
//! u8 × 2   language code, zeros where unknown
//! u64      fetched, milliseconds since 1970        u64  dated, the same, all ones where unknown
//! u128     content hash                            u64  simhash
//! u32 u64  position: file, offset
//! then eight texts, each u32 length and UTF-8: url, title, description, file type, headings, anchors, body, rest
//! ```
//! Numbers are little-endian. Tantivy adds compression (zstd) and a checksum per file.
//!
//! INVARIANT: `decode(encode(d))` is `d`, its texts cut at the limits of [`super::limits`].

use super::limits::{
    ANCHORS_BYTES_MAX, BODY_BYTES_MAX, DESCRIPTION_BYTES_MAX, HEADINGS_BYTES_MAX, REST_BYTES_MAX,
    TITLE_BYTES_MAX, cut,
};
use farol_base::codec::{DecodeError, Decoder};
use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition, Timestamp};

const LAYOUT: u8 = 2;
const FILE_TYPE_BYTES_MAX: usize = 64;

/// Writes a document.
pub(crate) fn encode(document: &Document) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + document.title.len() + document.body.len() + document.rest.len());
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
        cut(&document.rest, REST_BYTES_MAX),
    ];
    for text in texts {
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
    }
    out
}

/// What is stored of a document, its texts not copied.
#[derive(Clone, Debug)]
pub(crate) struct StoredDocument<'a> {
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
    pub rest: &'a str,
}

impl<'a> StoredDocument<'a> {
    /// Reads a document; `None` where the bytes are not one.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<StoredDocument<'a>> {
        StoredDocument::try_decode(bytes).ok()
    }

    fn try_decode(bytes: &'a [u8]) -> Result<StoredDocument<'a>, DecodeError> {
        let mut rest = Decoder::of(bytes);
        if rest.byte()? != LAYOUT {
            return Err("another layout");
        }
        let code = rest.fixed::<2>()?;
        Ok(StoredDocument {
            language: std::str::from_utf8(&code).ok().and_then(Language::parse),
            fetched: Timestamp::from_millis(rest.u64()?),
            dated: Some(rest.u64()?).filter(|millis| *millis != u64::MAX).map(Timestamp::from_millis),
            content_hash: ContentHash(rest.u128()?),
            simhash: rest.u64()?,
            position: PagePosition { file: rest.u32()?, offset: rest.u64()? },
            url: text(&mut rest)?,
            title: text(&mut rest)?,
            description: text(&mut rest)?,
            file_type: text(&mut rest)?,
            headings: text(&mut rest)?,
            anchors: text(&mut rest)?,
            body: text(&mut rest)?,
            rest: text(&mut rest)?,
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
            rest: self.rest.to_string(),
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

/// A text after its length in four bytes.
fn text<'a>(rest: &mut Decoder<'a>) -> Result<&'a str, DecodeError> {
    let len = rest.u32()? as usize;
    std::str::from_utf8(rest.take(len)?).map_err(|_| "a text that is not UTF-8")
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
        let back = StoredDocument::decode(&bytes).unwrap().to_document().unwrap();
        assert_eq!(format!("{back:?}"), format!("{document:?}"));
        // A text that is too long is cut on a character.
        document.title = "é".repeat(TITLE_BYTES_MAX);
        let bytes = encode(&document);
        assert_eq!(StoredDocument::decode(&bytes).unwrap().title.len(), TITLE_BYTES_MAX);
    }

    #[test]
    fn inputs_that_the_fuzzer_found_are_still_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/stored");
        for input in std::fs::read_dir(folder).unwrap() {
            let bytes = [vec![LAYOUT], std::fs::read(input.unwrap().path()).unwrap()].concat();
            let Some(document) = StoredDocument::decode(&bytes).and_then(|stored| stored.to_document())
            else {
                continue;
            };
            let written = encode(&document);
            let again = StoredDocument::decode(&written).and_then(|stored| stored.to_document()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{document:?}"));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let _ = StoredDocument::decode(&bytes);
            let whole = encode(&crate::testing::page("http://h/", "t", "b"));
            let torn = StoredDocument::decode(&whole[..cut.min(whole.len() - 1)]);
            prop_assert!(torn.is_none());
        }
    }
}
