//! The data folder: what lies where, who may use it, and which format it has.
//!
//! ```text
//! farol-data/
//!   FAROL          format of the folder, one line of text
//!   lock           held by the process that writes here
//!   running.json   where that process listens
//!   admin.key      the admin token, where the settings name none
//!   farol.toml     settings, if the operator keeps them here
//!   node.id        who this is in a cluster, if it is a node of one
//!   member.json    what a node must find again after a restart
//!   pages/         WARC files: the log from which all the rest can be rebuilt
//!   urls/          every known URL
//!   federation/    the key by which other engines know this one, and packets for them
//!   links/         link graph and ranks
//!   index/         the searchable shard
//!   tables.redb    hosts and their robots.txt, orders of the operator, clicks, watermarks
//! ```
//! The folder is made for its owner only (mode 0700): it may hold pages of an intranet.

use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Format of a folder that begins.
const FORMAT: u32 = 1;
/// Format of a folder whose archive has pages of other engines, which earlier versions would take for damage.
const FORMAT_WITH_RECEIVED: u32 = 2;
/// What stands before the number of the format.
const MARKER: &str = "farol data folder, format ";
/// Room for the longest address; always written whole.
const OVERWRITTEN_BYTES: usize = 128;

/// A data folder that may be read.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// The right to write to a data folder; given back when dropped.
pub struct FolderLock {
    _lock: File,
    running: PathBuf,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Nobody listens any more; what stays behind is overwritten by the next run.
        let _ = overwrite(&self.running, "{}");
    }
}

impl Folder {
    /// Opens a folder that must exist.
    pub fn open(path: &Path) -> Result<Folder> {
        let folder = Folder { path: path.to_path_buf() };
        if !folder.marker().exists() {
            folder.refuse_unmarked()?;
            bail!(
                "{} is not a Farol data folder; name one with --data, or run `farol up URL` to begin one",
                path.display()
            );
        }
        folder.check_format()?;
        Ok(folder)
    }

    /// Opens a folder, making it where it does not exist yet.
    pub fn open_or_create(path: &Path) -> Result<Folder> {
        let folder = Folder { path: path.to_path_buf() };
        // An empty marker and nothing else: the disk was full when the folder was begun.
        let is_begun = std::fs::metadata(folder.marker()).is_ok_and(|marker| marker.len() > 0);
        if is_begun || (folder.marker().exists() && folder.has_our_files()) {
            folder.check_format()?;
            return Ok(folder);
        }
        folder.refuse_unmarked()?;
        let mut private = std::fs::DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(path).with_context(|| {
            format!("cannot make the data folder {}; choose another with --data", path.display())
        })?;
        let mut entries = std::fs::read_dir(path).with_context(|| {
            format!("cannot read the folder {}; choose another with --data", path.display())
        })?;
        // Settings and certificates may have been put there first; anything else belongs to somebody.
        let foreign = entries.find_map(|entry| {
            let name = entry.ok()?.file_name();
            let known = ["farol.toml", "lock", "FAROL", "node.id", "ca.pem", "node.pem", "node.key"];
            (!known.iter().any(|known| name == *known)).then_some(name)
        });
        if let Some(name) = foreign {
            bail!(
                "{} holds files that are not Farol's (such as {:?}); name an empty or new folder with --data",
                path.display(),
                name
            );
        }
        folder.write_marker()?;
        Ok(folder)
    }

    /// Opens a folder whose marker is lost or damaged, and writes it again, where the folder is ours by what is in it.
    pub fn open_and_mend(path: &Path) -> Result<(Folder, bool)> {
        let folder = Folder { path: path.to_path_buf() };
        let text = std::fs::read(folder.marker()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if !folder.has_our_files() || format_of(&text).is_some() {
            return Ok((Folder::open(path)?, false));
        }
        folder.write_marker()?;
        Ok((folder, true))
    }

    fn write_marker(&self) -> Result<()> {
        // Where the marker was lost nobody knows which it was: a later one keeps out who could not read the archive.
        let format = if self.path.join("federation").is_dir() { FORMAT_WITH_RECEIVED } else { FORMAT };
        std::fs::write(self.marker(), format!("{MARKER}{format}\n")).with_context(|| {
            format!(
                "cannot write to {}; make room, or choose another folder with --data",
                self.path.display()
            )
        })
    }

    fn has_our_files(&self) -> bool {
        self.pages().is_dir() && self.tables().is_file()
    }

    /// A folder that is ours by all but its marker has lost it.
    fn refuse_unmarked(&self) -> Result<()> {
        anyhow::ensure!(
            !self.has_our_files(),
            "{} is missing; run `farol check --repair` to have it written again",
            self.marker().display()
        );
        Ok(())
    }

    /// The folder's mode, where others on this machine may look into it.
    pub fn is_open_to_others(&self) -> Option<u32> {
        let mode = std::fs::metadata(&self.path).ok()?.permissions().mode() & 0o777;
        (mode & 0o077 != 0).then_some(mode)
    }

    /// Takes the right to write; fails at once when another process has it.
    pub fn lock(&self) -> Result<FolderLock> {
        let path = self.path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot write to {}; check who owns the folder", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(FolderLock { _lock: lock, running: self.running() }),
            Err(TryLockError::WouldBlock) => bail!(
                "another Farol is using {}{}; stop it first, or name another folder with --data",
                self.path.display(),
                self.listening().map_or(String::new(), |at| format!(" (it answers at http://{at})"))
            ),
            Err(TryLockError::Error(error)) => Err(error).context("cannot lock the data folder"),
        }
    }

    /// Tells other processes where this one listens.
    pub fn announce(&self, listen: std::net::SocketAddr) -> Result<()> {
        overwrite(&self.running(), &serde_json::json!({ "listen": listen.to_string() }).to_string())
            .context("cannot write to the data folder")
    }

    /// Where the process that holds the folder listens, if one says so.
    pub fn listening(&self) -> Option<std::net::SocketAddr> {
        let text = std::fs::read_to_string(self.running()).ok()?;
        let json: serde_json::Value = serde_json::from_str(&text).ok()?;
        json.get("listen")?.as_str()?.parse().ok()
    }

    /// Whether a process holds the folder now.
    pub fn is_locked(&self) -> bool {
        let lock = File::open(self.path.join("lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn pages(&self) -> PathBuf {
        self.path.join("pages")
    }

    pub fn urls(&self) -> PathBuf {
        self.path.join("urls")
    }

    pub fn links(&self) -> PathBuf {
        self.path.join("links")
    }

    /// Links of a whole cluster, on the node that ranks.
    pub fn rank(&self) -> PathBuf {
        self.path.join("rank")
    }

    /// What dead agents of a cluster had, while it is brought to others.
    pub fn estates(&self) -> PathBuf {
        self.path.join("estates")
    }

    /// What other agents of a cluster are to get.
    pub fn outbox(&self) -> PathBuf {
        self.path.join("outbox")
    }

    pub fn index(&self) -> PathBuf {
        self.path.join("index")
    }

    pub fn tables(&self) -> PathBuf {
        self.path.join("tables.redb")
    }

    fn running(&self) -> PathBuf {
        self.path.join("running.json")
    }

    fn marker(&self) -> PathBuf {
        self.path.join("FAROL")
    }

    fn check_format(&self) -> Result<()> {
        let text = std::fs::read(self.marker())
            .with_context(|| format!("cannot read {}", self.marker().display()))?;
        let text = String::from_utf8_lossy(&text);
        match format_of(&text) {
            Some(FORMAT | FORMAT_WITH_RECEIVED) => Ok(()),
            Some(other) if other > FORMAT_WITH_RECEIVED => bail!(
                "{} was written by a newer Farol (format {other}, this one reads {FORMAT_WITH_RECEIVED}); use that version",
                self.path.display()
            ),
            Some(other) => bail!(
                "{} has the older format {other} (this version reads {FORMAT} and later); crawl anew into another folder, or \
                 bring its pages over with `farol import {}/pages/*.warc.gz --data NEW`",
                self.path.display(),
                self.path.display()
            ),
            None => bail!(
                "{} is damaged; run `farol check --repair` to have it written again",
                self.marker().display()
            ),
        }
    }
}

/// Notes that the archive of this folder is to have pages of other engines, before the first one is written.
pub fn grow_format(path: &Path) -> Result<()> {
    let marker = path.join("FAROL");
    let text = std::fs::read(&marker).unwrap_or_default();
    if format_of(&String::from_utf8_lossy(&text)).is_some_and(|format| format >= FORMAT_WITH_RECEIVED) {
        return Ok(());
    }
    let write = || -> std::io::Result<()> {
        let new = path.join("FAROL.new");
        let mut file = File::create(&new)?;
        file.write_all(format!("{MARKER}{FORMAT_WITH_RECEIVED}\n").as_bytes())?;
        file.sync_all()?;
        std::fs::rename(new, &marker)?;
        File::open(path)?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", marker.display()))
}

/// What the marker says: its text with the number of the format.
fn format_of(text: &str) -> Option<u32> {
    text.trim_end().strip_prefix(MARKER)?.parse().ok()
}

/// Writes a short text over what a file had. Unlike a new file that needs no room on the disk.
fn overwrite(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    file.write_all(format!("{text:<OVERWRITTEN_BYTES$}").as_bytes())?;
    file.set_len(OVERWRITTEN_BYTES.max(text.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_begun_on_a_full_disk_is_begun_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("FAROL"), "").unwrap();
        Folder::open_or_create(dir.path()).unwrap();
        Folder::open(dir.path()).unwrap();
    }

    #[test]
    fn a_folder_is_made_once_and_locked_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        assert!(format!("{:#}", Folder::open(&path).unwrap_err()).contains("farol up URL"));
        let folder = Folder::open_or_create(&path).unwrap();
        assert!(!folder.is_locked());
        let lock = folder.lock().unwrap();
        folder.announce("127.0.0.1:9".parse().unwrap()).unwrap();
        assert!(folder.is_locked());
        let error = format!("{:#}", Folder::open(&path).unwrap().lock().err().unwrap());
        assert!(error.contains("another Farol") && error.contains("127.0.0.1:9"), "{error}");
        drop(lock);
        assert!(!folder.is_locked() && folder.listening().is_none());
        folder.lock().unwrap();
        assert_eq!(folder.is_open_to_others(), None);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(folder.is_open_to_others(), Some(0o755));
    }

    #[test]
    fn a_lost_or_damaged_marker_is_told_and_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(dir.path()).unwrap();
        std::fs::create_dir(folder.pages()).unwrap();
        std::fs::write(folder.tables(), "").unwrap();
        for text in
            [None, Some(""), Some("farol data folder, formax 1\n"), Some("farol data folder, format q\n")]
        {
            std::fs::remove_file(folder.marker()).unwrap();
            if let Some(text) = text {
                std::fs::write(folder.marker(), text).unwrap();
            }
            for open in [Folder::open, Folder::open_or_create] {
                let error = format!("{:#}", open(dir.path()).unwrap_err());
                assert!(error.contains("farol check --repair"), "{text:?}: {error}");
            }
            assert!(Folder::open_and_mend(dir.path()).unwrap().1);
            assert!(!Folder::open_and_mend(dir.path()).unwrap().1);
            Folder::open(dir.path()).unwrap();
        }
    }

    #[test]
    fn the_format_grows_with_the_first_received_page_and_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        Folder::open_or_create(&path).unwrap();
        let format = || std::fs::read_to_string(path.join("FAROL")).unwrap();
        assert_eq!(format(), "farol data folder, format 1\n");
        for _ in 0..2 {
            grow_format(&path).unwrap();
            assert_eq!(format(), "farol data folder, format 2\n");
            Folder::open(&path).unwrap();
            Folder::open_or_create(&path).unwrap();
        }
    }

    #[test]
    fn foreign_and_future_folders_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.doc"), "dear").unwrap();
        let error = format!("{:#}", Folder::open_or_create(dir.path()).unwrap_err());
        assert!(error.contains("thesis.doc") && error.contains("--data"), "{error}");
        for (format, want) in [("7", "newer"), ("0", "older"), ("x", "damaged")] {
            std::fs::write(dir.path().join("FAROL"), format!("farol data folder, format {format}\n"))
                .unwrap();
            let error = format!("{:#}", Folder::open(dir.path()).unwrap_err());
            assert!(error.contains(want), "{error}");
        }
    }
}
