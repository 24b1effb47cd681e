//! The crawl of a process that does not crawl: it can be asked, pages can be removed and put back, and those of other
//! engines taken in.

use super::order::Order;
use crate::archive::Opened;
use crate::archive::take_in::take_in;
use anyhow::{Result, bail};
use farol_base::sync::Mutex;
use farol_base::{Clock, SystemClock};
use farol_store::pages::{Archive, Encoded};
use std::path::PathBuf;

/// What a crawl has left, opened.
pub struct StillCrawl {
    /// `None` once it is closed.
    opened: Mutex<Option<Opened>>,
    /// The data folder.
    path: PathBuf,
}

impl StillCrawl {
    pub fn new(opened: Opened, path: PathBuf) -> StillCrawl {
        StillCrawl { opened: Mutex::new(Some(opened)), path }
    }

    /// Answers a question, or does what was ordered of pages; nothing else can be done without a crawler.
    pub fn order(&self, order: Order) -> Result<()> {
        let mut opened = self.opened.lock();
        let Some(Opened { followers, archive, interpreter, .. }) = opened.as_mut() else {
            bail!("the engine is stopping");
        };
        match order {
            Order::Inspect(inspect) => followers.answer(inspect, &|_| None),
            Order::Pages(order, reply) => {
                let done =
                    followers.order_pages(&order, SystemClock.now(), &archive.reader(), interpreter)?;
                // Whoever ordered may have gone meanwhile.
                let _ = reply.send(done);
                Ok(())
            }
            Order::Told(number, order, reply) => {
                let (archive, now) = (archive.reader(), SystemClock.now());
                let (done, _) = followers.carry_out(number, &order, now, &archive, interpreter)?;
                let _ = reply.send(done);
                Ok(())
            }
            Order::TakeIn(arrived, reply) => {
                crate::folder::grow_format(&self.path)?;
                let mut append = |archive: &mut Archive, batch: &[Encoded]| Ok(archive.append(batch)?);
                let now = SystemClock.now();
                let taken = take_in(archive, &mut append, followers, interpreter, now, *arrived)?;
                let _ = reply.send(taken);
                Ok(())
            }
            Order::Pause
            | Order::Resume
            | Order::AddSeed(_)
            | Order::RemoveHost(_)
            | Order::Received(_)
            | Order::Orphaned(_)
            | Order::Settle(_)
            | Order::BackUp(_) => bail!("no crawler runs in this process"),
        }
    }

    /// Makes what was ordered survive a power cut, and lets go of the folder.
    pub fn close(&self) -> Result<()> {
        let Some(mut opened) = self.opened.lock().take() else { return Ok(()) };
        if opened.is_behind {
            return Ok(());
        }
        opened.followers.urls.sync()?;
        opened.followers.linker.sync()?;
        opened.followers.confirm(&opened.archive)
    }
}
