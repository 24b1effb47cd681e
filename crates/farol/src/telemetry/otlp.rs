//! Steps as OTLP writes them, in JSON over HTTP, posted to a collector.
//!
//! Refusal: `https` is not spoken here. A collector stands on the same machine or behind a proxy that speaks it.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// For each of connecting, writing and reading.
const PATIENCE: Duration = Duration::from_secs(5);
/// The standard's port of a collector that takes HTTP.
const PORT: u16 = 4318;
/// More of an answer says nothing that we read.
const ANSWER_MAX: u64 = 4096;

/// One step of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    name: String,
    trace: String,
    step: String,
    parent: String,
    kind: String,
    error: Option<String>,
    started: u64,
    /// Nanoseconds since 1970, as the beginning.
    pub ended: u64,
    attributes: Vec<(String, String)>,
}

impl Step {
    pub fn new(name: &str, started: u64) -> Step {
        Step { name: name.to_string(), started, ended: started, ..Step::default() }
    }

    /// What a field of its span says.
    pub fn set(&mut self, name: &str, value: String) {
        match name {
            "trace" => self.trace = value,
            "step" => self.step = value,
            "parent" => self.parent = value,
            "kind" => self.kind = value,
            "error" => self.error = Some(value),
            _ => self.attributes.push((name.to_string(), value)),
        }
    }

    fn json(&self) -> Value {
        let attributes = self.attributes.iter().map(|(key, value)| attribute(key, value));
        let mut span = json!({
            "traceId": self.trace,
            "spanId": self.step,
            "name": self.name,
            "kind": match self.kind.as_str() { "server" => 2, "client" => 3, _ => 1 },
            "startTimeUnixNano": self.started.to_string(),
            "endTimeUnixNano": self.ended.to_string(),
            "attributes": attributes.collect::<Vec<Value>>(),
        });
        if !self.parent.is_empty() {
            span["parentSpanId"] = json!(self.parent);
        }
        if let Some(error) = &self.error {
            span["status"] = json!({ "code": 2, "message": error });
        }
        span
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Who gathers traces.
#[derive(Debug)]
pub struct Collector {
    host: String,
    port: u16,
    path: String,
    service: String,
}

impl Collector {
    /// Reads an address such as `http://127.0.0.1:4318`.
    ///
    /// # Errors
    /// A sentence where it is none that can be posted to.
    pub fn at(endpoint: &str, service: String) -> Result<Collector, String> {
        let wanted = "name a collector as http://HOST:PORT; https is not spoken here, a proxy beside it can";
        let rest = endpoint.strip_prefix("http://").ok_or(wanted)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an IPv6 address lie within its brackets.
            Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| wanted)?),
            _ => (authority, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        if host.is_empty() {
            return Err(wanted.to_string());
        }
        let path = format!("/{}/v1/traces", path.trim_matches('/')).replace("//", "/");
        Ok(Collector { host, port, path, service })
    }

    pub fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Posts steps.
    ///
    /// # Errors
    /// A sentence on why they were not taken.
    pub fn post(&self, steps: &[Step]) -> Result<(), String> {
        let spans: Vec<Value> = steps.iter().map(Step::json).collect();
        let body = json!({ "resourceSpans": [{
            "resource": { "attributes": [attribute("service.name", &self.service)] },
            "scopeSpans": [{ "scope": { "name": "farol", "version": env!("CARGO_PKG_VERSION") }, "spans": spans }],
        }] });
        self.exchange(&body.to_string()).map_err(|error| error.to_string())?
    }

    fn exchange(&self, body: &str) -> std::io::Result<Result<(), String>> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        let mut last = std::io::Error::other("the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return self.speak(stream, body),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn speak(&self, mut stream: TcpStream, body: &str) -> std::io::Result<Result<(), String>> {
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(
            stream,
            "POST {} HTTP/1.1\r\nhost: {host}:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            self.path,
            self.port,
            body.len()
        )?;
        let mut answer = Vec::new();
        let read = stream.take(ANSWER_MAX).read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let first = answer.lines().next().unwrap_or_default();
        match first.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(Ok(())),
            Some(_) => Ok(Err(format!("it answers {first:?}"))),
            None => read.map(|_| Err("it answers nothing".to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_collectors() {
        let check = |text: &str, want: Option<(&str, u16, &str)>| {
            let got = Collector::at(text, String::new()).ok();
            let got = got.as_ref().map(|got| (got.host.as_str(), got.port, got.path.as_str()));
            assert_eq!(got, want, "{text}");
        };
        check("http://127.0.0.1:4318", Some(("127.0.0.1", 4318, "/v1/traces")));
        check("http://collector", Some(("collector", 4318, "/v1/traces")));
        check("http://collector:80/otlp/", Some(("collector", 80, "/otlp/v1/traces")));
        check("http://[::1]:4318", Some(("::1", 4318, "/v1/traces")));
        check("http://[::1]", Some(("::1", 4318, "/v1/traces")));
        check("https://collector:4318", None);
        check("collector:4318", None);
        check("http://collector:port", None);
        check("http://:4318", None);
    }
}
