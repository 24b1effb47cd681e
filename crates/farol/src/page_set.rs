//! Pages that an order speaks of: one, or all whose address begins with something.

use crate::seed::read_seed;
use farol_base::{CanonicalUrl, Host};
use std::fmt;

/// One page, or all below a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PageSet {
    One(CanonicalUrl),
    /// Those whose address begins with this one's text. Written with a `*` behind.
    Under(CanonicalUrl),
}

impl PageSet {
    /// Reads what people type: `https://host/page`, `https://host/folder/*`. The scheme may be missing.
    pub fn read(text: &str) -> Result<PageSet, String> {
        let text = text.trim();
        let (address, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        let url = read_seed(address).map_err(|error| error.replace("cannot be a seed", "is no address"))?;
        Ok(if is_prefix { PageSet::Under(url) } else { PageSet::One(url) })
    }

    pub fn contains(&self, url: &CanonicalUrl) -> bool {
        match self {
            PageSet::One(page) => page == url,
            PageSet::Under(prefix) => url.as_str().starts_with(prefix.as_str()),
        }
    }

    /// The host that all of its pages are on.
    pub fn host(&self) -> Host {
        match self {
            PageSet::One(url) | PageSet::Under(url) => url.host(),
        }
    }
}

impl fmt::Display for PageSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageSet::One(url) => url.fmt(f),
            PageSet::Under(prefix) => write!(f, "{prefix}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, url: &str, want: bool) {
        let set = PageSet::read(text).unwrap();
        assert_eq!(set.contains(&CanonicalUrl::parse(url).unwrap()), want, "{text} {url}");
        assert_eq!(PageSet::read(&set.to_string()), Ok(set));
    }

    #[test]
    fn one_page_or_all_that_begin_alike() {
        check("https://a.org/x", "https://a.org/x", true);
        check("a.org/x", "https://a.org/x", true);
        check("https://a.org/x", "https://a.org/x/y", false);
        check("https://a.org/x/*", "https://a.org/x/y?z", true);
        check("https://a.org/x/*", "https://a.org/x", false);
        check("https://a.org/x*", "https://a.org/xyz", true);
        check("https://a.org*", "https://a.org/y", true);
        check("https://a.org/*", "https://a.org.evil/y", false);
        check("https://a.org/M*A*S*H", "https://a.org/M*A*S*H", true);
        for text in ["hello", "*", "ftp://a.org/*"] {
            let error = PageSet::read(text).unwrap_err();
            assert!(error.contains("is no address"), "{text}: {error}");
        }
    }
}
