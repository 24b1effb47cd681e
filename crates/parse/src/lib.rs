//! Bytes to text, links, robots rules, sitemaps, feeds, fingerprints.
