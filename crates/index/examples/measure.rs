//! Measures a shard on real texts: indexing rate, size, and the time of searches and completions.
//!
//! ```text
//! measure DOCUMENTS.tsv QUERIES.txt [COMMIT_EVERY]
//! ```
//! A line of DOCUMENTS is `URL<TAB>language<TAB>title<TAB>body`, a line of QUERIES is a question of plain words.
//! The shard is committed every COMMIT_EVERY pages (default 2,000), as a crawl does.

use farol_base::fingerprint::hash64;
use farol_base::query::{Query, Request, Term};
use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition, Timestamp};
use farol_index::{NoRanks, Shard, ShardOptions};
use std::error::Error;
use std::io::BufRead;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let documents = args.next().ok_or("give a file of documents")?;
    let queries = args.next().ok_or("give a file of queries")?;
    let commit_every: u64 = args.next().map_or(Ok(2_000), |text| text.parse())?;
    let dir = tempfile::tempdir()?;
    let mut shard = Shard::open(dir.path(), ShardOptions::default())?;
    let (mut pages, mut bytes) = (0u64, 0);
    let mut commits = Vec::new();
    let started = Instant::now();
    for line in std::io::BufReader::new(std::fs::File::open(documents)?).lines() {
        let line = line?;
        bytes += line.len();
        let mut columns = line.splitn(4, '\t');
        let mut column = || columns.next().unwrap_or("");
        let Ok(url) = CanonicalUrl::parse(column()) else { continue };
        let language = Language::parse(column());
        let title = column().to_string();
        shard.put(&document(url, language, title, column().to_string()))?;
        pages += 1;
        if pages.is_multiple_of(commit_every) {
            let commit = Instant::now();
            shard.commit(PagePosition { file: 0, offset: pages })?;
            commits.push(commit.elapsed());
        }
    }
    shard.commit(PagePosition { file: 0, offset: pages })?;
    let took = started.elapsed();
    let searcher = shard.searcher();
    println!(
        "{pages} pages, {:.1} MB of text in {:.1} s: {:.0} pages/s; {:.1} MB on disk",
        bytes as f64 / 1e6,
        took.as_secs_f64(),
        pages as f64 / took.as_secs_f64(),
        searcher.bytes_on_disk() as f64 / 1e6,
    );
    report("commit", &mut commits);
    let queries: Vec<String> = std::fs::read_to_string(queries)?.lines().map(str::to_string).collect();
    searcher.suggest("a", 1);
    std::thread::sleep(Duration::from_secs(5)); // The vocabulary is built in the background.
    for _ in 0..2 {
        let (mut searches, mut completions, mut found) = (Vec::new(), Vec::new(), 0);
        for text in &queries {
            let word = |word: &str| Term { text: word.to_string(), field: Default::default(), phrase: false };
            let query = Query { wanted: text.split_whitespace().map(word).collect(), ..Query::default() };
            let answer = searcher
                .search(&Request { query, first: 0, count: 10, languages: Default::default() }, &NoRanks)?;
            searches.push(answer.took);
            found += usize::from(answer.total > 0);
            let asked = Instant::now();
            let prefix: String = text.chars().take(4).collect();
            searcher.suggest(&prefix, 8);
            completions.push(asked.elapsed());
        }
        println!("{} queries, {found} with an answer", queries.len());
        report("search", &mut searches);
        report("suggest", &mut completions);
    }
    Ok(())
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times.get(index.min(times.len().saturating_sub(1))).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    let mean = times.iter().sum::<Duration>().as_secs_f64() * 1e3 / times.len().max(1) as f64;
    println!(
        "{what}: mean {mean:.3} ms, p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, worst {:.2} ms",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}

fn document(url: CanonicalUrl, language: Option<Language>, title: String, body: String) -> Document {
    Document {
        title,
        headings: String::new(),
        description: String::new(),
        rest: String::new(),
        anchors: String::new(),
        language,
        file_type: "html".to_string(),
        fetched: Timestamp::EPOCH,
        dated: None,
        content_hash: ContentHash::of(body.as_bytes()),
        simhash: hash64(body.as_bytes()),
        position: PagePosition::default(),
        shown: Default::default(),
        source: None,
        body,
        url,
    }
}
