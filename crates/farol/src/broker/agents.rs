//! Calls to single nodes: copies of pages from their archives, logs to be sent again, health.

use super::RemoteIndex;
use super::table::TableSource;
use crate::handles::replicas::AskAgain;
use crate::wire::v1::node::{CopyRequest, Health, Resend, WireCopy};
use crate::wire::v1::verb;
use crate::wire::values::position;
use farol_base::{CanonicalUrl, PagePosition};
use farol_query::scatter::ReplicaNo;
use farol_rpc::{CallError, CallerHandle, Peer};
use farol_store::pages::Exchange;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How long a node may take for an order.
const ORDER_MAX: Duration = Duration::from_secs(2);

impl RemoteIndex {
    /// A page as it was fetched, from the agent that has it; `None` where none of those that answer does.
    ///
    /// All agents are asked: a position says where in an archive a page is, not in whose.
    pub fn copy(&self, url: &CanonicalUrl, at: PagePosition) -> Result<Option<Exchange>, String> {
        let table = self.table();
        let deadline = Instant::now() + self.settings.deadline;
        let request = CopyRequest { url: url.to_string(), position: position(at) };
        let peers = table.agents.iter().filter_map(|agent| table.peers.get(agent).cloned());
        let mut calls = JoinSet::new();
        self.caller.block_on(async {
            for peer in peers {
                let (client, request) = (self.caller.client().clone(), request.clone());
                calls.spawn(async move { client.call(&peer, verb::COPY, &request, deadline).await });
            }
            let mut trouble = None;
            while let Some(ended) = calls.join_next().await {
                let answer: Result<Option<WireCopy>, CallError> = match ended {
                    Ok(answer) => answer,
                    Err(error) => return Err(error.to_string()),
                };
                match answer {
                    Ok(Some(copy)) => return copy.read(url).map(Some).map_err(|error| error.to_string()),
                    Ok(None) => {}
                    Err(error) => trouble = Some(error),
                }
            }
            match trouble {
                Some(error) => Err(format!("the node that may have it does not answer: {error}")),
                None => Ok(None),
            }
        })
    }
}

impl RemoteIndex {
    /// Asks all agents the same, each within `time`; those that answer, in the order of their answers.
    pub fn ask_agents<Req, Resp>(&self, verb: &'static str, request: &Req, time: Duration) -> Vec<Resp>
    where
        Req: Serialize + Clone + Send + Sync + 'static,
        Resp: DeserializeOwned + Send + 'static,
    {
        let table = self.table();
        let deadline = Instant::now() + time;
        let peers = table.agents.iter().filter_map(|agent| table.peers.get(agent).cloned());
        let mut calls = JoinSet::new();
        self.caller.block_on(async {
            for peer in peers {
                let (client, request) = (self.caller.client().clone(), request.clone());
                calls.spawn(async move { client.call(&peer, verb, &request, deadline).await });
            }
            let mut answers = Vec::new();
            while let Some(ended) = calls.join_next().await {
                let answer: Result<Result<Resp, CallError>, _> = ended;
                match answer {
                    Ok(Ok(answer)) => answers.push(answer),
                    Ok(Err(error)) => tracing::info!(%error, verb, "an agent does not answer"),
                    Err(error) => tracing::warn!(%error, verb, "a call broke down"),
                }
            }
            answers
        })
    }
}

/// How a node is.
pub fn health(caller: &CallerHandle, peer: &Peer) -> Result<Health, CallError> {
    caller.call(peer, verb::HEALTH, &(), Instant::now() + ORDER_MAX)
}

/// How replicas ask a node to send again what their log lacks. An order that gets lost is repeated by the replica.
pub fn ask_again(table: TableSource, caller: CallerHandle) -> AskAgain {
    Arc::new(move |node, topic, from| {
        let Some(peer) = table().peers.get(&ReplicaNo(u32::from(node.0))).cloned() else {
            tracing::info!(node = node.0, %topic, "a node that should send again has no address");
            return;
        };
        let request = Resend { topic: topic.to_string(), from: position(from) };
        let answer: Result<(), CallError> =
            caller.call(&peer, verb::RESEND, &request, Instant::now() + ORDER_MAX);
        if let Err(error) = answer {
            tracing::info!(%error, %topic, "a node could not be asked to send again");
        }
    })
}
