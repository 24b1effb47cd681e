//! What can go wrong, seen by the caller, by the handler, and by whoever starts a server.

use std::net::SocketAddr;

use hyper::StatusCode;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No connection, or it broke before the answer was complete.
    #[error("{peer} cannot be reached: {why}")]
    Unreachable {
        /// Whom the call was for.
        peer: String,
        /// What the network said.
        why: String,
    },
    /// The deadline passed first.
    #[error("{peer} did not answer in time")]
    TimedOut {
        /// Whom the call was for.
        peer: String,
    },
    /// The peer has as much work as it takes; the sentence is its own.
    #[error("{0}")]
    Busy(String),
    /// The peer tried and failed; another may do better. The sentence is its own.
    #[error("{0}")]
    Failed(String),
    /// The peer will not do this, now or later; the sentence is its own.
    #[error("{0}")]
    Refused(String),
    /// The peer does not speak this version of the wire format; the sentence says which it speaks.
    #[error("{0}")]
    WrongVersion(String),
    /// The answer is not what it should be.
    #[error("the answer of {peer} to {verb} is damaged: {why}")]
    Damaged {
        /// Who answered.
        peer: String,
        /// What was asked for.
        verb: String,
        /// What is wrong with it.
        why: String,
    },
}

impl CallError {
    /// Whether the same call may succeed later or elsewhere.
    pub fn is_transient(&self) -> bool {
        match self {
            CallError::Unreachable { .. }
            | CallError::TimedOut { .. }
            | CallError::Busy(_)
            | CallError::Failed(_) => true,
            CallError::Refused(_) | CallError::WrongVersion(_) | CallError::Damaged { .. } => false,
        }
    }
}

/// Why a handler, or the server before it, does not answer. The sentences travel to the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RpcError {
    /// Nobody answers this verb here.
    #[error("this node has no verb {0:?}")]
    UnknownVerb(String),
    /// The request makes no sense; it would not tomorrow.
    #[error("{0}")]
    Refused(String),
    /// There is too much to do.
    #[error("{0}")]
    Busy(String),
    /// The deadline passed before the answer was there.
    #[error("the time for this call is over")]
    TimedOut,
    /// The caller speaks another version.
    #[error("{0}")]
    WrongVersion(String),
    /// The body is larger than is taken.
    #[error("{0}")]
    TooLarge(String),
    /// It was tried and went wrong.
    #[error("{0}")]
    Failed(String),
}

impl RpcError {
    /// The status by which the kind of error travels.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            RpcError::UnknownVerb(_) => StatusCode::NOT_FOUND,
            RpcError::Refused(_) => StatusCode::BAD_REQUEST,
            RpcError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            RpcError::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            RpcError::WrongVersion(_) => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            RpcError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            RpcError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A body that cannot be decoded is the caller's mistake.
impl From<postcard::Error> for RpcError {
    fn from(error: postcard::Error) -> RpcError {
        RpcError::Refused(format!("the request cannot be read ({error}): upgrade the older of the two nodes"))
    }
}

/// The error that a status and its sentence stand for.
pub(crate) fn from_status(status: StatusCode, peer: &str, sentence: String) -> CallError {
    match status {
        StatusCode::SERVICE_UNAVAILABLE => CallError::Busy(sentence),
        StatusCode::GATEWAY_TIMEOUT => CallError::TimedOut { peer: peer.to_string() },
        StatusCode::HTTP_VERSION_NOT_SUPPORTED => CallError::WrongVersion(sentence),
        StatusCode::INTERNAL_SERVER_ERROR => CallError::Failed(sentence),
        _ => CallError::Refused(sentence),
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Only loopback may be served without TLS.
    #[error(
        "{0} is not a loopback address, so calls need TLS: make certificates with `farol cluster certs` and set \
         tls_ca, tls_cert and tls_key, or listen on 127.0.0.1"
    )]
    PlainBeyondLoopback(SocketAddr),
    /// The socket cannot be used.
    #[error("cannot listen for calls: {0}")]
    Socket(#[from] std::io::Error),
}

/// Why certificates cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A node id goes into a name of the certificate.
    #[error("{0:?} cannot be a node's name in a certificate: use letters, digits and dashes, 63 at most")]
    NodeName(String),
    /// A PEM text holds no certificate or key.
    #[error("the {what} cannot be read as PEM: {why}")]
    Pem {
        /// Which of the files.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The certificate is for another node.
    #[error("the certificate is not for node {node}: make one with `farol cluster certs`")]
    OtherNode {
        /// The node that should be in it.
        node: String,
    },
    /// rustls does not take them.
    #[error("the certificates do not fit together: {0}")]
    Config(String),
    /// rcgen could not make one.
    #[error("a certificate cannot be made: {0}")]
    Making(#[from] rcgen::Error),
}
