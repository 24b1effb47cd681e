//! Stories of single questions, and a small world where nodes answer, fail and hang.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use farol_base::{Random, Seeded};
use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn book(map: &[(u32, &[u32])]) -> ReplicaBook {
    let mut book = ReplicaBook::new(1);
    let replicas = |nodes: &[u32]| nodes.iter().copied().map(ReplicaNo).collect();
    book.install(map.iter().map(|(shard, nodes)| (ShardNo(*shard), replicas(nodes))));
    book
}

fn start(book: &mut ReplicaBook, shard: u32, now: Instant) -> (Scatter, Ask) {
    let (scatter, actions) = Scatter::start(book, [ShardNo(shard).into()], now + 600 * MS, now);
    (scatter, asked(&actions))
}

fn asked(actions: &[Action]) -> Ask {
    match actions {
        [Action::Ask(ask)] => *ask,
        _ => panic!("{actions:?}"),
    }
}

/// Answers `count` questions after `time` each, one after the other.
fn practise(book: &mut ReplicaBook, shard: u32, count: u32, time: Duration, mut now: Instant) -> Instant {
    for _ in 0..count {
        let (mut scatter, ask) = start(book, shard, now);
        now += time;
        assert_eq!(scatter.answered(book, ask.attempt, now), [Action::Done]);
    }
    now
}

#[test]
fn a_broken_connection_is_followed_by_another_at_once() {
    let (mut book, now) = (book(&[(0, &[1, 2])]), Instant::now());
    let (mut scatter, first) = start(&mut book, 0, now);
    let second = asked(&scatter.failed(&mut book, first.attempt, Failure::Broken, now + MS));
    assert_ne!(second.replica, first.replica);
    let given_up = [Action::GiveUp(ShardNo(0)), Action::Done];
    assert_eq!(scatter.failed(&mut book, second.attempt, Failure::Broken, now + MS), given_up);
}

#[test]
fn a_slow_call_is_hedged_and_the_first_answer_wins() {
    let mut book = book(&[(0, &[1, 2])]);
    let now = practise(&mut book, 0, 200, 30 * MS, Instant::now());
    let (mut scatter, first) = start(&mut book, 0, now);
    let due = scatter.next_timer().unwrap();
    assert!((30 * MS..34 * MS).contains(&(due - now)), "{:?}", due - now);
    assert_eq!(scatter.timer(&mut book, now + 29 * MS), []);
    let second = asked(&scatter.timer(&mut book, due));
    assert_ne!(second.replica, first.replica);
    let actions = scatter.answered(&mut book, second.attempt, due + 5 * MS);
    assert_eq!(actions, [Action::Cancel(first.attempt), Action::Done]);
    assert_eq!(book.asks_and_hedges(), (201, 1));
    for replica in [1, 2] {
        assert_eq!(book.view(ReplicaNo(replica), due).unwrap().under_way, 0);
    }
}

#[test]
fn a_fast_shard_is_not_hedged_before_20_ms() {
    let mut book = book(&[(0, &[1, 2])]);
    let now = practise(&mut book, 0, 200, MS, Instant::now());
    let (scatter, _) = start(&mut book, 0, now);
    assert_eq!(scatter.next_timer(), Some(now + 20 * MS));
}

#[test]
fn without_hedges_to_spend_half_the_time_brings_another() {
    let (mut book, now) = (book(&[(0, &[1, 2])]), Instant::now());
    let (mut scatter, _) = start(&mut book, 0, now);
    assert_eq!(scatter.timer(&mut book, now + 150 * MS), [], "nothing was saved for a hedge");
    asked(&scatter.timer(&mut book, now + 300 * MS));
}

#[test]
fn where_one_hangs_the_other_is_asked_even_if_it_had_failed() {
    let (mut book, now) = (book(&[(0, &[1, 2])]), Instant::now());
    let (mut before, first) = start(&mut book, 0, now);
    asked(&before.failed(&mut book, first.attempt, Failure::Broken, now));
    before.abandon(&mut book, now);
    let (mut scatter, second) = start(&mut book, 0, now);
    assert_ne!(second.replica, first.replica, "who failed is passed over");
    assert_eq!(scatter.timer(&mut book, now + 299 * MS), []);
    let third = asked(&scatter.timer(&mut book, now + 300 * MS));
    assert_eq!(third.replica, first.replica);
    scatter.answered(&mut book, third.attempt, now + 301 * MS);
    assert_eq!(book.view(first.replica, now).unwrap().passed_over, None, "it is well again");
}

#[test]
fn a_replica_that_answers_others_is_slow_and_does_not_hang() {
    let (mut book, now) = (book(&[(0, &[1, 2])]), Instant::now());
    let (mut hard, slow) = start(&mut book, 0, now);
    for _ in 0..20 {
        let (mut easy, ask) = start(&mut book, 0, now + 200 * MS);
        easy.answered(&mut book, ask.attempt, now + 201 * MS);
        if ask.replica == slow.replica {
            assert_eq!(hard.timer(&mut book, now + 300 * MS), []);
            return;
        }
        // Its answer was so fast that the other would be asked for ever.
        let known = book.view(slow.replica, now).unwrap();
        assert_eq!(known.under_way, 1);
        book.install([(ShardNo(0), vec![slow.replica])]);
    }
    panic!("the slow replica was never asked again");
}

#[test]
fn who_failed_is_passed_over_for_longer_each_time_and_probed_once_at_a_time() {
    let mut book = book(&[(0, &[1, 2])]);
    let mut now = practise(&mut book, 0, 50, MS, Instant::now());
    let (mut scatter, first) = start(&mut book, 0, now);
    scatter.failed(&mut book, first.attempt, Failure::Broken, now);
    scatter.abandon(&mut book, now);
    let failing = first.replica;
    for pause in [1000, 2000, 4000, 8000, 8000] {
        assert_eq!(book.view(failing, now).unwrap().passed_over, Some(pause * MS));
        for _ in 0..20 {
            let (mut scatter, ask) = start(&mut book, 0, now + (pause - 1) * MS);
            assert_ne!(ask.replica, failing);
            scatter.abandon(&mut book, now);
        }
        now += pause * MS;
        let (mut probe, first) = start(&mut book, 0, now);
        assert_eq!(first.replica, failing, "its pause is over");
        let (mut other, second) = start(&mut book, 0, now);
        assert_ne!(second.replica, failing, "one probe at a time");
        other.abandon(&mut book, now);
        probe.failed(&mut book, first.attempt, Failure::Broken, now);
        probe.abandon(&mut book, now);
    }
    now += 8000 * MS;
    let (mut probe, first) = start(&mut book, 0, now);
    probe.answered(&mut book, first.attempt, now + MS);
    assert_eq!(book.view(failing, now).unwrap().passed_over, None);
}

#[test]
fn three_silent_calls_in_a_row_count_as_a_failure() {
    let mut book = book(&[(0, &[1])]);
    let mut now = Instant::now();
    for silent in 1..=3 {
        let (mut scatter, ask) = start(&mut book, 0, now);
        now += 600 * MS;
        let ended = [Action::Cancel(ask.attempt), Action::GiveUp(ShardNo(0)), Action::Done];
        assert_eq!(scatter.timer(&mut book, now), ended);
        assert_eq!(book.view(ReplicaNo(1), now).unwrap().passed_over.is_some(), silent == 3);
    }
    // The only one there is: it is asked all the same.
    assert_eq!(start(&mut book, 0, now).1.replica, ReplicaNo(1));
}

#[test]
fn a_replica_that_lags_is_asked_last() {
    let (mut book, now) = (book(&[(0, &[1, 2, 3])]), Instant::now());
    book.lags(ShardNo(0), ReplicaNo(1), 40_000 * MS);
    book.lags(ShardNo(0), ReplicaNo(2), 9_000 * MS);
    book.lags(ShardNo(0), ReplicaNo(3), 12_000 * MS);
    for _ in 0..50 {
        let (mut scatter, first) = start(&mut book, 0, now);
        let second = asked(&scatter.failed(&mut book, first.attempt, Failure::Refused, now));
        let third = asked(&scatter.failed(&mut book, second.attempt, Failure::Refused, now));
        assert_eq!(third.replica, ReplicaNo(1));
        scatter.abandon(&mut book, now);
    }
}

#[test]
fn the_preferred_replica_is_asked_unless_it_is_passed_over() {
    let (mut book, now) = (book(&[(0, &[1, 2])]), Instant::now());
    let wanted = Wanted { shard: ShardNo(0), prefer: Some(ReplicaNo(2)) };
    for _ in 0..20 {
        let (mut scatter, actions) = Scatter::start(&mut book, [wanted], now + 100 * MS, now);
        assert_eq!(asked(&actions).replica, ReplicaNo(2));
        scatter.abandon(&mut book, now);
    }
    let (mut scatter, actions) = Scatter::start(&mut book, [wanted], now + 100 * MS, now);
    scatter.failed(&mut book, asked(&actions).attempt, Failure::Broken, now);
    let (_, actions) = Scatter::start(&mut book, [wanted], now + 100 * MS, now);
    assert_eq!(asked(&actions).replica, ReplicaNo(1));
}

#[test]
fn load_goes_where_answers_are_fast() {
    let mut book = book(&[(0, &[1, 2])]);
    let (mut now, mut fast) = (Instant::now(), 0);
    for _ in 0..1000 {
        let (mut scatter, ask) = start(&mut book, 0, now);
        now += if ask.replica == ReplicaNo(1) { 2 * MS } else { 10 * MS };
        fast += u32::from(ask.replica == ReplicaNo(1));
        scatter.answered(&mut book, ask.attempt, now);
    }
    assert!((900..1000).contains(&fast), "{fast}: the slow one is tried now and then");
}

#[test]
fn an_unknown_shard_or_no_time_is_given_up_at_once() {
    let (mut book, now) = (book(&[(0, &[1])]), Instant::now());
    let ended = [Action::GiveUp(ShardNo(7)), Action::Done];
    assert_eq!(Scatter::start(&mut book, [ShardNo(7).into()], now + MS, now).1, ended);
    let ended = [Action::GiveUp(ShardNo(0)), Action::Done];
    assert_eq!(Scatter::start(&mut book, [ShardNo(0).into()], now, now).1, ended);
    assert_eq!(Scatter::start(&mut book, [], now, now).1, [Action::Done]);
}

#[test]
fn stages_share_one_deadline() {
    let start = Instant::now();
    for (stage, ms) in [(Stage::Count, 150), (Stage::Search, 750), (Stage::Show, 1000)] {
        assert_eq!(stage.ends(start, 1000 * MS), start + ms * MS);
    }
}

/// What a node makes of a call: an answer or a failure after some time, or nothing ever.
type Behaviour = dyn Fn(ReplicaNo, Duration, &mut Seeded) -> Option<(Duration, Result<(), Failure>)>;

/// Questions that arrive at random times, with a front's book, and nodes that behave as they are told.
struct World<'a> {
    origin: Instant,
    map: BTreeMap<ShardNo, Vec<ReplicaNo>>,
    book: ReplicaBook,
    random: Seeded,
    behaviour: &'a Behaviour,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    number: u64,
    questions: Vec<Question>,
    asked: BTreeMap<ReplicaNo, Vec<Duration>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    Answered(usize, AttemptNo),
    Failed(usize, AttemptNo, u8),
    Timer(usize),
}

const FAILURES: [Failure; 4] = [Failure::Broken, Failure::Silent, Failure::Busy, Failure::Refused];

struct Question {
    scatter: Scatter,
    arrived: Duration,
    open: BTreeMap<AttemptNo, Ask>,
    asked: Vec<(ShardNo, ReplicaNo)>,
    answered: usize,
    given_up: usize,
    done: Option<Duration>,
}

const DEADLINE: Duration = Duration::from_millis(600);

impl<'a> World<'a> {
    fn new(shards: u32, copies: u32, nodes: u32, seed: u64, behaviour: &'a Behaviour) -> World<'a> {
        let place = |shard: u32| (0..copies).map(|copy| ReplicaNo((shard + copy) % nodes)).collect();
        let map: BTreeMap<_, Vec<_>> = (0..shards).map(|shard| (ShardNo(shard), place(shard))).collect();
        let mut book = ReplicaBook::new(seed);
        book.install(map.clone());
        World {
            origin: Instant::now(),
            map,
            book,
            random: Seeded::new(seed ^ 7),
            behaviour,
            events: BinaryHeap::new(),
            number: 0,
            questions: Vec::new(),
            asked: BTreeMap::new(),
        }
    }

    fn run(&mut self, questions: u64, per_second: u64) {
        for _ in 0..questions {
            let at = Duration::from_micros(self.random.below(questions * 1_000_000 / per_second));
            self.schedule(at, Event::Arrives);
        }
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.step(now, event);
        }
        for question in &self.questions {
            assert!(question.done.is_some_and(|done| done <= question.arrived + DEADLINE));
            assert_eq!(question.answered + question.given_up, self.map.len());
        }
        for node in self.book.shards().flat_map(|shard| self.map[&shard].clone()) {
            assert_eq!(self.book.view(node, self.origin).unwrap().under_way, 0);
        }
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    fn step(&mut self, now: Duration, event: Event) {
        let at = self.origin + now;
        let healthy = |book: &ReplicaBook, node| book.view(node, at).unwrap().passed_over.is_none();
        let before: BTreeMap<ReplicaNo, (bool, Option<Duration>)> = (self.map.values().flatten())
            .map(|node| (*node, (healthy(&self.book, *node), self.book.view(*node, at).unwrap().passed_over)))
            .collect();
        let (question, actions) = match event {
            Event::Arrives => {
                let wanted = self.map.keys().map(|shard| Wanted::from(*shard));
                let (scatter, actions) = Scatter::start(&mut self.book, wanted, at + DEADLINE, at);
                self.questions.push(Question {
                    scatter,
                    arrived: now,
                    open: BTreeMap::new(),
                    asked: Vec::new(),
                    answered: 0,
                    given_up: 0,
                    done: None,
                });
                (self.questions.len() - 1, actions)
            }
            Event::Answered(question, attempt) => {
                let state = &mut self.questions[question];
                state.answered += usize::from(state.open.remove(&attempt).is_some());
                (question, state.scatter.answered(&mut self.book, attempt, at))
            }
            Event::Failed(question, attempt, failure) => {
                let state = &mut self.questions[question];
                state.open.remove(&attempt);
                let failure = FAILURES[usize::from(failure)];
                (question, state.scatter.failed(&mut self.book, attempt, failure, at))
            }
            Event::Timer(question) => (question, self.questions[question].scatter.timer(&mut self.book, at)),
        };
        for action in actions {
            self.act(now, question, action, &before);
        }
        let (asks, hedges) = self.book.asks_and_hedges();
        assert!(hedges * 20 <= asks, "{hedges} hedges of {asks} asks");
        if let Some(next) = self.questions[question].scatter.next_timer() {
            self.schedule(next - self.origin, Event::Timer(question));
        }
    }

    fn act(
        &mut self,
        now: Duration,
        question: usize,
        action: Action,
        before: &BTreeMap<ReplicaNo, (bool, Option<Duration>)>,
    ) {
        let state = &mut self.questions[question];
        assert_eq!(state.done, None, "nothing follows the end");
        match action {
            Action::Ask(ask) => {
                assert!(!state.asked.contains(&(ask.shard, ask.replica)), "asked twice");
                if before[&ask.replica].1.is_some_and(|left| !left.is_zero()) {
                    let other =
                        |node: &&ReplicaNo| before[*node].0 && !state.asked.contains(&(ask.shard, **node));
                    assert_eq!(self.map[&ask.shard].iter().find(other), None, "a healthy one was left");
                }
                state.asked.push((ask.shard, ask.replica));
                state.open.insert(ask.attempt, ask);
                self.asked.entry(ask.replica).or_default().push(now);
                match (self.behaviour)(ask.replica, now, &mut self.random) {
                    Some((after, Ok(()))) => {
                        self.schedule(now + after, Event::Answered(question, ask.attempt))
                    }
                    Some((after, Err(failure))) => {
                        let failure = FAILURES.iter().position(|known| *known == failure).unwrap() as u8;
                        self.schedule(now + after, Event::Failed(question, ask.attempt, failure));
                    }
                    None => (),
                }
            }
            Action::Cancel(attempt) => {
                assert!(state.open.remove(&attempt).is_some(), "cancelled what is closed")
            }
            Action::GiveUp(_) => state.given_up += 1,
            Action::Done => {
                assert!(state.open.is_empty());
                state.done = Some(now);
            }
        }
    }

    fn latency(&self, per_mille: usize) -> Duration {
        let mut times: Vec<Duration> =
            (self.questions.iter()).map(|question| question.done.unwrap() - question.arrived).collect();
        times.sort();
        times[(times.len() * per_mille / 1000).min(times.len() - 1)]
    }

    fn given_up(&self) -> usize {
        self.questions.iter().map(|question| question.given_up).sum()
    }
}

/// Two to ten milliseconds, now and then fifty.
fn normal(random: &mut Seeded) -> Duration {
    let rare = if random.below(50) == 0 { 40_000 } else { 0 };
    Duration::from_micros(2000 + random.below(8000) + rare)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Invariants are checked at every step of the world.
    #[test]
    fn whatever_the_nodes_do_every_question_ends(
        seed: u64, shards in 1u32..5, copies in 1u32..4, more in 0u32..3, moods in prop::collection::vec(0u64..100, 16),
    ) {
        let behaviour = move |node: ReplicaNo, now: Duration, random: &mut Seeded| {
            // Each node has a mood for a second or so.
            let mood = moods[(node.0 as usize + now.as_secs() as usize) % moods.len()];
            let time = normal(random);
            match mood {
                0..50 => Some((time, Ok(()))),
                50..60 => None,
                60..70 => Some((time * 30, Ok(()))),
                _ => Some((time, Err(FAILURES[random.below(4) as usize]))),
            }
        };
        let mut world = World::new(shards, copies, copies + more, seed, &behaviour);
        world.run(300, 50);
    }
}

#[test]
fn a_node_that_hangs_costs_at_most_half_the_time() {
    for seed in 0..5 {
        let hangs = |now: Duration| (5..15).contains(&now.as_secs());
        let behaviour = move |node: ReplicaNo, now: Duration, random: &mut Seeded| {
            (node != ReplicaNo(0) || !hangs(now)).then(|| (normal(random), Ok(())))
        };
        let mut world = World::new(4, 2, 4, seed, &behaviour);
        world.run(5000, 200);
        assert_eq!(world.given_up(), 0, "seed {seed}");
        let slow = world.latency(999);
        assert!(slow < 350 * MS, "seed {seed}: p99.9 {slow:?}");
        let asked_while_hanging = world.asked[&ReplicaNo(0)].iter().filter(|at| hangs(**at)).count();
        assert!(asked_while_hanging < 40, "seed {seed}: {asked_while_hanging}");
        let after = world.asked[&ReplicaNo(0)].iter().filter(|at| at.as_secs() == 24).count();
        // An even share would be 200.
        assert!(after > 120, "seed {seed}: it is asked again, {after} times in the last second");
    }
}

#[test]
fn a_node_that_is_killed_costs_nothing() {
    let behaviour = |node: ReplicaNo, now: Duration, random: &mut Seeded| {
        let killed = node == ReplicaNo(0) && (5..15).contains(&now.as_secs());
        Some(if killed { (MS / 5, Err(Failure::Broken)) } else { (normal(random), Ok(())) })
    };
    let mut world = World::new(4, 2, 4, 3, &behaviour);
    world.run(4000, 200);
    assert_eq!(world.given_up(), 0);
    assert!(world.latency(999) < 150 * MS, "{:?}", world.latency(999));
}
