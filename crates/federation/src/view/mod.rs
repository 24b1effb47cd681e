//! Views of the Web: which pages an engine, an agreement or a crawl is about.
//!
//! The life of a view: it is read from text (`.br and lang:pt`) or JSON ([`read`](mod@read), [`json`]) into one spelling
//! ([`write`](mod@write)), asked about single pages ([`page`], and for many pages
//! [`matcher`]), and compared with other views in its normal form
//! ([`boxes`], [`solve`], [`cover`]).
//!
//! A page is a tuple of facts, and any combination of facts is possible; only a page's distance to itself is fixed. So two
//! views meet where some possible page is in both, whether or not anybody has seen it.
//!
//! INVARIANT: yes and no are proved. What the solver cannot prove is [`Answer::Unknown`], and counts as "may meet", "does
//! not contain", "is not covered". Equal canonical texts are equal views; the reverse is not promised, ask
//! [`View::contains`] both ways.

pub mod atom;
pub mod boxes;
pub mod codes;
pub mod context;
pub mod cover;
pub mod geo;
pub mod json;
mod limits;
pub mod matcher;
pub mod names;
pub mod page;
pub mod ranges;
pub mod read;
pub mod solve;
#[cfg(test)]
mod tests;
pub mod text;
pub mod write;

pub use atom::Atom;
pub use boxes::Boxes;
pub use cover::{Candidate, Cover};
pub use limits::{BOXES_MAX, Limits};
pub use matcher::Matcher;
pub use page::{Facts, Witness};

use crate::Error;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// What can be said of a question about views.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// Proved not to be so.
    No,
    /// Neither proved.
    Unknown,
    /// Proved to be so.
    Yes,
}

impl Answer {
    /// Both hold.
    pub fn and(self, other: Answer) -> Answer {
        self.min(other)
    }

    /// At least one holds.
    pub fn or(self, other: Answer) -> Answer {
        self.max(other)
    }

    /// The opposite.
    #[allow(clippy::should_implement_trait)]
    pub fn not(self) -> Answer {
        match self {
            Answer::No => Answer::Yes,
            Answer::Unknown => Answer::Unknown,
            Answer::Yes => Answer::No,
        }
    }

    /// A fact as an answer.
    pub fn of(holds: bool) -> Answer {
        if holds { Answer::Yes } else { Answer::No }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::No => "no",
            Answer::Unknown => "unknown",
            Answer::Yes => "yes",
        })
    }
}

/// An expression in which negations stand at the conditions, equal operators are flattened, and members are sorted.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    All,
    None,
    /// The condition holds, or where the flag is false it does not.
    Is(Arc<Atom>, bool),
    And(Arc<[Expr]>),
    Or(Arc<[Expr]>),
}

impl Expr {
    pub(crate) fn atom(atom: Atom) -> Expr {
        Expr::Is(Arc::new(atom), true)
    }

    pub(crate) fn not(self) -> Expr {
        let each = |parts: &Arc<[Expr]>| parts.iter().cloned().map(Expr::not).collect::<Vec<_>>();
        match self {
            Expr::All => Expr::None,
            Expr::None => Expr::All,
            Expr::Is(atom, holds) => Expr::Is(atom, !holds),
            Expr::And(parts) => Expr::any(each(&parts)),
            Expr::Or(parts) => Expr::every(each(&parts)),
        }
    }

    /// The conjunction; of nothing it is everything.
    pub(crate) fn every(parts: impl IntoIterator<Item = Expr>) -> Expr {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Expr::All => {}
                Expr::None => return Expr::None,
                Expr::And(inner) => flat.extend(inner.iter().cloned()),
                other => flat.push(other),
            }
        }
        sorted(flat).map_or(Expr::All, |parts| one_or(parts, Expr::And))
    }

    /// The disjunction; of nothing it is nothing.
    pub(crate) fn any(parts: impl IntoIterator<Item = Expr>) -> Expr {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Expr::None => {}
                Expr::All => return Expr::All,
                Expr::Or(inner) => flat.extend(inner.iter().cloned()),
                other => flat.push(other),
            }
        }
        sorted(flat).map_or(Expr::None, |parts| one_or(parts, Expr::Or))
    }

    fn depth(&self) -> usize {
        match self {
            Expr::All | Expr::None | Expr::Is(_, true) => 0,
            Expr::Is(_, false) => 1,
            Expr::And(parts) | Expr::Or(parts) => 1 + parts.iter().map(Expr::depth).max().unwrap_or(0),
        }
    }

    fn atoms(&self) -> usize {
        match self {
            Expr::All | Expr::None => 0,
            Expr::Is(..) => 1,
            Expr::And(parts) | Expr::Or(parts) => parts.iter().map(Expr::atoms).sum(),
        }
    }
}

fn one_or(mut parts: Vec<Expr>, many: impl FnOnce(Arc<[Expr]>) -> Expr) -> Expr {
    match (parts.len(), parts.pop()) {
        (1, Some(one)) => one,
        (_, last) => {
            parts.extend(last);
            many(parts.into())
        }
    }
}

/// Sorted by their texts, each once; nothing where there are none.
fn sorted(parts: Vec<Expr>) -> Option<Vec<Expr>> {
    let mut keyed: Vec<(String, Expr)> =
        parts.into_iter().map(|part| (write::text_of(&part), part)).collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    keyed.dedup_by(|a, b| a.0 == b.0);
    (!keyed.is_empty()).then(|| keyed.into_iter().map(|(_, part)| part).collect())
}

/// A set of possible pages, in one spelling.
#[derive(Clone)]
pub struct View {
    expr: Expr,
    text: Arc<str>,
}

impl View {
    /// Every page.
    pub fn all() -> View {
        View::unlimited(Expr::All)
    }

    /// No page.
    pub fn none() -> View {
        View::unlimited(Expr::None)
    }

    /// Reads a view within the usual limits.
    ///
    /// ```
    /// use farol_federation::View;
    /// let view = View::parse("(.br minus .ufpe.br) and lang:pt").unwrap();
    /// assert_eq!(view.as_str(), "domain:br and lang:pt and not domain:ufpe.br");
    /// ```
    pub fn parse(text: &str) -> Result<View, Error> {
        View::parse_within(text, &Limits::default())
    }

    /// Reads a view within other limits: what an operator writes for his own engine may be longer.
    pub fn parse_within(text: &str, limits: &Limits) -> Result<View, Error> {
        let expr = read::read(text, limits)?;
        View::checked(expr, limits)
    }

    /// Reads the JSON form within the usual limits.
    pub fn from_json(text: &str) -> Result<View, Error> {
        let limits = Limits::default();
        View::checked(json::read(text, &limits)?, &limits)
    }

    /// The pages in both.
    pub fn and(&self, other: &View) -> View {
        View::unlimited(Expr::every([self.expr.clone(), other.expr.clone()]))
    }

    /// The pages in either.
    pub fn or(&self, other: &View) -> View {
        View::unlimited(Expr::any([self.expr.clone(), other.expr.clone()]))
    }

    /// Every other page.
    pub fn complement(&self) -> View {
        View::unlimited(self.expr.clone().not())
    }

    /// The pages of this one that are not in the other.
    pub fn minus(&self, other: &View) -> View {
        self.and(&other.complement())
    }

    /// Its canonical text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its canonical JSON.
    pub fn to_json(&self) -> String {
        json::write(&self.expr)
    }

    /// SHA-256 that names its text in messages and packets.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"farol-view-1\n");
        hash.update(self.text.as_bytes());
        hash.finalize().into()
    }

    /// Refuses a view that is larger than the usual limits allow, as one that was put together may be.
    pub fn within_limits(self) -> Result<View, Error> {
        View::checked(self.expr, &Limits::default())
    }

    /// All its conditions, as often as they stand in it.
    pub fn atoms(&self) -> Vec<&Atom> {
        fn gather<'a>(expr: &'a Expr, into: &mut Vec<&'a Atom>) {
            match expr {
                Expr::All | Expr::None => {}
                Expr::Is(atom, _) => into.push(atom),
                Expr::And(parts) | Expr::Or(parts) => parts.iter().for_each(|part| gather(part, into)),
            }
        }
        let mut atoms = Vec::new();
        gather(&self.expr, &mut atoms);
        atoms
    }

    pub(crate) fn unlimited(expr: Expr) -> View {
        let text = write::text_of(&expr).into();
        View { expr, text }
    }

    pub(crate) fn expr(&self) -> &Expr {
        &self.expr
    }

    /// What came from outside is counted in its canonical form, which must be readable again.
    fn checked(expr: Expr, limits: &Limits) -> Result<View, Error> {
        let (atoms, depth) = (expr.atoms(), expr.depth());
        if atoms > limits.atoms {
            return Err(Error::TooManyAtoms { atoms, max: limits.atoms });
        }
        if depth > limits.depth {
            return Err(Error::TooDeep { depth, max: limits.depth });
        }
        let view = View::unlimited(expr);
        match view.text.len() {
            bytes if bytes > limits.bytes => Err(Error::TooLong { bytes, max: limits.bytes }),
            _ => Ok(view),
        }
    }
}

impl PartialEq for View {
    fn eq(&self, other: &View) -> bool {
        self.text == other.text
    }
}

impl Eq for View {}

impl std::hash::Hash for View {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({})", self.text)
    }
}

impl std::str::FromStr for View {
    type Err = Error;

    fn from_str(text: &str) -> Result<View, Error> {
        View::parse(text)
    }
}
