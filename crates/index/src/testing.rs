//! Pages and shards for the tests of this crate.

use crate::{NoRanks, Searcher, Shard, ShardOptions};
use farol_base::query::{Answer, Field, Filters, Query, Request, Term};
use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition, Timestamp};
use tempfile::TempDir;

/// A page with its URL, title and body; English, unlike all others.
pub(crate) fn page(url: &str, title: &str, body: &str) -> Document {
    let url = CanonicalUrl::parse(url).unwrap();
    let content_hash = ContentHash::of(body.as_bytes());
    Document {
        title: title.to_string(),
        headings: String::new(),
        body: body.to_string(),
        description: String::new(),
        rest: String::new(),
        anchors: String::new(),
        language: Some(Language::ENGLISH),
        file_type: "html".to_string(),
        fetched: Timestamp::from_secs(1_000),
        dated: None,
        content_hash,
        // Far from every other: half of the bits differ between two hashes.
        simhash: farol_base::fingerprint::hash64(url.as_str().as_bytes()),
        position: PagePosition::default(),
        shown: Default::default(),
        source: None,
        url,
    }
}

/// The same page in another language.
pub(crate) fn page_in(code: &str, url: &str, title: &str, body: &str) -> Document {
    Document { language: Language::parse(code), ..page(url, title, body) }
}

/// A shard in a folder that goes away with it.
pub(crate) struct TestShard {
    pub shard: Shard,
    pub dir: TempDir,
}

impl TestShard {
    pub(crate) fn new(pages: &[Document]) -> TestShard {
        let dir = tempfile::tempdir().unwrap();
        let options = ShardOptions { writer_memory_bytes: 15_000_000, ..ShardOptions::default() };
        let mut shard = Shard::open(dir.path(), options).unwrap();
        for page in pages {
            shard.put(page).unwrap();
        }
        shard.commit(PagePosition::default()).unwrap();
        TestShard { shard, dir }
    }

    pub(crate) fn searcher(&self) -> Searcher {
        self.shard.searcher()
    }

    /// The answer to words, each one a term; `"…"` is a phrase, `-…` unwanted, `t:` and `u:` fields.
    pub(crate) fn ask(&self, words: &str) -> Answer {
        self.ask_filtered(words, Filters::default())
    }

    pub(crate) fn ask_filtered(&self, words: &str, filters: Filters) -> Answer {
        self.ask_query(query(words, filters))
    }

    pub(crate) fn ask_query(&self, query: Query) -> Answer {
        let request = Request { query, first: 0, count: 10, languages: Default::default() };
        self.searcher().search(&request, &NoRanks).unwrap()
    }

    /// The paths of the pages found, best first.
    pub(crate) fn paths(&self, words: &str) -> Vec<String> {
        paths(&self.ask(words))
    }
}

/// The paths of an answer's pages, best first.
pub(crate) fn paths(answer: &Answer) -> Vec<String> {
    answer.hits.iter().map(|hit| hit.url.path().to_string()).collect()
}

/// Reads the small query notation of these tests.
pub(crate) fn query(words: &str, filters: Filters) -> Query {
    let mut query = Query { filters, ..Query::default() };
    let mut rest = words.trim();
    while !rest.is_empty() {
        let unwanted = rest.strip_prefix('-');
        rest = unwanted.unwrap_or(rest);
        let mut field = Field::Any;
        for (mark, named) in [("t:", Field::Title), ("u:", Field::Url)] {
            if let Some(tail) = rest.strip_prefix(mark) {
                (field, rest) = (named, tail);
            }
        }
        let (text, phrase, tail) = match rest.strip_prefix('"').and_then(|tail| tail.split_once('"')) {
            Some((text, tail)) => (text, true, tail),
            None => match rest.split_once(' ') {
                Some((text, tail)) => (text, false, tail),
                None => (rest, false, ""),
            },
        };
        let term = Term { text: text.to_string(), field, phrase };
        if unwanted.is_some() {
            query.unwanted.push(term)
        } else {
            query.wanted.push(term)
        }
        rest = tail.trim_start();
    }
    query
}

/// Writes a query in the notation of these tests.
pub(crate) fn written(query: &Query) -> String {
    let term = |term: &Term| {
        let field = match term.field {
            Field::Any => "",
            Field::Title => "t:",
            Field::Url => "u:",
        };
        let quote = if term.phrase { "\"" } else { "" };
        format!("{field}{quote}{}{quote}", term.text)
    };
    let wanted = query.wanted.iter().map(term);
    wanted
        .chain(query.unwanted.iter().map(|unwanted| format!("-{}", term(unwanted))))
        .collect::<Vec<_>>()
        .join(" ")
}
