//! What \[Exposto08\] left open: locality, preferences, joins, growth, look-ups, real graphs, guessed
//! round-trip times.

use super::graphs::grown_graph;
use super::model::Flow;
use super::probes::median_error;
use super::strategies::{Strategy, Weights, assign, assign_again, placed_space};
use super::web::Web;
use super::{PartitionArgs, WebCounts, read_graph, said};
use crate::Error;
use farol_base::{CanonicalUrl, Random, Seeded};
use farol_partition::rtt::{Coordinates, median};
use farol_partition::split::{Balance, Change, Incremental, Loads, Multilevel, Problem};
use farol_partition::table::{Builder, Placed, Router, Unknown, binary};
use farol_partition::{Graph, Space};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

/// Exchanges saved against a hash, by locality of links and by slack, at k = 8 and 16.
pub fn locality(args: &PartitionArgs) -> Result<(), Error> {
    println!(
        "| locality | links in own community | k | slack | exchanges / hash | overload |\n|---:|---:|---:|---:|---:|---:|"
    );
    for locality in [0.0, 0.25, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98] {
        let counts = WebCounts { locality, ..args.counts.clone() };
        let web = Web::make(&counts, args.read_cities()?, args.seed);
        for k in [8, 16] {
            for slack in [0.05, 0.10] {
                let weights = Weights { slack, ..args.weights() };
                let space = web.space(&web.robots(k, args.seed), 10.0);
                let cut = |strategy| {
                    assign(&space, strategy, &weights).map(|part| space.measure(&part)).map_err(said)
                };
                let (hash, ours) = (cut(Strategy::Hash)?, cut(Strategy::LinksRtt)?);
                println!(
                    "| {locality} | {:.0} % | {k} | {:.0} % | {:+.1} % | {:.3} |",
                    100.0 * locality,
                    100.0 * slack,
                    100.0 * (ours.exchange() / hash.exchange() - 1.0),
                    ours.overload
                );
            }
        }
    }
    println!();
    Ok(())
}

/// What the preference factors do (decision D-5 of `docs/decisions/partition.md`).
pub fn preference(args: &PartitionArgs) -> Result<(), Error> {
    let web = args.web()?;
    println!(
        "| k | links : RTT | exchanges / hash | RTT per page, ms | hash | nearest agent for all |\n|---:|---:|---:|---:|---:|---:|"
    );
    for k in [4, 8, 16, 30] {
        let space = web.space(&web.robots(k, args.seed), 10.0);
        let hash = space.measure(&assign(&space, Strategy::Hash, &args.weights()).map_err(said)?);
        let nearest = (0..space.servers.len()).map(|s| {
            let by_rtt = |a: &u32, b: &u32| {
                space.rtt(s, *a as usize).unwrap_or(0.0).total_cmp(&space.rtt(s, *b as usize).unwrap_or(0.0))
            };
            (0..k as u32).min_by(by_rtt).unwrap_or(0)
        });
        let nearest = space.measure(&nearest.collect::<Vec<u32>>());
        for (links, distance) in [(0.0, 1.0), (1.0, 4.0), (1.0, 1.0), (4.0, 1.0), (12.0, 1.0), (1.0, 0.0)] {
            let weights = Weights { links, distance, ..args.weights() };
            let ours = space.measure(&assign(&space, Strategy::LinksRtt, &weights).map_err(said)?);
            println!(
                "| {k} | {links} : {distance} | {:+.1} % | {:.1} | {:.1} | {:.1} |",
                100.0 * (ours.exchange() / hash.exchange() - 1.0),
                ours.rtt_mean,
                hash.rtt_mean,
                nearest.rtt_mean
            );
        }
    }
    println!();
    Ok(())
}

/// An agent joins and another leaves.
pub fn join(args: &PartitionArgs) -> Result<(), Error> {
    println!(
        "| graph | k | moved, of all pages | allowed: 1.3 / (k+1) | cut | from scratch | ratio | overload |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    let web = args.web()?;
    for k in [4, 8, 16] {
        let robots = web.robots(k + 1, args.seed);
        let (space, more) = (web.space(&robots[..k], 10.0), web.space(&robots, 10.0));
        let before = assign(&space, Strategy::LinksRtt, &args.weights()).map_err(said)?;
        let after = assign_again(&more, &before, Strategy::LinksRtt, &args.weights()).map_err(said)?;
        let scratch = assign(&more, Strategy::LinksRtt, &args.weights()).map_err(said)?;
        let moved = Flow::of_moves(&more, &before, &after).moved();
        joined(
            "thesis-sized space, links + RTT",
            k,
            moved as f64 / web.pages() as f64,
            &more.measure(&after),
            &more.measure(&scratch),
        );
    }
    let mut graphs = vec![(
        "made, 100,000 vertices".to_string(),
        grown_graph(100_000, 1_000_000, args.seed),
        vec![1; 100_000],
    )];
    for path in &args.graph {
        let input = read_graph(path)?;
        graphs.push((input.name, input.graph, input.pages));
    }
    for (name, graph, pages) in &graphs {
        for k in [4, 8, 16] {
            links_join(name, graph, pages, k, args)?;
        }
    }
    println!();
    Ok(())
}

fn joined(
    name: &str,
    k: usize,
    moved: f64,
    after: &farol_partition::Measure,
    scratch: &farol_partition::Measure,
) {
    println!(
        "| {name} | {k} | {:.2} % | {:.2} % | {} | {} | {:.3} | {:.3} |",
        100.0 * moved,
        130.0 / (k + 1) as f64,
        after.links_cut,
        scratch.links_cut,
        after.links_cut as f64 / scratch.links_cut.max(1) as f64,
        after.overload
    );
}

/// Links alone: join k → k + 1.
fn links_join(name: &str, graph: &Graph, pages: &[u64], k: usize, args: &PartitionArgs) -> Result<(), Error> {
    let loads = Loads::pages(pages.to_vec());
    let search = Multilevel { seed: args.seed, ..Multilevel::default() };
    let balance = |k| Balance::equal(&loads, k, args.slack).map_err(said);
    let (few, many) = (balance(k)?, balance(k + 1)?);
    let before = search.split(&Problem::new(graph, &loads, &few)).map_err(said)?;
    let problem = Problem::new(graph, &loads, &many);
    let incremental = Incremental { search, ..Incremental::default() };
    let after = incremental.split(&problem, &Change::Joined.renumber(&before.part)).map_err(said)?;
    let scratch = search.split(&problem).map_err(said)?;
    let moved: u64 = (0..pages.len()).filter(|v| before.part[*v] != after.part[*v]).map(|v| pages[v]).sum();
    println!(
        "| {name}, links | {k} | {:.2} % | {:.2} % | {} | {} | {:.3} | {:.3} |",
        100.0 * moved as f64 / pages.iter().sum::<u64>() as f64,
        130.0 / (k + 1) as f64,
        after.cut,
        scratch.cut,
        after.cut as f64 / scratch.cut.max(1) as f64,
        after.overload
    );
    Ok(())
}

/// Larger and larger graphs, in 16 parts.
pub fn growth(args: &PartitionArgs) -> Result<(), Error> {
    println!(
        "| vertices | edges | k | making it, s | splitting, s | cut | of all edges | overload | peak memory, MiB |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    for millions in &args.millions {
        let vertices = (millions * 1e6) as usize;
        let clock = Instant::now();
        let graph = grown_graph(vertices, 10 * vertices, args.seed);
        let made = clock.elapsed().as_secs_f64();
        let loads = Loads::equal(graph.vertices());
        let balance = Balance::equal(&loads, 16, args.slack).map_err(said)?;
        let clock = Instant::now();
        let split = Multilevel { seed: args.seed, ..Multilevel::default() }
            .split(&Problem::new(&graph, &loads, &balance))
            .map_err(said)?;
        println!(
            "| {} | {} | 16 | {made:.1} | {:.1} | {} | {:.1} % | {:.3} | {} |",
            graph.vertices(),
            graph.edges(),
            clock.elapsed().as_secs_f64(),
            split.cut,
            100.0 * split.cut as f64 / graph.weight().max(1) as f64,
            split.overload,
            peak_mib()
        );
    }
    println!();
    Ok(())
}

/// Peak memory of this process.
fn peak_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Look-ups a second with 100,000 hosts by name and 20,000 blocks.
pub fn lookup(args: &PartitionArgs) -> Result<(), Error> {
    let mut random = Seeded::new(args.seed);
    let names: Vec<String> =
        (0..120_000).map(|n| format!("https://www.host{n}.example{}.org", n % 997)).collect();
    let mut placed = Vec::new();
    for (n, host) in names[..100_000].iter().enumerate() {
        placed.push(Placed { host, address: None, pages: 1 + random.below(100), owner: (n % 16) as u32 });
    }
    for (n, host) in names[100_000..].iter().enumerate() {
        // Twenty thousand blocks that neither touch nor have the same owner as their neighbours.
        let address = IpAddr::V4(Ipv4Addr::from(0x1000_0000 + (n as u32) * 512 + 7));
        placed.push(Placed { host, address: Some(address), pages: 1, owner: (n % 16) as u32 });
    }
    let destinations = (0..16).map(|j| format!("agent {j}")).collect();
    let clock = Instant::now();
    let table = Builder::default().build(destinations, &placed, 1, Unknown::Hash).map_err(said)?;
    let built = clock.elapsed().as_secs_f64();
    let bytes = binary::write(&table).len();
    let router = Router::new(&table);
    // Half of the URLs are on hosts that stand by name, half are found by their address.
    let urls: Vec<(CanonicalUrl, Option<IpAddr>)> = (0..200_000)
        .filter_map(|n| {
            let known = n % 2 == 0;
            let host = random.below(100_000) as usize;
            let text = if known {
                format!("{}/page/{n}", names[host])
            } else {
                format!("http://new{n}.test/page/{n}")
            };
            let address = IpAddr::V4(Ipv4Addr::from(0x1000_0000 + (random.below(20_000) as u32) * 512 + 9));
            Some((CanonicalUrl::parse(&text).ok()?, (!known).then_some(address)))
        })
        .collect();
    let (mut rounds, mut sum, clock) = (0u64, 0u64, Instant::now());
    while clock.elapsed().as_secs_f64() < 3.0 {
        for (url, address) in &urls {
            if let farol_partition::table::Route::To(owner) = router.route(url, *address) {
                sum += u64::from(owner);
            }
        }
        rounds += 1;
    }
    let rate = rounds as f64 * urls.len() as f64 / clock.elapsed().as_secs_f64();
    println!(
        "Routing table: {} hosts by name, {} blocks, {bytes} bytes, built in {built:.2} s. \
         Look-ups of a URL's owner: {:.2} million a second on one core (check {}).\n",
        table.hosts.len(),
        table.blocks.len(),
        rate / 1e6,
        sum % 1000
    );
    Ok(())
}

/// All strategies on real graphs.
pub fn graphs(args: &PartitionArgs) -> Result<(), Error> {
    if args.graph.is_empty() {
        return Err(Error::Input("name a graph with --graph FILE".to_string()));
    }
    let cities = args.read_cities()?;
    println!(
        "| graph | k | strategy | links cut | / hash | RTT per page, ms | overload | s |\n|---|---:|---|---:|---:|---:|---:|---:|"
    );
    for path in &args.graph {
        let input = read_graph(path)?;
        for k in [8, 16] {
            let space: Space = placed_space(&input.graph, &input.pages, &cities, k, args.seed);
            let mut hash_cut = 0;
            for strategy in [
                Strategy::Hash,
                Strategy::Consistent,
                Strategy::Flat,
                Strategy::Links,
                Strategy::LinksRtt,
                Strategy::LinksGeo,
                Strategy::Literal,
            ] {
                let clock = Instant::now();
                let measure = space.measure(&assign(&space, strategy, &args.weights()).map_err(said)?);
                if strategy == Strategy::Hash {
                    hash_cut = measure.links_cut;
                }
                println!(
                    "| {} | {k} | {} | {} | {:+.1} % | {:.1} | {:.3} | {:.1} |",
                    input.name,
                    strategy.name(),
                    measure.links_cut,
                    100.0 * (measure.links_cut as f64 / hash_cut.max(1) as f64 - 1.0),
                    measure.rtt_mean,
                    measure.overload,
                    clock.elapsed().as_secs_f64()
                );
            }
        }
    }
    println!();
    Ok(())
}

/// Coordinates fitted to some pings guess the others; medians of few probes beside those of many.
pub fn round_trips(args: &PartitionArgs) -> Result<(), Error> {
    let cities = args.read_cities()?;
    let n = cities.names.len();
    let mut pairs: Vec<(u32, u32, f64)> = Vec::new();
    for a in 0..n {
        for b in 0..n {
            let rtt = f64::from(cities.rtt[a * n + b]);
            if a != b && rtt.is_finite() && rtt > 0.0 {
                pairs.push((a as u32, b as u32, rtt));
            }
        }
    }
    println!("Round-trip times of {} pairs of {n} cities, guessed from a share of them:\n", pairs.len());
    println!(
        "| pairs measured | by coordinates: median error | 90 % below | by distance: median error | 90 % below |\n|---:|---:|---:|---:|---:|"
    );
    for share in [0.02, 0.05, 0.1, 0.3] {
        let mut random = Seeded::new(args.seed);
        let (known, hidden): (Vec<_>, Vec<_>) = pairs.iter().partition(|_| random.unit() < share);
        let fitted = Coordinates::fit(n, &known, 60, args.seed);
        let spread = |guess: &dyn Fn(usize, usize) -> f64| {
            let mut errors: Vec<f64> = hidden
                .iter()
                .map(|(a, b, rtt)| (guess(*a as usize, *b as usize) - rtt).abs() / rtt)
                .collect();
            errors.sort_by(f64::total_cmp);
            let at = |q: f64| errors.get((errors.len() as f64 * q) as usize).copied().unwrap_or(f64::NAN);
            (at(0.5), at(0.9))
        };
        let ours = spread(&|a, b| fitted.rtt(a, b).unwrap_or(f64::NAN));
        let straight = spread(&|a, b| 4.0 + 1.35 * cities.positions[a].rtt_least(cities.positions[b]));
        println!(
            "| {:.0} % | {:.0} % | {:.0} % | {:.0} % | {:.0} % |",
            100.0 * share,
            100.0 * ours.0,
            100.0 * ours.1,
            100.0 * straight.0,
            100.0 * straight.1
        );
    }
    // Probes scatter upwards: a few milliseconds always, a lot sometimes.
    let mut random = Seeded::new(args.seed);
    let destinations: Vec<Vec<f64>> = (0..2000)
        .map(|_| {
            let base = 5.0 + 150.0 * random.unit();
            (0..60).map(|_| base + 0.2 * base * random.unit().powi(3) / (0.05 + random.unit())).collect()
        })
        .collect();
    print!("\nMean error of the median of t probes (made samples; thesis: flat from 7 on, 0.08):");
    for t in [1, 2, 3, 5, 7, 9, 15, 25] {
        print!(" t={t}: {:.3};", median_error(&destinations, t).unwrap_or(f64::NAN));
    }
    println!(" all {:.1} ms in the median.\n", median(&destinations.concat()).unwrap_or(f64::NAN));
    Ok(())
}
