//! TLS between engines: each end shows a certificate that it has signed with its own key and no authority, and the key is
//! what counts. TLS 1.3 alone; names and dates in such certificates mean nothing.

use super::key::EngineKey;
use anyhow::{Context, Result};
use farol_federation::agreement::EngineId;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519, date_time_ymd};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::sync::Arc;

/// What stands before an ed25519 key in a certificate, RFC 8410.
const KEY_INFO: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// The engine whose key a certificate is made of; `None` where it is made of another kind of key.
pub fn engine_of(certificate: &CertificateDer<'_>) -> Option<EngineId> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let info = parsed.subject_public_key_info();
    info.as_ref().strip_prefix(&KEY_INFO).and_then(|key| key.try_into().ok()).map(EngineId)
}

/// An engine's certificate and key.
#[derive(Debug)]
pub struct TlsIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl TlsIdentity {
    /// Makes the certificate of a key.
    pub fn of(key: &EngineKey) -> Result<TlsIdentity> {
        let der = PrivatePkcs8KeyDer::from(key.pkcs8());
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519)
            .context("the engine's key cannot be used for TLS")?;
        let mut params = CertificateParams::default();
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "Farol engine");
        params.distinguished_name = name;
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2999, 1, 1));
        let certificate = params.self_signed(&pair).context("the engine's certificate cannot be made")?;
        Ok(TlsIdentity {
            chain: vec![certificate.der().clone()],
            key: PrivateKeyDer::from(der),
            provider: Arc::new(aws_lc_rs::default_provider()),
        })
    }

    /// For the listening end. Callers without a certificate are let in: they may read what is for everybody.
    pub fn server(&self) -> Result<Arc<ServerConfig>> {
        let verifier = Arc::new(KeyVerifier::new(&self.provider, None));
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// For calling an engine by its key; `None`: whoever answers, to learn who it is.
    pub fn client(&self, expected: Option<EngineId>) -> Result<Arc<ClientConfig>> {
        let verifier = Arc::new(KeyVerifier::new(&self.provider, expected));
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// For calling an engine behind a proxy, whose certificate is one of the Web's.
    pub fn web_client(&self) -> Result<Arc<ClientConfig>> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Looks at the key of a certificate, and at nothing else in it; that the other end has that key is proved by the handshake.
#[derive(Debug)]
struct KeyVerifier {
    expected: Option<EngineId>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl KeyVerifier {
    fn new(provider: &CryptoProvider, expected: Option<EngineId>) -> KeyVerifier {
        KeyVerifier { expected, algorithms: provider.signature_verification_algorithms }
    }

    fn look(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        match engine_of(certificate) {
            None => Err(Error::InvalidCertificate(CertificateError::BadEncoding)),
            Some(engine) if self.expected.is_some_and(|expected| expected != engine) => {
                Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
            }
            Some(_) => Ok(()),
        }
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

/// TLS 1.2 is not spoken.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("engines speak TLS 1.3".to_string()))
}

impl ServerCertVerifier for KeyVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.look(certificate).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

impl ClientCertVerifier for KeyVerifier {
    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.look(certificate).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
