//! What all handlers share, and the one way in which they ask the engine.

use crate::admin::session::Sessions;
use crate::failure::Failure;
use crate::limit::Limiter;
use crate::request_metrics::RequestMetrics;
use crate::routes::Route;
use crate::server::Connections;
use crate::{CALLS_MAX, Engine, Settings, trace};
use farol_base::trace::Trace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Wrong tokens that one client may send per minute; as many may come at once.
const WRONG_TOKENS_PER_MINUTE: u32 = 10;

pub(crate) struct Shared {
    engine: Arc<dyn Engine>,
    pub settings: Settings,
    /// The engine is a member of a cluster.
    pub in_cluster: bool,
    /// The engine shares with engines of other owners.
    pub in_federation: bool,
    calls: Arc<Semaphore>,
    /// Questions per client.
    pub limiter: Limiter,
    /// Wrong tokens per client.
    pub wrong_tokens: Limiter,
    pub sessions: Sessions,
    pub request_metrics: RequestMetrics,
    pub connections: Connections,
    /// The operator was told of a proxy that the settings do not know.
    told_of_proxy: AtomicBool,
    started: Instant,
}

impl Shared {
    pub fn new(engine: Arc<dyn Engine>, mut settings: Settings, routes: Vec<Route>) -> Shared {
        settings.results_per_page = settings.results_per_page.clamp(1, 50);
        Shared {
            in_cluster: engine.cluster().is_some(),
            in_federation: engine.federation().is_some(),
            engine,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            limiter: Limiter::new(settings.rate_per_minute),
            wrong_tokens: Limiter::new(WRONG_TOKENS_PER_MINUTE),
            sessions: Sessions::new(),
            request_metrics: RequestMetrics::new(routes),
            connections: Connections::new(settings.connections_max),
            told_of_proxy: AtomicBool::new(false),
            started: Instant::now(),
            settings,
        }
    }

    /// Says once that requests come through a proxy while limits are kept as if they did not.
    pub fn tell_of_proxy(&self) {
        if !self.told_of_proxy.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "requests come through a proxy, and all visitors share its limits; set trust_forwarded = true under \
                 [serve] if the proxy is yours and writes X-Forwarded-For"
            );
        }
    }

    /// Time since the front was built: the clock of limits and sessions.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Runs a call to the engine on a thread that may block.
    ///
    /// A call that outlives the deadline goes on by itself and keeps its place among the [`CALLS_MAX`], so a
    /// stuck engine fills up with at most that many and everybody else is told at once that it is busy.
    pub async fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Engine) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (calls, engine, trace) = (self.calls.clone(), self.engine.clone(), trace::current());
        let work = async {
            let place = calls.acquire_owned().await.map_err(|_| Failure::busy())?;
            let answer = tokio::task::spawn_blocking(move || {
                let _place = place;
                let _entered = trace.map(Trace::enter);
                call(&*engine)
            });
            answer.await.map_err(|error| {
                tracing::error!(%error, "a call to the engine broke off");
                Failure::internal()
            })
        };
        tokio::time::timeout(self.settings.deadline, work).await.unwrap_or_else(|_| Err(Failure::busy()))
    }
}
