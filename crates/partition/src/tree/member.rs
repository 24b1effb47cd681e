//! A node's knowledge of the tree, and the operations that build it [Exposto08 §3.4.1, §3.5].
//!
//! Knowledge is a set of accounts of entities; the later account of each counts, so that messages may come in any
//! order, twice, or late. What gets lost is made good by [`Member::gossip`].

use super::entity::{Entity, Kind, representatives_wanted};
use crate::Error;
use farol_base::Random;
use std::collections::{BTreeMap, BTreeSet};

/// What members say to each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A newcomer (first) with its representatives asks to be added to a group; answers go to `reply_to`.
    Add { newcomer: Vec<Entity>, into: String, reply_to: String },
    /// To the newcomer: the group it was added to, all ancestors, their children, and who answers for them.
    Welcome { entities: Vec<Entity> },
    /// To those inside: what has changed. The receiver tells all others within `scope`.
    News { entities: Vec<Entity>, scope: String },
    /// All that a member knows; the other answers with all that it knows.
    Sync { entities: Vec<Entity>, from: String },
    /// The newcomer cannot be added there.
    Refused { into: String, why: String },
}

/// A message and the node it goes to.
pub type Sent = (String, Message);

/// Times by which a burden must have changed for others to hear of it.
const BURDEN_STEP: f64 = 1.5;

/// A node.
#[derive(Clone, Debug)]
pub struct Member {
    me: String,
    known: BTreeMap<String, Entity>,
}

impl Member {
    /// A node of one machine.
    pub fn define_node(name: &str, kind: Kind, machine: &str) -> Result<Member, Error> {
        if !kind.is_node() {
            return Err(Error::Tree(format!("{name} is a group; a node is a robot or a partitioner")));
        }
        let own = Entity { machines: vec![machine.to_string()], ..Entity::new(name, kind) };
        Ok(Member { me: name.to_string(), known: BTreeMap::from([(name.to_string(), own)]) })
    }

    /// One more machine of this node.
    pub fn add_machine(&mut self, machine: &str) -> Vec<Sent> {
        let own = self.own_mut();
        if own.machines.iter().any(|known| known == machine) {
            return Vec::new();
        }
        own.machines.push(machine.to_string());
        own.epoch += 1;
        self.tell_all(vec![self.me.clone()])
    }

    /// A group over the top of what this member knows.
    pub fn define_group(&mut self, name: &str, kind: Kind) -> Result<Vec<Sent>, Error> {
        if kind.is_node() {
            return Err(Error::Tree(format!("{name} is a node; a group is local or wide")));
        }
        if self.known.contains_key(name) {
            return Err(Error::Twice(name.to_string()));
        }
        let top = self.line().pop().unwrap_or_else(|| self.me.clone());
        let below = self.known.get_mut(&top).ok_or_else(|| Error::NoEntity(top.clone()))?;
        if kind == Kind::LocalGroup && !below.kind.is_node() {
            return Err(Error::Tree(format!("{name} is a local group; it stands for nodes, not for {top}")));
        }
        below.parent = Some(name.to_string());
        below.epoch += 1;
        self.known.insert(name.to_string(), Entity::new(name, kind));
        let mut changed = vec![top, name.to_string()];
        changed.extend(self.choose_representatives());
        Ok(self.tell_all(changed))
    }

    /// A request to join: this member's topmost entity asks `member` to be added to `into`.
    pub fn join(&self, into: &str, member: &str) -> Sent {
        let top = self.line().pop().unwrap_or_else(|| self.me.clone());
        let mut newcomer: Vec<Entity> = self.known.get(&top).map(Entity::for_others).into_iter().collect();
        let answering = self.answering(&top);
        newcomer.extend(
            answering
                .iter()
                .filter(|node| **node != top)
                .filter_map(|node| self.known.get(node))
                .map(Entity::for_others),
        );
        (member.to_string(), Message::Add { newcomer, into: into.to_string(), reply_to: self.me.clone() })
    }

    /// Takes a message in; answers what is to be sent.
    pub fn take(&mut self, message: Message) -> Vec<Sent> {
        match message {
            Message::Add { newcomer, into, reply_to } => self.add(newcomer, &into, reply_to),
            Message::Welcome { entities } => {
                // Everybody in the newcomer's own branch hears of the new surroundings.
                let scope = self.line().pop().unwrap_or_else(|| self.me.clone());
                self.learn(&entities);
                self.spread(&scope, &entities)
            }
            Message::News { entities, scope } => {
                let back = self.learn(&entities);
                let mut sent = self.spread(&scope, &entities);
                sent.extend(back);
                sent
            }
            Message::Sync { entities, from } => {
                let mut sent = self.learn(&entities);
                let all = self.told();
                sent.push((from.clone(), Message::News { entities: all, scope: from }));
                sent
            }
            Message::Refused { .. } => Vec::new(),
        }
    }

    fn add(&mut self, mut newcomer: Vec<Entity>, into: &str, reply_to: String) -> Vec<Sent> {
        let refused =
            |why: String| vec![(reply_to.clone(), Message::Refused { into: into.to_string(), why })];
        let Some(group) = self.line().iter().find(|name| *name == into).and_then(|name| self.known.get(name))
        else {
            return refused(format!("{} is not within {into}", self.me));
        };
        let Some(first) = newcomer.first_mut() else { return refused("nobody asks".to_string()) };
        if group.kind == Kind::LocalGroup && !first.kind.is_node() {
            return refused(format!("{into} is a local group; it stands for nodes"));
        }
        if self.line().contains(&first.name) {
            return refused(format!("{} is within {} already", self.me, first.name));
        }
        first.parent = Some(into.to_string());
        first.epoch += 1;
        let name = first.name.clone();
        self.learn(&newcomer);
        let mut changed: Vec<String> = newcomer.iter().map(|entity| entity.name.clone()).collect();
        changed.extend(self.choose_representatives());
        let mut sent = vec![(reply_to, Message::Welcome { entities: self.told() })];
        // The newcomer's own branch has its welcome; all others hear the news.
        sent.extend(
            self.tell_all(changed)
                .into_iter()
                .filter(|(_, message)| !matches!(message, Message::News { scope, .. } if *scope == name)),
        );
        sent
    }

    /// How well this node can answer for others: the response time that its neighbours see, and its load (1 is busy).
    /// Small changes are kept to itself, so that representatives do not change all the time.
    pub fn measured(&mut self, response_ms: u32, load: f64) -> Vec<Sent> {
        let load = if load.is_finite() { load.clamp(0.01, 100.0) } else { 100.0 };
        let burden = (f64::from(response_ms.max(1)) * load * 100.0).min(f64::from(u32::MAX)) as u32;
        let own = self.own_mut();
        let (least, most) = (burden.min(own.burden), burden.max(own.burden));
        if f64::from(most) <= BURDEN_STEP * f64::from(least) {
            return Vec::new();
        }
        own.burden = burden;
        own.epoch += 1;
        let mut changed = vec![self.me.clone()];
        changed.extend(self.choose_representatives());
        self.tell_all(changed)
    }

    /// This node leaves: call when its hand-overs are done.
    pub fn leave(&mut self) -> Vec<Sent> {
        let me = self.me.clone();
        self.mark_gone(&me)
    }

    /// Says that a node or group is dead; only for whoever watches leases.
    ///
    /// # Errors
    /// Where it is not known here.
    pub fn declare_failed(&mut self, name: &str) -> Result<Vec<Sent>, Error> {
        if !self.known.contains_key(name) {
            return Err(Error::NoEntity(name.to_string()));
        }
        Ok(self.mark_gone(name))
    }

    fn mark_gone(&mut self, name: &str) -> Vec<Sent> {
        let Some(entity) = self.known.get_mut(name) else { return Vec::new() };
        entity.gone = true;
        entity.epoch += 1;
        let mut changed = vec![name.to_string()];
        changed.extend(self.choose_representatives());
        self.tell_all(changed)
    }

    /// Exchanges knowledge with somebody known, drawn at random; every other time with a sibling, who knows the same
    /// entities. With anybody at all a death next door could go unheard for long where many others are known.
    pub fn gossip(&self, random: &mut impl Random) -> Option<Sent> {
        let parent = self.known.get(&self.me).and_then(|own| own.parent.as_ref());
        let others = || {
            self.known
                .values()
                .filter(|entity| entity.kind.is_node() && !entity.gone && entity.name != self.me)
        };
        let siblings: Vec<&Entity> =
            others().filter(|entity| parent.is_some() && entity.parent.as_ref() == parent).collect();
        let among = if siblings.is_empty() || random.below(2) == 0 { others().collect() } else { siblings };
        let to = among.get(random.below(among.len() as u64) as usize)?;
        Some((to.name.clone(), Message::Sync { entities: self.told(), from: self.me.clone() }))
    }

    pub fn name(&self) -> &str {
        &self.me
    }

    /// Whether this node is known to itself as part of the tree.
    pub fn is_gone(&self) -> bool {
        self.known.get(&self.me).is_none_or(|own| own.gone)
    }

    /// Ancestors with their children, nearest first: the field `Ascendants` of the thesis' Table 3.1.
    pub fn ascendants(&self) -> Vec<(String, Vec<String>)> {
        self.line().into_iter().skip(1).map(|group| (group.clone(), self.children(&group))).collect()
    }

    /// nodes that answer for groups outside this member's own line: the field `Representatives`.
    pub fn representatives(&self) -> BTreeMap<String, Vec<String>> {
        let line = self.line();
        let others = self.ascendants().into_iter().flat_map(|(_, children)| children);
        let groups = others
            .filter(|name| !line.contains(name) && self.known.get(name).is_some_and(|e| !e.kind.is_node()));
        groups.map(|name| (name.clone(), self.answering(&name))).collect()
    }

    /// Machines of nodes: the field `Addresses`.
    pub fn addresses(&self) -> BTreeMap<String, Vec<String>> {
        let nodes = self.known.values().filter(|entity| entity.kind.is_node() && !entity.gone);
        nodes.map(|node| (node.name.clone(), node.machines.clone())).collect()
    }

    /// Entities that this member knows beside its own line, and itself.
    pub fn entities(&self) -> usize {
        let line = self.line();
        let others = self.ascendants().into_iter().flat_map(|(_, children)| children);
        1 + others.filter(|name| !line.contains(name)).count()
    }

    /// The nodes to which URLs for an entity go: itself, or those that answer for it.
    pub fn answering(&self, name: &str) -> Vec<String> {
        match self.known.get(name) {
            Some(entity) if entity.kind.is_node() && !entity.gone => vec![name.to_string()],
            Some(entity) if !entity.gone => {
                let alive = |node: &&String| self.known.get(*node).is_none_or(|known| !known.gone);
                entity.representatives.iter().filter(alive).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// This node and its ancestors, nearest first.
    pub fn line(&self) -> Vec<String> {
        let mut line = vec![self.me.clone()];
        while let Some(parent) =
            line.last().and_then(|name| self.known.get(name)).and_then(|entity| entity.parent.clone())
        {
            // Accounts that contradict each other must not send us in circles.
            if line.contains(&parent) || !self.known.contains_key(&parent) {
                break;
            }
            line.push(parent);
        }
        line
    }

    fn children(&self, group: &str) -> Vec<String> {
        let children =
            self.known.values().filter(|entity| entity.parent.as_deref() == Some(group) && !entity.gone);
        children.map(|entity| entity.name.clone()).collect()
    }

    fn own_mut(&mut self) -> &mut Entity {
        let me = self.me.clone();
        self.known.entry(me.clone()).or_insert_with(|| Entity::new(&me, Kind::Robot))
    }

    /// Takes accounts in and forgets what is none of this member's business. One who hears that he is dead says that he
    /// is not.
    fn learn(&mut self, entities: &[Entity]) -> Vec<Sent> {
        let machines = self.known.get(&self.me).map(|own| own.machines.clone()).unwrap_or_default();
        let was_gone = self.is_gone();
        for told in entities {
            if self.known.get(&told.name).is_none_or(|known| told.replaces(known)) {
                self.known.insert(told.name.clone(), told.clone());
            }
        }
        let own = self.own_mut();
        // Others know only some of our machines.
        own.machines = machines;
        let slandered = own.gone && !was_gone;
        if slandered {
            own.gone = false;
            own.epoch += 1;
        }
        self.forget();
        if slandered { self.tell_all(vec![self.me.clone()]) } else { Vec::new() }
    }

    /// Keeps the own line, its children, and the nodes that answer for those.
    fn forget(&mut self) {
        let line = self.line();
        let mut keep: BTreeSet<String> = line.iter().cloned().collect();
        for entity in self.known.values() {
            if entity.parent.as_ref().is_some_and(|parent| line.contains(parent)) {
                keep.insert(entity.name.clone());
                keep.extend(entity.representatives.iter().cloned());
            }
        }
        self.known.retain(|name, _| keep.contains(name));
    }

    /// Chooses who answers for each ancestor: the least burdened of those who answer for its children. Tells whose
    /// representatives have changed.
    fn choose_representatives(&mut self) -> Vec<String> {
        let mut changed = Vec::new();
        for group in self.line().into_iter().skip(1) {
            let mut able: Vec<(u32, String)> = Vec::new();
            for child in self.children(&group) {
                for node in self.answering(&child) {
                    let burden = self.known.get(&node).map_or(0, |node| node.burden);
                    able.push((burden, node));
                }
            }
            able.sort();
            able.dedup();
            // Who answers for a child stands for about half of those below it.
            able.truncate(representatives_wanted(able.len()));
            let chosen: Vec<String> = able.into_iter().map(|(_, node)| node).collect();
            if let Some(entity) = self.known.get_mut(&group)
                && entity.representatives != chosen
            {
                entity.representatives = chosen;
                entity.epoch += 1;
                changed.push(group);
            }
        }
        changed
    }

    /// Tells everybody who should know of these entities.
    fn tell_all(&self, names: Vec<String>) -> Vec<Sent> {
        let line = self.line();
        // Whoever is below an entity's parent knows the entity.
        let highest = names.iter().filter_map(|name| self.known.get(name)?.parent.as_ref());
        let highest = highest.filter_map(|parent| line.iter().position(|name| name == parent)).max();
        let top = line.len() - 1;
        let scope = line[highest.unwrap_or(top)].clone();
        let mut entities: Vec<Entity> =
            names.iter().filter_map(|name| self.known.get(name)).map(Entity::for_others).collect();
        // With who answers for a group goes how to reach him.
        for node in entities.clone().iter().flat_map(|entity| entity.representatives.clone()) {
            if let Some(known) = self.known.get(&node)
                && !entities.iter().any(|entity| entity.name == node)
            {
                entities.push(known.for_others());
            }
        }
        self.spread(&scope, &entities)
    }

    /// Passes news on: to one node of each branch within the scope, each of which does the same within its branch.
    fn spread(&self, scope: &str, entities: &[Entity]) -> Vec<Sent> {
        let line = self.line();
        let Some(upto) = line.iter().position(|name| name == scope) else { return Vec::new() };
        let mut sent = Vec::new();
        for group in line.iter().take(upto + 1).skip(1) {
            for child in self.children(group).into_iter().filter(|child| !line.contains(child)) {
                if let Some(node) = self.answering(&child).first() {
                    sent.push((node.clone(), Message::News { entities: entities.to_vec(), scope: child }));
                }
            }
        }
        sent
    }

    fn told(&self) -> Vec<Entity> {
        self.known.values().map(Entity::for_others).collect()
    }
}
