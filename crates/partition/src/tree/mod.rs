//! The tree of agents [Exposto08 §3.2, §3.4, §3.5]: who is there, who knows whom.
//!
//! The life of an agent here: a machine defines a *node* (\[Exposto08\]'s SIR), an agent or a partitioner; a *group* (its
//! SIRe) stands for agents of one network, or for other groups. The agent asks a member of a group to be added; it learns
//! its ancestors and their children, and they learn of it ([`Member`]). Each level of the tree is split on its own ([`nested`]); tables of
//! ancestors are condensed from those of their children, and a URL goes from representative to representative until it
//! is at home ([`view`]). Who may ask a server, and how that passes from agent to agent, is in [`crate::hold`].
//!
//! INVARIANT: a member knows its ancestors and their children, no more: l(c−1)+1 entities in a tree of l levels with c
//! children each.
//!
//! All of this is plain state: messages in, messages out, time handed in. A transport only has to carry them.

mod entity;
mod member;
pub mod nested;
pub mod view;

pub use entity::{Entity, Kind};
pub use member::{Member, Message, Sent};

#[cfg(test)]
mod member_tests;
