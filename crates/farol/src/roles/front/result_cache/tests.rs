//! The cache before a real index: same key, same answer; one flight; nothing stale.

use super::*;
use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition};
use farol_index::{NoRanks, Searcher, Shard, ShardOptions};
use proptest::prelude::*;
use std::sync::atomic::AtomicUsize;
use std::sync::{Barrier, OnceLock};

const WORDS: [&str; 16] = [
    "ponte",
    "rio",
    "Farol",
    "está",
    "esta",
    "história",
    "historia",
    "the",
    "running",
    "run",
    "C++",
    "UTF-8",
    "naïve",
    "Straße",
    "don't",
    "中文搜索",
];

fn request(text: &str) -> Request {
    Request { query: farol_query::read(text).query, first: 0, count: 10, languages: Default::default() }
}

fn settings(toml: &str) -> config::Cache {
    config::Config::parse(toml).unwrap().cache
}

fn cache() -> ResultCache {
    ResultCache::new(&settings("")).unwrap()
}

/// A shard of pages made of the words above, in two languages.
fn shard(dir: &std::path::Path) -> Shard {
    let mut shard =
        Shard::open(dir, ShardOptions { writer_memory_bytes: 15_000_000, ..ShardOptions::default() })
            .unwrap();
    for number in 0..60usize {
        let word = |i: usize| WORDS[(number * 7 + i * i * 3 + i) % WORDS.len()];
        let body: Vec<&str> = (0..30).map(word).collect();
        let url = CanonicalUrl::parse(&format!("http://h{}.test/{}/p{number}", number % 20, word(2).len()))
            .unwrap();
        shard.put(&page(url, &body)).unwrap();
    }
    shard.commit(PagePosition { file: 0, offset: 1 }).unwrap();
    shard
}

fn page(url: CanonicalUrl, body: &[&str]) -> Document {
    Document {
        title: body[..2].join(" "),
        headings: String::new(),
        body: body.join(" "),
        description: String::new(),
        rest: String::new(),
        anchors: String::new(),
        language: Some(if body.len().is_multiple_of(2) && url.as_str().len().is_multiple_of(2) {
            Language::ENGLISH
        } else {
            Language::parse("pt").unwrap()
        }),
        file_type: "html".to_string(),
        fetched: Timestamp::from_secs(1_000),
        dated: None,
        content_hash: ContentHash::of(body.join(" ").as_bytes()),
        simhash: farol_base::fingerprint::hash64(url.as_str().as_bytes()),
        position: PagePosition::default(),
        shown: Default::default(),
        source: None,
        url,
    }
}

/// Whether two answers are one to people: as many pages, the same ones, in the order of the same scores.
fn same(one: &Answer, other: &Answer) -> bool {
    // Words in another order add the same parts in another order: the last digits may differ.
    let near = |a: f32, b: f32| (a - b).abs() <= 1e-3 * a.abs().max(b.abs()) + 1e-5;
    let scores = one.hits.iter().zip(&other.hits).all(|(a, b)| near(a.score, b.score));
    let find = |url: &CanonicalUrl| other.hits.iter().find(|hit| hit.url == *url);
    // Pages with equal scores may change places, also across the end of the page.
    let pages = one.hits.iter().all(|hit| match find(&hit.url) {
        Some(same) => near(hit.score, same.score),
        None => one.more && other.hits.last().is_some_and(|last| near(last.score, hit.score)),
    });
    one.total == other.total
        && one.more == other.more
        && one.hits.len() == other.hits.len()
        && scores
        && pages
}

/// The shard of all cases.
fn searcher() -> &'static Searcher {
    static SHARD: OnceLock<(tempfile::TempDir, Searcher)> = OnceLock::new();
    let (_, searcher) = SHARD.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let searcher = shard(dir.path()).searcher();
        (dir, searcher)
    });
    searcher
}

/// A question and a respelling of it: other case, other order, more spaces.
fn respelt() -> impl Strategy<Value = (String, String)> {
    let piece = prop_oneof![
        6 => proptest::sample::select(WORDS.to_vec()).prop_map(String::from),
        1 => proptest::sample::subsequence(WORDS.to_vec(), 2).prop_map(|words| format!("\"{}\"", words.join(" "))),
        1 => proptest::sample::select(WORDS.to_vec()).prop_map(|word| format!("-{word}")),
        1 => proptest::sample::select(WORDS.to_vec()).prop_map(|word| format!("intitle:{word}")),
        1 => proptest::sample::select(vec!["p1", "p12", "5"]).prop_map(|word| format!("inurl:{word}")),
        1 => proptest::sample::select(vec!["site:h1.test", "site:h2.test", "lang:pt", "lang:en", "filetype:html"]).prop_map(String::from),
    ];
    (proptest::collection::vec(piece, 1..6), any::<u64>()).prop_map(|(pieces, seed)| {
        let mut other: Vec<String> = pieces
            .iter()
            .enumerate()
            .map(|(i, piece)| {
                if seed >> i & 1 == 1 && !piece.contains(':') { piece.to_uppercase() } else { piece.clone() }
            })
            .collect();
        let turn = seed as usize % other.len();
        other.rotate_left(turn);
        (pieces.join(" "), other.join("  "))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// The key against the engine: questions with one key have one answer. Half of the pairs are respellings, which
    /// mostly share a key; the others are any two questions, which share one only where their answers agree.
    #[test]
    fn questions_with_one_key_have_one_answer((first, second) in respelt(), (third, _) in respelt()) {
        for (one, other) in [(&first, &second), (&first, &third)] {
            let (one, other) = (request(one), request(other));
            if key_of(&one, 7) == key_of(&other, 7) {
                let answer = |request: &Request| searcher().search(request, &NoRanks).unwrap();
                prop_assert!(same(&answer(&one), &answer(&other)), "{:?} {:?}", one.query, other.query);
            }
        }
    }
}

#[test]
fn spellings_share_a_key_where_the_index_reads_them_alike() {
    let same = |a: &str, b: &str| assert_eq!(key_of(&request(a), 7), key_of(&request(b), 7), "{a} | {b}");
    let differ = |a: &str, b: &str| assert_ne!(key_of(&request(a), 7), key_of(&request(b), 7), "{a} | {b}");
    same("Ponte RIO", "rio   ponte");
    same("\"História da Ponte\"", "\"historia da ponte\"");
    same("inurl:história", "inurl:historia");
    same("farol site:a.org site:b.org lang:pt", "lang:pt site:b.org FAROL site:a.org");
    same("ponte -mar -rio", "ponte -rio -mar");
    // Unquoted words are looked up by their stems, which know accents.
    differ("está", "esta");
    differ("ponte", "pontes");
    differ("\"rio ponte\"", "\"ponte rio\"");
    differ("ponte ponte", "ponte");
    differ("ponte -rio", "ponte rio");
    differ("site:a.org x", "site:b.org x");
}

#[test]
fn a_repeated_question_is_answered_from_memory() {
    let (cache, asked) = (cache(), AtomicUsize::new(0));
    let ask = |text: &str, generation: u64| {
        let ask = || {
            asked.fetch_add(1, Ordering::SeqCst);
            Ok((Answer { total: 7, generation, ..Answer::default() }, generation))
        };
        cache.answer(&request(text), generation, ask).unwrap().total
    };
    assert_eq!([ask("ponte rio", 1), ask("RIO ponte", 1), ask("ponte rio", 1)], [7, 7, 7]);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // Another state of the index: an answer without hits is not given any more.
    ask("ponte rio", 2);
    ask("ponte", 2);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let status = cache.status();
    assert_eq!((status.hits, status.misses, status.expired, status.answers), (2, 3, 0, 2));
    assert!(status.bytes > 0 && status.bytes <= status.bytes_max);
    // In any order and case of its words it is one question, as for the cache.
    assert_eq!(status.hot[0], ("ponte rio".to_string(), 4));
}

/// An answer with one hit.
fn with_a_hit(total: usize) -> Answer {
    static HITS: OnceLock<Vec<Hit>> = OnceLock::new();
    let found = || searcher().search(&request("rio"), &NoRanks).unwrap().hits;
    let hits = HITS.get_or_init(found).clone();
    assert!(!hits.is_empty());
    Answer { hits, total, ..Answer::default() }
}

#[test]
fn while_the_index_changes_answers_are_given_for_the_grace_and_say_how_old_they_are() {
    let cache = ResultCache::new(&settings("[cache]\nttl = '10m'\ngrace = '1h'")).unwrap();
    let asked = AtomicUsize::new(0);
    let ask = |state: u64| {
        let ask = || Ok((with_a_hit(asked.fetch_add(1, Ordering::SeqCst)), state));
        cache.answer(&request("a"), state, ask).unwrap()
    };
    ask(1);
    std::thread::sleep(Duration::from_millis(20));
    // A crawl commits again and again.
    for state in 2..50 {
        let answer = ask(state);
        assert!(answer.total == 0 && answer.age >= Duration::from_millis(20), "{:?}", answer.age);
    }
    assert_eq!((asked.load(Ordering::SeqCst), cache.status().hits), (1, 48));
    // Without grace each change ends them.
    let strict = ResultCache::new(&settings("[cache]\ngrace = '0s'")).unwrap();
    for state in 0..5 {
        let answer = strict.answer(&request("a"), state, || Ok((with_a_hit(state as usize), state))).unwrap();
        assert_eq!((answer.total as u64, answer.age), (state, Duration::ZERO));
    }
}

#[test]
fn when_the_index_is_in_trouble_a_superseded_answer_is_better_than_none() {
    let cache = ResultCache::new(&settings("[cache]\ngrace = '300ms'")).unwrap();
    let whole = || Ok((with_a_hit(1), 1));
    cache.answer(&request("a"), 1, whole).unwrap();
    // Superseded for a sixth of the grace, this one is to make it anew, and cannot.
    cache.answer(&request("a"), 2, || Err(EngineError::Busy)).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    let renewing = AtomicUsize::new(0);
    let fails = || {
        renewing.fetch_add(1, Ordering::SeqCst);
        Err(EngineError::Busy)
    };
    // On a machine so slow that the grace is over by now, there is nothing to give.
    if let Ok(answer) = cache.answer(&request("a"), 2, fails) {
        assert!(answer.total == 1 && renewing.load(Ordering::SeqCst) == 1);
    }
}

#[test]
fn states_are_numbered_in_the_order_in_which_they_come() {
    let mut states = StateNumbers::default();
    let at = Timestamp::from_millis;
    assert_eq!(
        [states.current(77, at(0)), states.current(5, at(2_000)), states.current(5, at(2_001))],
        [1, 2, 2]
    );
    // Somebody looked just before the change: behind, not ahead.
    assert_eq!(states.current(77, at(2_100)), 1);
    // An answer may be made of a state that nobody has named yet, or of an earlier one.
    assert_eq!([states.of(9), states.of(77), states.current(9, at(4_000))], [3, 1, 3]);
    // What comes back later is a new state: answers made meanwhile are not of it.
    assert_eq!(states.current(77, at(6_000)), 4);
    (100..1_000).for_each(|state| {
        states.current(state, at(10_000));
    });
    assert!(states.known.len() <= STATES);
}

#[test]
fn a_suggestion_is_for_those_who_spelt_it_so() {
    let cache = cache();
    let ask = |text: &str| {
        let made = farol_query::read(&format!("{text}!")).query;
        let ask = move || Ok((Answer { suggestion: Some(made), ..Answer::default() }, 1));
        farol_query::write(&cache.answer(&request(text), 1, ask).unwrap().suggestion.unwrap())
    };
    assert_eq!(
        [ask("Pnote Rio"), ask("rio pnote"), ask("rio pnote")],
        ["Pnote Rio!", "rio pnote!", "rio pnote!"]
    );
    assert_eq!((cache.status().hits, cache.status().misses), (1, 2));
}

#[test]
fn an_error_is_not_kept_and_settings_can_turn_it_off() {
    let cache = cache();
    let fails = || Err(EngineError::Busy);
    assert_eq!(cache.answer(&request("a"), 1, fails).unwrap_err(), EngineError::Busy);
    assert!(cache.answer(&request("a"), 1, || Ok((Answer::default(), 1))).is_ok());
    assert!(ResultCache::new(&settings("[cache]\nmemory = '0B'")).is_none());
}

#[test]
fn nothing_outlives_its_time() {
    let cache = ResultCache::new(&settings("[cache]\nttl = '0s'\ngrace = '1h'")).unwrap();
    let asked = AtomicUsize::new(0);
    for _ in 0..3 {
        let ask = || Ok((Answer { total: asked.fetch_add(1, Ordering::SeqCst), ..Answer::default() }, 1));
        cache.answer(&request("a"), 1, ask).unwrap();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[test]
fn many_who_ask_at_once_cost_one_question_to_the_index() {
    let (cache, asked, gate) = (cache(), AtomicUsize::new(0), Barrier::new(9));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                gate.wait();
                let ask = || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    // Until all others have joined the flight, or found the answer.
                    while asked.load(Ordering::SeqCst) == 1 && cache.status().misses < 8 {
                        std::thread::yield_now();
                    }
                    Ok((Answer { total: 5, ..Answer::default() }, 1))
                };
                assert_eq!(cache.answer(&request("hot"), 1, ask).unwrap().total, 5);
            });
        }
        gate.wait();
    });
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(cache.status().shared, 7);
}

#[test]
fn who_leads_and_breaks_down_leaves_nobody_waiting() {
    let cache = cache();
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.answer(&request("a"), 1, || panic!("the index broke"))
    }));
    assert!(broken.is_err());
    assert!(cache.answer(&request("a"), 1, || Ok((Answer::default(), 1))).is_ok());
    assert!(cache.flights.lock().is_empty());
}
