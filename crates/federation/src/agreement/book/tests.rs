//! Books of a few engines that hear each other at once, without a network: what each rule is for, in one story each.

use super::*;
use crate::agreement::{Delivery, Grade, Kind, OnEnd, Quota};
use farol_base::Seeded;

fn engine(number: u8) -> EngineId {
    EngineId([number; 32])
}

fn view(text: &str) -> View {
    View::parse(text).unwrap()
}

fn book(number: u8, about: &str) -> Book {
    Book::new(engine(number), view(about), Timers::default(), Rules::default())
}

fn terms(id: u8, provider: u8, consumer: u8, about: &str, forward: u8) -> Terms {
    Terms {
        id: AgreementId([id; 16]),
        revision: 1,
        provider: engine(provider),
        consumer: engine(consumer),
        kind: Kind::Index,
        view: view(about),
        grade: Grade::Text,
        delivery: Delivery::Push,
        delay_max: Duration::from_secs(1),
        quota: Quota { pages_day: 1, bytes_day: 1 },
        forward,
        on_end: OnEnd::Keep,
        notice: Duration::from_secs(1),
        lease: Duration::from_secs(1_800),
    }
}

struct World {
    books: BTreeMap<EngineId, Book>,
    now: Timestamp,
    random: Seeded,
}

impl World {
    fn of(books: Vec<Book>) -> World {
        let books = books.into_iter().map(|book| (book.me(), book)).collect();
        World { books, now: Timestamp::from_secs(1_000), random: Seeded::new(1) }
    }

    fn book(&mut self, number: u8) -> &mut Book {
        self.books.get_mut(&engine(number)).unwrap()
    }

    /// Delivers all that is said, and all that follows from it.
    fn say(&mut self, from: u8, out: Out) {
        let mut waiting: Vec<(EngineId, Outgoing)> = out.into_iter().map(|one| (engine(from), one)).collect();
        while let Some((from, one)) = waiting.pop() {
            let Some(book) = self.books.get_mut(&one.to) else { continue };
            let said = book.receive(self.now, from, one.agreement, one.message, &mut self.random);
            waiting.extend(said.into_iter().map(|next| (one.to, next)));
        }
    }

    /// A minute and a half goes by.
    fn pass(&mut self) {
        for _ in 0..90 {
            self.now = self.now + Duration::from_secs(1);
            for number in 1..=3 {
                if let Some(book) = self.books.get_mut(&engine(number)) {
                    let out = book.tick(self.now, &mut self.random);
                    self.say(number, out);
                }
            }
        }
    }

    /// Has the consumer propose, the provider accept, and the pages come.
    fn agree(&mut self, terms: Terms) {
        let (id, now) = (terms.id, self.now);
        let (provider, consumer) = (terms.provider.0[0], terms.consumer.0[0]);
        let out = self.book(consumer).propose(now, terms).unwrap();
        self.say(consumer, out);
        let out = self.book(provider).decide(id, true);
        self.say(provider, out);
        self.book(consumer).filled(id, 1);
        self.pass();
    }

    fn state(&mut self, consumer: u8, id: u8) -> TakenState {
        self.book(consumer).taken[&AgreementId([id; 16])].state
    }
}

#[test]
fn a_part_is_not_left_to_who_may_not_send_it_on() {
    // The department lets nobody else have its pages; the university has them, and the general engine wants the university's.
    for (forward, first, then) in
        [(0, TakenState::Active, TakenState::Chaining), (1, TakenState::Active, TakenState::Active)]
    {
        let mut world = World::of(vec![book(1, ".cin.uni"), book(2, ".uni"), book(3, "all")]);
        world.agree(terms(1, 1, 2, ".cin.uni", forward));
        assert_eq!(world.state(2, 1), first);
        world.agree(terms(2, 2, 3, ".uni", 0));
        assert_eq!(world.state(3, 2), then, "forward {forward}");
        // In the other order it is the university that may not leave it.
        let mut world = World::of(vec![book(1, ".cin.uni"), book(2, ".uni"), book(3, "all")]);
        world.agree(terms(2, 2, 3, ".uni", 0));
        assert_eq!(world.state(3, 2), TakenState::Active);
        world.agree(terms(1, 1, 2, ".cin.uni", forward));
        assert_eq!(world.state(2, 1), then, "forward {forward}, the other way round");
    }
}

#[test]
fn what_a_change_adds_is_left_once_its_pages_are_here() {
    let mut world = World::of(vec![book(1, ".uni"), book(2, "all")]);
    world.agree(terms(1, 1, 2, ".a.uni", 0));
    let id = AgreementId([1; 16]);
    let out = world.book(2).amend(id, view(".a.uni or .b.uni"));
    world.say(2, out);
    world.pass();
    let taken = &world.book(2).taken[&id];
    assert!(taken.is_filling() && taken.state == TakenState::Active);
    assert_eq!((taken.terms.revision, taken.in_force.to_string().as_str()), (2, "domain:a.uni"));
    // What says that all has come of the old part is not it.
    world.book(2).filled(id, 1);
    world.pass();
    assert_eq!(world.book(2).taken[&id].in_force.to_string(), "domain:a.uni");
    let kept = world.book(2).saved(id).unwrap();
    world.book(2).take_up(&kept).unwrap();
    assert!(world.book(2).taken[&id].is_filling(), "a crash forgets nothing of it");
    world.book(2).filled(id, 2);
    world.pass();
    assert_eq!(world.book(2).taken[&id].in_force.to_string(), "domain:a.uni or domain:b.uni");
    // A narrower part needs no pages.
    let out = world.book(1).amend(id, view(".b.uni"));
    world.say(1, out);
    world.pass();
    let taken = &world.book(2).taken[&id];
    assert!(!taken.is_filling());
    assert_eq!(taken.in_force.to_string(), "domain:b.uni");
}

#[test]
fn an_engine_that_is_about_less_keeps_what_is_left_or_ends() {
    for (about, left) in [("all minus .a.uni", Some("domain:uni and not domain:a.uni")), (".org", None)] {
        for changed in [1, 2] {
            let mut world = World::of(vec![book(1, "all"), book(2, "all")]);
            world.agree(terms(1, 1, 2, ".uni", 0));
            let id = AgreementId([1; 16]);
            assert!(world.book(changed).outgrown().is_empty());
            // It starts again with other settings.
            let kept = world.book(changed).saved(id).unwrap();
            *world.book(changed) = book(changed, about);
            world.book(changed).take_up(&kept).unwrap();
            let now = world.now;
            world.book(changed).restart(now);
            assert_eq!(world.book(changed).outgrown(), [id]);
            let out = world.book(changed).fit(now, id);
            world.say(changed, out);
            world.pass();
            let taken = &world.book(2).taken[&id];
            match left {
                Some(left) => {
                    assert_eq!(
                        (taken.state, taken.in_force.to_string().as_str()),
                        (TakenState::Active, left)
                    );
                    assert_eq!(world.book(1).given[&id].terms.view.to_string(), left);
                    assert!(world.book(changed).outgrown().is_empty());
                }
                None => {
                    assert_eq!(taken.state, TakenState::Ended);
                    assert_eq!(world.book(1).given[&id].state, GivenState::Ended);
                }
            }
        }
    }
}
