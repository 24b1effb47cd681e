//! Measures answer quality on test collections in SMART format (CACM, CRAN, MED, NPL, ADI).
//!
//! ```text
//! evaluate FOLDER…                  nDCG@10 of this index on each collection, and their mean
//! evaluate --write-run FILE FOLDER… also writes its run (collection, query, Q0, document, rank, score)
//! evaluate --run FILE FOLDER…       scores a run that another engine wrote in the same format
//! evaluate --export DIR FOLDER…     writes NAME.docs.tsv and NAME.queries.tsv for other engines
//! ```
//! A folder holds one collection under its usual file names; what is relevant counts 1, the rest 0.

use farol_base::query::{Query, Request, Term};
use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition, Timestamp};
use farol_index::{NoRanks, Shard, ShardOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Hits that a run holds per query.
const DEPTH: usize = 100;

/// Hits that the measure looks at.
const JUDGED: usize = 10;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Documents by number (title, text), queries by number, and relevant documents by query.
#[derive(Default)]
struct Collection {
    name: String,
    documents: BTreeMap<u32, (String, String)>,
    queries: BTreeMap<u32, String>,
    relevant: BTreeMap<u32, BTreeSet<u32>>,
}

/// Ranked documents by collection and query.
type Run = BTreeMap<(String, u32), Vec<(u32, f32)>>;

fn main() -> Result<()> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let (mut write_run, mut run, mut export) = (None, None, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--write-run" => write_run = Some(PathBuf::from(value()?)),
            "--run" => run = Some(PathBuf::from(value()?)),
            "--export" => export = Some(PathBuf::from(value()?)),
            _ => folders.push(PathBuf::from(arg)),
        }
    }
    if folders.is_empty() {
        return Err("give the folder of at least one collection".into());
    }
    let foreign = run.as_deref().map(read_run).transpose()?;
    let mut ours = Run::new();
    println!("{:<8} {:>9} {:>8} {:>8} {:>12}", "", "documents", "queries", "nDCG@10", "ms per query");
    let mut sum = 0.0;
    for folder in &folders {
        let collection = Collection::read(folder)?;
        if let Some(dir) = &export {
            collection.export(dir)?;
        }
        let mut millis = f64::NAN;
        if foreign.is_none() {
            millis = collection.search(&mut ours)?;
        }
        let score = collection.score(foreign.as_ref().unwrap_or(&ours));
        sum += score;
        let (documents, queries) = (collection.documents.len(), collection.relevant.len());
        println!("{:<8} {documents:>9} {queries:>8} {score:>8.4} {millis:>12.2}", collection.name);
    }
    println!("{:<8} {:>9} {:>8} {:>8.4}", "mean", "", "", sum / folders.len() as f64);
    if let Some(path) = write_run {
        let mut text = String::new();
        for ((name, query), hits) in &ours {
            for (rank, (document, score)) in hits.iter().enumerate() {
                text += &format!("{name} {query} Q0 {document} {} {score}\n", rank + 1);
            }
        }
        fs::write(path, text)?;
    }
    Ok(())
}

impl Collection {
    /// Reads the collection in a folder by the names that its files usually have.
    fn read(folder: &Path) -> Result<Collection> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("?").to_string();
        let file = |name: &str| -> Result<String> {
            let bytes = fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let mut collection = Collection { name: name.clone(), ..Collection::default() };
        let judgements = match name.as_str() {
            "cacm" => {
                collection.read_smart(&file("cacm.all")?, &file("query.text")?, false);
                file("qrels.text")?
            }
            "cran" => {
                collection.read_smart(&file("cran.all.1400")?, &file("cran.qry")?, true);
                // Code -1 marks the document that a question was made from; it was not judged.
                let lines = file("cran.qrels")?;
                lines
                    .lines()
                    .filter(|line| !line.trim().ends_with("-1"))
                    .map(|line| format!("{line}\n"))
                    .collect()
            }
            "med" => {
                collection.read_smart(&file("MED.ALL")?, &file("MED.QRY")?, false);
                // The second column is the iteration, always 0.
                file("MED.REL")?.lines().map(|line| line.replacen(" 0 ", " ", 1) + "\n").collect()
            }
            "adi" => {
                collection.read_smart(&file("ADI.ALL")?, &file("ADI.QRY")?, false);
                file("ADI.REL")?
            }
            "npl" => {
                for (number, text) in blocks(&file("doc-text")?) {
                    collection.documents.insert(number, (String::new(), text));
                }
                collection.queries = blocks(&file("query-text")?);
                let lines = blocks(&file("rlv-ass")?).into_iter().flat_map(|(query, text)| {
                    text.split_whitespace().map(|d| format!("{query} {d}\n")).collect::<Vec<_>>()
                });
                lines.collect()
            }
            _ => return Err(format!("{name} is not one of cacm, cran, med, npl, adi").into()),
        };
        for line in judgements.lines() {
            let mut numbers = line.split_whitespace().map(str::parse::<u32>);
            if let (Some(Ok(query)), Some(Ok(document))) = (numbers.next(), numbers.next()) {
                collection.relevant.entry(query).or_default().insert(document);
            }
        }
        let queries = &collection.queries;
        collection.relevant.retain(|query, _| queries.contains_key(query));
        Ok(collection)
    }

    /// Reads documents and queries with `.I`, `.T` and `.W` sections.
    fn read_smart(&mut self, documents: &str, queries: &str, count_queries: bool) {
        for (number, sections) in smart(documents) {
            let text = |key: &str| sections.get(key).cloned().unwrap_or_default();
            self.documents.insert(number, (text("T"), text("W")));
        }
        for (at, (number, sections)) in smart(queries).into_iter().enumerate() {
            // The judgements of CRAN count its queries instead of using their numbers.
            let number = if count_queries { at as u32 + 1 } else { number };
            self.queries.insert(number, sections.get("W").cloned().unwrap_or_default());
        }
    }

    /// Indexes the documents and asks the queries; answers the mean milliseconds per query.
    fn search(&self, run: &mut Run) -> Result<f64> {
        let dir = tempfile::tempdir()?;
        let mut shard = Shard::open(dir.path(), ShardOptions::default())?;
        for (number, (title, text)) in &self.documents {
            shard.put(&document(&self.name, *number, title, text)?)?;
        }
        shard.commit(PagePosition::default())?;
        let searcher = shard.searcher();
        let started = Instant::now();
        for query in self.relevant.keys() {
            let wanted = self.queries[query].split_whitespace();
            let wanted =
                wanted.map(|word| Term { text: word.to_string(), field: Default::default(), phrase: false });
            let query_read = Query { wanted: wanted.collect(), ..Query::default() };
            let request =
                Request { query: query_read, first: 0, count: DEPTH, languages: Language::ENGLISH.into() };
            let answer = searcher.search(&request, &NoRanks)?;
            let hits = answer
                .hits
                .iter()
                .filter_map(|hit| Some((hit.url.path().get(1..)?.parse().ok()?, hit.score)));
            run.insert((self.name.clone(), *query), hits.collect());
        }
        Ok(started.elapsed().as_secs_f64() * 1e3 / self.relevant.len().max(1) as f64)
    }

    /// Mean nDCG@10 over the queries that have relevant documents.
    fn score(&self, run: &Run) -> f64 {
        let discount = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
        let mut sum = 0.0;
        for (query, relevant) in &self.relevant {
            let hits = run.get(&(self.name.clone(), *query)).map_or(&[][..], Vec::as_slice);
            let gained: f64 = hits
                .iter()
                .take(JUDGED)
                .enumerate()
                .filter(|(_, (document, _))| relevant.contains(document))
                .map(|(rank, _)| discount(rank))
                .sum();
            let best: f64 = (0..relevant.len().min(JUDGED)).map(discount).sum();
            sum += gained / best;
        }
        sum / self.relevant.len().max(1) as f64
    }

    fn export(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        let line = |number: &u32, text: String| {
            format!("{number}\t{}\n", text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let documents: String = self
            .documents
            .iter()
            .map(|(number, (title, text))| line(number, format!("{title} {text}")))
            .collect();
        let queries: String =
            self.relevant.keys().map(|query| line(query, self.queries[query].clone())).collect();
        fs::write(dir.join(format!("{}.docs.tsv", self.name)), documents)?;
        fs::write(dir.join(format!("{}.queries.tsv", self.name)), queries)?;
        Ok(())
    }
}

fn document(name: &str, number: u32, title: &str, text: &str) -> Result<Document> {
    Ok(Document {
        url: CanonicalUrl::parse(&format!("http://{name}.test/{number}"))?,
        title: title.to_string(),
        headings: String::new(),
        body: text.to_string(),
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
    })
}

/// Records of `.I number` with sections by their letter.
fn smart(text: &str) -> BTreeMap<u32, BTreeMap<String, String>> {
    let mut records: BTreeMap<u32, BTreeMap<String, String>> = BTreeMap::new();
    let (mut number, mut section) = (0, String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix(".I") {
            number = rest.trim().parse().unwrap_or(0);
            records.entry(number).or_default();
            section.clear();
        } else if line.len() >= 2
            && line.starts_with('.')
            && line[1..].trim().chars().all(|c| c.is_ascii_uppercase())
        {
            section = line[1..].trim().to_string();
        } else if !section.is_empty() {
            let text = records.entry(number).or_default().entry(section.clone()).or_default();
            text.push_str(line);
            text.push('\n');
        }
    }
    records
}

/// Records of a number, lines, and a slash.
fn blocks(text: &str) -> BTreeMap<u32, String> {
    let mut records = BTreeMap::new();
    let mut open: Option<(u32, String)> = None;
    for line in text.lines() {
        match &mut open {
            _ if line.trim() == "/" => records.extend(open.take()),
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
            None => open = line.trim().parse().ok().map(|number| (number, String::new())),
        }
    }
    records
}

fn read_run(path: &Path) -> Result<Run> {
    let mut run = Run::new();
    for line in fs::read_to_string(path)?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, query, _, document, _, score] = words[..] {
            run.entry((name.to_string(), query.parse()?))
                .or_default()
                .push((document.parse()?, score.parse()?));
        }
    }
    Ok(run)
}
