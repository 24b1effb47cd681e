//! What engines say to each other about an agreement. Each may be lost, late, doubled and out of order.

use super::paths::PathPart;
use super::terms::{AgreementId, EngineId, Terms};
use farol_base::Timestamp;
use std::time::Duration;

/// A message about one agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Either: let us agree on this.
    Propose(Box<Terms>),
    /// Answer to a proposal or a change: yes, to terms with this digest.
    Accept([u8; 32]),
    /// Answer to a proposal or a change: no, to terms with this digest.
    Refuse([u8; 32]),
    /// Consumer: I have all of it; who crawls it? Round, revision.
    Ready(Timestamp, u32),
    /// Answer to it: round, number of the path, the path, and how long it is good for.
    Path(Timestamp, u64, Vec<PathPart>, Duration),
    /// Answer to it: ask again later.
    NotNow(Timestamp),
    /// Provider: the part is to be left to others in turn; number of the path, the path.
    Chain(u64, Vec<PathPart>),
    /// Answer to it: all who rely on me agree.
    Chained(u64),
    /// Answer to it: ask again later.
    Busy(u64),
    /// Answer to it: it would lead back to me, or too far.
    ChainRefused(u64),
    /// Consumer: I leave it to you from now on. Round.
    Active(Timestamp),
    /// Consumer: I still rely on you. When this was sent by its own clock, revision.
    Renew(Timestamp, u32),
    /// Answer to it: when that was sent, number of the path, the path where it is settled, how long it is good for.
    Renewed(Timestamp, u64, Option<Vec<PathPart>>, Duration),
    /// Answer to it: your lease was over and I am not bound any more; begin again.
    Lapsed(Timestamp),
    /// Either: let us agree on this instead.
    Amend(Box<Terms>),
    /// Either: it is over.
    End,
    /// Answer to it.
    Ended,
}

/// A message to be sent, once the state is safe on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// To whom.
    pub to: EngineId,
    /// About which agreement.
    pub agreement: AgreementId,
    /// What.
    pub message: Message,
}
