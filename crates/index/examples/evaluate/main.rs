//! Measures answer quality on judged collections, with other engines beside.
//!
//! ```text
//! evaluate [OPTIONS] FOLDER…
//!   --half tune|report       only the queries of one half, split by a hash of their numbers
//!   --peer 'NAME=COMMAND'    also asks another engine; may be given several times
//!   --write-run FILE         writes this index's run: collection, query, Q0, document, rank, score
//!   --addresses              puts pages under their own addresses, where the collection has them
//!   --per-query              prints the measures of every query too
//! ```
//! A folder holds one collection: documents, queries and judgements in any of the formats that `collection.rs`
//! reads. A peer's COMMAND is run by the shell with three more arguments: a file of documents and a file of
//! queries (`number<TAB>text`), and the file where it puts its run (`query Q0 document rank score name`); `bench/relevance`
//! has one for Lucene and one for bm25s.
//!
//! nDCG@10 takes the grades as gains, as `trec_eval` does; average precision, precision and recall take grade 1
//! and more as relevant. Runs are 1,000 documents deep. Each peer's row ends with the probability that a difference
//! in nDCG@10, and one in average precision, as large as that to this index arises by chance (a paired
//! randomisation test on the same queries, two-sided).

mod collection;
mod measures;
mod peers;

use collection::Collection;
use farol_base::query::{Query, Request, Term};
use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition, Timestamp};
use farol_index::{NoRanks, Shard, ShardOptions};
use measures::{Measures, mean, randomisation_test};
use peers::Peer;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Hits that a run holds per query.
const DEPTH: usize = 1000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Documents by query, best first.
type Run = BTreeMap<String, Vec<(String, f32)>>;

#[derive(Default)]
struct Options {
    folders: Vec<PathBuf>,
    half: Option<u64>,
    peers: Vec<Peer>,
    write_run: Option<PathBuf>,
    addresses: bool,
    per_query: bool,
}

fn main() -> Result<()> {
    let options = read_options(std::env::args().skip(1))?;
    let mut rows: BTreeMap<usize, Vec<Measures>> = BTreeMap::new();
    let mut means: BTreeMap<usize, Vec<Measures>> = BTreeMap::new();
    let mut written = String::new();
    let names: Vec<&str> =
        ["Farol"].into_iter().chain(options.peers.iter().map(|peer| peer.name.as_str())).collect();
    for folder in &options.folders {
        let mut collection = Collection::read(folder)?;
        if let Some(half) = options.half {
            collection.keep_half(half);
        }
        let (ours, millis) = search(&collection, options.addresses)?;
        for (query, hits) in &ours {
            for (rank, (document, score)) in hits.iter().enumerate() {
                written += &format!("{} {query} Q0 {document} {} {score}\n", collection.name, rank + 1);
            }
        }
        let mut runs = vec![ours];
        for peer in &options.peers {
            runs.push(peer.run(&collection)?);
        }
        println!(
            "\n{}: {} documents, {} queries, {millis:.2} ms per query",
            collection.name,
            collection.documents.len(),
            collection.judged.len()
        );
        let measured: Vec<Vec<Measures>> = runs.iter().map(|run| collection.measure(run)).collect();
        print_table(&names, &measured);
        if options.per_query {
            print_queries(&collection, &names, &measured);
        }
        for (engine, list) in measured.into_iter().enumerate() {
            means.entry(engine).or_default().push(mean(&list));
            rows.entry(engine).or_default().extend(list);
        }
    }
    if options.folders.len() > 1 {
        println!("\nmean of the collections; tests over all {} queries", rows[&0].len());
        let measured: Vec<Vec<Measures>> = rows.into_values().collect();
        for (engine, name) in names.iter().enumerate() {
            print_row(name, mean(&means[&engine]), &measured[0], &measured[engine], engine > 0);
        }
    }
    if let Some(path) = options.write_run {
        fs::write(path, written)?;
    }
    Ok(())
}

fn read_options(mut args: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--half" => {
                options.half = Some(match value()?.as_str() {
                    "tune" => 0,
                    "report" => 1,
                    other => return Err(format!("--half is tune or report, not {other}").into()),
                })
            }
            "--peer" => options.peers.push(Peer::parse(&value()?)?),
            "--write-run" => options.write_run = Some(PathBuf::from(value()?)),
            "--addresses" => options.addresses = true,
            "--per-query" => options.per_query = true,
            other if other.starts_with("--") => return Err(format!("{other} is no option").into()),
            _ => options.folders.push(PathBuf::from(arg)),
        }
    }
    if options.folders.is_empty() {
        return Err("give the folder of at least one collection".into());
    }
    Ok(options)
}

/// Indexes the documents and asks the queries; answers the run and the mean milliseconds per query.
fn search(collection: &Collection, addresses: bool) -> Result<(Run, f64)> {
    let dir = tempfile::tempdir()?;
    let mut shard = Shard::open(dir.path(), ShardOptions::default())?;
    let mut names: BTreeMap<CanonicalUrl, &str> = BTreeMap::new();
    for (at, (name, page)) in collection.documents.iter().enumerate() {
        let own = Some(&page.address).filter(|address| addresses && !address.is_empty());
        let own = own.and_then(|address| CanonicalUrl::parse(address).ok());
        let url = match own.filter(|url| !names.contains_key(url)) {
            Some(url) => url,
            None => CanonicalUrl::parse(&format!("http://collection.test/{at}"))?,
        };
        shard.put(&document(url.clone(), page))?;
        names.insert(url, name);
    }
    shard.commit(PagePosition::default())?;
    let searcher = shard.searcher();
    let mut run = Run::new();
    let started = Instant::now();
    for query in collection.judged.keys() {
        let wanted = collection.queries[query].split_whitespace();
        let wanted =
            wanted.map(|word| Term { text: word.to_string(), field: Default::default(), phrase: false });
        let read = Query { wanted: wanted.collect(), ..Query::default() };
        let request = Request { query: read, first: 0, count: DEPTH, languages: Language::ENGLISH.into() };
        let answer = searcher.search(&request, &NoRanks)?;
        let hits = answer.hits.iter().filter_map(|hit| Some((names.get(&hit.url)?.to_string(), hit.score)));
        run.insert(query.clone(), hits.collect());
    }
    Ok((run, started.elapsed().as_secs_f64() * 1e3 / collection.judged.len().max(1) as f64))
}

fn document(url: CanonicalUrl, page: &collection::JudgedPage) -> Document {
    Document {
        url,
        title: page.title.clone(),
        headings: String::new(),
        body: page.text.clone(),
        rest: String::new(),
        description: String::new(),
        anchors: String::new(),
        language: Some(Language::ENGLISH),
        file_type: "txt".to_string(),
        fetched: Timestamp::EPOCH,
        dated: None,
        // Without fingerprints nothing is folded together: every document counts.
        content_hash: ContentHash::default(),
        simhash: 0,
        position: PagePosition::default(),
        shown: Default::default(),
        source: None,
    }
}

fn print_table(names: &[&str], measured: &[Vec<Measures>]) {
    println!("{:<28} {:>8} {:>8} {:>8} {:>8}   p(nDCG)  p(AP)", "", "nDCG@10", "MAP", "P@10", "recall");
    for (engine, name) in names.iter().enumerate() {
        print_row(name, mean(&measured[engine]), &measured[0], &measured[engine], engine > 0);
    }
}

fn print_row(name: &str, row: Measures, ours: &[Measures], theirs: &[Measures], tested: bool) {
    print!(
        "{name:<28} {:>8.4} {:>8.4} {:>8.4} {:>8.4}",
        row.ndcg, row.precision_mean, row.precision, row.recall
    );
    if tested {
        let differences = |of: fn(&Measures) -> f64| -> Vec<f64> {
            ours.iter().zip(theirs).map(|(ours, theirs)| of(ours) - of(theirs)).collect()
        };
        let ndcg = randomisation_test(&differences(|row| row.ndcg));
        let precision = randomisation_test(&differences(|row| row.precision_mean));
        print!("    {ndcg:.4} {precision:.4}");
    }
    println!();
}

/// One line per query: its nDCG@10 by every engine.
fn print_queries(collection: &Collection, names: &[&str], measured: &[Vec<Measures>]) {
    println!("nDCG@10 of {}", names.join(", "));
    for (at, query) in collection.judged.keys().enumerate() {
        let values: Vec<String> = measured.iter().map(|list| format!("{:.3}", list[at].ndcg)).collect();
        let text = collection.queries[query].split_whitespace().collect::<Vec<_>>().join(" ");
        println!("{} {query} {text}", values.join(" "));
    }
}
