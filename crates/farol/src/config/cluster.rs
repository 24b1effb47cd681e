//! Settings of a node of a cluster.

use super::section::{self, Explained, Section, section};
use super::values::{ByteSize, Span};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

section! {
    /// A cluster of several machines, for `farol node` and `farol cluster`; `farol up` does without.
    Cluster {
        /// Name of the cluster: several may share the same NATS servers.
        name: String = "farol".to_string(),
        /// NATS servers, such as `nats://user:password@10.0.0.1:4222,10.0.0.2:4222`.
        join: String = String::new(),
        /// File with `USER:PASSWORD` for the NATS servers, or of a NATS account (`.creds`), so that no password stands in
        /// a command line.
        credentials: String = String::new(),
        /// Certificate of the cluster's authority, as `farol cluster certs` makes it. Required beyond loopback.
        tls_ca: String = String::new(),
        /// This node's certificate.
        tls_cert: String = String::new(),
        /// This node's key.
        tls_key: String = String::new(),
        /// Address and port where other nodes reach this one.
        listen_rpc: String = "127.0.0.1:7800".to_string(),
        /// Address and port where this node tells its numbers to Prometheus, whatever its roles are, at `/metrics`; a port
        /// alone is one of 127.0.0.1. Nobody is asked who he is there: keep it inside. Empty = nowhere.
        metrics: String = String::new(),
        /// Name of what fails together, such as a rack or a site: replicas of a shard go to different ones.
        zone: String = String::new(),
        /// Country where this node stands, two small letters as in `br`; empty where nobody says.
        country: String = String::new(),
        /// Where this node stands, as degrees north and east: `38.72,-9.14`; empty where nobody says.
        position: String = String::new(),
        /// Share of the hosts that this node gets where it crawls, compared with the others'.
        capacity: usize = 100,
        /// Copies that NATS keeps of each log and table; 0 = three where there are three servers or more, else one.
        copies: usize = 0,
        /// Folder that all nodes share, for snapshots of shards and ranks; empty = `blobs` beside the data folder.
        blobs: String = String::new(),
        /// Bytes of one shard's log that NATS keeps at most; crawling waits while it is full.
        log_max: ByteSize = ByteSize::mib(4096),
        /// Bytes that wait on an agent's disk for other agents at most; crawling waits while there are more.
        outbox_max: ByteSize = ByteSize::mib(2048),
        /// Time between two snapshots of a shard.
        snapshot_every: Span = Span::secs(600),
        /// Bytes that a shard's log brings between two snapshots at most: it keeps everything that is in none.
        snapshot_bytes: ByteSize = ByteSize::mib(1024),
        /// Time between two backups of an agent that crawls: what it has found since the last one is found again by others
        /// where it is lost for good. Needs `blobs`.
        backup_every: Span = Span::secs(300),
        /// Bytes that it fetches between two backups at most.
        backup_bytes: ByteSize = ByteSize::mib(64),
        /// How long hosts of a lost agent wait at most for what its backup holds.
        inherit_max: Span = Span::secs(600),
    }
}

impl Cluster {
    /// Checks what types alone cannot.
    pub fn check(&self) -> Result<()> {
        if !is_name(&self.name) {
            bail!("cluster.name is {:?}; use letters, digits and dashes, 32 at most", self.name);
        }
        let is_country = self.country.len() == 2 && self.country.bytes().all(|b| b.is_ascii_lowercase());
        if !self.country.is_empty() && !is_country {
            bail!("cluster.country is {:?}; use two small letters, such as pt", self.country);
        }
        if !self.position.is_empty() && position(&self.position).is_none() {
            bail!("cluster.position is {:?}; use degrees north and east, such as 38.72,-9.14", self.position);
        }
        if !(1..=6400).contains(&self.capacity) {
            bail!("cluster.capacity is {}, choose 1 to 6400; 100 is usual", self.capacity);
        }
        if self.outbox_max.get() < 1 << 20 {
            bail!("cluster.outbox_max is {}, less than a few batches; choose 64MiB or more", self.outbox_max);
        }
        if !matches!(self.copies, 0 | 1 | 3 | 5) {
            bail!(
                "cluster.copies is {}, choose 1, 3 or 5, or 0 to leave it to the servers' number",
                self.copies
            );
        }
        let files = [&self.tls_ca, &self.tls_cert, &self.tls_key];
        let named = files.iter().filter(|file| !file.is_empty()).count();
        if named != 0 && named != files.len() {
            bail!(
                "cluster.tls_ca, tls_cert and tls_key belong together: name all three, as `farol cluster certs` says"
            );
        }
        self.metrics_address()?;
        if self.log_max.get() < 1 << 20 {
            bail!("cluster.log_max is {}, less than a few batches; choose 64MiB or more", self.log_max);
        }
        Ok(())
    }
}

impl Cluster {
    /// Where this node tells its numbers, if anywhere.
    pub fn metrics_address(&self) -> Result<Option<SocketAddr>> {
        if self.metrics.is_empty() {
            return Ok(None);
        }
        let port = self.metrics.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
        let Some(address) = port.or_else(|| self.metrics.parse().ok()) else {
            bail!("cluster.metrics is {:?}; use ADDR:PORT or a port, such as 127.0.0.1:7801", self.metrics)
        };
        Ok(Some(address))
    }
}

/// Millionths of a degree north and east, of a position as it is written.
pub fn position(text: &str) -> Option<(i32, i32)> {
    let (north, east) = text.split_once(',')?;
    let place = farol_partition::Position::new(north.trim().parse().ok()?, east.trim().parse().ok()?)?;
    let fixed = |degrees: f64| (degrees * 1e6).round() as i32;
    Some((fixed(place.latitude()), fixed(place.longitude())))
}

/// Whether a text may be part of the names of streams and subjects.
pub fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn what_does_not_fit_together_is_told() {
        let refused = |toml: &str, want: &str| {
            let error = format!("{:#}", Config::parse(&format!("[cluster]\n{toml}")).expect_err(toml));
            assert!(error.contains(want), "{toml:?} gave: {error}");
        };
        refused("name = 'a.b'", "letters");
        refused("name = ''", "letters");
        refused("copies = 2", "1, 3 or 5");
        refused("country = 'PRT'", "two small letters");
        refused("position = '91,0'", "38.72,-9.14");
        refused("position = 'north'", "38.72,-9.14");
        assert_eq!(super::position("38.72, -9.14"), Some((38_720_000, -9_140_000)));
        refused("capacity = 0", "1 to 6400");
        refused("outbox_max = '1KiB'", "64MiB");
        refused("tls_ca = 'ca.pem'", "all three");
        refused("log_max = '1KiB'", "64MiB");
        refused("metrics = 'here'", "127.0.0.1:7801");
        let metrics =
            |text: &str| super::Cluster { metrics: text.into(), ..Default::default() }.metrics_address();
        assert_eq!(metrics("").unwrap(), None);
        assert_eq!(metrics("7801").unwrap(), Some("127.0.0.1:7801".parse().unwrap()));
        assert_eq!(metrics("10.0.0.5:80").unwrap(), Some("10.0.0.5:80".parse().unwrap()));
        Config::parse("[cluster]\nname = 'books-2'\ncopies = 3\njoin = 'nats://a:4222'").unwrap();
    }
}
