//! Patterns of addresses that a crawl keeps to (`+`) or leaves out (`-`): `+*.example.org/docs/`, `-/calendar/`.
//!
//! A pattern is a host, a path, or both. The path is written as in robots.txt (RFC 9309, section 2.2.3): it is the
//! beginning of a path with its query, `*` stands for anything, `$` at the end for the end. In the host `*` stands for
//! anything, too; a host without a port is meant at any port. A pattern that begins with `/` is for every host.
//!
//! INVARIANT: patterns only narrow a scope, and their order does not matter: whoever replaces the list by something that
//! says more need not know how it came about.

use farol_base::CanonicalUrl;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// One pattern. It can only come from its text, so it always can be matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPattern {
    text: String,
    is_wanted: bool,
    /// `None` means every host.
    host: Option<String>,
    path: String,
}

/// What the patterns say of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternVerdict<'a> {
    Wanted,
    /// This one leaves it out.
    Excluded(&'a UrlPattern),
    /// There are patterns to keep to, and it matches none of them.
    NotIncluded,
}

/// Judges an address: it is wanted where it matches a `+` pattern, or there are none, and no `-` pattern. `is_start` is
/// said of addresses that only lead to others, to which `+` patterns do not apply.
pub fn judge<'a>(patterns: &'a [UrlPattern], url: &CanonicalUrl, is_start: bool) -> PatternVerdict<'a> {
    if let Some(excluded) = patterns.iter().find(|pattern| !pattern.is_wanted && pattern.matches(url)) {
        return PatternVerdict::Excluded(excluded);
    }
    let mut wanted = patterns.iter().filter(|pattern| pattern.is_wanted).peekable();
    if is_start || wanted.peek().is_none() || wanted.any(|pattern| pattern.matches(url)) {
        PatternVerdict::Wanted
    } else {
        PatternVerdict::NotIncluded
    }
}

impl UrlPattern {
    /// Whether an address is one of those that this pattern is about. Costs time linear in the address for each `*`.
    pub fn matches(&self, url: &CanonicalUrl) -> bool {
        let is_host = self.host.as_ref().is_none_or(|pattern| {
            let host = url.host();
            match pattern.contains(':') {
                true => is_like(pattern, &format!("{}:{}", host.name(), host.port()), true),
                false => is_like(pattern, host.name(), true),
            }
        });
        is_host
            && match self.path.strip_suffix('$') {
                Some(whole) => is_like(whole, url.path_and_query(), true),
                None => is_like(&self.path, url.path_and_query(), false),
            }
    }
}

/// Whether a text is as a pattern with `*`s says, as a whole or only in its beginning.
fn is_like(pattern: &str, text: &str, whole: bool) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let last = if whole { pieces.pop() } else { None };
    // Each piece where it comes first: what comes later has the most room then.
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    match last {
        Some(last) => rest.ends_with(last),
        None => !whole || rest.is_empty(),
    }
}

impl FromStr for UrlPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<UrlPattern, String> {
        let text = text.trim();
        let (is_wanted, what) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(what), _) => (true, what),
            (_, Some(what)) => (false, what),
            _ => {
                return Err(format!(
                    "the pattern {text:?} begins with neither + nor -: write \"-{text}\" to leave these addresses out, \"+{text}\" to keep to them"
                ));
            }
        };
        let what = what.split_once("://").map_or(what, |(_, after)| after);
        let Some((host, path)) = what.split_once('/') else {
            return Err(format!(
                "the pattern {text:?} has no slash: a host ends with one, as in \"-*.example.org/\", and a path begins with one, as in \"-/*.pdf$\""
            ));
        };
        if !host.is_ascii() || host.contains(char::is_whitespace) {
            return Err(format!(
                "the pattern {text:?} has a host that is not plain ASCII: write it as addresses do, such as xn--exmple-cua.org"
            ));
        }
        let host = (!host.is_empty() && host != "*").then(|| host.to_ascii_lowercase());
        Ok(UrlPattern { text: text.to_string(), is_wanted, host, path: escaped(path) })
    }
}

/// A path as canonical addresses write it.
fn escaped(path: &str) -> String {
    let mut text = String::from("/");
    for byte in path.bytes() {
        match byte {
            b' ' | b'"' | b'<' | b'>' | 0x00..=0x1f | 0x7f.. => text.push_str(&format!("%{byte:02X}")),
            byte => text.push(char::from(byte)),
        }
    }
    text
}

impl fmt::Display for UrlPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for UrlPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UrlPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, url: &str, want: bool) {
        let read: UrlPattern = pattern.parse().unwrap();
        assert_eq!(read.to_string(), pattern);
        assert_eq!(read.matches(&CanonicalUrl::parse(url).unwrap()), want, "{pattern} {url}");
    }

    #[test]
    fn a_pattern_is_a_host_a_path_or_both() {
        check("-/calendar/", "https://a.org/calendar/2026/11", true);
        check("-/calendar/", "https://a.org/x/calendar/", false);
        check("-/*/calendar/", "https://a.org/x/calendar/", true);
        check("-/calendar", "https://a.org/calendar?day=1", true);
        check("-/*?day=", "https://a.org/calendar?day=1", true);
        check("-/*.pdf$", "https://a.org/x/y.pdf", true);
        check("-/*.pdf$", "https://a.org/x/y.pdf?page=2", false);
        check("-/a$", "https://a.org/a", true);
        check("-/a$", "https://a.org/ab", false);
        check("-/s*a*b$", "https://a.org/saab", true);
        check("-/s*ab*ab$", "https://a.org/sab", false);
        check("+*.example.org/docs/*", "http://www.example.org/docs/x", true);
        check("+*.example.org/docs/*", "http://example.org/docs/x", false);
        check("+*.example.org/docs/*", "http://evil.org/x.example.org/docs/x", false);
        check("-ads.example.org/", "http://ads.example.org/x", true);
        check("-ads.example.org/", "http://ads.example.org.evil.net/x", false);
        check("-https://Ads.example.org/", "http://ads.example.org/x", true);
        check("-h.org:8080/", "http://h.org:8080/x", true);
        check("-h.org:8080/", "http://h.org/x", false);
        check("-h.org/", "http://h.org:8080/x", true);
        check("-/é/", "http://h.org/%C3%A9/x", true);
        check("-*/x", "http://h.org/x", true);
    }

    #[test]
    fn a_wrong_pattern_says_what_would_be_right() {
        let wrong = |text: &str| text.parse::<UrlPattern>().unwrap_err();
        assert!(wrong("/calendar/").contains("\"-/calendar/\" to leave"), "{}", wrong("/calendar/"));
        assert!(wrong("-*.pdf").contains("-/*.pdf$"), "{}", wrong("-*.pdf"));
        assert!(wrong("-é.org/").contains("xn--"));
        assert!(wrong("").contains("neither"));
    }

    #[test]
    fn left_out_wins_over_kept_to_and_what_leads_there_is_read() {
        let patterns: Vec<UrlPattern> =
            ["+/docs/", "-/docs/old/"].iter().map(|text| text.parse().unwrap()).collect();
        let judged = |path: &str, is_start: bool| {
            let url = CanonicalUrl::parse(&format!("http://h{path}")).unwrap();
            match judge(&patterns, &url, is_start) {
                PatternVerdict::Wanted => "wanted".to_string(),
                PatternVerdict::Excluded(pattern) => pattern.to_string(),
                PatternVerdict::NotIncluded => "not included".to_string(),
            }
        };
        assert_eq!(judged("/docs/a", false), "wanted");
        assert_eq!(judged("/docs/old/a", false), "-/docs/old/");
        assert_eq!((judged("/", false), judged("/", true)), ("not included".into(), "wanted".into()));
        assert_eq!(judged("/docs/old/", true), "-/docs/old/");
        assert_eq!(judge(&[], &CanonicalUrl::parse("http://h/x").unwrap(), false), PatternVerdict::Wanted);
    }
}
