//! Being written: sitemap.
