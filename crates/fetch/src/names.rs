//! From a host to the addresses that may be connected to.
//!
//! The operator's overrides come first, then addresses written in the URL itself, then DNS with a cache. All
//! but overrides pass the guard here, so nothing in this crate holds an address that was not judged.
//!
//! Promise: an address is remembered for its time-to-live, within the configured bounds; that a name does not
//! exist, likewise; that nobody could say, for [`TROUBLE_TTL`]. An address that did not accept a connection
//! goes to the end of its host's list.

mod cache;

use crate::{FetchConfig, FetchError, Override, guard};
use cache::{Answer, Cache};
use farol_base::Host;
use farol_base::sync::Mutex;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{RData, RecordType};
use std::net::{IpAddr, SocketAddr};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How long a failed lookup (no server answered) is remembered, so that a broken domain is not asked for over
/// and over.
const TROUBLE_TTL: Duration = Duration::from_secs(10);
/// RFC 8305 §3: once one family of addresses is known, the other is waited for this long.
const OTHER_FAMILY_WAIT: Duration = Duration::from_millis(50);
/// Most addresses of a name that are remembered.
const ADDRESSES_MAX: usize = 8;
/// Type of LOC records (RFC 1876 §2).
const LOC: u16 = 29;
/// Longest host name (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

pub(crate) struct Names {
    /// Set up once; where the system has no usable configuration, the text says why.
    resolver: Result<TokioResolver, String>,
    cache: Mutex<Cache>,
    lookups: Semaphore,
    overrides: Vec<Override>,
    allow_private: bool,
    timeout: Duration,
    ttl_min: Duration,
    ttl_max: Duration,
    negative_ttl_max: Duration,
}

impl Names {
    pub fn new(config: &FetchConfig) -> Names {
        Names {
            resolver: resolver(config).map_err(|error| error.to_string()),
            cache: Mutex::new(Cache::new(config.dns_cache_entries_max)),
            lookups: Semaphore::new(config.dns_lookups_max),
            overrides: config.overrides.clone(),
            allow_private: config.allow_private,
            timeout: config.dns_timeout,
            ttl_min: config.dns_ttl_min,
            ttl_max: config.dns_ttl_max.max(config.dns_ttl_min),
            negative_ttl_max: config.dns_negative_ttl_max,
        }
    }

    /// The addresses to try, in order; never empty. `wanted` narrows them down to one.
    pub async fn route(&self, host: &Host, wanted: Option<IpAddr>) -> Result<Vec<SocketAddr>, FetchError> {
        let set_by_hand = self.overrides.iter().find_map(|rule| rule.address(host));
        let port = set_by_hand.map_or(host.port(), |address| address.port());
        if let Some(address) = set_by_hand
            && wanted.is_none_or(|wanted| wanted == address.ip())
        {
            return Ok(vec![address]);
        }
        let literal = host.name().trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        if guard::is_for_others(port) {
            return Err(FetchError::Port { host: host.clone(), port });
        }
        if let Some(address) = wanted.or(literal) {
            self.judge(host, address)?;
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let known = self.addresses(host).await?;
        let mut refused = None;
        let mut passed = Vec::with_capacity(known.len());
        for address in known {
            match self.judge(host, address) {
                Ok(()) => passed.push(SocketAddr::new(address, port)),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(error) if passed.is_empty() => Err(error),
            _ if passed.is_empty() => Err(unknown(host, false, "it has no address")),
            _ => Ok(passed),
        }
    }

    /// Puts an address that did not accept a connection behind its host's others.
    pub fn demote(&self, host: &Host, address: IpAddr) {
        self.lock().demote(host.name(), address);
    }

    /// Where a host's name says that it is: the data of its first LOC record [RFC 1876]. `None` where there is none, or nobody
    /// could say. Not cached: it is asked for seldom.
    pub async fn location(&self, host: &Host) -> Option<Vec<u8>> {
        let is_set = self.overrides.iter().any(|rule| rule.address(host).is_some());
        let name = host.name();
        let is_literal = name.starts_with('[') || name.parse::<IpAddr>().is_ok();
        if is_set || is_literal || name.len() > NAME_BYTES_MAX || !name.contains('.') {
            return None;
        }
        let resolver = self.resolver.as_ref().ok()?;
        let _permit = self.lookups.acquire().await.ok()?;
        let asked = resolver.lookup(format!("{name}."), RecordType::Unknown(LOC));
        let found = tokio::time::timeout(self.timeout, asked).await.ok()?.ok()?;
        found.answers().iter().find_map(|record| match &record.data {
            RData::Unknown { code, rdata } if *code == RecordType::Unknown(LOC) => {
                Some(rdata.anything.clone())
            }
            _ => None,
        })
    }

    fn judge(&self, host: &Host, address: IpAddr) -> Result<(), FetchError> {
        match guard::verdict(address) {
            Err(reason) if !(self.allow_private && reason.is_local()) => {
                Err(FetchError::Guard { host: host.clone(), address, reason })
            }
            _ => Ok(()),
        }
    }

    /// Addresses by DNS, from the cache where it knows.
    async fn addresses(&self, host: &Host) -> Result<Vec<IpAddr>, FetchError> {
        let name = host.name();
        if let Some(answer) = self.lock().get(name, Instant::now()) {
            return answer.map_err(|failure| unknown(host, failure.transient, &failure.reason));
        }
        // Whoever waited here may find that another request has asked in the meantime.
        let Ok(_permit) = self.lookups.acquire().await else {
            return Err(unknown(host, true, "the resolver is closed"));
        };
        if let Some(answer) = self.lock().get(name, Instant::now()) {
            return answer.map_err(|failure| unknown(host, failure.transient, &failure.reason));
        }
        let (answer, ttl) = match tokio::time::timeout(self.timeout, self.look_up(name)).await {
            Ok(found) => found,
            Err(_) => (Err(cache::LookupError::new(true, "no name server answered in time")), TROUBLE_TTL),
        };
        self.lock().put(name, answer.clone(), Instant::now() + ttl);
        answer.map_err(|failure| unknown(host, failure.transient, &failure.reason))
    }

    /// Asks for both families of addresses at once. IPv4 comes first in the list: nearly every host has it.
    async fn look_up(&self, name: &str) -> (Answer, Duration) {
        let resolver = match &self.resolver {
            Ok(resolver) => resolver,
            Err(reason) => return (Err(cache::LookupError::new(true, reason)), TROUBLE_TTL),
        };
        if name.len() > NAME_BYTES_MAX {
            return (Err(cache::LookupError::new(false, "its name is too long")), self.negative_ttl_max);
        }
        // A name with a dot is looked up as it is; one without may be completed by the system's search list.
        let question = if name.contains('.') { format!("{name}.") } else { name.to_string() };
        let mut ask_v4 = std::pin::pin!(resolver.lookup(question.as_str(), RecordType::A));
        let mut ask_v6 = std::pin::pin!(resolver.lookup(question.as_str(), RecordType::AAAA));
        let (mut v4, mut v6) = (None, None);
        while v4.is_none() || v6.is_none() {
            let has_one = matches!(v4.as_ref().or(v6.as_ref()), Some(Ok(_)));
            tokio::select! {
                found = &mut ask_v4, if v4.is_none() => v4 = Some(found),
                found = &mut ask_v6, if v6.is_none() => v6 = Some(found),
                () = tokio::time::sleep(OTHER_FAMILY_WAIT), if has_one => break,
            }
        }
        let mut addresses = Vec::new();
        let mut ttl = self.ttl_max;
        let mut failure: Option<(cache::LookupError, Duration)> = None;
        for found in [v4, v6].into_iter().flatten() {
            match found {
                Ok(found) => {
                    for record in found.answers() {
                        ttl = ttl.min(Duration::from_secs(u64::from(record.ttl)));
                        addresses.extend(record.data.ip_addr());
                    }
                }
                Err(error) => {
                    let this = self.failure_of(&error);
                    // "Nobody could say" about one family leaves the question open.
                    if failure.as_ref().is_none_or(|(known, _)| !known.transient) {
                        failure = Some(this);
                    }
                }
            }
        }
        addresses.truncate(ADDRESSES_MAX);
        match failure {
            _ if !addresses.is_empty() => (Ok(addresses), ttl.max(self.ttl_min)),
            Some((failure, ttl)) => (Err(failure), ttl),
            None => (Err(cache::LookupError::new(false, "it has no address")), self.ttl_min),
        }
    }

    fn failure_of(&self, error: &NetError) -> (cache::LookupError, Duration) {
        match error {
            NetError::Dns(DnsError::NoRecordsFound(none)) => {
                let ttl = Duration::from_secs(u64::from(none.negative_ttl.unwrap_or(0)));
                let reason =
                    if error.is_nx_domain() { "the name does not exist" } else { "it has no address" };
                let ttl_min = self.ttl_min.min(self.negative_ttl_max);
                (cache::LookupError::new(false, reason), ttl.clamp(ttl_min, self.negative_ttl_max))
            }
            NetError::Proto(_) => (cache::LookupError::new(false, &error.to_string()), self.ttl_min),
            _ => (cache::LookupError::new(true, &error.to_string()), TROUBLE_TTL),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        // Nothing under the lock can panic half-way through a change.
        self.cache.lock()
    }
}

fn resolver(config: &FetchConfig) -> Result<TokioResolver, NetError> {
    let mut builder = if config.nameservers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let servers = config.nameservers.iter().map(|address| {
            let mut server = NameServerConfig::udp_and_tcp(address.ip());
            for connection in &mut server.connections {
                connection.port = address.port();
            }
            server
        });
        let servers = ResolverConfig::from_name_servers(servers.collect());
        let mut builder = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default());
        builder.options_mut().use_hosts_file = ResolveHosts::Never;
        builder
    };
    // Ours is the only cache, so that there is one truth about how long an address is good for.
    builder.options_mut().cache_size = 0;
    builder.options_mut().timeout = config.dns_timeout / 3;
    builder.options_mut().attempts = 2;
    builder.build()
}

fn unknown(host: &Host, transient: bool, reason: &str) -> FetchError {
    FetchError::Dns { host: host.clone(), transient, reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(overrides: &[&str], allow_private: bool) -> Names {
        let overrides = overrides.iter().map(|text| text.parse().unwrap()).collect();
        // Port 9 of a loopback address: nothing here may depend on a real name server.
        let nameservers = vec!["127.0.0.1:9".parse().unwrap()];
        Names::new(&FetchConfig { overrides, allow_private, nameservers, ..FetchConfig::default() })
    }

    async fn route(names: &Names, url: &str, wanted: Option<&str>) -> Result<String, &'static str> {
        let wanted = wanted.map(|text| text.parse().unwrap());
        let routed = names.route(&Host::parse(url).unwrap(), wanted).await;
        routed.map(|addresses| addresses[0].to_string()).map_err(|error| error.kind())
    }

    #[tokio::test]
    async fn addresses_in_urls_and_by_hand_need_no_lookup() {
        let plain = names(&[], false);
        assert_eq!(route(&plain, "http://8.8.8.8/", None).await, Ok("8.8.8.8:80".into()));
        assert_eq!(
            route(&plain, "https://[2606:4700::1]:8443/", None).await,
            Ok("[2606:4700::1]:8443".into())
        );
        assert_eq!(route(&plain, "http://127.0.0.1/", None).await, Err("guard"));
        assert_eq!(route(&plain, "http://[::ffff:10.0.0.1]/", None).await, Err("guard"));
        assert_eq!(route(&plain, "http://h.test/", Some("8.8.8.8")).await, Ok("8.8.8.8:80".into()));
        assert_eq!(route(&plain, "http://h.test/", Some("192.168.0.1")).await, Err("guard"));
        assert_eq!(route(&plain, "http://8.8.8.8:25/", None).await, Err("port"));
        assert_eq!(route(&plain, "http://h.test:6667/", None).await, Err("port"));
        assert_eq!(route(&plain, "http://h.test:22/", Some("8.8.8.8")).await, Err("port"));

        let open = names(&[], true);
        assert_eq!(route(&open, "http://127.0.0.1:81/", None).await, Ok("127.0.0.1:81".into()));
        assert_eq!(route(&open, "http://0.0.0.0/", None).await, Err("guard"));

        let set = names(&["h.test=127.0.0.2:8080", "*.test=127.0.0.3"], false);
        assert_eq!(route(&set, "http://h.test/", None).await, Ok("127.0.0.2:8080".into()));
        assert_eq!(route(&set, "http://h.test/", Some("127.0.0.2")).await, Ok("127.0.0.2:8080".into()));
        assert_eq!(route(&set, "http://g.test/", None).await, Ok("127.0.0.3:80".into()));
        // Only the address that the operator wrote is exempt.
        assert_eq!(route(&set, "http://h.test/", Some("127.0.0.9")).await, Err("guard"));
    }
}
