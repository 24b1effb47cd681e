//! Measures what a fetch costs the client: many hosts on loopback, one thread that fetches, one that serves.
//!
//! `cargo run --release -p farol-fetch --example load -- --hosts 1000 --requests 100000 --bytes 20000`
//!
//! `--close` makes the server close after each answer, so that every fetch opens a connection. Prints requests
//! per second and per CPU-second of the fetching thread (Linux only: read from `/proc`).

use bytes::Bytes;
use farol_base::CanonicalUrl;
use farol_fetch::{FetchConfig, Fetcher, Request};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

struct Options {
    hosts: usize,
    requests: usize,
    bytes: usize,
    concurrent: usize,
    close: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options { hosts: 1000, requests: 50_000, bytes: 20_000, concurrent: 100, close: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut number =
            || arguments.next().and_then(|text| text.parse().ok()).ok_or(format!("{name} needs a number"));
        match name.as_str() {
            "--hosts" => options.hosts = number()?,
            "--requests" => options.requests = number()?,
            "--bytes" => options.bytes = number()?,
            "--concurrent" => options.concurrent = number()?,
            "--close" => options.close = true,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    let port = serve(options.bytes, options.close)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tokio::task::LocalSet::new().run_until(fetch_all(options, port)))
}

/// Starts a server on a thread of its own and tells its port.
fn serve(bytes: usize, close: bool) -> std::io::Result<u16> {
    let page = Bytes::from("lorem ipsum ".repeat(bytes / 12 + 1)).slice(..bytes);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener)?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let page = page.clone();
                let service = service_fn(move |_| {
                    let page = page.clone();
                    async move {
                        let answer = hyper::Response::builder()
                            .header("content-type", "text/html; charset=utf-8")
                            .header("server", "load")
                            .header("last-modified", "Mon, 06 May 2024 07:08:09 GMT")
                            .header("etag", "\"663880d9-4e20\"")
                            .body(Full::new(page));
                        answer.or(Ok::<_, Infallible>(hyper::Response::default()))
                    }
                });
                tokio::spawn(async move {
                    let mut http = hyper::server::conn::http1::Builder::new();
                    let _ = http.keep_alive(!close).serve_connection(TokioIo::new(stream), service).await;
                });
            }
            #[allow(unreachable_code)]
            Ok::<(), std::io::Error>(())
        })
    });
    Ok(port)
}

async fn fetch_all(options: Options, port: u16) -> Result<(), Box<dyn std::error::Error>> {
    let config = FetchConfig {
        overrides: vec![format!("*.test=127.0.0.1:{port}").parse()?],
        idle_connections_max: options.hosts,
        ..FetchConfig::default()
    };
    let fetcher = Fetcher::new(config)?;
    let (next, bytes, kept) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (start, cpu_start) = (Instant::now(), cpu_time());
    let mut tasks = Vec::new();
    for _ in 0..options.concurrent {
        let (fetcher, next, bytes, kept) = (fetcher.clone(), next.clone(), bytes.clone(), kept.clone());
        tasks.push(tokio::task::spawn_local(async move {
            while next.get() < options.requests {
                let i = next.replace(next.get() + 1);
                let text = format!("http://site{}.test/page/{i}.html", i % options.hosts);
                let url = CanonicalUrl::parse(&text).map_err(|error| error.to_string())?;
                let response = fetcher.get(Request::new(url)).await.map_err(|error| error.to_string())?;
                bytes.set(bytes.get() + response.body.len());
                kept.set(kept.get() + usize::from(response.connect.is_none()));
            }
            Ok::<(), String>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu_start));
    let per = |time: Duration| options.requests as f64 / time.as_secs_f64();
    println!("requests     {:>12}  ({} on kept connections)", options.requests, kept.get());
    println!("bytes        {:>12}", bytes.get());
    println!("per second   {:>12.0}", per(wall));
    println!("per CPU-s    {:>12.0}  ({:.1} µs of the fetching thread each)", per(cpu), 1e6 / per(cpu));
    Ok(())
}

/// Time that this thread has run.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}
