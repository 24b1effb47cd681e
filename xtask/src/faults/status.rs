//! What a front tells of the cluster, and whether that is a whole one.

use crate::json::Json;
use std::time::Instant;

/// A replica that is further behind has not caught up.
const LAG_MAX_SECONDS: f64 = 2.0;
/// What a node wrote may take so long until a front has heard of it.
const HEARSAY_SECONDS: f64 = 1.0;

/// The answer of `/api/v1/cluster`.
pub struct Status {
    pub json: Json,
    /// When it was asked for.
    pub asked: Instant,
}

impl Status {
    fn nodes(&self) -> &[Json] {
        self.json.get("nodes").list()
    }

    /// Shards that are asked, or will be.
    fn shards(&self) -> impl Iterator<Item = &Json> {
        self.json.get("shards").list().iter().filter(|shard| shard.get("state").text() != "retired")
    }

    /// What a node of this name is: `up`, `dead` and so on; empty where nobody knows it.
    pub fn state_of(&self, name: &str) -> &str {
        let node = self.nodes().iter().find(|node| node.get("name").text() == name);
        node.map_or("", |node| node.get("state").text())
    }

    pub fn nodes_up(&self) -> usize {
        self.nodes().iter().filter(|node| node.get("state").text() == "up").count()
    }

    pub fn shard_count(&self) -> usize {
        self.shards().filter(|shard| shard.get("state").text() == "serving").count()
    }

    /// Pages of all shards, each counted once.
    pub fn pages(&self) -> u64 {
        self.shards().map(|shard| shard.get("pages").number() as u64).sum()
    }

    /// Which table says who crawls what.
    pub fn epoch(&self) -> u64 {
        self.json.get("route.epoch").number() as u64
    }

    /// Whether all agents go by it.
    pub fn is_settled(&self) -> bool {
        *self.json.get("route.settled") == Json::Bool(true)
    }

    pub fn agents(&self) -> usize {
        self.json.get("agents").list().len()
    }

    /// What the cluster says needs a look.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = self.json.get("warnings").list().iter();
        warnings.map(|warning| warning.get("text").text().to_string()).collect()
    }

    /// Who leads, and its term.
    pub fn leader(&self) -> Option<(String, u64)> {
        let leader = self.json.get("leader");
        let name = self.name_of(leader.get("node").text())?;
        Some((name, leader.get("term").number() as u64))
    }

    fn name_of(&self, id: &str) -> Option<String> {
        let node = self.nodes().iter().find(|node| !id.is_empty() && node.get("id").text() == id)?;
        Some(node.get("name").text().to_string())
    }

    /// Names of the nodes that have a replica of a shard.
    pub fn holders(&self, shard: u32) -> Vec<String> {
        let shard = self.shards().find(|entry| entry.get("id").number() == f64::from(shard));
        let replicas = shard.map_or(&[][..], |shard| shard.get("replicas").list());
        replicas.iter().filter_map(|replica| self.name_of(replica.get("node").text())).collect()
    }

    /// Whether a node is up and wrote so after it was started.
    pub fn is_heard(&self, name: &str, started: Instant) -> bool {
        let runs = self.asked.saturating_duration_since(started).as_secs_f64();
        let is_back = |node: &Json| {
            node.get("state").text() == "up" && node.get("silent_seconds").number() + HEARSAY_SECONDS < runs
        };
        self.nodes().iter().any(|node| node.get("name").text() == name && is_back(node))
    }

    /// Whether somebody leads, and each shard has so many replicas that answer, have caught up and hold the same number
    /// of pages; and so many pages in all, where that is known.
    pub fn is_whole(&self, replicas: usize, pages: Option<u64>) -> bool {
        let is_good = |shard: &Json, replica: &Json| {
            replica.get("state").text() == "serving"
                && replica.get("lag_seconds").number() < LAG_MAX_SECONDS
                && replica.get("pages") == shard.get("pages")
        };
        let is_served = |shard: &Json| {
            let list = shard.get("replicas").list();
            shard.get("state").text() == "serving"
                && list.len() == replicas
                && list.iter().all(|replica| is_good(shard, replica))
        };
        self.leader().is_some()
            && self.shards().count() > 0
            && self.shards().all(is_served)
            && pages.is_none_or(|pages| pages == self.pages())
    }

    /// In a few words, for whoever waits in vain.
    pub fn told(&self) -> String {
        let nodes = self.nodes().iter().map(|node| {
            format!(
                "{} {} silent {:.0} s",
                node.get("name").text(),
                node.get("state").text(),
                node.get("silent_seconds").number()
            )
        });
        let shards = self.shards().map(|shard| {
            let replicas = shard.get("replicas").list().iter().map(|replica| {
                let name = self.name_of(replica.get("node").text()).unwrap_or_default();
                let (state, pages) = (replica.get("state").text(), replica.get("pages").number());
                format!("{name} {state} {pages} lag {:.1} s", replica.get("lag_seconds").number())
            });
            let (id, state) = (shard.get("id").number(), shard.get("state").text());
            format!("shard {id} {state}: {}", replicas.collect::<Vec<_>>().join(", "))
        });
        nodes.chain(shards).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn status(state: &str, lag: f64, pages: u64) -> Status {
        let text = format!(
            r#"{{"leader":{{"node":"a","term":7}},
            "nodes":[{{"id":"a","name":"index-1","state":"up","silent_seconds":3}}],
            "warnings":[{{"text":"a log fills up","advice":"more room"}}],
            "shards":[{{"id":0,"state":"retired"}},{{"id":1,"state":"serving","pages":9,"replicas":[
              {{"node":"a","state":"serving","lag_seconds":0.1,"pages":9}},
              {{"node":"b","state":"{state}","lag_seconds":{lag},"pages":{pages}}}]}}]}}"#
        );
        Status { json: Json::read(&text).unwrap(), asked: Instant::now() }
    }

    #[test]
    fn a_whole_cluster_lacks_nothing() {
        assert!(status("serving", 0.2, 9).is_whole(2, Some(9)));
        assert!(!status("joining", 0.2, 9).is_whole(2, None));
        assert!(!status("serving", 5.0, 9).is_whole(2, None));
        assert!(!status("serving", 0.2, 8).is_whole(2, None));
        assert!(!status("serving", 0.2, 9).is_whole(2, Some(10)));
        assert!(!status("serving", 0.2, 9).is_whole(3, None));
    }

    #[test]
    fn names_are_found() {
        let status = status("serving", 0.0, 9);
        assert_eq!((status.state_of("index-1"), status.state_of("index-2")), ("up", ""));
        assert_eq!(status.leader(), Some(("index-1".to_string(), 7)));
        assert_eq!((status.nodes_up(), status.shard_count(), status.holders(1).len()), (1, 1, 1));
        assert_eq!(status.warnings(), ["a log fills up"]);
        // Its record is three seconds old.
        let ago = |seconds| status.asked.checked_sub(Duration::from_millis(seconds)).unwrap();
        assert!(status.is_heard("index-1", ago(4100)));
        assert!(!status.is_heard("index-1", ago(3900)));
    }
}
