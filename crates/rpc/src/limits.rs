//! How much a server takes on at a time.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::wire::BODY_BYTES_MAX;

/// Bounds of a server. Memory of bodies: `in_work` × `body_bytes_max`, with the defaults on eight cores 256 MiB.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls that are worked on at a time.
    pub in_work: usize,
    /// Calls that wait for their turn; whoever comes after them is told that the node is busy.
    pub waiting: usize,
    /// Bytes of a request's or an answer's body.
    pub body_bytes_max: usize,
    /// Longest deadline that is granted, whatever the caller wishes.
    pub deadline_max: Duration,
    /// Connections that are open at a time.
    pub connections_max: usize,
    /// How long a stranger may take for the TLS handshake, and a peer until its first call.
    pub handshake_max: Duration,
    /// Pause between two keep-alive pings, and how long their answer may take: a cut connection is noticed after
    /// the sum of both.
    pub ping: Duration,
    /// Versions of the wire format that are understood, as `/v<version>/<verb>`.
    pub wire: RangeInclusive<u16>,
}

impl Default for Limits {
    fn default() -> Limits {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Limits {
            in_work: cores * 2,
            waiting: 64,
            body_bytes_max: BODY_BYTES_MAX,
            deadline_max: Duration::from_secs(60),
            connections_max: 1024,
            handshake_max: Duration::from_secs(5),
            ping: Duration::from_secs(1),
            wire: 1..=1,
        }
    }
}
