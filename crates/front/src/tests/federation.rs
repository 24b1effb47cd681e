//! What people see of what is shared with engines of other owners, and that nobody sees any of it where nothing is.

use super::*;
use crate::FederationOrder;
use crate::text::Locale;
use serde_json::json;

fn sharing() -> Site {
    Site::over(Fake { in_federation: true, ..Fake::default() }, Settings::default())
}

#[tokio::test]
async fn an_engine_that_shares_nothing_looks_as_ever() {
    let alone = Site::new(Settings::default());
    let get = async |path: &str| Ask::get(path).admin().send(&alone).await;
    get("/admin?hl=en").await.is(200).lacks("/admin/federation").lacks("Federation");
    get("/admin/federation").await.is(404).says("this engine shares nothing");
    get("/api/v1/federation").await.is(404);
    get("/metrics").await.is(200).lacks("farol_federation");
    let order = Ask::json("/api/v1/admin/federation", "{\"order\":\"accept\",\"agreement\":\"0b\"}").admin();
    order.send(&alone).await.is(503).says("this engine shares nothing");
}

#[tokio::test]
async fn the_pages_tell_all_that_is_shared() {
    let site = sharing();
    let page = Ask::get("/admin/federation?hl=en").admin().send(&site).await;
    page.is(200).says("gets from CIn").says("left to the provider").says("17,995").says("10 min 40 s ago");
    page.says("waits for you").says("it answered 503: later").says("introduced itself").says("letter_forged");
    page.says("day's quota is used up").lacks("<script>document.title").lacks("<noscript>");
    let one = Ask::get("/admin/federation/agreement?id=0a0a&hl=en").admin().send(&site).await;
    one.is(200).says("page_outside").says("17,995 pages, 12 gone, 41 packets").says("federation/end?id=0a0a");
    one.lacks("federation/accept?id=");
    let waits = Ask::get("/admin/federation/agreement?id=0b&hl=en").admin().send(&site).await;
    waits.is(200).says("federation/accept?id=0b").says("federation/refuse?id=0b").lacks("federation/end?id=");
    Ask::get("/admin/federation/agreement?id=0").admin().send(&site).await.is(404);
    Ask::get("/admin/federation/agreement?id=").admin().send(&site).await.is(400);
    site.get("/admin/federation").await.is(401).lacks("CIn");
}

#[tokio::test]
async fn the_pages_speak_every_language() {
    let site = sharing();
    for locale in Locale::ALL {
        for path in ["/admin/federation?", "/admin/federation/agreement?id=0a&"] {
            let page = Ask::get(&format!("{path}hl={}", locale.code())).admin().send(&site).await;
            page.is(200).says(locale.texts().agreed_active).lacks("{").lacks("}");
        }
    }
}

#[tokio::test]
async fn an_agreement_is_decided_on_after_one_more_question() {
    let site = sharing();
    let page = Ask::get("/admin/federation/accept?id=0b&hl=en").admin().send(&site).await;
    page.is(200).says("Accept the agreement with").says("asks their servers no more");
    let token = page.body.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let id = "0b".repeat(16);
    let send = async |path: &str, form: &str| Ask::form(path, form).admin().send(&site).await;
    send("/admin/federation/accept", "token=guess&id=0b").await.is(403);
    let done = send("/admin/federation/accept?hl=en", &format!("token={token}&id={id}")).await;
    done.is(200).says("It is done.").says("Back to the federation");
    send("/admin/federation/end", &format!("token={token}&id=0a")).await.is(200);
    send("/admin/federation/refuse", &format!("token={token}&id=ff")).await.is(400);
    let elsewhere = Ask::form("/admin/federation/end", &format!("token={token}&id=0a")).admin();
    elsewhere.with("sec-fetch-site", "cross-site").send(&site).await.is(403);
    let want = [
        FederationOrder::Accept { agreement: id },
        FederationOrder::End { agreement: "0a".into(), purge: false },
    ];
    assert_eq!(*site.fake.shared.lock(), want);
}

#[tokio::test]
async fn programs_order_and_are_told() {
    let site = sharing();
    let told = Ask::get("/api/v1/federation").admin().send(&site).await.is(200).json();
    assert_eq!(told["agreements"][0]["received"]["pages"], 17_995);
    assert_eq!(told["agreements"][0]["refused"][0], json!({ "reason": "page_outside", "count": 3 }));
    assert_eq!(told["partners"][1]["heard_seconds"], json!(null));
    let order = async |body: &str| Ask::json("/api/v1/admin/federation", body).admin().send(&site).await;
    order("{\"order\":\"propose\",\"partner\":\"CIn\",\"view\":\".br\",\"provider\":true}").await.is(200);
    order("{\"order\":\"dance\"}").await.is(400);
    order("{\"order\":\"join\"}").await.is(400);
    let given = site.fake.shared.lock().clone();
    assert!(
        matches!(&given[..], [FederationOrder::Propose(one)] if one.as_provider && one.view == ".br"),
        "{given:?}"
    );
}
