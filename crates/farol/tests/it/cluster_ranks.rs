//! Links in a cluster: pages are called and ranked as in one engine, also after the ranker has lost everything.

use crate::cluster_fixture::{Cluster, ask, holds, up_state};
use crate::fixture::{Data, Farol, PATIENCE};
use crate::site::{Site, SiteReply};
use farol_links::{Budget, Links, LinksOptions, RankSlice, RankTable};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HOSTS: [&str; 2] = ["a.test", "b.test"];
/// Pages that differ in nothing but who links to them, and pages that link to them.
const ALIKE: u32 = 6;
const HUBS: u32 = 6;

/// Words that no other page has, as many for each page.
fn filler(path: &str) -> String {
    let word = |nth: u32| {
        let hash = farol_base::fingerprint::hash64(format!("{path} {nth}").as_bytes());
        let letters = (0..10).map(|at| char::from(b'a' + (hash >> (5 * at)) as u8 % 26));
        letters.collect::<String>()
    };
    (0..30).map(word).collect::<Vec<_>>().join(" ")
}

/// `a.test` has hubs, of which the n-th links to the first n of the pages that are alike; `b.test` has those, and one that
/// only links call a zebrafish.
fn answer(host: &str, path: &str) -> SiteReply {
    let page = |title: &str, body: &str| {
        let text = filler(&format!("{host}{path}"));
        SiteReply::html(format!(
            "<html lang=en><title>{title}</title><body><p>{body} {text}</p></body></html>"
        ))
    };
    let alike = |n: u32| format!("<a href=http://b.test/alike/{n}>go</a>");
    match (host, path) {
        ("a.test", "/") => {
            let hubs: String = (0..HUBS).map(|n| format!("<a href=/hub/{n}>hub</a> ")).collect();
            page("Start", &format!("{hubs}<a href=http://b.test/fish>zebrafish</a>"))
        }
        ("a.test", path) if path.starts_with("/hub/") => {
            let n: u32 = path["/hub/".len()..].parse().unwrap_or(0);
            let links: String = (0..=n).map(alike).collect();
            page("Hub", &format!("{links} <a href=http://b.test/fish>striped zebrafish</a>"))
        }
        ("b.test", "/fish") => page("Fish", "<a href=http://b.test/lost>echinoderm</a>"),
        ("b.test", path) if path.starts_with("/alike/") => page("Alike", "echidna"),
        _ => SiteReply::missing(),
    }
}

/// The newest ranks in shared storage, if all shards have their slice.
fn uploaded(blobs: &Path, shards: u32) -> Option<RankTable> {
    let versions = std::fs::read_dir(blobs.join("ranks")).ok()?.flatten();
    let version = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok()).max()?;
    let slice = |shard: u32| {
        let bytes = std::fs::read(blobs.join(format!("ranks/{version}/{shard}"))).ok()?;
        let slice = RankSlice::read(&bytes).unwrap();
        assert_eq!(slice.version, version);
        Some(slice)
    };
    let slices: Option<Vec<RankSlice>> = (0..shards).map(slice).collect();
    Some(RankTable::of_slices(&slices?))
}

fn alike(got: &RankTable, want: &RankTable) -> bool {
    let near = |(a, b): (f32, f32)| (a - b).abs() < 1e-6;
    (got.pages(), got.hosts()) == (want.pages(), want.hosts())
        && got.page_shares().zip(want.page_shares()).all(|(a, b)| a.0 == b.0 && near((a.1, b.1)))
        && got.host_shares().zip(want.host_shares()).all(|(a, b)| a.0 == b.0 && near((a.1, b.1)))
}

#[track_caller]
fn until(cluster: &Cluster, what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}: {}", cluster.log());
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// What the one engine and the cluster are asked: what only links say, and what only ranks put in order.
fn answers(front: SocketAddr) -> Option<[(Vec<String>, u64); 2]> {
    let [fish, alike] = ["zebrafish", "echidna"].map(|question| ask(front, question));
    Some([fish?, alike?])
}

#[test]
fn a_cluster_calls_and_ranks_pages_as_one_engine_also_when_its_ranker_has_lost_everything() {
    let site = Site::start(answer);
    // `b.test` is no seed: its pages come after links to them.
    let flags =
        [site.flags(&HOSTS), ["--scope", "web", "http://a.test/"].map(String::from).to_vec()].concat();
    let alone = Data::new();
    alone.configure(
        "[index]\ncommit_every = '300ms'\nrank_every = '1s'\n[serve]\nrate_per_minute = 1000000\n",
    );
    let mut single = Farol::start(&alone, "up", &flags);
    let pages = single.wait_until_idle()["index"]["documents"].as_u64().unwrap();
    assert_eq!(pages, u64::from(2 + ALIKE + HUBS));

    let size = ["--nodes", "2", "--shards", "2", "--replicas", "2"].map(String::from).to_vec();
    let mut cluster = Cluster::up(&[size, flags].concat());
    let fronts = ["node-1", "node-2"].map(|name| cluster.front(name));
    cluster.wait_for("every page in every replica", |status| holds(status, pages));
    let blobs = cluster.dir.path().join("blobs");

    // The same answers: anchors find, ranks order.
    until(&cluster, "the answers of one engine", || {
        let want = answers(single.address()).unwrap();
        want[0].0.iter().any(|url| url == "http://b.test/fish")
            && fronts.iter().all(|front| answers(*front).as_ref() == Some(&want))
    });
    let want = answers(single.address()).unwrap();
    let by_links: Vec<String> = (0..ALIKE).map(|n| format!("http://b.test/alike/{n}")).collect();
    assert_eq!(want[1].0, by_links, "the more a page is linked to, the better it ranks");
    // What links say that came after the page itself.
    until(&cluster, "later links", || {
        fronts.iter().all(|front| {
            ask(*front, "striped zebrafish").is_some_and(|(urls, _)| urls[0] == "http://b.test/fish")
        })
    });

    // The same ranks, to the sixth digit, as of the links that the one engine has kept.
    single.interrupt();
    let disk = farol_base::disk::File::at(alone.path().join("links")).unwrap();
    let mut links = Links::open(Arc::new(disk), LinksOptions::default()).unwrap();
    links.compute_ranks(Budget { iterations_max: 300, tolerance: 1e-8 }).unwrap();
    let ranks = links.ranks();
    assert!(ranks.pages() > pages as usize && ranks.hosts() == 2, "the page that is missing has a rank, too");
    until(&cluster, "the ranks of one engine", || {
        uploaded(&blobs, 2).is_some_and(|uploaded| alike(&uploaded, &ranks))
    });

    // The ranker is killed and loses its folder, and what it has uploaded goes, too. Its keeper sleeps meanwhile.
    let rankers: Vec<&str> = ["node-1", "node-2"]
        .into_iter()
        .filter(|name| cluster.node(name).join("rank/mark.json").exists())
        .collect();
    let [ranker] = rankers[..] else { panic!("one node ranks, not {rankers:?}") };
    let keeper = rustix::process::Pid::from_child(&cluster.child);
    rustix::process::kill_process(keeper, rustix::process::Signal::STOP).unwrap();
    cluster.kill(ranker);
    std::fs::remove_dir_all(cluster.node(ranker).join("rank")).unwrap();
    std::fs::remove_dir_all(blobs.join("ranks")).unwrap();
    // Search keeps the last ranks.
    let other = fronts[usize::from(ranker == "node-1")];
    until(&cluster, "the same answers without a ranker", || answers(other).as_ref() == Some(&want));
    rustix::process::kill_process(keeper, rustix::process::Signal::CONT).unwrap();

    until(&cluster, "the same ranks again", || {
        uploaded(&blobs, 2).is_some_and(|uploaded| alike(&uploaded, &ranks))
    });
    cluster.wait_for("both nodes", |status| {
        ["node-1", "node-2"].iter().all(|name| up_state(status, name)) && holds(status, pages)
    });
    // It listens elsewhere now.
    let running = cluster.node(ranker).join("running.json");
    let listens = || -> Option<SocketAddr> {
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&running).ok()?).ok()?;
        json["listen"].as_str()?.parse().ok()
    };
    until(&cluster, "the same answers again", || {
        [listens(), Some(other)].iter().all(|front| front.and_then(answers).as_ref() == Some(&want))
    });
}
