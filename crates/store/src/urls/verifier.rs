//! The least that a crawl in cycles asks of a store: which URLs are new, and what to collect next.
//!
//! Every [`UrlStore`] answers it. So can simpler structures that know nothing of leases, which makes it the
//! ground on which stores are compared.

use super::{Counts, Found, UrlStore, Visit};
use crate::Error;
use farol_base::{CanonicalUrl, Timestamp};

/// URLs that one host gives to a cycle.
const PER_HOST: usize = 1000;

/// Tells new URLs from known ones, and gives out what to collect.
pub trait Verifier: Send {
    /// Learns URLs, known or new.
    fn found(&mut self, found: &[Found]) -> Result<(), Error>;

    /// Records a visit; a URL that was not known becomes known.
    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error>;

    /// Takes URLs to collect now, each once: what was taken is not given again before it was visited.
    fn take(&mut self, limit: usize, now: Timestamp) -> Result<Vec<CanonicalUrl>, Error>;

    /// Ends a batch: what was written survives the end of the process.
    fn flush(&mut self) -> Result<(), Error>;

    /// Waits until all that was written is merged; [`counts`](Verifier::counts) is exact then.
    fn compact_all(&mut self) -> Result<(), Error>;

    fn counts(&self) -> Counts;
}

impl<S: UrlStore> Verifier for S {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        UrlStore::found(self, found)
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        UrlStore::visited(self, url, visit)
    }

    fn take(&mut self, limit: usize, now: Timestamp) -> Result<Vec<CanonicalUrl>, Error> {
        let mut taken = Vec::with_capacity(limit);
        while taken.len() < limit {
            let hosts = self.hosts_due(now, 64)?;
            if hosts.is_empty() && !self.wait()? {
                break;
            }
            for host in hosts {
                let drawn = self.draw(&host, PER_HOST.min(limit - taken.len()), now)?;
                taken.extend(drawn.urls.into_iter().map(|drawn| drawn.url));
                self.release_host(&host);
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> Result<(), Error> {
        UrlStore::flush(self)
    }

    fn compact_all(&mut self) -> Result<(), Error> {
        UrlStore::compact_all(self)
    }

    fn counts(&self) -> Counts {
        UrlStore::counts(self)
    }
}
