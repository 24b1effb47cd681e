//! Questions of this front on their way to the index: who asks one that is, waits for that answer.

use farol_base::query::Answer;
use farol_base::sync::Mutex;
use farol_cache::flight::{Flights, Joined};
use farol_cache::key::QueryKey;
use farol_front::EngineError;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Who waits longer than this for somebody else's answer asks for themselves.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Waiting for one question at a time; the front has no more calls under way than 64.
const WAITERS_MAX: usize = 64;

/// An answer as it came for whoever asked first.
#[derive(Clone)]
pub struct Landed {
    pub answer: Arc<Answer>,
    asked: Arc<str>,
}

impl Landed {
    /// Suggestions and corrections repeat the question's spelling: they are for those who spell it so.
    pub fn fits(&self, asked: &str) -> bool {
        (self.answer.suggestion.is_none() && self.answer.corrected.is_none()) || *self.asked == *asked
    }
}

type Ending = Result<Landed, EngineError>;

/// Questions on their way.
#[derive(Clone)]
pub struct FlightBoard(Arc<Mutex<Flights<QueryKey, SyncSender<Ending>>>>);

/// What comes of boarding.
pub enum Boarded {
    /// Ask the index, then land.
    Leads(Flight),
    /// Somebody else did.
    Landed(Ending),
    /// Ask the index, for yourself.
    Alone,
}

impl Default for FlightBoard {
    fn default() -> FlightBoard {
        FlightBoard(Arc::new(Mutex::new(Flights::new(WAITERS_MAX))))
    }
}

impl FlightBoard {
    /// Leads, or waits for who does.
    pub fn board(&self, key: &QueryKey) -> Boarded {
        let (sender, receiver) = sync_channel(1);
        let joined = self.0.lock().join(key, || sender);
        match joined {
            Joined::Leads => Boarded::Leads(Flight { board: self.clone(), key: key.clone(), told: None }),
            Joined::Full => Boarded::Alone,
            Joined::Waits => ended(&receiver).map_or(Boarded::Alone, Boarded::Landed),
        }
    }

    /// Waits for a flight that is on its way; `None` where there is none, or it takes too long.
    pub fn wait(&self, key: &QueryKey) -> Option<Ending> {
        let (sender, receiver) = sync_channel(1);
        let waits = self.0.lock().wait(key, || sender);
        if waits { ended(&receiver) } else { None }
    }
}

/// Who led broke down, or takes too long: `None`.
fn ended(receiver: &Receiver<Ending>) -> Option<Ending> {
    receiver.recv_timeout(WAIT_MAX).ok()
}

/// A flight; it lands however it ends, so that nobody waits in vain.
pub struct Flight {
    board: FlightBoard,
    key: QueryKey,
    told: Option<Ending>,
}

impl Flight {
    /// Tells all who wait.
    pub fn land(mut self, ending: &Result<Answer, EngineError>, asked: &Arc<str>) {
        let landed = |answer: &Answer| Landed { answer: Arc::new(answer.clone()), asked: asked.clone() };
        self.told = Some(ending.as_ref().map(landed).map_err(Clone::clone));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let waiters = self.board.0.lock().land(&self.key);
        for waiter in waiters {
            // Without an answer the waiter's channel closes, and they ask for themselves.
            if let Some(told) = &self.told {
                let _ = waiter.send(told.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_wait_are_told_and_nobody_waits_for_who_broke_down() {
        let board = FlightBoard::default();
        let (key, asked): (QueryKey, Arc<str>) = (QueryKey::of_text("q"), "q".into());
        assert!(board.wait(&key).is_none());
        for breaks in [false, true] {
            let Boarded::Leads(flight) = board.board(&key) else { panic!("nobody was on the way") };
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    let (board, key) = (board.clone(), key.clone());
                    std::thread::spawn(move || board.board(&key))
                })
                .collect();
            while board.0.lock().len() != 1 || waiting.iter().any(|thread| thread.is_finished()) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(50));
            match breaks {
                true => drop(flight),
                false => flight.land(&Ok(Answer { total: 7, ..Answer::default() }), &asked),
            }
            for thread in waiting {
                match thread.join().unwrap() {
                    Boarded::Landed(Ok(landed)) => {
                        assert!(!breaks && landed.answer.total == 7 && landed.fits("Q"));
                    }
                    // One that came late leads; who waited for one that broke down asks alone.
                    other => assert!(!matches!(other, Boarded::Landed(_))),
                }
            }
        }
    }
}
