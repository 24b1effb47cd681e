//! NATS servers for a cluster on this machine, each with a folder and ports of its own.

use anyhow::{Context, Result};
use farol_fabric::nats::server::{LocalServer, Peers, STORE_BYTES_MAX, ServerSettings, find_nats_server};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// Who nodes say they are.
const USER: &str = "farol";

/// Running servers; ended when dropped.
pub struct Servers {
    servers: Vec<LocalServer>,
    /// How nodes join.
    pub join: String,
}

impl Servers {
    /// Starts so many servers in sub-folders; their stores hold so many bytes.
    pub fn start(folder: &Path, count: u16, store_bytes: u64) -> Result<Servers> {
        let program = find_nats_server().map_err(anyhow::Error::msg)?;
        let mut password = [0; 12];
        getrandom::fill(&mut password).context("the system has no random numbers")?;
        let password: String = password.iter().map(|byte| format!("{byte:02x}")).collect();
        let addresses: Vec<SocketAddr> = (0..count).map(|_| free_address()).collect::<Result<_>>()?;
        let routes: Vec<SocketAddr> = (0..count).map(|_| free_address()).collect::<Result<_>>()?;
        let mut servers = Vec::new();
        for (nth, (listen, route)) in addresses.iter().zip(&routes).enumerate() {
            let name = format!("nats-{}", nth + 1);
            let dir = folder.join(&name);
            let mut settings = ServerSettings::new(&name, *listen, &absolute(&dir.join("js"))?);
            settings.user = Some((USER.to_string(), password.clone()));
            settings.store_bytes_max = store_bytes.max(STORE_BYTES_MAX);
            settings.peers = (count > 1).then(|| Peers {
                cluster: "farol-local".to_string(),
                listen: *route,
                routes: routes.clone(),
            });
            servers.push(LocalServer::start(&program, &dir, settings).map_err(anyhow::Error::msg)?);
        }
        let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        Ok(Servers { servers, join: format!("nats://{USER}:{password}@{}", list.join(",")) })
    }

    /// Starts those again that have ended.
    pub fn look_after(&mut self) -> Result<()> {
        for server in &mut self.servers {
            if !server.is_running() {
                eprintln!("{} has ended; it is started again", server.settings().name);
                server.begin().map_err(anyhow::Error::msg)?;
            }
        }
        Ok(())
    }

    /// Asks them to end, and waits.
    pub fn stop(mut self) {
        self.servers.iter_mut().for_each(LocalServer::stop);
    }
}

fn absolute(path: &Path) -> Result<std::path::PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))
}

/// An address of loopback that nobody listens at.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port of loopback is free")?;
    Ok(listener.local_addr()?)
}
