//! Reads the orders of the whole crawl, one after the other, and has this node carry each out; places those that people
//! give here.

use crate::archive::page_orders::OrderReply;
use crate::exchange::orders::{CrawlOrder, place, read};
use crate::handles::order::Order;
use anyhow::{Result, anyhow};
use farol_base::sync::Mutex;
use farol_fabric::Fabric;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the list is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// How long whoever gives an order waits for what comes of it.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// Answers that are kept for those who ask a moment later.
const REPLIES_MAX: usize = 256;

/// Hands an order to this node's crawl, or to what it has left.
pub type Give = Arc<dyn Fn(Order) -> Result<()> + Send + Sync>;
/// Orders that the crawl itself gives.
pub type Given = Arc<dyn Fn() -> Option<CrawlOrder> + Send + Sync>;

/// Reads the list.
pub struct OrderReader {
    shared: Arc<Reader>,
    thread: Option<JoinHandle<()>>,
}

struct Reader {
    fabric: Arc<dyn Fabric>,
    give: Give,
    given: Given,
    /// The last order that was carried out here.
    done: AtomicU64,
    replies: Mutex<BTreeMap<u64, OrderReply>>,
    stop: AtomicBool,
}

impl OrderReader {
    /// Goes on behind the orders that this node has carried out.
    pub fn start(fabric: Arc<dyn Fabric>, done: u64, give: Give, given: Given) -> Result<OrderReader> {
        let shared = Arc::new(Reader {
            fabric,
            give,
            given,
            done: AtomicU64::new(done),
            replies: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let reader = shared.clone();
        let thread = std::thread::Builder::new().name("orders".to_string()).spawn(move || reader.run())?;
        Ok(OrderReader { shared, thread: Some(thread) })
    }

    /// Places an order of the whole crawl, and waits a moment for what comes of it here.
    pub fn placer(&self) -> impl Fn(&CrawlOrder) -> Result<OrderReply> + Send + Sync + use<> {
        let reader = self.shared.clone();
        move |order| {
            let number = place(&*reader.fabric, reader.done.load(Ordering::SeqCst), order)?;
            let begun = Instant::now();
            while begun.elapsed() < WAIT_MAX {
                if let Some(reply) = reader.replies.lock().remove(&number) {
                    return Ok(reply);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(Ok("It is on its way to all nodes.".to_string()))
        }
    }

    pub fn stop(mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Reader {
    fn run(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            match self.step() {
                Ok(true) => {}
                Ok(false) => std::thread::sleep(LOOK_EVERY),
                Err(error) => {
                    tracing::debug!(error = %format!("{error:#}"), "orders of the crawl wait");
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        }
    }

    /// Carries the next order out, if there is one.
    fn step(&self) -> Result<bool> {
        let done = self.done.load(Ordering::SeqCst);
        if let Some(order) = (self.given)() {
            place(&*self.fabric, done, &order)?;
        }
        let Some(order) = read(&*self.fabric, done + 1)? else { return Ok(false) };
        let (reply, answer) = sync_channel(1);
        (self.give)(Order::Told(done + 1, order, reply))?;
        // A crawl may be busy for long, and is given nothing else meanwhile.
        let came = loop {
            match answer.recv_timeout(LOOK_EVERY) {
                Ok(came) => break came,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if !self.stop.load(Ordering::SeqCst) => {}
                Err(_) => return Err(anyhow!("the crawl has ended")),
            }
        };
        let mut replies = self.replies.lock();
        replies.insert(done + 1, came);
        while replies.len() > REPLIES_MAX {
            replies.pop_first();
        }
        self.done.store(done + 1, Ordering::SeqCst);
        Ok(true)
    }
}
