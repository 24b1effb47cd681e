//! What is known of the pages of a segment beside their words, opened once when the segment is first seen.

use crate::error::Error;
use farol_base::PageId;
use tantivy::columnar::Column;
use tantivy::{DocId, SegmentReader};

/// The columns that every candidate is looked up in.
pub(crate) struct SegmentColumns {
    page: Column<u64>,
    content: Column<u64>,
    simhash: Column<u64>,
    address: Column<u64>,
}

impl SegmentColumns {
    pub(crate) fn open(segment: &SegmentReader) -> Result<SegmentColumns, Error> {
        let column =
            |name| segment.fast_fields().u64(name).map_err(Error::engine("read what it knows of pages"));
        Ok(SegmentColumns {
            page: column("page")?,
            content: column("content")?,
            simhash: column("simhash")?,
            address: column("address")?,
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

    /// Letters of a page's address.
    pub(crate) fn address(&self, doc: DocId) -> u32 {
        self.address.first(doc).map_or(u32::MAX, |letters| u32::try_from(letters).unwrap_or(u32::MAX))
    }
}
