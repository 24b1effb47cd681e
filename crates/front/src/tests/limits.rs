//! Too much, too long, too slow, and broken.

use super::*;
use crate::EngineError;
use std::time::Duration;

#[tokio::test]
async fn a_client_asks_so_much_and_no_more() {
    let site = Site::new(Settings { rate_per_minute: 3, ..Settings::default() });
    for _ in 0..3 {
        site.get("/search?q=a").await.is(200);
    }
    let refused = site.get("/search?q=a").await;
    refused.is(429).says("One moment, please");
    assert!((1..=21).contains(&refused.header("retry-after").parse::<u32>().unwrap()));
    site.get("/api/v1/search?q=a").await.is(429).says("\"too_many_requests\"");
    site.get("/suggest?q=a").await.is(429);
    // What costs the engine nothing goes on, and so does everybody else.
    site.get("/about").await.is(200);
    site.get("/healthz").await.is(200);
    Ask::get("/search?q=a").from("198.51.100.7").send(&site).await.is(200);
}

#[tokio::test]
async fn clients_behind_a_trusted_proxy_are_told_apart() {
    let site = Site::new(Settings { rate_per_minute: 1, trust_forwarded: true, ..Settings::default() });
    let ask = |client: &str| Ask::get("/search?q=a").admin().with("x-forwarded-for", client);
    ask("1.1.1.1").send(&site).await.is(200);
    ask("2.2.2.2").send(&site).await.is(200);
    ask("9.9.9.9, 1.1.1.1").send(&site).await.is(429);
}

#[tokio::test]
async fn trouble_of_the_engine_is_told_apart() {
    async fn check(fake: Fake, status: u16, code: &str) {
        // Short only where the engine is to miss it: a panic takes its time to be told on a busy machine.
        let deadline =
            if fake.pause.is_zero() { Duration::from_secs(20) } else { Duration::from_millis(150) };
        let settings = Settings { deadline, ..Settings::default() };
        let site = Site::over(fake, settings);
        let answer = site.get("/api/v1/search?q=a").await;
        assert_eq!(answer.is(status).json()["error"]["code"], code);
        assert_eq!(
            answer.header("retry-after").is_empty(),
            !matches!(code, "busy" | "unavailable"),
            "{code}"
        );
        let page = site.get("/search?q=a&hl=pt").await;
        page.is(status).says("lang=\"pt-BR\"");
    }
    let with = |trouble| Fake { trouble: Some(trouble), ..Fake::default() };
    check(with(EngineError::Busy), 503, "busy").await;
    check(with(EngineError::Unavailable("the index is being moved".into())), 503, "unavailable").await;
    check(with(EngineError::Invalid("too vague".into())), 400, "invalid").await;
    check(Fake { pause: Duration::from_millis(400), ..Fake::default() }, 503, "busy").await;
    check(Fake { panic: true, ..Fake::default() }, 500, "internal").await;
}

#[tokio::test]
async fn a_stuck_engine_fills_up_and_others_are_told_at_once() {
    let settings =
        Settings { deadline: Duration::from_millis(60), rate_per_minute: 0, ..Settings::default() };
    let site = Site::over(Fake { pause: Duration::from_millis(900), ..Fake::default() }, settings);
    let asks = (0..crate::CALLS_MAX + 30).map(|_| {
        let router = site.router.clone();
        tokio::spawn(
            async move { Site { router, fake: Arc::default() }.get("/api/v1/search?q=a").await.status },
        )
    });
    for ask in asks.collect::<Vec<_>>() {
        assert_eq!(ask.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    }
    // The home page does without its number.
    site.get("/").await.is(200).says("The engine is busy");
    site.get("/healthz").await.is(200);
}
