//! `farol cluster doctor`: looks for what is wrong, and says what to do about it.

use super::place::ClusterPlace;
use crate::broker::health;
use crate::cluster::calls::Calls;
use crate::cluster::door::Door;
use crate::cluster::identity;
use crate::cluster::node::read_tls;
use crate::config::Config;
use crate::progress::size;
use crate::wire::WIRE;
use anyhow::Result;
use farol_cluster::NodeRecord;
use farol_cluster::record::Role;
use farol_cluster::version;
use farol_fabric::Fabric;
use farol_fabric::blobs::Blobs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// What was found of one thing.
enum Diagnosis {
    Fine(String),
    /// What is wrong, and what to do.
    Wrong(String),
}

pub fn run(place: &ClusterPlace) -> Result<ExitCode> {
    let config = place.settings()?;
    let mut findings = Vec::new();
    let connected = Door::connect(&config);
    match &connected {
        Ok(door) => look_at_fabric(door, &mut findings),
        Err(error) => findings.push(Diagnosis::Wrong(format!("{error:#}"))),
    }
    if let Ok(door) = &connected {
        look_at_nodes(door, &config, &place.data, &mut findings);
    }
    look_at_blobs(&config, &mut findings);
    look_at_certificates(&config, place, &mut findings);
    let mut out = std::io::stdout();
    for finding in &findings {
        match finding {
            Diagnosis::Fine(text) => writeln!(out, "fine: {text}")?,
            Diagnosis::Wrong(text) => writeln!(out, "WRONG: {text}")?,
        }
    }
    let is_well = findings.iter().all(|finding| matches!(finding, Diagnosis::Fine(_)));
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn look_at_fabric(door: &Door, findings: &mut Vec<Diagnosis>) {
    let state = door.fabric.state();
    findings.push(Diagnosis::Fine(format!("NATS {} with JetStream answers", state.version)));
    findings.extend(state.servers.iter().map(|server| match server.is_reached {
        true => Diagnosis::Fine(format!("the NATS server {} {} answers", server.address, server.name)),
        false => Diagnosis::Wrong(format!(
            "the NATS server {} does not answer; the others carry on while they are more than half: start it again",
            server.address
        )),
    }));
    findings.push(match state.sync_always {
        Some(true) => Diagnosis::Fine("NATS writes to disk before it acknowledges".to_string()),
        Some(false) => Diagnosis::Wrong(
            "NATS acknowledges before it writes to disk; set sync_interval: always, as `farol cluster nats-config` \
             prints it"
                .to_string(),
        ),
        None => Diagnosis::Fine("whether NATS writes before it acknowledges is not told: its monitor does not answer".to_string()),
    });
    if let Some(trouble) = state.trouble {
        findings.push(Diagnosis::Wrong(trouble));
    }
    for stream in &state.streams {
        let is_full = stream.bytes_max > 0 && stream.bytes * 10 > stream.bytes_max * 8;
        let text =
            format!("the log {} holds {} of {}", stream.name, size(stream.bytes), size(stream.bytes_max));
        findings.push(match is_full {
            true => {
                Diagnosis::Wrong(format!("{text}: look which replica is behind with `farol cluster status`"))
            }
            false => Diagnosis::Fine(text),
        });
    }
}

fn look_at_nodes(door: &Door, config: &Config, folder: &Path, findings: &mut Vec<Diagnosis>) {
    let nodes = match door.enter().and_then(|_| door.nodes()) {
        Ok(nodes) => nodes,
        Err(error) => return findings.push(Diagnosis::Wrong(format!("{error:#}"))),
    };
    let there: Vec<&NodeRecord> = nodes.iter().filter(|node| !node.state.is_gone()).collect();
    let calls = match Calls::new(config, folder) {
        Ok(calls) => calls,
        Err(error) => return findings.push(Diagnosis::Wrong(format!("{error:#}"))),
    };
    for node in &there {
        let fits = version::check(WIRE, &node.name, &node.program, node.wire);
        let answered =
            fits.map_err(anyhow::Error::msg).and_then(|_| Ok(health(calls.caller(), &calls.peer(node)?)?));
        match answered {
            Ok(health) => {
                let shards = health.shards.len();
                let text = format!(
                    "{} answers at {}: farol {}, shards here: {shards}",
                    node.name, node.rpc, health.program
                );
                findings.push(Diagnosis::Fine(text));
                let trouble =
                    health.trouble.iter().map(|text| Diagnosis::Wrong(format!("{}: {text}", node.name)));
                findings.extend(trouble);
            }
            Err(error) => {
                findings.push(Diagnosis::Wrong(format!("{}: {error:#}; look whether it runs", node.name)))
            }
        }
    }
    for (role, what) in [
        (Role::Control, "nobody may lead: start a node with the role control"),
        (Role::Index, "nobody indexes: start nodes with the role index"),
        (Role::Front, "nobody answers people: start a node with the role front"),
        (Role::Crawl, "nobody crawls: start one node with the role crawl"),
    ] {
        if !there.iter().any(|node| node.roles.contains(&role)) {
            findings.push(Diagnosis::Wrong(what.to_string()));
        }
    }
}

fn look_at_blobs(config: &Config, findings: &mut Vec<Diagnosis>) {
    let place = &config.cluster.blobs;
    if place.is_empty() {
        return;
    }
    let probed = Blobs::open(place).and_then(|blobs| blobs.probe());
    findings.push(match probed {
        Ok(()) => Diagnosis::Fine(format!("the shared folder {place} can be written and read here")),
        Err(error) => Diagnosis::Wrong(format!("the shared folder {place}: {error}")),
    });
}

fn look_at_certificates(config: &Config, place: &ClusterPlace, findings: &mut Vec<Diagnosis>) {
    let cluster = &config.cluster;
    if cluster.tls_cert.is_empty() {
        return;
    }
    let looked = || -> Result<String> {
        let id = identity::read_or_draw(&place.data)?;
        read_tls(config, id)?;
        Ok(id.to_string())
    };
    findings.push(match looked() {
        Ok(id) => Diagnosis::Fine(format!("the certificate is that of node {id}")),
        Err(error) => Diagnosis::Wrong(format!("{error:#}")),
    });
}
