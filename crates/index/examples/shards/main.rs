//! Measures whether several shards answer as one index does, and what that costs.
//!
//! ```text
//! shards [--pages 20000] [--queries 1000] [--shards 4,16] [--seed 1] [--documents FILE.tsv] [--questions FILE.txt]
//! ```
//! Without files, pages and questions are made of real prose, with copies, hosts of many sizes, three languages and
//! every form of question. A line of FILE.tsv is `URL<TAB>language<TAB>title<TAB>body`, a line of FILE.txt a question of
//! plain words. Some pages are replaced and some deleted. Shards are asked both ways: *together*, as a process asks its
//! own ones, and *one by one*, as those of other nodes are. It prints the share of equal answers, CPU per question of this
//! thread (Linux only), and how long questions take.

mod made;
mod scattered;
#[cfg(test)]
mod tests;

use farol_base::fingerprint::hash64;
use farol_base::query::{Answer, Query, Request, Term};
use farol_base::{CanonicalUrl, ContentHash, Document, Language, Languages, PagePosition};
use farol_index::{ENDLESS, Question, Ranks, SearchRules, Searcher, Shard, ShardOptions, ShardedSearch};
use farol_query::parts::{Asking, Counts, Figures, Sizes, merge};
use scattered::Scattered;
use std::error::Error;
use std::time::{Duration, Instant};

/// Every so many pages one is put a second time, and one is deleted.
const CHANGED: usize = 40;

const HITS_PER_HOST: usize = 2;

/// Rounds over all questions; the median counts.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (mut count, mut asked, mut seed, mut shards) = (20_000, 1_000, 1, vec![4, 16]);
    let (mut documents, mut questions) = (None, None);
    while let Some(name) = args.next() {
        let value = args.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--pages" => count = value.parse()?,
            "--queries" => asked = value.parse()?,
            "--seed" => seed = value.parse()?,
            "--shards" => shards = value.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?,
            "--documents" => documents = Some(value),
            "--questions" => questions = Some(value),
            _ => return Err(format!("{name} is no option; see the head of this example").into()),
        }
    }
    let pages = match documents {
        Some(file) => read_pages(&std::fs::read_to_string(file)?, count),
        None => made::pages(seed, count),
    };
    let questions = match questions {
        Some(file) => read_questions(&std::fs::read_to_string(file)?, asked),
        None => made::questions(seed, &pages, asked),
    };
    let rules = made::rules(&pages);
    let one = Built::new(&pages, 1)?;
    println!("{} pages in one index, {} questions", one.searchers[0].documents(), questions.len());
    for shards in shards {
        let many = Built::new(&pages, shards)?;
        std::thread::sleep(Duration::from_secs(4)); // Vocabularies are built in the background.
        for way in Way::ALL {
            let mut equal = Equal::default();
            for (query, languages) in &questions {
                let request = Request { query: query.clone(), first: 0, count: 10, languages: *languages };
                let a = one.ask(Way::Together, &request, &rules, &made::MadeRanks)?;
                let b = many.ask(way, &request, &rules, &made::MadeRanks)?;
                if !equal.count(&a, &b) {
                    let words: Vec<&str> = query.wanted.iter().map(|term| term.text.as_str()).collect();
                    eprintln!("differs: {}", words.join(" "));
                }
            }
            equal.print(shards, way);
        }
        let asked = [(&one, Way::Together), (&many, Way::Together), (&many, Way::OneByOne)];
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        let mut took = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (((built, way), times), took) in asked.into_iter().zip(&mut times).zip(&mut took) {
                let begun = cpu()?;
                for (query, languages) in &questions {
                    let request =
                        Request { query: query.clone(), first: 0, count: 10, languages: *languages };
                    let asked = Instant::now();
                    std::hint::black_box(built.ask(way, &request, &rules, &made::MadeRanks)?);
                    took.push(asked.elapsed());
                }
                times.push((cpu()? - begun) / questions.len() as u32);
            }
        }
        let [alone, together, one_by_one] = times.map(|mut times| {
            times.sort_unstable();
            times[ROUNDS / 2].as_secs_f64() * 1e6
        });
        phases(&many, &questions, &rules)?;
        println!(
            "CPU per question: 1 index {alone:.0} µs; {shards} shards together {together:.0} µs, ratio {:.3}; one by one \
             {one_by_one:.0} µs, ratio {:.3}",
            together / alone,
            one_by_one / alone,
        );
        for (name, mut took) in ["1 index", "together", "one by one"].into_iter().zip(took) {
            took.sort_unstable();
            let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
            let all: Duration = took.iter().sum();
            println!(
                "{name}: p50 {:.2} ms, p99 {:.2} ms, {:.0} questions a second on one core",
                at(0.5),
                at(0.99),
                took.len() as f64 / all.as_secs_f64(),
            );
        }
        println!("segments: 1 index {}, {shards} shards {}", one.segments(), many.segments());
    }
    Ok(())
}

/// What each phase costs all shards that are asked one by one.
fn phases(many: &Built, questions: &[(Query, Languages)], rules: &SearchRules) -> Result<(), Box<dyn Error>> {
    let mut spent = [Duration::ZERO; 4];
    let sizes: Vec<Sizes> = many.searchers.iter().map(Searcher::sizes).collect();
    let sizes = Sizes::sum(&sizes);
    for (query, languages) in questions {
        let question = Question { query, languages: *languages, rules, patience: &ENDLESS };
        let times = [cpu()?; 1];
        let counts = many.searchers.iter().map(|shard| shard.count(&question, &sizes));
        let counts = Counts::sum(counts.collect::<Result<Vec<_>, _>>()?);
        let figures = Figures { sizes: sizes.clone(), counts, shards: many.searchers.len() };
        let counted = cpu()?;
        let parts = many.searchers.iter();
        let parts =
            parts.map(|shard| shard.search_part(&question, &figures, &made::MadeRanks, Asking::Typed));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let searched = cpu()?;
        let list = merge(&parts, query, HITS_PER_HOST);
        let merged = cpu()?;
        for (part, shard) in many.searchers.iter().enumerate() {
            let pages = list.iter().take(10).filter(|place| place.part == part).map(|place| place.page);
            std::hint::black_box(shard.show(&question, &figures, &pages.collect::<Vec<_>>())?);
        }
        let shown = cpu()?;
        let all = [times[0], counted, searched, merged, shown];
        spent.iter_mut().zip(all.windows(2)).for_each(|(sum, pair)| *sum += pair[1] - pair[0]);
    }
    let [count, search, merge, show] = spent.map(|sum| sum.as_secs_f64() * 1e6 / questions.len() as f64);
    println!("of which count {count:.0} µs, search {search:.0} µs, merge {merge:.0} µs, show {show:.0} µs");
    Ok(())
}

/// CPU time of this thread.
fn cpu() -> Result<Duration, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = text.split_whitespace().next().ok_or("no CPU time")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}

/// Pages in one or several shards.
pub struct Built {
    dirs: Vec<tempfile::TempDir>,
    _shards: Vec<Shard>,
    pub searchers: Vec<Searcher>,
}

impl Built {
    pub fn new(pages: &[Document], shards: usize) -> Result<Built, Box<dyn Error>> {
        let (mut dirs, mut open) = (Vec::new(), Vec::new());
        for _ in 0..shards {
            let dir = tempfile::tempdir()?;
            let options = ShardOptions { writer_memory_bytes: 15_000_000, ..ShardOptions::default() };
            open.push(Shard::open(dir.path(), options)?);
            dirs.push(dir);
        }
        // A page's shard goes by its id, as in a cluster.
        let of = |page: &Document| ((u128::from(page.url.id().0) * shards as u128) >> 64) as usize;
        for page in pages {
            open[of(page)].put(page)?;
        }
        open.iter_mut().try_for_each(|shard| shard.commit(PagePosition::default()).map(drop))?;
        for (at, page) in pages.iter().enumerate() {
            match at % CHANGED {
                0 => open[of(page)].delete(&page.url),
                1 => open[of(page)].put(&Document { anchors: "once more".to_string(), ..page.clone() })?,
                _ => {}
            }
        }
        open.iter_mut().try_for_each(|shard| shard.commit(PagePosition::default()).map(drop))?;
        let searchers: Vec<Searcher> = open.iter().map(Shard::searcher).collect();
        for searcher in &searchers {
            searcher.suggest("a", 1);
        }
        Ok(Built { dirs, _shards: open, searchers })
    }

    pub fn ask(
        &self,
        way: Way,
        request: &Request,
        rules: &SearchRules,
        ranks: &dyn Ranks,
    ) -> Result<Answer, farol_index::Error> {
        match (way, &self.searchers[..]) {
            (_, [one]) => one.search_by(request, rules, ranks),
            (Way::Together, many) => ShardedSearch::new(many, rules, ranks, HITS_PER_HOST).search(request),
            (Way::OneByOne, many) => Scattered::answer(many, rules, ranks, request, HITS_PER_HOST),
        }
    }

    /// Files of postings, about: each is opened for each word of a question.
    fn segments(&self) -> usize {
        let is_postings = |file: &std::fs::DirEntry| file.path().extension().is_some_and(|end| end == "idx");
        let folders = self.dirs.iter().flat_map(|dir| std::fs::read_dir(dir.path()));
        folders.map(|files| files.flatten().filter(is_postings).count()).sum()
    }
}

/// How several shards are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As a process asks its own shards.
    Together,
    /// As shards of other nodes are asked.
    OneByOne,
}

impl Way {
    pub const ALL: [Way; 2] = [Way::Together, Way::OneByOne];
}

/// How many answers were equal.
#[derive(Default)]
pub struct Equal {
    pub asked: usize,
    /// The same pages in the same order.
    pub pages: usize,
    /// The same but for the order of pages with the same score.
    pub but_ties: usize,
    pub totals: usize,
    /// The same copies counted, the same hosts with more.
    pub marks: usize,
    /// The same corrections and suggestions.
    pub spelling: usize,
}

impl Equal {
    /// Compares two answers; whether they are equal in everything but ties.
    pub fn count(&mut self, one: &Answer, many: &Answer) -> bool {
        let urls = |answer: &Answer| answer.hits.iter().map(|hit| hit.url.to_string()).collect::<Vec<_>>();
        let marks = |answer: &Answer| {
            answer.hits.iter().map(|hit| (hit.duplicates, hit.more_from_host, hit.pinned)).collect::<Vec<_>>()
        };
        let pages = urls(one) == urls(many);
        let but_ties = pages || same_scores(one, many);
        let totals = (one.total, one.more) == (many.total, many.more);
        let marks = !pages || marks(one) == marks(many);
        let spelling = one.corrected == many.corrected && one.suggestion == many.suggestion;
        self.asked += 1;
        self.pages += usize::from(pages);
        self.but_ties += usize::from(but_ties);
        self.totals += usize::from(totals);
        self.marks += usize::from(marks);
        self.spelling += usize::from(spelling);
        but_ties && totals && marks && spelling
    }

    fn print(&self, shards: usize, way: Way) {
        let share = |part: usize| format!("{:.2} %", 100.0 * part as f64 / self.asked.max(1) as f64);
        println!(
            "{shards} shards against one, {way:?}: same ten in order {}, ties aside {}, totals {}, copies and hosts {}, spelling {}",
            share(self.pages),
            share(self.but_ties),
            share(self.totals),
            share(self.marks),
            share(self.spelling),
        );
    }
}

/// Whether two answers differ in the order of equal scores alone: pages that both have stand at the same score, and
/// pages that one lacks have the score of its last.
fn same_scores(one: &Answer, many: &Answer) -> bool {
    let close = |a: f32, b: f32| (a - b).abs() <= 1e-5 * a.abs().max(b.abs());
    let last = one.hits.last().map_or(0.0, |hit| hit.score);
    one.hits.len() == many.hits.len()
        && one.hits.iter().zip(&many.hits).all(|(a, b)| close(a.score, b.score))
        && many.hits.iter().all(|hit| match one.hits.iter().find(|known| known.url == hit.url) {
            Some(known) => close(known.score, hit.score),
            None => close(hit.score, last),
        })
}

fn read_pages(text: &str, count: usize) -> Vec<Document> {
    let page = |line: &str| {
        let mut columns = line.splitn(4, '\t');
        let mut column = || columns.next().unwrap_or("").to_string();
        let url = CanonicalUrl::parse(&column()).ok()?;
        let (language, title, body) = (Language::parse(&column()), column(), column());
        Some(Document {
            title,
            headings: String::new(),
            description: String::new(),
            rest: String::new(),
            anchors: String::new(),
            language,
            file_type: "html".to_string(),
            fetched: farol_base::Timestamp::EPOCH,
            dated: None,
            content_hash: ContentHash::of(body.as_bytes()),
            simhash: hash64(body.as_bytes()),
            position: PagePosition::default(),
            shown: Default::default(),
            source: None,
            body,
            url,
        })
    };
    text.lines().filter_map(page).take(count).collect()
}

fn read_questions(text: &str, count: usize) -> Vec<(Query, Languages)> {
    let question = |line: &str| {
        let word = |word: &str| Term { text: word.to_string(), field: Default::default(), phrase: false };
        let wanted = line.split_whitespace().map(word).collect();
        (Query { wanted, ..Query::default() }, Languages::default())
    };
    text.lines().filter(|line| !line.trim().is_empty()).take(count).map(question).collect()
}
