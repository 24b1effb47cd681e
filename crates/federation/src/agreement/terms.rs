//! What two engines agree on, and how long they wait for each other.

use crate::view::View;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::time::Duration;

/// An engine: its public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineId(pub [u8; 32]);

impl fmt::Debug for EngineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..3].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An agreement: drawn at random by who proposes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgreementId(pub [u8; 16]);

impl fmt::Debug for AgreementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..3].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What the consumer leaves to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Crawling and indexing: it gets the pages.
    Index,
    /// Searching: it keeps nothing of the part and asks.
    Search,
}

/// How much of a page travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Its texts.
    Text,
    /// Its words in order, without what is between them.
    Words,
}

/// When pages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// As they come.
    Push,
    /// When the consumer asks.
    Pull,
    /// Between two times of day, in minutes after midnight UTC.
    Window(u16, u16),
}

/// What becomes of pages that were received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEnd {
    /// They stay until they are visited.
    Keep,
    /// They leave within a day.
    Purge,
}

/// What may be sent in a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Pages, gone ones included.
    pub pages_day: u64,
    /// Bytes as sent.
    pub bytes_day: u64,
}

/// What is agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Which agreement.
    pub id: AgreementId,
    /// Which version of it, from 1.
    pub revision: u32,
    /// Who crawls.
    pub provider: EngineId,
    /// Who leaves it to the other.
    pub consumer: EngineId,
    /// What is left.
    pub kind: Kind,
    /// Which pages.
    pub view: View,
    /// How much of them travels.
    pub grade: Grade,
    /// When.
    pub delivery: Delivery,
    /// Longest wait for a packet to fill.
    pub delay_max: Duration,
    /// How much.
    pub quota: Quota,
    /// Engines that the pages may go on to, one after the other.
    pub forward: u8,
    /// What is left at the end.
    pub on_end: OnEnd,
    /// Shortest time between saying and doing a change.
    pub notice: Duration,
    /// How long the consumer trusts the provider without a word.
    pub lease: Duration,
}

impl Terms {
    /// SHA-256 that names these terms.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"farol-terms-1\n");
        hash.update(self.id.0);
        hash.update(self.revision.to_le_bytes());
        hash.update(self.provider.0);
        hash.update(self.consumer.0);
        hash.update(self.view.digest());
        let (from, to) = match self.delivery {
            Delivery::Push => (u16::MAX, 0),
            Delivery::Pull => (u16::MAX, 1),
            Delivery::Window(from, to) => (from, to),
        };
        let bytes = [
            u8::from(self.kind == Kind::Search),
            u8::from(self.grade == Grade::Words),
            u8::from(self.on_end == OnEnd::Purge),
            self.forward,
        ];
        hash.update(bytes);
        hash.update(from.to_le_bytes());
        hash.update(to.to_le_bytes());
        for span in [self.delay_max, self.notice, self.lease] {
            hash.update(span.as_millis().to_le_bytes());
        }
        hash.update(self.quota.pages_day.to_le_bytes());
        hash.update(self.quota.bytes_day.to_le_bytes());
        hash.finalize().into()
    }

    /// Whether pages that come under these terms may be sent on under others: to their consumer, and as far beyond it as
    /// they promise.
    pub fn reach(&self, given: &Terms) -> bool {
        given.forward < self.forward
    }

    /// The other side.
    pub fn partner_of(&self, me: EngineId) -> EngineId {
        if me == self.provider { self.consumer } else { self.provider }
    }
}

/// How long an engine waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// For an answer to a proposal: people decide.
    pub answer: Duration,
    /// Beyond a consumer's lease, for clocks that do not run alike.
    pub bound_margin: Duration,
    /// From the end of a lease until the part is taken back.
    pub takeback_after: Duration,
    /// The same where only searching was left.
    pub takeback_search_after: Duration,
    /// For all that one round of asking takes.
    pub round: Duration,
    /// Between two sendings of a message that was not answered.
    pub resend: Duration,
    /// Until the next round, at least and at most.
    pub back_off: (Duration, Duration),
    /// Between two words that it is over, and how long they are said.
    pub end_repeat: (Duration, Duration),
}

impl Default for Timers {
    fn default() -> Timers {
        let secs = Duration::from_secs;
        Timers {
            answer: secs(7 * 86_400),
            bound_margin: secs(60),
            takeback_after: secs(86_400),
            takeback_search_after: secs(3_600),
            round: secs(60),
            resend: secs(5),
            back_off: (secs(2), secs(30)),
            end_repeat: (secs(600), secs(7 * 86_400)),
        }
    }
}

/// The rules against loops. All hold; the simulator switches single ones off to see that each is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Who finds itself in a path refuses it.
    pub own_id: bool,
    /// Who is relied on asks first.
    pub consent: bool,
    /// Who is asking says that it is busy.
    pub busy: bool,
    /// A provider is bound until the consumer ended or its lease is over.
    pub bound: bool,
    /// Paths are only passed on while every lease along them holds.
    pub horizon: bool,
    /// Of two paths the later counts, whichever came later.
    pub numbered: bool,
    /// Nobody leaves a part to an engine that may not send all of it on.
    pub reach: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            own_id: true,
            consent: true,
            busy: true,
            bound: true,
            horizon: true,
            numbered: true,
            reach: true,
        }
    }
}
