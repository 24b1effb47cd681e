//! Secure connections: rustls with Mozilla's roots and the operator's own.
//!
//! Certificates are always verified; a site whose certificate is wrong gives [`crate::FetchError::Tls`].

use crate::{Error, FetchConfig};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{IpAddr as CertificateAddress, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::IpAddr;
use std::sync::Arc;

/// Sessions remembered for a faster second handshake: 1,024 × about 2 KiB = 2 MiB.
const SESSIONS_MAX: usize = 1024;

pub(crate) fn client_config(config: &FetchConfig) -> Result<Arc<ClientConfig>, Error> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for root in &config.extra_roots {
        roots.add(root.clone()).map_err(Error::Tls)?;
    }
    let mut client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
    client.alpn_protocols = match config.http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    Ok(Arc::new(client))
}

/// The name that a host's certificate must carry.
pub(crate) fn server_name(host_name: &str) -> Option<ServerName<'static>> {
    let bare = host_name.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => Some(ServerName::IpAddress(CertificateAddress::from(address))),
        Err(_) => ServerName::try_from(bare.to_string()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_on_certificates() {
        assert!(matches!(server_name("example.org"), Some(ServerName::DnsName(_))));
        assert!(matches!(server_name("[::1]"), Some(ServerName::IpAddress(_))));
        assert!(matches!(server_name("1.2.3.4"), Some(ServerName::IpAddress(_))));
        assert!(server_name("a..b").is_none());
    }

    #[test]
    fn http2_is_offered_only_when_wanted() {
        let protocols = |http2| {
            let config = FetchConfig { http2, ..FetchConfig::default() };
            client_config(&config).unwrap().alpn_protocols.len()
        };
        assert_eq!((protocols(true), protocols(false)), (2, 1));
    }
}
