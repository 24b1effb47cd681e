//! The normal form: a view as a union of boxes, each one set per fact, all of which must hold.
//!
//! `a minus b` of two boxes is one piece per fact that `b` restricts: what lies outside `b` there, and for the facts before it
//! inside. So pieces are disjoint, and nothing is lost.
//!
//! INVARIANT: no box has an empty set or a condition with its opposite; a normal form has at most [`BOXES_MAX`] boxes.

use super::codes::Codes;
use super::context::Likeness;
use super::geo::Disc;
use super::limits::BOXES_MAX;
use super::names::{Key, Names, Outline};
use super::ranges::Ranges;
use super::{Atom, Expr, View, atom};
use crate::Error;
use std::collections::BTreeMap;

/// From here on numbers stand for pages without a date.
pub(crate) const UNDATED: u128 = 1 << 64;

/// A condition whose opposites and intersections have no form of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Literal {
    Within(Disc),
    Like(Likeness),
    Linked(Key, u32),
    Title(String),
}

/// Pages of which each fact lies in one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub names: Names,
    pub addresses: Ranges,
    pub countries: Codes,
    pub languages: Codes,
    pub types: Names,
    pub dates: Ranges,
    /// Each holds, or where the flag is false does not.
    pub literals: BTreeMap<Literal, bool>,
}

/// Does the same with each fact that has a set of its own.
macro_rules! for_each_set {
    ($do:ident) => {
        $do!(names);
        $do!(addresses);
        $do!(countries);
        $do!(languages);
        $do!(types);
        $do!(dates);
    };
}

impl Cell {
    fn all() -> Cell {
        Cell {
            names: Names::all_or_none(true),
            addresses: Ranges::all(),
            countries: Codes::all(),
            languages: Codes::all(),
            types: Names::all_or_none(true),
            dates: Ranges::all(),
            literals: BTreeMap::new(),
        }
    }

    /// The box of a condition, or of its opposite.
    fn of(atom: &Atom, holds: bool) -> Cell {
        let mut cell = Cell::all();
        let signed = |set: Names| if holds { set } else { set.complement() };
        let signed_range = |set: Ranges| if holds { set } else { set.complement() };
        let signed_codes = |set: Codes| if holds { set } else { set.complement() };
        let literal = match atom {
            Atom::Name(key) => {
                cell.names = signed(Names::below(key.clone()));
                return cell;
            }
            Atom::Type(key) => {
                cell.types = signed(Names::below(key.clone()));
                return cell;
            }
            Atom::Block { first, bits } => {
                cell.addresses = signed_range(atom::range(*first, *bits));
                return cell;
            }
            Atom::Country(code) => {
                cell.countries = signed_codes(Codes::one(*code));
                return cell;
            }
            Atom::Language(code) => {
                cell.languages = signed_codes(Codes::one(*code));
                return cell;
            }
            Atom::Dated(from, before) => {
                let last = before.map_or(UNDATED - 1, |before| u128::from(before) - 1);
                cell.dates = signed_range(Ranges::between(u128::from(*from), last));
                return cell;
            }
            Atom::Undated => {
                cell.dates = signed_range(Ranges::between(UNDATED, u128::MAX));
                return cell;
            }
            Atom::Within(disc) => Literal::Within(*disc),
            Atom::Like(like) => Literal::Like(like.clone()),
            Atom::Linked(key, hops) => Literal::Linked(key.clone(), *hops),
            Atom::Title(word) => Literal::Title(word.clone()),
        };
        cell.literals.insert(literal, holds);
        cell
    }

    fn is_empty(&self) -> bool {
        let mut empty = false;
        macro_rules! look {
            ($set:ident) => {
                empty |= self.$set.is_empty()
            };
        }
        for_each_set!(look);
        empty
    }

    /// The pages in both; none where there are none.
    pub fn and(&self, other: &Cell) -> Option<Cell> {
        let mut both = self.clone();
        macro_rules! narrow {
            ($set:ident) => {
                both.$set = both.$set.and(&other.$set)
            };
        }
        for_each_set!(narrow);
        for (literal, holds) in &other.literals {
            if *both.literals.entry(literal.clone()).or_insert(*holds) != *holds {
                return None;
            }
        }
        (!both.is_empty()).then_some(both)
    }

    /// The pages of this one that are not in the other, in disjoint pieces.
    pub fn minus(&self, other: &Cell) -> Vec<Cell> {
        let mut rest = self.clone();
        let mut pieces = Vec::new();
        macro_rules! split {
            ($set:ident) => {
                if !other.$set.is_all() {
                    let outside = rest.$set.and(&other.$set.complement());
                    if !outside.is_empty() {
                        pieces.push(Cell { $set: outside, ..rest.clone() });
                    }
                    rest.$set = rest.$set.and(&other.$set);
                    if rest.$set.is_empty() {
                        return pieces;
                    }
                }
            };
        }
        for_each_set!(split);
        for (literal, holds) in &other.literals {
            match rest.literals.get(literal) {
                Some(held) if held != holds => {
                    pieces.push(rest);
                    return pieces;
                }
                Some(_) => {}
                None => {
                    let mut outside = rest.clone();
                    outside.literals.insert(literal.clone(), !holds);
                    pieces.push(outside);
                    rest.literals.insert(literal.clone(), *holds);
                }
            }
        }
        pieces
    }

    /// One box for both, where they differ in one fact only.
    fn joined(&self, other: &Cell) -> Option<Cell> {
        let mut differing = 0;
        let mut joined = self.clone();
        macro_rules! join {
            ($set:ident) => {
                if self.$set != other.$set {
                    differing += 1;
                    joined.$set = self.$set.or(&other.$set);
                }
            };
        }
        if self.literals != other.literals {
            return None;
        }
        // Cheap comparisons first: most pairs differ in several facts.
        let same = [
            self.names == other.names,
            self.addresses == other.addresses,
            self.countries == other.countries,
            self.languages == other.languages,
            self.types == other.types,
            self.dates == other.dates,
        ];
        if same.into_iter().filter(|same| !same).count() > 1 {
            return None;
        }
        for_each_set!(join);
        (differing <= 1).then_some(joined)
    }

    /// Whether only what can be known before a visit restricts it: name, address, country, place.
    fn is_known_before_visit(&self) -> bool {
        self.languages.is_all()
            && self.types.is_all()
            && self.dates.is_all()
            && self.literals.keys().all(|literal| matches!(literal, Literal::Within(_)))
    }

    /// The same without other restrictions than those.
    fn before_visit(&self) -> Cell {
        let Cell { names, addresses, countries, .. } = self.clone();
        let within = |(literal, holds): (&Literal, &bool)| {
            matches!(literal, Literal::Within(_)).then(|| (literal.clone(), *holds))
        };
        let literals = self.literals.iter().filter_map(within).collect();
        Cell { names, addresses, countries, literals, ..Cell::all() }
    }

    fn expr(&self) -> Expr {
        let names = outlined(&self.names, |key| Atom::Name(key.clone()));
        let types = outlined(&self.types, |key| Atom::Type(key.clone()));
        let coded = |codes: &Codes, atom: fn(super::codes::Code) -> Atom| {
            let (but, listed) = codes.listed();
            let any = Expr::any(listed.map(|code| Expr::atom(atom(code))));
            if but { any.not() } else { any }
        };
        let literals = self.literals.iter().map(|(literal, holds)| {
            let expr = Expr::atom(match literal {
                Literal::Within(disc) => Atom::Within(*disc),
                Literal::Like(like) => Atom::Like(like.clone()),
                Literal::Linked(key, hops) => Atom::Linked(key.clone(), *hops),
                Literal::Title(word) => Atom::Title(word.clone()),
            });
            if *holds { expr } else { expr.not() }
        });
        let sets = [
            names,
            blocks(&self.addresses),
            coded(&self.countries, Atom::Country),
            coded(&self.languages, Atom::Language),
            types,
            dated(&self.dates),
        ];
        Expr::every(sets.into_iter().chain(literals))
    }
}

/// Each mark takes from the one above what lies below it, but for what it gives back itself.
fn outlined(names: &Names, atom: impl Fn(&Key) -> Atom + Copy) -> Expr {
    fn nested(nodes: &[(usize, Key)], depth: usize, atom: impl Fn(&Key) -> Atom + Copy) -> Vec<Expr> {
        let starts: Vec<usize> = (0..nodes.len()).filter(|i| nodes[*i].0 == depth).collect();
        let ends = starts.iter().skip(1).copied().chain([nodes.len()]);
        let node = |(start, end): (&usize, usize)| {
            let inner = nested(&nodes[start + 1..end], depth + 1, atom);
            let outer = Expr::atom(atom(&nodes[*start].1));
            Expr::every([outer].into_iter().chain(inner.into_iter().map(Expr::not)))
        };
        starts.iter().zip(ends).map(node).collect()
    }
    let Outline { all, nodes } = names.outline();
    let top = Expr::any(nested(&nodes, 0, atom));
    if all { top.not() } else { top }
}

/// As few blocks as there can be, of what is in the set or of what is not.
fn blocks(set: &Ranges) -> Expr {
    if set.is_all() {
        return Expr::All;
    }
    let of = |set: &Ranges| -> Vec<Expr> {
        let one = |(first, last): (u128, u128)| split(first, last);
        set.iter().flat_map(one).map(|(first, bits)| Expr::atom(Atom::Block { first, bits })).collect()
    };
    let (inside, outside) = (of(set), of(&set.complement()));
    if inside.len() <= outside.len() { Expr::any(inside) } else { Expr::any(outside).not() }
}

/// The blocks of a range, the largest that fit.
fn split(first: u128, last: u128) -> Vec<(u128, u8)> {
    let mut blocks = Vec::new();
    let mut at = first;
    loop {
        let free = last - at;
        // A block begins at a multiple of its size, and ends within the range.
        let fits = if free == u128::MAX { 128 } else { 127 - (free + 1).leading_zeros() };
        let size = at.trailing_zeros().min(fits);
        blocks.push((at, 128 - size as u8));
        let Some(next) = 1u128.checked_shl(size).and_then(|step| at.checked_add(step)) else { return blocks };
        if next > last {
            return blocks;
        }
        at = next;
    }
}

fn dated(set: &Ranges) -> Expr {
    if set.is_all() {
        return Expr::All;
    }
    let parts = set.iter().flat_map(|(first, last)| {
        let until = (last < UNDATED - 1).then_some(last as u64).map(|last| last + 1);
        let dated = (first < UNDATED).then(|| Expr::atom(Atom::Dated(first as u64, until)));
        let undated = (last >= UNDATED).then(|| Expr::atom(Atom::Undated));
        dated.into_iter().chain(undated)
    });
    Expr::any(parts)
}

/// A view in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boxes {
    pub(crate) cells: Vec<Cell>,
}

impl Boxes {
    pub(crate) fn none() -> Boxes {
        Boxes { cells: Vec::new() }
    }

    /// How many boxes there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is no box, and so surely no page.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Adds a box, as a part of another where one box can say both.
    pub(crate) fn push(&mut self, mut cell: Cell) -> Result<(), Error> {
        while let Some((at, joined)) =
            self.cells.iter().enumerate().find_map(|(at, other)| Some((at, other.joined(&cell)?)))
        {
            self.cells.remove(at);
            cell = joined;
        }
        if self.cells.len() == BOXES_MAX {
            return Err(Error::TooManyBoxes { max: BOXES_MAX });
        }
        self.cells.push(cell);
        Ok(())
    }

    pub(crate) fn collect(cells: impl IntoIterator<Item = Cell>) -> Result<Boxes, Error> {
        let mut boxes = Boxes::none();
        for cell in cells {
            boxes.push(cell)?;
        }
        Ok(boxes)
    }

    fn of(expr: &Expr) -> Result<Boxes, Error> {
        match expr {
            Expr::All => Boxes::collect([Cell::all()]),
            Expr::None => Ok(Boxes::none()),
            Expr::Is(atom, holds) => {
                Boxes::collect(Some(Cell::of(atom, *holds)).filter(|cell| !cell.is_empty()))
            }
            Expr::Or(parts) => {
                let mut boxes = Boxes::none();
                for part in parts.iter() {
                    Boxes::of(part)?.cells.into_iter().try_for_each(|cell| boxes.push(cell))?;
                }
                Ok(boxes)
            }
            Expr::And(parts) => {
                let mut boxes = Boxes::collect([Cell::all()])?;
                for part in parts.iter() {
                    boxes = boxes.and(&Boxes::of(part)?)?;
                }
                Ok(boxes)
            }
        }
    }

    /// The pages in both.
    pub fn and(&self, other: &Boxes) -> Result<Boxes, Error> {
        let pairs = self.cells.iter().flat_map(|a| other.cells.iter().filter_map(move |b| a.and(b)));
        Boxes::collect(pairs)
    }

    /// What can be told before a visit: boxes that nothing else restricts.
    pub(crate) fn core(&self) -> Result<Boxes, Error> {
        Boxes::collect(self.cells.iter().filter(|cell| cell.is_known_before_visit()).cloned())
    }

    /// The same without what can only be told after a visit.
    pub(crate) fn hull(&self) -> Result<Boxes, Error> {
        Boxes::collect(self.cells.iter().map(Cell::before_visit))
    }

    /// The view that it is the normal form of; it may be larger than what is read from others.
    pub fn to_view(&self) -> View {
        View::unlimited(Expr::any(self.cells.iter().map(Cell::expr)))
    }
}

impl View {
    /// Its normal form.
    pub fn boxes(&self) -> Result<Boxes, Error> {
        Boxes::of(self.expr())
    }
}
