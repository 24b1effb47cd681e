//! What came of a seed, so that whoever named it can be told.

use crate::{CanonicalUrl, Timestamp};

/// What came of a seed. Which address, code or rule it was is told beside ([`SeedReport::detail`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SeedState {
    /// It was not visited yet.
    #[default]
    Waiting,
    /// Its page was read, and leads on.
    Fine,
    /// Its address is a private one, which is not asked.
    PrivateAddress,
    /// Its name is not in the DNS.
    NoSuchName,
    /// No name server answered.
    NameTrouble,
    /// Its port is kept for another protocol.
    Port,
    /// Nobody listens there.
    Refused,
    /// It cannot be connected to for another reason.
    Unreachable,
    /// No answer came in time.
    TimedOut,
    /// No secure connection could be agreed on.
    Tls,
    /// What answers does not speak HTTP.
    NotHttp,
    /// robots.txt forbids it.
    Robots,
    /// robots.txt cannot be read, so nothing may be asked for.
    RobotsUnavailable,
    /// The server wants a password.
    SignIn,
    /// The server refuses us.
    Forbidden,
    /// There is no such page.
    NotFound,
    /// The server answers with another status that means no page.
    OtherStatus,
    /// The server asks us to come back later.
    Busy,
    /// The server has trouble of its own.
    ServerError,
    /// It leads to a host that the operator took out.
    Removed,
    /// A pattern of the settings leaves it out.
    Excluded,
    /// Too many redirects follow one another.
    TooManyRedirects,
    /// It calls a page its original that does not belong to the crawl.
    Elsewhere,
    /// It has no text: a picture, an archive, a document of a kind that is not read.
    NotHtml,
    /// The page asks not to be indexed.
    NoIndex,
    /// The page asks that its links are not followed.
    NoFollow,
    /// All of its links lead out of the scope.
    LinksOutside,
    /// It has no links.
    NoLinks,
    /// It has neither text nor links.
    Empty,
}

impl SeedState {
    /// Every state.
    pub const ALL: [SeedState; 29] = [
        SeedState::Waiting,
        SeedState::Fine,
        SeedState::PrivateAddress,
        SeedState::NoSuchName,
        SeedState::NameTrouble,
        SeedState::Port,
        SeedState::Refused,
        SeedState::Unreachable,
        SeedState::TimedOut,
        SeedState::Tls,
        SeedState::NotHttp,
        SeedState::Robots,
        SeedState::RobotsUnavailable,
        SeedState::SignIn,
        SeedState::Forbidden,
        SeedState::NotFound,
        SeedState::OtherStatus,
        SeedState::Busy,
        SeedState::ServerError,
        SeedState::Removed,
        SeedState::Excluded,
        SeedState::TooManyRedirects,
        SeedState::Elsewhere,
        SeedState::NotHtml,
        SeedState::NoIndex,
        SeedState::NoFollow,
        SeedState::LinksOutside,
        SeedState::NoLinks,
        SeedState::Empty,
    ];

    /// Its name in the API and on disk.
    pub fn code(self) -> &'static str {
        match self {
            SeedState::Waiting => "waiting",
            SeedState::Fine => "fine",
            SeedState::PrivateAddress => "private_address",
            SeedState::NoSuchName => "no_such_name",
            SeedState::NameTrouble => "name_trouble",
            SeedState::Port => "port",
            SeedState::Refused => "refused",
            SeedState::Unreachable => "unreachable",
            SeedState::TimedOut => "timed_out",
            SeedState::Tls => "tls",
            SeedState::NotHttp => "not_http",
            SeedState::Robots => "robots",
            SeedState::RobotsUnavailable => "robots_unavailable",
            SeedState::SignIn => "sign_in",
            SeedState::Forbidden => "forbidden",
            SeedState::NotFound => "not_found",
            SeedState::OtherStatus => "other_status",
            SeedState::Busy => "busy",
            SeedState::ServerError => "server_error",
            SeedState::Removed => "removed",
            SeedState::Excluded => "excluded",
            SeedState::TooManyRedirects => "too_many_redirects",
            SeedState::Elsewhere => "elsewhere",
            SeedState::NotHtml => "not_html",
            SeedState::NoIndex => "no_index",
            SeedState::NoFollow => "no_follow",
            SeedState::LinksOutside => "links_outside",
            SeedState::NoLinks => "no_links",
            SeedState::Empty => "empty",
        }
    }

    /// The state of this name.
    pub fn from_code(code: &str) -> Option<SeedState> {
        SeedState::ALL.into_iter().find(|state| state.code() == code)
    }

    /// Whether somebody should look at it.
    pub fn is_trouble(self) -> bool {
        !matches!(self, SeedState::Waiting | SeedState::Fine)
    }

    /// Whether the page was read and only does not lead on: other pages of its site may come by other ways.
    pub fn is_dead_end(self) -> bool {
        use SeedState::{Empty, LinksOutside, NoFollow, NoLinks, NotHtml};
        matches!(self, NotHtml | NoFollow | LinksOutside | NoLinks | Empty)
    }
}

/// A seed and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedReport {
    /// The seed as it was named.
    pub url: CanonicalUrl,
    /// Where its redirects lead, where they lead elsewhere: that is crawled in its place.
    pub leads_to: Option<CanonicalUrl>,
    /// What came of it.
    pub state: SeedState,
    /// What the state is about: an address, a status code, a rule; may be empty.
    pub detail: String,
    /// When that was found out.
    pub at: Option<Timestamp>,
}

/// All seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedSummary {
    /// How many there are.
    pub total: u64,
    /// Those that were read and lead on.
    pub fine: u64,
    /// Those that were not visited yet.
    pub waiting: u64,
    /// The first hundred, those with trouble first.
    pub reports: Vec<SeedReport>,
}

impl SeedSummary {
    /// Seeds that somebody should look at.
    pub fn troubled(&self) -> u64 {
        self.total.saturating_sub(self.fine).saturating_sub(self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_a_name_of_its_own() {
        for state in SeedState::ALL {
            assert_eq!(SeedState::from_code(state.code()), Some(state));
        }
        assert_eq!(SeedState::from_code("no such state"), None);
    }
}
