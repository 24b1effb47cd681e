//! Hosts that change agents, and agents that are gone: what is handed over, and how it arrives.
//!
//! The life of a host that moves. Its giver stops asking it, writes its row ([`Hosts::write`]), takes an export of its
//! URLs ([`UrlStore::export`]) and walks it out on a thread of its own ([`export::hand_out`]), as parts of at most 256 KiB
//! ([`crate::wire::parcel`]), the large ones through blobs, no faster than [`pace::Pace`]
//! allows. Parts travel through the
//! taker's log. The taker merges each into its URL store as it comes ([`import::ParcelImporter`]), notes the log's number in the
//! same batch, and hears, once everything of a parcel is durable, that the host is whole: after one politeness delay it
//! may be asked, if the parcel brought the right. When the taker tells that number, the giver forgets the host.
//!
//! An agent may be gone for good. So every few minutes it uploads its archive and the files of its URL store
//! ([`backup`]); whoever is named its undertaker opens them, replays what the archive has beyond the store, and hands
//! out all hosts as parcels ([`undertake`]), without rights.
//!
//! INVARIANT: nothing here depends on an order, and everything may happen twice: URL records, hosts' rows and parcels'
//! parts merge ([`farol_store::urls::Record::merge`], [`HostRow::merge`]).
//!
//! Does not decide who owns a host, nor when it moves. Those who do are told what has arrived.
//!
//! [`Hosts::write`]: crate::archive::hosts::Hosts::write
//! [`HostRow::merge`]: crate::archive::hosts::HostRow::merge
//! [`UrlStore::export`]: farol_store::urls::UrlStore::export

pub mod backup;
pub mod export;
pub mod import;
mod luggage;
pub mod pace;
pub mod undertake;
