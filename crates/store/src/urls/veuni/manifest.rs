//! Which files make up the store, in one small text file that is replaced whole.
//!
//! ```text
//! farol-urls 2
//! next 7
//! block 0 3 0000000000000000 file
//! block 6 0 8000000000000000 file
//! crc 071f38f2
//! ```
//! Per bucket: number, generation, first hash, and whether it has a file yet; `rebuild` after that says that
//! it was emptied and is not filled again yet. Buckets are in the order of their hashes.

use crate::Error;
use farol_base::HostHash;
use farol_base::disk::Disk;
use std::fmt::Write;

pub const FILE: &str = "blocks";
pub const NEW_FILE: &str = "blocks.new";
/// A store of version 2 may have records of other stores in its log and its runs, and senders' numbers in its log, which
/// an older Farol cannot read. A list of version 1 is read, and written anew at once.
const VERSION: u32 = 2;
const VERSION_BEFORE: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    pub number: u32,
    pub generation: u64,
    pub from: HostHash,
    pub has_file: bool,
    /// It was emptied because it was damaged, and is not whole again yet.
    pub rebuilding: bool,
}

/// Reads the list and the next free number.
///
/// A store that is just beginning is one empty bucket, and is listed at once: where there are files of a store but no
/// list, the list was lost.
pub fn open(disk: &dyn Disk) -> Result<(Vec<ManifestEntry>, u32), Error> {
    if let Some((version, listed, next)) = read(disk)? {
        if version != VERSION {
            write(disk, &listed, next)?;
        }
        return Ok((listed, next));
    }
    let names = disk.list().map_err(Error::io("list", "the folder of the URL store"))?;
    if names.iter().any(|name| is_listed(name) || name.starts_with("log-")) {
        return Err(damaged("it is missing, and only it tells which files make up the store"));
    }
    let first =
        ManifestEntry { number: 0, generation: 0, from: HostHash(0), has_file: false, rebuilding: false };
    write(disk, std::slice::from_ref(&first), 1)?;
    Ok((vec![first], 1))
}

/// Whether a file is one of those that the list is about.
pub fn is_listed(name: &str) -> bool {
    name.starts_with("block-") || name.starts_with("pending-")
}

/// Removes all files of a store. The list goes first: without it what is left is damage, not a store.
pub fn remove_all(disk: &dyn Disk) -> Result<(), Error> {
    disk.remove(FILE).map_err(Error::io("remove", FILE))?;
    for name in disk.list().map_err(Error::io("list", "the folder of the URL store"))? {
        if is_listed(&name) || name.starts_with("log-") || name == NEW_FILE {
            disk.remove(&name).map_err(Error::io("remove", &name))?;
        }
    }
    Ok(())
}

fn damaged(what: &str) -> Error {
    Error::Damaged { file: FILE.to_string(), offset: 0, what: what.to_string() }
}

/// Version, buckets, next free number.
type Listed = (u32, Vec<ManifestEntry>, u32);

fn read(disk: &dyn Disk) -> Result<Option<Listed>, Error> {
    let Some(len) = disk.len(FILE).map_err(Error::io("look at", FILE))? else { return Ok(None) };
    let mut bytes = vec![0; len as usize];
    disk.read_at(FILE, 0, &mut bytes).map_err(Error::io("read", FILE))?;
    let text = String::from_utf8_lossy(&bytes);
    let body = checked(&text).ok_or_else(|| damaged("the list of buckets does not fit its checksum"))?;
    // The checksum first: a flipped bit is damage, not another version.
    if let Some(version) = body.strip_prefix("farol-urls ").and_then(|rest| rest.lines().next()?.parse().ok())
        && !(VERSION_BEFORE..=VERSION).contains(&version)
    {
        return Err(Error::Version { file: FILE.to_string(), found: version, known: VERSION });
    }
    parse(body).map(Some).ok_or_else(|| damaged("the list of buckets makes no sense"))
}

/// The list without its checksum, where that fits.
fn checked(text: &str) -> Option<&str> {
    let (body, crc) = text.strip_suffix('\n')?.rsplit_once("crc ")?;
    (u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(body.as_bytes())).then_some(body)
}

fn parse(body: &str) -> Option<Listed> {
    let mut lines = body.lines();
    let first = lines.next()?;
    let version = (VERSION_BEFORE..=VERSION).find(|version| first == format!("farol-urls {version}"))?;
    let next = lines.next()?.strip_prefix("next ")?.parse().ok()?;
    let buckets: Option<Vec<ManifestEntry>> = lines
        .map(|line| {
            let mut words = line.split(' ');
            words.next().filter(|word| *word == "block")?;
            Some(ManifestEntry {
                number: words.next()?.parse().ok()?,
                generation: words.next()?.parse().ok()?,
                from: HostHash(u64::from_str_radix(words.next()?, 16).ok()?),
                has_file: words.next()? == "file",
                rebuilding: words.next() == Some("rebuild"),
            })
        })
        .collect();
    let buckets = buckets?;
    let fits = buckets.first()?.from.0 == 0 && buckets.windows(2).all(|pair| pair[0].from < pair[1].from);
    fits.then_some((version, buckets, next))
}

/// The list as it is written.
pub fn text(buckets: &[ManifestEntry], next: u32) -> String {
    let mut text = format!("farol-urls {VERSION}\nnext {next}\n");
    for ManifestEntry { number, generation, from: HostHash(from), has_file, rebuilding } in buckets {
        let file = if *has_file { "file" } else { "-" };
        let rebuild = if *rebuilding { " rebuild" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "block {number} {generation} {from:016x} {file}{rebuild}");
    }
    let crc = crc32fast::hash(text.as_bytes());
    let _ = writeln!(text, "crc {crc:08x}");
    text
}

/// Replaces the list; it survives a power cut once this returns.
pub fn write(disk: &dyn Disk, buckets: &[ManifestEntry], next: u32) -> Result<(), Error> {
    let text = text(buckets, next);
    disk.remove(NEW_FILE).map_err(Error::io("remove", NEW_FILE))?;
    disk.append(NEW_FILE, text.as_bytes()).map_err(Error::io("write", NEW_FILE))?;
    disk.sync(NEW_FILE).map_err(Error::io("sync", NEW_FILE))?;
    disk.rename(NEW_FILE, FILE).map_err(Error::io("replace", FILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::disk::Mem;

    #[test]
    fn the_list_comes_back_and_any_flipped_bit_shows() {
        let mem = Mem::new();
        let listed = |number, generation, from| ManifestEntry {
            number,
            generation,
            from,
            has_file: number == 0,
            rebuilding: number == 6,
        };
        let buckets = vec![listed(0, 3, HostHash(0)), listed(6, 0, HostHash(1 << 63))];
        write(&mem, &buckets, 7).unwrap();
        assert_eq!(open(&mem).unwrap(), (buckets, 7));
        let mut bytes = vec![0; mem.len(FILE).unwrap().unwrap() as usize];
        mem.read_at(FILE, 0, &mut bytes).unwrap();
        for at in 0..bytes.len() {
            let bad = Mem::new();
            let mut other = bytes.clone();
            other[at] ^= 4;
            bad.append(FILE, &other).unwrap();
            assert!(matches!(open(&bad), Err(Error::Damaged { .. })), "byte {at}");
        }
    }

    #[test]
    fn a_list_of_version_1_is_read_and_written_anew_and_a_later_one_refused() {
        let sealed = |body: &str| format!("{body}crc {:08x}\n", crc32fast::hash(body.as_bytes()));
        let list = |version: u32| {
            sealed(&format!("farol-urls {version}\nnext 7\nblock 0 3 0000000000000000 file\n"))
        };
        let mem = Mem::new();
        mem.append(FILE, list(1).as_bytes()).unwrap();
        let listed = open(&mem).unwrap();
        assert_eq!((listed.0.len(), listed.1), (1, 7));
        let mut bytes = vec![0; mem.len(FILE).unwrap().unwrap() as usize];
        mem.read_at(FILE, 0, &mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), list(2));
        assert_eq!(open(&mem).unwrap(), listed);
        let later = Mem::new();
        later.append(FILE, list(3).as_bytes()).unwrap();
        assert!(matches!(open(&later), Err(Error::Version { found: 3, known: 2, .. })));
    }

    #[test]
    fn a_list_that_is_missing_is_damage_unless_there_is_nothing_else() {
        let mem = Mem::new();
        assert_eq!(open(&mem).unwrap().1, 1);
        for other in ["block-000000-00000001", "pending-000000-00000000", "log-000000000001"] {
            let lost = Mem::new();
            lost.append(other, b"x").unwrap();
            let error = open(&lost).unwrap_err().to_string();
            assert!(error.starts_with("blocks is damaged at byte 0: it is missing"), "{error}");
            remove_all(&lost).unwrap();
            assert_eq!(open(&lost).unwrap().0.len(), 1);
        }
    }
}
