//! Mutual TLS: both ends show a certificate of the cluster's own authority, with their node id as its name.

use std::fmt;
use std::sync::Arc;

use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::TlsError;

/// A node's certificate and key, and the authority that it believes.
#[derive(Clone)]
pub struct TlsSettings {
    node: String,
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
}

impl TlsSettings {
    /// Reads PEM texts, as [`crate::certs`] makes them: the authority's certificate, and certificate (or chain) and
    /// key of `node`.
    ///
    /// # Errors
    /// Where a text cannot be read, the certificate is another node's, or key and certificate do not fit.
    pub fn from_pem(node: &str, ca: &str, cert: &str, key: &str) -> Result<TlsSettings, TlsError> {
        let pem = |what: &'static str| {
            move |error: rustls::pki_types::pem::Error| TlsError::Pem { what, why: error.to_string() }
        };
        let config = |error: &dyn fmt::Display| TlsError::Config(error.to_string());

        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(ca.as_bytes()) {
            roots.add(authority.map_err(pem("authority's certificate"))?).map_err(|error| config(&error))?;
        }
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(cert.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(pem("certificate"))?;
        let own =
            chain.first().ok_or(TlsError::Pem { what: "certificate", why: "it is empty".to_string() })?;
        if !is_named(own, node) {
            return Err(TlsError::OtherNode { node: node.to_string() });
        }
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(pem("key"))?;

        let (roots, provider) = (Arc::new(roots), Arc::new(aws_lc_rs::default_provider()));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| config(&error))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| {
                builder.with_client_cert_verifier(verifier).with_single_cert(chain.clone(), key.clone_key())
            })
            .map_err(|error| config(&error))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .and_then(|builder| builder.with_root_certificates(roots).with_client_auth_cert(chain, key))
            .map_err(|error| config(&error))?;
        // Nodes connect rarely; a full handshake each time looks at the certificates each time.
        server.send_tls13_tickets = 0;
        client.resumption = Resumption::disabled();
        server.alpn_protocols = vec![b"h2".to_vec()];
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsSettings { node: node.to_string(), server: Arc::new(server), client: Arc::new(client) })
    }

    /// The node whose certificate this is.
    pub fn node(&self) -> &str {
        &self.node
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").field("node", &self.node).finish_non_exhaustive()
    }
}

/// The name that a node has in its certificate.
pub(crate) fn dns_name(node: &str) -> Result<String, TlsError> {
    let fits = (1..=63).contains(&node.len())
        && node.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !node.starts_with('-')
        && !node.ends_with('-');
    if fits {
        Ok(format!("{}.farol", node.to_ascii_lowercase()))
    } else {
        Err(TlsError::NodeName(node.to_string()))
    }
}

/// The same as rustls wants it.
pub(crate) fn server_name(node: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(dns_name(node)?).map_err(|_| TlsError::NodeName(node.to_string()))
}

/// Whether a certificate is `node`'s. Who signed it was settled by the handshake.
pub(crate) fn is_named(certificate: &CertificateDer<'_>, node: &str) -> bool {
    let (Ok(parsed), Ok(name)) = (ParsedCertificate::try_from(certificate), server_name(node)) else {
        return false;
    };
    verify_server_name(&parsed, &name).is_ok()
}
