//! The cache service as people are shown it: the ring as it was published, with what its leader told of the nodes.

use crate::handles::cluster::ClusterView;
use crate::ring::records::NodeLine;
use crate::ring::tables::RingView;
use farol_base::Timestamp;
use farol_cache::NodeId;
use farol_cache::tables::RingDoc;
use farol_front::{RingBurst, RingChange, RingHot, RingMember, RingStatus};
use std::time::Duration;

/// Puts together what is known; `None` where there is no ring. `asked`: whether the front that tells this asks a node.
pub fn ring_status_of(
    tables: &RingView,
    view: &ClusterView,
    asked: impl Fn(NodeId) -> Option<bool>,
) -> Option<RingStatus> {
    let ring = tables.ring.as_ref()?;
    let told = tables.caches.as_deref().cloned().unwrap_or_default();
    let name = |no: u16| {
        let node = view.nodes.values().find(|node| node.no.is_some_and(|known| known.0 == no));
        node.map_or_else(String::new, |node| node.name.clone())
    };
    let names = |numbers: &[u16]| -> Vec<String> {
        let shown = |no: &u16| Some(name(*no)).filter(|name| !name.is_empty()).unwrap_or(format!("#{no}"));
        numbers.iter().map(shown).collect()
    };
    let member = |node: NodeId, line: Option<&NodeLine>| {
        let line = line.cloned().unwrap_or_default();
        let (share, end) = range_of(ring, node);
        RingMember {
            no: node.0,
            name: name(node.0),
            is_on_ring: ring.ring.contains(node),
            is_asked: asked(node),
            share,
            end,
            per_second: line.per_second,
            hit_rate: line.hit_rate,
            lookups: line.lookups,
            hits: line.hits,
            adopted: line.adopted,
            inserts: line.inserts,
            protects: line.protects,
            handed: line.handed,
            entries: line.entries,
            bytes: line.bytes,
            busy: f64::from(line.busy) / 1000.0,
            silent: Duration::from_millis(line.silent_ms),
        }
    };
    let line = |node: NodeId| told.nodes.iter().find(|line| line.no == node.0);
    let on_ring = ring.ring.nodes().map(|node| member(node, line(node)));
    let others = told.nodes.iter().filter(|line| !ring.ring.contains(NodeId(line.no)));
    let nodes = on_ring.chain(others.map(|line| member(NodeId(line.no), Some(line)))).collect();
    Some(RingStatus {
        term: ring.epoch.term,
        version: ring.epoch.version,
        hot_version: tables.hot.as_ref().map_or(0, |hot| hot.epoch.version),
        told: (told.at > 0).then(|| Timestamp::from_millis(told.at)),
        fronts: u64::from(told.fronts),
        efficiency: told.efficiency,
        hit_rate: told.hit_rate,
        nodes,
        hot: told
            .hot
            .iter()
            .map(|hot| RingHot {
                text: hot.text.clone(),
                nodes: hot.nodes as u64,
                count: u64::from(hot.count),
                severity: hot.severity,
            })
            .collect(),
        bursts: told
            .bursts
            .iter()
            .map(|burst| RingBurst {
                at: Timestamp::from_millis(burst.at),
                text: burst.text.clone(),
                severity: burst.severity,
            })
            .collect(),
        changes: told
            .changes
            .iter()
            .map(|change| RingChange {
                at: Timestamp::from_millis(change.at),
                version: change.version,
                joined: names(&change.joined),
                left: names(&change.left),
                moved: change.moved,
            })
            .collect(),
    })
}

/// A node's share of the circle, and where its range ends, both from 0 to 1.
fn range_of(ring: &RingDoc, node: NodeId) -> (f64, f64) {
    match ring.ring.place(node) {
        Some(place) => (ring.ring.width(place), ring.ring.ends()[place].0 as f64 / 2f64.powi(64)),
        None => (0.0, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::records::{CachesRecord, ChangeLine};
    use farol_cache::Ring;
    use farol_cache::tables::{Epoch, RingNode};
    use farol_cluster::{NodeNo, NodeRecord};
    use std::sync::Arc;

    #[test]
    fn nodes_have_their_ranges_their_names_and_what_was_told_of_them() {
        let mut view = ClusterView::new(farol_cluster::NodeId(0));
        assert_eq!(ring_status_of(&RingView::default(), &view, |_| None), None);
        let mut record = NodeRecord::new(farol_cluster::NodeId(5), "opal", "127.0.0.1:1".parse().unwrap());
        record.no = Some(NodeNo(1));
        view.nodes.insert(record.id, record);
        let nodes = [0, 1].map(|id| RingNode { id: NodeId(id), incarnation: 1, capacity: 1000 }).to_vec();
        let epoch = Epoch { term: 7, version: 9 };
        let ring = RingDoc { epoch, seed: 3, nodes, ring: Ring::equal(2) };
        let line = |no, lookups| NodeLine { no, lookups, ..NodeLine::default() };
        let change = ChangeLine { joined: vec![1], left: vec![4], ..ChangeLine::default() };
        let told = CachesRecord {
            nodes: vec![line(1, 70), line(4, 5)],
            changes: vec![change],
            at: 1,
            ..CachesRecord::default()
        };
        let tables = RingView { ring: Some(Arc::new(ring)), hot: None, caches: Some(Arc::new(told)) };
        let status = ring_status_of(&tables, &view, |node| Some(node.0 == 1)).unwrap();
        let shown: Vec<_> =
            status.nodes.iter().map(|node| (node.no, &*node.name, node.is_on_ring, node.lookups)).collect();
        assert_eq!(shown, [(0, "", true, 0), (1, "opal", true, 70), (4, "", false, 5)]);
        assert!((status.nodes[1].share - 0.5).abs() < 1e-9 && status.nodes[1].end > 0.99);
        assert_eq!((status.term, status.version), (7, 9));
        assert_eq!(
            (&status.changes[0].joined[..], &status.changes[0].left[..]),
            (&["opal".to_string()][..], &["#4".to_string()][..])
        );
    }
}
