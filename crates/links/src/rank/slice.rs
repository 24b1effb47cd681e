//! The part of a rank table that a shard of the index needs: ranks of its pages, and of all hosts.
//!
//! A slice is a file of its own, so that the machine that ranks and those that answer need not be the same.
//! docs/formats/ranks.md draws it, byte by byte. Ranks are scaled by those of the whole table: a page ranks the same
//! in whichever slice it comes.

use super::ids::Ids;
use super::table::{RankTable, Ranks};
use crate::error::Error;
use farol_base::codec::{DecodeError, Decoder};
use std::ops::RangeInclusive;

const MAGIC: &[u8; 8] = b"FAROLSLC";
const FORMAT: u32 = 1;
/// What errors call a slice, which has no name of its own here.
const NAME: &str = "a slice of ranks";

/// Ranks of the pages of one shard, and of all hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct RankSlice {
    /// Which ranks these are a slice of.
    pub version: u64,
    /// [`RankTable::digest`] of the whole.
    pub digest: u32,
    /// Pages that it speaks for, first and last.
    pub pages: RangeInclusive<u64>,
    table: RankTable,
}

impl RankSlice {
    /// The slice of these pages.
    pub fn of(table: &RankTable, version: u64, digest: u32, pages: RangeInclusive<u64>) -> RankSlice {
        let (ids, shares) = table.pages.iter().filter(|(id, _)| pages.contains(id)).unzip();
        let table = RankTable { pages: table.pages.with(ids, shares), hosts: table.hosts.clone() };
        RankSlice { version, digest, pages, table }
    }

    /// The slice as a file.
    pub fn write(&self) -> Vec<u8> {
        let (pages, hosts) = (&self.table.pages, &self.table.hosts);
        let mut out = Vec::with_capacity(68 + 12 * (pages.len() + hosts.len()));
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.digest.to_le_bytes());
        out.extend_from_slice(&self.pages.start().to_le_bytes());
        out.extend_from_slice(&self.pages.end().to_le_bytes());
        for ranks in [pages, hosts] {
            let (log_min, scale) = ranks.scaling();
            out.extend_from_slice(&(ranks.len() as u32).to_le_bytes());
            out.extend_from_slice(&log_min.to_le_bytes());
            out.extend_from_slice(&scale.to_le_bytes());
        }
        for (id, share) in pages.iter().chain(hosts.iter()) {
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&share.to_le_bytes());
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads what [`RankSlice::write`] wrote.
    ///
    /// # Errors
    /// [`Error::Damaged`], or [`Error::Format`] where a later version wrote it.
    pub fn read(bytes: &[u8]) -> Result<RankSlice, Error> {
        let damaged = |offset: usize, what| Error::damaged(NAME, offset as u64, what);
        let (content, checksum) = bytes.split_last_chunk::<4>().ok_or_else(|| damaged(0, "it is empty"))?;
        if !content.starts_with(MAGIC) {
            return Err(damaged(0, "it does not start as such a file does"));
        }
        let mut decoder = Decoder::of(&content[MAGIC.len()..]);
        let found = decoder.u32().unwrap_or(0);
        if found != FORMAT {
            return Err(Error::Format { file: NAME.to_string(), found, known: FORMAT });
        }
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(damaged(content.len(), "its checksum is wrong"));
        }
        read_content(&mut decoder).map_err(|what| damaged(MAGIC.len(), what))
    }
}

fn read_content(decoder: &mut Decoder<'_>) -> Result<RankSlice, DecodeError> {
    let (version, digest) = (decoder.u64()?, decoder.u32()?);
    let pages = decoder.u64()?..=decoder.u64()?;
    let heads = [read_head(decoder)?, read_head(decoder)?];
    let [ranked_pages, hosts] = heads.map(|head| read_ranks(decoder, head));
    let (ranked_pages, hosts) = (ranked_pages?, hosts?);
    if !decoder.is_empty() {
        return Err("more bytes than ranks");
    }
    if ranked_pages.iter().any(|(id, _)| !pages.contains(&id)) {
        return Err("a page that is none of its own");
    }
    Ok(RankSlice { version, digest, pages, table: RankTable { pages: ranked_pages, hosts } })
}

/// How many there are, and how they are scaled.
fn read_head(decoder: &mut Decoder<'_>) -> Result<(usize, f32, f32), DecodeError> {
    let (count, log_min, scale) = (decoder.u32()?, decoder.u32()?, decoder.u32()?);
    let (log_min, scale) = (f32::from_bits(log_min), f32::from_bits(scale));
    if !log_min.is_finite() || !scale.is_finite() {
        return Err("ranks without a scale");
    }
    Ok((count as usize, log_min, scale))
}

fn read_ranks(
    decoder: &mut Decoder<'_>,
    (count, log_min, scale): (usize, f32, f32),
) -> Result<Ranks, DecodeError> {
    if decoder.len() / 12 < count {
        return Err("bytes that end too early");
    }
    let (mut ids, mut shares) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        ids.push(decoder.u64()?);
        shares.push(f32::from_bits(decoder.u32()?));
    }
    if !ids.is_sorted_by(|a, b| a < b) {
        return Err("ids that are not in order");
    }
    Ok(Ranks::scaled_as(Ids::from_sorted(ids), shares, log_min, scale))
}

impl RankTable {
    /// Puts slices of the same table together; pages of several are the same in each.
    pub fn of_slices(slices: &[RankSlice]) -> RankTable {
        let Some(first) = slices.first() else { return RankTable::default() };
        let mut pages: Vec<(u64, f32)> = slices.iter().flat_map(|slice| slice.table.pages.iter()).collect();
        pages.sort_unstable_by_key(|(id, _)| *id);
        pages.dedup_by_key(|(id, _)| *id);
        let (ids, shares) = pages.into_iter().unzip();
        RankTable { pages: first.table.pages.with(ids, shares), hosts: first.table.hosts.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{HostHash, PageId};
    use proptest::prelude::*;

    fn ranks(of: &[(u64, f32)]) -> Ranks {
        let (ids, shares) = of.iter().copied().unzip();
        Ranks::new(Ids::from_sorted(ids), shares)
    }

    fn table() -> RankTable {
        RankTable {
            pages: ranks(&[(1, 0.5), (7, 0.125), (u64::MAX - 1, 0.25), (u64::MAX, 0.125)]),
            hosts: ranks(&[(4, 0.75), (5, 0.25)]),
        }
    }

    fn slices(table: &RankTable, cuts: &[u64]) -> Vec<RankSlice> {
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().map(|cut| cut - 1).chain([u64::MAX]);
        let slice = |(from, to)| RankSlice::of(table, 3, table.digest(), from..=to);
        starts.zip(ends).map(slice).collect()
    }

    #[test]
    fn slices_rank_as_the_whole_does() {
        let table = table();
        let cut = slices(&table, &[7, 1 << 60]);
        let read: Vec<RankSlice> = cut.iter().map(|slice| RankSlice::read(&slice.write()).unwrap()).collect();
        assert_eq!(read, cut);
        assert_eq!(RankTable::of_slices(&read), table);
        for slice in &read {
            let alone = RankTable::of_slices(std::slice::from_ref(slice));
            for (page, _) in table.page_shares() {
                let want = if slice.pages.contains(&page.0) { table.page(page) } else { 0.0 };
                assert_eq!(alone.page(page), want);
            }
            assert_eq!(alone.host(HostHash(4)), table.host(HostHash(4)));
        }
        // Halves beside the whole that they were cut off.
        let both = [read, slices(&table, &[])].concat();
        assert_eq!(RankTable::of_slices(&both), table);
        assert_eq!(RankTable::of_slices(&[]).page(PageId(1)), 0.0);
    }

    #[test]
    fn the_first_format_is_frozen() {
        let table = RankTable { pages: ranks(&[(1, 0.5), (258, 0.5)]), hosts: ranks(&[(9, 1.0)]) };
        let bytes = RankSlice::of(&table, 7, 0x0102_0304, 2..=0x0300).write();
        let log_half = 0.5f32.ln().to_le_bytes();
        let mut golden = b"FAROLSLC\x01\0\0\0\x07\0\0\0\0\0\0\0\x04\x03\x02\x01".to_vec();
        golden.extend(b"\x02\0\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x01\0\0\0");
        golden.extend(log_half);
        golden.extend(b"\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0");
        golden.extend(b"\x02\x01\0\0\0\0\0\0\0\0\0\x3f\x09\0\0\0\0\0\0\0\0\0\x80\x3f");
        golden.extend(crc32fast::hash(&golden).to_le_bytes());
        assert_eq!(bytes, golden);
    }

    #[test]
    fn damage_and_later_formats_are_told_apart() {
        let good = slices(&table(), &[])[0].write();
        assert!(RankSlice::read(&good).is_ok());
        for at in [0, 9, 20, 40, good.len() - 6, good.len() - 1] {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            assert!(RankSlice::read(&bytes).is_err(), "byte {at}");
        }
        assert!(matches!(RankSlice::read(&good[..good.len() - 12]), Err(Error::Damaged { .. })));
        let mut later = good.clone();
        later[8] = 2;
        assert!(matches!(RankSlice::read(&later), Err(Error::Format { found: 2, .. })));
        // A page of another shard, under a checksum that is right.
        let mut foreign = slices(&table(), &[])[0].clone();
        foreign.pages = 2..=u64::MAX;
        assert!(matches!(RankSlice::read(&foreign.write()), Err(Error::Damaged { .. })));
    }

    #[test]
    fn other_ranks_have_another_digest() {
        let mut other = table();
        assert_eq!(other.digest(), table().digest());
        other.hosts = ranks(&[(4, 0.5), (5, 0.5)]);
        assert_ne!(other.digest(), table().digest());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), right: bool) {
            if right {
                bytes = [&MAGIC[..], &FORMAT.to_le_bytes(), &bytes].concat();
                bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
            }
            let _ = RankSlice::read(&bytes);
        }
    }
}
