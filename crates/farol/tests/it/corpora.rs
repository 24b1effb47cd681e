//! Replays the inputs of `fuzz/corpus` against the contracts of `fuzz/contracts`, without a fuzzer: what once
//! broke a contract never breaks it again. (That of `stored` is replayed by its own crate.)

#[path = "../../../../fuzz/contracts/framing.rs"]
mod framing;
#[path = "../../../../fuzz/contracts/urls.rs"]
mod urls;

macro_rules! contracts {
    ($($name:ident from $path:literal),* $(,)?) => {
        $(#[path = $path] mod $name;)*
        const CONTRACTS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::check)),*];
    };
}

contracts! {
    bucket from "../../../../fuzz/contracts/bucket.rs",
    config from "../../../../fuzz/contracts/config.rs",
    decode from "../../../../fuzz/contracts/decode.rs",
    exchange from "../../../../fuzz/contracts/exchange.rs",
    feed from "../../../../fuzz/contracts/feed.rs",
    head from "../../../../fuzz/contracts/head.rs",
    html from "../../../../fuzz/contracts/html.rs",
    level0 from "../../../../fuzz/contracts/level0.rs",
    links from "../../../../fuzz/contracts/links.rs",
    log from "../../../../fuzz/contracts/log.rs",
    manifest from "../../../../fuzz/contracts/manifest.rs",
    message from "../../../../fuzz/contracts/message.rs",
    packet from "../../../../fuzz/contracts/packet.rs",
    packet_xml from "../../../../fuzz/contracts/packet_xml.rs",
    parcel from "../../../../fuzz/contracts/parcel.rs",
    query from "../../../../fuzz/contracts/query.rs",
    robots from "../../../../fuzz/contracts/robots.rs",
    routing from "../../../../fuzz/contracts/routing.rs",
    sitemap from "../../../../fuzz/contracts/sitemap.rs",
    tables from "../../../../fuzz/contracts/tables.rs",
    url from "../../../../fuzz/contracts/url.rs",
    view from "../../../../fuzz/contracts/view.rs",
    warc from "../../../../fuzz/contracts/warc.rs",
    wire from "../../../../fuzz/contracts/wire.rs",
}

#[test]
fn every_input_of_the_corpora_keeps_its_contract() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, check) in CONTRACTS {
        check(&[]);
        let inputs = std::fs::read_dir(corpus.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let inputs: Vec<_> = inputs.map(|input| input.unwrap().path()).collect();
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for input in inputs {
            let bytes = std::fs::read(&input).unwrap();
            let done = std::panic::catch_unwind(|| check(&bytes));
            assert!(done.is_ok(), "{} breaks the contract of {name}", input.display());
        }
    }
}
