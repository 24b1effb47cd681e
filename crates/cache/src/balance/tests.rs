//! What all balancers promise, and Algorithm 3.

use super::*;
use farol_base::random::{Random, Seeded};
use proptest::prelude::*;

fn all(threshold: f64) -> Vec<Box<dyn Balancer>> {
    vec![
        Box::new(Dem::new(Reach::Sweep)),
        Box::new(Gde::new(Reach::Sweep)),
        Box::new(Gradient::default()),
        Box::new(Rid { threshold }),
        Box::new(Sid { threshold }),
        Box::new(Direct),
        Box::new(Spread { slack: 0.0 }),
    ]
}

proptest! {
    /// Load is conserved, and never negative after a move between two that have it.
    #[test]
    fn load_is_conserved_between_neighbours(loads in proptest::collection::vec(0.0f64..2.0, 2..40)) {
        for mut balancer in all(0.02) {
            let moves = balancer.moves(&loads);
            let len = loads.len();
            for one in &moves {
                let near = (one.receiver + 1) % len == one.donor || (one.donor + 1) % len == one.receiver;
                prop_assert!(near && one.amount > 0.0, "{} {one:?}", balancer.name());
            }
            let after = moved(&loads, &moves);
            prop_assert!((after.iter().sum::<f64>() - loads.iter().sum::<f64>()).abs() < 1e-9);
        }
    }

    #[test]
    fn no_loads_break_them(loads in proptest::collection::vec(prop_oneof![
        Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(0.0), Just(1e300), 0.0f64..1.0], 0..9)) {
        for mut balancer in all(0.02) {
            prop_assert!(balancer.moves(&loads).iter().all(|one| one.amount.is_finite()));
        }
    }
}

#[test]
fn they_converge_on_a_fixed_load() {
    // RID, SID, DEM, GDE reach the mean; DM and SPREAD in one call.
    let mut random = Seeded::new(11);
    for len in [4usize, 9, 20, 30] {
        let start: Vec<f64> = (0..len).map(|_| 0.4 + 0.5 * random.unit()).collect();
        for mut balancer in all(0.0) {
            let calls = match balancer.name() {
                "DM" | "SPREAD" => 1,
                _ => 4000,
            };
            let end = (0..calls).fold(start.clone(), |loads, _| moved(&loads, &balancer.moves(&loads)));
            // The gradient model levels down to its marks and no further.
            let want = if balancer.name() == "GM" { 0.95 } else { 0.999 };
            assert!(efficiency(&end) > want, "{} on {len}: {}", balancer.name(), efficiency(&end));
        }
    }
}

#[test]
fn a_balanced_ring_is_left_alone() {
    let mut controller = Controller {
        balancer: Box::new(Rid { threshold: 0.06 }),
        efficiency_min: 0.9,
        range: RangeOf::Donor,
    };
    let mut ring = Ring::equal(4);
    let before = ring.clone();
    let even = [0.5, 0.52, 0.48, 0.5];
    assert_eq!(controller.run(&mut ring, &Loads { total: &even, owned: &even, density: None }), 0.0);
    assert_eq!(ring, before);
    // l = [4,1,1,1] · 0.2: only the borders of node 0 move, and the circle stays whole.
    let loads = [0.8, 0.2, 0.2, 0.2];
    let moved = controller.run(&mut ring, &Loads { total: &loads, owned: &loads, density: None });
    let changed = |node: u16| {
        let end = |ring: &Ring| ring.ends().iter().find(|(_, known)| known.0 == node).map(|(end, _)| *end);
        end(&ring) != end(&before)
    };
    assert_eq!([0, 1, 2, 3].map(changed), [true, false, false, true]);
    let place = ring.place(crate::NodeId(0)).unwrap();
    assert!(moved > 0.0 && ring.width(place) < 0.25);
    assert!(((0..4).map(|place| ring.width(place)).sum::<f64>() - 1.0).abs() < 1e-9);
    // Loads of another ring are no loads of this one.
    assert_eq!(
        controller.run(&mut ring, &Loads { total: &[0.1, 0.9], owned: &[0.1, 0.9], density: None }),
        0.0
    );
}

#[test]
fn a_hot_key_near_a_border_makes_it_swing_unless_it_is_spread() {
    // A key with 30 % of the traffic [Gomez14 §5.6].
    let swings = |hot_is_spread: bool| {
        let mut controller = Controller {
            balancer: Box::new(Rid { threshold: 0.01 }),
            efficiency_min: 0.95,
            range: RangeOf::Donor,
        };
        let mut ring = Ring::equal(6);
        let hot = ring.ends()[2].0 - 1_000;
        let (mut owners, mut moved) = (Vec::new(), 0.0);
        for _ in 0..60 {
            let mut owned: Vec<f64> = (0..6).map(|place| 0.7 * ring.width(place)).collect();
            let mut total = owned.clone();
            let owner = ring.owner(hot).and_then(|node| ring.place(node)).unwrap();
            if hot_is_spread {
                total.iter_mut().for_each(|load| *load += 0.05);
            } else {
                owned[owner] += 0.3;
                total[owner] += 0.3;
            }
            owners.push(ring.ends()[owner].1);
            moved += controller.run(&mut ring, &Loads { total: &total, owned: &owned, density: None });
        }
        (owners.windows(2).filter(|pair| pair[0] != pair[1]).count(), moved)
    };
    let (alone, moved_alone) = swings(false);
    let (spread, moved_spread) = swings(true);
    assert!(alone >= 10 && moved_alone > 1.0, "{alone} swings, {moved_alone} moved");
    assert_eq!((spread, moved_spread), (0, 0.0));
}

#[test]
fn measured_density_levels_in_one_go() {
    let mut density = Density::default();
    let mut random = Seeded::new(7);
    // Two thirds of the traffic in a tenth of the circle.
    let points: Vec<u64> = (0..200_000)
        .map(|_| if random.unit() < 0.67 { random.next_u64() / 10 } else { random.next_u64() })
        .collect();
    let mut delta = DensityDelta::default();
    points.iter().for_each(|point| delta.count(*point));
    density.add(&delta);
    let mut ring = Ring::equal(12);
    let loads = |ring: &Ring| -> Vec<f64> {
        (0..ring.len()).map(|place| density.load(ring.start(place), ring.ends()[place].0)).collect()
    };
    let mut controller = Controller {
        balancer: Box::new(Spread { slack: 0.02 }),
        efficiency_min: 0.95,
        range: RangeOf::Donor,
    };
    let before = loads(&ring);
    assert!(efficiency(&before) < 0.2);
    controller.run(&mut ring, &Loads { total: &before, owned: &before, density: Some(&density) });
    assert!(efficiency(&loads(&ring)) > 0.95, "{:?}", loads(&ring));
    // What was measured is what is routed.
    let mut routed = vec![0.0; 12];
    points.iter().for_each(|point| routed[usize::from(ring.owner(*point).unwrap().0)] += 1.0);
    assert!(efficiency(&routed) > 0.95, "{routed:?}");
}

#[test]
fn every_balancer_has_a_name_and_levels_a_hot_node() {
    for name in NAMES {
        let mut balancer = by_name(name).unwrap_or_else(|| panic!("{name}"));
        let mut loads = vec![100.0, 400.0, 100.0, 90.0, 110.0, 100.0, 95.0, 105.0];
        for _ in 0..30 {
            loads = moved(&loads, &balancer.moves(&loads));
        }
        let most = loads.iter().copied().fold(0.0, f64::max);
        assert!(most < 320.0, "{name}: {loads:?}");
    }
    assert!(by_name("none").is_none());
}
