//! Connecting, and what is looked at before anything is written.
//!
//! Whatever is wrong is one sentence that says what to do: nobody listens, a wrong password, a server that is too old,
//! JetStream switched off, no leader, no room.

use super::api::{self, Api, Trouble};
use super::backoff;
use super::options::{NatsOptions, Servers};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use serde_json::Value;
use std::time::{Duration, Instant};

/// What is wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(pub String);

/// The oldest server that keeps its streams when it is killed.
pub const VERSION_MIN: (u64, u64, u64) = (2, 10, 23);

/// How long connecting to one server may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long servers that have just started may take to choose their leader.
const LEADER: Duration = Duration::from_secs(30);

/// The servers are asked so often whether they are still there; two answers missed, and another is connected to.
const PING: Duration = Duration::from_secs(5);

/// Connects, and checks the server.
pub async fn connect(options: &NatsOptions, servers: &Servers) -> Result<Client, ConnectError> {
    check_name(&options.cluster)?;
    let shown = servers.addresses.join(", ");
    let settings = settings(options, servers).await?;
    // One limit more than the client's own: it has none for reading the server's greeting.
    let limit = CONNECT * (servers.addresses.len() as u32 + 1);
    let client = tokio::time::timeout(limit, settings.connect(&servers.addresses)).await;
    let client = match client {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => {
            // What is wrong with a certificate comes as an error of reading.
            let is_tls = options.tls_ca.is_some() || shown.contains("tls://");
            let is_read = error.kind() == ConnectErrorKind::Io && !is_refused(&error);
            let kind = if is_tls && is_read { ConnectErrorKind::Tls } else { error.kind() };
            return Err(sentence(kind, &error.to_string(), &shown, servers));
        }
        Err(_) => return Err(sentence(ConnectErrorKind::TimedOut, "no greeting", &shown, servers)),
    };
    let server = client.server_info();
    check_version(&server.version)?;
    if !server.jetstream {
        return Err(jetstream_is_off(&shown));
    }
    Ok(client)
}

async fn settings(options: &NatsOptions, servers: &Servers) -> Result<ConnectOptions, ConnectError> {
    let mut settings = ConnectOptions::new()
        .name(format!("farol {} {}", options.cluster, options.node))
        .connection_timeout(CONNECT)
        .ping_interval(PING)
        .max_reconnects(None)
        .reconnect_delay_callback(backoff::before_attempt)
        .event_callback(|event| async move { tracing::debug!(%event, "NATS") });
    if let Some((user, password)) = &servers.user {
        settings = settings.user_and_password(user.clone(), password.clone());
    }
    let cannot = |path: &std::path::Path, error: std::io::Error| {
        ConnectError(format!("{} cannot be read: {error}; correct its path", path.display()))
    };
    if let Some(path) = &options.credentials {
        settings = settings.credentials_file(path).await.map_err(|error| cannot(path, error))?;
    }
    for path in [&options.tls_ca, &options.tls_cert, &options.tls_key].into_iter().flatten() {
        std::fs::File::open(path).map_err(|error| cannot(path, error))?;
    }
    if let Some(path) = &options.tls_ca {
        settings = settings.add_root_certificates(path.clone()).require_tls(true);
    }
    match (&options.tls_cert, &options.tls_key) {
        (Some(cert), Some(key)) => {
            settings = settings.add_client_certificate(cert.clone(), key.clone()).require_tls(true);
        }
        (None, None) => {}
        _ => {
            return Err(ConnectError(
                "set both cluster.tls_cert and cluster.tls_key, or neither".to_string(),
            ));
        }
    }
    Ok(settings)
}

/// Whether nobody took the connection.
fn is_refused(error: &async_nats::ConnectError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::ConnectionRefused)
}

fn sentence(kind: ConnectErrorKind, why: &str, shown: &str, servers: &Servers) -> ConnectError {
    ConnectError(match kind {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            let who = match &servers.user {
                Some((user, _)) => format!("user {user:?} and this password"),
                None => "this node, which names no user".to_string(),
            };
            format!(
                "NATS at {shown} lets {who} not in; correct nats://USER:PASSWORD@HOST or cluster.credentials"
            )
        }
        ConnectErrorKind::Dns => format!("the name in {shown} has no address: {why}; correct the name"),
        ConnectErrorKind::Tls => {
            format!(
                "no TLS with NATS at {shown}: {why}; look at cluster.tls_ca, cluster.tls_cert and its server"
            )
        }
        ConnectErrorKind::TimedOut => {
            format!("NATS at {shown} does not answer within {} s; look at its log", CONNECT.as_secs())
        }
        ConnectErrorKind::ServerParse => format!("{shown} is no address of NATS: {why}"),
        ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects => {
            format!(
                "no NATS server listens at {shown} ({why}); start nats-server there, or correct the address"
            )
        }
    })
}

fn jetstream_is_off(shown: &str) -> ConnectError {
    ConnectError(format!(
        "NATS at {shown} has JetStream switched off; start it with the configuration that `farol cluster nats-config` \
         prints"
    ))
}

/// A name must fit into names of streams and subjects.
fn check_name(cluster: &str) -> Result<(), ConnectError> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !cluster.is_empty() && cluster.len() <= 40 && cluster.bytes().all(is_fine) {
        return Ok(());
    }
    Err(ConnectError(format!("{cluster:?} is no name of a cluster; use up to 40 letters, digits and '-'")))
}

fn check_version(version: &str) -> Result<(), ConnectError> {
    let (major, minor, patch) = VERSION_MIN;
    if parse_version(version).is_some_and(|found| found >= VERSION_MIN) {
        return Ok(());
    }
    Err(ConnectError(format!(
        "the NATS server is version {version}, and {major}.{minor}.{patch} or later is needed: older ones forget \
         streams when they are killed; install a newer nats-server"
    )))
}

/// Reads `2.10.27` or `v2.11.0-RC.1`.
pub fn parse_version(text: &str) -> Option<(u64, u64, u64)> {
    let plain = text.trim().trim_start_matches('v').split(['-', '+']).next()?;
    let mut parts = plain.split('.').map(|part| part.parse::<u64>().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

/// Waits until JetStream answers: servers that have just started choose their leader first.
pub async fn wait_for_jetstream(api: &Api, servers: &Servers) -> Result<(), ConnectError> {
    let shown = servers.addresses.join(", ");
    let (begun, mut backoff) = (Instant::now(), backoff::Backoff::default());
    loop {
        let trouble = match api.ask("INFO", Value::Null, CONNECT).await {
            Ok(_) => return Ok(()),
            Err(trouble) => trouble,
        };
        if trouble.is(&api::SWITCHED_OFF) || trouble == Trouble::Nobody && begun.elapsed() > CONNECT {
            return Err(jetstream_is_off(&shown));
        }
        let may_come = trouble.is(&api::NO_LEADER) || !matches!(trouble, Trouble::Refused { .. });
        if !may_come || begun.elapsed() > LEADER {
            return Err(ConnectError(format!(
                "JetStream at {shown} is not ready ({trouble}); more than half of its servers must run and reach each \
                 other"
            )));
        }
        tokio::time::sleep(backoff.next_rest()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_forget_streams_are_refused() {
        for version in ["2.10.23", "v2.10.27", "2.11.0-RC.1", "2.15.1", "3.0.0"] {
            assert_eq!(check_version(version), Ok(()), "{version}");
        }
        for version in ["2.9.10", "2.10.22", "1.99.99", "", "new"] {
            let sentence = check_version(version).unwrap_err().0;
            assert!(sentence.contains("2.10.23") && sentence.contains(version), "{sentence}");
        }
    }

    #[test]
    fn a_cluster_has_a_name_that_fits_into_subjects() {
        assert_eq!(check_name("farol-2"), Ok(()));
        for wrong in ["", "a.b", "a b", "a_b", "*", &"x".repeat(41)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }
}
