//! Which line of a robots.txt refuses a path, for people who look for it in the file.

use super::{Robots, Verdict, within_limit};

/// Lines that spell the rule which decides and are looked at: each costs reading the file once more.
const CANDIDATES_MAX: usize = 16;

/// Longest line that is told of.
const LINE_CHARS_MAX: usize = 200;

/// The line that refuses a path, with its number from 1; `None` where the path is allowed, or no line alone refuses it.
/// Where a file says the same several times, the first of them.
///
/// ```
/// use farol_parse::robots::refusing_line;
/// let file = b"User-agent: *\nAllow: /\n\nDisallow: /private # not this\n";
/// let want = Some((4, "Disallow: /private # not this".to_string()));
/// assert_eq!(refusing_line(file, "farol", "/private/x"), want);
/// assert_eq!(refusing_line(file, "farol", "/public"), None);
/// ```
pub fn refusing_line(bytes: &[u8], agent: &str, path_and_query: &str) -> Option<(usize, String)> {
    let Verdict::Refused { rule } = Robots::parse(bytes, agent).verdict(path_and_query) else { return None };
    let says_so = |line: &[u8]| {
        let alone = [&b"User-agent: *\n"[..], line].concat();
        Robots::parse(&alone, agent).verdict(path_and_query) == Verdict::Refused { rule: rule.clone() }
    };
    let lines = lines(bytes);
    let spelt: Vec<usize> = (0..lines.len()).filter(|at| says_so(lines[*at])).take(CANDIDATES_MAX).collect();
    // The same rule may stand in the group of another crawler: without the line that counts, the verdict is another.
    let counts = |at: &&usize| {
        let others =
            (lines.iter().enumerate()).map(|(nth, line)| if nth == **at { &b"#"[..] } else { *line });
        let without = others.collect::<Vec<_>>().join(&b'\n');
        Robots::parse(&without, agent).verdict(path_and_query) != Verdict::Refused { rule: rule.clone() }
    };
    let at = *spelt.iter().find(counts).or(spelt.first())?;
    let text = String::from_utf8_lossy(lines[at]);
    Some((at + 1, text.trim().chars().filter(|c| !c.is_control()).take(LINE_CHARS_MAX).collect()))
}

/// The lines as an editor counts them.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let bytes = within_limit(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let end = if bytes.contains(&b'\n') { b'\n' } else { b'\r' };
    bytes.split(|byte| *byte == end).map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, path: &str, want: Option<(usize, &str)>) {
        let want = want.map(|(number, line)| (number, line.to_string()));
        assert_eq!(refusing_line(file.as_bytes(), "farol", path), want, "{path} in {file:?}");
    }

    #[test]
    fn the_line_that_decides_is_named() {
        let file = "User-agent: other\r\nDisallow: /a\r\n\r\nUser-agent: *\r\nDisallow: /a\r\nAllow: /a/b\r\n  disallow : /a/b/c*d$ # x\r\n";
        check(file, "/a/x", Some((5, "Disallow: /a")));
        check(file, "/a/b", None);
        check(file, "/a/b/c-d", Some((7, "disallow : /a/b/c*d$ # x")));
        check(
            "User-agent: farol\nDisallow: /\nUser-agent: *\nDisallow: /x",
            "/x/y",
            Some((2, "Disallow: /")),
        );
        check("User-agent: *\nDisallow: /x\nDisallow: /x", "/x", Some((2, "Disallow: /x")));
        check("", "/x", None);
    }

    #[test]
    fn bytes_of_any_kind_are_shown_as_text() {
        let file = b"User-agent: *\nDisallow: /\xff\x1b[31m";
        let found = refusing_line(file, "farol", "/%FF%1B[31m/x");
        assert!(found.is_none_or(|(number, line)| number == 2 && !line.contains('\u{1b}')));
    }
}
