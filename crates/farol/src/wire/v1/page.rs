//! Bodies of the verbs by which an agent is asked about a page of its own, or told to fetch it again.

use serde::{Deserialize, Serialize};

/// Asks what is known of a page; the answer is a [`WirePage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainRequest {
    pub url: String,
}

/// Asks for pages to be fetched again; the answer is an `Option<Result<String, String>>`, `None` where their host is not
/// known there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefetchRequest {
    /// A page, or `PREFIX*`.
    pub pages: String,
    /// Nobody knows the host: note it all the same.
    pub anyhow: bool,
}

/// What an agent knows of a page: twin of the front's `PageDetail`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WirePage {
    pub url: String,
    /// Code and detail.
    pub verdict: (String, String),
    pub state: Option<String>,
    pub is_seed: bool,
    pub depth: Option<u16>,
    pub removed_by: Option<String>,
    pub out_of_scope: Option<String>,
    /// Whether robots.txt allows it, and the rule.
    pub robots: Option<(bool, Option<String>)>,
    pub host_state: Option<String>,
    pub host_wakes: Option<u64>,
    pub host_failures: u32,
    pub moved_to: Option<String>,
    pub is_indexed: bool,
    pub title: String,
    pub language: Option<String>,
    pub twins: Vec<String>,
    pub similar: Vec<String>,
    /// How many pages link to it, and some of them: address, text, nofollow.
    pub linked_from: (u64, Vec<(String, String, bool)>),
    /// When, status, what came of it, bytes.
    pub log: Vec<(u64, Option<u16>, String, u64)>,
    pub log_is_whole: bool,
    pub visits: u32,
    pub failures: u32,
    pub last_visit: Option<u64>,
    pub last_change: Option<u64>,
    pub due: Option<u64>,
    pub plan: WirePlan,
}

/// Why it is visited when it is; times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WirePlan {
    pub changes: f64,
    pub changes_per_day: f64,
    pub weight: f64,
    pub fresh: f64,
    pub worth: u64,
    pub price: u64,
    pub host_is_full: bool,
    pub interval: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_version_is_frozen() {
        let ask = ExplainRequest { url: "u".into() };
        assert_eq!(postcard::to_stdvec(&ask).unwrap(), b"\x01u");
        let again = RefetchRequest { pages: "p".into(), anyhow: true };
        assert_eq!(postcard::to_stdvec(&again).unwrap(), b"\x01p\x01");
        let plan = WirePlan { worth: 300, host_is_full: true, ..WirePlan::default() };
        let mut golden = vec![0; 32];
        golden.extend([0xac, 2, 0, 1, 0]);
        assert_eq!(postcard::to_stdvec(&plan).unwrap(), golden);
        let mut golden =
            b"\x01u\x01v\x01d\x01\x01s\x01\x01\x02\x00\x00\x01\x01\x01\x01r\x00\x01\x05\x03\x00\x01\x01t"
                .to_vec();
        golden.extend(b"\x01\x02en\x00\x00\x02\x01\x01l\x01x\x01\x01\x07\x01\xc8\x01\x01o\x04\x01\x06\x00\x01\x09\x00\x00");
        golden.extend([0; 36]);
        assert_eq!(postcard::to_stdvec(&page()).unwrap(), golden);
    }

    fn page() -> WirePage {
        WirePage {
            url: "u".into(),
            verdict: ("v".into(), "d".into()),
            state: Some("s".into()),
            is_seed: true,
            depth: Some(2),
            removed_by: None,
            out_of_scope: None,
            robots: Some((true, Some("r".into()))),
            host_state: None,
            host_wakes: Some(5),
            host_failures: 3,
            moved_to: None,
            is_indexed: true,
            title: "t".into(),
            language: Some("en".into()),
            twins: vec![],
            similar: vec![],
            linked_from: (2, vec![("l".into(), "x".into(), true)]),
            log: vec![(7, Some(200), "o".into(), 4)],
            log_is_whole: true,
            visits: 6,
            failures: 0,
            last_visit: Some(9),
            last_change: None,
            due: None,
            plan: WirePlan::default(),
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = postcard::from_bytes::<WirePage>(&bytes);
            let _ = postcard::from_bytes::<ExplainRequest>(&bytes);
            let _ = postcard::from_bytes::<RefetchRequest>(&bytes);
        }
    }
}
