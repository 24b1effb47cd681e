//! How much of a document is indexed and kept.

/// Bytes of each text that are indexed and kept; the rest of a longer one is left out.
/// 2048 + 512 + 32 + 32 + 4 + 4 KiB = 2.6 MiB per document at most, and most have 10 KiB.
pub(crate) const BODY_BYTES_MAX: usize = 2048 * 1024;
pub(crate) const REST_BYTES_MAX: usize = 512 * 1024;
pub(crate) const HEADINGS_BYTES_MAX: usize = 32 * 1024;
pub(crate) const ANCHORS_BYTES_MAX: usize = 32 * 1024;
pub(crate) const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
pub(crate) const TITLE_BYTES_MAX: usize = 4 * 1024;

/// The first bytes of a text, ending on a character.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
