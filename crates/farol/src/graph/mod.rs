//! What agents know of their hosts, and who should crawl what because of it: files in shared storage.
//!
//! The life of a fact: an agent gathers what it knows (`roles/reporter`), and uploads what is news ([`news`]) in
//! reports. The leader's planner (`roles/planner`) takes reports in, as far as they can be believed, keeps all of it as
//! an *atlas* ([`atlas`]) for the next leader, and deletes the reports. A plan becomes a table ([`tables`]), which the
//! record of the routing table names; every agent fetches it, checks its digest, and routes by it.
//!
//! ```text
//! graph/<agent>/<number>.zst       reports that nobody has taken in yet
//! graph/atlas/<term>-<n>/…         what the planner knows; the newest whole one counts
//! route/<version>-<term>           tables
//! ```
//!
//! What is believed and when a table is worth its moves is decided in `farol_partition::replan`; nothing here decides.

pub mod atlas;
pub mod known;
pub mod news;
pub mod tables;

use farol_cluster::NodeNo;

/// Folder of reports and atlases.
pub const FOLDER: &str = "graph/";
/// No report is larger when packed: 20,000 hosts and 500,000 links take some 10 MiB.
pub const REPORT_BYTES_MAX: u64 = 32 << 20;

/// The name of a report.
pub fn report_name(agent: NodeNo, number: u64) -> String {
    format!("{FOLDER}{agent}/{number:020}.zst")
}

/// Whose a report is, and its number.
pub fn report_of(name: &str) -> Option<(NodeNo, u64)> {
    let (agent, file) = name.strip_prefix(FOLDER)?.split_once('/')?;
    let number = file.strip_suffix(".zst").filter(|number| number.len() == 20)?;
    Some((NodeNo(agent.parse().ok()?), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_told_from_everything_else() {
        let name = report_name(NodeNo(3), 1 << 33);
        assert_eq!(report_of(&name), Some((NodeNo(3), 1 << 33)));
        for other in
            ["graph/atlas/1-1/all.zst", "graph/3/7.zst", "graph/x/00000000000000000007.zst", "route/1-1"]
        {
            assert_eq!(report_of(other), None, "{other}");
        }
    }
}
