//! Where NATS is and how one gets in: addresses, user and password, certificates.
//!
//! The client passes over a user and password that stand in an address, so they are taken out here.

use std::path::PathBuf;
use url::Url;

/// How to reach NATS, and what to make there.
#[derive(Clone)]
pub struct NatsOptions {
    /// The cluster's name: a part of every stream's and subject's name.
    pub cluster: String,
    /// Addresses as people write them: `nats://user:password@host:4222,host:4222`, or `tls://…`.
    pub join: String,
    /// A file of NATS credentials (`.creds`), instead of user and password.
    pub credentials: Option<PathBuf>,
    /// Certificates of who may vouch for the servers.
    pub tls_ca: Option<PathBuf>,
    /// This node's certificate and its key, both or none.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// On how many servers each stream lies.
    pub copies: usize,
    /// Bytes of each stream that carries batches.
    pub log_bytes_max: u64,
    /// Addresses of the servers' monitors (`host:8222`). Without any, port 8222 of each server is tried.
    pub monitors: Vec<String>,
    /// What the servers call this node in their lists of connections.
    pub node: String,
}

/// What a log may hold where nothing else is said.
pub const LOG_BYTES_MAX: u64 = 4 << 30;

/// Servers on which each stream lies where nothing else is said.
pub const COPIES: usize = 3;

impl NatsOptions {
    /// With the defaults of a cluster.
    pub fn new(cluster: &str, join: &str) -> NatsOptions {
        NatsOptions {
            cluster: cluster.to_string(),
            join: join.to_string(),
            credentials: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            copies: COPIES,
            log_bytes_max: LOG_BYTES_MAX,
            monitors: Vec::new(),
            node: "farol".to_string(),
        }
    }

    /// On so many servers.
    pub fn with_copies(mut self, copies: usize) -> NatsOptions {
        self.copies = copies;
        self
    }
}

/// What [`NatsOptions::join`] says.
#[derive(Clone, PartialEq, Eq)]
pub struct Servers {
    /// `nats://host:port` or `tls://host:port`, without user and password.
    pub addresses: Vec<String>,
    pub user: Option<(String, String)>,
}

/// The port of a server's monitor where nothing else is said.
const MONITOR_PORT: u16 = 8222;

impl Servers {
    /// Reads a list of addresses. The first user and password found count for all, and one without `nats://` or `tls://`
    /// is met as the one before it: of servers behind one `tls://` none is spoken to in the clear.
    ///
    /// # Errors
    ///
    /// A sentence that names the part which is no address, never its password.
    pub fn parse(join: &str) -> Result<Servers, String> {
        let mut servers = Servers { addresses: Vec::new(), user: None };
        for (at, part) in join.split(',').map(str::trim).filter(|part| !part.is_empty()).enumerate() {
            let before = servers.addresses.last().and_then(|address| address.split("://").next());
            let scheme = before.unwrap_or("nats");
            let text = if part.contains("://") { part.to_string() } else { format!("{scheme}://{part}") };
            let shown = part.rsplit('@').next().unwrap_or_default();
            let wrong = |why: &str| {
                format!(
                    "address {} of NATS ({shown:?}) {why}; write nats://USER:PASSWORD@HOST:4222, \
                     several with commas between",
                    at + 1
                )
            };
            let url = Url::parse(&text).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
            if !["nats", "tls"].contains(&url.scheme()) {
                return Err(wrong("begins neither with nats:// nor with tls://"));
            }
            let host =
                url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| wrong("names no host"))?;
            servers.addresses.push(format!("{}://{host}:{}", url.scheme(), url.port().unwrap_or(4222)));
            if servers.user.is_none() && !url.username().is_empty() {
                let password = url.password().unwrap_or_default();
                servers.user = Some((decoded(url.username()), decoded(password)));
            }
        }
        if servers.addresses.is_empty() {
            return Err("no address of NATS is given; write nats://HOST:4222".to_string());
        }
        Ok(servers)
    }

    /// Addresses of the monitors that are tried where none are given.
    pub fn monitors(&self) -> Vec<String> {
        let host = |address: &String| {
            let url = Url::parse(address).ok()?;
            url.host_str().map(|host| format!("{host}:{MONITOR_PORT}"))
        };
        self.addresses.iter().filter_map(host).collect()
    }
}

/// Takes `%40` and its like out of a user or password.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| after.get(..2)).flatten();
        let value = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match value.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_their_user_and_get_their_port() {
        let read = |join: &str| {
            let servers = Servers::parse(join).unwrap();
            (servers.addresses.join(" "), servers.user)
        };
        let user = |name: &str, password: &str| Some((name.to_string(), password.to_string()));
        assert_eq!(read("nats://a:4223"), ("nats://a:4223".into(), None));
        assert_eq!(read("a, b:1"), ("nats://a:4222 nats://b:1".into(), None));
        assert_eq!(read("nats://u:p@a,nats://v:q@b"), ("nats://a:4222 nats://b:4222".into(), user("u", "p")));
        assert_eq!(read("tls://u:p%40%2f%%@[::1]"), ("tls://[::1]:4222".into(), user("u", "p@/%%")));
        assert_eq!(read("tls://u@a,b,nats://c,d").0, "tls://a:4222 tls://b:4222 nats://c:4222 nats://d:4222");
        assert_eq!(read("u@a"), ("nats://a:4222".into(), user("u", "")));
    }

    #[test]
    fn what_is_no_address_is_named_without_its_password() {
        for wrong in ["", " , ", "http://a", "nats://u:secret@", "nats://u:secret@a:port", "tls://"] {
            let sentence = Servers::parse(wrong).err().unwrap();
            assert!(sentence.contains("nats://") && !sentence.contains("secret"), "{wrong}: {sentence}");
        }
    }

    #[test]
    fn a_monitor_is_looked_for_beside_each_server() {
        let servers = Servers::parse("nats://u:p@a:1,[::1]:2").unwrap();
        assert_eq!(servers.monitors(), ["a:8222", "[::1]:8222"]);
    }
}
