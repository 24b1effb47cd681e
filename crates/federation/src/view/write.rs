//! The one text of a view.

use super::codes::Code;
use super::{Atom, Expr, atom};
use farol_base::Timestamp;
use std::net::{IpAddr, Ipv6Addr};

/// A condition as it is written: kind, value, and where there are such, radius and signature.
pub(crate) struct Written {
    pub kind: &'static str,
    pub value: String,
    pub radius: Option<String>,
    pub signature: Option<String>,
}

pub(crate) fn text_of(expr: &Expr) -> String {
    let mut text = String::new();
    put(expr, false, &mut text);
    text
}

fn put(expr: &Expr, in_and: bool, out: &mut String) {
    let (parts, word) = match expr {
        Expr::All => return out.push_str("all"),
        Expr::None => return out.push_str("none"),
        Expr::Is(atom, holds) => {
            if !holds {
                out.push_str("not ");
            }
            return put_atom(atom, out);
        }
        Expr::And(parts) => (parts, " and "),
        Expr::Or(parts) => (parts, " or "),
    };
    // `or` binds less, so it alone needs parentheses, and only inside `and`.
    let parens = in_and && matches!(expr, Expr::Or(_));
    if parens {
        out.push('(');
    }
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push_str(word);
        }
        put(part, matches!(expr, Expr::And(_)), out);
    }
    if parens {
        out.push(')');
    }
}

fn put_atom(atom: &Atom, out: &mut String) {
    let Written { kind, value, radius, signature } = written(atom);
    out.push_str(kind);
    out.push(':');
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '(' | ')' | '"');
    // Titles are always quoted, others where they must be.
    if kind != "title" && value.chars().all(plain) {
        out.push_str(&value);
    } else {
        put_string(&value, out);
    }
    for (sign, part) in [('~', radius), ('#', signature)] {
        if let Some(part) = part {
            out.push(sign);
            out.push_str(&part);
        }
    }
}

/// Takes a condition apart into what stands in its text and its JSON.
pub(crate) fn written(atom: &Atom) -> Written {
    let simple = |kind, value: String| Written { kind, value, radius: None, signature: None };
    match atom {
        Atom::Name(key) => {
            let (kind, value) = atom::written_name(key);
            simple(kind, value)
        }
        Atom::Block { first, bits } => simple("ip", block(*first, *bits)),
        Atom::Country(code) => simple("country", letters(*code, "none")),
        Atom::Language(code) => simple("lang", letters(*code, "und")),
        Atom::Type(key) => {
            let mut tokens = key.tokens();
            let major = tokens.next().unwrap_or_default();
            simple("type", format!("{major}/{}", tokens.next().unwrap_or("*")))
        }
        Atom::Undated => simple("dated", "none".to_string()),
        Atom::Dated(from, before) => {
            let from = if *from == 0 { String::new() } else { date(*from) };
            simple("dated", format!("{from}..{}", before.map(date).unwrap_or_default()))
        }
        Atom::Title(word) => simple("title", word.clone()),
        Atom::Within(disc) => Written {
            radius: Some(kilometres(disc.radius_metres)),
            ..simple("geo", format!("{},{}", degrees(disc.centre.lat), degrees(disc.centre.lon)))
        },
        Atom::Linked(key, hops) => {
            Written { radius: Some(hops.to_string()), ..simple("linked", atom::written_page(key)) }
        }
        Atom::Like(like) => Written {
            radius: Some(like.distance.to_string()),
            signature: like.signature.as_ref().map(|(analysis, s)| atom::write_signature(*analysis, s)),
            ..simple("like", like.reference.clone())
        },
    }
}

fn letters(code: Code, none: &str) -> String {
    code.map_or(none.to_string(), |letters| letters.iter().map(|b| char::from(*b)).collect())
}

pub(crate) fn block(first: u128, bits: u8) -> String {
    let six = Ipv6Addr::from(first);
    match six.to_ipv4_mapped() {
        Some(four) if bits >= 96 => format!("{four}/{}", bits - 96),
        _ => format!("{}/{bits}", IpAddr::V6(six)),
    }
}

fn degrees(units: i32) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let units = units.unsigned_abs();
    format!("{sign}{}.{:04}", units / 10_000, units % 10_000)
}

fn kilometres(metres: u32) -> String {
    let part = format!("{:03}", metres % 1000);
    let part = part.trim_end_matches('0');
    let dot = if part.is_empty() { "" } else { "." };
    format!("{}{dot}{part}km", metres / 1000)
}

/// As short as it is exact.
fn date(millis: u64) -> String {
    match Timestamp::from_millis(millis).date() {
        (year, 1, 1) => format!("{year:04}"),
        (year, month, 1) => format!("{year:04}-{month:02}"),
        (year, month, day) => format!("{year:04}-{month:02}-{day:02}"),
    }
}

/// A JSON string in which everything but quotes, backslashes and control characters stands for itself.
pub(crate) fn put_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
