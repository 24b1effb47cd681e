//! URLs that agents send each other, as they travel.
//!
//! FROZEN as `wire::v1` is. Nothing here is believed: addresses are parsed again, and counts are bounded.

use super::WireError;
use serde::{Deserialize, Serialize};

/// URLs of one batch, and hosts of it, at most.
pub const URLS_MAX: usize = 1_000;

/// What a batch carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlBody {
    pub hosts: Vec<WireHost>,
    /// Hosts, by their hash, of which the receiver had sent URLs, and whose they are.
    pub learned: Vec<(u64, u16)>,
}

/// URLs of one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireHost {
    /// Such as `http://a.org:81`.
    pub host: String,
    /// How many agents have passed these on.
    pub hops: u8,
    pub urls: Vec<WireFound>,
}

/// What follows the host, links from the nearest seed, and when a sitemap says that it changed (milliseconds).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFound {
    pub path: String,
    pub depth: u16,
    pub hint: Option<u64>,
}

impl UrlBody {
    /// Refuses what no agent of ours would send.
    pub fn check(&self) -> Result<(), WireError> {
        let urls: usize = self.hosts.iter().map(|host| host.urls.len()).sum();
        if urls > URLS_MAX || self.hosts.len() > URLS_MAX || self.learned.len() > URLS_MAX {
            return Err(WireError::Damaged(format!(
                "it has {urls} URLs of {} hosts, and no batch has more than {URLS_MAX}",
                self.hosts.len()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::pack;
    use super::*;

    #[test]
    fn the_first_version_is_frozen() {
        let found = WireFound { path: "/a".into(), depth: 4, hint: Some(9) };
        let host = WireHost { host: "http://h".into(), hops: 1, urls: vec![found] };
        let body = UrlBody { hosts: vec![host], learned: vec![(5, 6)] };
        assert_eq!(
            postcard::to_stdvec(&body).unwrap(),
            b"\x01\x08http://h\x01\x01\x02/a\x04\x01\x09\x01\x05\x06"
        );
        assert!(pack(&body).is_ok());
    }

    #[test]
    fn a_batch_with_more_urls_than_any_agent_sends_is_refused() {
        let found = WireFound { path: "/a".into(), depth: 0, hint: None };
        let host = |urls| WireHost { host: "http://h".into(), hops: 0, urls: vec![found.clone(); urls] };
        let body = |urls: &[usize]| UrlBody {
            hosts: urls.iter().map(|urls| host(*urls)).collect(),
            learned: Vec::new(),
        };
        assert_eq!(body(&[400, 600]).check(), Ok(()));
        let refused = body(&[400, 601]).check().unwrap_err().to_string();
        assert!(refused.contains("1001 URLs of 2 hosts"), "{refused}");
        assert!(body(&vec![0; URLS_MAX + 1]).check().is_err());
    }
}
