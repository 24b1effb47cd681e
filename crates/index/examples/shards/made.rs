//! Pages and questions made of real prose in three languages, from a seed: copies and near copies on other hosts, hosts
//! of many sizes, menus, anchors, dates, kinds of files; questions of every form that the query language has.

use farol_base::fingerprint::hash64;
use farol_base::query::{Field, Filters, Query, Term};
use farol_base::random::{Random, Seeded};
use farol_base::{CanonicalUrl, ContentHash, Document, Language, Languages, PageId, PagePosition, Timestamp};
use farol_index::{Pins, Ranks, SearchRules, Synonyms};

const TEXTS: [(&str, &str); 6] = [
    ("en", include_str!("../../../synthetic/texts/alice.txt")),
    ("en", include_str!("../../../synthetic/texts/persuasion.txt")),
    ("en", include_str!("../../../synthetic/texts/king-james.txt")),
    ("pt", include_str!("../../../synthetic/texts/dom-casmurro.txt")),
    ("es", include_str!("../../../synthetic/texts/trafalgar.txt")),
    ("es", include_str!("../../../synthetic/texts/reina-valera.txt")),
];

/// Of so many pages one is a copy of another, and as many are nearly one.
const COPIES: u64 = 14;

/// Makes pages.
pub fn pages(seed: u64, count: usize) -> Vec<Document> {
    let mut random = Seeded::new(seed);
    let texts: Vec<(&str, Vec<&str>)> = TEXTS
        .iter()
        .map(|(code, text)| {
            let paragraphs = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
            (*code, paragraphs.collect())
        })
        .collect();
    let mut pages: Vec<Document> = Vec::with_capacity(count);
    for number in 0..count {
        // A few hosts have very many pages, most have few.
        let host = (count as f64 / 8.0).powf(random.below(1_000) as f64 / 1_000.0) as u64;
        let (code, paragraphs) = &texts[random.below(texts.len() as u64) as usize];
        let first = random.below(paragraphs.len() as u64) as usize;
        let last = (first + 1 + random.below(6) as usize).min(paragraphs.len());
        let body = paragraphs[first..last].join("\n");
        let words: Vec<&str> = body.split_whitespace().take(24).collect();
        let start = random.below(words.len() as u64 / 2 + 1) as usize;
        let title = words[start..(start + 1 + random.below(5) as usize).min(words.len())].join(" ");
        let slug: String =
            title.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let folder = ["", "docs/", "docs/old/", "news/"][random.below(4) as usize];
        let tld = ["org", "com", "pt", "es"][random.below(4) as usize];
        let url = format!("http://h{host}.example.{tld}/{folder}{slug}-{number}");
        let Ok(url) = CanonicalUrl::parse(&url) else { continue };
        let dated = Timestamp::from_date(2000 + random.below(20) as i64, 1 + random.below(12) as u32, 3);
        let mut page = Document {
            title: if random.below(4) == 0 { format!("{title} – Host {host}") } else { title.clone() },
            headings: if random.below(3) == 0 {
                words.iter().take(5).copied().collect::<Vec<_>>().join(" ")
            } else {
                String::new()
            },
            description: String::new(),
            rest: if random.below(2) == 0 {
                "home about contact the list of pages".into()
            } else {
                String::new()
            },
            anchors: if random.below(5) == 0 { format!("{title}\nthis page") } else { String::new() },
            // Each has one: a page without has its neighbours', which only an index that has them all can tell.
            language: Language::parse(code),
            file_type: if random.below(30) == 0 { "pdf" } else { "html" }.to_string(),
            fetched: Timestamp::from_secs(1_000 + random.below(1_000_000)),
            dated: dated.filter(|_| random.below(2) == 0),
            content_hash: ContentHash::of(body.as_bytes()),
            simhash: hash64(format!("{first} {last} {code}{}", body.len()).as_bytes()),
            position: PagePosition::default(),
            shown: Default::default(),
            source: None,
            body,
            url,
        };
        match random.below(COPIES) {
            0 if !pages.is_empty() => {
                let copy = pages[random.below(pages.len() as u64) as usize].clone();
                page = Document { url: page.url, anchors: page.anchors, dated: page.dated, ..copy };
            }
            1 if !pages.is_empty() => {
                let near = pages[random.below(pages.len() as u64) as usize].clone();
                let body = format!("{} {number}", near.body);
                let content_hash = ContentHash::of(body.as_bytes());
                let simhash = near.simhash ^ 1 << random.below(64);
                page = Document { url: page.url, body, content_hash, simhash, ..near };
            }
            _ => {}
        }
        pages.push(page);
    }
    pages
}

/// Words of pages, for questions.
fn word(random: &mut Seeded, page: &Document) -> String {
    let words: Vec<&str> = page.body.split_whitespace().collect();
    let word = words.get(random.below(words.len().max(1) as u64) as usize).copied().unwrap_or("light");
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_string()
}

fn term(text: &str) -> Term {
    Term { text: text.to_string(), field: Field::Any, phrase: false }
}

/// A word with a slip.
fn misspelt(random: &mut Seeded, word: &str) -> String {
    let mut letters: Vec<char> = word.chars().collect();
    if letters.len() > 4 {
        let at = 1 + random.below(letters.len() as u64 - 2) as usize;
        match random.below(3) {
            0 => letters.swap(at, at + 1),
            1 => drop(letters.remove(at)),
            _ => letters.insert(at, 'x'),
        }
    }
    letters.into_iter().collect()
}

/// Makes questions about pages.
pub fn questions(seed: u64, pages: &[Document], count: usize) -> Vec<(Query, Languages)> {
    let mut random = Seeded::new(seed);
    let mut questions = Vec::with_capacity(count);
    for number in 0..count {
        let page = &pages[random.below(pages.len() as u64) as usize];
        let mut words: Vec<Term> = (0..1 + random.below(4)).map(|_| term(&word(&mut random, page))).collect();
        let mut filters = Filters::default();
        let mut unwanted = Vec::new();
        let host = page.url.host();
        match number % 20 {
            0 => {
                let text: Vec<&str> =
                    page.body.split_whitespace().skip(3).take(2 + random.below(2) as usize).collect();
                words = vec![Term { phrase: true, ..term(&text.join(" ")) }];
            }
            1 => words = page.title.split_whitespace().map(term).collect(),
            2 => unwanted.push(term(&word(&mut random, page))),
            3 => filters.sites.push(host.name().to_string()),
            4 => filters
                .sites
                .push(["org", "example.pt", "example.com/docs"][random.below(3) as usize].to_string()),
            5 => filters.languages.extend(page.language),
            6 => filters.not_languages.extend(page.language),
            7 => {
                let text = page.title.split_whitespace().next().unwrap_or("the");
                words.push(Term { field: Field::Title, ..term(text) });
            }
            8 => words = vec![Term { field: Field::Url, ..term("docs") }, term(&word(&mut random, page))],
            9 => filters.after = Timestamp::from_date(2010, 1, 1),
            10 => {
                words.clear();
                filters.sites.push(host.name().to_string());
            }
            11 => {
                words.clear();
                filters.languages.extend(Language::parse("pt"));
                filters.before = Timestamp::from_date(2012, 1, 1);
            }
            12 | 13 => {
                let whole = word(&mut random, page);
                let beginning: String = whole.chars().take(3 + random.below(3) as usize).collect();
                words = vec![term(&format!("{beginning}*")), term(&word(&mut random, page))];
            }
            14 | 15 => {
                if let Some(first) = words.first_mut() {
                    first.text = misspelt(&mut random, &first.text);
                }
            }
            16 => words = vec![term(&format!("{}{}", word(&mut random, page), word(&mut random, page)))],
            _ => {}
        }
        let spoken = ["en", "pt", "es"];
        let languages: Languages =
            (0..random.below(3)).filter_map(|_| Language::parse(spoken[random.below(3) as usize])).collect();
        let as_written = random.below(20) == 0;
        questions.push((Query { wanted: words, unwanted, filters, as_written }, languages));
    }
    questions
}

/// Rules of an operator about such pages.
pub fn rules(pages: &[Document]) -> SearchRules {
    let mut rules = SearchRules::default();
    let synonyms = "sea, mar, ocean\nking, rei, rey\nman => homem, hombre\nhouse, dwelling place";
    rules.synonyms = Synonyms::parse(synonyms).unwrap_or_default();
    if let [first, .., last] = pages {
        let title: String = first.title.replace([',', '='], " ");
        let pins = format!("{title} => {} {}", last.url, pages[pages.len() / 2].url);
        rules.pins = Pins::parse(&pins).unwrap_or_default();
    }
    rules
}

/// Ranks that come from nowhere, the same for everybody; half of the pages have none.
pub struct MadeRanks;

impl Ranks for MadeRanks {
    fn page(&self, page: PageId) -> f32 {
        if page.0 & 1 == 0 { 0.0 } else { (page.0 >> 40) as f32 / (1u64 << 24) as f32 }
    }

    fn host(&self, host: &str) -> f32 {
        (hash64(host.as_bytes()) >> 40) as f32 / (1u64 << 24) as f32
    }
}
