//! What the operator told the whole crawl: a list in the cluster's tables that every node carries out in the same order.
//!
//! Each order is a key of its own, `crawl.<number>`, made by whoever is first to make it; a number that was lost to
//! another is followed by the next. Nodes remember how far they have come. So agents have the same seeds and the same
//! scope, whenever they join.
//!
//! INVARIANT: an order is never changed or removed, and has no hole before it.

use anyhow::{Result, bail};
use farol_base::{CanonicalUrl, Host};
use farol_fabric::{Fabric, Lost, Revision};
use serde::{Deserialize, Serialize};

/// Seeds of one order: within the 256 KiB of a value, whatever their length up to 2 KiB.
const SEEDS_MAX: usize = 100;

/// Something that concerns the crawl as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrawlOrder {
    Pause,
    Resume,
    Seeds(Vec<String>),
    /// A seed was moved: the crawl goes to where it is now.
    Moved {
        from: String,
        to: String,
    },
    RemoveHost(String),
    RemovePages(String),
    RestorePages(String),
}

#[derive(Serialize, Deserialize)]
struct OrderRecord {
    v: u16,
    /// Tells one's own write from another's where an answer got lost.
    nonce: u64,
    order: CrawlOrder,
}

fn key(number: u64) -> String {
    format!("crawl.{number}")
}

/// The order of that number, if there is one.
pub fn read(fabric: &dyn Fabric, number: u64) -> Result<Option<CrawlOrder>> {
    let Some((value, _)) = fabric.get(&key(number))? else { return Ok(None) };
    let record: OrderRecord = serde_json::from_slice(&value)?;
    Ok(Some(record.order))
}

/// Adds an order behind those up to `known`; its number.
pub fn place(fabric: &dyn Fabric, known: u64, order: &CrawlOrder) -> Result<u64> {
    let nonce = getrandom::u64().map_err(|_| anyhow::anyhow!("the system has no random numbers"))?;
    let value = serde_json::to_vec(&OrderRecord { v: 1, nonce, order: order.clone() })?;
    let mut number = known + 1;
    loop {
        match fabric.set(&key(number), &value, Revision::NONE) {
            Ok(_) => return Ok(number),
            Err(Lost::Conflict) => number += 1,
            Err(Lost::Unknown(why)) => match fabric.get(&key(number))? {
                Some((written, _)) if written == value => return Ok(number),
                Some(_) => number += 1,
                None => bail!("the order could not be given: {why}; try again"),
            },
        }
    }
}

/// Seeds as orders that fit.
pub fn seeds(urls: &[CanonicalUrl]) -> Vec<CrawlOrder> {
    let texts = |chunk: &[CanonicalUrl]| CrawlOrder::Seeds(chunk.iter().map(ToString::to_string).collect());
    urls.chunks(SEEDS_MAX).map(texts).collect()
}

/// The host in an order.
pub fn read_host(text: &str) -> Option<Host> {
    Host::parse(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_fabric::memory::Memory;

    #[test]
    fn orders_of_two_people_stand_in_one_list() {
        let fabric = Memory::new();
        let remove = CrawlOrder::RemoveHost("http://a".into());
        assert_eq!(place(&fabric, 0, &CrawlOrder::Pause).unwrap(), 1);
        // Knows of nothing yet.
        assert_eq!(place(&fabric, 0, &remove).unwrap(), 2);
        assert_eq!(read(&fabric, 1).unwrap(), Some(CrawlOrder::Pause));
        assert_eq!(read(&fabric, 2).unwrap(), Some(remove));
        assert_eq!(read(&fabric, 3).unwrap(), None);
    }

    #[test]
    fn seeds_are_cut_to_fit() {
        let urls: Vec<CanonicalUrl> =
            (0..250).map(|n| CanonicalUrl::parse(&format!("http://h{n}/")).unwrap()).collect();
        let orders = seeds(&urls);
        assert_eq!(orders.len(), 3);
        assert_eq!(orders[2], CrawlOrder::Seeds(urls[200..].iter().map(ToString::to_string).collect()));
    }
}
