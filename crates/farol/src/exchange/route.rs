//! Files of routing tables, as an agent gets them.

use farol_cluster::route::TableBlob;
use farol_partition::RoutingTable;

/// Files of tables, by their names in the record; `None` where one cannot be had.
pub type TableFiles<'a> = &'a dyn Fn(&TableBlob) -> Option<RoutingTable>;
