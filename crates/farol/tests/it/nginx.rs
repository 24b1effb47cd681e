//! A real server that nobody here wrote: nginx with pages on disk, judged by nginx's own log.

use crate::fixture::{Data, Farol};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Nginx {
    child: Child,
    dir: tempfile::TempDir,
    port: u16,
}

impl Nginx {
    /// Serves a folder per host name; each host has an address of its own.
    fn start(hosts: &[(&str, &[(&str, &str)])]) -> Nginx {
        let dir = tempfile::tempdir().unwrap();
        let port = free_port();
        let root = dir.path().display().to_string();
        let mut servers = String::new();
        for (i, (name, pages)) in hosts.iter().enumerate() {
            for (path, content) in *pages {
                let file = dir.path().join(name).join(path.trim_start_matches('/'));
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, content).unwrap();
            }
            servers.push_str(&format!(
                "server {{ listen 127.0.9.{}:{port}; server_name {name}; root {root}/{name}; gzip on; \
                 location /old {{ return 301 /new.html; }} location /away {{ return 302 http://127.0.0.1:1/; }} }}\n",
                i + 1
            ));
        }
        Nginx::run(dir, port, &servers)
    }

    /// Serves a folder per host name that is there already.
    pub fn serving(root: &tempfile::TempDir, hosts: &[&str]) -> Nginx {
        let port = free_port();
        let server = |(i, name): (usize, &&str)| {
            let root = root.path().display();
            format!("server {{ listen 127.0.9.{}:{port}; server_name {name}; root {root}/{name}; }}\n", i + 1)
        };
        let servers: String = hosts.iter().enumerate().map(server).collect();
        Nginx::run(tempfile::tempdir().unwrap(), port, &servers)
    }

    /// Passes everything on to another server, as plainly as it can be written.
    pub fn proxy(to: std::net::SocketAddr, more: &str) -> Nginx {
        let port = free_port();
        let servers = format!(
            "server {{ listen 127.0.9.1:{port}; location / {{ {more} proxy_pass http://{to}; }} }}\n"
        );
        Nginx::run(tempfile::tempdir().unwrap(), port, &servers)
    }

    fn run(dir: tempfile::TempDir, port: u16, servers: &str) -> Nginx {
        let root = dir.path().display();
        let text = format!(
            "daemon off; master_process off; worker_processes 1; pid {root}/pid; error_log {root}/error.log;\n\
             events {{ worker_connections 64; }}\n\
             http {{ types {{ text/html html; text/plain txt; application/xml xml; }}\n\
             log_format full '$msec $request_time $server_name $status $request_uri $http_user_agent'; access_log {root}/access.log full;\n\
             client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3; \
             uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;\n{servers} }}"
        );
        std::fs::write(dir.path().join("nginx.conf"), text).unwrap();
        let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
        let child = Command::new(program)
            .arg("-c")
            .arg(dir.path().join("nginx.conf"))
            .arg("-p")
            .arg(dir.path())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx starts; `cargo xtask test` installs it");
        let nginx = Nginx { child, dir, port };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.9.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(10), "nginx does not listen: {}", nginx.errors());
            std::thread::sleep(Duration::from_millis(20));
        }
        nginx
    }

    /// Where the first of its servers listens.
    pub fn address(&self) -> String {
        format!("127.0.9.1:{}", self.port)
    }

    pub fn flags(&self, hosts: &[&str]) -> Vec<String> {
        let map = |(i, name): (usize, &&str)| {
            ["--resolve".to_string(), format!("{name}=127.0.9.{}:{}", i + 1, self.port)]
        };
        hosts.iter().enumerate().flat_map(map).collect()
    }

    /// Time, duration, host, status and path of each request.
    fn log(&self) -> Vec<(f64, f64, String, u16, String)> {
        let text = std::fs::read_to_string(self.dir.path().join("access.log")).unwrap_or_default();
        let line = |line: &str| {
            let mut parts = line.split(' ');
            let mut next = || parts.next().unwrap_or_default().to_string();
            (next().parse().unwrap(), next().parse().unwrap(), next(), next().parse().unwrap(), next())
        };
        text.lines().map(line).collect()
    }

    /// Who asked which host, each request in its order.
    pub fn agents(&self) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(self.dir.path().join("access.log")).unwrap_or_default();
        let line = |line: &str| {
            let parts: Vec<&str> = line.split(' ').collect();
            (parts.get(5).unwrap_or(&"").to_string(), parts.get(2).unwrap_or(&"").to_string())
        };
        text.lines().map(line).collect()
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("error.log")).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn two_sites_behind_nginx_are_crawled_by_the_rules() {
    let alpha: &[(&str, &str)] = &[
        (
            "/index.html",
            "<title>Farol do norte</title><h1>O farol</h1><p>A luz guia os navios pela costa.</p><a href=/new.html>novo</a> <a href=/old>velho</a> <a href=/away>fora</a> <a href=/secret/x.html>segredo</a> <a href='http://beta.test/'>beta</a>",
        ),
        (
            "/new.html",
            "<title>Nova página</title><p>Tempestade e maré alta.</p><a href='missing.html'>nada</a>",
        ),
        ("/secret/x.html", "<title>Segredo</title><p>Ninguém deve ver.</p>"),
        ("/only-in-sitemap.html", "<title>Ilha</title><p>Uma ilha sem ligações.</p>"),
        (
            "/robots.txt",
            "User-agent: *\nDisallow: /secret/\nCrawl-delay: 0.3\nSitemap: http://alpha.test/sitemap.xml\n",
        ),
        (
            "/sitemap.xml",
            "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>http://alpha.test/only-in-sitemap.html</loc></url></urlset>",
        ),
    ];
    let beta: &[(&str, &str)] =
        &[("/index.html", "<title>The lighthouse</title><p>Ships at sea look for its light.</p>")];
    let nginx = Nginx::start(&[("alpha.test", alpha), ("beta.test", beta)]);
    let data = Data::new();
    let mut arguments = nginx.flags(&["alpha.test", "beta.test"]);
    arguments.extend(["http://alpha.test/", "http://beta.test/", "--delay", "100ms"].map(String::from));
    let mut farol = Farol::start(&data, "up", &arguments);
    farol.wait_until_idle();

    let hits = farol.json("/api/v1/search?q=navios");
    assert_eq!(hits["hits"][0]["url"], "http://alpha.test/", "{hits:#}");
    assert_eq!(farol.json("/api/v1/search?q=ninguem")["total"], 0, "robots.txt forbids it");
    assert_eq!(farol.json("/api/v1/search?q=ilha")["total"], 1, "the sitemap names it");
    farol.interrupt();

    let log = nginx.log();
    let asked: BTreeSet<(&str, &str)> =
        log.iter().map(|(_, _, host, _, path)| (host.as_str(), path.as_str())).collect();
    let want = [
        ("alpha.test", "/"),
        ("alpha.test", "/missing.html"),
        ("alpha.test", "/new.html"),
        ("alpha.test", "/old"),
        ("alpha.test", "/away"),
        ("alpha.test", "/only-in-sitemap.html"),
        ("alpha.test", "/robots.txt"),
        ("alpha.test", "/sitemap.xml"),
        ("beta.test", "/"),
        ("beta.test", "/robots.txt"),
    ];
    assert_eq!(asked, BTreeSet::from(want));
    assert_eq!(log.len(), want.len(), "nothing was asked for twice");
    // nginx logs the end of a request; the next one starts when it is logged minus the time it took.
    let alpha: Vec<_> = log.iter().filter(|entry| entry.2 == "alpha.test").collect();
    for pair in alpha.windows(2) {
        let pause = (pair[1].0 - pair[1].1) - pair[0].0;
        assert!(pause >= 0.295, "only {pause:.3} s between {} and {}", pair[0].4, pair[1].4);
    }
}

#[test]
fn a_proxy_opens_the_dashboard_to_nobody_and_locks_nobody_out() {
    let data = Data::new();
    data.configure("[identity]\npublic_url = 'https://search.example.org'\n");
    let web = crate::fixture::Web::start(farol_synthetic::WebConfig {
        hosts: 1,
        pages: 3,
        ..farol_synthetic::WebConfig::tame()
    });
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    let address = farol.address();
    let key = farol.bearer();
    let ask = |nginx: &Nginx, path: &str, headers: &[&str]| {
        crate::fixture::get(std::net::SocketAddr::from(([127, 0, 9, 1], nginx.port)), path, headers).status
    };
    let plain = Nginx::proxy(address, "");
    let named =
        Nginx::proxy(address, "proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;");
    for (nginx, host) in [(&plain, "127.0.0.1"), (&named, "search.example.org")] {
        let host = format!("Host: {host}");
        for path in ["/admin", "/admin/hosts", "/api/v1/status", "/api/v1/hosts", "/metrics"] {
            assert_eq!(ask(nginx, path, &[&host]), 401, "{path} with {host}");
            assert_eq!(ask(nginx, path, &[&host, &key]), 200, "{path} with {host} and the key");
        }
        assert_eq!(ask(nginx, "/", &[&host]), 200);
        // Ten wrong tokens from everybody's one address do not lock the operator out.
        for _ in 0..12 {
            assert!(matches!(
                ask(nginx, "/api/v1/status", &[&host, "Authorization: Bearer guess"]),
                401 | 429
            ));
        }
        assert_eq!(ask(nginx, "/api/v1/status", &[&host, &key]), 200);
    }
    // A name that somebody pointed here reads nothing, not even the search page.
    assert_eq!(ask(&named, "/search?q=a", &["Host: evil.example.net"]), 421);
    farol.interrupt();
}
