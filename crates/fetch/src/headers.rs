//! Header lines of an answer, as text.

use hyper::HeaderMap;

/// Header lines of an answer.
///
/// Names are in lower case; of values, bytes that are no UTF-8 are replaced. All lines together are at most
/// [`crate::FetchConfig::head_bytes_max`] long and lie in one piece of memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    text: String,
    /// End of name, end of value, for each line; the next name starts where the last value ended.
    ends: Vec<(u32, u32)>,
}

impl Headers {
    /// The value of the first line with this name, whatever its case.
    ///
    /// ```
    /// use farol_fetch::Headers;
    /// let headers: Headers = [("ETag", "\"1\""), ("x-robots-tag", "noindex")].into_iter().collect();
    /// assert_eq!(headers.get("etag"), Some("\"1\""));
    /// assert_eq!(headers.get("vary"), None);
    /// ```
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of all lines with this name.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All lines: name, value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ends.iter().enumerate().map(|(i, &(name_end, value_end))| {
            let start = if i == 0 { 0 } else { self.ends[i - 1].1 as usize };
            let (name_end, value_end) = (name_end as usize, value_end as usize);
            (&self.text[start..name_end], &self.text[name_end..value_end])
        })
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn push(&mut self, name: &str, value: &str) {
        self.text.extend(name.chars().map(|c| c.to_ascii_lowercase()));
        let name_end = self.text.len() as u32;
        self.text.push_str(value);
        self.ends.push((name_end, self.text.len() as u32));
    }
}

impl From<&HeaderMap> for Headers {
    fn from(map: &HeaderMap) -> Headers {
        let mut headers = Headers {
            text: String::with_capacity(map.iter().map(|(n, v)| n.as_str().len() + v.len()).sum()),
            ends: Vec::with_capacity(map.len()),
        };
        for (name, value) in map {
            headers.push(name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
        }
        headers
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Headers {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(lines: I) -> Headers {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(name, value);
        }
        headers
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    #[test]
    fn lines_are_found_by_name_in_any_case() {
        let headers: Headers = [("Set-Cookie", "a"), ("ETag", ""), ("set-cookie", "b")].into_iter().collect();
        assert_eq!(headers.get("SET-COOKIE"), Some("a"));
        assert_eq!(headers.all("set-cookie").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(headers.get("etag"), Some(""));
        assert_eq!(headers.get("x"), None);
        assert_eq!(
            headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            ["set-cookie", "etag", "set-cookie"]
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut map = HeaderMap::new();
        map.insert(HeaderName::from_static("server"), HeaderValue::from_bytes(b"caf\xe9").unwrap());
        map.insert(HeaderName::from_static("location"), HeaderValue::from_bytes("/é".as_bytes()).unwrap());
        let headers = Headers::from(&map);
        assert_eq!(headers.get("server"), Some("caf\u{fffd}"));
        assert_eq!(headers.get("location"), Some("/é"));
    }
}
