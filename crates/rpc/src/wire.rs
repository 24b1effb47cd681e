//! What both sides agree on: header names, statuses, and postcard as the encoding of bodies.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Time that is left to the caller, in milliseconds: a duration, so that clocks need not agree.
pub(crate) const LEFT_HEADER: &str = "farol-ms";
/// Joins the log lines of one question on all nodes: W3C Trace Context, as what stands before or behind us may know.
pub(crate) const TRACE_HEADER: &str = "traceparent";
/// The caller's node id; under TLS it must be the one in its certificate.
pub(crate) const NODE_HEADER: &str = "farol-node";

/// Largest body of a request or an answer, unless [`Limits`](crate::Limits) says otherwise.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// Largest sentence that is read from an answer that is an error.
pub(crate) const SENTENCE_BYTES_MAX: usize = 4096;
/// Longest trace, verb and node id that are taken.
pub(crate) const TEXT_BYTES_MAX: usize = 64;

/// Flow-control window of one stream. The windows of all calls that may be admitted or waiting fit in the
/// connection's, so that bodies of waiting calls, which nobody reads yet, cannot stall those in work.
pub(crate) const STREAM_WINDOW: u32 = 64 << 10;
/// Streams at a time on a connection. Beyond it a client would queue silently, so it is far above what is
/// admitted: the limit that callers meet is ours, with a sentence.
pub(crate) const STREAMS_MAX: u32 = 1024;

/// Encodes a body.
///
/// # Errors
/// Where the value cannot be written in postcard, such as a sequence of unknown length.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, postcard::Error> {
    postcard::to_stdvec(value).map(Bytes::from)
}

/// Decodes a body, all of it: bytes that are left over mean that the sides do not speak the same version.
///
/// # Errors
/// Where the bytes are not what `T` is written as.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    let (value, rest) = postcard::take_from_bytes(bytes)?;
    if rest.is_empty() { Ok(value) } else { Err(postcard::Error::SerdeDeCustom) }
}

/// Whether a text may be a verb: lower-case letters, digits and dashes.
pub(crate) fn is_verb(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= TEXT_BYTES_MAX
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Splits `/v1/search` into version and verb.
pub(crate) fn split_path(path: &str) -> Option<(u16, &str)> {
    let (version, verb) = path.strip_prefix("/v")?.split_once('/')?;
    Some((version.parse().ok()?, verb)).filter(|(_, verb)| is_verb(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_a_version_and_a_verb() {
        for (path, want) in [
            ("/v1/search", Some((1, "search"))),
            ("/v12/add-replica", Some((12, "add-replica"))),
            ("/v1/", None),
            ("/v1/a/b", None),
            ("/search", None),
            ("/vx/search", None),
            ("/v1/Search", None),
        ] {
            assert_eq!(split_path(path), want, "{path}");
        }
    }

    #[test]
    fn bytes_left_over_are_damage() {
        let bytes = encode(&(1u32, "a")).unwrap();
        assert_eq!(decode::<(u32, String)>(&bytes).unwrap(), (1, "a".to_string()));
        assert!(decode::<u32>(&bytes).is_err());
        assert!(decode::<(u32, String, u8)>(&bytes).is_err());
    }
}
