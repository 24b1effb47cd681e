//! How far a crawl goes: around its seeds, or over a view of the Web.

use super::ScopeKind;
use clap::ValueEnum;
use farol_federation::View;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What belongs to a crawl.
#[derive(Clone, PartialEq, Eq)]
pub enum CrawlScope {
    /// What lies around its seeds.
    Around(ScopeKind),
    /// These pages, wherever the seeds are.
    Pages(View),
    /// The pages of any view of a file, one a line.
    Listed(PathBuf),
}

impl From<ScopeKind> for CrawlScope {
    fn from(kind: ScopeKind) -> CrawlScope {
        CrawlScope::Around(kind)
    }
}

impl FromStr for CrawlScope {
    type Err = String;

    fn from_str(text: &str) -> Result<CrawlScope, String> {
        let text = text.trim();
        if let Ok(kind) = ScopeKind::from_str(text, false) {
            return Ok(kind.into());
        }
        if let Some(file) = text.strip_prefix('@') {
            return Ok(CrawlScope::Listed(PathBuf::from(file)));
        }
        View::parse(text).map(CrawlScope::Pages).map_err(|error| {
            format!(
                "a scope is host, domain, prefix or web (how far from the seeds), a view such as \".pt and lang:pt\", or @FILE \
                 with a view a line: {}",
                error.pointed()
            )
        })
    }
}

impl fmt::Display for CrawlScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrawlScope::Around(kind) => {
                f.write_str(kind.to_possible_value().as_ref().map_or("", |value| value.get_name()))
            }
            CrawlScope::Pages(view) => view.fmt(f),
            CrawlScope::Listed(file) => write!(f, "@{}", file.display()),
        }
    }
}

impl fmt::Debug for CrawlScope {
    /// As it stood among the settings of earlier runs, so that an update is no change of settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrawlScope::Around(kind) => kind.fmt(f),
            other => write!(f, "{other}"),
        }
    }
}

impl Serialize for CrawlScope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CrawlScope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CrawlScope, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_a_word_a_view_or_a_file() {
        let read = |text: &str| text.parse::<CrawlScope>();
        assert_eq!(read("domain"), Ok(ScopeKind::Domain.into()));
        assert_eq!(read("@hosts.txt"), Ok(CrawlScope::Listed("hosts.txt".into())));
        assert_eq!(read(".pt minus .gov.pt").unwrap().to_string(), "domain:pt and not domain:gov.pt");
        for text in ["host", "domain", "prefix", "web", "domain:pt", "@x"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        let error = read("domian").unwrap_err();
        assert!(error.contains("host, domain, prefix or web") && error.contains("at character 1"), "{error}");
        assert_eq!(format!("{:?}", CrawlScope::from(ScopeKind::Host)), "Host");
    }
}
