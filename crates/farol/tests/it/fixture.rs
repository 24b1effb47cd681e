//! A Farol process and a made-up Web to point it at.

use farol_synthetic::{LogSink, Server, WebConfig};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Nothing in these tests takes longer on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A made-up Web on loopback, with its log in memory.
pub struct Web {
    pub server: Server,
    _runtime: tokio::runtime::Runtime,
}

impl Web {
    pub fn start(config: WebConfig) -> Web {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let server = runtime.block_on(farol_synthetic::serve(config, listen, LogSink::memory())).unwrap();
        Web { server, _runtime: runtime }
    }

    /// Flags that lead a crawler here.
    pub fn flags(&self) -> Vec<String> {
        let resolve =
            format!("*.{}=127.0.0.0/8:{}", self.server.world().config().domain, self.server.address().port());
        ["--resolve", &resolve, "--scope", "domain"].map(String::from).to_vec()
    }

    pub fn seed(&self) -> String {
        format!("http://{}/", self.server.world().host_name(0))
    }
}

/// A folder for one test's data.
pub struct Data {
    dir: tempfile::TempDir,
    /// A process in a mount namespace of its own, in which the folder is a small disk; ends with its standard input.
    namespace: Option<Child>,
}

impl Data {
    pub fn new() -> Data {
        Data { dir: tempfile::tempdir().unwrap(), namespace: None }
    }

    /// A folder on a disk of its own, in memory, that holds so many MiB; or why there can be none here.
    pub fn on_small_disk(mib: usize) -> Result<Data, String> {
        let dir = tempfile::tempdir().unwrap();
        let script = "mount -t tmpfs -o size=$1m tmpfs \"$2\" && echo ready && read -r _";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh", &mib.to_string()]);
        command.arg(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("`unshare` cannot be run: {error}"))?;
        let mut said = [0; 6];
        if child.stdout.as_mut().unwrap().read_exact(&mut said).is_ok() {
            return Ok(Data { dir, namespace: Some(child) });
        }
        let output = child.wait_with_output().unwrap();
        Err(format!("only root may mount: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// The folder as this process sees it.
    pub fn path(&self) -> PathBuf {
        match &self.namespace {
            None => self.inside(),
            Some(child) => {
                let root = PathBuf::from(format!("/proc/{}/root", child.id()));
                root.join(self.inside().strip_prefix("/").unwrap())
            }
        }
    }

    /// The folder as the engine sees it.
    fn inside(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The engine, run by `wrapper` where there is one, where it sees the folder.
    fn command(&self, wrapper: &[&str]) -> Command {
        let mut words: Vec<String> = wrapper.iter().map(|word| word.to_string()).collect();
        if let Some(child) = &self.namespace {
            words.extend(["nsenter".to_string(), format!("--mount=/proc/{}/ns/mnt", child.id())]);
        }
        words.push(env!("CARGO_BIN_EXE_farol").to_string());
        let mut command = Command::new(&words[0]);
        clean(command.args(&words[1..]));
        command
    }

    /// Writes settings into the data folder, as an operator would before the first run.
    pub fn configure(&self, toml: &str) {
        std::fs::create_dir_all(self.path()).unwrap();
        std::fs::write(self.path().join("farol.toml"), toml).unwrap();
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(&[]);
        command.args(arguments).arg("--data").arg(self.inside());
        command.output().unwrap()
    }

    /// Runs a command that must succeed; its standard output.
    #[track_caller]
    pub fn run_well(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "farol {arguments:?} failed\n{out}\n{err}");
        out.into_owned()
    }
}

impl Data {
    /// Runs a command that must succeed and takes no data folder; its standard output.
    #[track_caller]
    pub fn run_well_alone(&self, arguments: &[&str]) -> String {
        let output = self.command(&[]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(child) = &mut self.namespace {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

pub fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farol"));
    clean(&mut command);
    command
}

fn clean(command: &mut Command) {
    command.stdin(Stdio::null()).env_remove("FAROL_LOG").env_remove("FAROL_DATA");
}

/// A Farol that runs; killed when dropped.
pub struct Farol {
    child: Child,
    data: PathBuf,
}

impl Farol {
    /// Starts a command that stays, such as `up`.
    pub fn start(data: &Data, command: &str, arguments: &[String]) -> Farol {
        Farol::start_under(&[], data, command, arguments)
    }

    /// Starts a command that stays, by way of a program that becomes it, such as `prlimit`.
    pub fn start_under(wrapper: &[&str], data: &Data, command: &str, arguments: &[String]) -> Farol {
        // An address of an earlier run must not be taken for this one's.
        let _ = std::fs::remove_file(data.path().join("running.json"));
        let mut process = data.command(wrapper);
        process.arg(command).args(arguments).arg("--data").arg(data.inside());
        if command != "crawl" {
            process.args(["--listen", "127.0.0.1:0"]);
        }
        let child = process.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        Farol { child, data: data.path() }
    }

    /// Processor time that it has taken so far.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // Behind the name, in brackets, come the state and ten numbers, then user and system time in hundredths of a second.
        let numbers: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        Duration::from_millis(10 * (numbers[10] + numbers[11]))
    }

    pub fn up(data: &Data, web: &Web, more: &[&str]) -> Farol {
        let mut arguments = web.flags();
        arguments.push(web.seed());
        arguments.extend(more.iter().map(|text| text.to_string()));
        Farol::start(data, "up", &arguments)
    }

    /// Where it listens, once it does.
    pub fn address(&mut self) -> SocketAddr {
        let path = self.data.join("running.json");
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let json: Option<Value> = serde_json::from_str(&text).ok();
            if let Some(address) = json.and_then(|json| json["listen"].as_str()?.parse().ok()) {
                return address;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("farol ended with {status}: {}", self.errors());
            }
            assert!(begun.elapsed() < PATIENCE, "farol does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn get(&mut self, path: &str) -> Reply {
        let address = self.address();
        get(address, path, &[&self.bearer()])
    }

    /// The operator's key, drawn by the engine.
    pub fn key(&self) -> String {
        std::fs::read_to_string(self.data.join("admin.key")).unwrap_or_default().trim().to_string()
    }

    /// The header that opens what is the operator's.
    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}", self.key())
    }

    /// A request that changes something, by the operator.
    pub fn order(&mut self, path: &str, body: &Value) -> Reply {
        let headers = ["Content-Type: application/json", &self.bearer()];
        request(self.address(), &format!("POST /api/v1/admin/{path} HTTP/1.0"), &headers, &body.to_string())
    }

    #[track_caller]
    pub fn json(&mut self, path: &str) -> Value {
        let reply = self.get(path);
        serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{path}: {error}: {}", reply.body))
    }

    /// Waits until the crawl has nothing left to do and everything fetched can be found.
    pub fn wait_until_idle(&mut self) -> Value {
        self.wait_for("the crawl to be done", |status| {
            status["state"] == "idle"
                && status["crawl"]["queue"] == 0
                && status["crawl"]["pages_fetched"].as_u64() > Some(0)
        });
        // The last commit comes within its interval, on a busy machine a little later: nothing more comes when
        // nothing came for three seconds.
        let mut last = self.json("/api/v1/status");
        let begun = Instant::now();
        loop {
            std::thread::sleep(Duration::from_secs(3));
            let status = self.json("/api/v1/status");
            let some = status["index"]["documents"] != 0 || begun.elapsed() > PATIENCE / 4;
            if some && status["index"]["documents"] == last["index"]["documents"] {
                return status;
            }
            last = status;
        }
    }

    #[track_caller]
    pub fn wait_for(&mut self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.json("/api/v1/status");
            if holds(&status) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}: {status:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ctrl-C; waits for the end.
    #[track_caller]
    pub fn interrupt(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "Ctrl-C does not end it");
            std::thread::sleep(Duration::from_millis(10));
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "ended with {status}: {}", self.errors());
    }

    /// SIGTERM; waits for the end, and answers whether it ended well, and what it said.
    #[track_caller]
    pub fn terminate(mut self) -> (bool, String) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.wait_for_end()
    }

    /// Waits until it ends by itself, well or not; what it said.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> (bool, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        (status.success(), self.errors())
    }

    /// Ports at which its process listens, of TCP in both families.
    pub fn listening_ports(&self) -> Vec<u16> {
        let own = PathBuf::from(format!("/proc/{}", self.child.id()));
        let sockets: Vec<String> = std::fs::read_dir(own.join("fd"))
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .filter_map(|link| {
                Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_string())
            })
            .collect();
        let mut ports = Vec::new();
        for family in ["tcp", "tcp6"] {
            let table = std::fs::read_to_string(own.join("net").join(family)).unwrap_or_default();
            for row in table.lines().skip(1) {
                let cells: Vec<&str> = row.split_whitespace().collect();
                let (local, state, socket) = (cells[1], cells[3], cells[9]);
                if state == "0A" && sockets.iter().any(|own| own == socket) {
                    let (_, port) = local.rsplit_once(':').unwrap();
                    ports.push(u16::from_str_radix(port, 16).unwrap());
                }
            }
        }
        ports
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub fn finish(mut self) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "ended with {status}: {}", self.errors());
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    }
}

impl Drop for Farol {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer over HTTP.
pub struct Reply {
    pub status: u16,
    pub body: String,
}

/// A plain request; `headers` are whole lines.
pub fn get(address: SocketAddr, path: &str, headers: &[&str]) -> Reply {
    request(address, &format!("GET {path} HTTP/1.0"), headers, "")
}

pub fn request(address: SocketAddr, line: &str, headers: &[&str], body: &str) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let own_host = format!("Host: {address}");
    let host =
        headers.iter().find(|header| header.starts_with("Host: ")).unwrap_or(&own_host.as_str()).to_string();
    let others = headers.iter().filter(|header| !header.starts_with("Host: "));
    let headers: String = others.map(|header| format!("{header}\r\n")).collect();
    write!(stream, "{line}\r\n{host}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Reply { status, body: body.to_string() }
}

/// Files below a folder with this ending.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    files
}

/// The folder of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
