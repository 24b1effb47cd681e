//! How NATS fares, for people: asked for at most once in a few seconds, because asking takes time.

use super::Shared;
use super::api::Api;
use super::monitor;
use super::options::Servers;
use super::servers::Met;
use crate::{FabricState, StreamFill};
use async_nats::connection::State;
use farol_base::sync::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was seen is told again for so long.
const FRESH: Duration = Duration::from_secs(3);

/// Looking may take no longer: whoever asks has other things to do.
pub const LOOK_MAX: Duration = Duration::from_secs(3);

/// Each part of a look is given up before the whole is.
const ASIDE_MAX: Duration = Duration::from_secs(2);

/// A stream this full is worth a word: per cent.
const NEARLY_FULL: u64 = 90;

/// What is seen, and when it was.
pub struct Looked {
    servers: Servers,
    monitors: Vec<String>,
    met: Met,
    last: Mutex<Option<(Instant, Look)>>,
}

/// What one look saw.
#[derive(Clone, Debug, Default)]
pub struct Look {
    streams: Vec<StreamFill>,
    sync_always: Option<bool>,
    trouble: Option<String>,
}

impl Look {
    /// Nothing came in time.
    pub fn nothing() -> Look {
        let trouble = "NATS does not answer; look at the logs of its servers".to_string();
        Look { trouble: Some(trouble), ..Look::default() }
    }
}

impl Looked {
    pub fn new(servers: Servers, monitors: Vec<String>) -> Looked {
        Looked { servers, monitors, met: Met::default(), last: Mutex::new(None) }
    }

    pub fn is_old(&self) -> bool {
        self.last.lock().as_ref().is_none_or(|(at, _)| at.elapsed() > FRESH)
    }

    pub fn keep(&self, seen: Look) {
        *self.last.lock() = Some((Instant::now(), seen));
    }

    /// The state as was seen last, with the connection as it is now.
    pub fn state(&self, api: &Api) -> FabricState {
        let seen = self.last.lock().as_ref().map(|(_, seen)| seen.clone()).unwrap_or_default();
        let connected = api.client().connection_state() == State::Connected;
        let away = || {
            let shown = self.servers.addresses.join(", ");
            format!("no connection to NATS at {shown}; it is tried again every second, look whether it runs")
        };
        let trouble = if connected {
            seen.trouble.or_else(|| warning(&seen.streams, seen.sync_always))
        } else {
            Some(away())
        };
        let version = if connected { api.client().server_info().version } else { String::new() };
        FabricState {
            connected,
            servers: self.met.seen(&self.servers, connected, &version),
            version,
            sync_always: seen.sync_always,
            streams: seen.streams,
            trouble,
        }
    }
}

/// Looks at streams, monitors and servers.
pub async fn look(shared: &Arc<Shared>) -> Look {
    let (asking, meeting) = (Arc::clone(shared), Arc::clone(shared));
    let told = tokio::task::spawn_blocking(move || monitor::ask_all(&asking.looked.monitors));
    let met = tokio::task::spawn_blocking(move || meeting.looked.met.look(&meeting.looked.servers));
    // What comes later than this is there at the next look.
    let (told, met) = (tokio::time::timeout(ASIDE_MAX, told), tokio::time::timeout(ASIDE_MAX, met));
    let (told, _, listed) = tokio::join!(told, met, shared.streams.list(&shared.api, ASIDE_MAX));
    let sync_always = told.ok().and_then(Result::ok).flatten().map(|told| told.sync_always);
    match listed {
        Ok(all) => {
            Look { streams: all.into_iter().map(|info| info.fill).collect(), sync_always, trouble: None }
        }
        Err(trouble) => Look { trouble: Some(trouble.to_string()), sync_always, ..Look::default() },
    }
}

fn warning(streams: &[StreamFill], sync_always: Option<bool>) -> Option<String> {
    let is_nearly_full =
        |fill: &&StreamFill| fill.bytes_max > 0 && fill.bytes / (fill.bytes_max / 100).max(1) >= NEARLY_FULL;
    if let Some(fill) = streams.iter().find(is_nearly_full) {
        return Some(format!(
            "stream {} is nearly full: {} of {} MiB; look which of its readers is behind",
            fill.name,
            fill.bytes >> 20,
            fill.bytes_max >> 20
        ));
    }
    (sync_always == Some(false)).then(|| {
        "a NATS server acknowledges before it writes to disk; set sync_interval: always in its jetstream section"
            .to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_stream_and_lazy_writing_are_said() {
        let fill = |bytes| StreamFill { name: "S".into(), messages: 1, bytes, bytes_max: 1000 };
        assert_eq!(warning(&[fill(899)], Some(true)), None);
        assert_eq!(warning(&[fill(0)], None), None);
        assert!(warning(&[fill(0), fill(900)], Some(true)).unwrap().contains("S is nearly full"));
        assert!(warning(&[], Some(false)).unwrap().contains("sync_interval"));
        assert_eq!(warning(&[StreamFill { bytes: 9, ..StreamFill::default() }], None), None);
    }
}
