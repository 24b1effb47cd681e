//! One record of a segment: the links of a page, a page's removal, or a position reached.
//!
//! Knows bytes, not files. A record is eight bytes of length and checksum, then its body; docs/formats/links.md
//! draws it. INVARIANT: what [`append`] writes, [`Record::read`] reads, whatever the anchors hold.

use crate::OutLink;
use farol_base::codec::Decoder;
use farol_base::{HostHash, PageId, PagePosition};

/// Bytes before a record's body: its length and its checksum.
pub(crate) const HEAD_BYTES: usize = 8;

/// Links of a page beyond this many are not kept. 10,000 × 273 bytes at most = 2.7 MB for the worst page.
pub const PAGE_LINKS_MAX: usize = 10_000;

/// Bytes of an anchor text that are kept, cut between characters.
pub const ANCHOR_BYTES_MAX: usize = 255;

/// A body longer than this is damage: the worst page, rounded up.
pub(crate) const BODY_BYTES_MAX: usize = 4 << 20;

const NOFOLLOW: u8 = 1;
const OTHER_HOST: u8 = 2;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From now on these are the page's links.
    Links = 1,
    /// The page is gone.
    Removed = 2,
    /// Everything up to this position has been taken in.
    Position = 3,
}

/// A record's body.
#[derive(Clone)]
pub(crate) struct Record<'a> {
    pub kind: Kind,
    /// Tells the page's newest record from its earlier ones.
    pub stamp: u16,
    pub page: PageId,
    pub host: HostHash,
    pub at: PagePosition,
    pub count: u32,
    /// The links, one after the other.
    pub links: &'a [u8],
}

/// Fixed part of a body: kind, stamp, page, host, position, count.
const FIXED_BYTES: usize = 1 + 2 + 8 + 8 + 12 + 4;

impl<'a> Record<'a> {
    /// Reads a body whose checksum was right; `None` for what we never wrote.
    pub(crate) fn read(body: &'a [u8]) -> Option<Record<'a>> {
        let mut decoder = Decoder::of(body);
        let kind = match decoder.byte().ok()? {
            1 => Kind::Links,
            2 => Kind::Removed,
            3 => Kind::Position,
            _ => return None,
        };
        let stamp = decoder.u16().ok()?;
        let page = PageId(decoder.u64().ok()?);
        let host = HostHash(decoder.u64().ok()?);
        let at = PagePosition { file: decoder.u32().ok()?, offset: decoder.u64().ok()? };
        let count = decoder.u32().ok()?;
        Some(Record { kind, stamp, page, host, at, count, links: &body[FIXED_BYTES..] })
    }

    /// The links in the order of the page.
    pub(crate) fn links(&self) -> LinkReader<'a> {
        LinkReader { decoder: Decoder::of(self.links), bytes: self.links.len(), host: self.host }
    }
}

/// A link as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptLink<'a> {
    pub target: u64,
    pub target_host: HostHash,
    pub nofollow: bool,
    pub other_host: bool,
    pub anchor: &'a [u8],
    /// Where it starts among the record's links.
    pub offset: usize,
}

impl KeptLink<'_> {
    /// Whether its text says something about the target.
    pub(crate) fn speaks(&self, page: PageId) -> bool {
        !self.anchor.is_empty() && !self.nofollow && self.target != page.0
    }
}

pub(crate) struct LinkReader<'a> {
    decoder: Decoder<'a>,
    bytes: usize,
    host: HostHash,
}

impl<'a> Iterator for LinkReader<'a> {
    type Item = KeptLink<'a>;

    fn next(&mut self) -> Option<KeptLink<'a>> {
        let offset = self.bytes - self.decoder.len();
        let flags = self.decoder.byte().ok()?;
        let target = self.decoder.u64().ok()?;
        let other_host = flags & OTHER_HOST != 0;
        let target_host = if other_host { HostHash(self.decoder.u64().ok()?) } else { self.host };
        let length = self.decoder.byte().ok()?;
        let anchor = self.decoder.take(usize::from(length)).ok()?;
        Some(KeptLink { target, target_host, nofollow: flags & NOFOLLOW != 0, other_host, anchor, offset })
    }
}

/// Appends the links of a page as [`Record::links`] reads them; answers how many were kept.
pub(crate) fn append_links(out: &mut Vec<u8>, host: HostHash, links: &[OutLink]) -> u32 {
    let kept = &links[..links.len().min(PAGE_LINKS_MAX)];
    for link in kept {
        let other_host = link.target_host != host;
        out.push(if link.nofollow { NOFOLLOW } else { 0 } | if other_host { OTHER_HOST } else { 0 });
        out.extend_from_slice(&link.target.0.to_le_bytes());
        if other_host {
            out.extend_from_slice(&link.target_host.0.to_le_bytes());
        }
        let anchor = link.anchor.trim();
        let anchor = &anchor[..anchor.floor_char_boundary(ANCHOR_BYTES_MAX)];
        out.push(anchor.len() as u8);
        out.extend_from_slice(anchor.as_bytes());
    }
    kept.len() as u32
}

/// Appends a whole record.
pub(crate) fn append(out: &mut Vec<u8>, record: &Record<'_>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    out.push(record.kind as u8);
    out.extend_from_slice(&record.stamp.to_le_bytes());
    out.extend_from_slice(&record.page.0.to_le_bytes());
    out.extend_from_slice(&record.host.0.to_le_bytes());
    out.extend_from_slice(&record.at.file.to_le_bytes());
    out.extend_from_slice(&record.at.offset.to_le_bytes());
    out.extend_from_slice(&record.count.to_le_bytes());
    out.extend_from_slice(record.links);
    let body = &out[start + HEAD_BYTES..];
    let (length, checksum) = (body.len() as u32, crc32fast::hash(body));
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}

/// The body that starts with its head at the front of `bytes`, if it is whole and its checksum is right.
pub(crate) fn checked_body(bytes: &[u8]) -> Option<&[u8]> {
    let mut decoder = Decoder::of(bytes);
    let length = decoder.u32().ok()? as usize;
    let checksum = decoder.u32().ok()?;
    if !(FIXED_BYTES..=BODY_BYTES_MAX).contains(&length) {
        return None;
    }
    let body = decoder.take(length).ok()?;
    (crc32fast::hash(body) == checksum).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(target: u64, target_host: u64, anchor: &str, nofollow: bool) -> OutLink {
        OutLink {
            target: PageId(target),
            target_host: HostHash(target_host),
            anchor: anchor.to_string(),
            nofollow,
        }
    }

    fn written(host: u64, links: &[OutLink]) -> Vec<u8> {
        let mut kept = Vec::new();
        let host = HostHash(host);
        let count = append_links(&mut kept, host, links);
        let mut out = Vec::new();
        let at = PagePosition { file: 3, offset: 99 };
        append(
            &mut out,
            &Record { kind: Kind::Links, stamp: 7, page: PageId(5), host, at, count, links: &kept },
        );
        out
    }

    #[test]
    fn long_anchors_are_cut_between_characters() {
        let long = format!("a{}", "é".repeat(300));
        let bytes = written(1, &[link(2, 1, &long, false)]);
        let record = Record::read(checked_body(&bytes).unwrap()).unwrap();
        let kept = record.links().next().unwrap();
        assert_eq!(std::str::from_utf8(kept.anchor).unwrap(), &long[..ANCHOR_BYTES_MAX]);
    }

    #[test]
    fn pages_with_too_many_links_keep_the_first() {
        let links = vec![link(2, 1, "x", false); PAGE_LINKS_MAX + 5];
        let bytes = written(1, &links);
        let record = Record::read(checked_body(&bytes).unwrap()).unwrap();
        assert_eq!((record.count as usize, record.links().count()), (PAGE_LINKS_MAX, PAGE_LINKS_MAX));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(links in prop::collection::vec((any::<u64>(), 0u64..3, "[ -~é]{0,20}", any::<bool>()), 0..20)) {
            let links: Vec<OutLink> = links.iter().map(|(t, h, a, n)| link(*t, *h, a, *n)).collect();
            let bytes = written(1, &links);
            let record = Record::read(checked_body(&bytes).unwrap()).unwrap();
            prop_assert_eq!((record.stamp, record.page, record.count as usize), (7, PageId(5), links.len()));
            let read: Vec<OutLink> = record.links()
                .map(|l| link(l.target, l.target_host.0, std::str::from_utf8(l.anchor).unwrap(), l.nofollow)).collect();
            let want: Vec<OutLink> = links.iter().map(|l| OutLink { anchor: l.anchor.trim().to_string(), ..l.clone() }).collect();
            prop_assert_eq!(read, want);
        }

        #[test]
        fn one_wrong_byte_is_noticed(at in 0usize..70, bit in 0u8..8) {
            let mut bytes = written(1, &[link(2, 3, "anchor", false)]);
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(checked_body(&bytes).is_none());
        }

        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = checked_body(&bytes);
            if let Some(record) = Record::read(&bytes) {
                let _ = record.links().count();
            }
        }
    }
}
