//! Who may ask a server now, and how that right passes from agent to agent.
//!
//! # The life of a host's right
//!
//! The leader publishes epochs of one table ([`farol_cluster::route`]). It gives every *address* to one agent, with all
//! hosts that are there, and names for every *host* one agent as its *home*, by the host's name alone
//! ([`EpochOwners`]). Two rights are needed to ask a host at an address: that to the address, which the table gives, and
//! that to the host, which its home has and may grant. So neither a server nor a host is ever asked by two, although DNS
//! tells every agent something else.
//!
//! *Birth.* A URL is found. [`Holder::route`] says whose it is: where nothing better is known, the home's. The home
//! resolves the host. Where the address is its own, it asks the host itself and nothing is noted down. Otherwise it says
//! so to [`Holder::place`], which *grants* the host to the owner of the address, pinned to that very address, and the
//! shell sends the host's URLs there ([`Move::Luggage`]). From then on the home passes on what still comes to it.
//!
//! *Asking.* Right before a request is written, [`Holder::begin`] looks at everything again: the lease is valid, the agent
//! is a member of the newest table under this incarnation, the table gives it the address, and both rights are there. The
//! request ends with the lease, which renewals extend ([`Holder::deadline`]); [`Holder::overdue`] names those to close.
//!
//! *An address changes.* An agent that asks by a grant, and whose DNS does not know the pinned address any more, gives
//! the host back ([`Holder::resolved`]); its home resolves it and grants it anew. Twice in an epoch at most: the second
//! grant counts until the next, whatever DNS says.
//!
//! *A filter.* Whose a host is by the operator's word asks it wherever it is. Where its address is another's, its home
//! claims the address, and the owner gives it up for this epoch with all hosts that are there (`pins`): an address has
//! one asker, also when two filters meet at it; then the first claim counts. The next plan makes that a part of its table.
//!
//! *A new epoch.* [`Holder::hear`] works out from the tables since the last settled one what was kept: what all of them
//! give to this agent goes on without a pause. What is lost stops at once; requests under way end or are closed within
//! ten seconds; then the rights go to the new owners as notes that count under this very epoch, and
//! [`Holder::released`] grows. The shell walks over its hosts then, and again once
//! the epoch is settled ([`Holder::sweep`]), so that whatever it has no business with finds its way. When every member has released the epoch it is settled, and every right is where
//! the table says, whatever got lost.
//!
//! *A death.* The leader buries a silent agent, whose lease has surely ended, and publishes the next epoch. Homes grant anew
//! what the dead had; its heirs wait with its addresses until the undertaker has brought what its backup holds, or for
//! [`HoldSettings::inherit_max_ms`]. The undertaker sends luggage, never rights.
//!
//! *Leaving.* An agent without a share loses everything like that, and has left once [`Holder::is_empty_handed`].
//!
//! # For whoever wires it to a crawler
//!
//! One thread owns the [`Holder`] and tells it everything: the lease ([`Holder::lease`]) and the record after each turn of
//! the member, files of tables it lacks ([`Holder::lacks`], [`Holder::learn`]), notes that arrive in order
//! ([`Numbers`]; where [`Holder::heard`] says false, the log is not read on until the table has come), answers of DNS,
//! requests begun and ended. Logs are read only while the member is active: a node that has decided to leave must not take
//! anything any more. After each it takes [`Holder::moves`] and carries them out: notes and luggage through a
//! durable outbox, per destination in this order; luggage stays in the store until the receiver's told number has
//! passed, and leaves only once a backup holds what was found on its pages: whoever gets it will not visit them again as
//! new, and what was found would die with the giver. Luggage that comes while the same host is on its way to another
//! agent cancels that: the host may have come back. It calls [`Holder::tick`] a few times a second and puts [`Holder::released`] into its report. A process that starts
//! anew, or was buried, begins with a new [`Holder`] and sweeps all its hosts once it is a member.
//!
//! Memory: about 150 bytes for each host whose home and asker are two agents, at both; nothing for others. The tables
//! alone cannot say who asks a host, because they cannot say where it is: only its home remembers what it granted.
//!
//! INVARIANT: at any instant one agent at most has [`Verdict::Yes`] for a host, and one for an address.
//! Does not decide *when* a server is asked, nor which page: that is the frontier's.

mod holder;
mod lineage;
mod note;
mod owners;
mod pins;
mod places;

pub use holder::{Holder, Ticket, Verdict};
pub use lineage::Thing;
pub use note::{AgentId, Arrival, Note, NoteBody, Numbers};
pub use owners::{EpochOwners, NamedOwners};
pub use places::{Destination, Place};

use farol_cluster::NodeNo;
use std::net::IpAddr;

/// What its shell does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Send a note.
    Tell { to: NodeNo, note: Note },
    /// Send everything that is known of a host, and forget it once the receiver has told that it has it.
    Luggage { host: String, to: NodeNo },
    /// Find out where a host is and say so to [`Holder::place`]; the hint serves where nothing better is known.
    Resolve { host: String, hint: Option<IpAddr> },
}

/// Other values than the defaults are for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldSettings {
    /// Requests to what was lost are closed after this.
    pub close_after_ms: u64,
    /// Heirs wait so long at most for what a dead agent's backup holds.
    pub inherit_max_ms: u64,
}

impl Default for HoldSettings {
    fn default() -> HoldSettings {
        HoldSettings { close_after_ms: 10_000, inherit_max_ms: 600_000 }
    }
}

/// Rules that the simulator switches off one at a time, to see whether its checkers notice. The product keeps them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldRules {
    /// Nothing is asked without a lease, and requests end with it.
    pub lease: bool,
    /// What a former incarnation was given is not this one's.
    pub incarnation: bool,
    /// The table must give the very address that is connected to.
    pub address: bool,
    /// What a table gives is used only once it was kept, passed on, or settled.
    pub right_awaited: bool,
    /// A right counts under the epoch it was passed on under, and no other.
    pub right_of_epoch: bool,
    /// Rights are passed on, and epochs released, only when nothing is under way any more.
    pub drained: bool,
    /// Heirs wait for what a dead agent's backup holds.
    pub luggage_awaited: bool,
    /// A host is asked only by its home or by its grant.
    pub home: bool,
    /// A host changes its asker twice in an epoch at most; once more where its address goes to a filter's agent.
    pub hops: bool,
    /// The operator's filters hold for hosts that no plan has seen, too.
    pub filters: bool,
    /// Whoever gives an address up for an epoch asks nobody there any more.
    pub given_up: bool,
}

impl Default for HoldRules {
    fn default() -> HoldRules {
        HoldRules {
            lease: true,
            incarnation: true,
            address: true,
            right_awaited: true,
            right_of_epoch: true,
            drained: true,
            luggage_awaited: true,
            home: true,
            hops: true,
            filters: true,
            given_up: true,
        }
    }
}

#[cfg(test)]
mod tests;
