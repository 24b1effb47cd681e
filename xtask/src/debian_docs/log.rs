//! Reads nginx's access log.

use std::path::Path;

/// One request, as nginx saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Milliseconds since 1970 at which nginx had read the request's first bytes.
    pub start_ms: u64,
    /// The same for the answer's last bytes.
    pub end_ms: u64,
    pub address: String,
    pub host: String,
    pub status: u16,
    pub method: String,
    /// Media type, without parameters.
    pub media_type: String,
    /// Path and query in one spelling; see [`spelling`].
    pub path: String,
    pub agent: String,
}

impl Seen {
    /// A page: found, and HTML.
    pub fn is_page(&self) -> bool {
        self.status == 200 && self.media_type == "text/html"
    }

    pub fn url(&self) -> String {
        format!("http://{}{}", self.host, self.path)
    }
}

pub fn read(file: &Path) -> Result<Vec<Seen>, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().map(|line| request(line).ok_or(format!("not a line of our log: {line}"))).collect()
}

fn request(line: &str) -> Option<Seen> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[end, took, address, host, status, method, media_type, uri, agent] = &fields[..] else {
        return None;
    };
    let end_ms = milliseconds(end)?;
    Some(Seen {
        start_ms: end_ms.checked_sub(milliseconds(took)?)?,
        end_ms,
        address: address.to_string(),
        host: host.to_string(),
        status: status.parse().ok()?,
        method: method.to_string(),
        media_type: media_type.split(';').next()?.trim().to_string(),
        path: spelling(uri),
        agent: agent.to_string(),
    })
}

/// nginx writes seconds with exactly three decimals.
fn milliseconds(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.')?;
    if rest.len() != 3 {
        return None;
    }
    Some(seconds.parse::<u64>().ok()? * 1000 + rest.parse::<u64>().ok()?)
}

/// One spelling of a path, so that two crawlers can be compared: escapes of letters, digits and `-._~` are undone,
/// the others are in upper case.
pub fn spelling(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| path.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok()))
            .flatten();
        match escaped {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => plain.push(byte),
            Some(byte) => plain.extend(format!("%{byte:02X}").bytes()),
            None => plain.push(bytes[at]),
        }
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let line = "1700000000.120\t0.015\t127.0.77.1\ta.docs.test\t200\tGET\ttext/html; charset=utf-8\t/a%7Eb?x\tfarol/1";
        let seen = request(line).unwrap();
        assert_eq!((seen.start_ms, seen.end_ms), (1_700_000_000_105, 1_700_000_000_120));
        assert!(seen.is_page());
        assert_eq!(seen.url(), "http://a.docs.test/a~b?x");
        assert_eq!(request("1700000000.120\t0.015"), None);
        assert_eq!(request(&line.replace(".120", ".1")), None);
    }

    #[test]
    fn spellings() {
        let check = |path: &str, want: &str| assert_eq!(spelling(path), want, "{path}");
        check("/a%41%2d%3d%c3%a9", "/aA-%3D%C3%A9");
        check("/%", "/%");
        check("/%zz%4", "/%zz%4");
        check("/é%C3", "/é%C3");
    }
}
