//! How much agents may tell.

use std::time::Duration;

/// Limits of what is remembered, whatever is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    pub agents_max: usize,
    /// 2 M hosts × (some 150 bytes + 12 a link) = 300 MB and the links'.
    pub hosts_max: usize,
    /// Of all hosts, those that one agent may have told of, as a multiple of an equal share.
    pub share_max: f64,
    /// Links that are kept of a host: the strongest. 4,096 × 12 bytes = 48 KiB. Weak links are what is cut: where many
    /// are left out, a plan promises more than it keeps.
    pub links_of_host_max: usize,
    /// Links of all hosts: 32 M × 12 bytes = 384 MB.
    pub links_max: usize,
    pub report_hosts_max: usize,
    pub report_links_max: usize,
    /// Hosts that an agent may tell of in a minute.
    pub hosts_per_minute_max: u32,
    pub name_bytes_max: usize,
    pub pages_max: u64,
    pub rtt_max: Duration,
    /// For so long a host stays with the agent that told of it last, as long as that one owns it.
    pub claim_after: Duration,
    /// What is older is forgotten.
    pub remembered: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            agents_max: 256,
            hosts_max: 2_000_000,
            share_max: 4.0,
            links_of_host_max: 4096,
            links_max: 32_000_000,
            report_hosts_max: 20_000,
            report_links_max: 500_000,
            hosts_per_minute_max: 400_000,
            name_bytes_max: 300,
            pages_max: 1 << 40,
            rtt_max: Duration::from_secs(60),
            claim_after: Duration::from_secs(24 * 3600),
            remembered: Duration::from_secs(30 * 24 * 3600),
        }
    }
}
