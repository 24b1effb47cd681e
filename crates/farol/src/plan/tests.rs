//! A plan grows with what it is for, in the way that it must.

use super::*;

const GIB: f64 = (1u64 << 30) as f64;

/// A hundred million pages on machines of 16 cores, 64 GiB and 4 TB.
fn target() -> PlanTarget {
    PlanTarget {
        pages: 1e8,
        queries: 100.0,
        replicas: 2.0,
        page_bytes: 20_000.0,
        revisit_days: 30.0,
        cores: 16.0,
        memory_bytes: 64.0 * GIB,
        disk_bytes: 4e12,
    }
}

fn costs() -> UnitCosts {
    CostTable::ours().unwrap().costs
}

fn planned(target: PlanTarget) -> ClusterPlan {
    plan(target, &costs()).unwrap()
}

fn role_of<'a>(plan: &'a ClusterPlan, name: &str) -> &'a RolePlan {
    plan.roles.iter().find(|role| role.role == name).unwrap()
}

#[track_caller]
fn about(got: f64, want: f64) {
    assert!((got / want - 1.0).abs() < 0.02, "{got} is not about {want}");
}

#[test]
fn twice_the_pages_take_twice_the_disk_and_the_fetches() {
    let (one, two) = (planned(target()), planned(PlanTarget { pages: 2e8, ..target() }));
    about(two.fetches_per_second, 2.0 * one.fetches_per_second);
    about(two.archive_bytes_per_day, 2.0 * one.archive_bytes_per_day);
    about(two.urls_known, 2.0 * one.urls_known);
    for name in ["crawl", "index", "rank, control"] {
        about(role_of(&two, name).disk_bytes, 2.0 * role_of(&one, name).disk_bytes);
    }
    about(role_of(&two, "crawl").cores, 2.0 * role_of(&one, "crawl").cores);
    about(role_of(&two, "rank, control").memory_bytes, 2.0 * role_of(&one, "rank, control").memory_bytes);
}

#[test]
fn pages_visited_half_as_often_take_half_the_crawl_and_the_same_disk() {
    let (one, rare) = (planned(target()), planned(PlanTarget { revisit_days: 60.0, ..target() }));
    about(rare.fetches_per_second, one.fetches_per_second / 2.0);
    about(role_of(&rare, "crawl").cores, role_of(&one, "crawl").cores / 2.0);
    about(role_of(&rare, "crawl").network, role_of(&one, "crawl").network / 2.0);
    about(role_of(&rare, "crawl").disk_bytes, role_of(&one, "crawl").disk_bytes);
    about(role_of(&rare, "index").disk_bytes, role_of(&one, "index").disk_bytes);
}

#[test]
fn twice_the_questions_take_twice_the_fronts_work_and_no_more_disk() {
    let none = planned(PlanTarget { queries: 0.0, ..target() });
    let (one, two) = (planned(target()), planned(PlanTarget { queries: 200.0, ..target() }));
    about(role_of(&two, "front").cores, 2.0 * role_of(&one, "front").cores);
    let for_questions = |plan: &ClusterPlan| role_of(plan, "index").cores - role_of(&none, "index").cores;
    about(for_questions(&two), 2.0 * for_questions(&one));
    about(two.disk_bytes(), one.disk_bytes());
    assert_eq!(two.shards, one.shards);
}

#[test]
fn another_replica_takes_another_copy_of_the_index_and_no_work_per_question() {
    let (two, three) = (planned(target()), planned(PlanTarget { replicas: 3.0, ..target() }));
    about(role_of(&three, "index").disk_bytes, 1.5 * role_of(&two, "index").disk_bytes);
    about(role_of(&three, "index").memory_bytes, 1.5 * role_of(&two, "index").memory_bytes);
    let quiet = |replicas| planned(PlanTarget { replicas, queries: 0.0, ..target() });
    about(role_of(&quiet(3.0), "index").cores, 1.5 * role_of(&quiet(2.0), "index").cores);
    let asked = |replicas: f64, plan: &ClusterPlan| {
        role_of(plan, "index").cores - role_of(&quiet(replicas), "index").cores
    };
    about(asked(3.0, &three), asked(2.0, &two));
}

#[test]
fn heavier_pages_take_more_of_everything_that_holds_them() {
    let (one, heavy) = (planned(target()), planned(PlanTarget { page_bytes: 40_000.0, ..target() }));
    about(role_of(&heavy, "crawl").cores, 2.0 * role_of(&one, "crawl").cores);
    about(role_of(&heavy, "index").disk_bytes, 2.0 * role_of(&one, "index").disk_bytes);
    about(role_of(&heavy, "rank, control").disk_bytes, role_of(&one, "rank, control").disk_bytes);
}

#[test]
fn machines_bear_what_is_planned_for_them() {
    for pages in [1.0, 1e4, 1e6, 3e7, 1e9, 1e10] {
        let target = PlanTarget { pages, ..target() };
        let plan = planned(target);
        for role in plan.roles.iter().filter(|role| role.role != "rank, control") {
            assert!(role.cores <= role.machines * target.cores * CPU_FILL * 1.001, "{pages}: {role:?}");
            assert!(
                role.memory_bytes <= role.machines * target.memory_bytes * ROOM_FILL * 1.001,
                "{pages}: {role:?}"
            );
            assert!(
                role.disk_bytes <= role.machines * target.disk_bytes * ROOM_FILL * 1.001,
                "{pages}: {role:?}"
            );
        }
        assert!(plan.shards >= 1.0 && plan.pages_per_shard <= target.pages, "{pages}");
        let shard = costs().query_cpu + costs().query_page_cpu * plan.pages_per_shard;
        assert!(shard <= SHARD_SECONDS * 1.001, "{pages}: {shard}");
    }
}

#[test]
fn what_fills_first_is_what_asked_for_the_machines() {
    let small_disks = planned(PlanTarget { disk_bytes: 1e11, ..target() });
    assert_eq!(role_of(&small_disks, "crawl").fills_first, "disk");
    let eager = planned(PlanTarget { revisit_days: 0.01, disk_bytes: 1e15, ..target() });
    assert_eq!(role_of(&eager, "crawl").fills_first, "processors");
    assert!(role_of(&small_disks, "crawl").machines > role_of(&planned(target()), "crawl").machines);
}

#[test]
fn the_tightest_bottleneck_comes_first_and_shrinks_with_the_target() {
    let (small, large) =
        (planned(PlanTarget { pages: 1e6, ..target() }), planned(PlanTarget { pages: 1e10, ..target() }));
    for plan in [&small, &large] {
        let headrooms: Vec<f64> = plan.bottlenecks.iter().map(Bottleneck::headroom).collect();
        assert!(headrooms.is_sorted(), "{headrooms:?}");
    }
    let of = |plan: &ClusterPlan, what: &str| {
        plan.bottlenecks.iter().find(|it| it.what.contains(what)).unwrap().headroom()
    };
    about(of(&small, "that ranks") / of(&large, "that ranks"), 1e4);
    assert!(of(&small, "memory of the one machine") > 1.0 && of(&large, "memory of the one machine") < 1.0);
}

#[test]
fn what_cannot_be_planned_is_told_in_a_sentence() {
    let check = |target: PlanTarget, want: &str| {
        let error = plan(target, &costs()).unwrap_err();
        assert!(error.contains(want) && !error.contains('\n'), "{error}");
    };
    check(PlanTarget { pages: 0.0, ..target() }, "0 pages cannot be planned for");
    check(PlanTarget { pages: f64::NAN, ..target() }, "NaN pages");
    check(PlanTarget { pages: f64::INFINITY, ..target() }, "inf pages");
    check(PlanTarget { queries: -1.0, ..target() }, "-1 queries");
    check(PlanTarget { replicas: 0.0, ..target() }, "0 replicas");
    check(PlanTarget { replicas: 17.0, ..target() }, "17 replicas of each shard are too many");
    check(PlanTarget { revisit_days: 0.0, ..target() }, "0 days between two visits");
    check(PlanTarget { cores: 0.0, ..target() }, "0 cores");
    check(PlanTarget { memory_bytes: 1e6, ..target() }, "1000000 bytes of memory");
    check(PlanTarget { page_bytes: 1e15, ..target() }, "not one page fits");
}
