//! What is known of the pages of a segment beside their words, opened once when the segment is first seen.

use crate::error::Error;
use crate::schema::Fields;
use farol_base::PageId;
use tantivy::columnar::Column;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::{DocId, SegmentReader};

/// The columns that every candidate is looked up in.
pub(crate) struct SegmentColumns {
    page: Column<u64>,
    content: Column<u64>,
    simhash: Column<u64>,
    address: Column<u64>,
    /// The date that a page tells, where it tells one.
    pub dated: Column<u64>,
    fetched: Column<u64>,
    /// Lengths of the fields that count: main text, title, anchors.
    pub lengths: [FieldNormReader; 3],
}

impl SegmentColumns {
    pub(crate) fn open(segment: &SegmentReader, fields: Fields) -> Result<SegmentColumns, Error> {
        let column =
            |name| segment.fast_fields().u64(name).map_err(Error::engine("read what it knows of pages"));
        let lengths =
            |field| segment.get_fieldnorms_reader(field).map_err(Error::engine("read the lengths of pages"));
        Ok(SegmentColumns {
            page: column("page")?,
            content: column("content")?,
            simhash: column("simhash")?,
            address: column("address")?,
            dated: column("dated")?,
            fetched: column("fetched")?,
            lengths: [lengths(fields.words)?, lengths(fields.title)?, lengths(fields.anchors)?],
        })
    }

    pub(crate) fn page(&self, doc: DocId) -> PageId {
        PageId(self.page.first(doc).unwrap_or(0))
    }

    /// Fingerprint of a page's text; 0 where it has none.
    pub(crate) fn content(&self, doc: DocId) -> u64 {
        self.content.first(doc).unwrap_or(0)
    }

    /// Fingerprint of about the text; 0 where it has none.
    pub(crate) fn simhash(&self, doc: DocId) -> u64 {
        self.simhash.first(doc).unwrap_or(0)
    }

    /// When a page was written, as it tells itself, or else fetched.
    pub(crate) fn date(&self, doc: DocId) -> u64 {
        self.dated.first(doc).or_else(|| self.fetched.first(doc)).unwrap_or(0)
    }

    /// Letters of a page's address.
    pub(crate) fn address(&self, doc: DocId) -> u32 {
        self.address.first(doc).map_or(u32::MAX, |letters| u32::try_from(letters).unwrap_or(u32::MAX))
    }
}
