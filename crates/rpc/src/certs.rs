//! Makes a cluster's certificate authority and its nodes' certificates.
//!
//! The authority is a key and a self-signed certificate, made once and kept by the operator; nodes need only its
//! certificate. Dates are whole days: valid from the day before, so that clocks may differ.

use std::net::IpAddr;
use std::time::Duration;

use farol_base::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use crate::TlsError;
use crate::tls::dns_name;

const DAY: Duration = Duration::from_secs(86_400);
/// Ten years: whoever runs a cluster for longer makes a new one in time, and so new certificates.
pub const AUTHORITY_VALID: Duration = Duration::from_secs(3650 * 86_400);
/// A little over two years, the longest that browsers once took.
pub const NODE_VALID: Duration = Duration::from_secs(825 * 86_400);

/// A certificate and its key, as PEM texts.
#[derive(Clone)]
pub struct Certificate {
    /// The certificate; may be shown to everybody.
    pub cert_pem: String,
    /// The key; whoever has it is the node, or the authority.
    pub key_pem: String,
}

/// A cluster's certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

impl Authority {
    /// Makes a new authority for the cluster `cluster`.
    ///
    /// # Errors
    /// Where no key can be made.
    pub fn generate(cluster: &str, now: Timestamp) -> Result<Authority, TlsError> {
        let mut params = authority_params(cluster);
        set_dates(&mut params, now, AUTHORITY_VALID);
        let key = KeyPair::generate()?;
        let certificate =
            Certificate { cert_pem: params.self_signed(&key)?.pem(), key_pem: key.serialize_pem() };
        Ok(Authority { issuer: Issuer::new(params, key), certificate })
    }

    /// Takes up an authority again that was made for the same cluster name.
    ///
    /// # Errors
    /// Where the key cannot be read.
    pub fn from_pem(cluster: &str, certificate: Certificate) -> Result<Authority, TlsError> {
        let key = KeyPair::from_pem(&certificate.key_pem)?;
        Ok(Authority { issuer: Issuer::new(authority_params(cluster), key), certificate })
    }

    /// The authority's own certificate and key.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Makes the certificate of a node, for both ends of its calls.
    ///
    /// # Errors
    /// Where `node` cannot be a name in a certificate.
    pub fn issue(&self, node: &str, now: Timestamp, valid: Duration) -> Result<Certificate, TlsError> {
        self.issue_for(dns_name(node)?, now, valid)
    }

    /// Makes the certificate of a server that is called by its address, such as a NATS server.
    ///
    /// # Errors
    /// Where no key can be made.
    pub fn issue_for_address(
        &self,
        address: IpAddr,
        now: Timestamp,
        valid: Duration,
    ) -> Result<Certificate, TlsError> {
        self.issue_for(address.to_string(), now, valid)
    }

    fn issue_for(&self, name: String, now: Timestamp, valid: Duration) -> Result<Certificate, TlsError> {
        let mut params = CertificateParams::new(vec![name.clone()])?;
        params.distinguished_name = named(&name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        set_dates(&mut params, now, valid);
        let key = KeyPair::generate()?;
        Ok(Certificate {
            cert_pem: params.signed_by(&key, &self.issuer)?.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}

fn authority_params(cluster: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("Farol cluster {cluster}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn set_dates(params: &mut CertificateParams, now: Timestamp, valid: Duration) {
    let day = |at: Timestamp| {
        let (year, month, day) = at.date();
        date_time_ymd(i32::try_from(year).unwrap_or(9999), month as u8, day as u8)
    };
    params.not_before = day(now - DAY);
    params.not_after = day(now + valid);
}
