//! What can be wrong with what others sent.

/// Why a published table or a report means nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("end points of a ring must grow: {after:#x} follows {before:#x}")]
    Unordered { before: u64, after: u64 },
    #[error("node {0} stands twice on the ring")]
    Twice(u16),
    #[error("{count} {what} are more than {max}")]
    TooMany { what: &'static str, count: usize, max: usize },
    #[error("cell {0} is not on the circle")]
    NoCell(u32),
    #[error("a count of {count} cannot have an error of {error}")]
    Count { count: u32, error: u32 },
}
