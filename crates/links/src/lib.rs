//! Who links to whom, anchor text, ranks.
