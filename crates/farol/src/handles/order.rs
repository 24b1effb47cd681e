//! What a running crawl can be told and asked.

use crate::archive::explain::PageFacts;
use crate::archive::hosts::HostRow;
use crate::archive::page_orders::{OrderReply, PageOrder};
use crate::archive::take_in::{Arrived, TakenIn};
use crate::archive::{Incoming, Received};
use crate::exchange::orders::CrawlOrder;
use crate::handover::backup::Moment;
use crate::page_set::PageSet;
use farol_base::status::{Freshness, RecentVisit};
use farol_base::{CanonicalUrl, Host};
use farol_frontier::HostView;
use farol_store::urls::{HostCounts, Record};
use std::sync::mpsc::SyncSender;

/// Something that the crawl is told to do.
pub enum Order {
    Pause,
    Resume,
    AddSeed(CanonicalUrl),
    RemoveHost(Host),
    /// Something to be done with single pages; what came of it is told on the channel.
    Pages(PageOrder, SyncSender<OrderReply>),
    Inspect(Inspect),
    /// What another agent has sent.
    Received(Received),
    /// Pages of another engine, to be archived and applied; answered once they would survive a power cut.
    TakeIn(Box<Arrived>, SyncSender<TakenIn>),
    /// What an agent had that is gone, for this one to take or to pass on.
    Orphaned(Incoming),
    /// Make everything durable that was taken in so far, and say so on the channel.
    Settle(SyncSender<()>),
    /// Name what a backup of this moment consists of, on the channel.
    BackUp(SyncSender<Result<Moment, String>>),
    /// The order of this number of those that concern the whole crawl; what came of it is told on the channel.
    Told(u64, CrawlOrder, SyncSender<OrderReply>),
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
    /// How many URLs are known of each of these hosts; `None` for one that is not this crawl's. `newest` has what was met a
    /// moment ago counted first, where that is little.
    Known {
        hosts: Vec<Host>,
        newest: bool,
        reply: SyncSender<Vec<Option<u64>>>,
    },
    /// Everything about a page.
    Page {
        url: CanonicalUrl,
        reply: SyncSender<PageAnswer>,
    },
    /// Pages that were asked for and are not there, of hosts whose text contains `filter`: how many, and some of them.
    Missing {
        filter: String,
        first: usize,
        count: usize,
        reply: SyncSender<(usize, Vec<(CanonicalUrl, Record)>)>,
    },
    /// What the operator has removed.
    RemovedPages {
        reply: SyncSender<Vec<PageSet>>,
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

/// What the crawl knows of a page, and where its host stands.
pub struct PageAnswer {
    pub facts: PageFacts,
    pub host: Option<HostView>,
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
