//! The thesis' own tables [Exposto08 §3.4.2], and random ones beside a naive look-up.

use super::*;
use farol_base::{CanonicalUrl, Random, Seeded};
use proptest::prelude::*;

/// `0-15/24 16/22` is 193.136.0.0/24 to 193.136.15.0/24, and 193.136.16.0/22.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for word in text.split_whitespace() {
        let (from, length) = word.split_once('/').unwrap();
        let (from, to) = from.split_once('-').unwrap_or((from, from));
        for third in from.parse::<u8>().unwrap()..=to.parse::<u8>().unwrap() {
            blocks.push(format!("193.136.{third}.0/{length}").parse().unwrap());
        }
    }
    blocks
}

/// Table 3.3: what `whois` says of one address 193.136.x.1 for each x.
const J: &str =
    "0-15/24 16/22 20-22/24 24/21 32/21 40/22 44/24 46/23 48/21 56/21 64/22 68/22 72/23 74/24 76/22 80/22";
const K: &str = "84/22 90/23 92/23 94/23 96/21 104/22 108/23 110-119/24 120/21 128/21 136-137/24 138/23 140/23 \
                 142-143/24 144/23 146-151/24 152/22 156/22 160/21 168/21";
const L: &str = "176/21 184-185/24 186/23 188/22 192-193/24 194/23 196/22 200-207/24 208/22 212-215/24 216/22 \
                 220/22 224/22 228/24 230-231/24 232/23 235-239/24 240/21 250/24";

/// Table 3.4.
const J_MERGED: &str =
    "0/20 16/22 20/23 22/24 24/21 32/21 40/22 44/24 46/23 48/20 64/21 72/23 74/24 76/22 80/22";
const K_MERGED: &str = "84/22 90/23 92/22 96/19 128/19 160/20";
const L_MERGED: &str = "176/20 192/19 224/22 228/24 230/23 232/23 235/24 236/22 240/21 250/24";

/// Table 3.5: L between G, H and I. Table 3.6: G between nodes 19, 20 and 21.
const G: &str = "176/20 192/21 200/23 202/24";
const H: &str = "203/24 204/22 208/20 224/22 228/24";
const I: &str = "230/23 232/23 235/24 236/22 240/21 250/24";
const NODE_19: &str = "176/21 184/22";
const NODE_20: &str = "188/22 192/22";
const NODE_21: &str = "196/22 200/23 202/24";

fn table(parts: &[(&str, &str)]) -> RoutingTable {
    let mut table = RoutingTable { unknown: Unknown::Hold, ..RoutingTable::default() };
    for (owner, (name, list)) in parts.iter().enumerate() {
        table.destinations.push(name.to_string());
        table.blocks.extend(blocks(list).into_iter().map(|block| (block, owner as Owner)));
    }
    table
}

fn of(table: &RoutingTable, owner: Owner) -> Vec<Block> {
    table.blocks.iter().filter(|(_, of)| **of == owner).map(|(block, _)| *block).collect()
}

#[test]
fn table_3_3_becomes_table_3_4() {
    assert_eq!((blocks(J).len(), blocks(K).len(), blocks(L).len()), (33, 36, 36));
    let mut table = table(&[("J", J), ("K", K), ("L", L)]);
    table.aggregate();
    for (owner, want) in [(0, J_MERGED), (1, K_MERGED), (2, L_MERGED)] {
        assert_eq!(of(&table, owner), blocks(want));
    }
}

#[test]
fn table_3_3_comes_from_addresses_and_a_registry() {
    let registered: Vec<Block> = [J, K, L].iter().flat_map(|list| blocks(list)).collect();
    let hosts: Vec<(String, IpAddr, Owner)> = (0..=255u8)
        .filter_map(|x| {
            let address = IpAddr::from([193, 136, x, 1]);
            let owner =
                [J, K, L].iter().position(|list| blocks(list).iter().any(|block| block.holds(address)))?;
            Some((format!("http://h{x}.test"), address, owner as Owner))
        })
        .collect();
    assert_eq!(hosts.len(), 242);
    let placed: Vec<Placed<'_>> = hosts
        .iter()
        .map(|(host, address, owner)| Placed { host, address: Some(*address), pages: 1, owner: *owner })
        .collect();
    let builder = Builder { registered, ..Builder::default() };
    let names = ["J", "K", "L"].map(String::from).to_vec();
    let table = builder.build(names, &placed, 1, Unknown::Hold).unwrap();
    for (owner, want) in [(0, J_MERGED), (1, K_MERGED), (2, L_MERGED)] {
        assert_eq!(of(&table, owner), blocks(want));
    }
    assert!(table.hosts.is_empty());
}

#[test]
fn children_condense_to_their_parents() {
    let robots = table(&[("node 19", NODE_19), ("node 20", NODE_20), ("node 21", NODE_21)]);
    let g = robots.condense(&[0, 0, 0], vec!["group G".to_string()]).unwrap();
    assert_eq!(of(&g, 0), blocks(G));
    let l = table(&[("G", G), ("H", H), ("I", I)]).condense(&[0, 0, 0], vec!["group L".to_string()]).unwrap();
    assert_eq!(of(&l, 0), blocks(L_MERGED));
    assert!(robots.condense(&[0], vec!["x".to_string()]).is_err());
    assert!(robots.condense(&[0, 1, 2], vec!["x".to_string()]).is_err());
}

/// Tables 3.7 to 3.9; the address is 193.136.195.224, which the thesis prints with a slip.
#[test]
fn the_walk_of_the_thesis_takes_two_hops() {
    let ipb: IpAddr = "193.136.195.224".parse().unwrap();
    let url = CanonicalUrl::parse("http://www.ipb.pt/").unwrap();
    let go = |table: &RoutingTable| match Router::new(table).route(&url, Some(ipb)) {
        Route::To(owner) => table.destinations[owner as usize].clone(),
        Route::Hold => "nowhere".to_string(),
    };
    let at_1 = table(&[("group J", J_MERGED), ("group K", K_MERGED), ("group L", L_MERGED)]);
    let at_26 = table(&[("group G", G), ("group H", H), ("group I", I)]);
    let at_20 = table(&[("node 19", NODE_19), ("node 20", "188/22 192-193/24 194/23"), ("node 21", NODE_21)]);
    assert_eq!(
        (go(&at_1).as_str(), go(&at_26).as_str(), go(&at_20).as_str()),
        ("group L", "group G", "node 20")
    );
    // The blocks that matched on the way.
    for (table, owner, block) in [(&at_1, 2, "192/19"), (&at_26, 0, "192/21"), (&at_20, 1, "194/23")] {
        assert_eq!(table.by_block(ipb), Some(owner));
        assert!(blocks(block)[0].holds(ipb) && table.blocks.contains_key(&blocks(block)[0]));
    }
    // As printed it would be group K's.
    assert_eq!(at_1.by_block("193.136.95.224".parse().unwrap()), Some(1));
}

#[test]
fn exceptions_are_blocks_where_addresses_agree_and_hosts_where_not() {
    let ip = |last: u8| Some(IpAddr::from([198, 51, 100, last]));
    let place = |host, address, pages, owner| Placed { host, address, pages, owner };
    let placed = [
        place("http://a.test", ip(1), 50, 0),
        place("http://b.test", ip(2), 5, 1),
        place("http://c.test", ip(3), 9, 0),
        place("http://d.test", ip(3), 2, 1),
        place("http://e.test", None, 2, 1),
        place("http://six.test", "2001:db8:0:7::1".parse().ok(), 2, 1),
    ];
    let names = || vec!["zero".to_string(), "one".to_string()];
    let table = Builder::default().build(names(), &placed, 7, Unknown::Hash).unwrap();
    let shown: Vec<String> = table.blocks.iter().map(|(block, owner)| format!("{block} {owner}")).collect();
    assert_eq!(shown, ["198.51.100.0/24 0", "198.51.100.2/32 1", "2001:db8::/48 1"]);
    assert_eq!(table.hosts.len(), 2);
    let router = Router::new(&table);
    for host in &placed {
        assert_eq!(router.route_host(host.host, host.address), Route::To(host.owner), "{}", host.host);
    }
    // A host nobody knows, in a block that is known; one in no block is hashed, always alike.
    assert_eq!(router.route_host("http://new.test", ip(77)), Route::To(0));
    let far = "203.0.113.1".parse().ok();
    assert_eq!(router.route_host("http://x.test", far), router.route_host("http://y.test", far));
    // One parent for all: exceptions vanish, but for the host without an address.
    let parent = table.condense(&[0, 0], vec!["both".to_string()]).unwrap();
    assert_eq!((parent.blocks.len(), parent.hosts.len()), (2, 1));
    // A host that changes its address goes with the address.
    assert_eq!(router.route_host("http://b.test", ip(1)), Route::To(0));
    // Owners that there are not.
    assert!(Builder::default().build(vec![], &placed, 1, Unknown::Hash).is_err());
}

#[test]
fn a_block_of_many_owners_is_halved() {
    let hosts: Vec<(String, u8)> = (0..=255u8).map(|x| (format!("http://h{x}.test"), x)).collect();
    let placed: Vec<Placed<'_>> = hosts
        .iter()
        .map(|(host, x)| Placed {
            host,
            address: Some(IpAddr::from([10, 0, 0, *x])),
            pages: 1,
            owner: u32::from(*x >= 64),
        })
        .collect();
    let names = vec!["a".to_string(), "b".to_string()];
    let table = Builder::default().build(names, &placed, 1, Unknown::Hold).unwrap();
    let shown: Vec<String> = table.blocks.iter().map(|(block, owner)| format!("{block} {owner}")).collect();
    assert_eq!(shown, ["10.0.0.0/24 1", "10.0.0.0/26 0"]);
}

#[test]
fn filters_stand_above_everything() {
    let mut table = table(&[("J", J_MERGED), ("K", K_MERGED)]);
    table.hosts.insert(host_key("http://www.ipb.pt"), Exception { owner: 0, address: None });
    table.filters = vec![
        (Filter::Domain("ipb.pt".to_string()), 1),
        (Filter::Block("193.136.0.0/17".parse().unwrap()), 1),
    ];
    let router = Router::new(&table);
    let at = |third: u8| Some(IpAddr::from([193, 136, third, 9]));
    assert_eq!(router.route_host("http://www.ipb.pt", at(3)), Route::To(1));
    assert_eq!(router.route_host("https://ipb.pt:8443", None), Route::To(1));
    assert_eq!(router.route_host("http://notipb.pt", at(3)), Route::To(1));
    assert_eq!(router.route_host("http://notipb.pt", at(250)), Route::Hold);
    assert_eq!(binary::read(&binary::write(&table)).unwrap(), table);
}

#[test]
fn older_tables_are_refused() {
    let mut router = Router::new(&RoutingTable { version: 5, ..table(&[("J", J)]) });
    assert!(!router.replace(&RoutingTable { version: 5, ..table(&[("K", K)]) }));
    assert!(!router.replace(&RoutingTable { version: 4, ..table(&[("K", K)]) }));
    assert!(router.replace(&RoutingTable { version: 6, ..table(&[("K", K)]) }));
    assert_eq!((router.version(), router.by_address("193.136.0.1".parse().unwrap())), (6, None));
    // A table without any destination holds everything.
    assert_eq!(Router::default().route_host("http://a.test", None), Route::Hold);
}

#[test]
fn damaged_tables_are_refused() {
    let bytes = binary::write(&table(&[("J", J), ("K", K)]));
    assert!(bytes.len() < 8 * 69, "{} bytes", bytes.len());
    for at in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x20;
        assert!(binary::read(&wrong).is_err(), "byte {at}");
        assert!(binary::read(&bytes[..at]).is_err(), "cut at {at}");
    }
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert_eq!(
        binary::read(&newer).unwrap_err().to_string(),
        "the routing table has format 9, this version reads format 1"
    );
}

fn any_table(seed: u64, count: u64) -> RoutingTable {
    let mut random = Seeded::new(seed);
    let mut table =
        RoutingTable { version: seed, destinations: vec!["x".to_string(); 4], ..RoutingTable::default() };
    for _ in 0..count {
        // Few different beginnings, so that blocks nest and touch.
        let block = if random.below(3) > 0 {
            Block::of(
                IpAddr::from([
                    10,
                    random.below(2) as u8,
                    (random.below(4) << 6) as u8,
                    random.below(256) as u8,
                ]),
                (8 + random.below(25)) as u8,
            )
        } else {
            Block::of(
                IpAddr::from([0x2001, 0xdb8, 0, random.below(8) as u16, 0, 0, 0, 1]),
                (32 + random.below(97)) as u8,
            )
        };
        table.blocks.insert(block, random.below(4) as u32);
        let address = (random.below(2) == 0).then(|| IpAddr::from([10, 0, 0, random.below(256) as u8]));
        table.hosts.insert(random.next_u64(), Exception { owner: random.below(4) as u32, address });
    }
    table
}

proptest! {
    #[test]
    fn aggregation_and_ranges_change_no_answer(seed in any::<u64>(), count in 0u64..60) {
        let table = any_table(seed, count);
        let mut merged = table.clone();
        merged.aggregate();
        prop_assert!(merged.blocks.len() <= table.blocks.len());
        let (router, merged_router) = (Router::new(&table), Router::new(&merged));
        let mut random = Seeded::new(seed ^ 1);
        for _ in 0..200 {
            let address = if random.below(3) > 0 {
                IpAddr::from([10, random.below(3) as u8, random.below(256) as u8, random.below(256) as u8])
            } else {
                IpAddr::from([0x2001, 0xdb8, 0, random.below(9) as u16, 0, 0, 0, random.below(3) as u16])
            };
            let want = table.by_block(address);
            prop_assert_eq!(router.by_address(address), want, "{}", address);
            prop_assert_eq!(merged.by_block(address), want, "{}", address);
            prop_assert_eq!(merged_router.by_address(address), want, "{}", address);
        }
        prop_assert_eq!(binary::read(&binary::write(&table)).unwrap(), table);
    }
}
