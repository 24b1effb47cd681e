//! What nodes of a cluster send each other, byte for byte.
//!
//! Inner types are free to change because none of them is `Serialize`: what travels are the twins here, in postcard,
//! which has no field names. So a struct that was once released is frozen; a change is a new version of the wire
//! ([`WIRE`]), which two nodes agree on before they speak (`farol_cluster::version`). `v1/golden.txt` has the frozen bytes, and
//! `docs/formats/wire.md` says how something new travels.

pub mod batch;
pub mod freight;
#[cfg(test)]
mod golden;
pub mod graph;
pub mod parcel;
pub mod urls;
pub mod v1;
pub mod values;

/// Least and greatest version of the wire that this program speaks.
pub const WIRE: (u16, u16) = (1, 1);

/// Why bytes from another node mean nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("it is version {found}, and this program reads version {known} only: upgrade this node")]
    Version { found: u8, known: u8 },
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("it unpacks to more than {} MiB", .max >> 20)]
    TooLarge { max: usize },
}
