//! The crawler keeps a Web that changes fresh, and says truly how fresh.

use crate::fixture::{Data, Farol, Web};
use farol_base::Timestamp;
use farol_synthetic::check::{CheckRules, Offence, check};
use farol_synthetic::{WebConfig, truth};
use std::time::{Duration, Instant};

/// Settings in seconds, as far as they go: what hosts bear sets the pace.
const SETTINGS: &str = "[crawl]\nallow_private = true\nrevisit = \"optimal\"\nrevisit_mean = \"2s\"\n\
    revisit_min = \"1s\"\nrevisit_first = \"2s\"\nrevisit_max = \"1h\"\ndelay_rule = \"constant\"\n\
    delay_min = \"200ms\"\n";

/// A Web of 800 pages that change every four minutes in the mean. A minute of crawling
/// learns little of rates; that what is said is true when much was learnt is shown in simulated time, at
/// `archive::revisit`.
#[test]
fn what_the_dashboard_says_of_freshness_is_true() {
    let config = WebConfig {
        hosts: 30,
        pages: 800,
        skew: 0.3,
        mean_page_bytes: 1500,
        mean_links: 15.0,
        ..WebConfig::tame()
    };
    // Dates of a clock that runs faster than ours mean nothing to a crawler, and those of the future are ignored.
    let start = Timestamp::parse("2100-01-01").unwrap();
    let web = Web::start(WebConfig { change_rate: 3.0, clock_speedup: 120.0, start, ..config });
    let data = Data::new();
    data.configure(SETTINGS);
    let mut farol = Farol::up(&data, &web, &[]);
    farol.wait_for("all pages", |status| status["crawl"]["pages_fetched"].as_u64() >= Some(800));
    // Each page is visited every five seconds in the mean; how often each changes is learnt meanwhile.
    let (began, mut said, mut true_share, mut samples) = (Instant::now(), 0.0, 0.0, 0.0);
    while began.elapsed() < Duration::from_secs(40) {
        std::thread::sleep(Duration::from_secs(1));
        if began.elapsed() > Duration::from_secs(20) {
            let (now, status) = (truth(&web.server), farol.json("/api/v1/status"));
            said += status["freshness"]["fresh"].as_f64().unwrap();
            true_share += now.fresh as f64 / now.pages as f64;
            samples += 1.0;
        }
    }
    let (said, true_share) = (said / samples, true_share / samples);
    assert!((said - true_share).abs() < 0.05, "it says {said}, the truth is {true_share}");
    assert!(true_share > 0.9, "{true_share}");
    // 20 seconds and more at 150 requests per second at most.
    let requests = web.server.counts().requests;
    assert!(requests > 2400, "pages are visited again and again: {requests}");
    let fetched = farol.json("/api/v1/status")["freshness"]["pages"].as_u64();
    assert!(fetched > Some(750), "{fetched:?}");
    farol.interrupt();
    let rules =
        CheckRules { delay_min: Duration::from_millis(200), doubles_max: u64::MAX, ..CheckRules::default() };
    let report = check(web.server.world(), web.server.log().entries().into_iter(), &rules);
    for offence in
        [Offence::HostTooSoon, Offence::AddressTooSoon, Offence::HostOverlap, Offence::AddressOverlap]
    {
        assert_eq!(report.count(offence), 0, "{offence:?}");
    }
    // What was learnt is there after a restart.
    let mut again = Farol::up(&data, &web, &[]);
    let status = again.wait_for("freshness", |status| status["freshness"]["pages"].as_u64() > Some(750));
    assert!(status["freshness"]["fresh"].as_f64() < Some(1.0));
}
