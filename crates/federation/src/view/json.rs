//! The JSON form of a view: `{"and":[{"domain":"br"},{"not":{"lang":"pt"}}]}`.
//!
//! A condition is `{"kind": value}`, with a radius `{"kind": [value, radius]}`, and `like` may have its signature as a third
//! member. `true` is every page, `false` none. Written by hand as the text form is: errors point at a character there too,
//! and depth and size are bounded while reading, not after.

use super::atom::{self, Part};
use super::read::Cursor;
use super::write::{Written, put_string, written};
use super::{Expr, Limits};
use crate::error::Error;

struct JsonReader<'a> {
    cursor: Cursor<'a>,
    limits: Limits,
    atoms: usize,
}

pub(crate) fn read(text: &str, limits: &Limits) -> Result<Expr, Error> {
    if text.len() > 2 * limits.bytes {
        return Err(Error::TooLong { bytes: text.len(), max: 2 * limits.bytes });
    }
    let mut reader = JsonReader { cursor: Cursor { text, at: 0 }, limits: *limits, atoms: 0 };
    let expr = reader.view(0)?;
    reader.cursor.blanks();
    match reader.cursor.rest() {
        "" => Ok(expr),
        _ => reader.cursor.refuse(reader.cursor.at, "the end"),
    }
}

impl JsonReader<'_> {
    fn token(&mut self, token: &str, expected: &str) -> Result<(), Error> {
        self.cursor.blanks();
        match self.cursor.take(token) {
            true => Ok(()),
            false => self.cursor.refuse(self.cursor.at, expected),
        }
    }

    fn string(&mut self, expected: &str) -> Result<(usize, String), Error> {
        self.cursor.blanks();
        let at = self.cursor.at;
        match self.cursor.rest().starts_with('"') {
            true => Ok((at, self.cursor.string()?)),
            false => self.cursor.refuse(at, expected),
        }
    }

    fn view(&mut self, depth: usize) -> Result<Expr, Error> {
        let max = 2 * self.limits.depth;
        if depth > max {
            return Err(Error::TooDeep { depth, max });
        }
        self.cursor.blanks();
        if self.cursor.take("true") {
            return Ok(Expr::All);
        }
        if self.cursor.take("false") {
            return Ok(Expr::None);
        }
        self.token("{", "true, false or an object such as {\"domain\":\"pt\"}")?;
        let (kind_at, kind) = self.string("\"and\", \"or\", \"not\" or the name of a condition")?;
        self.token(":", "a colon")?;
        let made = match kind.as_str() {
            "and" => Expr::every(self.list(depth)?),
            "or" => Expr::any(self.list(depth)?),
            "not" => self.view(depth + 1)?.not(),
            kind => self.atom(kind_at, kind)?,
        };
        self.token("}", "} as an object has one member")?;
        Ok(made)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Expr>, Error> {
        self.token("[", "a list")?;
        let mut parts = Vec::new();
        self.cursor.blanks();
        if self.cursor.take("]") {
            return Ok(parts);
        }
        loop {
            parts.push(self.view(depth + 1)?);
            self.cursor.blanks();
            if self.cursor.take("]") {
                return Ok(parts);
            }
            self.token(",", "a comma or ]")?;
        }
    }

    fn atom(&mut self, kind_at: usize, kind: &str) -> Result<Expr, Error> {
        self.atoms += 1;
        if self.atoms > self.limits.atoms {
            return Err(Error::TooManyAtoms { atoms: self.atoms, max: self.limits.atoms });
        }
        let (value, radius, signature) = self.members()?;
        let text = |part: &Option<(usize, String)>| part.as_ref().map(|(_, text)| text.clone());
        let made = atom::make(kind, &value.1, text(&radius).as_deref(), text(&signature).as_deref());
        made.or_else(|(part, expected)| {
            let at = match part {
                Part::Kind => kind_at,
                Part::Value => value.0,
                Part::Radius => radius.as_ref().map_or(self.cursor.at, |(at, _)| *at),
                Part::Signature => signature.as_ref().map_or(self.cursor.at, |(at, _)| *at),
            };
            self.cursor.refuse(at, expected)
        })
    }

    /// The value, and where it is a list, what else is in it.
    #[allow(clippy::type_complexity)]
    fn members(
        &mut self,
    ) -> Result<((usize, String), Option<(usize, String)>, Option<(usize, String)>), Error> {
        self.cursor.blanks();
        if !self.cursor.take("[") {
            return Ok((self.string("a string, or a list of a string and a radius")?, None, None));
        }
        let value = self.string("a string")?;
        self.token(",", "a comma and a radius")?;
        let radius = self.number_or_string()?;
        self.cursor.blanks();
        let signature = match self.cursor.take(",") {
            true => Some(self.string("a signature as a string")?),
            false => None,
        };
        self.token("]", "] at the end of the list")?;
        Ok((value, Some(radius), signature))
    }

    fn number_or_string(&mut self) -> Result<(usize, String), Error> {
        self.cursor.blanks();
        let at = self.cursor.at;
        let rest = self.cursor.rest();
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if digits == 0 {
            return self.string("a radius");
        }
        self.cursor.at += digits;
        Ok((at, rest[..digits].to_string()))
    }
}

pub(crate) fn write(expr: &Expr) -> String {
    let mut text = String::new();
    put(expr, &mut text);
    text
}

fn put(expr: &Expr, out: &mut String) {
    let (name, parts) = match expr {
        Expr::All => return out.push_str("true"),
        Expr::None => return out.push_str("false"),
        Expr::Is(atom, false) => {
            out.push_str("{\"not\":");
            put(&Expr::Is(atom.clone(), true), out);
            return out.push('}');
        }
        Expr::Is(atom, true) => {
            let Written { kind, value, radius, signature } = written(atom);
            out.push_str(&format!("{{\"{kind}\":"));
            let is_list = radius.is_some();
            if is_list {
                out.push('[');
            }
            put_string(&value, out);
            // A number is written as one.
            for part in [radius, signature].into_iter().flatten() {
                out.push(',');
                match part.bytes().all(|b| b.is_ascii_digit()) && part.len() < 10 {
                    true => out.push_str(&part),
                    false => put_string(&part, out),
                }
            }
            return out.push_str(if is_list { "]}" } else { "}" });
        }
        Expr::And(parts) => ("and", parts),
        Expr::Or(parts) => ("or", parts),
    };
    out.push_str(&format!("{{\"{name}\":["));
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        put(part, out);
    }
    out.push_str("]}");
}
