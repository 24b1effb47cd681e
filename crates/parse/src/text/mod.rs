//! From a walk over markup to the text that people came for.
//!
//! [`layout`] cuts the running text into blocks (paragraphs, headings, list items, table cells) under a flat
//! list of their containers. [`hints`] reads what class names say about a container. [`select`] keeps the
//! blocks of the main text. [`plain`] lays out files that have no markup.

pub mod hints;
pub mod layout;
pub mod plain;
pub mod select;
pub mod whitespace;

pub use layout::Layout;

/// Bytes of laid-out text that are kept of a page; what follows is left out. A long novel has 1 MB.
pub const TEXT_BYTES_MAX: usize = 2 << 20;
/// Open block-level elements that are remembered; deeper ones are read as if flat. Browsers stop at 512
/// elements of any kind, and real pages have fewer than 60 blocks.
pub const DEPTH_MAX: usize = 200;
/// Containers that are remembered: 65,536 × 12 bytes = 786 KB. Later ones count as their parent.
pub const NODES_MAX: usize = 1 << 16;
/// Bytes of headings that are kept.
pub const HEADINGS_BYTES_MAX: usize = 16 << 10;

/// The text of a page, the main text told apart from the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MainText {
    /// Paragraphs, one per line.
    pub body: String,
    /// What else a reader sees: navigation, lists of links, notes at the edge; one block per line.
    pub rest: String,
    /// Headings, one per line.
    pub headings: String,
}
