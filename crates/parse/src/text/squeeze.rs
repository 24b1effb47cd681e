//! Appends text with every run of white space as one space.

/// Appends `text` to `out`. A space is put between words, never at the start of `out` (from `start` on) nor
/// twice in a row; control characters and no-break spaces count as spaces, soft hyphens vanish.
///
/// Returns whether the text ends with white space, to be handed back as `space` with the next piece, so that
/// `a<b> c</b>` and `a <b>c</b>` give the same.
pub fn push(out: &mut String, start: usize, text: &str, space: bool) -> bool {
    let mut space = space;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        // Words with single spaces between them, copied in one go: up to other white space, or to a lead byte
        // that may begin a special character.
        let word = at;
        while at < bytes.len()
            && (is_plain(bytes[at])
                || (bytes[at] == b' ' && at > word && bytes.get(at + 1).is_some_and(|next| is_plain(*next))))
        {
            at += 1;
        }
        if at > word {
            if space && out.len() > start {
                out.push(' ');
            }
            space = false;
            out.push_str(&text[word..at]);
        }
        match bytes.get(at) {
            None => break,
            Some(0xC2) => {
                let pair = &text[at..at + 2];
                at += 2;
                match pair {
                    "\u{A0}" => space = true,
                    "\u{AD}" => {}
                    // The C1 controls.
                    pair if pair < "\u{A0}" => space = true,
                    pair => {
                        if space && out.len() > start {
                            out.push(' ');
                        }
                        space = false;
                        out.push_str(pair);
                    }
                }
            }
            Some(_) => {
                space = true;
                at += 1;
            }
        }
    }
    space
}

/// Whether a byte stands for itself.
fn is_plain(byte: u8) -> bool {
    byte > b' ' && byte != 0xC2 && byte != 0x7F
}

/// One line with its white space squeezed, at most `bytes_max` long, cut between characters.
pub fn line(text: &str, bytes_max: usize) -> String {
    let mut out = String::new();
    push(&mut out, 0, cut(text, 4 * bytes_max), false);
    let len = cut(&out, bytes_max).len();
    out.truncate(len);
    out.truncate(out.trim_end().len());
    out
}

/// The first `bytes_max` bytes, less if that would split a character.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pieces: &[&str], want: &str) {
        let mut out = String::new();
        let mut space = false;
        for piece in pieces {
            space = push(&mut out, 0, piece, space);
        }
        assert_eq!(out, want, "{pieces:?}");
    }

    #[test]
    fn spaces_are_single() {
        check(&["  a \t\n b  "], "a b");
        check(&["a", " b"], "a b");
        check(&["a ", " b"], "a b");
        check(&["a", "b"], "ab");
        check(&["a\u{A0}\u{A0}b"], "a b");
        check(&["hy\u{AD}phen"], "hyphen");
        check(&["2\u{A0}€ ©x"], "2 € ©x");
        check(&["a\0b\u{85}c"], "a b c");
        check(&[" ", "  "], "");
    }

    #[test]
    fn lines_are_cut_between_characters() {
        assert_eq!(line(" á  é ", 100), "á é");
        assert_eq!(line("ááá", 5), "áá");
        assert_eq!(line("a b", 2), "a");
    }

    proptest! {
        #[test]
        fn like_splitting_into_words(text in "[a-cé© \t\n\u{A0}日]{0,40}") {
            let mut out = String::new();
            push(&mut out, 0, &text, false);
            let naive: Vec<&str> = text.split_whitespace().collect();
            prop_assert_eq!(out, naive.join(" "));
        }
    }
}
