//! The single conditions that views are made of, each with its one spelling.

use super::Expr;
use super::codes::Code;
use super::context::{DISTANCE_MAX, Likeness, STEMS_MAX, Signature};
use super::geo::{Disc, Place};
use super::names::Key;
use super::ranges::Ranges;
use super::text::folded_word;
use data_encoding::BASE64URL_NOPAD;
use farol_base::{CanonicalUrl, Language, Timestamp};
use std::net::IpAddr;

/// Names of conditions, as they stand before the colon.
pub const KINDS: [&str; 14] = [
    "domain", "host", "prefix", "page", "ip", "net", "country", "geo", "lang", "type", "dated", "title",
    "linked", "like",
];

/// Longest link path that can be asked for.
const HOPS_MAX: u32 = 1_000_000;

/// Farthest radius: half around the earth.
const RADIUS_KM_MAX: u32 = 20_038;

/// A condition on one fact of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Atom {
    /// Its name is the key's or lies below: a domain, a host, a path prefix or a single page.
    Name(Key),
    /// The server's address begins with these bits; version 4 as mapped into 6.
    Block {
        /// The first address.
        first: u128,
        /// Bits that count, of 128.
        bits: u8,
    },
    /// The server stands in this country, by the table of whoever asks; `None`: the table has no entry.
    Country(Code),
    /// The server stands in this disc.
    Within(Disc),
    /// It is written in this language; `None`: it was read and not recognised.
    Language(Code),
    /// Its media type is the key's or lies below: `text`, or `text` and `html`.
    Type(Key),
    /// It is dated from the first instant on and before the second, in milliseconds.
    Dated(u64, Option<u64>),
    /// It bears no date.
    Undated,
    /// Its title holds this folded word.
    Title(String),
    /// The shortest path of links from the page with this key is at most so long, 1 or more.
    Linked(Key, u32),
    /// It is about the same as a reference.
    Like(Likeness),
}

/// Which part of a condition's text is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Kind,
    Value,
    Radius,
    Signature,
}

/// A wrong part, and what would have been right.
pub(crate) type Wrong = (Part, String);

/// Whether conditions of this kind have a radius.
pub(crate) fn has_radius(kind: &str) -> bool {
    matches!(kind, "net" | "geo" | "linked" | "like")
}

/// Makes the condition, or what is left of it: `net:…~4` is everything.
pub(crate) fn make(
    kind: &str,
    value: &str,
    radius: Option<&str>,
    signature: Option<&str>,
) -> Result<Expr, Wrong> {
    if radius.is_some() && !has_radius(kind) {
        return Err((Part::Radius, format!("no radius, {kind}: has none")));
    }
    if signature.is_some() && kind != "like" {
        return Err((Part::Signature, format!("no signature, {kind}: has none")));
    }
    if radius.is_none() && has_radius(kind) {
        let form = match kind {
            "net" => "net:150.161.2.9~1",
            "geo" => "geo:-8.0476,-34.8770~200km",
            "linked" => "linked:http://example.org/~2",
            _ => "like:http://example.org/~40",
        };
        return Err((Part::Radius, format!("a radius, as in {form}")));
    }
    let value_error = |expected: &str| (Part::Value, expected.to_string());
    let distance = radius.unwrap_or_default();
    let atom = match kind {
        "domain" => {
            let name = value.strip_prefix('.').unwrap_or(value);
            let url = authority(name).filter(|_| !has_port(name));
            let url = url.ok_or_else(|| value_error("a domain such as example.org, or .org"))?;
            Atom::Name(Key::of(labels(url.host().name())))
        }
        "host" => {
            let url = authority(value)
                .ok_or_else(|| value_error("a host such as www.example.org or example.org:8080"))?;
            Atom::Name(host_key(&url))
        }
        "prefix" => {
            let right = || value_error("a host and a path such as www.example.org/docs");
            let bare = strip_scheme(value);
            let url = CanonicalUrl::parse(&format!("http://{bare}")).map_err(|_| right())?;
            if bare.contains(['?', '#', '@']) {
                return Err(right());
            }
            let host = host_key(&url);
            let segments = segments(url.path());
            Atom::Name(Key::of(host.tokens().chain(segments.iter().map(String::as_str))))
        }
        "page" => Atom::Name(page_key(&address(value)?)),
        "ip" => {
            let right = || value_error("an address block such as 150.161.0.0/16 or 2001:db8::/32");
            let (address, bits) = block(value).ok_or_else(right)?;
            Atom::Block { first: masked(address, bits), bits }
        }
        "net" => {
            let address: IpAddr = value.parse().map_err(|_| value_error("an address such as 150.161.2.9"))?;
            let steps = if address.is_ipv4() { [32, 24, 16, 8] } else { [128, 64, 48, 32] };
            let right = || (Part::Radius, "a network distance from 0 to 4".to_string());
            let at: usize = distance.parse().map_err(|_| right())?;
            if at == 4 {
                return Ok(Expr::All);
            }
            let bits = steps.get(at).ok_or_else(right)? + if address.is_ipv4() { 96 } else { 0 };
            Atom::Block { first: masked(number(address), bits), bits }
        }
        "country" => Atom::Country(match value {
            "none" => None,
            code => Some(
                letters(code).ok_or_else(|| value_error("a country's two letters such as pt, or none"))?,
            ),
        }),
        "geo" => {
            let right = || value_error("degrees of latitude and longitude such as -8.0476,-34.8770");
            let (lat, lon) = value.split_once(',').ok_or_else(right)?;
            let (lat, lon) = (degrees(lat).ok_or_else(right)?, degrees(lon).ok_or_else(right)?);
            let centre = Place::at(lat, lon).ok_or_else(right)?;
            let radius_metres = metres(distance)
                .ok_or_else(|| (Part::Radius, format!("kilometres up to {RADIUS_KM_MAX} such as 200km")))?;
            Atom::Within(Disc { centre, radius_metres })
        }
        "lang" => Atom::Language(match value {
            "und" => None,
            tag => {
                let language = Language::parse(tag)
                    .ok_or_else(|| value_error("a language's two letters such as pt, or und"))?;
                letters(language.code())
            }
        }),
        "type" => {
            let right = || value_error("a media type such as text/html or text/*");
            let lower = value.to_ascii_lowercase();
            let (major, minor) = lower.split_once('/').ok_or_else(right)?;
            let is_token = |text: &str| {
                !text.is_empty()
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
            };
            match (is_token(major), minor == "*" || is_token(minor)) {
                (true, true) if minor == "*" => Atom::Type(Key::of([major])),
                (true, true) => Atom::Type(Key::of([major, minor])),
                _ => return Err(right()),
            }
        }
        "dated" if value == "none" => Atom::Undated,
        "dated" => {
            let right = || value_error("from and before, such as 2020..2022-05, 2020.., or none");
            let (from, before) = value.split_once("..").ok_or_else(right)?;
            let day = |text: &str| if text.is_empty() { Some(None) } else { instant(text).map(Some) };
            let (from, before) = (day(from).ok_or_else(right)?.unwrap_or(0), day(before).ok_or_else(right)?);
            if before.is_some_and(|before| before <= from) {
                return Err(value_error("an end after the beginning"));
            }
            Atom::Dated(from, before)
        }
        "title" => {
            let word = folded_word(value).ok_or_else(|| value_error("one word such as \"praia\""))?;
            Atom::Title(word)
        }
        "linked" => {
            let key = page_key(&address(value)?);
            match distance.parse() {
                Ok(0) => Atom::Name(key),
                Ok(hops) if hops <= HOPS_MAX => Atom::Linked(key, hops),
                _ => return Err((Part::Radius, "a number of links such as 2".to_string())),
            }
        }
        "like" => {
            let reference = written_page(&page_key(&address(value)?));
            let right = || (Part::Radius, format!("a distance from 0 to {DISTANCE_MAX}"));
            let distance: u8 = distance.parse().map_err(|_| right())?;
            if distance > DISTANCE_MAX {
                return Err(right());
            }
            let signature = signature.map(|text| {
                read_signature(text).ok_or_else(|| {
                    (Part::Signature, "a signature in base64url, as an engine writes it".to_string())
                })
            });
            Atom::Like(Likeness { reference, distance, signature: signature.transpose()? })
        }
        _ => return Err((Part::Kind, format!("a condition, one of {}:", KINDS.join(":, ")))),
    };
    Ok(Expr::atom(atom))
}

/// The numbers of a block.
pub(crate) fn range(first: u128, bits: u8) -> Ranges {
    let below = u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
    Ranges::between(first, first | below)
}

/// An address as a number, version 4 as mapped into 6.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(four.to_ipv6_mapped()),
        IpAddr::V6(six) => u128::from(six),
    }
}

fn masked(address: u128, bits: u8) -> u128 {
    address & !u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0)
}

/// The key of a page: scheme left out, both usual ports one.
pub(crate) fn page_key(url: &CanonicalUrl) -> Key {
    let host = host_key(url);
    let segments = segments(url.path());
    let page = format!("?{}", url.path_and_query());
    Key::of(host.tokens().chain(segments.iter().map(String::as_str)).chain([page.as_str()]))
}

fn host_key(url: &CanonicalUrl) -> Key {
    let host = url.host();
    let port = match host.port() {
        80 | 443 => "|".to_string(),
        port => format!("|{port}"),
    };
    Key::of(labels(host.name()).into_iter().chain([port.as_str()]))
}

/// The topmost first; an address is one label, as nothing lies below it.
fn labels(name: &str) -> Vec<&str> {
    if name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() {
        vec![name]
    } else {
        name.rsplit('.').collect()
    }
}

/// A path's segments, each with its slash; one slash at the end says nothing.
fn segments(path: &str) -> Vec<String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() { Vec::new() } else { path.split('/').map(|segment| format!("/{segment}")).collect() }
}

/// `domain:…`, `host:…`, `prefix:…` or `page:…`, by the last token, as kind and value.
pub(crate) fn written_name(key: &Key) -> (&'static str, String) {
    let tokens: Vec<&str> = key.tokens().collect();
    let labels = tokens.iter().take_while(|token| !token.starts_with(['|', '/', '?'])).count();
    let name = tokens[..labels].iter().rev().copied().collect::<Vec<_>>().join(".");
    let port = tokens.get(labels).map_or("", |port| &port[1..]);
    let colon = if port.is_empty() { "" } else { ":" };
    let rest = &tokens[(labels + 1).min(tokens.len())..];
    match tokens.last() {
        Some(last) if last.starts_with('?') => ("page", format!("http://{name}{colon}{port}{}", &last[1..])),
        Some(last) if last.starts_with('/') => {
            let slash = if *last == "/" { "/" } else { "" };
            ("prefix", format!("{name}{colon}{port}{}{slash}", rest.concat()))
        }
        Some(last) if last.starts_with('|') => ("host", format!("{name}{colon}{port}")),
        _ => ("domain", name),
    }
}

pub(crate) fn written_page(key: &Key) -> String {
    written_name(key).1
}

fn address(value: &str) -> Result<CanonicalUrl, Wrong> {
    CanonicalUrl::parse(value)
        .map_err(|error| (Part::Value, format!("an address such as http://example.org/ ({error})")))
}

fn strip_scheme(value: &str) -> &str {
    value.strip_prefix("http://").or_else(|| value.strip_prefix("https://")).unwrap_or(value)
}

/// The root page of what must be a host name and perhaps a port.
fn authority(value: &str) -> Option<CanonicalUrl> {
    let plain = !value.is_empty() && !value.contains(['/', '\\', '?', '#', '@']);
    plain.then(|| CanonicalUrl::parse(&format!("http://{value}/")).ok()).flatten()
}

fn has_port(value: &str) -> bool {
    value.rfind(':').is_some_and(|at| !value[at..].contains(']'))
}

fn block(value: &str) -> Option<(u128, u8)> {
    let (address, bits) =
        value.split_once('/').map_or((value, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let (most, mapped) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
    Some((number(address), bits + mapped))
}

fn letters(code: &str) -> Option<[u8; 2]> {
    let code: [u8; 2] = code.to_ascii_lowercase().as_bytes().try_into().ok()?;
    code.iter().all(u8::is_ascii_lowercase).then_some(code)
}

fn degrees(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
    plain.then(|| text.parse().ok()).flatten()
}

/// `200km`, or 200 alone; as exact as a metre.
fn metres(text: &str) -> Option<u32> {
    let km = text.strip_suffix("km").unwrap_or(text);
    let (whole, part) = km.split_once('.').unwrap_or((km, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 3 || km.ends_with('.') {
        return None;
    }
    let metres: u64 = format!("{whole}{part:0<3}").parse().ok()?;
    u32::try_from(metres).ok().filter(|metres| *metres <= RADIUS_KM_MAX * 1000)
}

/// The first instant of a year, month or day.
fn instant(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split('-').collect();
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let well_formed =
        matches!(parts.len(), 1..=3) && digits(parts[0], 4) && parts[1..].iter().all(|part| digits(part, 2));
    let number = |at: usize| parts.get(at).map_or(Some(1), |part| part.parse().ok());
    let date =
        well_formed.then(|| Timestamp::from_date(number(0)?.into(), number(1)?, number(2)?)).flatten()?;
    let (year, month, day) = date.date();
    // A day that does not exist must not become another one.
    let same = i64::from(number(0)?) == year && number(1)? == month && number(2)? == day;
    same.then(|| date.as_millis())
}

/// First byte the number of the analysis, then each stem in four bytes, the greatest first byte first, sorted.
pub(crate) fn read_signature(text: &str) -> Option<(u8, Signature)> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
    let (analysis, stems) = bytes.split_first()?;
    let chunks = stems.chunks_exact(4);
    if !chunks.remainder().is_empty() || stems.len() > 4 * STEMS_MAX {
        return None;
    }
    let stems: Vec<u32> =
        chunks.map(|chunk| chunk.iter().fold(0, |all, byte| all << 8 | u32::from(*byte))).collect();
    let sorted = stems.windows(2).all(|pair| pair[0] < pair[1]);
    sorted.then(|| Signature::of(stems)).flatten().map(|signature| (*analysis, signature))
}

pub(crate) fn write_signature(analysis: u8, signature: &Signature) -> String {
    let mut bytes = vec![analysis];
    signature.stems().for_each(|stem| bytes.extend(stem.to_be_bytes()));
    BASE64URL_NOPAD.encode(&bytes)
}
