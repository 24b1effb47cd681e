//! Being written: robots.
