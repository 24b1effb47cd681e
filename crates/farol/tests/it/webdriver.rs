//! A browser to steer: Debian's Chromium through its driver, by the W3C WebDriver protocol.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running browser; closed when dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

/// What the standard calls an element reference.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Browser {
    pub fn start(width: u32, height: u32) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .args(["--port=0", "--allowed-ips=127.0.0.1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts; `cargo xtask test` installs it");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().expect("chromedriver says its port").unwrap();
            let number =
                line.split("port ").nth(1).and_then(|rest| rest.trim_end_matches('.').trim().parse().ok());
            // The first line repeats the port that was asked for, which is 0.
            if let Some(port) = number.filter(|port| *port != 0) {
                break port;
            }
        };
        // Nobody reads on; the driver must not block when it has more to say.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
        let arguments = [
            "--headless=new".to_string(),
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-dev-shm-usage".into(),
            "--disable-background-networking".into(),
            "--disable-component-update".into(),
            "--disable-sync".into(),
            "--no-first-run".into(),
            "--lang=en".into(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", browser._profile.path().display()),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "unhandledPromptBehavior": "ignore",
            "goog:chromeOptions": { "args": arguments, "binary": "/usr/bin/chromium" }
        }}});
        let session = browser.call("POST", "/session", Some(wanted));
        browser.session = session["sessionId"].as_str().expect("a session").to_string();
        browser
    }

    pub fn open(&self, url: &str) {
        self.post("url", json!({ "url": url }));
    }

    /// Behaves as one whose person likes dark pages.
    pub fn prefer_dark(&self) {
        let features = json!([{ "name": "prefers-color-scheme", "value": "dark" }]);
        let params = json!({ "features": features });
        self.post("goog/cdp/execute", json!({ "cmd": "Emulation.setEmulatedMedia", "params": params }));
    }

    pub fn url(&self) -> String {
        self.get("url").as_str().unwrap_or_default().to_string()
    }

    pub fn title(&self) -> String {
        self.get("title").as_str().unwrap_or_default().to_string()
    }

    pub fn run(&self, script: &str) -> Value {
        self.post("execute/sync", json!({ "script": script, "args": [] }))
    }

    /// The text that a reader sees of the first element that matches.
    pub fn text(&self, selector: &str) -> String {
        let element = self.find(selector);
        self.get(&format!("element/{element}/text")).as_str().unwrap_or_default().to_string()
    }

    pub fn count(&self, selector: &str) -> usize {
        let found = self.post("elements", json!({ "using": "css selector", "value": selector }));
        found.as_array().map_or(0, Vec::len)
    }

    pub fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.post(&format!("element/{element}/click"), json!({}));
    }

    pub fn write(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.post(&format!("element/{element}/value"), json!({ "text": text }));
    }

    /// Whether a dialog is open, as a script that runs would open one.
    pub fn has_dialog(&self) -> bool {
        let answer = self.request("GET", &format!("/session/{}/alert/text", self.session), None);
        answer["value"].get("error").is_none()
    }

    /// Waits until the page is as it should be.
    #[track_caller]
    pub fn wait(&self, what: &str, mut holds: impl FnMut(&Browser) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain for {what} at {}", self.url());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn find(&self, selector: &str) -> String {
        let found = self.post("element", json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no {selector} at {}", self.url())).to_string()
    }

    fn get(&self, path: &str) -> Value {
        self.call("GET", &format!("/session/{}/{path}", self.session), None)
    }

    #[track_caller]
    fn post(&self, path: &str, body: Value) -> Value {
        self.call("POST", &format!("/session/{}/{path}", self.session), Some(body))
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let answer = self.request(method, path, body);
        let value = answer["value"].clone();
        if let Some(error) = value.get("error").and_then(Value::as_str) {
            panic!("{method} {path}: {error}: {}", value["message"].as_str().unwrap_or_default());
        }
        value
    }

    fn request(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.request("DELETE", &format!("/session/{}", self.session), None);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
