//! Which page of a server is visited next [Souza10 ch. 5].
//!
//! [`Merge`] gives an order, and [`super::Spaced`] gives it instants: the rule with a proven bound. `farol` does not run it
//! yet. The rules it is compared with (RANDOM, DELAYED, PUNCTUAL) are in `crates/sim/src/revisit/select`.
//!
//! Does not decide how often; the frequencies come from [`super::allocate`].

mod merge;

pub use merge::Merge;

/// A request to a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Seconds since the schedule began.
    pub at: f64,
    /// Number of the page on its server.
    pub page: u32,
}

/// Gives an order of pages, each as often as its frequency says.
pub trait Select {
    /// The next page; `None` where none is ever visited.
    fn pick(&mut self) -> Option<u32>;
}

/// Gives pages and instants, in the order of time.
pub trait Timetable {
    fn next(&mut self) -> Option<Visit>;
}
