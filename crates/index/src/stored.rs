//! Stored fields: a document as the bytes that the index keeps of it.
//!
//! ```text
//! u8       layout: 2, or 3 where there is more to say than the text
//! u8 × 2   language code, zeros where unknown
//! u64      fetched, milliseconds since 1970        u64  dated, the same, all ones where unknown
//! u128     content hash                            u64  simhash
//! u32 u64  position: file, offset
//! layout 3 only: u8  shown: 0 a passage, 1 nothing, 2 the lead alone (a text follows)
//!          u8  source: 0 none, 1 (u8 × 32 key, u8 copy, two texts: name, site)
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
use farol_base::{CanonicalUrl, ContentHash, Document, Language, Origin, PagePosition, Shown, Timestamp};

const PLAIN: u8 = 2;
const TOLD: u8 = 3;
const FILE_TYPE_BYTES_MAX: usize = 64;

/// Writes a document.
pub(crate) fn encode(document: &Document) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + document.title.len() + document.body.len() + document.rest.len());
    let is_plain = document.shown == Shown::Passage && document.source.is_none();
    out.push(if is_plain { PLAIN } else { TOLD });
    out.extend(document.language.as_ref().map_or([0, 0], code_bytes));
    out.extend(document.fetched.as_millis().to_le_bytes());
    out.extend(document.dated.map_or(u64::MAX, Timestamp::as_millis).to_le_bytes());
    out.extend(document.content_hash.0.to_le_bytes());
    out.extend(document.simhash.to_le_bytes());
    out.extend(document.position.file.to_le_bytes());
    out.extend(document.position.offset.to_le_bytes());
    if !is_plain {
        put_told(&mut out, document);
    }
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
    texts.iter().for_each(|text| put_text(&mut out, text));
    out
}

fn put_told(out: &mut Vec<u8>, document: &Document) {
    match &document.shown {
        Shown::Passage => out.push(0),
        Shown::Nothing => out.push(1),
        Shown::Lead(lead) => {
            out.push(2);
            put_text(out, cut(lead, DESCRIPTION_BYTES_MAX));
        }
    }
    out.push(u8::from(document.source.is_some()));
    if let Some(source) = &document.source {
        out.extend(source.engine);
        out.push(u8::from(source.copy));
        put_text(out, cut(&source.name, TITLE_BYTES_MAX));
        put_text(out, cut(&source.site, TITLE_BYTES_MAX));
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
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
    pub shown: Shown,
    pub source: Option<Origin>,
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
        let layout = rest.byte()?;
        if layout != PLAIN && layout != TOLD {
            return Err("another layout");
        }
        let code = rest.fixed::<2>()?;
        let language = std::str::from_utf8(&code).ok().and_then(Language::parse);
        let fetched = Timestamp::from_millis(rest.u64()?);
        let dated = Some(rest.u64()?).filter(|millis| *millis != u64::MAX).map(Timestamp::from_millis);
        let (content_hash, simhash) = (ContentHash(rest.u128()?), rest.u64()?);
        let position = PagePosition { file: rest.u32()?, offset: rest.u64()? };
        let (shown, source) =
            if layout == TOLD { (shown(&mut rest)?, source(&mut rest)?) } else { (Shown::Passage, None) };
        Ok(StoredDocument {
            language,
            fetched,
            dated,
            content_hash,
            simhash,
            position,
            shown,
            source,
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
            shown: self.shown.clone(),
            source: self.source.clone(),
        })
    }
}

fn shown(rest: &mut Decoder<'_>) -> Result<Shown, DecodeError> {
    match rest.byte()? {
        0 => Ok(Shown::Passage),
        1 => Ok(Shown::Nothing),
        2 => Ok(Shown::Lead(text(rest)?.to_string())),
        _ => Err("an unknown way to show it"),
    }
}

fn source(rest: &mut Decoder<'_>) -> Result<Option<Origin>, DecodeError> {
    if rest.byte()? == 0 {
        return Ok(None);
    }
    let (engine, copy) = (rest.fixed()?, rest.byte()? != 0);
    let (name, site) = (text(rest)?.to_string(), text(rest)?.to_string());
    Ok(Some(Origin { engine, name, site, copy }))
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
        document.shown = Shown::Lead("Só isto.".to_string());
        document.source = Some(Origin::named([7; 32], "CIn <http://busca.test/>", true));
        let told = encode(&document);
        let back = StoredDocument::decode(&told).unwrap().to_document().unwrap();
        assert_eq!(format!("{back:?}"), format!("{document:?}"));
        assert!((0..told.len()).all(|cut| StoredDocument::decode(&told[..cut]).is_none()));
        // A text that is too long is cut on a character.
        document.title = "é".repeat(TITLE_BYTES_MAX);
        let bytes = encode(&document);
        assert_eq!(StoredDocument::decode(&bytes).unwrap().title.len(), TITLE_BYTES_MAX);
    }

    #[test]
    fn inputs_that_the_fuzzer_found_are_still_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/stored");
        for input in std::fs::read_dir(folder).unwrap() {
            let bytes = [vec![PLAIN], std::fs::read(input.unwrap().path()).unwrap()].concat();
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
