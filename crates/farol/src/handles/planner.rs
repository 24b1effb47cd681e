//! Between the thread that leads and the one that plans who crawls what: planning never keeps a lease waiting.

use farol_base::sync::Mutex;
use farol_cluster::route::Proposal;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the two leave for each other.
#[derive(Default)]
pub struct PlannerDesk {
    term: AtomicU64,
    proposal: Mutex<Option<Proposal>>,
}

impl PlannerDesk {
    /// The term under which this node leads at this moment; 0 while it does not.
    pub fn term(&self) -> u64 {
        self.term.load(Ordering::SeqCst)
    }

    /// What was proposed under another term is void.
    pub fn set_term(&self, term: u64) {
        if self.term.swap(term, Ordering::SeqCst) != term {
            *self.proposal.lock() = None;
        }
    }

    /// A better table, for the leader to publish.
    pub fn propose(&self, proposal: Proposal) {
        *self.proposal.lock() = Some(proposal);
    }

    pub fn take(&self) -> Option<Proposal> {
        self.proposal.lock().take()
    }
}
