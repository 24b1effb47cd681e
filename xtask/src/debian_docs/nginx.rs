//! Serves the packages by nginx: one host per package, the same pages on two ports.
//!
//! Farol asks on one port and the walker on the other, so that each has a log of its own. The log holds the
//! time at which an answer was *finished* and how long it took, both in milliseconds.

use super::packages::Site;
use crate::run;
use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running nginx; dropping it ends it.
pub struct Server {
    dir: PathBuf,
    child: Child,
    /// Where Farol asks.
    pub crawl_port: u16,
    /// Where the walker asks.
    pub walk_port: u16,
}

impl Server {
    pub fn start(dir: &Path, sites: &[Site]) -> Result<Server, String> {
        if !run::exists("nginx") {
            return Err("nginx is missing; `cargo xtask install` brings it".to_string());
        }
        let (crawl_port, walk_port) = two_free_ports(sites)?;
        for folder in ["nginx", "robots"] {
            std::fs::create_dir_all(dir.join(folder))
                .map_err(|error| format!("cannot make {folder}: {error}"))?;
        }
        for name in ["crawl.log", "walk.log", "error.log"] {
            let _ = std::fs::remove_file(dir.join("nginx").join(name));
        }
        for site in sites.iter().filter(|site| !site.robots.text.is_empty()) {
            let file = dir.join("robots").join(site.label);
            std::fs::write(&file, site.robots.text)
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        }
        let file = dir.join("nginx/nginx.conf");
        std::fs::write(&file, config(dir, sites, crawl_port, walk_port))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let child = Command::new("nginx")
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .args(["-p", &dir.join("nginx").to_string_lossy(), "-c", &file.to_string_lossy()])
            .args(["-e", &dir.join("nginx/error.log").to_string_lossy()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run nginx: {error}"))?;
        let mut server = Server { dir: dir.to_path_buf(), child, crawl_port, walk_port };
        server.wait(&sites[0])?;
        Ok(server)
    }

    /// What Farol asked.
    pub fn crawl_log(&self) -> PathBuf {
        self.dir.join("nginx/crawl.log")
    }

    fn wait(&mut self, site: &Site) -> Result<(), String> {
        let begun = Instant::now();
        let address = format!("{}:{}", site.address(), self.walk_port);
        while TcpStream::connect(&address).is_err() {
            let ended = self.child.try_wait().ok().flatten().is_some();
            if ended || begun.elapsed() > Duration::from_secs(20) {
                let log = std::fs::read_to_string(self.dir.join("nginx/error.log")).unwrap_or_default();
                return Err(format!("nginx does not serve:\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asked for both at once, so that they differ.
fn two_free_ports(sites: &[Site]) -> Result<(u16, u16), String> {
    let address = sites[0].address();
    let listen = || {
        TcpListener::bind((address.as_str(), 0)).and_then(|socket| {
            let port = socket.local_addr()?.port();
            Ok((socket, port))
        })
    };
    let pair = || -> std::io::Result<(u16, u16)> {
        let (first, second) = (listen()?, listen()?);
        Ok((first.1, second.1))
    };
    pair().map_err(|error| format!("cannot listen on {address}: {error}"))
}

fn config(dir: &Path, sites: &[Site], crawl_port: u16, walk_port: u16) -> String {
    let dir = dir.display();
    let mut text = format!(
        r#"daemon off;
master_process off;
pid {dir}/nginx/nginx.pid;
error_log {dir}/nginx/error.log warn;
events {{ worker_connections 1024; }}
http {{
    types {{
        text/html html htm;
        text/css css;
        text/plain txt;
        text/xml xml;
        application/javascript js;
        application/json json;
        application/pdf pdf;
        application/gzip gz;
        image/png png;
        image/gif gif;
        image/jpeg jpg jpeg;
        image/svg+xml svg;
    }}
    default_type text/plain;
    client_body_temp_path {dir}/nginx/body;
    proxy_temp_path {dir}/nginx/proxy;
    fastcgi_temp_path {dir}/nginx/fastcgi;
    uwsgi_temp_path {dir}/nginx/uwsgi;
    scgi_temp_path {dir}/nginx/scgi;
    sendfile on;
    gzip on;
    gzip_comp_level 1;
    absolute_redirect off;
    map $server_port $by_farol {{ default 0; {crawl_port} 1; }}
    map $server_port $by_walker {{ default 0; {walk_port} 1; }}
    log_format fields '$msec\t$request_time\t$server_addr\t$server_name\t$status\t$request_method\t$sent_http_content_type\t$request_uri\t$http_user_agent';
    access_log {dir}/nginx/crawl.log fields if=$by_farol;
    access_log {dir}/nginx/walk.log fields if=$by_walker;
"#
    );
    for site in sites {
        let address = site.address();
        let _ = write!(
            text,
            "    server {{\n        listen {address}:{crawl_port};\n        listen {address}:{walk_port};\n        \
             server_name {};\n        root {};\n        index {};\n",
            site.host(),
            site.folder(Path::new(&dir.to_string())).display(),
            site.index
        );
        if let Some(folder) = site.listing {
            let _ = writeln!(text, "        location {folder} {{ autoindex on; }}");
        }
        if !site.robots.text.is_empty() {
            let _ = writeln!(
                text,
                "        location = /robots.txt {{ default_type text/plain; alias {dir}/robots/{}; }}",
                site.label
            );
        }
        text.push_str("    }\n");
    }
    text.push_str("}\n");
    text
}
