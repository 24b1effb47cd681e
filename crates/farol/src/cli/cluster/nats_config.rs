//! `farol cluster nats-config`: the configuration of a NATS server.

use crate::config::ByteSize;
use crate::config::cluster::is_name;
use anyhow::{Context, Result, ensure};
use farol_fabric::nats::server::{Peers, ServerSettings, ServerTls, nats_config};
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

/// Where nodes connect, where servers meet, and where the monitor answers.
const PORTS: (u16, u16, u16) = (4222, 6222, 8222);

#[derive(clap::Args)]
pub struct NatsConfigArgs {
    /// Addresses of all NATS servers: one, three or five
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', required = true)]
    servers: Vec<IpAddr>,
    /// Which of them this configuration is for, from 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    this: usize,
    /// User that nodes and servers name
    #[arg(long, value_name = "NAME", default_value = "farol")]
    user: String,
    /// Password [default: a new one; give the same to all servers]
    #[arg(long, value_name = "TEXT")]
    password: Option<String>,
    /// Folder of what the server keeps
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nats/farol")]
    store: PathBuf,
    /// What it keeps at most
    #[arg(long, value_name = "SIZE", default_value = "24GiB")]
    store_max: ByteSize,
    /// Folder with ca.pem, node.pem and node.key of this server; required beyond loopback
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
}

pub fn run(args: &NatsConfigArgs) -> Result<ExitCode> {
    let count = args.servers.len();
    ensure!(matches!(count, 1 | 3 | 5), "{count} servers cannot vote well: take one, three or five");
    let this = args.this.checked_sub(1).and_then(|at| args.servers.get(at));
    let this = this.with_context(|| format!("--this is {}, and there are {count} servers", args.this))?;
    ensure!(is_name(&args.user), "{:?} is no user; use letters, digits and dashes", args.user);
    ensure!(
        this.is_loopback() || args.tls.is_some(),
        "{this} is not loopback, and passwords would travel in the clear: name the folder of its certificate with --tls \
         (`farol cluster certs --server {this}` makes one)"
    );
    let password = match &args.password {
        Some(password) => password.clone(),
        None => {
            let mut bytes = [0; 12];
            getrandom::fill(&mut bytes).context("the system has no random numbers")?;
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
    };
    let mut settings =
        ServerSettings::new(&format!("nats-{}", args.this), SocketAddr::new(*this, PORTS.0), &args.store);
    // The monitor has no password, and only who is on the machine needs it.
    settings.monitor = Some(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), PORTS.2));
    settings.store_bytes_max = args.store_max.get();
    settings.user = Some((args.user.clone(), password));
    settings.tls = args.tls.as_ref().map(|dir| ServerTls {
        ca: dir.join("ca.pem"),
        cert: dir.join("node.pem"),
        key: dir.join("node.key"),
    });
    settings.peers = (count > 1).then(|| Peers {
        cluster: "farol".to_string(),
        listen: SocketAddr::new(*this, PORTS.1),
        routes: args.servers.iter().map(|server| SocketAddr::new(*server, PORTS.1)).collect(),
    });
    std::io::stdout().write_all(nats_config(&settings).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
