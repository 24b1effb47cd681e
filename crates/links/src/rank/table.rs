//! Ranks of pages and hosts, as the index asks for them.
//!
//! 13 bytes per page or host: sorted ids, a rank each, and a small table over the ids. Saved next to the segments as
//! the file `ranks`, so that a restarted engine ranks at once and the next job starts from there.

use super::ids::Ids;
use crate::error::Error;
use crate::files::{FORMAT, NewFile, read_whole};
use farol_base::codec::Decoder;
use farol_base::disk::Disk;
use farol_base::{HostHash, PageId};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"FAROLRNK";
const NAME: &str = "ranks";

/// What the links say about each page and host, between 0 and 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankTable {
    pub(crate) pages: Ranks,
    pub(crate) hosts: Ranks,
}

impl RankTable {
    /// How well linked a page is: 0 for the least linked and for pages not known, 1 for the best linked, and on a
    /// logarithmic scale between them: as much again for each tenfold of rank.
    pub fn page(&self, page: PageId) -> f32 {
        self.pages.scaled(page.0)
    }

    /// How well linked a host is, on the same kind of scale.
    pub fn host(&self, host: HostHash) -> f32 {
        self.hosts.scaled(host.0)
    }

    /// The share of all rank that a page has; these add up to 1.
    #[cfg(test)]
    pub(crate) fn page_share(&self, page: PageId) -> Option<f32> {
        self.pages.share(page.0)
    }

    /// The share of all rank that a host has; these add up to 1.
    #[cfg(test)]
    pub(crate) fn host_share(&self, host: HostHash) -> Option<f32> {
        self.hosts.share(host.0)
    }

    /// The share of all rank that each page has, by id; these add up to 1 in a table that is no slice.
    pub fn page_shares(&self) -> impl Iterator<Item = (PageId, f32)> + '_ {
        self.pages.iter().map(|(id, share)| (PageId(id), share))
    }

    /// The share of all rank that each host has, by id; these add up to 1.
    pub fn host_shares(&self) -> impl Iterator<Item = (HostHash, f32)> + '_ {
        self.hosts.iter().map(|(id, share)| (HostHash(id), share))
    }

    /// CRC-32 of all ids and ranks: tells whether two tables are the same.
    pub fn digest(&self) -> u32 {
        let mut checksum = crc32fast::Hasher::new();
        for ranks in [&self.pages, &self.hosts] {
            checksum.update(&(ranks.len() as u64).to_le_bytes());
            for (id, share) in ranks.iter() {
                checksum.update(&id.to_le_bytes());
                checksum.update(&share.to_le_bytes());
            }
        }
        checksum.finalize()
    }

    /// How many pages have a rank.
    pub fn pages(&self) -> usize {
        self.pages.ids.len()
    }

    /// How many hosts have a rank.
    pub fn hosts(&self) -> usize {
        self.hosts.ids.len()
    }

    /// Writes the table into the folder of the store.
    pub(crate) fn save(&self, disk: &Arc<dyn Disk>) -> Result<(), Error> {
        let mut out = NewFile::create(disk, NAME.to_string())?;
        let mut checksum = crc32fast::Hasher::new();
        let mut chunk = Vec::with_capacity(1 << 16);
        chunk.extend_from_slice(MAGIC);
        chunk.extend_from_slice(&FORMAT.to_le_bytes());
        chunk.extend_from_slice(&(self.pages.ids.len() as u32).to_le_bytes());
        chunk.extend_from_slice(&(self.hosts.ids.len() as u32).to_le_bytes());
        for ranks in [&self.pages, &self.hosts] {
            for (id, share) in ranks.ids.ids().iter().zip(&ranks.shares) {
                chunk.extend_from_slice(&id.to_le_bytes());
                chunk.extend_from_slice(&share.to_le_bytes());
                if chunk.len() >= (1 << 16) - 12 {
                    checksum.update(&chunk);
                    out.write(&chunk)?;
                    chunk.clear();
                }
            }
        }
        checksum.update(&chunk);
        out.write(&chunk)?;
        out.write(&checksum.finalize().to_le_bytes())?;
        out.finish().map(drop)
    }

    /// Reads the table; an empty one where none was saved.
    pub(crate) fn load(disk: &dyn Disk) -> Result<RankTable, Error> {
        let Some(bytes) = read_whole(disk, NAME)? else { return Ok(RankTable::default()) };
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
            return Err(damaged(
                content.len(),
                "its checksum is wrong; delete it, and ranks are computed again",
            ));
        }
        let counts = decoder.u32().ok().zip(decoder.u32().ok());
        let (pages, hosts) = counts.ok_or_else(|| damaged(12, "it is cut short"))?;
        let table = read_ranks(&mut decoder, pages).zip(read_ranks(&mut decoder, hosts));
        let (pages, hosts) = table.ok_or_else(|| damaged(20, "its ids are not in order"))?;
        Ok(RankTable { pages, hosts })
    }
}

fn read_ranks(decoder: &mut Decoder<'_>, count: u32) -> Option<Ranks> {
    if decoder.len() / 12 < count as usize {
        return None;
    }
    let (mut ids, mut shares) = (Vec::with_capacity(count as usize), Vec::with_capacity(count as usize));
    for _ in 0..count {
        ids.push(decoder.u64().ok()?);
        shares.push(f32::from_bits(decoder.u32().ok()?));
    }
    ids.is_sorted_by(|a, b| a < b).then(|| Ranks::new(Ids::from_sorted(ids), shares))
}

/// Ranks of one kind of thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ranks {
    ids: Ids,
    /// Adding up to 1.
    shares: Vec<f32>,
    /// Logarithm of the least share, and what to multiply the distance from it with.
    log_min: f32,
    scale: f32,
}

impl Ranks {
    pub(crate) fn new(ids: Ids, shares: Vec<f32>) -> Ranks {
        let positive = || shares.iter().copied().filter(|share| *share > 0.0 && share.is_finite());
        let log_min = positive().fold(f32::INFINITY, f32::min).ln();
        let span = positive().fold(0.0, f32::max).ln() - log_min;
        // Where all are the same but for rounding, nobody is better linked than anybody else.
        let scale = if span.is_finite() && span > 1e-4 { 1.0 / span } else { 0.0 };
        Ranks { ids, shares, log_min: if log_min.is_finite() { log_min } else { 0.0 }, scale }
    }

    /// Ranks that are scaled as those of the whole that they are a part of.
    pub(crate) fn scaled_as(ids: Ids, shares: Vec<f32>, log_min: f32, scale: f32) -> Ranks {
        debug_assert_eq!(ids.len(), shares.len());
        Ranks { ids, shares, log_min, scale }
    }

    /// Other ranks of the same whole; ids in rising order.
    pub(crate) fn with(&self, ids: Vec<u64>, shares: Vec<f32>) -> Ranks {
        Ranks::scaled_as(Ids::from_sorted(ids), shares, self.log_min, self.scale)
    }

    /// Logarithm of the least share of the whole, and what to multiply the distance from it with.
    pub(crate) fn scaling(&self) -> (f32, f32) {
        (self.log_min, self.scale)
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, f32)> + '_ {
        self.ids.ids().iter().copied().zip(self.shares.iter().copied())
    }

    pub(crate) fn share(&self, id: u64) -> Option<f32> {
        self.shares.get(self.ids.find(id)? as usize).copied()
    }

    fn scaled(&self, id: u64) -> f32 {
        let share = self.share(id).filter(|share| *share > 0.0);
        share.map_or(0.0, |share| ((share.ln() - self.log_min) * self.scale).clamp(0.0, 1.0))
    }

    /// Ranks to start from for these ids: what they had, and the mean for newcomers.
    pub(crate) fn start_for(&self, ids: &Ids) -> Vec<f32> {
        let newcomer = 1.0 / self.shares.len().max(1) as f32;
        let mut old = self.ids.ids().iter().zip(&self.shares).peekable();
        let start = ids.ids().iter().map(|id| {
            while old.next_if(|(before, _)| *before < id).is_some() {}
            old.next_if(|(same, _)| *same == id).map_or(newcomer, |(_, share)| *share)
        });
        start.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(of: &[(u64, f32)]) -> Ranks {
        let (ids, shares) = of.iter().copied().unzip();
        Ranks::new(Ids::from_sorted(ids), shares)
    }

    #[test]
    fn ranks_are_scaled_by_their_logarithm() {
        let table = RankTable {
            pages: ranks(&[(1, 0.001), (2, 0.01), (3, 0.1)]),
            hosts: ranks(&[(9, 0.5), (10, 0.5)]),
        };
        let pages: Vec<f32> = (1..=4).map(|page| table.page(PageId(page))).collect();
        for (got, want) in pages.iter().zip([0.0, 0.5, 1.0, 0.0]) {
            assert!((got - want).abs() < 1e-5, "{pages:?}");
        }
        assert_eq!(
            (table.host(HostHash(9)), table.host(HostHash(10)), table.host(HostHash(11))),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(RankTable::default().page(PageId(1)), 0.0);
    }

    #[test]
    fn a_table_survives_saving_and_damage_is_noticed() {
        let disk: Arc<dyn Disk> = Arc::new(farol_base::disk::Mem::new());
        let replace = |bytes: &[u8]| {
            disk.remove(NAME).unwrap();
            disk.append(NAME, bytes).unwrap();
        };
        assert_eq!(RankTable::load(&*disk).unwrap(), RankTable::default());
        let many: Vec<(u64, f32)> = (0..10_000).map(|i| (i * 7, 1.0 / (i + 1) as f32)).collect();
        let table = RankTable { pages: ranks(&many), hosts: ranks(&[(5, 1.0)]) };
        table.save(&disk).unwrap();
        assert_eq!(RankTable::load(&*disk).unwrap(), table);
        let mut bytes = read_whole(&*disk, NAME).unwrap().unwrap();
        bytes[50] ^= 1;
        replace(&bytes);
        assert!(matches!(RankTable::load(&*disk), Err(Error::Damaged { .. })));
        bytes[8] = 9;
        replace(&bytes);
        assert!(matches!(RankTable::load(&*disk), Err(Error::Format { found: 9, .. })));
    }

    #[test]
    fn a_new_job_starts_from_old_ranks() {
        let old = ranks(&[(2, 0.2), (4, 0.8)]);
        assert_eq!(old.start_for(&Ids::from_sorted(vec![1, 2, 3, 4, 5])), [0.5, 0.2, 0.5, 0.8, 0.5]);
        assert_eq!(Ranks::default().start_for(&Ids::from_sorted(vec![1, 2])), [1.0, 1.0]);
    }
}
