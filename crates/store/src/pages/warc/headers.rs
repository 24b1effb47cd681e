//! Header fields as they come: of WARC records, of HTTP messages, of `application/warc-fields`.

/// Most fields that are kept of one header; the others are dropped.
const FIELDS_MAX: usize = 1000;

/// Fields in the order in which they stand. Names are compared without regard to case.
///
/// ```
/// use farol_store::pages::warc::Headers;
/// let headers = Headers::parse(b"Content-Type: text/html;\n charset=utf-8\r\nno colon\r\nX:1\r\n");
/// assert_eq!(headers.get("content-type"), Some("text/html; charset=utf-8"));
/// assert_eq!(headers.iter().count(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Reads lines, and is content with any: ends of `\r\n` or `\n`, folded lines, bytes that are not UTF-8.
    /// Lines without a colon are left out.
    pub fn parse(bytes: &[u8]) -> Headers {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut()
                    && !line.trim().is_empty()
                {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                continue;
            }
            if let Some((name, value)) = line.split_once(':')
                && fields.len() < FIELDS_MAX
            {
                fields.push((name.trim().to_string(), value.trim().to_string()));
            }
        }
        Headers(fields)
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a name.
    pub fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
