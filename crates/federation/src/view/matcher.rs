//! A view made ready for many pages: long lists of names and addresses become one look-up each.
//!
//! INVARIANT: says of every page what [`View::has`] says; a test compares them.

use super::atom::{self, Atom};
use super::names::Names;
use super::page::{Facts, holds};
use super::ranges::Ranges;
use super::{Answer, Expr, View};
use std::sync::Arc;

/// A view that is asked about many pages.
#[derive(Clone, Debug)]
pub struct Matcher {
    root: Node,
}

#[derive(Clone, Debug)]
enum Node {
    Always(Answer),
    Names(Names),
    Blocks(Ranges),
    Is(Arc<Atom>, bool),
    And(Vec<Node>),
    Or(Vec<Node>),
}

impl Matcher {
    /// Prepares a view.
    pub fn of(view: &View) -> Matcher {
        Matcher { root: node(view.expr()) }
    }

    /// Whether the page is in the view, as far as its facts tell.
    pub fn has(&self, page: &Facts) -> Answer {
        has(&self.root, page)
    }
}

fn node(expr: &Expr) -> Node {
    match expr {
        Expr::All => Node::Always(Answer::Yes),
        Expr::None => Node::Always(Answer::No),
        Expr::Is(atom, is) => Node::Is(atom.clone(), *is),
        Expr::Or(parts) => joined(parts, true),
        Expr::And(parts) => joined(parts, false),
    }
}

/// Any of many names is one set of names; all of many names left out are one set left out.
fn joined(parts: &[Expr], any: bool) -> Node {
    let (mut keys, mut blocks, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        match part {
            Expr::Is(one, is) if *is == any => match &**one {
                Atom::Name(key) => keys.push(key.clone()),
                Atom::Block { first, bits } => blocks.extend(atom::range(*first, *bits).iter()),
                _ => nodes.push(node(part)),
            },
            _ => nodes.push(node(part)),
        }
    }
    if !keys.is_empty() {
        let names = Names::below_any(keys);
        nodes.push(Node::Names(if any { names } else { names.complement() }));
    }
    if !blocks.is_empty() {
        let blocks = Ranges::any_of(blocks);
        nodes.push(Node::Blocks(if any { blocks } else { blocks.complement() }));
    }
    if any { Node::Or(nodes) } else { Node::And(nodes) }
}

fn has(node: &Node, page: &Facts) -> Answer {
    match node {
        Node::Always(answer) => *answer,
        Node::Names(names) => page.name().map_or(Answer::Unknown, |name| Answer::of(names.has(name))),
        Node::Blocks(blocks) => {
            page.address_number().map_or(Answer::Unknown, |address| Answer::of(blocks.has(address)))
        }
        Node::Is(atom, true) => holds(atom, page),
        Node::Is(atom, false) => holds(atom, page).not(),
        Node::And(parts) => parts.iter().fold(Answer::Yes, |all, part| all.and(has(part, page))),
        Node::Or(parts) => parts.iter().fold(Answer::No, |any, part| any.or(has(part, page))),
    }
}
