//! The API document tells the truth: every route is in it, and every answer is as it says.

use super::*;
use crate::{api::OPENAPI, routes};
use farol_base::query::ShardsAnswered;
use serde_json::Value;
use std::collections::BTreeSet;

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

#[test]
fn every_route_is_documented_and_nothing_else() {
    let document = document();
    let routes: BTreeSet<_> =
        routes::build().list.iter().map(|route| (route.path.to_string(), route.method.to_string())).collect();
    let paths = document["paths"].as_object().unwrap();
    let documented: BTreeSet<_> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone()))
        })
        .collect();
    assert_eq!(routes, documented);
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, document: &Value) {
        if let Some(to) = value["$ref"].as_str() {
            let found = document.pointer(to.strip_prefix('#').unwrap());
            assert!(found.is_some(), "{to}");
        }
        match value {
            Value::Object(fields) => fields.values().for_each(|value| walk(value, document)),
            Value::Array(items) => items.iter().for_each(|value| walk(value, document)),
            _ => {}
        }
    }
    walk(&document(), &document());
}

/// Holds a value against a schema: types, required keys, and no key that is not documented.
fn check(value: &Value, schema: &Value, document: &Value, at: &str) {
    if let Some(to) = schema["$ref"].as_str() {
        return check(value, document.pointer(to.strip_prefix('#').unwrap()).unwrap(), document, at);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => panic!("{at} has no type"),
    };
    assert!(allowed.contains(&kind) || kind == "integer" && allowed.contains(&"number"), "{at} is {kind}");
    if let (Some(text), Some(values)) = (value.as_str(), schema["enum"].as_array()) {
        assert!(values.iter().any(|one| one == text), "{at} is {text}");
    }
    for item in value.as_array().into_iter().flatten() {
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            check(item, items, document, &format!("{at}[]"));
        }
    }
    let Some(fields) = value.as_object().filter(|_| schema.get("properties").is_some()) else { return };
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(fields.contains_key(key), "{at} lacks {key}");
    }
    for (key, value) in fields {
        let property =
            schema["properties"].get(key).unwrap_or_else(|| panic!("{at}.{key} is not documented"));
        check(value, property, document, &format!("{at}.{key}"));
    }
}

/// A body that names a page.
const PAGE: &str = "{\"url\":\"http://a.test/x\"}";

#[tokio::test]
async fn answers_are_as_documented() {
    let document = document();
    let shards = Some(ShardsAnswered { total: 3, answered: 2 });
    let site = Site::over(
        Fake { in_cluster: true, in_federation: true, shards, ..Fake::default() },
        Settings::default(),
    );
    let asks = [
        ("/api/v1/search", "get", Ask::get("/api/v1/search?q=farol+before:soon")),
        ("/api/v1/search", "get", Ask::get("/api/v1/search?q=mispelt&first=20&count=100&hl=pt")),
        ("/api/v1/suggest", "get", Ask::get("/api/v1/suggest?q=f")),
        ("/api/v1/status", "get", Ask::get("/api/v1/status").admin()),
        ("/api/v1/history", "get", Ask::get("/api/v1/history").admin()),
        ("/api/v1/hosts", "get", Ask::get("/api/v1/hosts?state=waiting&count=5").admin()),
        ("/api/v1/host", "get", Ask::get("/api/v1/host?host=https://a.example.org").admin()),
        ("/api/v1/page", "get", Ask::get("/api/v1/page?url=https://a.example.org/x").admin()),
        ("/api/v1/page", "get", Ask::get("/api/v1/page?url=a.example.org/private/x").admin()),
        ("/api/v1/ring", "get", Ask::get("/api/v1/ring").admin()),
        ("/api/v1/broken", "get", Ask::get("/api/v1/broken?filter=www&first=60&count=5").admin()),
        ("/api/v1/removed-pages", "get", Ask::get("/api/v1/removed-pages").admin()),
        ("/api/v1/cluster", "get", Ask::get("/api/v1/cluster").admin()),
        ("/api/v1/federation", "get", Ask::get("/api/v1/federation").admin()),
        (
            "/api/v1/admin/federation",
            "post",
            Ask::json("/api/v1/admin/federation", "{\"order\":\"accept\",\"agreement\":\"0a\"}").admin(),
        ),
        (
            "/api/v1/admin/drain-node",
            "post",
            Ask::json("/api/v1/admin/drain-node", "{\"node\":\"n4d2k7\"}").admin(),
        ),
        ("/api/v1/admin/replan", "post", Ask::json("/api/v1/admin/replan", "{}").admin()),
        ("/api/v1/openapi.json", "get", Ask::get("/api/v1/openapi.json")),
        ("/api/v1/admin/pause", "post", Ask::json("/api/v1/admin/pause", "{}").admin()),
        ("/api/v1/admin/resume", "post", Ask::json("/api/v1/admin/resume", "{}").admin()),
        (
            "/api/v1/admin/seeds",
            "post",
            Ask::json("/api/v1/admin/seeds", "{\"url\":\"http://a.test/\"}").admin(),
        ),
        (
            "/api/v1/admin/remove-host",
            "post",
            Ask::json("/api/v1/admin/remove-host", "{\"host\":\"a.test\"}").admin(),
        ),
        ("/api/v1/admin/refetch", "post", Ask::json("/api/v1/admin/refetch", PAGE).admin()),
        ("/api/v1/admin/remove-pages", "post", Ask::json("/api/v1/admin/remove-pages", PAGE).admin()),
        ("/api/v1/admin/restore-pages", "post", Ask::json("/api/v1/admin/restore-pages", PAGE).admin()),
    ];
    let mut tried = BTreeSet::new();
    for (path, method, ask) in asks {
        let got = ask.send(&site).await;
        assert_eq!(got.is(200).header("content-type"), "application/json", "{path}");
        let schema =
            &document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"];
        check(&got.json(), schema, &document, path);
        tried.insert(path);
    }
    let all =
        routes::build().list.into_iter().map(|route| route.path).filter(|path| path.starts_with("/api/"));
    assert_eq!(tried, all.collect());
}

#[tokio::test]
async fn what_is_not_known_yet_is_as_documented() {
    let document = document();
    let site = Site::over(Fake { freshness_unknown: true, ..Fake::default() }, Settings::default());
    let check = async |path: &str, query: &str| {
        let got = Ask::get(&format!("{path}{query}")).admin().send(&site).await;
        let schema =
            &document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        check(&got.is(200).json(), schema, &document, path);
    };
    check("/api/v1/status", "").await;
    check("/api/v1/history", "").await;
    check("/api/v1/hosts", "?count=5").await;
    check("/api/v1/host", "?host=https://a.example.org").await;
}

#[tokio::test]
async fn failures_are_as_documented() {
    let document = document();
    let site = Site::new(Settings::default());
    let schema = &document["components"]["schemas"]["Error"];
    let paths = ["/api/v1/search", "/api/v1/status", "/api/v1/nowhere", "/api/v1/host?host=", "/metrics"];
    for path in paths {
        let got = site.get(path).await;
        assert!(got.status.is_client_error(), "{path}");
        check(&got.json(), schema, &document, path);
    }
    let codes = document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"]["description"].as_str();
    for kind in crate::failure::FailureKind::ALL {
        assert!(codes.unwrap().contains(kind.code()), "{} is not documented", kind.code());
    }
}

#[tokio::test]
async fn numbers_out_of_the_documented_range_are_refused() {
    let document = document();
    let site = Site::new(Settings { rate_per_minute: 0, ..Settings::default() });
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let operation = &methods["get"];
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
            if schema["type"] != "integer" {
                continue;
            }
            let ask = async |value: String| {
                Ask::get(&format!("{path}?q=farol&{name}={value}")).admin().send(&site).await
            };
            let (least, most) = (schema["minimum"].as_i64().unwrap(), schema["maximum"].as_i64());
            for inside in [Some(least), most].into_iter().flatten() {
                ask(inside.to_string()).await.is(200);
            }
            for outside in [Some(least - 1), most.map(|most| most + 1)].into_iter().flatten() {
                ask(outside.to_string()).await.is(400).says(&format!("{name}: "));
            }
            ask("ten".to_string()).await.is(400);
            assert!(operation["responses"].get("400").is_some(), "{path} does not say that it refuses");
            tried += 1;
        }
    }
    assert!(tried >= 6, "{tried}");
}

#[tokio::test]
async fn a_question_can_be_paged_through() {
    let site = Site::new(Settings { rate_per_minute: 0, ..Settings::default() });
    let mut urls = Vec::new();
    loop {
        let answer = site.get(&format!("/api/v1/search?q=a&first={}&count=10", urls.len())).await.json();
        urls.extend(answer["hits"].as_array().unwrap().iter().map(|hit| hit["url"].to_string()));
        if answer["more"] == false {
            break;
        }
    }
    assert_eq!(urls.len(), 25);
}
