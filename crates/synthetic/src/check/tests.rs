//! Plants each kind of offence into a clean log and looks for it in the report.

use super::*;
use crate::{Kind, Scope, WebConfig};

const SECOND: u64 = 1_000_000;

fn world(change: impl FnOnce(&mut WebConfig)) -> World {
    let mut config = WebConfig { hosts: 20, pages: 400, ..WebConfig::tame() };
    change(&mut config);
    World::new(config).unwrap()
}

/// A request that starts at this second and takes a tenth of one.
fn entry(world: &World, url: &str, at_us: u64) -> Entry {
    let (host, path) = url["http://".len()..].split_once('/').unwrap();
    let answer = world.page(url, world.config().start + Duration::from_secs(100));
    let number = world.host_number(host).unwrap_or(0);
    Entry {
        start_us: at_us,
        end_us: at_us + SECOND / 10,
        address: IpAddr::from([127, 0, 1, number as u8]),
        host: host.to_string(),
        path: format!("/{path}"),
        status: answer.status,
        bytes: answer.body.len() as u64,
        served: answer.served,
        retry_after_secs: answer.retry_after_secs,
        conditional: false,
        proxied: false,
        cut: false,
    }
}

/// A crawl of everything reachable, each host with two seconds between requests.
fn clean_log(world: &World, walk: &Walk) -> Vec<Entry> {
    let reachable = world.reachable(walk);
    let mut log = Vec::new();
    let mut turns = HashMap::new();
    let mut ask = |url: String, host: u32| {
        let turn = turns.entry(host).or_insert(0u64);
        *turn += 1;
        log.push(entry(world, &url, *turn * 2 * SECOND + u64::from(host)));
    };
    for host in 0..world.hosts() {
        ask(format!("http://{}/robots.txt", world.host_name(host)), host);
    }
    for page in world.all_pages().filter(|page| reachable.contains(world.ordinal(*page))) {
        ask(world.url(page), page.host);
    }
    log
}

fn strict() -> CheckRules {
    CheckRules {
        delay_min: Duration::from_secs(2),
        complete: true,
        traps_max: Some(0),
        ..CheckRules::default()
    }
}

/// Changes a clean log and checks that exactly this offence is found.
#[track_caller]
fn check_plant(
    world: &World,
    rules: &CheckRules,
    want: Offence,
    plant: impl FnOnce(&World, &mut Vec<Entry>),
) {
    let mut log = clean_log(world, &rules.walk);
    let report = check(world, log.clone().into_iter(), rules);
    assert!(report.is_clean(), "{report}");
    plant(world, &mut log);
    let report = check(world, log.into_iter(), rules);
    assert!(!report.is_clean());
    for offence in Offence::ALL {
        assert_eq!(report.count(offence) > 0, offence == want, "{offence:?}\n{report}");
    }
    assert!(report.findings()[&want].examples[0].contains("http://"));
    assert!(report.to_string().contains("NOT CLEAN"));
}

/// Place of a host's n-th request in the log.
fn nth(log: &[Entry], world: &World, host: u32, n: usize) -> usize {
    let name = world.host_name(host);
    log.iter().enumerate().filter(|(_, entry)| entry.host == name).nth(n).unwrap().0
}

#[test]
fn requests_that_come_too_soon() {
    check_plant(&world(|_| {}), &strict(), Offence::HostTooSoon, |world, log| {
        let at = nth(log, world, 0, 5);
        log[at].start_us -= SECOND / 2;
        // From another address, so that only the host suffers.
        log[at].address = IpAddr::from([127, 9, 9, 9]);
    });
}

#[test]
fn addresses_have_their_delay_too() {
    check_plant(&world(|_| {}), &strict(), Offence::AddressTooSoon, |world, log| {
        // From its third request on, host 2 is asked in the pauses of host 1, and once at that one's address.
        let shared = log[nth(log, world, 1, 0)].address;
        let third = nth(log, world, 2, 2);
        let (name, from) = (log[third].host.clone(), log[third].start_us);
        log[third].address = shared;
        for entry in log.iter_mut().filter(|entry| entry.host == name && entry.start_us >= from) {
            entry.start_us += SECOND;
            entry.end_us += SECOND;
        }
    });
}

#[test]
fn two_requests_at_once_to_a_host() {
    let rules = CheckRules { delay_min: Duration::ZERO, ..strict() };
    check_plant(&world(|_| {}), &rules, Offence::HostOverlap, |world, log| {
        let at = nth(log, world, 0, 5);
        log[at].end_us += 2 * SECOND;
        log[at].address = IpAddr::from([127, 9, 9, 9]);
    });
}

#[test]
fn two_requests_at_once_to_an_address() {
    let rules = CheckRules { delay_min: Duration::ZERO, ..strict() };
    check_plant(&world(|_| {}), &rules, Offence::AddressOverlap, |world, log| {
        let (a, b) = (nth(log, world, 1, 3), nth(log, world, 2, 3));
        log[b].address = log[a].address;
    });
}

#[test]
fn a_proxy_hides_addresses() {
    let world = world(|_| {});
    let mut log = clean_log(&world, &Walk::default());
    for entry in &mut log {
        entry.proxied = true;
        entry.address = IpAddr::from([127, 0, 0, 1]);
    }
    let report = check(&world, log.into_iter(), &strict());
    assert!(report.is_clean(), "{report}");
}

#[test]
fn crawl_delay_counts_where_it_is_longer() {
    let world = world(|c| (c.crawl_delays, c.crawl_delay_millis) = (1.0, 2000));
    let rules = CheckRules { delay_min: Duration::from_millis(10), ..strict() };
    check_plant(&world, &rules, Offence::HostTooSoon, |world, log| {
        let at = nth(log, world, 0, 5);
        log[at].start_us -= SECOND / 2;
    });
}

#[test]
fn retry_after_is_a_word() {
    check_plant(&world(|_| {}), &strict(), Offence::RetryAfterIgnored, |world, log| {
        let at = nth(log, world, 0, 5);
        (log[at].status, log[at].retry_after_secs) = (503, Some(3));
    });
}

#[test]
fn forbidden_paths() {
    let world = world(|c| c.robots = 1.0);
    check_plant(&world, &strict(), Offence::Forbidden, |world, log| {
        let forbidden = world
            .all_pages()
            .find(|page| !world.rules(page.host).allows(&world.path(*page)))
            .expect("some rule forbids something");
        log.push(entry(world, &world.url(forbidden), 10_000 * SECOND));
    });
}

#[test]
fn robots_come_first() {
    check_plant(&world(|_| {}), &strict(), Offence::BeforeRobots, |world, log| {
        let at = nth(log, world, 3, 0);
        log.remove(at);
    });
    // A robots.txt that failed is none.
    check_plant(&world(|_| {}), &strict(), Offence::BeforeRobots, |world, log| {
        let at = nth(log, world, 3, 0);
        log[at].status = 503;
    });
}

#[test]
fn robots_grow_old() {
    let rules = CheckRules { revisit_min: Duration::ZERO, ..strict() };
    check_plant(&world(|_| {}), &rules, Offence::StaleRobots, |world, log| {
        log.push(entry(world, &world.url(Page { host: 0, number: 0 }), 25 * 3600 * SECOND));
    });
}

#[test]
fn pages_fetched_twice() {
    check_plant(&world(|_| {}), &strict(), Offence::DoubleFetch, |world, log| {
        log.push(entry(world, &world.url(Page { host: 0, number: 0 }), 3000 * SECOND));
    });
}

#[test]
fn asking_again_has_good_reasons() {
    let world = world(|_| {});
    let again = |at: u64| entry(&world, &world.url(Page { host: 0, number: 0 }), at);
    let check_clean = |change: &dyn Fn(&mut Vec<Entry>), rules: &CheckRules| {
        let mut log = clean_log(&world, &Walk::default());
        change(&mut log);
        let report = check(&world, log.into_iter(), rules);
        assert!(report.is_clean(), "{report}");
    };
    check_clean(&|log| log.push(Entry { conditional: true, ..again(3000 * SECOND) }), &strict());
    check_clean(&|log| log.push(again(5000 * SECOND)), &strict()); // An hour later it is due.
    check_clean(
        &|log| {
            let first = nth(log, &world, 0, 1);
            log[first].cut = true; // It did not arrive.
            log.push(again(3000 * SECOND));
        },
        &strict(),
    );
    let forgiving = CheckRules { doubles_max: 1, ..strict() };
    check_clean(&|log| log.push(again(3000 * SECOND)), &forgiving);
}

#[test]
fn pages_never_fetched() {
    check_plant(&world(|_| {}), &strict(), Offence::NeverFetched, |world, log| {
        let at = nth(log, world, 0, 7);
        log.remove(at);
    });
    let world = world(|_| {});
    let mut log = clean_log(&world, &Walk::default());
    log.truncate(50);
    let unfinished = CheckRules { complete: false, ..strict() };
    let report = check(&world, log.into_iter(), &unfinished);
    assert!(report.is_clean() && report.reached < report.reachable);
}

#[test]
fn endless_places() {
    let url = |world: &World| format!("http://{}/calendar/2030/1/", world.host_name(0));
    check_plant(&world(|_| {}), &strict(), Offence::TrapPage, |world, log| {
        log.push(entry(world, &url(world), 3000 * SECOND));
    });
    let world = world(|_| {});
    let mut log = clean_log(&world, &Walk::default());
    log.push(entry(&world, &url(&world), 3000 * SECOND));
    let rules = CheckRules { traps_max: Some(1), ..strict() };
    assert!(check(&world, log.into_iter(), &rules).is_clean());
}

#[test]
fn a_troubled_web_can_be_crawled_cleanly() {
    let world = world(|c| *c = WebConfig { hosts: 30, pages: 600, failing: 0.0, ..WebConfig::default() });
    let rules = CheckRules { walk: Walk { sitemaps: false, ..Walk::default() }, ..strict() };
    let log = clean_log(&world, &rules.walk);
    let report = check(&world, log.into_iter(), &rules);
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.reached, report.reachable);
    let kinds = world.all_pages().filter(|page| world.kind(*page) != Kind::Plain).count();
    assert!(kinds > 20);
}

#[test]
fn an_empty_log_is_clean_unless_all_was_wanted() {
    let world = world(|_| {});
    assert!(check(&world, std::iter::empty(), &CheckRules::default()).is_clean());
    let report = check(&world, std::iter::empty(), &strict());
    assert_eq!(report.count(Offence::NeverFetched), world.pages());
    let one = Walk { scope: Scope::SeedHosts, ..Walk::default() };
    let report = check(&world, std::iter::empty(), &CheckRules { walk: one, ..strict() });
    assert_eq!(report.count(Offence::NeverFetched), world.pages_of(0));
}
