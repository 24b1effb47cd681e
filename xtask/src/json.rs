//! Reads JSON, as much of it as our tools need.
//!
//! Whatever is missing or of another kind reads as [`Json::Null`], so that a question into the depth needs no checks.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Map(BTreeMap<String, Json>),
}

/// Deepest nesting that is read; deeper texts are refused.
const DEPTH_MAX: usize = 64;

static NOTHING: Json = Json::Null;

impl Json {
    pub fn read(text: &str) -> Result<Json, String> {
        let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
        let value = reader.value(0).ok_or(format!("bad JSON at byte {}", reader.at))?;
        reader.blanks();
        if reader.at == text.len() { Ok(value) } else { Err(format!("more than JSON at byte {}", reader.at)) }
    }

    /// A value inside maps: `path` is like `crawl.queue`.
    pub fn get(&self, path: &str) -> &Json {
        path.split('.').fold(self, |value, key| match value {
            Json::Map(map) => map.get(key).unwrap_or(&NOTHING),
            _ => &NOTHING,
        })
    }

    pub fn list(&self) -> &[Json] {
        if let Json::List(list) = self { list } else { &[] }
    }

    pub fn text(&self) -> &str {
        if let Json::Text(text) = self { text } else { "" }
    }

    /// NaN where it is no number, which equals nothing.
    pub fn number(&self) -> f64 {
        if let Json::Number(number) = self { *number } else { f64::NAN }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.blanks();
        if !self.bytes[self.at..].starts_with(token.as_bytes()) {
            return None;
        }
        self.at += token.len();
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.blanks();
        match self.bytes.get(self.at)? {
            b'{' => self.map(depth),
            b'[' => self.list(depth),
            b'"' => self.string().map(Json::Text),
            b't' => self.take("true").map(|()| Json::Bool(true)),
            b'f' => self.take("false").map(|()| Json::Bool(false)),
            b'n' => self.take("null").map(|()| Json::Null),
            _ => self.number(),
        }
    }

    fn map(&mut self, depth: usize) -> Option<Json> {
        self.take("{")?;
        let mut map = BTreeMap::new();
        if self.take("}").is_some() {
            return Some(Json::Map(map));
        }
        loop {
            self.blanks();
            let key = self.string()?;
            self.take(":")?;
            map.insert(key, self.value(depth + 1)?);
            if self.take("}").is_some() {
                return Some(Json::Map(map));
            }
            self.take(",")?;
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.take("[")?;
        let mut list = Vec::new();
        if self.take("]").is_some() {
            return Some(Json::List(list));
        }
        loop {
            list.push(self.value(depth + 1)?);
            if self.take("]").is_some() {
                return Some(Json::List(list));
            }
            self.take(",")?;
        }
    }

    fn number(&mut self) -> Option<Json> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
        let number = std::str::from_utf8(&rest[..length]).ok()?.parse().ok()?;
        self.at += length;
        Some(Json::Number(number))
    }

    fn string(&mut self) -> Option<String> {
        if *self.bytes.get(self.at)? != b'"' {
            return None;
        }
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(text).ok(),
                b'\\' => {
                    let c = self.escape()?;
                    text.extend(c.encode_utf8(&mut [0; 4]).bytes());
                }
                _ => text.push(byte),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(match byte {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                // Characters beyond 16 bits come as two units.
                self.take("\\u")?;
                let second = self.unit()?.checked_sub(0xdc00)?;
                return char::from_u32(0x10000 + ((first - 0xd800) << 10) + second);
            }
            other => char::from(other),
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = std::str::from_utf8(self.bytes.get(self.at..self.at + 4)?).ok()?;
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_found() {
        let json =
            Json::read(r#" {"a": {"b": [1, -2.5e1, "x\"\u00e9\ud83d\ude00\n"]}, "t": true, "e": {}} "#)
                .unwrap();
        let list = json.get("a.b").list();
        assert_eq!((list[0].number(), list[1].number(), list[2].text()), (1.0, -25.0, "x\"é😀\n"));
        assert_eq!(json.get("t"), &Json::Bool(true));
        assert_eq!(json.get("a.missing.deep"), &Json::Null);
        assert!(
            json.get("t").number().is_nan()
                && json.get("t").text().is_empty()
                && json.get("t").list().is_empty()
        );
    }

    #[test]
    fn bad_texts_are_refused() {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "[1,", "{\"a\"}", "\"\\u12", "1 2", "\"\\ud83dx\"", "nul", &deep] {
            assert!(Json::read(text).is_err(), "{text:.20}");
        }
    }
}
