//! The servers themselves: their configuration, where the program is, and running one here.

use super::connect::{VERSION_MIN, parse_version};
use super::monitor;
use std::fmt::Write;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a server is told. It holds a password, so it cannot be printed.
#[derive(Clone)]
pub struct ServerSettings {
    /// Its own name: two servers of one name do not see each other.
    pub name: String,
    /// Where nodes connect.
    pub listen: SocketAddr,
    /// Where its monitor answers. It has no password: loopback, or behind a firewall.
    pub monitor: Option<SocketAddr>,
    pub store: PathBuf,
    pub store_bytes_max: u64,
    pub user: Option<(String, String)>,
    pub peers: Option<Peers>,
    pub tls: Option<ServerTls>,
    /// Writes before it acknowledges. Only tests switch it off.
    pub sync_always: bool,
}

/// The other servers of a NATS cluster.
#[derive(Clone, Debug)]
pub struct Peers {
    /// The NATS cluster's name.
    pub cluster: String,
    /// Where other servers connect.
    pub listen: SocketAddr,
    /// Where the others listen for servers; one's own may be among them.
    pub routes: Vec<SocketAddr>,
}

/// Certificates, for connections beyond loopback.
#[derive(Clone, Debug)]
pub struct ServerTls {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What a server may store where nothing else is said: four full logs and the tables.
pub const STORE_BYTES_MAX: u64 = 24 << 30;

/// Batches have up to 1 MiB, and headers beside it.
const PAYLOAD_BYTES_MAX: u64 = 2 << 20;

impl ServerSettings {
    /// A server on its own, without password.
    pub fn new(name: &str, listen: SocketAddr, store: &Path) -> ServerSettings {
        ServerSettings {
            name: name.to_string(),
            listen,
            monitor: None,
            store: store.to_path_buf(),
            store_bytes_max: STORE_BYTES_MAX,
            user: None,
            peers: None,
            tls: None,
            sync_always: true,
        }
    }

    /// How nodes name it.
    pub fn address(&self) -> String {
        let scheme = if self.tls.is_some() { "tls" } else { "nats" };
        format!("{scheme}://{}", self.listen)
    }
}

/// The configuration file of a server.
pub fn nats_config(settings: &ServerSettings) -> String {
    let mut text = format!("server_name: {}\nlisten: {}\n", quoted(&settings.name), quoted(&settings.listen));
    let mut line = |args: std::fmt::Arguments<'_>| {
        // Writing to a text cannot fail.
        let _ = text.write_fmt(format_args!("{args}\n"));
    };
    if let Some(monitor) = &settings.monitor {
        line(format_args!("http: {}", quoted(monitor)));
    }
    line(format_args!("max_payload: {PAYLOAD_BYTES_MAX}"));
    line(format_args!("jetstream {{"));
    line(format_args!("  store_dir: {}", quoted(&settings.store.display())));
    line(format_args!("  max_memory_store: {}", 256u64 << 20));
    line(format_args!("  max_file_store: {}", settings.store_bytes_max));
    if settings.sync_always {
        line(format_args!("  sync_interval: always  # before it acknowledges, not two minutes later"));
    }
    line(format_args!("}}"));
    if let Some(user) = &settings.user {
        line(format_args!("{}", authorization("", user)));
    }
    if let Some(tls) = &settings.tls {
        line(format_args!("{}", tls_block("", tls)));
    }
    if let Some(peers) = &settings.peers {
        line(format_args!("cluster {{"));
        line(format_args!("  name: {}", quoted(&peers.cluster)));
        line(format_args!("  listen: {}", quoted(&peers.listen)));
        // Servers let each other in by the same user and password.
        let inside = match &settings.user {
            Some((user, password)) => format!("{}:{}@", percent_encoded(user), percent_encoded(password)),
            None => String::new(),
        };
        let routes: Vec<String> =
            peers.routes.iter().map(|route| quoted(&format!("nats://{inside}{route}"))).collect();
        line(format_args!("  routes: [{}]", routes.join(", ")));
        if let Some(user) = &settings.user {
            line(format_args!("{}", authorization("  ", user)));
        }
        if let Some(tls) = &settings.tls {
            line(format_args!("{}", tls_block("  ", tls)));
        }
        line(format_args!("}}"));
    }
    text
}

fn authorization(indent: &str, (user, password): &(String, String)) -> String {
    format!("{indent}authorization {{ user: {}, password: {} }}", quoted(user), quoted(password))
}

fn tls_block(indent: &str, tls: &ServerTls) -> String {
    let file = |path: &Path| quoted(&path.display());
    format!(
        "{indent}tls {{ ca_file: {}, cert_file: {}, key_file: {}, verify: true }}",
        file(&tls.ca),
        file(&tls.cert),
        file(&tls.key)
    )
}

fn quoted(text: &impl std::fmt::Display) -> String {
    let escaped = text.to_string().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// How to get the program, for people.
pub const HOW_TO_GET: &str = "no nats-server of version 2.10.23 or later is found: on Debian 13 `apt-get install \
     nats-server`, in the sources of Farol `cargo xtask install`; or set FAROL_NATS_SERVER to its path";

/// Where `cargo xtask install` puts it, from the root of the sources.
const INSTALLED: &str = "target/nats/unpacked/usr/sbin/nats-server";

/// Finds a server that is new enough: `FAROL_NATS_SERVER`, what `cargo xtask install` brought for this folder or one
/// above it, or the path.
///
/// # Errors
///
/// A sentence on how to get one.
pub fn find_nats_server() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("FAROL_NATS_SERVER") {
        let named = PathBuf::from(named);
        return match version_of(&named) {
            Some(version) if version >= VERSION_MIN => Ok(named),
            _ => Err(format!(
                "FAROL_NATS_SERVER is {}, but that is no such program: {HOW_TO_GET}",
                named.display()
            )),
        };
    }
    let here = std::env::current_dir().unwrap_or_default();
    let installed = here.ancestors().map(|folder| folder.join(INSTALLED));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> =
        std::env::split_paths(&path).map(|folder| folder.join("nats-server")).collect();
    // Programs for administrators are often not on a user's path.
    let others = ["/usr/sbin/nats-server", "/usr/local/bin/nats-server"].map(PathBuf::from);
    let mut all = installed.chain(on_path).chain(others);
    all.find(|program| version_of(program).is_some_and(|version| version >= VERSION_MIN))
        .ok_or_else(|| HOW_TO_GET.to_string())
}

fn version_of(program: &Path) -> Option<(u64, u64, u64)> {
    if !program.is_file() {
        return None;
    }
    let told = Command::new(program).arg("--version").stderr(Stdio::null()).output().ok()?;
    parse_version(String::from_utf8_lossy(&told.stdout).split_whitespace().last()?)
}

/// A server that runs here, for who tries a cluster out; killed when dropped.
///
/// Its folder holds the configuration, the log and the store.
pub struct LocalServer {
    program: PathBuf,
    folder: PathBuf,
    settings: ServerSettings,
    child: Option<Child>,
}

/// How long a server may take to begin.
const START: Duration = Duration::from_secs(20);

/// How long it may take to end when asked to.
const STOP: Duration = Duration::from_secs(10);

impl LocalServer {
    /// Starts a server and waits until it greets.
    ///
    /// # Errors
    ///
    /// Where it cannot be started, with the end of its log.
    pub fn start(program: &Path, folder: &Path, settings: ServerSettings) -> Result<LocalServer, String> {
        let mut server = LocalServer {
            program: program.to_path_buf(),
            folder: folder.to_path_buf(),
            settings,
            child: None,
        };
        server.begin()?;
        Ok(server)
    }

    /// Starts it again, after it was killed or stopped.
    ///
    /// # Errors
    ///
    /// As [`LocalServer::start`].
    pub fn begin(&mut self) -> Result<(), String> {
        self.kill();
        let cannot = |error: std::io::Error| {
            format!("{} cannot be started in {}: {error}", self.program.display(), self.folder.display())
        };
        std::fs::create_dir_all(&self.folder).map_err(cannot)?;
        let (config, log) = (self.folder.join("nats.conf"), self.log_file());
        write_privately(&config, &nats_config(&self.settings)).map_err(cannot)?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).map_err(cannot)?;
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Ctrl-C in a terminal is for who runs it, who ends its clients first.
        command.process_group(0);
        self.child = Some(command.spawn().map_err(cannot)?);
        let begun = Instant::now();
        while !self.greets() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || begun.elapsed() > START {
                self.kill();
                return Err(format!("the NATS server did not begin: {}", self.last_words()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether its process is there.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Ends it at once, as a power cut of the process would (`kill -9`).
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks it to end, and waits for it.
    pub fn stop(&mut self) {
        let asked = self.pid().map(|pid| Command::new("kill").args(["-TERM", &pid.to_string()]).status());
        let begun = Instant::now();
        if asked.is_some_and(|status| status.is_ok_and(|status| status.success())) {
            while begun.elapsed() < STOP {
                match self.child.as_mut().map(Child::try_wait) {
                    Some(Ok(None)) => std::thread::sleep(Duration::from_millis(20)),
                    _ => break,
                }
            }
        }
        self.kill();
    }

    /// Whether its monitor says that it is ready; `None` where it has no monitor.
    pub fn is_healthy(&self) -> Option<bool> {
        self.settings.monitor.map(|monitor| monitor::is_healthy(&monitor.to_string()))
    }

    /// Whether it sends the line that every client hears first.
    fn greets(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect_timeout(&self.settings.listen, Duration::from_millis(200))
        else {
            return false;
        };
        let mut greeting = [0; 4];
        stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
            && &greeting == b"INFO"
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("nats.log")
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.log_file()).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(3).collect();
        last.into_iter().rev().collect::<Vec<_>>().join("; ")
    }
}

/// Writes a file that only its owner may read: there is a password in it.
fn write_privately(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(path)?;
    std::io::Write::write_all(&mut file, text.as_bytes())
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_what_a_cluster_needs() {
        let listen: SocketAddr = "127.0.0.1:4222".parse().unwrap();
        let mut settings = ServerSettings::new("n1", listen, Path::new("/var/lib/na\"ts"));
        let plain = nats_config(&settings);
        assert!(plain.contains("listen: \"127.0.0.1:4222\"\n") && plain.contains("sync_interval: always"));
        assert!(plain.contains(r#"store_dir: "/var/lib/na\"ts""#), "{plain}");
        assert!(!plain.contains("authorization") && !plain.contains("cluster {") && !plain.contains("http:"));
        settings.user = Some(("farol".to_string(), "p@ss/word".to_string()));
        settings.monitor = Some("127.0.0.1:8222".parse().unwrap());
        let routes = vec!["127.0.0.2:6222".parse().unwrap()];
        settings.peers =
            Some(Peers { cluster: "farol".to_string(), listen: "127.0.0.1:6222".parse().unwrap(), routes });
        let whole = nats_config(&settings);
        assert!(whole.contains(r#"authorization { user: "farol", password: "p@ss/word" }"#), "{whole}");
        assert!(whole.contains(r#"routes: ["nats://farol:p%40ss%2Fword@127.0.0.2:6222"]"#), "{whole}");
        assert_eq!(whole.matches("authorization").count(), 2, "clients and servers are asked for it");
    }
}
