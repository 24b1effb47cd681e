//! A shard as a whole: upsert, delete, commit, reopen; and against a naive model.

use crate::testing::{TestShard, page, page_in, paths, query};
use crate::{Error, NoRanks, Searcher, Shard, ShardOptions};
use farol_base::query::{Field, Filters, Query, Request, Term};
use farol_base::{CanonicalUrl, Document, Host, Language, PagePosition, Timestamp};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn options() -> ShardOptions {
    ShardOptions { writer_memory_bytes: 15_000_000, ..ShardOptions::default() }
}

fn at(offset: u64) -> PagePosition {
    PagePosition { file: 1, offset }
}

#[test]
fn a_page_replaces_itself() {
    let mut test = TestShard::new(&[page("http://a/1", "Old", "first text")]);
    test.shard.put(&page("http://a/1", "New", "second text")).unwrap();
    test.shard.put(&page("http://a/1", "Newest", "third text")).unwrap();
    assert_eq!(test.ask("first").total, 1); // Nothing changes before the commit.
    test.shard.commit(at(1)).unwrap();
    assert_eq!((test.ask("first").total, test.ask("second").total, test.ask("third").total), (0, 0, 1));
    assert_eq!(test.searcher().documents(), 1);
    let url = CanonicalUrl::parse("http://a/1").unwrap();
    assert_eq!(test.searcher().document(&url).unwrap().unwrap().title, "Newest");
    assert_eq!(test.searcher().find_by_id(url.id()).unwrap().unwrap().body, "third text");
}

#[test]
fn pages_and_hosts_are_forgotten() {
    let mut test = TestShard::new(&[
        page("http://a/1", "One", "light one"),
        page("http://a/2", "Two", "light two"),
        page("https://a/3", "Three", "light three"),
        page("http://a:81/4", "Four", "light four"),
        page("http://sub.a/5", "Five", "light five"),
    ]);
    test.shard.delete(&CanonicalUrl::parse("http://a/1").unwrap());
    test.shard.commit(at(1)).unwrap();
    assert_eq!(test.ask("light").total, 4);
    test.shard.delete_host(&Host::parse("http://a/").unwrap());
    test.shard.commit(at(2)).unwrap();
    let mut left = test.paths("light");
    left.sort();
    assert_eq!(left, ["/3", "/4", "/5"]); // Other scheme, port and name are other hosts.
    assert!(test.searcher().document(&CanonicalUrl::parse("http://a/2").unwrap()).unwrap().is_none());
    assert_eq!(test.searcher().verify().unwrap(), 3);
}

#[test]
fn a_crash_loses_what_was_not_committed() {
    let dir = tempfile::tempdir().unwrap();
    let mut shard = Shard::open(dir.path(), options()).unwrap();
    assert_eq!(shard.watermark().unwrap(), PagePosition::default());
    shard.put(&page("http://a/1", "Kept", "light")).unwrap();
    let generation = shard.commit(at(100)).unwrap();
    shard.put(&page("http://a/2", "Lost", "light")).unwrap();
    shard.delete(&CanonicalUrl::parse("http://a/1").unwrap());
    drop(shard);
    let mut shard = Shard::open(dir.path(), options()).unwrap();
    assert_eq!(shard.watermark().unwrap(), at(100));
    let searcher = shard.searcher();
    assert_eq!((searcher.documents(), searcher.generation()), (1, generation));
    assert!(shard.commit(at(200)).unwrap() > generation);
    assert_eq!(shard.commit(at(200)).unwrap(), searcher.generation()); // Nothing new, nothing done.
}

#[test]
fn one_writer_many_readers() {
    let mut test = TestShard::new(&[page("http://a/1", "One", "light")]);
    assert!(matches!(Shard::open(test.dir.path(), options()), Err(Error::Locked { .. })));
    let other = Searcher::open(test.dir.path()).unwrap();
    let clone = test.searcher();
    test.shard.put(&page("http://a/2", "Two", "light")).unwrap();
    let generation = test.shard.commit(at(1)).unwrap();
    assert_eq!((clone.documents(), clone.generation()), (2, generation)); // Sees every commit.
    assert_eq!(other.documents(), 1);
    let later = Searcher::open(test.dir.path()).unwrap();
    assert_eq!((later.documents(), later.generation()), (2, generation));
    assert!(test.shard.searcher().bytes_on_disk() > 0);
}

#[test]
fn a_lock_file_left_behind_does_not_block() {
    let test = TestShard::new(&[page("http://a/1", "One", "light")]);
    let TestShard { shard, dir } = test;
    drop(shard);
    std::fs::write(dir.path().join(".tantivy-writer.lock"), "").unwrap();
    assert_eq!(Shard::open(dir.path(), options()).unwrap().searcher().documents(), 1);
}

#[test]
fn other_formats_and_damage_are_told() {
    let test = TestShard::new(&[page("http://a/1", "One", "light")]);
    let TestShard { shard, dir } = test;
    drop(shard);
    let mut files = std::fs::read_dir(dir.path()).unwrap().flatten().map(|file| file.path());
    let store = files.find(|path| path.extension().is_some_and(|ext| ext == "store")).unwrap();
    let mut bytes = std::fs::read(&store).unwrap();
    bytes[3] ^= 0x55;
    std::fs::write(&store, &bytes).unwrap();
    let damaged = Searcher::open(dir.path()).and_then(|searcher| searcher.verify());
    assert!(damaged.is_err(), "{damaged:?}");
    std::fs::write(dir.path().join("FORMAT"), "farol index 99\n").unwrap();
    for error in [Shard::open(dir.path(), options()).err(), Searcher::open(dir.path()).err()] {
        assert!(matches!(error, Some(Error::Format { ref found, wanted: 5, .. }) if found == "99"));
    }
    std::fs::remove_file(dir.path().join("FORMAT")).unwrap();
    assert!(matches!(Shard::open(dir.path(), options()).err(), Some(Error::Format { .. })));
    assert!(matches!(Searcher::open(&dir.path().join("none")).err(), Some(Error::File { .. })));
}

#[test]
fn what_stands_around_the_main_text_is_found_too_for_less() {
    let menu = |url: &str, body: &str| Document {
        rest: "Contents of the harbour guide\nTides and moorings".into(),
        ..page(url, "Guide", body)
    };
    let shard = TestShard::new(&[
        menu("http://a/1", "How to reach the pier"),
        page("http://b/2", "Guide", "Tides and moorings of the harbour, with other words about it"),
        menu("http://c/3", "Light and shade"),
    ]);
    assert_eq!((shard.paths("tides")[0].as_str(), shard.ask("tides").total), ("/2", 3));
    assert_eq!(shard.ask("mooring").total, 3, "other forms of a word are found there as well");
    assert_eq!(shard.ask("\"harbour guide\"").total, 2);
    assert_eq!(shard.paths("pier tides")[0], "/1");
    // A word of a menu makes no page unwanted.
    assert_eq!(shard.ask("guide -tides").total, 2);
}

#[test]
fn words_are_found_across_languages() {
    let shard = TestShard::new(&[
        page_in("pt", "http://a/pt", "Faróis", "As luzes dos faróis iluminam as praias e instalações"),
        page_in("es", "http://b/es", "Luces", "Las canciones de los marineros"),
        page_in("fr", "http://c/fr", "Phares", "L'eau des océans et les chevaux"),
        page_in("de", "http://d/de", "Leuchttürme", "Die Straßen und Häuser der Küste"),
        page_in("it", "http://e/it", "Fari", "Le navi perdute nella notte"),
        page_in("ja", "http://f/ja", "灯台", "東京湾の灯台を見る"),
        page_in("zh", "http://g/zh", "灯塔", "北京大学图书馆"),
        page_in("ko", "http://h/ko", "등대", "서울의 학교에서 공부한다"),
        page_in("th", "http://i/th", "ประภาคาร", "ภาษาไทยง่ายมาก"),
        page_in("ru", "http://j/ru", "Маяки", "Новые книги о море"),
        page("http://k/en", "Code", "Use std::vec, C++ and fn_name with UTF-8 on x86_64; don't panic"),
    ]);
    let check = |words: &str, want: &str| {
        let found = shard.paths(words);
        assert_eq!(found.first().map(String::as_str), Some(want), "{words}: {found:?}");
    };
    check("farois", "/pt");
    check("iluminar praia", "/pt");
    check("instalacao", "/pt"); // Typed without accents, written in another form.
    check("canción marinero", "/es");
    check("ocean", "/fr");
    check("cheval eau", "/fr");
    check("strasse haus", "/de");
    check("nave perduta", "/it");
    check("灯台", "/ja");
    check("東京", "/ja");
    check("图书馆", "/zh");
    check("北", "/zh"); // One character of a run.
    check("학교", "/ko");
    check("ไทย", "/th");
    check("книга", "/ru");
    check("std::vec", "/en");
    check("c++", "/en");
    check("fn_name", "/en");
    check("name", "/en");
    check("utf-8", "/en");
    check("x86_64", "/en");
    check("dont", "/en");
    check("\"std::vec C++\"", "/en");
    assert!(shard.paths("\"vec std\"").is_empty());
    assert!(shard.paths("\"canción\"").is_empty()); // Quoted: this form alone.
    let languages = shard.searcher().languages();
    assert_eq!((languages.len(), languages[0].1), (11, 1));
}

#[test]
fn fields_phrases_and_relaxation() {
    let shard = TestShard::new(&[
        page("http://a/one", "Harbour guide", "the old lighthouse keeper sails"),
        page("http://b/two", "Keeper guide", "the lighthouse of old times"),
        Document { anchors: "wonderful beacon".into(), ..page("http://c/three", "Third", "nothing") },
    ]);
    let check = |words: &str, want: &[&str]| {
        let mut found = shard.paths(words);
        found.sort();
        assert_eq!(found, want, "{words}");
    };
    check("t:guide", &["/one", "/two"]);
    check("t:guides", &["/one", "/two"]);
    check("t:keeper", &["/two"]);
    check("u:three", &["/three"]);
    check("\"old lighthouse\"", &["/one"]);
    check("t:\"harbour guide\"", &["/one"]);
    check("\"guide the\"", &[]); // Title and body are not neighbours.
    check("beacon", &["/three"]);
    check("the", &["/one", "/two"]); // A function word alone is a word.
    check("--- …", &[]);
    check("lighthouse sails", &["/one", "/two"]); // Both have one of the words...
    assert_eq!(shard.paths("lighthouse sails")[0], "/one"); // ...and the page with all of them is first.
    assert_eq!(shard.paths("the lighthouse sails")[0], "/one");
    assert_eq!(shard.ask("").total, 0);
}

#[test]
fn the_verbs_of_asking_are_no_words_of_a_sentence() {
    let shard = TestShard::new(&[
        page("http://a/lanterns", "Lanterns", "lanterns for ships, and lanterns for houses"),
        page(
            "http://b/boat",
            "Boats",
            "get a boat that has a mast, an anchor, two oars, ropes, sails and lanterns",
        ),
    ]);
    assert_eq!(shard.paths("get lanterns"), ["/boat", "/lanterns"]);
    assert_eq!(shard.paths("how do i get lanterns"), ["/lanterns", "/boat"]);
    assert_eq!(shard.paths("how do i get"), ["/boat"]); // Nothing else is asked for.
}

#[test]
fn a_long_page_with_every_word_of_a_sentence_is_not_ahead_of_a_better_one() {
    let filler = "of many other things that have nothing to do with it at all ".repeat(40);
    let mut pages = vec![
        page(
            "http://a/upload",
            "File uploads",
            "upload a file with a form: the form takes the file to upload",
        ),
        page(
            "http://b/long",
            "Everything",
            &format!("{filler} visitors {filler} upload {filler} file {filler} form"),
        ),
    ];
    let visitors =
        (0..8).map(|at| page(&format!("http://c/{at}"), "Guests", &format!("visitors came {at} times")));
    pages.extend(visitors);
    let shard = TestShard::new(&pages);
    assert_eq!(shard.paths("visitors upload file form")[0], "/upload");
    assert_eq!(shard.paths("visitors upload file")[0], "/long"); // Who gives three words means all of them.
    assert_eq!(shard.paths("where do visitors upload the file")[0], "/upload"); // A sentence has more.
}

#[test]
fn filters_alone_list_the_newest_pages() {
    let day = |day| Timestamp::from_date(2024, 5, day);
    let shard = TestShard::new(&[
        Document { dated: day(3), ..page("http://a/3", "x", "x1") },
        Document { dated: day(9), ..page("http://b/9", "x", "x2") },
        Document { dated: day(6), ..page("http://c/6", "x", "x3") },
    ]);
    let filters = Filters { languages: vec![Language::ENGLISH], ..Filters::default() };
    assert_eq!(paths(&shard.ask_filtered("", filters.clone())), ["/9", "/6", "/3"]);
    assert!(shard.ask_filtered("...", filters).hits.is_empty()); // Words were asked for, none can match.
}

/// Words of the model and the class in which each is found: forms of one word share a class.
const WORDS: &[(&str, &str)] = &[
    ("light", "light"),
    ("lights", "light"),
    ("café", "cafe"),
    ("cafe", "cafe"),
    ("harbour", "harbour"),
    ("x86", "x86"),
    ("東京", "東京"),
    ("keeper", "keeper"),
];

#[derive(Clone, Debug)]
enum Op {
    Put { page: usize, words: Vec<usize>, pt: bool },
    Delete { page: usize },
    DeleteHost { host: usize },
    Commit,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0usize..12, prop::collection::vec(0..WORDS.len(), 0..6), any::<bool>())
            .prop_map(|(page, words, pt)| Op::Put { page, words, pt }),
        2 => (0usize..12).prop_map(|page| Op::Delete { page }),
        1 => (0usize..3).prop_map(|host| Op::DeleteHost { host }),
        2 => Just(Op::Commit),
        1 => Just(Op::Reopen),
    ]
}

fn model_url(page: usize) -> String {
    format!("http://h{}.test/{page}", page % 3)
}

type Model = BTreeMap<String, (Vec<usize>, bool)>;

/// Compares the shard with a scan over the model.
fn compare(shard: &Shard, model: &Model) {
    let searcher = shard.searcher();
    assert_eq!(searcher.documents(), model.len() as u64);
    let urls: BTreeSet<String> = searcher.all_urls().map(|url| url.unwrap().to_string()).collect();
    assert_eq!(urls, model.keys().cloned().collect());
    let ask = |words: &str, filters: Filters| -> (BTreeSet<String>, usize) {
        let request = Request {
            query: query(words, filters),
            first: 0,
            count: 50,
            languages: Language::ENGLISH.into(),
        };
        let answer = searcher.search(&request, &NoRanks).unwrap();
        (answer.hits.iter().map(|hit| hit.url.to_string()).collect(), answer.total)
    };
    // Naming the sites keeps all hits of a host.
    let all = Filters { sites: vec!["test".into()], ..Filters::default() };
    for (word, class) in WORDS {
        let has = |words: &Vec<usize>| words.iter().any(|at| WORDS[*at].1 == *class);
        // Stems are known for English pages and the word alone for others ("lights" has a Portuguese stem too).
        let english: BTreeSet<String> =
            model.iter().filter(|(_, (words, pt))| !pt && has(words)).map(|(url, _)| url.clone()).collect();
        let only = Filters { languages: vec![Language::ENGLISH], ..all.clone() };
        assert_eq!(ask(word, only), (english.clone(), english.len()), "{word}");
        let one_host = Filters { sites: vec!["h1.test".into()], ..Filters::default() };
        let at_host: BTreeSet<String> =
            english.iter().filter(|url| url.starts_with("http://h1.")).cloned().collect();
        let only = Filters { languages: vec![Language::ENGLISH], ..one_host };
        assert_eq!(ask(word, only).0, at_host, "{word} at a site");
    }
    let pt = Filters { languages: vec![Language::PORTUGUESE], ..all.clone() };
    let portuguese: BTreeSet<String> =
        model.iter().filter(|(_, (_, pt))| *pt).map(|(url, _)| url.clone()).collect();
    assert_eq!(ask("", pt).0, portuguese);
    let phrase: BTreeSet<String> = model
        .iter()
        .filter(|(_, (words, _))| {
            words.windows(2).any(|w| WORDS[w[0]].1 == "harbour" && WORDS[w[1]].1 == "keeper")
        })
        .map(|(url, _)| url.clone())
        .collect();
    assert_eq!(ask("\"harbour keeper\"", all.clone()).0, phrase);
    let without: BTreeSet<String> = model
        .iter()
        .filter(|(_, (words, _))| {
            words.iter().any(|at| WORDS[*at].0 == "x86") && !words.iter().any(|at| WORDS[*at].1 == "harbour")
        })
        .map(|(url, _)| url.clone())
        .collect();
    assert_eq!(ask("x86 -\"harbour\"", all).0, without);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn a_shard_answers_like_a_scan(ops in prop::collection::vec(op(), 1..30)) {
        let dir = tempfile::tempdir().unwrap();
        let mut shard = Shard::open(dir.path(), options()).unwrap();
        let (mut model, mut committed) = (Model::new(), Model::new());
        let (mut watermark, mut last) = (0, 0);
        for op in ops.into_iter().chain([Op::Commit, Op::Reopen]) {
            match op {
                Op::Put { page: number, words, pt } => {
                    let url = model_url(number);
                    let body: Vec<&str> = words.iter().map(|at| WORDS[*at].0).collect();
                    let code = if pt { "pt" } else { "en" };
                    // The URL makes the text unlike any other, so that no two are duplicates.
                    let text = format!("{} {number}", body.join(" "));
                    shard.put(&page_in(code, &url, "", &text)).unwrap();
                    model.insert(url, (words, pt));
                }
                Op::Delete { page } => {
                    shard.delete(&CanonicalUrl::parse(&model_url(page)).unwrap());
                    model.remove(&model_url(page));
                }
                Op::DeleteHost { host } => {
                    let host = Host::parse(&model_url(host)).unwrap();
                    shard.delete_host(&host);
                    model.retain(|url, _| !url.starts_with(&format!("{host}/")));
                }
                Op::Commit => {
                    watermark += 1;
                    last = shard.commit(at(watermark)).unwrap().max(last);
                    committed = model.clone();
                    compare(&shard, &committed);
                }
                Op::Reopen => {
                    drop(shard);
                    shard = Shard::open(dir.path(), options()).unwrap();
                    model = committed.clone();
                    let want = if watermark == 0 { PagePosition::default() } else { at(watermark) };
                    prop_assert_eq!(shard.watermark().unwrap(), want);
                    compare(&shard, &committed);
                }
            }
        }
        prop_assert_eq!(shard.searcher().verify().unwrap(), committed.len() as u64);
    }
}

fn any_term() -> impl Strategy<Value = Term> {
    let text = prop_oneof![".{0,20}", "(light|harbour|東京|c\\+\\+|\"| |-){0,5}"];
    let field = prop_oneof![Just(Field::Any), Just(Field::Title), Just(Field::Url)];
    (text, field, any::<bool>()).prop_map(|(text, field, phrase)| Term { text, field, phrase })
}

fn any_filters() -> impl Strategy<Value = Filters> {
    let texts = || prop::collection::vec(prop_oneof![".{0,12}", "(a|b|/|\\.|:){0,8}"], 0..2);
    let instant = || prop::option::of(any::<u64>().prop_map(Timestamp::from_millis));
    (texts(), texts(), texts(), texts(), instant(), instant()).prop_map(
        |(sites, not_sites, file_types, not_file_types, after, before)| Filters {
            sites,
            not_sites,
            file_types,
            not_file_types,
            after,
            before,
            ..Filters::default()
        },
    )
}

#[test]
fn no_question_breaks_it() {
    let shard = TestShard::new(&[
        page("http://a/1", "Light", "the harbour light c++"),
        page_in("ja", "http://b/2", "東京", "東京タワー"),
        page_in("pt", "http://b/3", "", ""),
    ]);
    let searcher = shard.searcher();
    let question = (
        prop::collection::vec(any_term(), 0..6),
        prop::collection::vec(any_term(), 0..2),
        any_filters(),
        any::<(u16, u16)>(),
        ".{0,10}",
    );
    proptest!(ProptestConfig::with_cases(200), |((wanted, unwanted, filters, (first, count), typed) in question)| {
        let query = Query { wanted, unwanted, filters, as_written: false };
        let request = Request { query, first: first.into(), count: count.into(), languages: Default::default() };
        let answer = searcher.search(&request, &NoRanks).unwrap();
        prop_assert!(answer.hits.len() <= answer.total.max(3));
        prop_assert!(answer.hits.iter().all(|hit| hit.score.is_finite()));
        searcher.suggest(&typed, first.into());
    });
    let many = Query { wanted: query(&"light ".repeat(5000), Filters::default()).wanted, ..Query::default() };
    let request = Request { query: many, first: 0, count: 10, languages: Default::default() };
    assert_eq!(searcher.search(&request, &NoRanks).unwrap().hits.len(), 1);
    let long = query(&format!("\"{}\"", "light ".repeat(5000)), Filters::default());
    let request = Request { query: long, first: 0, count: 10, languages: Default::default() };
    assert_eq!(searcher.search(&request, &NoRanks).unwrap().hits.len(), 0);
}
