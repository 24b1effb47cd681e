//! Who may see the admin pages and pull the levers.

use super::*;
use crate::Command;
use crate::fake::Fake;

#[tokio::test]
async fn the_door_opens_for_the_token_alone() {
    async fn check(why: &str, settings: &Settings, ask: impl Fn(&str) -> Ask, want: u16) {
        for path in ["/admin", "/admin/live", "/admin/hosts", "/api/v1/status", "/api/v1/hosts", "/metrics"] {
            let site = Site::as_set(Fake::default(), settings.clone());
            let got = ask(path).with("host", "127.0.0.1:8080").send(&site).await;
            assert_eq!(got.status.as_u16(), want, "{why}: {path}");
            if want == 401 {
                assert!(got.header("www-authenticate").starts_with("Bearer"), "{why}: {path}");
                got.lacks("182,733").lacks("182733");
            }
        }
    }
    let get = Ask::get;
    let bare = Settings::default();
    let token = Settings { admin_token: Some(TOKEN.into()), ..Settings::default() };
    check("a stranger", &bare, get, 401).await;
    check("a stranger, token set", &token, get, 401).await;
    check("the right token", &token, |path| get(path).with("authorization", "Bearer right"), 200).await;
    check("a wrong token", &token, |path| get(path).with("authorization", "Bearer wrong"), 401).await;
    check("a part of the token", &token, |path| get(path).with("authorization", "Bearer righ"), 401).await;
    check("an empty token where none is set", &bare, |path| get(path).with("authorization", "Bearer "), 401)
        .await;
    check("a made-up session", &token, |path| get(path).with("cookie", "farol_session=1"), 401).await;
    // What a plain `proxy_pass` makes of a stranger's request cannot be told from one made at this machine.
    for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "?"] {
        check(peer, &bare, |path| get(path).from(peer), 401).await;
        check(peer, &token, |path| get(path).from(peer), 401).await;
    }
}

#[tokio::test]
async fn only_names_of_ours_are_answered() {
    let site = Site::as_set(
        Fake::default(),
        Settings { public_url: Some("https://search.example.org".into()), ..Settings::default() },
    );
    let rebound = |path: &str| Ask::get(path).from("127.0.0.1").with("host", "evil.org:8080");
    for path in [
        "/",
        "/search?q=a",
        "/api/v1/search?q=a",
        "/suggest?q=a",
        "/copy?url=http://a/",
        "/admin",
        "/metrics",
    ] {
        rebound(path).send(&site).await.is(421).lacks("article").says("evil.org:8080");
    }
    for name in
        ["search.example.org", "localhost:8080", "192.0.2.7:8080", "[2001:db8::1]", "search", "search.local"]
    {
        Ask::get("/").with("host", name).send(&site).await.is(200);
    }
}

/// The token in the forms of a page.
fn form_token(page: &Got) -> String {
    let rest = page.body.split("name=\"token\" value=\"").nth(1).expect("the page has a form");
    rest.split('"').next().unwrap().to_string()
}

#[tokio::test]
async fn levers_need_a_form_of_ours() {
    let site = Site::new(Settings::default());
    let token = form_token(&Ask::get("/admin").admin().send(&site).await);
    let pause = |token: &str| Ask::form("/admin/pause", &format!("token={token}")).admin();
    pause("").send(&site).await.is(403);
    pause(&"0".repeat(64)).send(&site).await.is(403);
    pause(&token).with("origin", "https://evil.test").send(&site).await.is(403);
    pause(&token).with("origin", "null").send(&site).await.is(403);
    pause(&token).with("sec-fetch-site", "cross-site").send(&site).await.is(403);
    pause(&token).with("sec-fetch-site", "same-site").send(&site).await.is(403);
    assert!(site.fake.commands().is_empty());
    pause(&token)
        .with("origin", "http://localhost:8080")
        .send(&site)
        .await
        .is(200)
        .says("Fetching is paused.");
    let resume = Ask::form("/admin/resume", &format!("token={token}")).admin();
    resume.with("sec-fetch-site", "same-origin").send(&site).await.is(200);
    let seed = |url: &str| Ask::form("/admin/seed", &format!("token={token}&url={url}")).admin();
    seed("https://new.test/").send(&site).await.is(200).says("https://new.test/ was added.");
    seed("ftp://x/").send(&site).await.is(400);
    seed("").send(&site).await.is(400);
    let ask = Ask::get("/admin/remove?host=old.test").admin().send(&site).await;
    ask.is(200).says("Remove http://old.test?").says("action=\"/admin/remove\"");
    let remove = format!("token={token}&host=http://old.test");
    Ask::form("/admin/remove", &remove).admin().send(&site).await.is(200);
    let commands = site.fake.commands();
    assert_eq!(commands[..2], [Command::Pause, Command::Resume]);
    assert_eq!(commands[2], Command::AddSeed("https://new.test/".into()));
    assert!(matches!(&commands[3], Command::RemoveHost(host) if host.as_str() == "http://old.test"));
}

#[tokio::test]
async fn pages_are_fetched_again_removed_and_put_back_by_a_form_of_ours_with_or_without_a_crawler() {
    for admin_read_only in [false, true] {
        let site = Site::new(Settings { admin_read_only, ..Settings::default() });
        let shown = Ask::get("/admin/page?url=http://a.test/x").admin().send(&site).await;
        shown.is(200).says("It can be found.").says("/admin/page/refetch").says("/admin/page/remove");
        let token = form_token(&shown);
        for path in ["/admin/page/refetch", "/admin/page/remove", "/admin/page/restore"] {
            let order = |token: &str, url: &str| Ask::form(path, &format!("token={token}&url={url}")).admin();
            order("", "http://a.test/x").send(&site).await.is(403);
            order(&token, "http://a.test/x").with("origin", "https://evil.test").send(&site).await.is(403);
            order(&token, "").send(&site).await.is(400);
            order(&token, "http://a.test/x").send(&site).await.is(200).says("/admin/page?url=");
        }
        let page = || "http://a.test/x".to_string();
        let want = [Command::Refetch(page()), Command::RemovePages(page()), Command::RestorePages(page())];
        assert_eq!(site.fake.commands(), want);
        let removed = Ask::get("/admin/page?url=http://a.test/removed/1").admin().send(&site).await;
        removed
            .is(200)
            .says("http://a.test/removed*")
            .says("/admin/page/restore")
            .lacks("/admin/page/remove\"");
    }
}

#[tokio::test]
async fn the_api_pulls_levers_with_json_only() {
    let site = Site::new(Settings::default());
    let path = "/api/v1/admin/pause";
    Ask::json(path, "{}").send(&site).await.is(401);
    Ask::json(path, "{}").with("authorization", "Bearer right").send(&site).await.is(200).says("\"done\"");
    Ask::json(path, "{}").admin().send(&site).await.is(200);
    // What a form on another site could send to loopback.
    Ask::form(path, "a=b").admin().send(&site).await.is(415);
    Ask::json(path, "{}").admin().with("content-type", "text/plain").send(&site).await.is(415);
    Ask::json(path, "{}").admin().with("origin", "https://evil.test").send(&site).await.is(403);
    Ask::json(path, "{}").admin().with("host", "evil.test").send(&site).await.is(421);
    Ask::get(path).admin().send(&site).await.is(405);
    let seeds = |body: &str| Ask::json("/api/v1/admin/seeds", body).admin();
    seeds("{\"url\":\"https://a.test/\"}").send(&site).await.is(200);
    seeds("{\"url\":7}").send(&site).await.is(400).says("\"invalid\"");
    seeds("{\"url\":\"x\",\"more\":1}").send(&site).await.is(400);
    seeds(&format!("{{\"url\":\"{}\"}}", "a".repeat(20_000))).send(&site).await.is(413).says("\"too_large\"");
    let remove = Ask::json("/api/v1/admin/remove-host", "{\"host\":\"https://b.test:81/x\"}").admin();
    remove.send(&site).await.is(200).says("https://b.test:81 and its pages are gone.");
    assert_eq!(site.fake.commands().len(), 4);
}

#[tokio::test]
async fn logging_in_and_out() {
    let site =
        Site::new(Settings { public_url: Some("https://search.example.org".into()), ..Settings::default() });
    site.get("/admin").await.is(401).says("type=\"password\"");
    Ask::form("/admin/login", "token=wrong").send(&site).await.is(401).says("The token is wrong.");
    Ask::form("/admin/login", "token=right").with("origin", "https://evil.test").send(&site).await.is(403);
    let entered = Ask::form("/admin/login", "token=right").with("origin", "https://search.example.org");
    let entered = entered.send(&site).await;
    assert_eq!((entered.is(303).header("location"), entered.body.len()), ("/admin", 0));
    let cookie = entered.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    assert!(!cookie.contains("right"));
    let page = Ask::get("/admin").with("cookie", cookie).send(&site).await;
    let token = form_token(page.is(200));
    let pause = |token: &str| Ask::form("/admin/pause", &format!("token={token}")).with("cookie", cookie);
    // The token of another session does not do.
    pause(&form_token_of_another(&site).await).send(&site).await.is(403);
    pause(&token).send(&site).await.is(200);
    Ask::form("/admin/logout", &format!("token={token}")).with("cookie", cookie).send(&site).await.is(303);
    Ask::get("/admin").with("cookie", cookie).send(&site).await.is(401);
}

async fn form_token_of_another(site: &Site) -> String {
    let page = Ask::get("/admin").with("authorization", "Bearer right").send(site).await;
    form_token(page.is(200))
}

#[tokio::test]
async fn the_link_with_the_token_opens_a_session() {
    let site = Site::new(Settings::default());
    site.get("/admin/enter?key=wrong").await.is(401);
    site.get("/admin/enter").await.is(401);
    let entered = site.get("/admin/enter?key=right").await;
    assert_eq!(entered.is(303).header("location"), "/admin");
    let cookie = entered.header("set-cookie").split(';').next().unwrap();
    Ask::get("/admin").with("cookie", cookie).send(&site).await.is(200);
}

#[tokio::test]
async fn guessing_the_token_is_slow_and_locks_nobody_out() {
    let site = Site::new(Settings::default());
    for _ in 0..10 {
        Ask::form("/admin/login", "token=guess").send(&site).await.is(401);
    }
    Ask::form("/admin/login", "token=guess").send(&site).await.is(429);
    Ask::get("/api/v1/status").with("authorization", "Bearer guess").send(&site).await.is(429);
    // Behind a proxy everybody may have the guesser's address.
    Ask::form("/admin/login", "token=right").send(&site).await.is(303);
    Ask::get("/api/v1/status").with("authorization", "Bearer right").send(&site).await.is(200);
}

#[tokio::test]
async fn a_read_only_front_changes_nothing() {
    let site = Site::new(Settings { admin_read_only: true, ..Settings::default() });
    Ask::get("/admin").admin().send(&site).await.is(200).says("read-only").lacks("/admin/pause");
    Ask::json("/api/v1/admin/pause", "{}").admin().send(&site).await.is(403);
    assert!(site.fake.commands().is_empty());
}
