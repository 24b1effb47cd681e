//! Dispatch: which hosts of the active buckets may be asked now, and for which of their URLs.

pub mod active;
pub mod draw;
pub mod due_queue;
pub mod host_order;
pub mod in_flight;
pub mod top_k;
pub mod url_order;
