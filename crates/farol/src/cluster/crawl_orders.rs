//! What people ask and order of a crawl that several agents share.
//!
//! Orders that concern the whole crawl are placed in the cluster's list, for all nodes to carry out. What concerns one page
//! is asked of all agents: whose a page is follows from its host's address, which nobody but its agent need know.

use crate::archive::page_orders::{OrderReply, PageOrder};
use crate::broker::RemoteIndex;
use crate::exchange::orders::CrawlOrder;
use crate::handles::cluster::Explainer;
use crate::handles::order::{Inspect, Order as LocalOrder};
use crate::handles::page_wire;
use crate::page_set::PageSet;
use crate::roles::desk::PageDesk;
use crate::roles::front::{LiveEngine, Orders};
use crate::wire::v1::page::{ExplainRequest, RefetchRequest, WirePage};
use crate::wire::v1::verb;
use anyhow::Result;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// How long agents have to answer about a page: its visits are looked for in the archive.
const PAGE_MAX: Duration = Duration::from_secs(3);

/// What this agent answers others about its pages.
pub fn page_desk(engine: Arc<LiveEngine>, here: Orders) -> PageDesk {
    PageDesk {
        explain: Box::new(move |url| {
            engine.explain_page(url).map(page_wire::write).map_err(|error| error.to_string())
        }),
        refetch: Box::new(move |pages, anyhow| {
            let (reply, answer) = sync_channel(1);
            here(LocalOrder::Inspect(Inspect::Host { host: pages.host(), reply })).ok()?;
            let is_known = answer.recv_timeout(PAGE_MAX).ok()?.is_some();
            if !is_known && !anyhow {
                return None;
            }
            let (reply, answer) = sync_channel(1);
            here(LocalOrder::Pages(PageOrder::Refetch(pages.clone()), reply)).ok()?;
            answer.recv_timeout(PAGE_MAX).ok()
        }),
    }
}

/// Has pages fetched again by the agent that knows their host; by any, which sends them to it, where none does.
fn refetch(index: &RemoteIndex, pages: &PageSet) -> OrderReply {
    let ask = |anyhow| {
        let request = RefetchRequest { pages: pages.to_string(), anyhow };
        let answers: Vec<Option<OrderReply>> = index.ask_agents(verb::REFETCH, &request, PAGE_MAX);
        answers.into_iter().flatten().next()
    };
    let answer = ask(false).or_else(|| ask(true));
    answer.unwrap_or_else(|| Err("no agent answers; try again".to_string()))
}

/// Who tells what is known of a page: of all agents the one that knows most of it.
pub fn explainer(index: Arc<RemoteIndex>) -> Explainer {
    Box::new(move |url| {
        let request = ExplainRequest { url: url.to_string() };
        let answers: Vec<WirePage> = index.ask_agents(verb::EXPLAIN, &request, PAGE_MAX);
        // Who has visited it knows more than who has heard of it, and that more than who has not.
        let best = answers.into_iter().max_by_key(|page| (page.visits, page.state.is_some()));
        best.and_then(|page| page_wire::read(page).ok())
    })
}

/// Places an order of the whole crawl, and says what came of it here.
type PlaceOrder = dyn Fn(&CrawlOrder) -> Result<OrderReply> + Send + Sync;

/// Where people's questions and orders go: what concerns the whole crawl to all nodes.
pub fn orders(here: Orders, place: Arc<PlaceOrder>, index: Arc<RemoteIndex>) -> Orders {
    Arc::new(move |order| {
        let (order, reply) = match order {
            LocalOrder::Pause => (CrawlOrder::Pause, None),
            LocalOrder::Resume => (CrawlOrder::Resume, None),
            LocalOrder::AddSeed(url) => (CrawlOrder::Seeds(vec![url.to_string()]), None),
            LocalOrder::RemoveHost(host) => (CrawlOrder::RemoveHost(host.to_string()), None),
            LocalOrder::Pages(PageOrder::Remove(pages), reply) => {
                (CrawlOrder::RemovePages(pages.to_string()), Some(reply))
            }
            LocalOrder::Pages(PageOrder::Restore(pages), reply) => {
                (CrawlOrder::RestorePages(pages.to_string()), Some(reply))
            }
            LocalOrder::Pages(PageOrder::Refetch(pages), reply) => {
                let _ = reply.send(refetch(&index, &pages));
                return Ok(());
            }
            order => return here(order),
        };
        let came = place(&order)?;
        if let Some(reply) = reply {
            // Whoever ordered may have gone meanwhile.
            let _ = reply.send(came);
        }
        Ok(())
    })
}
