//! Writes the first inputs of targets whose formats are ours: what the product itself writes, out of its
//! frames.
//!
//! `seeds FOLDER` makes one file per format under FOLDER; those of text formats stand in `corpus` as people wrote them.

#[allow(dead_code)]
#[path = "contracts/framing.rs"]
mod framing;
#[path = "../crates/index/src/limits.rs"]
mod limits;
#[allow(dead_code)]
#[path = "../crates/index/src/stored.rs"]
mod stored;
#[allow(dead_code)]
#[path = "contracts/urls.rs"]
mod urls;

use farol_base::codec::Decoder;
use farol_base::disk::{Disk, Mem};
use farol_base::{ContentHash, Document, HostHash, Language, PageId, PagePosition, Timestamp};
use farol_links::{Links, LinksOptions, OutLink};
use farol_partition::table::{Block, Exception, Filter, RoutingTable, Unknown, binary, host_key};
use farol_store::urls::{Found, UrlStore, Veuni, VeuniOptions};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("usage: seeds FOLDER"));
    let write = |target: &str, bytes: &[u8]| save(&folder, target, bytes);
    url_store(&write);
    links(&write);
    let table = binary::write(&routing_table());
    write("routing", &table[12..table.len() - 8]);
    write("stored", &stored::encode(&document())[1..]);
    let exchange = ["a/b?c", "\u{1}", "OK", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", "<p>body", "http/1.1"];
    write("exchange", &joined(&exchange.map(|piece| piece.as_bytes().to_vec())));
}

/// The opposite of [`framing::pieces`].
fn joined(pieces: &[Vec<u8>]) -> Vec<u8> {
    pieces.iter().flat_map(|piece| [&(piece.len() as u16).to_le_bytes(), &piece[..]].concat()).collect()
}

fn save(folder: &Path, target: &str, bytes: &[u8]) {
    let folder = folder.join(target);
    std::fs::create_dir_all(&folder).expect("a folder that can be made");
    let name = format!("seed-{:08x}", crc32fast::hash(bytes));
    std::fs::write(folder.join(name), bytes).expect("a folder that can be written to");
}

fn url_store(write: &dyn Fn(&str, &[u8])) {
    for flushes in [false, true] {
        let disk = Mem::new();
        // A memtable that is full at once makes level-0 runs.
        let memtable_bytes = if flushes { 0 } else { 1 << 20 };
        let options = VeuniOptions { memtable_bytes, ..urls::options() };
        let mut store = Veuni::open(Arc::new(disk.clone()), options).expect("an empty folder").0;
        let found = |text: &str, depth| Found {
            url: urls::url(text),
            depth,
            hint: (depth == 2).then_some(urls::NOW),
        };
        let all = [("http://h/a", 1), ("http://h/a/b", 2), ("http://h/c?d", 3), ("https://g.example/", 0)];
        store.found(&all.map(|(text, depth)| found(text, depth))).expect("memory");
        store.visited(&urls::url("http://h/a"), &urls::visit()).expect("memory");
        store.flush().expect("memory");
        let names = disk.list().expect("memory");
        if let Some(name) = names.iter().find(|name| name.starts_with("pending-")) {
            let run = framing::file(&disk, name);
            // Head, then per block hash and offset, then a checksum.
            let (count, index) = (u32::from_le_bytes(run[12..16].try_into().expect("four")), &run[28..]);
            let blocks_at = 28 + 16 * count as usize + 4;
            let block = |entry: &[u8]| {
                let at = u64::from_le_bytes(entry[8..16].try_into().expect("eight")) as usize;
                [&entry[..8], &raw(&run[blocks_at + at..])].concat()
            };
            let pieces: Vec<Vec<u8>> = index.chunks(16).take(count as usize).map(block).collect();
            write("level0", &joined(&pieces));
        }
        if let Some(name) = names.iter().find(|name| name.starts_with("log-")) {
            let log = framing::file(&disk, name);
            if let Some(operations) = log.get(36 + 16..) {
                write("log", &joined(&[operations.to_vec()]));
            }
        }
        store.compact_all().expect("memory");
        let list = framing::file(&disk, "blocks");
        write("manifest", &list[..list.len() - "crc 00000000\n".len()]);
        let names = disk.list().expect("memory");
        if let Some(name) = names.iter().find(|name| name.starts_with("block-")) {
            bucket(&framing::file(&disk, name), write);
        }
    }
}

/// Takes a bucket's file apart: totals, directory, blocks.
fn bucket(file: &[u8], write: &dyn Fn(&str, &[u8])) {
    let trailer = file.len() - 20;
    let footer_at = u64::from_le_bytes(file[trailer..trailer + 8].try_into().expect("eight")) as usize;
    let footer = raw(&file[footer_at..]);
    let mut decoder = Decoder::of(&footer);
    (0..6).for_each(|_| assert!(decoder.varint().is_ok()));
    let totals = footer[..footer.len() - decoder.len()].to_vec();
    let blocks = decoder.varint().expect("a count");
    let (mut at, mut pieces) = (8 + 4 + 4 + 8 + 8 + 8 + 4, Vec::new());
    for _ in 1..blocks {
        pieces.push(raw(&file[at..]));
        at += decoder.varint().expect("a length") as usize;
    }
    write("bucket", &joined(&[vec![totals, raw(&file[at..])], pieces].concat()));
}

/// The bytes of the block that begins here. Each of its frames is compressed by itself.
fn raw(framed: &[u8]) -> Vec<u8> {
    let stored = u32::from_le_bytes(framed[4..8].try_into().expect("four")) as usize;
    zstd::stream::decode_all(&framed[12..12 + stored]).expect("a block of ours")
}

fn links(write: &dyn Fn(&str, &[u8])) {
    let disk = Mem::new();
    let options = LinksOptions { segment_bytes: 64, ..LinksOptions::default() };
    let mut store = Links::open(Arc::new(disk.clone()), options).expect("an empty folder");
    for number in 1..4 {
        let (target, target_host) = (PageId(9), HostHash(1));
        let link = OutLink { target, target_host, anchor: format!("text {number}"), nofollow: number == 2 };
        let at = PagePosition { file: 1, offset: number };
        store.put(PageId(number), HostHash(2), &[link.clone(), link], at).expect("memory");
    }
    store.remove(PageId(2)).expect("memory");
    store.compute_ranks(farol_links::Budget::default()).expect("memory");
    store.flush().expect("memory");
    let ranks = framing::file(&disk, "ranks");
    let ranks = ranks[12..ranks.len() - 4].to_vec();
    for name in disk.list().expect("memory") {
        let bytes = framing::file(&disk, &name);
        let is_sealed = bytes.ends_with(b"FAROLEND");
        let trailer = bytes.len() - 24;
        let (end, kind) = match (name.starts_with("links-"), name.starts_with("run-")) {
            (true, _) if is_sealed => {
                (u64::from_le_bytes(bytes[trailer..trailer + 8].try_into().expect("eight")), 2)
            }
            (true, _) => (bytes.len() as u64, 1),
            (_, true) => (u64::from_le_bytes(bytes[trailer..trailer + 8].try_into().expect("eight")), 3),
            _ => continue,
        };
        let footer = if is_sealed { bytes[end as usize..trailer].to_vec() } else { Vec::new() };
        let mut pieces = vec![vec![kind], ranks.clone(), footer];
        let mut at = 28;
        while at + 8 <= end as usize {
            let len = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
            pieces.push(bytes[at + 8..at + 8 + len].to_vec());
            at += 8 + len;
        }
        write("links", &joined(&pieces));
    }
}

fn routing_table() -> RoutingTable {
    let address = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 0));
    RoutingTable {
        version: 3,
        unknown: Unknown::Hash,
        destinations: vec!["one".to_string(), "two".to_string()],
        blocks: [(Block::of(address, 16), 0), (Block::single(address), 1)].into(),
        hosts: [(host_key("http://h"), Exception { owner: 1, address: Some(address) })].into(),
        filters: vec![
            (Filter::Domain("example.org".to_string()), 0),
            (Filter::Block(Block::of(address, 8)), 1),
        ],
    }
}

fn document() -> Document {
    Document {
        url: urls::url("http://h/a"),
        title: "Título".to_string(),
        headings: "H".to_string(),
        body: "text".to_string(),
        description: "d".to_string(),
        rest: "re".to_string(),
        anchors: "an".to_string(),
        language: Language::parse("pt"),
        file_type: "html".to_string(),
        fetched: Timestamp::from_secs(1),
        dated: None,
        content_hash: ContentHash(1),
        simhash: 2,
        position: PagePosition { file: 1, offset: 2 },
        shown: Default::default(),
        source: None,
    }
}
