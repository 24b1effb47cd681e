//! The fabric of a cluster: NATS with JetStream.
//!
//! [`Nats::connect`] looks at the server before it writes anything (`connect`); `streams` are made when they are
//! first used; `log` and `table` ask and read by `api` and `reader`; [`server`] writes configurations for
//! servers, finds the program, and runs it for who tries a cluster out.
//!
//! INVARIANT: every call ends within its own time, whatever the servers do. It owns a runtime of one thread, so callers
//! may be threads of any kind; they wait.

mod api;
mod backoff;
mod connect;
mod log;
mod monitor;
mod options;
mod reader;
pub mod server;
mod servers;
mod state;
mod streams;
mod table;

pub use connect::{ConnectError, VERSION_MIN};
pub use options::{COPIES, LOG_BYTES_MAX, NatsOptions, Servers};

use crate::waiting::wait_for;
use crate::watch::HearingFeed;
use crate::{Away, Fabric, FabricState, Hearing, Lost, Read, Refused, Revision, Seq, Topic, Watch};
use api::Api;
use bytes::Bytes;
use futures_util::StreamExt;
use state::{Look, Looked};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use streams::Streams;
use tokio::runtime::Runtime;

/// A node's connection to NATS.
pub struct Nats {
    shared: Arc<Shared>,
    /// `Some` until dropped.
    runtime: Option<Runtime>,
}

/// What calls share.
struct Shared {
    api: Api,
    streams: Streams,
    logs: log::Logs,
    looked: Looked,
}

/// What a call may take beyond the times of its parts, before it is given up: a sum of a few of them.
const GIVE_UP: Duration = Duration::from_secs(30);

impl Nats {
    /// Connects and checks the server; writes nothing.
    ///
    /// # Errors
    ///
    /// One sentence on what is wrong and what to do.
    pub fn connect(options: &NatsOptions) -> Result<Nats, ConnectError> {
        let servers = Servers::parse(&options.join).map_err(ConnectError)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("nats")
            .enable_all()
            .build()
            .map_err(|error| ConnectError(format!("no thread for the connection to NATS: {error}")))?;
        let monitors =
            if options.monitors.is_empty() { servers.monitors() } else { options.monitors.clone() };
        let mut streams = Streams {
            cluster: options.cluster.clone(),
            copies: options.copies.max(1),
            log_bytes_max: options.log_bytes_max,
            store_bytes: None,
        };
        let options = options.clone();
        let (nodes, asked) = (servers.clone(), monitors.clone());
        let connected = wait_for(&runtime, Duration::from_secs(120), async move {
            let api = Api::new(connect::connect(&options, &nodes).await?);
            connect::wait_for_jetstream(&api, &nodes).await?;
            let told = tokio::task::spawn_blocking(move || monitor::ask_all(&asked)).await.ok().flatten();
            streams.store_bytes = told.map(|told| told.store_bytes);
            streams.check_room(&api, 0).await.map_err(ConnectError)?;
            Ok((api, streams))
        });
        let given_up = || Err(ConnectError("NATS keeps this node waiting; look at its log".to_string()));
        let connected = connected.unwrap_or_else(given_up);
        let (api, streams) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let looked = Looked::new(servers, monitors);
        let shared = Shared { api, streams, logs: log::Logs::default(), looked };
        Ok(Nats { shared: Arc::new(shared), runtime: Some(runtime) })
    }

    /// Makes the tables anew and empty, with revisions from `first` on. Only for tables that were lost: what is there of
    /// them is deleted.
    ///
    /// # Errors
    ///
    /// One sentence on what was not done.
    pub fn renew_tables(&self, first: u64) -> Result<(), String> {
        let renewed = self.call(Duration::from_secs(60), |shared| async move {
            shared.streams.renew_tables(&shared.api, first).await.map_err(|trouble| trouble.to_string())
        });
        renewed.unwrap_or_else(|| Err(gave_up()))
    }

    /// Runs a call on the own runtime and waits for it, up to `limit`.
    fn call<T, F>(&self, limit: Duration, call: impl FnOnce(Arc<Shared>) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        wait_for(self.runtime.as_ref()?, limit, call(Arc::clone(&self.shared)))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Option<tokio::task::AbortHandle> {
        Some(self.runtime.as_ref()?.spawn(task).abort_handle())
    }
}

fn gave_up() -> String {
    "NATS keeps this node waiting".to_string()
}

impl Fabric for Nats {
    fn append(&self, topic: &Topic, bytes: &[u8]) -> Result<Seq, Refused> {
        crate::check_batch(bytes).map_err(Refused::Away)?;
        let (topic, bytes) = (*topic, Bytes::copy_from_slice(bytes));
        let appended = self.call(GIVE_UP, |shared| async move {
            log::append(&shared.api, &shared.streams, &topic, bytes).await
        });
        appended.unwrap_or_else(|| Err(Refused::Away(gave_up())))
    }

    fn read(&self, topic: &Topic, after: Seq, max: usize, wait: Duration) -> Result<Read, Away> {
        let topic = *topic;
        let read = self.call(wait + GIVE_UP, |shared| async move {
            shared.logs.read(&shared.api, &shared.streams, &topic, after.0, max, wait).await
        });
        read.unwrap_or_else(|| Err(Away(gave_up())))
    }

    fn trim(&self, topic: &Topic, upto: Seq) -> Result<(), Away> {
        let topic = *topic;
        let trimmed = self.call(GIVE_UP, |shared| async move {
            log::trim(&shared.api, &shared.streams, &topic, upto).await
        });
        trimmed.unwrap_or_else(|| Err(Away(gave_up())))
    }

    fn get(&self, key: &str) -> Result<Option<(Bytes, Revision)>, Away> {
        crate::check_key(key).map_err(Away)?;
        let key = key.to_string();
        let got =
            self.call(GIVE_UP, |shared| async move { table::get(&shared.api, &shared.streams, &key).await });
        got.unwrap_or_else(|| Err(Away(gave_up())))
    }

    fn set(&self, key: &str, value: &[u8], expected: Revision) -> Result<Revision, Lost> {
        crate::check_value(key, value).map_err(Lost::Unknown)?;
        let (key, value) = (key.to_string(), Bytes::copy_from_slice(value));
        let set = self.call(GIVE_UP, |shared| async move {
            table::set(&shared.api, &shared.streams, &key, value, expected).await
        });
        set.unwrap_or_else(|| Err(Lost::Unknown(gave_up())))
    }

    fn delete(&self, key: &str, expected: Revision) -> Result<(), Lost> {
        crate::check_key(key).map_err(Lost::Unknown)?;
        if expected == Revision::NONE {
            // There is nothing to remove, whoever is right about it.
            return Err(Lost::Conflict);
        }
        let key = key.to_string();
        let deleted = self.call(GIVE_UP, |shared| async move {
            table::delete(&shared.api, &shared.streams, &key, expected).await
        });
        deleted.unwrap_or_else(|| Err(Lost::Unknown(gave_up())))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Bytes, Revision)>, Away> {
        let prefix = prefix.to_string();
        let listed = self
            .call(GIVE_UP, |shared| async move { table::list(&shared.api, &shared.streams, &prefix).await });
        listed.unwrap_or_else(|| Err(Away(gave_up())))
    }

    fn watch(&self, prefix: &str) -> Watch {
        let (watch, feed) = Watch::new();
        let (api, streams) = (self.shared.api.clone(), self.shared.streams.clone());
        match self.spawn(table::follow(api, streams, prefix.to_string(), feed)) {
            Some(task) => watch.stopping(move || task.abort()),
            None => watch,
        }
    }

    fn say(&self, subject: &str, bytes: &[u8]) {
        let (subject, bytes) = (said(&self.shared, subject), Bytes::copy_from_slice(bytes));
        let client = self.shared.api.client().clone();
        // Without a connection it would be kept and said too late.
        if client.connection_state() == async_nats::connection::State::Connected {
            self.spawn(async move {
                if let Err(error) = client.publish(subject, bytes).await {
                    tracing::debug!(%error, "something said was lost");
                }
            });
        }
    }

    fn hear(&self, subject: &str) -> Hearing {
        let (hearing, feed) = Hearing::new();
        let task = self.spawn(listen(Arc::clone(&self.shared), said(&self.shared, subject), feed));
        match task {
            Some(task) => hearing.stopping(move || task.abort()),
            None => hearing,
        }
    }

    fn state(&self) -> FabricState {
        let looked = &self.shared.looked;
        if looked.is_old() {
            let seen = self.call(state::LOOK_MAX, |shared| async move { state::look(&shared).await });
            looked.keep(seen.unwrap_or_else(Look::nothing));
        }
        looked.state(&self.shared.api)
    }
}

/// The subject of what is said.
fn said(shared: &Shared, subject: &str) -> String {
    format!("farol.{}.say.{subject}", shared.streams.cluster)
}

/// Hears a subject until nobody listens; the client subscribes again after each reconnect.
async fn listen(shared: Arc<Shared>, subject: String, feed: HearingFeed) {
    let mut backoff = backoff::Backoff::default();
    loop {
        if let Ok(mut subscriber) = shared.api.client().subscribe(subject.clone()).await {
            backoff.reset();
            while let Some(message) = subscriber.next().await {
                if !feed.offer(message.payload) {
                    return;
                }
            }
        }
        tokio::time::sleep(backoff.next_rest()).await;
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
