//! Real servers for tests: each on a loopback address of its own, killed when dropped.

use crate::nats::server::{LocalServer, Peers, ServerSettings, find_nats_server};
use crate::nats::{Nats, NatsOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Servers of one test, in a folder that the test removes.
pub struct TestServers {
    pub all: Vec<LocalServer>,
}

/// An address of this process and test alone, with a port that nobody has.
///
/// # Panics
///
/// Where loopback has no free port.
pub fn free_address() -> SocketAddr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let [.., high, low] = pid.to_be_bytes();
    let ip = Ipv4Addr::new(127, 16 + high % 200, low, 1 + (count % 250) as u8);
    let listener = TcpListener::bind((ip, 0)).expect("loopback has a free port");
    listener.local_addr().expect("a listener has an address")
}

/// The server's program.
///
/// # Panics
///
/// Where there is none, with how to get it.
pub fn program() -> PathBuf {
    find_nats_server().unwrap_or_else(|sentence| panic!("{sentence}"))
}

/// Settings of a server on its own, small enough for a test.
pub fn test_settings(folder: &Path, name: &str) -> ServerSettings {
    let mut settings = ServerSettings::new(name, free_address(), &folder.join(name).join("js"));
    settings.monitor = Some(free_address());
    settings.store_bytes_max = 1 << 30;
    settings
}

impl TestServers {
    /// One server.
    pub fn one(folder: &Path) -> TestServers {
        TestServers::with(folder, |_| {})
    }

    /// One server with other settings.
    pub fn with(folder: &Path, change: impl FnOnce(&mut ServerSettings)) -> TestServers {
        let mut settings = test_settings(folder, "n1");
        change(&mut settings);
        TestServers::start(folder, vec![settings])
    }

    /// A cluster of servers.
    pub fn cluster(folder: &Path, count: usize) -> TestServers {
        let routes: Vec<SocketAddr> = (0..count).map(|_| free_address()).collect();
        let settings = |at: usize| {
            let mut settings = test_settings(folder, &format!("n{}", at + 1));
            settings.peers =
                Some(Peers { cluster: "test".to_string(), listen: routes[at], routes: routes.clone() });
            settings
        };
        TestServers::start(folder, (0..count).map(settings).collect())
    }

    fn start(folder: &Path, all: Vec<ServerSettings>) -> TestServers {
        let program = program();
        let start = |settings: ServerSettings| {
            let own = folder.join(&settings.name);
            LocalServer::start(&program, &own, settings).unwrap_or_else(|sentence| panic!("{sentence}"))
        };
        TestServers { all: all.into_iter().map(start).collect() }
    }

    /// How a node reaches these servers.
    pub fn options(&self) -> NatsOptions {
        let addresses: Vec<String> = self.all.iter().map(|server| server.settings().address()).collect();
        let mut options = NatsOptions::new("test", &addresses.join(",")).with_copies(self.all.len());
        options.log_bytes_max = 64 << 20;
        let monitors = self.all.iter().filter_map(|server| server.settings().monitor);
        options.monitors = monitors.map(|monitor| monitor.to_string()).collect();
        options
    }

    /// A node.
    ///
    /// # Panics
    ///
    /// Where the servers do not take it.
    pub fn node(&self) -> Nats {
        Nats::connect(&self.options()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until every server says that it is ready: caught up with the others.
    ///
    /// # Panics
    ///
    /// Where one is not within a minute.
    pub fn wait_until_ready(&self) {
        let begun = Instant::now();
        while self.all.iter().any(|server| server.is_healthy() == Some(false)) {
            assert!(begun.elapsed() < Duration::from_secs(60), "a server is not ready after a minute");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
