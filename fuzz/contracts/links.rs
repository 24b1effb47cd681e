//! Any bytes as files of the link store: a segment, a run and the ranks, as they are and under right
//! checksums.
//!
//! Contract: opening fails with an error or gives a store that can be verified, ranked, maintained and opened
//! again.

use super::framing::{self, sealed};
use farol_base::disk::Mem;
use farol_base::{HostHash, PageId, PagePosition};
use farol_links::{Budget, Links, LinksOptions, OutLink};
use std::sync::Arc;

pub fn check(bytes: &[u8]) {
    let pieces = framing::pieces(bytes);
    let piece = |at: usize| pieces.get(at).copied().unwrap_or(&[]);
    // The first byte says which files are there, sealed or not.
    let (kind, ranks, rest) =
        (piece(0).first().copied().unwrap_or(0), piece(1), pieces.get(2..).unwrap_or(&[]));
    let disk = Mem::new();
    let records = || rest.iter().skip(1).copied();
    match kind % 4 {
        0 => framing::put(&disk, "links-00000001-00000001-0.log", bytes),
        1 => framing::put(&disk, "links-00000001-00000001-0.log", &framed(b"FAROLLNK", records(), None)),
        2 => framing::put(
            &disk,
            "links-00000001-00000001-0.log",
            &framed(b"FAROLLNK", records(), rest.first().copied()),
        ),
        _ => {
            framing::put(
                &disk,
                "links-00000001-00000001-0.log",
                &framed(b"FAROLLNK", [].into_iter(), Some(&[0; 18])),
            );
            framing::put(
                &disk,
                "run-00000001-00000001-0.run",
                &framed(b"FAROLRUN", records(), rest.first().copied()),
            );
        }
    }
    if !ranks.is_empty() {
        framing::put(&disk, "ranks", &sealed([b"FAROLRNK", &1u32.to_le_bytes()[..], ranks].concat()));
    }
    use_store(&disk);
}

/// Header, records or blocks under their checksums, and where there is one a footer with its trailer.
fn framed<'a>(magic: &[u8; 8], content: impl Iterator<Item = &'a [u8]>, footer: Option<&[u8]>) -> Vec<u8> {
    let numbers = [1u32, 1, 1, 0].map(u32::to_le_bytes);
    let mut out = sealed([magic, numbers.as_flattened()].concat());
    for body in content {
        out.extend((body.len() as u32).to_le_bytes());
        out.extend(crc32fast::hash(body).to_le_bytes());
        out.extend(body);
    }
    if let Some(footer) = footer {
        let content_end = (out.len() as u64).to_le_bytes();
        out.extend(footer);
        out.extend(content_end);
        out.extend((footer.len() as u32).to_le_bytes());
        out.extend(crc32fast::hash(footer).to_le_bytes());
        out.extend(b"FAROLEND");
    }
    out
}

fn use_store(disk: &Mem) {
    let options = LinksOptions { segment_bytes: 1 << 12, merge_bytes_max: 1 << 16, dirty_max: 16 };
    let Ok(mut store) = Links::open(Arc::new(disk.clone()), options.clone()) else { return };
    let _ = store.verify();
    let (_, _, _) = (store.counts(), store.watermark(), store.take_dirty(4));
    let _ = (store.anchors(PageId(1)), store.anchors(PageId(u64::MAX)));
    let _ = store.host_links().map(Iterator::count);
    let link =
        OutLink { target: PageId(1), target_host: HostHash(2), anchor: "text".to_string(), nofollow: false };
    let _ = store.put(PageId(3), HostHash(4), &[link], PagePosition { file: 1, offset: 2 });
    let _ = store.remove(PageId(5));
    let _ = store.compute_ranks(Budget::default());
    let (_, _) = (store.ranks().page(PageId(1)), store.ranks().host(HostHash(2)));
    for _ in 0..4 {
        let _ = store.maintain();
    }
    let flushed = store.flush();
    drop(store);
    let again = Links::open(Arc::new(disk.clone()), options);
    assert!(again.is_ok(), "{flushed:?}, then {:?}", again.err());
}
