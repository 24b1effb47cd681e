//! Bodies of the verbs that concern a node, its archive and its pages.

use super::super::WireError;
use super::super::values::{WireDocument, WirePosition, read_url};
use bytes::Bytes;
use farol_base::{CanonicalUrl, Timestamp};
use farol_store::pages::Exchange;
use serde::{Deserialize, Serialize};

/// How a node is. The request is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Its program.
    pub program: String,
    /// Its number in the cluster, if it has one.
    pub number: Option<u16>,
    /// It is about to leave.
    pub draining: bool,
    /// Version of the shard map that it knows; 0 for none.
    pub map: u64,
    /// Shards that can be searched there.
    pub shards: Vec<u32>,
    /// What is wrong with it; empty while all is well.
    pub trouble: Vec<String>,
}

/// Asks a sender to fill a log again. The answer is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resend {
    /// Name of the log.
    pub topic: String,
    /// From here in the sender's archive on.
    pub from: WirePosition,
}

/// Asks for a page as it was fetched; the answer is an `Option<WireCopy>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRequest {
    /// Which page: what another agent has at the same position is another page.
    pub url: String,
    /// Where it is in the archive.
    pub position: WirePosition,
}

/// Twin of those parts of an [`Exchange`] that people are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCopy {
    pub url: String,
    pub fetched: u64,
    pub status: u16,
    #[serde(with = "bytes_of")]
    pub response_head: Vec<u8>,
    #[serde(with = "bytes_of")]
    pub body: Vec<u8>,
}

/// The shard that is asked, as the asker knows it. A node that has it under another version of the map may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardHead {
    pub map: u64,
    pub shard: u32,
}

/// Asks for a page as it is indexed; the answer is an `Option<WireDocument>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRequest {
    pub head: ShardHead,
    pub url: String,
}

/// Asks for other pages with the text of this one; the answer is a `Vec<String>` of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwinsRequest {
    pub head: ShardHead,
    /// The page itself: its shard is another one, mostly.
    pub page: WireDocument,
    pub limit: u32,
}

/// Asks how many pages of a host there are; the answer is a `u64`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPagesRequest {
    pub head: ShardHead,
    pub host: String,
}

/// Asks for completions; the answer is a `Vec<WireCompletion>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuggestRequest {
    pub head: ShardHead,
    pub prefix: String,
    pub count: u32,
}

/// What somebody may be typing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCompletion {
    pub text: String,
    /// 0 where it continues everything typed, more where it continues the last words alone.
    pub tail: u8,
    /// How much speaks for it in the shard.
    pub weight: u64,
}

impl From<&Exchange> for WireCopy {
    fn from(exchange: &Exchange) -> WireCopy {
        WireCopy {
            url: exchange.url.to_string(),
            fetched: exchange.fetched.as_millis(),
            status: exchange.status,
            response_head: exchange.response_head.clone(),
            body: exchange.body.to_vec(),
        }
    }
}

impl WireCopy {
    /// The exchange, without what is not shown of it. Refused where it is not the page that was asked for.
    pub fn read(self, wanted: &CanonicalUrl) -> Result<Exchange, WireError> {
        let url = read_url(&self.url)?;
        if url != *wanted {
            return Err(WireError::Damaged(format!("{url} is not the page that was asked for")));
        }
        Ok(Exchange {
            url,
            fetched: Timestamp::from_millis(self.fetched),
            address: None,
            status: self.status,
            request_head: Vec::new(),
            response_head: self.response_head,
            body: Bytes::from(self.body),
            truncated: None,
            protocol: String::new(),
            revisit_of: None,
            metadata: Vec::new(),
        })
    }
}

/// Bytes as one run: serde writes a `Vec<u8>` as a list of numbers, one call each. The encoding is the same.
pub mod bytes_of {
    use serde::de::{SeqAccess, Visitor};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Vec<u8>;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<u8>, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = items.next_element()? {
                    bytes.push(byte);
                }
                Ok(bytes)
            }
        }
        from.deserialize_bytes(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::values::WireShown;
    use super::*;
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    fn frozen<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, golden: &[u8]) {
        assert_eq!(postcard::to_stdvec(value).unwrap(), golden, "{value:?}");
        assert_eq!(&postcard::from_bytes::<T>(golden).unwrap(), value);
    }

    #[test]
    fn the_first_version_is_frozen() {
        let head = ShardHead { map: 300, shard: 2 };
        frozen(
            &Health {
                program: "p".into(),
                number: Some(3),
                draining: true,
                map: 1,
                shards: vec![0, 2],
                trouble: vec!["t".into()],
            },
            b"\x01p\x01\x03\x01\x01\x02\x00\x02\x01\x01t",
        );
        frozen(&Resend { topic: "links".into(), from: (1, 300) }, b"\x05links\x01\xac\x02");
        frozen(&CopyRequest { url: "u".into(), position: (0, 7) }, b"\x01u\x00\x07");
        frozen(
            &WireCopy {
                url: "u".into(),
                fetched: 1,
                status: 200,
                response_head: b"h".to_vec(),
                body: vec![0, 255],
            },
            b"\x01u\x01\xc8\x01\x01h\x02\x00\xff",
        );
        frozen(&DocumentRequest { head, url: "u".into() }, b"\xac\x02\x02\x01u");
        frozen(&HostPagesRequest { head, host: "h".into() }, b"\xac\x02\x02\x01h");
        frozen(&SuggestRequest { head, prefix: "p".into(), count: 9 }, b"\xac\x02\x02\x01p\x09");
        frozen(&WireCompletion { text: "t".into(), tail: 1, weight: 300 }, b"\x01t\x01\xac\x02");
        let twins = TwinsRequest { head, page: document(), limit: 3 };
        frozen(
            &twins,
            b"\xac\x02\x02\x01u\x01t\x01h\x01b\x01r\x01d\x01a\x01\x02en\x04html\x01\x01\x02\x03\x04\x05\x06\x02\x01l\x00\x03",
        );
    }

    fn document() -> WireDocument {
        WireDocument {
            url: "u".into(),
            title: "t".into(),
            headings: "h".into(),
            body: "b".into(),
            rest: "r".into(),
            description: "d".into(),
            anchors: "a".into(),
            language: Some("en".into()),
            file_type: "html".into(),
            fetched: 1,
            dated: Some(2),
            content_hash: 3,
            simhash: 4,
            position: (5, 6),
            shown: WireShown::Lead("l".into()),
            source: None,
        }
    }

    #[test]
    fn another_page_is_no_copy() {
        let url = CanonicalUrl::parse("http://a/").unwrap();
        let copy = |url: &str| WireCopy {
            url: url.into(),
            fetched: 1,
            status: 200,
            response_head: vec![],
            body: vec![],
        };
        assert_eq!(copy("http://a/").read(&url).unwrap().url, url);
        assert!(copy("http://b/").read(&url).is_err());
        assert!(copy("nonsense").read(&url).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = postcard::from_bytes::<Health>(&bytes);
            let _ = postcard::from_bytes::<Resend>(&bytes);
            let _ = postcard::from_bytes::<CopyRequest>(&bytes);
            let _ = postcard::from_bytes::<Option<WireCopy>>(&bytes);
            let _ = postcard::from_bytes::<DocumentRequest>(&bytes);
            let _ = postcard::from_bytes::<TwinsRequest>(&bytes);
            let _ = postcard::from_bytes::<HostPagesRequest>(&bytes);
            let _ = postcard::from_bytes::<SuggestRequest>(&bytes);
        }
    }
}
