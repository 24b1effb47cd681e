//! A short form of `farol-sim hold --seeds 10000`.

use super::*;

#[test]
fn sixty_clusters_keep_every_promise() {
    let mut counts = HoldCounts::default();
    for seed in 1..=60 {
        match simulate(seed, None) {
            Ok(run) => counts.add(&run),
            Err(failure) => panic!(
                "{}\nseed {seed}: {}: {}",
                failure.log.join("\n"),
                failure.violation.checker,
                failure.violation.what
            ),
        }
    }
    // Something must have gone on, or nothing was shown.
    assert!(counts.requests > 30_000 && counts.moves > 500 && counts.burials > 60, "{counts:?}");
}

#[test]
fn the_same_seed_is_the_same_crawl() {
    let run = |seed| simulate(seed, None).map_err(|failure| failure.violation);
    assert_eq!(run(3), run(3));
}
