//! What the links say about pages and hosts: PageRank \[Page99\], streamed over edges on disk.
//!
//! rank(v) = (1 − d) / n + d · (Σ over links u → v of rank(u) · w(u → v) / W(u) + D / n), with d = 0.85, n pages, w = 1
//! for links between hosts and 1/4 for links inside one, W(u) the sum of w over u's links, and D the rank of pages
//! that link nowhere (most of them not fetched yet). Links that ask not to be counted and links of a page to itself
//! are left out. Hosts are ranked the same way on the graph of hosts, where w = ln(1 + number of links) and links
//! inside a host are left out. (Page, Brin, Motwani, Winograd 1999; the smaller weight inside a host keeps a site
//! from lifting itself by its menus.)
//!
//! One module per idea: [`ids`] numbers pages, [`edges`] keeps the page graph on disk, [`hosts`] the host graph in
//! memory, [`power`] iterates over either, [`job`] does it all, [`table`] is the result, and [`slice`]
//! what one shard of an index needs of it.

pub(crate) mod edges;
pub(crate) mod hosts;
pub(crate) mod ids;
pub(crate) mod job;
pub(crate) mod power;
pub(crate) mod slice;
pub(crate) mod table;

pub use job::{RankJob, RankReport, Ranking};
pub use power::Budget;
pub use slice::RankSlice;
pub use table::RankTable;
