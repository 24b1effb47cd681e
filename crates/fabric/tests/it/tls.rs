//! Connections with certificates on both sides.

use farol_fabric::nats::server::ServerTls;
use farol_fabric::nats::{Nats, NatsOptions};
use farol_fabric::testing::servers::{TestServers, free_address};
use farol_fabric::{Fabric, Topic};
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};

/// Writes an authority, and certificates of it for these names; returns the authority's file.
fn authority(folder: &Path, names: &[(&str, Vec<String>)]) -> PathBuf {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root: Certificate = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    for (file, subjects) in names {
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(subjects.clone()).unwrap().signed_by(&key, &issuer).unwrap();
        std::fs::write(folder.join(format!("{file}.pem")), signed.pem()).unwrap();
        std::fs::write(folder.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }
    let path = folder.join("ca.pem");
    std::fs::write(&path, root.pem()).unwrap();
    path
}

fn sentence(options: &NatsOptions) -> String {
    Nats::connect(options).err().expect("it is not let in").to_string()
}

#[test]
fn only_who_has_a_certificate_gets_in_and_only_to_the_right_server() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |file: &str| folder.path().join(file);
    let strangers = authority(other.path(), &[]);
    let servers = TestServers::with(folder.path(), |settings| {
        let ip = settings.listen.ip().to_string();
        let ca = authority(folder.path(), &[("server", vec![ip]), ("node", vec!["node".to_string()])]);
        settings.tls = Some(ServerTls { ca, cert: at("server.pem"), key: at("server.key") });
    });
    let mut options = servers.options();
    options.tls_ca = Some(at("ca.pem"));
    let without = sentence(&options);
    assert!(without.contains("cluster.tls_cert"), "{without}");
    (options.tls_cert, options.tls_key) = (Some(at("node.pem")), Some(at("node.key")));
    let node = Nats::connect(&options).unwrap();
    assert!(node.append(&Topic::Links, b"x").is_ok());
    options.tls_ca = Some(strangers);
    let wrong = sentence(&options);
    assert!(wrong.contains("cluster.tls_ca"), "{wrong}");
    let nobody = NatsOptions { join: format!("tls://{}", free_address()), ..options };
    assert!(sentence(&nobody).contains("no NATS server listens"), "{}", sentence(&nobody));
}
