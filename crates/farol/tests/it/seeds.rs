//! Seeds as newcomers name them: those that lead elsewhere, and those that give nothing. Looks at what a person reads.

use crate::fixture::{Data, Farol, get};
use crate::site::{Site, SiteReply};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn html(body: &str) -> SiteReply {
    SiteReply::html(format!("<title>A page</title><p>Words of a page, as they are.</p>{body}"))
}

fn status(status: u16) -> SiteReply {
    SiteReply { status, ..SiteReply::missing() }
}

fn redirect(status: u16, to: &str) -> SiteReply {
    SiteReply { status, headers: vec![format!("Location: {to}")], body: String::new() }
}

fn text(kind: &str, body: &str) -> SiteReply {
    SiteReply { status: 200, headers: vec![format!("Content-Type: {kind}")], body: body.to_string() }
}

/// Seeds that give nothing, each with what its person is to read of it.
const TROUBLE: &[(&str, &str)] = &[
    ("http://nosuch.invalid/", "There is no site of the name nosuch.invalid. Check the spelling"),
    ("http://closed.test/", "Nobody listens at 127.0.0.1:"),
    ("http://slow.test/", "No answer came in time (waiting for the head of the answer)"),
    ("https://plain.test/", "No secure connection could be made ("),
    ("http://robots.test/", "robots.txt forbids it (Disallow: /)"),
    ("http://robots503.test/", "Its robots.txt cannot be read (status 503)"),
    ("http://locked.test/", "It wants a password (status 401)"),
    ("http://forbidden.test/", "The server refuses us (status 403)"),
    ("http://missing.test/", "There is no such page (status 404)"),
    ("http://odd.test/", "The server answers with status 418"),
    ("http://broken.test/", "The server has trouble of its own (status 500)"),
    ("http://busy.test/", "The server asks to come back later (status 503)"),
    ("http://picture.test/", "It is no page of text but image/png"),
    ("http://noindex.test/", "The page asks not to be indexed (noindex)"),
    ("http://nofollow.test/", "The page asks that its links are not followed (nofollow)"),
    ("http://outside.test/", "All of its links (2) lead out of the scope. Widen it with --scope domain"),
    ("http://alone.test/", "It has no links to follow"),
    ("http://script.test/", "The page is empty until scripts fill it in a browser"),
    ("http://excluded.test/", "The pattern -excluded.test/ leaves it out"),
    ("http://loop.test/0", "More than 8 redirects follow one another"),
    ("http://127.0.0.1:22/", "Port 22 is kept for another protocol"),
    ("http://ssh.test/", "What answers there does not speak HTTP ("),
    ("http://nowhere.test/", "It cannot be reached (255.255.255.255:80: "),
    ("http://copy.away.test/", "It calls http://original.away.test/ its original, which is out of scope"),
];

fn troubled(host: &str, path: &str) -> SiteReply {
    match (host, path) {
        ("robots.test", "/robots.txt") => text("text/plain", "User-agent: *\nDisallow: /\n"),
        ("robots503.test", "/robots.txt") => status(503),
        (_, "/robots.txt") => SiteReply::missing(),
        ("locked.test", _) => status(401),
        ("forbidden.test", _) => status(403),
        ("odd.test", _) => status(418),
        ("broken.test", _) => status(500),
        ("busy.test", _) => status(503),
        ("picture.test", _) => text("image/png", "\u{89}PNG and so on"),
        ("noindex.test", "/") => html("<meta name=robots content=noindex>"),
        ("nofollow.test", "/") => html("<meta name=robots content=nofollow><a href=/x>x</a>"),
        ("outside.test", "/") => html("<a href=http://b.test/>b</a> <a href=http://c.test/>c</a>"),
        ("alone.test", "/") => html(""),
        ("script.test", "/") => {
            SiteReply::html("<title>App</title><div id=root></div><script src=/a.js></script>".into())
        }
        ("loop.test", path) => {
            let next = path.trim_start_matches('/').parse::<u32>().unwrap_or(0) + 1;
            redirect(302, &format!("/{next}"))
        }
        ("copy.away.test", "/") => html("<link rel=canonical href=http://original.away.test/>"),
        ("good.test", "/") => html("<a href=/more>more</a>"),
        ("good.test", "/more") => html("<a href=/>back</a>"),
        _ => SiteReply::missing(),
    }
}

/// What a crawl of some seeds says in the terminal, and then `farol status`, its JSON, and the dashboard.
fn told(site: &Site, seeds: &[&str]) -> (String, String, serde_json::Value, [String; 2]) {
    // Nobody listens at the one, nobody answers at the other.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let ssh = greets_like_ssh();
    let data = Data::new();
    data.configure("[crawl]\nfirst_byte_timeout = '300ms'\n[index]\ncommit_every = '200ms'\n");
    let mut arguments =
        vec!["crawl".to_string(), "--index".into(), "--delay".into(), "0".into(), "--exclude".into()];
    arguments.extend(["excluded.test/".to_string(), "http://good.test/".into()]);
    // Nothing is sent there: TCP knows no broadcast.
    arguments.extend(["--resolve".to_string(), "nowhere.test=255.255.255.255:80".to_string()]);
    let mut resolve = |host: &str, port: u16| {
        arguments.extend(["--resolve".to_string(), format!("{host}=127.0.0.1:{port}")]);
    };
    resolve("closed.test", closed.port());
    resolve("slow.test", slow.local_addr().unwrap().port());
    resolve("ssh.test", ssh.port());
    resolve("*.test", site.port());
    arguments.extend(seeds.iter().map(|seed| seed.to_string()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let crawled = data.run(&arguments);
    let said = String::from_utf8(crawled.stderr).unwrap();
    assert!(crawled.status.success(), "one site was good: {said}");
    let status = data.run_well(&["status"]);
    let json: serde_json::Value = serde_json::from_str(&data.run_well(&["status", "--json"])).unwrap();
    let mut farol = Farol::start(&data, "serve", &[]);
    let (address, bearer) = (farol.address(), farol.bearer());
    let boards = ["en", "pt-BR"].map(|locale| {
        let page = get(address, &format!("/admin?hl={locale}"), &[&bearer]).body;
        page.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    });
    farol.interrupt();
    (said, status, json, boards)
}

#[test]
fn why_a_seed_gives_nothing_is_said_in_the_terminal_in_status_and_on_the_dashboard() {
    let site = Site::start(troubled);
    let own = format!("http://127.0.0.1:{}/", site.port());
    let private =
        (own.as_str(), "Its address 127.0.0.1 is a private one, which is not asked. If the site is yours");
    let all: Vec<(&str, &str)> = std::iter::once(private).chain(TROUBLE.iter().copied()).collect();
    // As many as the dashboard shows at a time.
    for some in all.chunks(9) {
        let seeds: Vec<&str> = some.iter().map(|(seed, _)| *seed).collect();
        let (said, status, json, [board, _]) = told(&site, &seeds);
        for (seed, want) in some {
            assert!(said.contains(&format!("{seed}: {want}")), "terminal: {seed} {want}\n{said}");
            assert!(status.contains(&format!("{seed}: {want}")), "status: {seed} {want}\n{status}");
            let reports = json["seeds"]["seeds"].as_array().unwrap();
            let report = reports.iter().find(|report| report["url"] == *seed).unwrap();
            assert!(report["text"].as_str().unwrap().starts_with(want), "{report}");
            let (_, row) = board.split_once(&format!("href=\"{seed}\"")).unwrap_or_default();
            let row = row.split("</li>").next().unwrap_or_default();
            assert!(row.contains(&format!("<p>{want}")), "dashboard: {seed} {want}\n{board}");
        }
        assert_eq!((&json["seeds"]["fine"], &json["seeds"]["troubled"]), (&1.into(), &some.len().into()));
    }
}

#[test]
fn of_many_seeds_in_trouble_some_are_told_and_where_the_rest_is() {
    let site = Site::start(troubled);
    let own = format!("http://127.0.0.1:{}/", site.port());
    let seeds: Vec<&str> =
        std::iter::once(own.as_str()).chain(TROUBLE.iter().map(|(seed, _)| *seed)).collect();
    let (said, _, json, [board, portuguese]) = told(&site, &seeds);
    // The terminal tells of twenty, and then of where to read on; the dashboard of a dozen.
    assert_eq!(said.matches("http://").count().min(20), 20, "{said}");
    assert!(said.contains("More seeds need a look: `farol status`"), "{said}");
    assert!(board.contains("class=\"trouble\""), "{board}");
    assert_eq!(json["seeds"]["troubled"], TROUBLE.len() + 1);
    assert!(
        portuguese.contains("Sementes") && portuguese.contains("Seu endereço 127.0.0.1 é privado"),
        "{portuguese}"
    );
}

/// A server that speaks another protocol.
fn greets_like_ssh() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().take(20).flatten() {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
        }
    });
    address
}

/// A name server that has trouble, whatever it is asked.
fn failing_name_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            // An answer, recursion available, SERVFAIL.
            (packet[2], packet[3]) = (packet[2] | 0x80, 0x82);
            let _ = socket.send_to(&packet[..length], from);
        }
    });
    address
}

#[test]
fn a_seed_without_name_servers_and_one_that_leads_to_a_removed_site_are_explained() {
    let site = Site::start(|host, path| match (host, path) {
        (_, "/robots.txt") => SiteReply::missing(),
        ("leads.test", "/") => redirect(301, "http://gone.test/"),
        _ => html("<a href=/>back</a>"),
    });
    let data = Data::new();
    data.configure(&format!("[crawl]\nnameservers = ['{}']\n", failing_name_server()));
    let mut arguments = site.flags(&["*.test"]);
    arguments.push("http://gone.test/".to_string());
    let mut farol = Farol::start(&data, "up", &arguments);
    farol.wait_for("its page", |status| status["crawl"]["pages_fetched"].as_u64() > Some(0));
    let gone = serde_json::json!({ "host": "http://gone.test" });
    assert_eq!(farol.order("remove-host", &gone).status, 200);
    for seed in ["http://leads.test/", "http://names.example/"] {
        assert_eq!(farol.order("seeds", &serde_json::json!({ "url": seed })).status, 200);
    }
    farol.wait_for("both seeds", |status| status["seeds"]["troubled"].as_u64() == Some(2));
    farol.interrupt();
    let told = data.run_well(&["status"]);
    for want in [
        "http://leads.test/: It leads to http://gone.test, which was removed",
        "http://names.example/: No name server could say its address (",
    ] {
        assert!(told.contains(want), "{want}\n{told}");
    }
}

#[test]
fn a_changed_setting_wakes_a_site_at_once_and_a_missing_flag_is_pointed_out() {
    let site = Site::start(troubled);
    let data = Data::new();
    let own = format!("http://127.0.0.1:{}/", site.port());
    let crawled = |more: &[&str]| {
        let arguments = [&["crawl", "--delay", "0"][..], more].concat();
        let output = data.run(&arguments);
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let fetched = || site.asked().values().sum::<u64>();
    let (_, said) = crawled(&[&own]);
    assert!(said.contains("is a private one"), "{said}");
    // Where nothing was changed the site rests on, and the crawl ends without waiting for it.
    let (_, said) = crawled(&[]);
    assert!(said.contains("is a private one"), "{said}");
    assert_eq!(fetched(), 0);
    data.configure("[crawl]\nallow_private = true\n");
    crawled(&[]);
    assert!(fetched() > 0, "it is asked as soon as it may be");
    data.configure("");
    for _ in 0..2 {
        let (_, said) = crawled(&[]);
        assert!(said.contains("name --allow-private again"), "at every start: {said}");
    }
    let (_, said) = crawled(&["--allow-private", "--resolve", "a.test=127.0.0.1:9"]);
    assert!(!said.contains("name --"), "{said}");
    for _ in 0..2 {
        let (_, said) = crawled(&["--allow-private"]);
        assert!(
            said.contains("the addresses of a.test") && said.contains("--resolve a.test=127.0.0.1:9"),
            "{said}"
        );
    }
    // With another seed it is told once more.
    for (seeds, told) in [(&[&own[..], "http://a.test/"][..], true), (&["http://a.test/"], false)] {
        let (_, said) = crawled(&[&["--allow-private"], seeds].concat());
        assert_eq!(said.contains("the addresses of a.test"), told, "{said}");
    }
}

#[test]
fn a_seed_named_again_wakes_its_site_at_once() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = is_up.clone();
    let site = Site::start(move |_, path| match (up.load(Ordering::SeqCst), path) {
        (false, _) => status(503),
        (true, "/robots.txt") => SiteReply::missing(),
        (true, "/") => html("<a href=/more>more</a>"),
        (true, _) => html(""),
    });
    let data = Data::new();
    let crawled = |seeds: &[&str]| {
        let flags = site.flags(&["a.test"]);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let output = data.run(&[&["crawl"][..], seeds, &flags].concat());
        String::from_utf8(output.stderr).unwrap()
    };
    let asked = |page: &str| site.asked().get(page).copied().unwrap_or(0);
    let said = crawled(&["http://a.test/"]);
    assert!(said.contains("http://a.test/: Its robots.txt cannot be read (status 503)"), "{said}");
    assert_eq!(asked("a.test/"), 0);
    is_up.store(true, Ordering::SeqCst);
    // By itself the crawl would try again in some minutes, and does not wait for that.
    crawled(&[]);
    assert_eq!(asked("a.test/"), 0);
    let said = crawled(&["http://a.test/"]);
    assert_eq!((asked("a.test/"), asked("a.test/more")), (1, 1), "{said}");
}

#[test]
fn a_crawl_that_finds_nothing_says_so_and_fails() {
    let site = Site::start(troubled);
    let data = Data::new();
    let mut arguments = vec!["crawl".to_string(), "http://missing.test/".into()];
    arguments.extend(site.flags(&["missing.test"]));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let crawled = data.run(&arguments);
    let said = String::from_utf8(crawled.stderr).unwrap();
    assert_eq!(crawled.status.code(), Some(1), "{said}");
    assert!(
        said.contains("http://missing.test/: There is no such page (status 404). Check the address"),
        "{said}"
    );
    assert!(said.contains("No page was fetched."), "{said}");
}

#[test]
fn a_seed_that_moved_is_crawled_where_it_went_and_only_a_seed_is() {
    let site = Site::start(|host, path| match (host, path) {
        ("old.test", "/") => redirect(301, "http://www.old.test/"),
        ("www.old.test", "/") => redirect(307, "http://new.test/home"),
        ("soft.test", "/") => html("<meta http-equiv=refresh content='0; url=http://softer.test/'>"),
        ("same.test", "/") => html("<link rel=canonical href=http://www.same.test/>"),
        // A link that is moved to another site is another matter.
        ("new.test", "/home") => html("<a href=/next>next</a> <a href=/away>away</a>"),
        ("new.test", "/away") => redirect(302, "http://elsewhere.test/"),
        (_, "/robots.txt") => SiteReply::missing(),
        (_, "/") => html("<a href=/next>next</a>"),
        (_, "/next") => html("<a href=/>back</a>"),
        _ => SiteReply::missing(),
    });
    let data = Data::new();
    let seeds = ["http://old.test/", "http://soft.test/", "http://same.test/"];
    let mut arguments = vec!["crawl".to_string()];
    arguments.extend(seeds.map(String::from));
    arguments.extend(site.flags(&["*.test"]));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let crawled = data.run(&arguments);
    let said = String::from_utf8(crawled.stderr).unwrap();
    assert!(crawled.status.success(), "{said}");
    let asked = site.asked();
    for page in ["new.test/next", "softer.test/next", "www.same.test/next"] {
        assert_eq!(asked.get(page), Some(&1), "{page}: {said} {asked:?}");
    }
    assert_eq!(asked.keys().filter(|page| page.starts_with("elsewhere.test")).count(), 0, "{asked:?}");
    for (seed, to) in [
        ("http://old.test/", "http://new.test/home"),
        ("http://soft.test/", "http://softer.test/"),
        ("http://same.test/", "http://www.same.test/"),
    ] {
        assert!(said.contains(&format!("{seed}: Leads to {to}; that site is crawled")), "{said}");
        let status = data.run_well(&["status"]);
        assert!(status.contains(&format!("{seed} leads to {to}")), "{status}");
    }
    let exported = data.run_well(&["export", "visits"]);
    assert!(exported.contains("http://new.test/next"), "{exported}");
}

#[test]
fn patterns_leave_pages_out_and_a_wrong_one_is_explained() {
    let site = Site::start(|_, path| match path {
        "/robots.txt" => SiteReply::missing(),
        "/" => html(
            "<a href=/docs/a>a</a> <a href=/docs/b.pdf>b</a> <a href=/calendar/1>1</a> <a href=/blog/>b</a>",
        ),
        _ => html("<a href=/>back</a>"),
    });
    let pages = |more: &[&str], toml: &str| {
        let (before, data) = (site.asked(), Data::new());
        data.configure(toml);
        let mut arguments = vec!["crawl".to_string(), "http://a.test/".into()];
        arguments.extend(site.flags(&["a.test"]));
        arguments.extend(more.iter().map(|text| text.to_string()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        data.run_well(&arguments);
        let mut pages: Vec<String> = (site.asked().into_iter())
            .filter(|(page, count)| before.get(page) != Some(count) && !page.ends_with("robots.txt"))
            .map(|(page, _)| page.trim_start_matches("a.test").to_string())
            .collect();
        pages.sort();
        pages
    };
    assert_eq!(pages(&["--exclude", "/calendar/", "--exclude", "/*.pdf$"], ""), ["/", "/blog/", "/docs/a"]);
    assert_eq!(pages(&["--include", "/docs/"], ""), ["/", "/docs/a", "/docs/b.pdf"]);
    let settings = "[crawl]\npatterns = ['+a.test/docs/', '-/*.pdf$']\n";
    assert_eq!(pages(&[], settings), ["/", "/docs/a"]);
    let data = Data::new();
    let wrong = data.run(&["crawl", "http://a.test/", "--exclude", "*.pdf"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("has no slash") && said.contains("-/*.pdf$"), "{said}");
    data.configure("[crawl]\npatterns = ['/calendar/']\n");
    let said = String::from_utf8(data.run(&["crawl", "http://a.test/"]).stderr).unwrap();
    assert!(said.contains("begins with neither + nor -"), "{said}");
}

#[test]
fn verbose_tells_of_each_page_and_very_verbose_of_each_decision() {
    let site = Site::start(|_, path| match path {
        "/robots.txt" => text("text/plain", "User-agent: *\nDisallow: /secret\n"),
        "/" => html(
            "<a href=/a>a</a> <a href=/secret>s</a> <a href=http://b.test/>b</a> <a href=/x/x/x/x/>x</a>",
        ),
        _ => html(""),
    });
    let said = |flag: &str| {
        let data = Data::new();
        let mut arguments = vec!["crawl".to_string(), flag.to_string(), "http://a.test/".into()];
        arguments.extend(site.flags(&["a.test"]));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        String::from_utf8(data.run(&arguments).stderr).unwrap()
    };
    let pages = said("-v");
    assert!(
        pages.contains("200 http://a.test/a ") && pages.contains("200 http://a.test/robots.txt "),
        "{pages}"
    );
    assert!(!pages.contains("http://b.test/") && !pages.contains('\u{1b}'), "{pages}");
    let decisions = said("-vv");
    for want in [
        "left out: http://b.test/ (Outside)",
        "not asked for: http://a.test/secret (refused_by_robots)",
        "left out: http://a.test/x/x/x/x/ (repeats itself)",
        "http://a.test is at 127.0.0.1",
    ] {
        assert!(decisions.contains(want), "{want}\n{decisions}");
    }
}
