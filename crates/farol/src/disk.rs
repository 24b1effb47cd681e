//! The disk: folders on it, and room.

use anyhow::{Context, Result};
use farol_base::disk::{Disk, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Rest between two tries while the disk is full.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// A folder as the stores see it, made where it does not exist.
pub fn at(path: &Path) -> Result<Arc<dyn Disk>> {
    let disk = File::at(path)
        .with_context(|| format!("cannot open the folder {}; check who owns it", path.display()))?;
    Ok(Arc::new(disk))
}

/// Bytes that may still be written where this path lies; `None` where the system does not say.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What hears of a full disk, and answers whether to wait for room.
pub type OnFullDisk = Box<dyn Fn(&str) -> bool + Send>;

/// Does work that needs room on the disk, again and again until there is room: nothing that was fetched is
/// lost.
///
/// While the disk is full, `tell` hears about once a second that there is no room for `what`, and answers
/// whether to wait on; where not, and for other errors, the error is returned at once.
pub fn until_room<T>(
    what: &str,
    tell: impl Fn(&str) -> bool,
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    loop {
        match work() {
            Err(error)
                if is_full(&error)
                    && tell(&format!("no room for {what}: {error:#}; make room and crawling goes on")) =>
            {
                std::thread::sleep(RETRY_EVERY);
            }
            result => return result,
        }
    }
}

/// Whether room on the disk would help.
pub fn is_full(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| {
        matches!(io.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::io::{Error, ErrorKind};

    #[test]
    fn work_is_done_once_there_is_room() {
        let (told, mut tries) = (RefCell::new(Vec::new()), 0);
        let done = until_room(
            "pages",
            |message| {
                told.borrow_mut().push(message.to_string());
                true
            },
            || {
                tries += 1;
                match tries {
                    1 => Err(Error::from(ErrorKind::StorageFull)).context("cannot write"),
                    _ => Ok(tries),
                }
            },
        );
        assert_eq!(done.unwrap(), 2);
        let told = told.into_inner();
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("no room for pages: cannot write"), "{told:?}");
        assert!(told[0].ends_with("make room and crawling goes on"), "{told:?}");
    }

    #[test]
    fn whoever_must_stop_does_not_wait_for_room() {
        let full = || -> Result<()> { Err(Error::from(ErrorKind::StorageFull).into()) };
        assert!(is_full(&until_room("pages", |_| false, full).unwrap_err()));
    }

    #[test]
    fn other_errors_are_not_waited_for() {
        let denied = || -> Result<()> { Err(Error::from(ErrorKind::PermissionDenied).into()) };
        assert!(until_room("pages", |message| panic!("{message}"), denied).is_err());
    }
}
