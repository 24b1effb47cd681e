//! Hosts of `site:`, and addresses pasted as a question.
//!
//! A site is kept as the index wants it: host name in lower-case ASCII, then perhaps a path, without scheme, port,
//! `*.` and query. INVARIANT: what [`read_site`] gives, it reads again as the same text.

use farol_base::CanonicalUrl;

/// Reads `example.org`, `*.example.org/docs`, `https://example.org:8080/docs/`, `bücher.example`.
pub(crate) fn read_site(value: &str) -> Option<String> {
    let mut rest = without_scheme(value);
    while let Some(shorter) = rest.strip_prefix("*.").or_else(|| rest.strip_prefix('.')) {
        rest = shorter;
    }
    // A URL reader skips any number of slashes, and would take a path or another scheme for the host. Only what stands
    // before the first slash can be a scheme.
    let host_end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let is_slash = |c: &char| matches!(c, '/' | '\\');
    let (head, tail) = rest.split_at(host_end);
    if head.is_empty() || (head.ends_with(':') && tail.chars().take_while(is_slash).count() > 1) {
        return None;
    }
    let url = CanonicalUrl::parse(&format!("http://{rest}")).ok()?;
    let host = url.host();
    let name = host.name();
    is_host_name(name).then(|| match url.path() {
        "/" => name.to_string(),
        path => format!("{name}{path}"),
    })
}

/// Whether a word is an address with its scheme.
pub(crate) fn is_address(word: &str) -> bool {
    without_scheme(word).len() < word.len() && !word.starts_with("//")
}

/// Splits an address into the value of `site:` and its query, where it has one.
pub(crate) fn read_address(word: &str) -> Option<(String, Option<String>)> {
    let url = CanonicalUrl::parse(word).ok()?;
    Some((read_site(word)?, url.query().map(str::to_string)))
}

fn without_scheme(value: &str) -> &str {
    for scheme in ["http://", "https://", "//"] {
        if value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)) {
            return &value[scheme.len()..];
        }
    }
    value
}

/// Stricter than a URL's host: `*`, `a..b` and `!` are host names to the standard, but nobody has them.
fn is_host_name(name: &str) -> bool {
    if name.starts_with('[') {
        // The URL reader has checked the IPv6 address. The unspecified one is nobody's, and punctuation alone.
        return name != "[::]";
    }
    let in_label = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let is_label =
        |label: &str| label.bytes().all(in_label) && label.bytes().any(|b| b.is_ascii_alphanumeric());
    name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, want: Option<&str>) {
        let site = read_site(value);
        assert_eq!(site.as_deref(), want, "{value}");
        if let Some(site) = site {
            assert_eq!(read_site(&site), Some(site.clone()), "{value}");
        }
    }

    #[test]
    fn one_spelling_for_one_site() {
        check("example.org", Some("example.org"));
        check("EXAMPLE.org/", Some("example.org"));
        check("*.example.org", Some("example.org"));
        check(".br", Some("br"));
        check("https://example.org:8443/Docs/", Some("example.org/Docs/"));
        check("//example.org/a?b#c", Some("example.org/a"));
        check("bücher.example/ä", Some("xn--bcher-kva.example/%C3%A4"));
        check("user@example.org", Some("example.org"));
        check("127.0.0.1:8080", Some("127.0.0.1"));
        check("h/.;sid=1", Some("h"));
        check("h/a/..;sid=1/b", Some("h/b"));
        check("[::1]:80/x", Some("[::1]/x"));
        check(r"exa\\\:\\", Some("exa///://"));
        check("h/a://b", Some("h/a://b"));
    }

    #[test]
    fn what_is_no_site() {
        for value in
            ["", "*", "*.", "a..b", "/docs", "a:b", "ftp://h/", r"ftp:\\h", "!", "a b", "[0::]", "[::]/x"]
        {
            check(value, None);
        }
    }
}
