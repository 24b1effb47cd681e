//! What the archive holds: what servers answered, and pages that others fetched.

use super::Exchange;
use bytes::Bytes;
use farol_base::{CanonicalUrl, Timestamp};

/// A page that was not fetched by us but received, in a form of its own: a `conversion` record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    pub url: CanonicalUrl,
    /// When whoever has fetched it did so; kept to the millisecond.
    pub fetched: Timestamp,
    /// What the block is.
    pub content_type: String,
    /// The page. The archive does not look into it.
    pub block: Bytes,
    /// What else is worth keeping, as of [`Exchange::metadata`].
    pub metadata: Vec<(String, String)>,
}

/// One entry of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Archived {
    Exchange(Exchange),
    Conversion(Conversion),
}

impl Archived {
    /// The page that it is about.
    pub fn url(&self) -> &CanonicalUrl {
        match self {
            Archived::Exchange(exchange) => &exchange.url,
            Archived::Conversion(conversion) => &conversion.url,
        }
    }

    /// When the page was fetched.
    pub fn fetched(&self) -> Timestamp {
        match self {
            Archived::Exchange(exchange) => exchange.fetched,
            Archived::Conversion(conversion) => conversion.fetched,
        }
    }

    /// Bytes of the page, or of what was received of it.
    pub fn bytes(&self) -> usize {
        match self {
            Archived::Exchange(exchange) => exchange.body.len(),
            Archived::Conversion(conversion) => conversion.block.len(),
        }
    }

    /// What else was noted with it, by name.
    pub fn noted(&self, name: &str) -> Option<&str> {
        let metadata = match self {
            Archived::Exchange(exchange) => &exchange.metadata,
            Archived::Conversion(conversion) => &conversion.metadata,
        };
        metadata.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// What a server answered, where it is that.
    pub fn exchange_ref(&self) -> Option<&Exchange> {
        match self {
            Archived::Exchange(exchange) => Some(exchange),
            Archived::Conversion(_) => None,
        }
    }

    /// The same, taken out.
    pub fn exchange(self) -> Option<Exchange> {
        match self {
            Archived::Exchange(exchange) => Some(exchange),
            Archived::Conversion(_) => None,
        }
    }
}

impl From<Exchange> for Archived {
    fn from(exchange: Exchange) -> Archived {
        Archived::Exchange(exchange)
    }
}

impl From<Conversion> for Archived {
    fn from(conversion: Conversion) -> Archived {
        Archived::Conversion(conversion)
    }
}
