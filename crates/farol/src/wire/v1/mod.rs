//! Version 1 of what nodes ask each other and answer, one struct per body.
//!
//! FROZEN: postcard has no field names and no optional fields, so a struct here never changes once it was released; its
//! bytes stand in the tests. What must change goes into `wire::v2`, which is spoken with those who know it.
//!
//! Nothing here is believed: addresses are parsed again, counts and lengths are bounded where they are read. Each verb
//! may be called twice.

pub mod backup;
pub mod cache;
pub mod node;
pub mod page;
pub mod part;
pub mod question;

/// Verbs that nodes answer. Each is the path below `/v1/`.
pub mod verb {
    /// How a node is.
    pub const HEALTH: &str = "health";
    /// Give your work away and leave.
    pub const DRAIN: &str = "drain";
    /// Send a log again from a position of your archive on.
    pub const RESEND: &str = "resend";
    /// A page as it was fetched.
    pub const COPY: &str = "copy";
    /// Which files the archive has. The request is empty, the answer a [`super::backup::ArchiveFiles`].
    pub const ARCHIVE: &str = "archive";
    /// A piece of a file of the archive.
    pub const PIECE: &str = "piece";
    /// What a node was told, and has nowhere else.
    pub const TOLD: &str = "told";
    /// What an agent knows of a page.
    pub const EXPLAIN: &str = "explain";
    /// Fetch pages again that are yours.
    pub const REFETCH: &str = "refetch";
    /// A page as it is indexed.
    pub const DOCUMENT: &str = "document";
    /// Other pages with the same text.
    pub const TWINS: &str = "twins";
    /// How many pages of a host a shard has.
    pub const PAGES_OF_HOST: &str = "pages-of-host";
    /// How large a shard is, for scoring. The request is a [`super::node::ShardHead`].
    pub const SIZES: &str = "sizes";
    /// How many pages have each word of a question.
    pub const COUNT: &str = "count";
    /// A shard's part of an answer.
    pub const SEARCH: &str = "search";
    /// Titles and snippets.
    pub const SHOW: &str = "show";
    /// Completions of what somebody types.
    pub const SUGGEST: &str = "suggest";
}
