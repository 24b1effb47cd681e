//! Being written: feed.
