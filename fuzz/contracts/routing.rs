//! Any bytes as a routing table, which another node may send: as they are, and under a right checksum.
//!
//! Contract: reading fails with an error or gives a table that says the same after it was written and read
//! again; a router made of it leads to destinations that there are.

use farol_base::fingerprint::hash64;
use farol_partition::RoutingTable;
use farol_partition::table::{Route, Router, binary};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub fn check(bytes: &[u8]) {
    let head = [b"FAROLRTE".as_slice(), &1u32.to_le_bytes(), bytes].concat();
    let sum = hash64(&head).to_le_bytes();
    for file in [bytes.to_vec(), [&head[..], &sum].concat()] {
        let Ok(table) = binary::read(&file) else { continue };
        assert_eq!(binary::read(&binary::write(&table)).as_ref().ok(), Some(&table));
        route(&table);
    }
}

fn route(table: &RoutingTable) {
    let mut shorter = table.clone();
    shorter.aggregate();
    let routers = [Router::new(table), Router::new(&shorter)];
    let mut addresses =
        vec![None, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), Some(IpAddr::V6(Ipv6Addr::LOCALHOST))];
    addresses.extend(
        table.blocks.keys().take(4).map(|block| Some(IpAddr::V6(block.range().0.into()).to_canonical())),
    );
    for address in addresses {
        let [first, second] = routers.each_ref().map(|router| router.route_host("http://h", address));
        assert_eq!(first, second, "{address:?}");
        if let Route::To(owner) = first {
            assert!((owner as usize) < table.destinations.len());
        }
    }
}
