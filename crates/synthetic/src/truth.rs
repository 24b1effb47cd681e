//! How many pages that were served are still what they were.

use crate::{Page, Place, Server};
use std::collections::HashMap;

/// Pages that a crawler has, and those of them whose copy is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub pages: u64,
    pub fresh: u64,
}

/// The truth at this moment, by the server's log in memory.
pub fn truth(server: &Server) -> Truth {
    let (world, mut last) = (server.world(), HashMap::<Page, u64>::new());
    for entry in server.log().entries() {
        let Some(host) = world.host_number(&entry.host) else { continue };
        if let Place::Page(page) = world.locate(host, &entry.path)
            && matches!(entry.status, 200 | 304)
            && !entry.cut
        {
            let at = last.entry(page).or_default();
            *at = (*at).max(entry.start_us);
        }
    }
    let now = server.clock();
    let is_fresh = |(page, at): &(&Page, &u64)| {
        world.version(**page, server.clock_at(**at)).number == world.version(**page, now).number
    };
    Truth { pages: last.len() as u64, fresh: last.iter().filter(is_fresh).count() as u64 }
}
