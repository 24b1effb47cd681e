//! Pages in, answers out: `cargo run -p farol-index --example put_and_search`.

use farol_base::query::{Field, Query, Request, Term};
use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition, Timestamp};
use farol_index::{NoRanks, Shard, ShardOptions};

fn document(url: &str, title: &str, body: &str) -> Document {
    Document {
        url: CanonicalUrl::parse(url).expect("a good URL"),
        title: title.into(),
        headings: String::new(),
        body: body.into(),
        description: String::new(),
        rest: String::new(),
        anchors: String::new(),
        language: Some(Language::ENGLISH),
        file_type: "html".into(),
        fetched: Timestamp::from_secs(1_000_000),
        dated: None,
        content_hash: ContentHash::default(),
        simhash: 0,
        position: PagePosition::default(),
        shown: Default::default(),
        source: None,
    }
}

fn request(words: &[&str]) -> Request {
    let term = |word: &&str| Term { text: word.to_string(), field: Field::Any, phrase: false };
    let query = Query { wanted: words.iter().map(term).collect(), ..Query::default() };
    Request { query, first: 0, count: 10, languages: Default::default() }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let mut shard = Shard::open(dir.path(), ShardOptions::default())?;
    shard.put(&document(
        "http://a.example/",
        "Lighthouses",
        "Lighthouses shine far over the sea at night.",
    ))?;
    shard.put(&document(
        "http://b.example/",
        "Harbours",
        "From the harbour one sees a lighthouse, and the sea.",
    ))?;
    shard.put(&document("http://c.example/", "Bread", "Flour, water, salt and time."))?;

    // Nothing is seen before a commit; it carries how much of the archive the index has taken in.
    assert!(shard.searcher().search(&request(&["lighthouse"]), &NoRanks)?.hits.is_empty());
    shard.commit(PagePosition { file: 0, offset: 3 })?;

    // Both forms of the word are found; the page that has it in its title comes first.
    let answer = shard.searcher().search(&request(&["lighthouse", "sea"]), &NoRanks)?;
    for hit in &answer.hits {
        let snippet: String = hit.snippet.iter().map(|part| part.text.as_str()).collect();
        println!("{:>6.3}  {}  {snippet}", hit.score, hit.url);
    }
    let urls: Vec<&str> = answer.hits.iter().map(|hit| hit.url.as_str()).collect();
    assert_eq!(urls, ["http://a.example/", "http://b.example/"]);

    // The same URL again replaces the page: one document per URL.
    shard.put(&document("http://a.example/", "Moved", "This page is empty now."))?;
    shard.commit(PagePosition { file: 0, offset: 4 })?;
    let answer = shard.searcher().search(&request(&["lighthouse"]), &NoRanks)?;
    assert_eq!(answer.hits.iter().map(|hit| hit.url.as_str()).collect::<Vec<_>>(), ["http://b.example/"]);
    println!("After the page changed only {} is found.", answer.hits[0].url);
    Ok(())
}
