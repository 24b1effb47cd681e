//! Any text as a question.
//!
//! Contract: reading never fails, what is written is read the same, and both are within their limits.

use farol_query::{QUERY_BYTES_MAX, read, write};

pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let query = read(text).query;
    let written = write(&query);
    assert!(written.len() <= QUERY_BYTES_MAX);
    assert_eq!(read(&written).query, query);
}
