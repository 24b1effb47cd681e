//! How large a view may be.

/// Boxes in a normal form at most, about 1 KiB each: 1 MiB.
pub const BOXES_MAX: usize = 1024;

/// What a text of a view may have, as written and in its canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: usize,
    /// Conditions.
    pub atoms: usize,
    /// Operators inside one another; parentheses alone may be twice as many.
    pub depth: usize,
}

impl Default for Limits {
    /// What travels between engines.
    fn default() -> Limits {
        Limits { bytes: 8 * 1024, atoms: 256, depth: 32 }
    }
}

impl Limits {
    /// What an operator may write in a file for his own crawl: 100,000 hosts of 80 bytes each.
    pub fn own_file() -> Limits {
        Limits { bytes: 8 * 1024 * 1024, atoms: 100_000, depth: 32 }
    }
}
