//! URLs in one spelling each.
//!
//! [`CanonicalUrl::parse`] reads by the WHATWG standard and then applies these rules, in this order, so that
//! the usual spellings of one page become one text:
//!
//! 1. only `http` and `https`; user name and password go; a host name is required;
//! 2. default port and dot segments go, the host is in lower-case ASCII (the standard's own work);
//! 3. the trailing dot of a host name goes;
//! 4. the fragment goes;
//! 5. percent-encoded unreserved characters are written plainly, the other escapes in upper case;
//! 6. session ids in the path (`;jsessionid=…`, `;sid=…`, `;phpsessid=…`) go, and what follows them in their segment;
//! 7. query parameters that track ([`TRACKING`]) or carry a session id ([`SESSIONS`]) go; an empty query goes.
//!
//! INVARIANT: a canonical URL is a fixed point: read again, it is the same text. So rule 5 writes no escape plainly where
//! that would complete another (`%3%39`), and comes before rules 6 and 7, which look at names.
//!
//! The order of query parameters, a trailing slash and the case of the path stay: they can mean something.

use crate::{Host, HostHash};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use url::Url;

/// Longest URL that is kept; longer ones are refused. Servers and sitemaps agree on about this size.
pub const URL_BYTES_MAX: usize = 2048;

/// Query parameters that only say where a visitor came from.
pub const TRACKING: &[&str] = &[
    "fbclid",
    "gclid",
    "gclsrc",
    "dclid",
    "msclkid",
    "yclid",
    "twclid",
    "igshid",
    "mc_cid",
    "mc_eid",
    "_ga",
    "_gl",
    "mkt_tok",
    "vero_id",
    "wickedid",
    "oly_anon_id",
    "oly_enc_id",
    "_hsenc",
    "_hsmi",
    "hsctatracking",
    "ref_src",
];

/// Prefix of the tracking parameters that come in families: `utm_source`, `utm_medium`, …
const TRACKING_PREFIX: &str = "utm_";

/// Query parameters that carry a session id.
pub const SESSIONS: &[&str] =
    &["jsessionid", "phpsessid", "aspsessionid", "sessionid", "session_id", "sid", "cfid", "cftoken"];

/// A URL in its one canonical spelling.
///
/// It can only come from [`CanonicalUrl::parse`] or [`CanonicalUrl::join`], so two of them name the same page
/// exactly when their texts are equal.
#[derive(Clone)]
pub struct CanonicalUrl {
    text: Box<str>,
    /// Bytes of scheme, host name and port; whoever wants the host need not look for its end again.
    host_bytes: u16,
}

/// Why a text is not a URL that can be crawled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    #[error("it is not a URL ({0})")]
    Syntax(url::ParseError),
    #[error("its scheme is {0}, only http and https are crawled")]
    Scheme(String),
    #[error("it has no host name")]
    NoHost,
    #[error("it is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
}

impl CanonicalUrl {
    /// Reads an absolute URL.
    ///
    /// ```
    /// use farol_base::CanonicalUrl;
    /// let url = CanonicalUrl::parse("HTTP://Example.ORG:80/a/../b?utm_source=x#top").unwrap();
    /// assert_eq!(url.as_str(), "http://example.org/b");
    /// ```
    pub fn parse(text: &str) -> Result<CanonicalUrl, UrlError> {
        plain_absolute(text).map_or_else(|| Self::parse_any(text), Ok)
    }

    fn parse_any(text: &str) -> Result<CanonicalUrl, UrlError> {
        // Four times the limit may shrink to it; beyond that reading would be wasted work.
        if text.len() > 4 * URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        Self::from_url(Url::parse(text).map_err(UrlError::Syntax)?)
    }

    /// Reads a reference (`../x?y`) found on the page at `self`.
    pub fn join(&self, reference: &str) -> Result<CanonicalUrl, UrlError> {
        self.to_base().join(reference)
    }

    /// Prepares to read many references against this URL.
    pub fn to_base(&self) -> BaseUrl {
        // A canonical URL is always a valid URL, so the fallback is never reached.
        let url = Url::parse(&self.text).or_else(|_| Url::parse("http://invalid.invalid/"));
        BaseUrl::new(url.expect("a constant URL is valid"))
    }

    fn from_url(mut url: Url) -> Result<CanonicalUrl, UrlError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme(url.scheme().to_string()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let _ = url.set_username("");
            let _ = url.set_password(None);
        }
        let name = url.host_str().filter(|name| !name.is_empty()).ok_or(UrlError::NoHost)?;
        if name.ends_with('.') {
            let trimmed = name.trim_end_matches('.').to_string();
            if trimmed.is_empty() {
                return Err(UrlError::NoHost);
            }
            url.set_host(Some(&trimmed)).map_err(UrlError::Syntax)?;
        }
        url.set_fragment(None);
        let path_start = url[..url::Position::BeforePath].len();
        let mut text = String::from(url);
        if text[path_start..].bytes().any(|b| matches!(b, b'%' | b';' | b'?')) {
            let clean = clean_path_and_query(&text, path_start);
            // What was cut off may have hidden a dot segment: `/a/..;sid=1`, `/a/%2e;sid=1`.
            let may_have_dots = |path: &str| path.contains("/.") || path.contains("/%2E");
            if clean.len() < text.len() && may_have_dots(&clean[path_start..]) {
                return Self::from_url(Url::parse(&clean).map_err(UrlError::Syntax)?);
            }
            text = clean;
        }
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        Ok(Self::of(text, path_start))
    }

    /// Takes a text that is canonical; its host, as `host_str` has it, ends there.
    pub(crate) fn of(text: String, host_bytes: usize) -> CanonicalUrl {
        debug_assert!(text.len() <= URL_BYTES_MAX && text.as_bytes().get(host_bytes) == Some(&b'/'));
        CanonicalUrl { text: text.into(), host_bytes: host_bytes as u16 }
    }

    /// Takes a text that was canonical when it was written to disk.
    ///
    /// The text is checked again, because a file can be damaged: anything that is not canonical is an error.
    pub fn from_stored(text: &str) -> Result<CanonicalUrl, UrlError> {
        let url = CanonicalUrl::parse(text)?;
        if &*url.text == text { Ok(url) } else { Err(UrlError::NoHost) }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Scheme, host name and port as text, without the slash that follows: `https://example.org:8443`.
    pub fn host_str(&self) -> &str {
        &self.text[..self.path_start()]
    }

    /// Fingerprint of its host.
    #[inline]
    pub fn host_hash(&self) -> HostHash {
        HostHash::of(self.host_str())
    }

    /// The host this page lives on.
    pub fn host(&self) -> Host {
        Host::of(self.host_str())
    }

    /// Path and query: `/a/b?c=d`. Starts with a slash.
    pub fn path_and_query(&self) -> &str {
        &self.text[self.path_start()..]
    }

    /// Path alone: `/a/b`.
    pub fn path(&self) -> &str {
        let rest = self.path_and_query();
        rest.split_once('?').map_or(rest, |(path, _)| path)
    }

    /// Query without its question mark.
    pub fn query(&self) -> Option<&str> {
        self.path_and_query().split_once('?').map(|(_, query)| query)
    }

    /// Names the page by a fixed-size id.
    pub fn id(&self) -> crate::PageId {
        crate::PageId::of(&self.text)
    }

    fn path_start(&self) -> usize {
        usize::from(self.host_bytes)
    }
}

// The text is all that counts: where its host ends follows from it.

impl PartialEq for CanonicalUrl {
    fn eq(&self, other: &CanonicalUrl) -> bool {
        self.text == other.text
    }
}

impl Eq for CanonicalUrl {}

impl PartialOrd for CanonicalUrl {
    fn partial_cmp(&self, other: &CanonicalUrl) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CanonicalUrl {
    fn cmp(&self, other: &CanonicalUrl) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for CanonicalUrl {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Borrow<str> for CanonicalUrl {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A URL against which references are read; see [`CanonicalUrl::to_base`].
#[derive(Clone, Debug)]
pub struct BaseUrl {
    url: Url,
    /// Canonical spelling of the folder: everything up to the last slash of the path.
    folder: String,
    /// Length of the part of `folder` that names the host.
    host_bytes: usize,
}

impl BaseUrl {
    fn new(url: Url) -> BaseUrl {
        // A page in the same folder spells the folder; where there is none, no reference takes the short way.
        let page = url.join("x").ok().and_then(|page| CanonicalUrl::from_url(page).ok());
        let host_bytes = page.as_ref().map_or(0, |page| page.path_start());
        let folder = page.map_or(String::new(), |page| page.text[..page.text.len() - 1].to_string());
        BaseUrl { url, folder, host_bytes }
    }

    /// Moves the base as `<base href>` does; a base that is no http(s) URL is ignored.
    pub fn rebase(&mut self, reference: &str) {
        if reference.len() <= URL_BYTES_MAX
            && let Ok(url) = self.url.join(reference)
            && matches!(url.scheme(), "http" | "https")
        {
            *self = BaseUrl::new(url);
        }
    }

    /// Reads a reference.
    pub fn join(&self, reference: &str) -> Result<CanonicalUrl, UrlError> {
        if let Some(url) = self.join_plain(reference) {
            return Ok(url);
        }
        if reference.len() > 4 * URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        CanonicalUrl::from_url(self.url.join(reference).map_err(UrlError::Syntax)?)
    }

    /// Reads the references that make up most of the Web's links, `name.html` and `/a/b`, in a tenth of the
    /// time: they hold nothing that the standard or our rules would change.
    fn join_plain(&self, reference: &str) -> Option<CanonicalUrl> {
        if reference.starts_with("http") && reference[4..].starts_with([':', 's']) {
            return plain_absolute(reference);
        }
        let first = *reference.as_bytes().first().filter(|first| !matches!(first, b'.' | b'?'))?;
        if self.folder.is_empty() || !is_plain(reference) {
            return None;
        }
        let start = if first == b'/' { &self.folder[..self.host_bytes] } else { &self.folder };
        let fits = start.len() + reference.len() <= URL_BYTES_MAX;
        fits.then(|| CanonicalUrl::of([start, reference].concat(), self.host_bytes))
    }
}

/// Whether a path with its query has nothing that the standard or our rules would change: no escapes, neither dot
/// segments nor empty ones, no parameters that go.
pub(crate) fn is_plain(path_and_query: &str) -> bool {
    let mut before = 0;
    for (at, byte) in path_and_query.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {}
            b'/' | b'.' if before != b'/' => {}
            b'?' => return is_plain_query(&path_and_query[at + 1..]),
            _ => return false,
        }
        before = byte;
    }
    true
}

fn is_plain_query(query: &str) -> bool {
    let is_plain = |b: u8| {
        b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~' | b'.' | b'=' | b'&' | b'+' | b'/' | b':')
    };
    let stays = |parameter: &str| {
        !parameter.is_empty() && !is_noise(parameter.split_once('=').map_or(parameter, |(name, _)| name))
    };
    query.bytes().all(is_plain) && query.split('&').all(stays)
}

/// Reads an absolute URL that is canonical as it stands, or lacks no more than the slash after its host name.
fn plain_absolute(text: &str) -> Option<CanonicalUrl> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
    let (name, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_plain_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-');
    // A label that starts with `xn--` is checked by the standard, and a name whose last label is a number is an address.
    let is_name = |label: &str| !label.is_empty() && !label.starts_with("xn--");
    let ends_in_a_word =
        name.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_lowercase()));
    if !name.bytes().all(is_plain_name) || !name.split('.').all(is_name) || !ends_in_a_word || !is_plain(path)
    {
        return None;
    }
    let slash = if path.is_empty() { "/" } else { "" };
    let host_bytes = text.len() - path.len();
    (text.len() < URL_BYTES_MAX).then(|| CanonicalUrl::of([text, slash].concat(), host_bytes))
}

/// Applies rules 5 to 7 to everything from the path on.
fn clean_path_and_query(text: &str, path_start: usize) -> String {
    let (path, query) = match text[path_start..].split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&text[path_start..], None),
    };
    let mut clean = String::with_capacity(text.len());
    clean.push_str(&text[..path_start]);
    for (i, segment) in path.split('/').enumerate() {
        if i > 0 {
            clean.push('/');
        }
        let start = clean.len();
        push_unescaped(&mut clean, segment);
        let end = start + without_session(&clean[start..]).len();
        clean.truncate(end);
    }
    let mut mark = '?';
    for parameter in query.into_iter().flat_map(|query| query.split('&')) {
        let before = clean.len();
        clean.push(mark);
        push_unescaped(&mut clean, parameter);
        let written = &clean[before + 1..];
        if written.is_empty() || is_noise(written.split('=').next().unwrap_or("")) {
            clean.truncate(before);
        } else {
            mark = '&';
        }
    }
    clean
}

fn is_noise(name: &str) -> bool {
    // The shortest of them all has three letters.
    if name.len() < 3 {
        return false;
    }
    let listed = |list: &[&str]| list.iter().any(|known| name.eq_ignore_ascii_case(known));
    listed(TRACKING)
        || listed(SESSIONS)
        || name.get(..TRACKING_PREFIX.len()).is_some_and(|p| p.eq_ignore_ascii_case(TRACKING_PREFIX))
}

/// Cuts `;jsessionid=…` and its like off a path segment; other matrix parameters stay.
fn without_session(segment: &str) -> &str {
    let cut = segment.match_indices(';').find(|(at, _)| {
        let name = segment[at + 1..].split(['=', ';']).next().unwrap_or("");
        SESSIONS.iter().any(|known| name.eq_ignore_ascii_case(known))
    });
    cut.map_or(segment, |(at, _)| &segment[..at])
}

/// Copies text, writing escaped unreserved characters plainly and all other escapes in upper case.
fn push_unescaped(clean: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        clean.push_str(&rest[..at]);
        let byte = escaped(&rest.as_bytes()[at + 1..]);
        match byte {
            // A dot stays escaped only by mistake, but "%2E%2E" must not become a dot segment here.
            Some(b)
                if (b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~'))
                    && !continues_escape(clean.as_bytes(), b) =>
            {
                clean.push(b as char)
            }
            Some(b) => clean.push_str(&format!("%{b:02X}")),
            None => clean.push('%'),
        }
        rest = &rest[at + if byte.is_some() { 3 } else { 1 }..];
    }
    clean.push_str(rest);
}

/// What the two digits after a percent sign stand for. Digits only: `%+a` is no escape.
fn escaped(after: &[u8]) -> Option<u8> {
    let digit = |at: usize| after.get(at).and_then(|b| char::from(*b).to_digit(16));
    Some((digit(0)? * 16 + digit(1)?) as u8)
}

/// Whether a lone percent sign, perhaps with one digit after it, would become an escape if this followed.
fn continues_escape(written: &[u8], next: u8) -> bool {
    next.is_ascii_hexdigit()
        && match written {
            [.., b'%'] => true,
            [.., b'%', digit] => digit.is_ascii_hexdigit(),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(input: &str, want: &str) {
        let url = CanonicalUrl::parse(input).map(|url| url.as_str().to_string());
        assert_eq!(url.as_deref(), Ok(want), "{input}");
    }

    /// Whether its host ends where looking for the end would find it.
    fn knows_its_host(url: &CanonicalUrl) -> bool {
        let (scheme, rest) = url.as_str().split_once("://").unwrap();
        url.host_str() == format!("{scheme}://{}", rest.split('/').next().unwrap())
    }

    #[test]
    fn one_spelling_for_one_page() {
        check("http://h/a/../b?x#y", "http://h/b?x"); // Dot segments and fragment go.
        check("HTTP://H:80", "http://h/"); // Case and default port go, the root path stays.
        check("https://h:443/", "https://h/");
        check("https://h:8443/", "https://h:8443/");
        check("http://h./x", "http://h/x"); // Trailing dot.
        check("http://user:pw@h/", "http://h/");
        check("http://h/%7euser/%e4", "http://h/~user/%E4");
        check("http://h/%41?q=%42%2f", "http://h/A?q=B%2F");
        check("http://h/100%", "http://h/100%"); // A lone percent sign is left alone.
        check("http://h/a%3%39b%%34%31", "http://h/a%3%39b%%341"); // No escape comes into being by reading another.
        check("http://h/%+a1/%+f", "http://h/%+a1/%+f"); // A sign is no digit.
        check("http://h/v;sid;sid=1?x=1", "http://h/v?x=1");
        check("http://h/v;s%69d=1;w?utm%5fsource=a&%73id=2", "http://h/v"); // Names count as they read.
        check("http://h/?", "http://h/");
        check("http://h/?utm_source=a&id=1&UTM_Medium=b", "http://h/?id=1");
        check("http://h/?gclid=1", "http://h/");
        check("http://h/a;jsessionid=12AB?x=1", "http://h/a?x=1");
        check("http://h/a;v=1/b", "http://h/a;v=1/b"); // A matrix parameter that means something.
        check("http://h/x/..;sid=1", "http://h/"); // A dot segment that a session id had hidden.
        check("http://h/x/%2e%2E;sid=1", "http://h/");
        check("http://h/?PHPSESSID=abc&b=2", "http://h/?b=2");
        check("http://h/?b=2&a=1", "http://h/?b=2&a=1"); // Order may matter.
        check("http://bücher.example/ä", "http://xn--bcher-kva.example/%C3%A4");
        check("http://[::1]:8080/x", "http://[::1]:8080/x");
        check("http://0x7f.1/", "http://127.0.0.1/"); // Every spelling of an address becomes the plain one.
    }

    #[test]
    fn what_cannot_be_crawled_says_why() {
        assert!(matches!(CanonicalUrl::parse("ftp://h/"), Err(UrlError::Scheme(_))));
        assert!(matches!(CanonicalUrl::parse("mailto:a@b"), Err(UrlError::Scheme(_))));
        assert!(matches!(CanonicalUrl::parse("a/b"), Err(UrlError::Syntax(_))));
        assert!(CanonicalUrl::parse("http://./").is_err());
        assert_eq!(CanonicalUrl::parse(&format!("http://h/{}", "a".repeat(3000))), Err(UrlError::TooLong));
    }

    #[test]
    fn references_are_read_against_their_page() {
        let page = CanonicalUrl::parse("http://h/a/b?c").unwrap();
        let join = |reference: &str| page.join(reference).unwrap().as_str().to_string();
        assert_eq!(join("../x"), "http://h/x");
        assert_eq!(join("//g/y"), "http://g/y");
        assert_eq!(join("?z"), "http://h/a/b?z");
        assert_eq!(join("#top"), "http://h/a/b?c");
        assert!(page.join("javascript:alert(1)").is_err());
    }

    #[test]
    fn a_url_knows_its_parts() {
        let url = CanonicalUrl::parse("http://h:81/a/b?c=d").unwrap();
        assert_eq!((url.host_str(), url.path(), url.query()), ("http://h:81", "/a/b", Some("c=d")));
        assert_eq!(url.path_and_query(), "/a/b?c=d");
        assert!(CanonicalUrl::from_stored("http://h/?").is_err());
    }

    proptest! {
        #[test]
        fn canonical_is_a_fixed_point(text in "(https?://)?[a-z%.:@0-9-]{0,12}(/([a-zA-Z%;=0-9.~+]|%[0-9a-f]{2}|;sid|%3){0,6}){0,4}(\\?([a-z=&%;+]|%[3-7][0-9a-f]|sid){0,20})?(#.{0,5})?") {
            if let Ok(url) = CanonicalUrl::parse(&text) {
                let again = CanonicalUrl::parse(url.as_str());
                prop_assert_eq!(Ok(&url), again.as_ref());
                prop_assert!(url.path_and_query().starts_with('/') && knows_its_host(&url));
                let rebuilt = url.host().url(url.path_and_query());
                prop_assert_eq!(rebuilt.as_ref(), Ok(&url));
            }
        }

        #[test]
        fn no_text_breaks_it(text in ".{0,200}") {
            prop_assert!(CanonicalUrl::parse(&text).iter().all(knows_its_host));
        }

        #[test]
        fn so_does_that_of_a_whole_address(
            text in "https?:/{1,3}([a-zA-Z0-9-]{0,4}|xn--[a-z]{0,3}|0x1|[0-9]{1,3})(\\.([a-z0-9-]{0,3}|[0-9]{1,3})){0,3}(/[a-zA-Z0-9.~_%-]{0,4}){0,3}(\\?((sid|_ga|utm_a|[a-z/.:+%]{0,3})(=[a-zA-Z.~+/:#]{0,3})?&?){0,3})?",
        ) {
            let base = CanonicalUrl::parse("https://h/a/b").unwrap();
            let url = Url::parse(base.as_str()).unwrap();
            let long = url.join(&text).map_err(UrlError::Syntax).and_then(CanonicalUrl::from_url);
            prop_assert!(base.join(&text).iter().chain(&long).all(knows_its_host), "{}", text);
            prop_assert_eq!(base.join(&text), long, "{}", text);
            prop_assert_eq!(CanonicalUrl::parse(&text), CanonicalUrl::parse_any(&text), "{}", text);
        }

        #[test]
        fn the_short_way_leads_to_the_same_page(
            base in "https?://(h|h\\.|u:p@h:81|a\\.b)(/[a-z%;=.~]{0,6}){0,3}(\\?q)?",
            reference in "[/.a-zA-Z0-9_~%?:-]{0,12}(\\?(sid|[a-z&=%#]{0,4}){0,3})?",
        ) {
            let Ok(url) = Url::parse(&base) else { return Ok(()) };
            let short = BaseUrl::new(url.clone());
            let long = url.join(&reference).map_err(UrlError::Syntax).and_then(CanonicalUrl::from_url);
            prop_assert!(short.join(&reference).iter().chain(&long).all(knows_its_host), "{} on {}", reference, base);
            prop_assert_eq!(short.join(&reference), long, "{} on {}", reference, base);
        }
    }
}
