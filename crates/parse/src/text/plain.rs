//! Lays out text without markup: spaces collapsed, paragraphs kept.

use super::{TEXT_BYTES_MAX, whitespace};

/// A first line longer than this is no title.
const TITLE_BYTES_MAX: usize = 120;

/// Text of a file without markup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    pub title: String,
    pub body: String,
    /// The file has more text than is kept.
    pub cut: bool,
}

/// Lays out a file: lines with their spaces collapsed, empty lines gone.
pub fn lay_out(text: &str) -> Plain {
    let kept = whitespace::cut(text, TEXT_BYTES_MAX);
    let mut body = String::with_capacity(kept.len());
    for line in kept.lines() {
        let start = body.len();
        whitespace::push(&mut body, start, line, false);
        if body.len() > start {
            body.push('\n');
        }
    }
    body.truncate(body.trim_end().len());
    let first = body.lines().next().unwrap_or("");
    let title = if first.len() <= TITLE_BYTES_MAX { first.to_string() } else { String::new() };
    Plain { title, body, cut: kept.len() < text.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_and_spaces_go() {
        let plain = lay_out("\n  NAME\n\n   ls -   list\tfiles \r\n\n");
        assert_eq!((plain.title.as_str(), plain.body.as_str()), ("NAME", "NAME\nls - list files"));
        assert_eq!(lay_out("").body, "");
        assert_eq!(lay_out(&"a".repeat(200)).title, "");
        let long = lay_out(&"word ".repeat(TEXT_BYTES_MAX));
        assert!(long.cut && long.body.len() <= TEXT_BYTES_MAX);
    }
}
