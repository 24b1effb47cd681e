//! Asks many shards at once: makes the calls that [`farol_query::scatter`] decides on.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use farol_base::sync::Mutex;
use farol_query::scatter::{Action, Ask, Failure, ReplicaBook, ReplicaNo, Scatter, ShardNo, Wanted};

use crate::CallError;

/// One shard's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// Whose it is.
    pub shard: ShardNo,
    /// Who gave it.
    pub replica: ReplicaNo,
    /// What it is.
    pub answer: T,
}

/// A shard without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which shard.
    pub shard: ShardNo,
    /// The last error; `None` where nobody could be asked, or nobody answered in time.
    pub why: Option<CallError>,
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered<T> {
    /// Answers, by shard.
    pub answers: Vec<Answer<T>>,
    /// Shards that were given up.
    pub missing: Vec<Missing>,
}

/// Asks each shard that is wanted and waits for all answers until `deadline`.
///
/// `call` makes one call; its future is dropped where the call is to be cancelled. Dropping the whole cancels all
/// calls, and takes them off the replicas' books.
pub async fn gather<T, F>(
    book: &Mutex<ReplicaBook>,
    wanted: impl IntoIterator<Item = Wanted>,
    deadline: Instant,
    mut call: impl FnMut(Ask) -> F,
) -> Gathered<T>
where
    F: Future<Output = Result<T, CallError>>,
{
    let (scatter, mut actions) = Scatter::start(&mut book.lock(), wanted, deadline, Instant::now());
    let mut question = Question { book, scatter };
    let mut calls = Calls(Vec::new());
    let mut gathered = Gathered { answers: Vec::new(), missing: Vec::new() };
    let mut errors: Vec<(ShardNo, CallError)> = Vec::new();
    loop {
        for action in actions {
            match action {
                Action::Ask(ask) => calls.0.push((ask, Box::pin(call(ask)))),
                Action::Cancel(attempt) => calls.0.retain(|(ask, _)| ask.attempt != attempt),
                Action::GiveUp(shard) => {
                    let why = errors.iter().rfind(|(failed, _)| *failed == shard).map(|(_, why)| why.clone());
                    gathered.missing.push(Missing { shard, why });
                }
                Action::Done => (),
            }
        }
        let Some(timer) = question.scatter.next_timer() else { break };
        let ended = tokio::time::timeout_at(timer.into(), calls.next()).await;
        let (now, mut book) = (Instant::now(), book.lock());
        actions = match ended {
            Ok((ask, Ok(answer))) => {
                gathered.answers.push(Answer { shard: ask.shard, replica: ask.replica, answer });
                question.scatter.answered(&mut book, ask.attempt, now)
            }
            Ok((ask, Err(error))) => {
                let failure = failure(&error);
                errors.push((ask.shard, error));
                question.scatter.failed(&mut book, ask.attempt, failure, now)
            }
            Err(_) => question.scatter.timer(&mut book, now),
        };
    }
    gathered.answers.sort_by_key(|answer| answer.shard);
    gathered
}

/// What an error says about the replica.
fn failure(error: &CallError) -> Failure {
    match error {
        CallError::Unreachable { .. } | CallError::Failed(_) | CallError::Damaged { .. } => Failure::Broken,
        CallError::TimedOut { .. } => Failure::Silent,
        CallError::Busy(_) => Failure::Busy,
        CallError::Refused(_) | CallError::WrongVersion(_) => Failure::Refused,
    }
}

/// Takes what is under way off the books when nobody waits any more.
struct Question<'a> {
    book: &'a Mutex<ReplicaBook>,
    scatter: Scatter,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if !self.scatter.is_done() {
            self.scatter.abandon(&mut self.book.lock(), Instant::now());
        }
    }
}

/// Calls under way, a few dozen at most: all are polled whenever one wakes.
struct Calls<F>(Vec<(Ask, Pin<Box<F>>)>);

impl<F: Future> Calls<F> {
    /// The next call that ends; waits for ever where there is none.
    async fn next(&mut self) -> (Ask, F::Output) {
        poll_fn(|context| {
            for at in 0..self.0.len() {
                if let Poll::Ready(output) = self.0[at].1.as_mut().poll(context) {
                    let (ask, _) = self.0.swap_remove(at);
                    return Poll::Ready((ask, output));
                }
            }
            Poll::Pending
        })
        .await
    }
}
