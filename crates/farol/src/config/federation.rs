//! Settings of an engine that shares the Web with engines of other owners.

use super::section::{self, Explained, Section, section};
use super::values::{ByteSize, Span};
use anyhow::{Result, bail};
use farol_federation::View;
use serde::{Deserialize, Serialize};

/// Whose proposals are accepted without asking the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AcceptKind {
    /// Nobody's.
    Ask,
    /// Those of engines whose keys the operator has confirmed.
    Known,
}

section! {
    /// Sharing the Web with engines of other owners: who crawls what, and pages instead of crawling.
    Federation {
        /// Take part. While it is off nothing listens, and nothing of it shows.
        enabled: bool = false,
        /// Address and port where other engines reach this one.
        listen: String = "127.0.0.1:8090".to_string(),
        /// How other engines reach it from where they are: `https://search.example.org:8090`; empty = `listen`.
        address: String = String::new(),
        /// Which pages this engine is about, as a view: `.pt and lang:pt`; empty = what it crawls.
        view: String = String::new(),
        /// Whose proposals are accepted at once: `ask` asks the operator each time, `known` accepts those of engines that the
        /// operator has joined.
        accept: AcceptKind = AcceptKind::Ask,
        /// How long a consumer trusts its provider without a word.
        lease: Span = Span::secs(30 * 60),
        /// So long after the lease of a silent provider its part is crawled by this engine again.
        takeback_after: Span = Span::hours(24),
        /// Hours in which pages are sent, in UTC: `02:00-05:00`; empty = at any time.
        window: String = String::new(),
        /// Longest wait until pages that are ready are sent.
        delay_max: Span = Span::secs(600),
        /// A packet of pages is closed when it has grown to this size, before compression.
        packet_max: ByteSize = ByteSize::mib(4),
        /// Bytes that wait on the disk for one partner; where there are so many, nothing more is packed for it until some of them
        /// were taken.
        outbox_max: ByteSize = ByteSize::mib(2048),
        /// Pages taken from one partner in a day at most.
        pages_per_day: u64 = 1_000_000,
        /// Bytes taken from one partner in a day at most.
        bytes_per_day: ByteSize = ByteSize::mib(4096),
        /// A proxy before `listen` has the certificate; engines then know each other by signatures alone.
        behind_proxy: bool = false,
    }
}

/// Windows of a day in minutes after midnight, from `02:00-05:00`.
pub fn read_window(text: &str) -> Option<(u16, u16)> {
    let minutes = |text: &str| {
        let (hours, minutes) = text.trim().split_once(':')?;
        let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
        (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
    };
    let (from, to) = text.trim_end_matches('Z').split_once('-')?;
    Some((minutes(from)?, minutes(to)?)).filter(|(from, to)| from != to)
}

impl Federation {
    /// Checks what types alone cannot.
    pub fn check(&self) -> Result<()> {
        if !self.view.is_empty()
            && let Err(error) = View::parse(&self.view)
        {
            bail!("federation.view cannot be read: {}", error.pointed());
        }
        if !self.window.is_empty() && read_window(&self.window).is_none() {
            bail!("federation.window is {:?}; write it as 02:00-05:00, in UTC", self.window);
        }
        if self.lease.get().as_secs() < 5 {
            bail!("federation.lease is {}, choose 5s or more; 30m is usual", self.lease);
        }
        if !(64 << 10..=16 << 20).contains(&self.packet_max.get()) {
            bail!("federation.packet_max is {}, choose 64KiB to 16MiB", self.packet_max);
        }
        if self.outbox_max.get() < self.packet_max.get() {
            bail!(
                "federation.outbox_max is {}, less than one packet of {}",
                self.outbox_max,
                self.packet_max
            );
        }
        let is_web = self.address.starts_with("https://") || self.address.starts_with("http://");
        if !self.address.is_empty() && !is_web {
            bail!("federation.address is {:?}; write it as https://HOST:PORT", self.address);
        }
        if self.behind_proxy && self.address.is_empty() {
            bail!("federation.behind_proxy needs federation.address, the proxy's: https://HOST");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn what_does_not_fit_together_is_told() {
        let refused = |toml: &str, want: &str| {
            let error = format!("{:#}", Config::parse(&format!("[federation]\n{toml}")).expect_err(toml));
            assert!(error.contains(want), "{toml:?} gave: {error}");
        };
        refused("view = 'lnag:pt'", "federation.view");
        refused("window = '25:00-3:00'", "02:00-05:00");
        refused("lease = '1s'", "5s or more");
        refused("packet_max = '1GiB'", "16MiB");
        refused("outbox_max = '1MiB'", "one packet");
        refused("address = 'example.org'", "https://HOST");
        refused("behind_proxy = true", "federation.address");
        refused("accept = 'all'", "ask");
        assert_eq!(read_window("02:00-05:30Z"), Some((120, 330)));
        assert_eq!(read_window("22:00-05:00"), Some((1320, 300)));
        assert_eq!(read_window("02:00-02:00"), None);
    }
}
