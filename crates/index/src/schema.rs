//! The fields of a page in the index.
//!
//! | field | holds | for |
//! |---|---|---|
//! | `words` | title, headings, description, main text and URL as folded words, with positions | matching, phrases, BM25F |
//! | `stems` | the same as marked stems, no positions | matching across forms |
//! | `rest` | words and stems of what stands around the main text, with positions | matching, phrases |
//! | `anchors` | words and stems of what other pages call it, with positions | matching, phrases, BM25F |
//! | `title`, `url` | words and stems of the title; words of the URL | `intitle:`, `inurl:`, BM25F |
//! | `name` | hashes of what the page is called as a whole, see [`crate::rank::names`] | exact matches |
//! | `page` | the page's id | upsert, link rank |
//! | `host`, `site`, `path` | the host; its name and parent domains; hashes of path prefixes | deleting a host, host collapsing, `site:` |
//! | `places` | hashes of its folders and host, nearest first, see [`crate::near_languages`] | the language of its neighbours |
//! | `language`, `file_type`, `dated`, `fetched` | as they are | filters, newest first |
//! | `content`, `simhash`, `address` | fingerprints; letters of the address | duplicates |
//! | `shown_title` | the title as written | suggestions |
//! | `stored` | the whole document, see [`crate::stored`] | snippets, giving the document back |
//!
//! Does not decide the weights; see [`crate::rank::fields`].

use crate::limits::{
    ANCHORS_BYTES_MAX, BODY_BYTES_MAX, DESCRIPTION_BYTES_MAX, HEADINGS_BYTES_MAX, REST_BYTES_MAX,
    TITLE_BYTES_MAX, cut,
};
use crate::near_languages::places;
use crate::rank::names;
use crate::stored;
use crate::text::fold::folded;
use crate::text::pretokenized::{PretokenizedTokenizer, Pretokenizer};
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, ContentHash, Document};
use tantivy::schema::{
    BytesOptions, Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{TextAnalyzer, TokenizerManager};
use tantivy::{TantivyDocument, Term};

/// Number of this layout and of the analysis; a shard written with another one is refused.
pub(crate) const FORMAT: u32 = 5;

/// Bytes of a title that are kept for suggestions.
const SHOWN_TITLE_BYTES_MAX: usize = 200;

/// Path segments that `site:host/path` can tell apart; deeper ones are not compared.
pub(crate) const PATH_SEGMENTS_MAX: usize = 16;

/// Handles of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub words: Field,
    pub stems: Field,
    pub rest: Field,
    pub anchors: Field,
    pub title: Field,
    pub url: Field,
    pub name: Field,
    pub page: Field,
    pub host: Field,
    pub site: Field,
    pub path: Field,
    pub places: Field,
    pub language: Field,
    pub file_type: Field,
    pub dated: Field,
    pub fetched: Field,
    pub content: Field,
    pub simhash: Field,
    pub address: Field,
    pub shown_title: Field,
    pub stored: Field,
}

/// Builds the schema and its handles.
pub(crate) fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let text = |tokenizer: &str, option, norms| {
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(tokenizer)
            .set_index_option(option)
            .set_fieldnorms(norms);
        TextOptions::default().set_indexing_options(indexing)
    };
    let raw = || text("raw", IndexRecordOption::Basic, false);
    let number = NumericOptions::default;
    let fields = Fields {
        words: builder.add_text_field("words", text("forms", IndexRecordOption::WithFreqsAndPositions, true)),
        stems: builder.add_text_field("stems", text("stems", IndexRecordOption::WithFreqs, false)),
        rest: builder.add_text_field("rest", text("both", IndexRecordOption::WithFreqsAndPositions, false)),
        anchors: builder
            .add_text_field("anchors", text("both", IndexRecordOption::WithFreqsAndPositions, true)),
        title: builder.add_text_field("title", text("both", IndexRecordOption::WithFreqsAndPositions, true)),
        url: builder.add_text_field("url", text("forms", IndexRecordOption::WithFreqsAndPositions, false)),
        name: builder.add_u64_field("name", number().set_indexed()),
        page: builder.add_u64_field("page", number().set_indexed().set_fast()),
        host: builder.add_text_field("host", raw().set_fast("raw")),
        site: builder.add_text_field("site", raw()),
        path: builder.add_u64_field("path", number().set_indexed()),
        places: builder.add_u64_field("places", number().set_fast()),
        language: builder.add_text_field("language", raw()),
        file_type: builder.add_text_field("file_type", raw()),
        dated: builder.add_u64_field("dated", number().set_fast()),
        fetched: builder.add_u64_field("fetched", number().set_fast()),
        content: builder.add_u64_field("content", number().set_fast()),
        simhash: builder.add_u64_field("simhash", number().set_fast()),
        address: builder.add_u64_field("address", number().set_fast()),
        shown_title: builder.add_text_field("shown_title", TextOptions::default().set_fast("raw")),
        stored: builder.add_bytes_field("stored", BytesOptions::default().set_stored()),
    };
    (builder.build(), fields)
}

/// The analysers that the schema names; texts come to them pretokenized.
pub(crate) fn tokenizers() -> TokenizerManager {
    let manager = TokenizerManager::default();
    for name in ["forms", "stems", "both"] {
        manager.register(name, TextAnalyzer::builder(PretokenizedTokenizer).build());
    }
    manager
}

impl Fields {
    /// The document as tantivy takes it.
    pub(crate) fn to_tantivy(self, document: &Document, pretokenizer: &mut Pretokenizer) -> TantivyDocument {
        let mut out = TantivyDocument::default();
        let language = document.language;
        let title = cut(&document.title, TITLE_BYTES_MAX);
        let url = url_words(&document.url);
        let texts = [
            title,
            cut(&document.headings, HEADINGS_BYTES_MAX),
            cut(&document.description, DESCRIPTION_BYTES_MAX),
            cut(&document.body, BODY_BYTES_MAX),
        ];
        for text in texts {
            if !text.is_empty() {
                let tokenized = pretokenizer.read(language, text, false);
                out.add_text(self.words, tokenized.forms);
                out.add_text(self.stems, tokenized.stems);
            }
        }
        let rest = cut(&document.rest, REST_BYTES_MAX);
        if !rest.is_empty() {
            out.add_text(self.rest, pretokenizer.read(language, rest, true).both);
        }
        let anchors = cut(&document.anchors, ANCHORS_BYTES_MAX);
        // A value each, so that no phrase crosses from one to the next.
        for anchor in anchors.lines().filter(|anchor| !anchor.is_empty()) {
            out.add_text(self.anchors, pretokenizer.read(language, anchor, true).both);
        }
        let url_forms = pretokenizer.read(None, &url, false).forms;
        out.add_text(self.words, &url_forms);
        out.add_text(self.url, url_forms);
        out.add_text(self.title, pretokenizer.read(language, title, true).both);
        for name in names::of_page(title, &document.url, anchors) {
            out.add_u64(self.name, name);
        }
        out.add_u64(self.page, document.url.id().0);
        let host = document.url.host();
        out.add_text(self.host, host.as_str());
        for site in sites(host.name(), host.authority()) {
            out.add_text(self.site, site);
        }
        for prefix in path_prefixes(document.url.path()) {
            out.add_u64(self.path, hash64(prefix.as_bytes()));
        }
        for place in places(&document.url) {
            out.add_u64(self.places, place);
        }
        if let Some(language) = language {
            out.add_text(self.language, language.code());
        }
        if !document.file_type.is_empty() {
            out.add_text(self.file_type, folded(&document.file_type));
        }
        if let Some(dated) = document.dated {
            out.add_u64(self.dated, dated.as_millis());
        }
        out.add_u64(self.fetched, document.fetched.as_millis());
        out.add_u64(self.content, short_content(document.content_hash));
        out.add_u64(self.simhash, document.simhash);
        out.add_u64(self.address, document.url.as_str().len() as u64);
        let shown = cut(title, SHOWN_TITLE_BYTES_MAX);
        if !shown.is_empty() {
            out.add_text(self.shown_title, shown);
        }
        out.add_bytes(self.stored, &stored::encode(document));
        out
    }

    /// The term that names a page.
    pub(crate) fn page_term(self, url: &CanonicalUrl) -> Term {
        Term::from_field_u64(self.page, url.id().0)
    }
}

/// The content hash in 64 bits; 0 means that the page has none.
pub(crate) fn short_content(content: ContentHash) -> u64 {
    let hash = content.0;
    (hash as u64) ^ ((hash >> 64) as u64)
}

/// A host name with all its parent domains, and the name with its port where that is not the default one.
fn sites<'a>(name: &'a str, authority: &'a str) -> impl Iterator<Item = &'a str> {
    let is_address = name.starts_with('[') || name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let parents = name.match_indices('.').filter(move |_| !is_address).map(|(at, _)| &name[at + 1..]);
    std::iter::once(name).chain(parents).chain((authority != name).then_some(authority))
}

/// The prefixes of a path that end with a segment: `/a`, `/a/b` of `/a/b/`.
pub(crate) fn path_prefixes(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    let ends =
        path.match_indices('/').skip(1).map(|(at, _)| at).chain((!path.is_empty()).then_some(path.len()));
    ends.map(move |end| &path[..end]).take(PATH_SEGMENTS_MAX)
}

/// The words of a URL: host name and path, escapes read, without the scheme; a numbered name (`tutorial03`) also as its
/// name and its number.
pub(crate) fn url_words(url: &CanonicalUrl) -> String {
    let host = url.host();
    let text = format!("{} {}", host.name(), url.path_and_query());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%')
            .then(|| std::str::from_utf8(tail.get(..2)?).ok())
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    let mut words = String::from_utf8_lossy(&bytes).into_owned();
    let parts: Vec<String> = words.split(|c: char| !c.is_alphanumeric()).filter_map(numbered_name).collect();
    for part in parts {
        words.push(' ');
        words.push_str(&part);
    }
    words
}

/// `tutorial 3` of `tutorial03`. Of few letters (`x86`, `ch07`) it is no name, and a long number is no count.
fn numbered_name(word: &str) -> Option<String> {
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &word[name.len()..];
    let fits = (1..=3).contains(&number.len()) && name.chars().count() >= 4;
    (fits && name.chars().all(char::is_alphabetic))
        .then(|| format!("{name} {}", number.trim_start_matches('0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_under_all_its_parents() {
        let check = |name: &str, authority: &str, want: &[&str]| {
            assert_eq!(sites(name, authority).collect::<Vec<_>>(), want);
        };
        check("docs.example.org", "docs.example.org", &["docs.example.org", "example.org", "org"]);
        check("example.org", "example.org:81", &["example.org", "org", "example.org:81"]);
        check("127.0.0.1", "127.0.0.1", &["127.0.0.1"]);
        check("[::1]", "[::1]", &["[::1]"]);
    }

    #[test]
    fn a_path_is_found_under_all_its_folders() {
        let check = |path: &str, want: &[&str]| assert_eq!(path_prefixes(path).collect::<Vec<_>>(), want);
        check("/", &[]);
        check("/a", &["/a"]);
        check("/a/b.html", &["/a", "/a/b.html"]);
        check("/a/b/", &["/a", "/a/b"]);
        assert_eq!(path_prefixes(&"/x".repeat(50)).count(), PATH_SEGMENTS_MAX);
    }

    #[test]
    fn url_words_are_readable() {
        let url = CanonicalUrl::parse("https://h.org/caf%C3%A9/a_b?q=%zz").unwrap();
        assert_eq!(url_words(&url), "h.org /café/a_b?q=%zz");
        let url = CanonicalUrl::parse("https://h.org/x86/tutorial03.html").unwrap();
        assert_eq!(url_words(&url), "h.org /x86/tutorial03.html tutorial 3");
    }
}
