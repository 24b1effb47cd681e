//! Cuts robots.txt into the lines that mean something to us.
//!
//! As lenient as Google's parser: any end of line, comments, a missing colon, case, the typos that people make.

/// Longer lines are cut, as in Google's parser: 8 × the 2,083 bytes that a browser took as a URL.
const LINE_BYTES_MAX: usize = 2083 * 8;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line with its value, spaces around it removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    UserAgent(&'a [u8]),
    Allow(&'a [u8]),
    Disallow(&'a [u8]),
    CrawlDelay(&'a [u8]),
    Sitemap(&'a [u8]),
}

/// The meaningful lines of a file; all others are left out.
pub struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    pub fn new(bytes: &'a [u8]) -> Lines<'a> {
        // Google's parser also takes a mark that was cut off in the middle.
        let mark = bytes.iter().zip(BYTE_ORDER_MARK).take_while(|(a, b)| a == b).count();
        Lines { rest: &bytes[mark..] }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        while !self.rest.is_empty() {
            // An empty line between \r and \n means nothing, so each of the two may end a line.
            let end = memchr::memchr2(b'\n', b'\r', self.rest).unwrap_or(self.rest.len());
            let line = &self.rest[..end];
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if let Some(line) = read(&line[..line.len().min(LINE_BYTES_MAX)]) {
                return Some(line);
            }
        }
        None
    }
}

fn read(line: &[u8]) -> Option<Line<'_>> {
    let code = memchr::memchr(b'#', line).map_or(line, |comment| &line[..comment]).trim_ascii();
    let (key, value) = match memchr::memchr(b':', code) {
        Some(colon) => (code[..colon].trim_ascii(), code[colon + 1..].trim_ascii()),
        None => two_words(code)?,
    };
    // Google's parser looks at the start of the key only.
    let is = |names: &[&str]| {
        let starts =
            |name: &&str| key.get(..name.len()).is_some_and(|k| k.eq_ignore_ascii_case(name.as_bytes()));
        names.iter().any(starts)
    };
    if is(&["user-agent", "useragent", "user agent"]) {
        Some(Line::UserAgent(value))
    } else if is(&["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"]) {
        Some(Line::Disallow(value))
    } else if is(&["allow"]) {
        Some(Line::Allow(value))
    } else if is(&["crawl-delay", "crawldelay", "crawl delay"]) {
        Some(Line::CrawlDelay(value))
    } else if is(&["sitemap", "site-map"]) {
        Some(Line::Sitemap(value))
    } else {
        None
    }
}

/// `disallow /x`, where somebody forgot the colon; with a third word it could mean anything.
fn two_words(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let gap = line.iter().position(|b| matches!(b, b' ' | b'\t'))?;
    let value = line[gap..].trim_ascii();
    (!value.iter().any(|b| matches!(b, b' ' | b'\t'))).then_some((&line[..gap], value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, want: Option<Line<'_>>) {
        assert_eq!(Lines::new(line.as_bytes()).next(), want, "{line:?}");
    }

    #[test]
    fn lines_as_people_write_them() {
        check("User-agent: a", Some(Line::UserAgent(b"a")));
        check("\t USER-AGENT\t:  a b  # c", Some(Line::UserAgent(b"a b")));
        check("useragent:a", Some(Line::UserAgent(b"a")));
        check("user agent: a", Some(Line::UserAgent(b"a")));
        check("user-agent a", Some(Line::UserAgent(b"a")));
        check("Allow: /", Some(Line::Allow(b"/")));
        check("disallow:", Some(Line::Disallow(b"")));
        check("Disallows: /x", Some(Line::Disallow(b"/x"))); // The start of the key counts.
        check("disallow /x", Some(Line::Disallow(b"/x")));
        check("Crawl-Delay: 10", Some(Line::CrawlDelay(b"10")));
        check("Sitemap: http://h/s.xml", Some(Line::Sitemap(b"http://h/s.xml")));
        check("site-map: http://h/s.xml", Some(Line::Sitemap(b"http://h/s.xml")));
        for typo in ["dissallow", "dissalow", "disalow", "diasllow", "disallaw"] {
            check(&format!("{typo}: /x"), Some(Line::Disallow(b"/x")));
        }
    }

    #[test]
    fn lines_that_mean_nothing() {
        for line in
            ["", "# Allow: /", "foo: /", ": /", "disallow / x", "allow", "<html>", "\u{0}", "noindex: /"]
        {
            check(line, None);
        }
    }

    #[test]
    fn any_end_of_line_and_any_mark() {
        let all = |text: &[u8]| Lines::new(text).count();
        assert_eq!(all(b"allow: /a\nallow: /b\r\nallow: /c\rallow: /d"), 4);
        assert_eq!(all(b"\xEF\xBB\xBFallow: /"), 1);
        assert_eq!(all(b"\xEF\xBBallow: /"), 1);
        assert_eq!(all(b"\xEFallow: /"), 1);
        assert_eq!(all(b"\xEF\x11\xBFallow: /"), 0);
        assert_eq!(all(b"\xEF\xBB\xBF\xEF\xBB\xBFallow: /"), 0);
    }
}
