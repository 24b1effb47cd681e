//! `farol cluster certs`: the authority of a cluster, and its nodes' certificates.

use super::place::JoinFile;
use crate::cluster::identity;
use crate::config::cluster::is_name;
use anyhow::{Context, Result, ensure};
use farol_base::{Clock, SystemClock};
use farol_rpc::certs::{Authority, Certificate, NODE_VALID};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const CA_CERT: &str = "ca.pem";
const CA_KEY: &str = "ca.key";

#[derive(clap::Args)]
pub struct CertsArgs {
    /// Folder of the authority; made at the first time. Keep it where no node runs
    #[arg(long, value_name = "DIR", default_value = "farol-authority")]
    authority: PathBuf,
    /// Name of the cluster [default: farol]
    #[arg(long, value_name = "NAME", default_value = "farol")]
    cluster: String,
    /// Data folder of a node that gets a certificate; may be repeated
    #[arg(long = "node", value_name = "DIR")]
    nodes: Vec<PathBuf>,
    /// Address of a NATS server that gets a certificate, in a folder of its own beside the authority; may be repeated
    #[arg(long = "server", value_name = "ADDR")]
    servers: Vec<IpAddr>,
}

pub fn run(args: &CertsArgs) -> Result<ExitCode> {
    ensure!(
        is_name(&args.cluster),
        "{:?} is no name of a cluster; use letters, digits and dashes",
        args.cluster
    );
    make(&args.authority)?;
    let authority = open_or_make(&args.authority, &args.cluster)?;
    let mut out = std::io::stdout();
    writeln!(out, "authority of the cluster {}: {}", args.cluster, args.authority.join(CA_CERT).display())?;
    for folder in &args.nodes {
        issue(&authority, folder, &mut out)?;
    }
    for address in &args.servers {
        let folder = args.authority.join(address.to_string());
        let made = authority.issue_for_address(*address, SystemClock.now(), NODE_VALID)?;
        write_files(&authority, &folder, &made)?;
        writeln!(out, "NATS server {address}: copy {} to it", folder.display())?;
    }
    if args.nodes.is_empty() && args.servers.is_empty() {
        writeln!(out, "Now a certificate for each node: add --node DIR, the node's data folder.")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The authority of the folder; made where there is none.
fn open_or_make(folder: &Path, cluster: &str) -> Result<Authority> {
    let (cert, key) = (folder.join(CA_CERT), folder.join(CA_KEY));
    if cert.exists() || key.exists() {
        let certificate = Certificate { cert_pem: read(&cert)?, key_pem: read(&key)? };
        return Ok(Authority::from_pem(cluster, certificate)?);
    }
    let authority = Authority::generate(cluster, SystemClock.now())?;
    write_key(&key, &authority.certificate().key_pem)?;
    write_key(&cert, &authority.certificate().cert_pem)?;
    Ok(authority)
}

/// Makes a certificate for the node of a data folder, and says what to write into its settings.
fn issue(authority: &Authority, folder: &Path, out: &mut dyn std::io::Write) -> Result<()> {
    ensure!(
        JoinFile::read(folder)?.is_none(),
        "{} holds a whole cluster of this machine, which needs no certificates; name a node's data folder",
        folder.display()
    );
    make(folder)?;
    let id = identity::read_or_draw(folder)?;
    let made = authority.issue(&id.to_string(), SystemClock.now(), NODE_VALID)?;
    write_files(authority, folder, &made)?;
    let folder = folder.canonicalize()?;
    writeln!(out, "\nnode {id}: write this into {}:\n[cluster]", folder.join("farol.toml").display())?;
    for (name, file) in [("tls_ca", "ca.pem"), ("tls_cert", "node.pem"), ("tls_key", "node.key")] {
        writeln!(out, "{name} = {}", toml::Value::from(folder.join(file).display().to_string()))?;
    }
    Ok(())
}

fn make(folder: &Path) -> Result<()> {
    let mut private = std::fs::DirBuilder::new();
    private.recursive(true).mode(0o700);
    private.create(folder).with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// The authority's certificate, and one that it has signed with its key.
fn write_files(authority: &Authority, folder: &Path, made: &Certificate) -> Result<()> {
    make(folder)?;
    write_key(&folder.join("ca.pem"), &authority.certificate().cert_pem)?;
    write_key(&folder.join("node.pem"), &made.cert_pem)?;
    write_key(&folder.join("node.key"), &made.key_pem)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| {
        format!("cannot read {}; an authority is {CA_CERT} and {CA_KEY} together", path.display())
    })
}

/// Writes a file for its owner alone.
fn write_key(path: &Path, text: &str) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}
