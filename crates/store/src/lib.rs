//! What the crawler keeps on disk: every known URL once, and pages as WARC.
