//! What a running crawl can be told and asked.

use crate::archive::hosts::HostRow;
use farol_base::status::{Freshness, RecentVisit};
use farol_base::{CanonicalUrl, Host};
use farol_frontier::HostView;
use farol_frontier::revisit::planner::Reason;
use farol_store::urls::{HostCounts, Record};
use std::sync::mpsc::SyncSender;

/// Something that the crawl is told to do.
pub enum Order {
    Pause,
    Resume,
    AddSeed(CanonicalUrl),
    RemoveHost(Host),
    Inspect(Inspect),
}

/// Something that the crawl is asked; it answers on the channel.
pub enum Inspect {
    Hosts {
        filter: String,
        state: Option<String>,
        first: usize,
        count: usize,
        reply: SyncSender<(usize, Vec<HostLine>)>,
    },
    Host {
        host: Host,
        reply: SyncSender<Option<HostAnswer>>,
    },
    /// Why a page is visited when it is.
    Page {
        url: CanonicalUrl,
        reply: SyncSender<Option<PageAnswer>>,
    },
}

/// A host in a list.
pub struct HostLine {
    pub host: Host,
    pub counts: HostCounts,
    pub view: Option<HostView>,
    pub errors: u64,
    pub freshness: Option<Freshness>,
}

/// What is known of a page, and why it is visited when it is.
pub struct PageAnswer {
    pub record: Record,
    pub reason: Reason,
}

/// All about one host.
pub struct HostAnswer {
    pub line: HostLine,
    pub row: HostRow,
    pub recent: Vec<RecentVisit>,
    pub robots: Vec<u8>,
}

impl HostLine {
    /// One word for what the host is doing.
    pub fn state(&self) -> String {
        match &self.view {
            Some(view) => view.state.name().to_string(),
            None if self.counts.known
                > self.counts.collected + self.counts.gone + self.counts.refused + self.counts.failed =>
            {
                "waiting".to_string()
            }
            None => "done".to_string(),
        }
    }
}
