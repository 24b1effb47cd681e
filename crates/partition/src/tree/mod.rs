//! The tree of agents [Exposto08 §3.2, §3.4, §3.5]: who is there, who knows whom.
//!
//! The life of an agent here: a machine defines a *node* (\[Exposto08\]'s SIR), an agent or a partitioner; a *group* (its
//! SIRe) stands for agents of one network, or for other groups. The agent asks a member of a group to be added; it learns
//! its ancestors and their children, and they learn of it ([`Member`]). A group is itself an agent to the level above
//! it: its partitioner ([`crate::replan::Replanner`]) splits among its direct children what the level above gave it, from
//! what they told it, and tells the level above in its turn. A member asks its ancestors' tables from the top down, and a
//! URL goes from representative to representative until it is at home ([`view::LevelTables`]).
//! Who may ask a server, and how that passes from agent to agent, is in [`crate::hold`].
//!
//! For a transport: [`Member::join`], [`Member::take`], [`Member::leave`], [`Member::declare_failed`],
//! [`Member::measured`] and [`Member::gossip`] answer with messages and the nodes that they go to ([`Sent`]); each node is
//! reached at the machines that [`Member::addresses`] names. [`Message`] and [`Entity`] are plain data. Messages may be
//! lost, doubled and late. Tables of groups go down the tree the same way as news, and URLs by [`view::LevelTables::next`].
//!
//! INVARIANT: a member knows its ancestors and their children, no more: l(c−1)+1 entities in a tree of l levels with c
//! children each.
//!
//! All of this is plain state: messages in, messages out, time handed in. A transport only has to carry them.

mod entity;
mod member;
pub mod view;

pub use entity::{Entity, Kind};
pub use member::{Member, Message, Sent};

#[cfg(test)]
mod level_tests;
#[cfg(test)]
mod member_tests;
