//! Index packets: pages as they travel from an engine that crawled them to one that did not.
//!
//! The life of a packet: the sender gathers [`PageEntry`]s and addresses of pages that are [`Gone`] into a [`Body`],
//! writes it ([`Body::encode`]), compresses it, makes a [`Draft`] of it and its [`Header`], signs what
//! [`Draft::to_sign`] gives, and [`Draft::signed`] is the file. The receiver opens it ([`Sealed::read`]), checks the
//! signature over [`Sealed::to_sign`] and what the header says, and only then unpacks as many bytes as the header
//! promises and reads them ([`Body::decode`]).
//!
//! A page travels in one of two grades: its texts, or its [`words`] in order as numbers into the packet's own list.
//! The form that the thesis published, `radix-1`, is in [`xml`]; it is for strangers, and carries less.
//!
//! INVARIANT: no bytes make reading fail otherwise than by a [`PacketError`], or take memory beyond a fixed multiple of what
//! is read. This module compresses and signs nothing; drawn byte by byte in `docs/formats/packet.md`.

mod binary;
mod body;
pub mod form;
#[cfg(test)]
mod tests;
pub mod words;
pub mod xml;
mod xml_page;

pub use binary::{Draft, Header, HeaderStart, Sealed, digest};
pub use body::{Census, read_record, write_record};

use crate::agreement::{EngineId, Grade};
use farol_base::{CanonicalUrl, ContentHash, Language, Link, Timestamp};
use std::net::IpAddr;

/// A sender closes a packet when its body has so many bytes, …
pub const BODY_BYTES_FULL: usize = 4 << 20;
/// … or so many pages.
pub const PAGES_FULL: usize = 2_000;
/// Longest packet that is read, as sent.
pub const PACKET_BYTES_MAX: usize = 16 << 20;
/// Longest body that is read, unpacked.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Most entries of a packet that is read: pages, gone ones, and ones outside.
pub const ENTRIES_MAX: usize = 10_000;
/// A body unpacks to at most so many times what was sent.
pub const RATIO_MAX: usize = 200;
/// Links of a page that are read, as many as are kept of a page that was crawled.
pub const LINKS_MAX: usize = 10_000;
/// Engines that a page came by at most.
pub const VIA_MAX: usize = crate::agreement::pages::VIA_MAX;

/// How the body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// As it is.
    Plain,
    /// As one zstd frame.
    Zstd,
}

/// What a packet is of its agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// What changed since the one before.
    Changes,
    /// A part of all that there is.
    Snapshot,
    /// The last part of it.
    SnapshotEnd,
}

impl PacketKind {
    /// The word for it on screen.
    pub fn name(self) -> &'static str {
        match self {
            PacketKind::Changes => "changes",
            PacketKind::Snapshot => "snapshot",
            PacketKind::SnapshotEnd => "end of snapshot",
        }
    }
}

/// What a packet carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// Engines that are named, the sender first. Others that pages come from need not be listed by whoever writes.
    pub engines: Vec<(EngineId, String)>,
    /// Pages.
    pub pages: Vec<PageEntry>,
    /// Pages that are not there any more.
    pub gone: Vec<Gone>,
    /// Addresses that the sender saw and that are outside the agreed view.
    pub outside: Vec<Outside>,
    /// How much the sender has of which views.
    pub census: Vec<Census>,
}

/// What reading a body came to.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadBody {
    /// What could be read.
    pub body: Body,
    /// Entries that were left out because their address is none, by the receiver's rules.
    pub unreadable: usize,
}

/// A page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageEntry {
    /// Its address.
    pub url: CanonicalUrl,
    /// Who fetched it.
    pub origin: EngineId,
    /// Who passed it on since.
    pub via: Vec<EngineId>,
    /// When it was fetched.
    pub fetched: Timestamp,
    /// When it says it was last changed.
    pub dated: Option<Timestamp>,
    /// The language it is in.
    pub language: Option<Language>,
    /// What its author and its sender say of it.
    pub flags: Flags,
    /// Links between a seed of the origin and the page.
    pub hops: u16,
    /// Bytes of the page as it was fetched.
    pub size: u64,
    /// Fingerprint of its text.
    pub content_hash: ContentHash,
    /// Similarity fingerprint of its text.
    pub simhash: u64,
    /// Kind of file: `html`, `txt`.
    pub file_type: String,
    /// What its server calls it (`text/html`), where that is told.
    pub media_type: Option<String>,
    /// The server's address, where it is told.
    pub address: Option<IpAddr>,
    /// What it says.
    pub texts: Texts,
    /// Where it leads.
    pub links: Vec<Link>,
}

/// What is said of a page besides its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// No copy of it is to be shown.
    pub noarchive: bool,
    /// None of its text is to be shown in results.
    pub nosnippet: bool,
    /// Its links are not to be followed.
    pub nofollow: bool,
    /// The origin shows its stored copy to whoever asks.
    pub copy_offered: bool,
    /// Some of its text or links was left out.
    pub cut: bool,
}

impl Flags {
    pub(crate) fn to_byte(self) -> u8 {
        [self.noarchive, self.nosnippet, self.nofollow, self.copy_offered, self.cut]
            .into_iter()
            .enumerate()
            .map(|(bit, is_set)| u8::from(is_set) << bit)
            .sum()
    }

    pub(crate) fn from_byte(byte: u8) -> Flags {
        let has = |bit: u8| byte & 1 << bit != 0;
        Flags { noarchive: has(0), nosnippet: has(1), nofollow: has(2), copy_offered: has(3), cut: has(4) }
    }
}

/// The texts of a page. In grade `words` all but the first two are words in lower case with spaces between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Its title, to be shown, in either grade.
    pub title: String,
    /// Grade `words` only: its opening text, to be shown, at most [`LEAD_BYTES_MAX`] bytes.
    pub lead: String,
    /// Grade `words` only: the words of the title.
    pub title_words: String,
    /// The author's description.
    pub description: String,
    /// Headings.
    pub headings: String,
    /// Main text.
    pub body: String,
    /// What stands around the main text.
    pub rest: String,
}

/// Opening text that travels with a page in grade `words`.
pub const LEAD_BYTES_MAX: usize = 300;

/// A page that is not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its address.
    pub url: CanonicalUrl,
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub reason: GoneReason,
}

/// An address that the sender saw, and that is outside the agreed view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The address.
    pub url: CanonicalUrl,
    /// When it was seen.
    pub at: Timestamp,
}

/// Why a page is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GoneReason {
    /// Its server does not have it.
    Gone,
    /// It is somewhere else.
    Moved,
    /// It asks not to be indexed.
    NoIndex,
    /// Its server's robots.txt bars it.
    Robots,
    /// It is not in the agreed view any more.
    LeftView,
    /// The sender's operator took it out.
    Withdrawn,
}

impl GoneReason {
    /// All of them, in the order of their numbers, which begin with 1.
    pub const ALL: [GoneReason; 6] = [
        GoneReason::Gone,
        GoneReason::Moved,
        GoneReason::NoIndex,
        GoneReason::Robots,
        GoneReason::LeftView,
        GoneReason::Withdrawn,
    ];

    /// In a few words.
    pub fn name(self) -> &'static str {
        match self {
            GoneReason::Gone => "gone",
            GoneReason::Moved => "moved",
            GoneReason::NoIndex => "asks not to be indexed",
            GoneReason::Robots => "barred by robots.txt",
            GoneReason::LeftView => "left the view",
            GoneReason::Withdrawn => "withdrawn",
        }
    }
}

/// Why bytes are no packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// They do not begin as one.
    #[error("this is no index packet: it does not begin with FAROLIDX")]
    NotAPacket,
    /// It is of a later format.
    #[error("this packet is of format {0}, and only format 1 can be read: the sender runs a newer Farol")]
    Format(u32),
    /// It is not as long as it says, or longer than is read.
    #[error(
        "the packet is cut or has something behind it: it says that it has {said} bytes, and there are {there}"
    )]
    Length {
        /// Bytes by its header.
        said: u64,
        /// Bytes.
        there: u64,
    },
    /// It, or what is in it, is larger than is read.
    #[error("the packet is too large: {what} {is}, at most {max} are read")]
    TooLarge {
        /// What of it.
        what: &'static str,
        /// How large.
        is: u64,
        /// The limit.
        max: u64,
    },
    /// Its header cannot be read.
    #[error("the packet's header is damaged: {0}")]
    Header(&'static str),
    /// Its body is not the one that was sent.
    #[error("the packet's body is damaged: its SHA-256 is not that of the header")]
    Digest,
    /// Its body cannot be read.
    #[error("the packet's body cannot be read: {0}")]
    Body(&'static str),
    /// It has not as many entries as its header says.
    #[error("the packet says that it has {said} {what}, and has {there}")]
    Count {
        /// Of what.
        what: &'static str,
        /// By its header.
        said: usize,
        /// How many there are.
        there: usize,
    },
}

pub(crate) fn grade_number(grade: Grade) -> u8 {
    match grade {
        Grade::Text => 1,
        Grade::Words => 2,
    }
}

pub(crate) fn grade_of(number: u8) -> Result<Grade, PacketError> {
    match number {
        1 => Ok(Grade::Text),
        2 => Ok(Grade::Words),
        _ => Err(PacketError::Header("its grade is neither text nor words")),
    }
}
