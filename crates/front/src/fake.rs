//! An engine that knows a few made-up pages, some of them hostile: for tests and for looking at the pages.
//!
//! It answers any question with the same hits, whatever the words; only paging, `nothing`, `mispelt` and `lighthuose`
//! have a meaning. Numbers of the past are a formula.

mod cluster;
mod federation;
mod ring;

use crate::*;
use farol_base::query::{Answer, Fragment, Hit, Request, ShardsAnswered};
use farol_base::sync::Mutex;
use farol_base::trace::Trace;
use farol_base::{CanonicalUrl, Host, Language, Origin, PagePosition, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// The instant at which the made-up engine lives: 2026-03-14T15:09:26Z.
const NOW: Timestamp = Timestamp::from_secs(1_773_500_966);

/// Hits that the made-up engine has.
const HITS: usize = 25;

/// A title that would run if it were not escaped.
pub const HOSTILE_TITLE: &str =
    "<script>document.title='hacked'</script><img src=x onerror=alert(1)> & \"quotes\" 'too'";

/// The made-up engine.
#[derive(Debug, Default)]
pub struct Fake {
    /// Every search and stored copy fails with this.
    pub trouble: Option<EngineError>,
    /// Every search takes this long.
    pub pause: Duration,
    /// Every search panics.
    pub panic: bool,
    /// How fresh the pages are is not known.
    pub freshness_unknown: bool,
    /// Results that were opened, in order.
    pub clicks: Mutex<Vec<CanonicalUrl>>,
    /// There is one of everything that is counted.
    pub few: bool,
    /// There is no cache of answers.
    pub no_cache: bool,
    /// The trace of the last search.
    pub trace: Mutex<Option<Trace>>,
    /// Commands that were given, in order.
    pub commands: Mutex<Vec<Command>>,
    /// It is a member of a cluster.
    pub in_cluster: bool,
    /// It shares with engines of other owners.
    pub in_federation: bool,
    /// Orders about that that were given.
    pub shared: Mutex<Vec<FederationOrder>>,
    /// How many parts of the index answer.
    pub shards: Option<ShardsAnswered>,
    /// Orders to the cluster that were given.
    pub orders: Mutex<Vec<ClusterOrder>>,
}

impl Fake {
    /// Commands that were given so far.
    pub fn commands(&self) -> Vec<Command> {
        self.commands.lock().clone()
    }

    fn freshness(&self, pages: u64, fresh: f64, age_secs: u64) -> Option<Freshness> {
        (!self.freshness_unknown).then(|| Freshness { pages, fresh, age: Duration::from_secs(age_secs) })
    }

    fn seeds(&self) -> SeedSummary {
        let report = |url: &str, leads_to: Option<&str>, state, detail: &str| {
            Some(SeedReport {
                url: CanonicalUrl::parse(url).ok()?,
                leads_to: leads_to.and_then(|to| CanonicalUrl::parse(to).ok()),
                state,
                detail: detail.to_string(),
                at: Some(NOW),
            })
        };
        let reports = [
            report("http://intranet.example/", None, SeedState::PrivateAddress, "10.0.0.7"),
            report("https://example.org/a", None, SeedState::NotHtml, HOSTILE_TITLE),
            report("http://example.net/", Some("https://www.example.net/"), SeedState::Fine, ""),
            report("https://docs.example.org/", None, SeedState::Fine, ""),
            report("https://example.com/", None, SeedState::Waiting, ""),
        ];
        SeedSummary { total: 5, fine: 2, waiting: 1, reports: reports.into_iter().flatten().collect() }
    }

    /// Of every hundred questions two take 24 ms, the others 3 ms.
    fn question_times(&self) -> Histogram {
        let mut times = Histogram::default();
        (0..100).for_each(|n| times.add(Duration::from_millis(if n < 2 { 24 } else { 3 })));
        times
    }

    fn is_paused(&self) -> bool {
        let commands = self.commands();
        let last = commands.iter().rev().find(|command| matches!(command, Command::Pause | Command::Resume));
        last == Some(&Command::Pause)
    }
}

fn address(text: &str) -> CanonicalUrl {
    CanonicalUrl::parse(text).expect("made-up addresses are right")
}

/// So many pages link to it, and three of them are told.
fn linked_from(pages: u64) -> LinkedFrom {
    let link = |number: u64| PageLink {
        url: address(&format!("https://www.example.org/list/{number}")),
        text: if number == 1 { String::new() } else { "the <b>old</b> lighthouse".into() },
        nofollow: number == 2,
    };
    LinkedFrom { pages, links: (0..pages.min(3)).map(link).collect() }
}

impl Engine for Fake {
    fn clicked(&self, url: &CanonicalUrl) {
        self.clicks.lock().push(url.clone());
    }

    fn search(&self, request: &Request) -> Result<Answer, EngineError> {
        *self.trace.lock() = Trace::current();
        assert!(!self.panic, "the made-up engine was told to break");
        std::thread::sleep(self.pause);
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        let asked = |word: &str| request.query.wanted.iter().any(|term| term.text == word);
        if asked("nothing") {
            let took = Duration::from_micros(180);
            return Ok(Answer { took, shards: self.shards, ..Answer::default() });
        }
        let end = (request.first + request.count).min(HITS);
        Ok(Answer {
            hits: (request.first.min(HITS)..end).map(hit).collect(),
            total: 1204,
            more: end < HITS,
            suggestion: asked("mispelt").then(|| farol_query::read("misspelt <b>words</b>").query),
            corrected: (asked("lighthuose") && !request.query.as_written)
                .then(|| farol_query::read("lighthouse <i>").query),
            shards: self.shards,
            generation: 42,
            took: Duration::from_micros(3_400),
            missing: Vec::new(),
            age: Duration::ZERO,
        })
    }

    fn suggest(&self, prefix: &str, count: usize) -> Vec<String> {
        let endings = [
            "",
            " de mar",
            " antigo",
            " <script>alert(1)</script>",
            " שלום",
            "es",
            " história",
            "zinho",
            "ização",
        ];
        endings.iter().map(|ending| format!("{prefix}{ending}")).take(count).collect()
    }

    fn stored_copy(&self, url: &CanonicalUrl) -> Result<Option<StoredCopy>, EngineError> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        let (content_type, body) = match url.path() {
            "/missing" => return Ok(None),
            "/paper.pdf" => ("application/pdf", "%PDF-1.7"),
            "/notes.txt" => ("text/plain", "plain <b>notes</b>"),
            _ => ("text/html", COPY),
        };
        Ok(Some(StoredCopy {
            url: url.clone(),
            fetched: NOW - Duration::from_secs(90_000),
            content_type: content_type.into(),
            charset: Some("utf-8".into()),
            body: body.into(),
            archive: url.path() != "/noarchive",
            source: match url.path() {
                "/received" => Some(Origin::named([3; 32], "CIn <https://busca.example.org/>", true)),
                "/unoffered" => Some(Origin::named([4; 32], "", false)),
                _ => None,
            },
        }))
    }

    fn status(&self) -> Status {
        let some = |count: u64| if self.few { 1 } else { count };
        let named =
            |rows: &[(&str, u64)]| rows.iter().map(|(name, count)| (name.to_string(), *count)).collect();
        let language = |tag, count| Language::parse(tag).map(|language| (language, count));
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            state: if self.is_paused() { EngineState::Paused } else { EngineState::Crawling },
            message: if self.is_paused() { "paused by the operator".into() } else { String::new() },
            now: NOW,
            uptime: Duration::from_secs(93_784),
            crawl: CrawlStatus {
                pages_fetched: 182_733,
                pages_per_second: if self.is_paused() { 0.0 } else { 61.42 },
                pages_per_second_mean: 57.9,
                bytes_fetched: 4_120_887_345,
                queue: 391_022,
                urls_known: some(1_204_331),
                robots_bytes: 48_128,
                shapes: 895,
                texts: 170_400,
                visits: 12,
                connections: 40,
                body_bytes: 350_000,
                hosts_sent_away: 3,
                hosts: named(&[
                    ("sleeping", 612),
                    ("waiting", 233),
                    ("leased", 24),
                    ("resting", 17),
                    ("unreachable", 9),
                ]),
                status_codes: vec![
                    (200, 171_022),
                    (301, 6_210),
                    (304, 2_100),
                    (404, 3_011),
                    (403, 120),
                    (500, 92),
                    (503, 178),
                ],
                errors: named(&[
                    ("timeout", 312),
                    ("dns", 41),
                    ("connection_refused", 18),
                    ("tls", 7),
                    ("<i>odd</i>", 1),
                ]),
            },
            seeds: Arc::new(self.seeds()),
            index: IndexStatus {
                generation: 2_113,
                documents: some(168_240),
                pages_indexed: 170_919,
                languages: [("pt", 88_120), ("es", 51_003), ("en", 27_411), ("fr", 1_201), ("ja", 505)]
                    .into_iter()
                    .filter_map(|(tag, count)| language(tag, count))
                    .collect(),
            },
            disk: DiskStatus {
                archive_bytes: 1_310_449_221,
                index_bytes: 802_113_002,
                urls_bytes: 96_220_110,
                links_bytes: 210_993_027,
                free_bytes: Some(181_332_998_144),
            },
            queries: QueryStatus {
                total: 20_981,
                per_second: 4.2,
                p50: Duration::from_micros(3_100),
                p99: Duration::from_micros(24_800),
                times: self.question_times(),
            },
            memory_bytes: 311_427_072,
            freshness: self.freshness(some(168_240), 0.8731, 11_400),
            cache: (!self.no_cache).then(|| CacheStatus {
                hits: 12_031,
                misses: 8_741,
                expired: 902,
                shared: 209,
                answers: some(5_120),
                bytes: 21_004_311,
                bytes_max: 67_108_864,
                evicted: 41,
                hot: vec![("ponte rio".to_string(), 42), (HOSTILE_TITLE.to_string(), 17)],
            }),
        }
    }

    fn history(&self) -> History {
        let step = Duration::from_secs(2);
        let sample = |i: u32| {
            let x = f64::from(i);
            let wave = |period: f64, low: f64, high: f64| {
                low + (high - low) * (0.5 + 0.35 * (x / period).sin() + 0.15 * (x / 3.7).cos())
            };
            Sample {
                at: NOW - step * (600 - i),
                pages_per_second: wave(40.0, 30.0, 95.0),
                outcomes_per_second: [
                    wave(40.0, 25.0, 80.0),
                    wave(25.0, 2.0, 8.0),
                    wave(60.0, 1.0, 5.0),
                    wave(18.0, 0.0, 2.0),
                    wave(33.0, 0.0, 1.5),
                ],
                queue: 391_022 - u64::from(600 - i) * 190,
                index_documents: 168_240 - u64::from(600 - i) * 110,
                index_bytes: 802_113_002 - u64::from(600 - i) * 520_000,
                queries_per_second: wave(70.0, 0.5, 9.0),
                query_p50: Duration::from_secs_f64(wave(55.0, 0.002, 0.006)),
                query_p99: Duration::from_secs_f64(wave(31.0, 0.012, 0.045)),
                // The first minutes were spent in finding out.
                freshness: self.freshness(168_240, wave(45.0, 0.82, 0.9), 11_400).filter(|_| i >= 120),
            }
        };
        History { step, samples: (0..600).map(sample).collect() }
    }

    fn hosts(&self, filter: &str, state: Option<&str>, first: usize, count: usize) -> HostList {
        let states = ["sleeping", "waiting", "leased", "resting", "unreachable"];
        let all = (0..132u64).filter_map(|i| {
            let host = Host::parse(&format!("https://site{i}.example.org/")).ok()?;
            let its = states[(i % 5) as usize];
            let wanted = host.name().contains(filter) && state.is_none_or(|state| state == its);
            wanted.then(|| HostRow {
                host,
                state: its.into(),
                pages_fetched: i * i * 13,
                queue: i * 7,
                errors: i % 4,
                delay: Duration::from_millis(2000 + i * 10),
                next_visit: (i % 3 > 0).then(|| NOW + Duration::from_secs(i * 60)),
                freshness: self.freshness(i * i * 13, 0.5 + i as f64 / 400.0, i * 600).filter(|_| i > 0),
            })
        });
        let all: Vec<_> = all.collect();
        HostList { total: all.len(), rows: all.into_iter().skip(first).take(count).collect() }
    }

    fn host(&self, host: &Host) -> Option<HostDetail> {
        if !host.name().ends_with("example.org") {
            return None;
        }
        let visit = |i: u64| {
            Some(RecentVisit {
                at: NOW - Duration::from_secs(i * 7),
                url: host.url(&format!("/docs/page-{i}.html?x=<{i}>")).ok()?,
                status: [Some(200), Some(304), Some(404), None, Some(503)][(i % 5) as usize],
                outcome: ["indexed", "unchanged", "gone", "timeout", "asked to wait"][(i % 5) as usize]
                    .into(),
                error: (i % 5 == 3).then_some("timeout"),
                took: Duration::from_millis(80 + i * 13),
                bytes: 18_000 + i * 411,
            })
        };
        Some(HostDetail {
            host: host.clone(),
            state: "waiting".into(),
            robots_verdict: "The rules for * apply; 3 paths are refused.".into(),
            robots_fetched: Some(NOW - Duration::from_secs(40_000)),
            robots_rules: "User-agent: *\nDisallow: /private/\nDisallow: /cgi-bin/\nDisallow: /</pre><script>\nCrawl-delay: 5\n".into(),
            delay: Duration::from_secs(5),
            crawl_delay: Some(Duration::from_secs(5)),
            address: Some([192, 0, 2, 7].into()),
            next_visit: Some(NOW + Duration::from_secs(4)),
            pages_known: 5_210,
            pages_fetched: 4_120,
            pages_indexed: 3_990,
            queue: 1_090,
            bytes_fetched: 92_112_004,
            freshness: self.freshness(3_990, 0.645, 94_000),
            errors: vec![("timeout".into(), 12), ("http_5xx".into(), 3)],
            visits: (0..12).filter_map(visit).collect(),
        })
    }

    fn try_robots(&self, url: &CanonicalUrl) -> Option<RobotsTry> {
        let refused = url.path().starts_with("/private/");
        Some(RobotsTry { allowed: !refused, rule: refused.then(|| "Disallow: /private/".into()) })
    }

    fn explain(&self, url: &CanonicalUrl) -> Result<PageDetail, EngineError> {
        let hour = Duration::from_secs(3600);
        let now = Timestamp::from_secs(1_750_000_000);
        let removed_by = url.path().starts_with("/removed").then(|| format!("{}/removed*", url.host()));
        let verdict = match &removed_by {
            Some(order) => PageVerdict { kind: VerdictKind::Removed, detail: order.clone() },
            None if url.path().starts_with("/private") => {
                PageVerdict { kind: VerdictKind::Robots, detail: "Disallow: /private/<i>odd</i>".into() }
            }
            None => PageVerdict { kind: VerdictKind::Found, detail: String::new() },
        };
        let is_indexed = verdict.kind == VerdictKind::Found;
        Ok(PageDetail {
            url: url.clone(),
            state: Some("collected"),
            is_seed: false,
            depth: Some(3),
            removed_by,
            out_of_scope: None,
            robots: self.try_robots(url),
            host_state: Some("resting".into()),
            host_wakes: Some(now + hour),
            host_failures: 0,
            moved_to: None,
            is_indexed,
            title: if is_indexed { "Harbour <b>lights</b> of the west coast".into() } else { String::new() },
            language: Some(Language::ENGLISH),
            twins: if is_indexed { vec![address("https://mirror.example.org/harbour")] } else { Vec::new() },
            similar: Vec::new(),
            linked_from: linked_from(7),
            log: vec![
                PageVisit { at: now, status: Some(304), outcome: "unchanged".into(), bytes: 0 },
                PageVisit { at: now, status: Some(200), outcome: "a page".into(), bytes: 48_211 },
            ],
            log_is_whole: false,
            visits: 7,
            failures: 0,
            last_visit: Some(now),
            last_change: None,
            due: Some(now + 30 * hour),
            plan: RevisitPlan {
                changes: 2.0,
                changes_per_day: 0.4,
                weight: 1.5,
                fresh: 0.93,
                worth: hour,
                price: 5 * hour,
                host_is_full: false,
                interval: 30 * hour,
            },
            verdict,
        })
    }

    fn broken(&self, filter: &str, first: usize, count: usize) -> Result<BrokenList, EngineError> {
        let host = "https://www.example.org";
        let total = if host.contains(filter) { 120 } else { 0 };
        let row = |number: usize| BrokenPage {
            url: address(&format!("{host}/gone/{number}?q=%3Ci%3E")),
            status: [Some(404), Some(410), None][number % 3],
            last_visit: Timestamp::from_secs(1_750_000_000),
            linked_from: linked_from(number as u64 % 9),
        };
        Ok(BrokenList { total, rows: (first..total.min(first + count)).map(row).collect() })
    }

    fn removed_pages(&self) -> Result<Vec<String>, EngineError> {
        Ok(vec!["https://www.example.org/removed*".into(), "https://www.example.org/<i>odd</i>".into()])
    }

    fn command(&self, command: Command) -> Result<String, EngineError> {
        let done = match &command {
            Command::Pause => "Fetching is paused.".to_string(),
            Command::Resume => "Fetching goes on.".to_string(),
            Command::AddSeed(seed) => match CanonicalUrl::parse(seed) {
                Ok(url) => format!("{url} was added."),
                Err(error) => return Err(EngineError::Invalid(format!("the seed was not added: {error}"))),
            },
            Command::RemoveHost(host) => format!("{host} and its pages are gone."),
            Command::Refetch(pages) => format!("{pages} is fetched again."),
            Command::RemovePages(pages) => format!("{pages} is removed."),
            Command::RestorePages(pages) => format!("{pages} is put back."),
        };
        self.commands.lock().push(command);
        Ok(done)
    }

    fn federation(&self) -> Option<FederationStatus> {
        self.in_federation.then(federation::federation)
    }

    fn federation_order(&self, order: FederationOrder) -> Result<String, EngineError> {
        let agreement = match &order {
            FederationOrder::Accept { agreement }
            | FederationOrder::Refuse { agreement }
            | FederationOrder::Amend { agreement, .. }
            | FederationOrder::End { agreement, .. } => Some(agreement),
            _ => None,
        };
        let status =
            self.federation().ok_or(EngineError::Unavailable("this engine shares nothing".into()))?;
        if let Some(agreement) = agreement.filter(|agreement| status.agreement(agreement).is_none()) {
            return Err(EngineError::Invalid(format!("no agreement begins with {agreement:?}")));
        }
        self.shared.lock().push(order);
        Ok("It is done.".into())
    }

    fn cluster(&self) -> Option<ClusterStatus> {
        self.in_cluster.then(cluster::cluster)
    }

    fn ring(&self) -> Option<RingStatus> {
        self.in_cluster.then(ring::ring)
    }

    fn cluster_order(&self, order: ClusterOrder) -> Result<String, EngineError> {
        let Some(status) = self.cluster() else {
            return Err(EngineError::Unavailable("this process is not a member of a cluster".into()));
        };
        let done = match &order {
            ClusterOrder::Replan => "The planner plans as soon as the table in force is settled.".to_string(),
            ClusterOrder::Drain(id) => match status.node(id) {
                Some(node) => format!("{} gives its work away and leaves.", node.name),
                None => return Err(EngineError::Invalid(format!("no node has the id {id}"))),
            },
        };
        self.orders.lock().push(order);
        Ok(done)
    }
}

/// Text with the words between asterisks as hits.
fn marked(text: &str) -> Vec<Fragment> {
    let pieces = text.split('*').enumerate().filter(|(_, piece)| !piece.is_empty());
    pieces.map(|(i, piece)| Fragment { text: piece.into(), hit: i % 2 == 1 }).collect()
}

fn hit(rank: usize) -> Hit {
    let long = format!("https://example.org/a/very/deep/folder/{}/index.html", "long-name-".repeat(20));
    let word = format!("*{}* {}", "Donaudampfschifffahrt".repeat(6), "ñ".repeat(120));
    let (url, title, snippet, language) = match rank % 8 {
        0 => (
            "https://faroles.example.org/historia/torre-de-hercules",
            "La Torre de Hércules: el *faro* romano más antiguo en servicio",
            "El *faro* de La Coruña, construido en el siglo I, sigue guiando a los barcos. Su altura es de 55 metros, y desde 2009 es Patrimonio de la Humanidad; la linterna actual se ve desde 23 millas náuticas.",
            Some("es"),
        ),
        1 => (
            "https://evil.test/%3Cscript%3Ealert(1)%3C/script%3E?a=%22onmouseover=%22x",
            HOSTILE_TITLE,
            "A snippet with </p><script>alert(1)</script> and *<b>marked</b>* markup, &amp; entities, and a \u{202E}direction override.",
            Some("en"),
        ),
        2 => (
            "https://he.example.net/%D7%9E%D7%92%D7%93%D7%9C%D7%95%D7%A8",
            "המגדלור הישן של *יפו* והסיפור שמאחוריו",
            "*מגדלור* הוא מבנה גבוה בעל מקור אור בראשו, המשמש לניווט של ספינות בלילה. המגדלור (Lighthouse) של יפו נבנה בשנת 1865.",
            Some("he"),
        ),
        3 => (
            &*long,
            &*word,
            "Wörter ohne Ende dürfen das Layout nicht sprengen: *RindfleischetikettierungsüberwachungsaufgabenübertragungsgesetzRindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz*.",
            Some("de"),
        ),
        4 => (
            "http://docs.example.com:8080/manual/pt/introdução",
            "Introdução ao uso do *farol* — Manual do navegante",
            "Um *farol* é uma estrutura elevada, com um potente aparelho ótico dotado de fonte de luz, visível a longas distâncias. Este capítulo explica as luzes, os setores e as cores usadas no Brasil e em Portugal.",
            Some("pt"),
        ),
        5 => (
            "https://example.org/",
            "",
            "A page without a title shows its address instead. Nothing more is known about this *lighthouse*.",
            None,
        ),
        6 => (
            "https://zh.example.org/灯塔/历史",
            "灯塔的历史与*技术*发展",
            "*灯塔*是位于海岸、港口或河道，用以指引船只方向的建筑物。灯塔大部份都类似塔的形状，透过塔顶的透镜系统，将光芒射向海面照明。",
            Some("zh"),
        ),
        _ => (
            "https://en.example.org/wiki/Fresnel_lens",
            "Fresnel lens: how a *lighthouse* reaches twenty miles",
            "The design allows lenses of large aperture and short focal length without the mass of a lens of conventional design. The first was used in 1823 in the Cordouan *lighthouse*.",
            Some("en"),
        ),
    };
    let numbered = CanonicalUrl::parse(&if rank < 8 {
        url.to_string()
    } else {
        format!("https://example.org/more/{rank}")
    });
    let fallback = || {
        CanonicalUrl::parse("https://example.org/")
            .unwrap_or_else(|_| unreachable!("a constant URL is valid"))
    };
    Hit {
        url: numbered.unwrap_or_else(|_| fallback()),
        title: marked(title),
        snippet: marked(snippet),
        language: language.and_then(Language::parse),
        dated: (rank % 3 != 2).then(|| NOW - Duration::from_secs(rank as u64 * 8_640_000)),
        fetched: NOW - Duration::from_secs(rank as u64 * 3600),
        score: 12.5 / (rank + 1) as f32,
        duplicates: [0, 1, 0, 12][rank % 4],
        more_from_host: rank.is_multiple_of(3),
        pinned: rank == 0,
        position: PagePosition::default(),
        strict: rank < 4,
        source: (rank == 3).then(|| Origin::named([3; 32], "CIn <https://busca.example.org/>", true)),
        content: rank as u64 + 1,
        simhash: 0,
    }
}

/// A stored page that tries everything.
const COPY: &str = r#"<!doctype html><html><head><title>Old page</title><style>body{font:16px serif;margin:2em;color:#234}
h1{color:#17648f}</style><meta http-equiv="refresh" content="1;url=https://evil.test/">
<link rel="stylesheet" href="https://evil.test/x.css"><base href="https://evil.test/"></head>
<body onload="document.body.textContent='hacked'"><h1>A page as it was</h1>
<p>Kept on the day of the visit. The frame around it lets nothing out.</p>
<script>parent.document.title='hacked'; top.location='https://evil.test/'</script>
<img src="https://evil.test/pixel.gif" alt="an image that stays away">
<form action="https://evil.test/"><button>Send</button></form><iframe src="https://evil.test/"></iframe></body></html>"#;
