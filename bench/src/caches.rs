//! Replacement policies side by side with the crate moka: same stream, same bytes, one after another.
//!
//! moka keeps its books in the background; here they are kept up after every sixteenth request, so that it never holds
//! more than its limit for long and its admission sees fresh counts.

use farol_base::random::mix;
use farol_cache::replace::Policy;
use farol_sim::cache::CacheArgs;
use farol_sim::cache::nodes::{ENTRY_BYTES, LIMITS, distinct_bytes, hit_rate, lines};
use farol_cache::trace::Line;
use std::time::Instant;

/// Requests between two rounds of moka's housekeeping.
const ROUND: usize = 16;

/// Prints hit rates and times.
pub fn compare(args: &CacheArgs) -> anyhow::Result<()> {
    let lines = lines(args)?;
    let all = distinct_bytes(&lines);
    println!(
        "{} requests, {:.1} MB of distinct answers; the first fifth warms up. Hit rate in %, and M requests per second on one core.\n",
        lines.len(),
        all as f64 / 1e6
    );
    let columns: Vec<String> = LIMITS.iter().map(|share| format!("{} % of the bytes", 100.0 * share)).collect();
    println!("| cache | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    let row = |name: &str, run: &dyn Fn(u64) -> f64| {
        let cells = LIMITS.map(|share| {
            let limit = ((all as f64 * share) as u64).max(1);
            let began = Instant::now();
            let rate = run(limit);
            format!("{:.2} ({:.1})", 100.0 * rate, lines.len() as f64 / began.elapsed().as_secs_f64() / 1e6)
        });
        println!("| {name} | {} |", cells.join(" | "));
    };
    row("moka 0.12", &|limit| moka(&lines, limit, ROUND));
    for policy in Policy::ALL {
        row(&format!("farol, {}", policy.name()), &|limit| hit_rate(policy, &lines, limit));
    }
    Ok(())
}

fn moka(lines: &[Line], limit: u64, round: usize) -> f64 {
    let cache: moka::sync::Cache<u64, u32> =
        moka::sync::Cache::builder().max_capacity(limit).weigher(|_, bytes: &u32| *bytes).build();
    let (mut hits, mut asked) = (0u64, 0u64);
    for (number, line) in lines.iter().enumerate() {
        let key = mix(line.query ^ 0x1234_5678);
        let hit = cache.get(&key).is_some();
        if !hit {
            cache.insert(key, line.bytes.saturating_add(ENTRY_BYTES));
        }
        if number % round == 0 {
            cache.run_pending_tasks();
        }
        if number >= lines.len() / 5 {
            asked += 1;
            hits += u64::from(hit);
        }
    }
    hits as f64 / asked.max(1) as f64
}
