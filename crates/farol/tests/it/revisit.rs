//! The crawler keeps a Web that changes fresh, and says truly how fresh.

use crate::fixture::{Data, Farol, Web};
use farol_synthetic::check::{CheckRules, Offence, check};
use farol_synthetic::{WebConfig, truth};
use std::time::{Duration, Instant};

/// Settings in accelerated time: each page is visited every ten minutes of the Web's clock in the mean.
fn settings(speedup: f64) -> String {
    format!(
        "[crawl]\nallow_private = true\nrevisit = \"optimal\"\nrevisit_clock = {speedup:?}\nrevisit_mean = \"600s\"\n\
         revisit_min = \"600s\"\nrevisit_first = \"1h\"\nrevisit_max = \"1440h\"\ndelay_rule = \"constant\"\n\
         delay_min = \"200ms\"\n"
    )
}

/// A Web of 800 pages whose clock runs 2,000 times as fast as ours.
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
    let web = Web::start(WebConfig { change_rate: 3.0, clock_speedup: 2000.0, ..config });
    let data = Data::new();
    data.configure(&settings(2000.0));
    let mut farol = Farol::up(&data, &web, &[]);
    farol.wait_for("all pages", |status| status["crawl"]["pages_fetched"].as_u64() >= Some(800));
    // Each page is visited every five seconds in the mean; how often each changes is learnt meanwhile.
    let (began, mut said, mut true_share, mut samples) = (Instant::now(), 0.0, 0.0, 0.0);
    while began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_secs(1));
        if began.elapsed() > Duration::from_secs(40) {
            let (now, status) = (truth(&web.server), farol.json("/api/v1/status"));
            said += status["freshness"]["fresh"].as_f64().unwrap();
            true_share += now.fresh as f64 / now.pages as f64;
            samples += 1.0;
        }
    }
    let (said, true_share) = (said / samples, true_share / samples);
    // Twenty samples of 800 pages after eight visits each: chance alone makes a hundredth of difference.
    assert!((said - true_share).abs() < 0.05, "it says {said}, the truth is {true_share}");
    assert!(true_share > 0.2, "{true_share}");
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
