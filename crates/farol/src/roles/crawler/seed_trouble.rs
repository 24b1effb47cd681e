//! What a visit without an answer means for whoever named the site as a seed.

use super::visit::NoAnswer;
use farol_base::status::SeedState;
use farol_fetch::FetchError;
use std::io::ErrorKind;

/// The state of a seed whose page or host did not answer, and what it is about; `None` where that says nothing of the
/// site.
pub fn state_of(error: &NoAnswer) -> Option<(SeedState, String)> {
    let error = match error {
        NoAnswer::Fetch(error) => error,
        // That is this agent's trouble.
        NoAnswer::NoRight => return None,
        NoAnswer::BrokeDown => return Some((SeedState::Unreachable, error.to_string())),
    };
    Some(match error {
        FetchError::Dns { host, transient: false, .. } => (SeedState::NoSuchName, host.name().to_string()),
        FetchError::Dns { reason, .. } => (SeedState::NameTrouble, reason.clone()),
        FetchError::Guard { address, .. } => (SeedState::PrivateAddress, address.to_string()),
        FetchError::Port { port, .. } => (SeedState::Port, port.to_string()),
        FetchError::NoRoom { .. } => return None,
        FetchError::Connect { address, source, .. } if source.kind() == ErrorKind::ConnectionRefused => {
            (SeedState::Refused, address.to_string())
        }
        FetchError::Connect { address, source, .. } => {
            (SeedState::Unreachable, format!("{address}: {source}"))
        }
        FetchError::Tls { source, .. } => (SeedState::Tls, source.to_string()),
        FetchError::Timeout { stage, .. } => (SeedState::TimedOut, stage.to_string()),
        error => (SeedState::NotHttp, error.to_string()),
    })
}
