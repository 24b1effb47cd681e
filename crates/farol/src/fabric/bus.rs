//! The queue of changes, from the crawler to an indexer.
//!
//! PROMISE, of every [`ChangeQueue`]:
//! - *Order.* Changes are received in the order in which they were sent.
//! - *At least once, together with the archive.* While the process lives, each change is received. A queue need not
//!   survive a crash: the archive does. A receiver commits [`Change::Upto`] with what it has taken in, and when it
//!   starts it reads the archive from there before it receives; it may then meet changes that it has already seen.
//! - *Acknowledged means done.* A change up to the last acknowledged one is never delivered again. A queue that does
//!   survive may deliver again, in order, all that come after it.
//! - *Backpressure.* A full queue makes the sender wait.
//!
//! Therefore taking a change in twice must change nothing, and does not: each one says what a page is now.

use anyhow::Result;
use farol_base::{CanonicalUrl, Document, Host, HostHash, PageId, PagePosition};
use farol_links::OutLink;
use std::time::Duration;

/// What an indexer is told, in the order in which it happened.
#[derive(Clone, Debug)]
pub enum Change {
    /// The page is now this; replaces what was known under its URL.
    Put(Box<Document>),
    /// The page is gone, or asked not to be indexed.
    Delete(CanonicalUrl),
    /// All pages of the host are deleted.
    DeleteHost(Host),
    /// All pages whose address begins with this one's are deleted.
    DeleteUnder(CanonicalUrl),
    /// What a page links to, where somebody else than this process keeps the graph.
    Links { page: PageId, host: HostHash, links: Vec<OutLink>, at: PagePosition },
    /// The page links to nothing any more.
    LinksGone(PageId),
    /// Everything up to this position of the archive has been sent.
    Upto(PagePosition),
}

/// A change on its way to one receiver.
#[derive(Debug)]
pub struct Delivery {
    /// Its number in the queue; grows by one with each change.
    pub seqno: u64,
    pub change: Change,
}

/// A queue of changes with one receiver. See the [module](self) for what it promises.
pub trait ChangeQueue: Send + Sync {
    /// Appends a change; waits while the queue is full.
    fn send(&self, change: Change) -> Result<()>;

    /// Takes the next change; `None` when none came in time.
    fn receive(&self, wait: Duration) -> Option<Delivery>;

    /// Acknowledges this change and all before it: the receiver has made them durable.
    fn ack(&self, seqno: u64);
}

/// What every implementation must pass, starting empty.
#[cfg(test)]
pub fn check_contract(queue: &dyn ChangeQueue) {
    let send = |file| queue.send(Change::Upto(PagePosition { file, offset: 0 })).unwrap();
    (0..3).for_each(send);
    let mut before = None;
    for want in 0..3 {
        let got = queue.receive(Duration::from_millis(100)).unwrap();
        assert!(matches!(got.change, Change::Upto(at) if at.file == want), "{got:?}");
        assert!(before.is_none_or(|before| got.seqno == before + 1), "{got:?} after {before:?}");
        before = Some(got.seqno);
    }
    assert!(queue.receive(Duration::ZERO).is_none());
    queue.ack(before.unwrap());
    assert!(queue.receive(Duration::ZERO).is_none(), "what was acknowledged came again");
    send(3);
    let got = queue.receive(Duration::from_millis(100)).unwrap();
    assert_eq!(Some(got.seqno), before.map(|before| before + 1));
}
