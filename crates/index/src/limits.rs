//! How much of a document is indexed and kept.

/// Bytes of each text that are indexed and kept; the rest of a longer one is left out.
/// 512 + 128 + 32 + 32 + 4 + 4 KiB = 712 KiB per document at most.
pub(crate) const BODY_BYTES_MAX: usize = 512 * 1024;
pub(crate) const REST_BYTES_MAX: usize = 128 * 1024;
pub(crate) const HEADINGS_BYTES_MAX: usize = 32 * 1024;
pub(crate) const ANCHORS_BYTES_MAX: usize = 32 * 1024;
pub(crate) const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
pub(crate) const TITLE_BYTES_MAX: usize = 4 * 1024;

/// The first bytes of a text, ending on a character.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
