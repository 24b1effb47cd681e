//! How fresh a set of pages is believed to be. The product runs it: the planner's sums and the dashboard speak in it.

/// Believed freshness of pages, as sums, so that those of several sets add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Freshness {
    /// Sum of weights of all pages.
    pub weight: f64,
    /// Weight of pages whose copy is true, as expected.
    pub fresh: f64,
    /// Weight times expected seconds since the copy stopped being true. Pages without a copy count with nothing.
    pub age: f64,
}
