//! The searchable shard on tantivy: schema, analysis, ranking, snippets, suggestions.
