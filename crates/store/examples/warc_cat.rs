//! Lists the records of WARC files, or writes a sample archive for other readers to check.
//!
//! ```text
//! warc_cat FILE…            one line per record and complaint, and a sum per file
//! warc_cat --quiet FILE…    only the sums
//! warc_cat --write N DIR    an archive of N sample exchanges in DIR
//! ```

use farol_base::Truncated;
use farol_base::disk::{Disk, File};
use farol_base::{CanonicalUrl, Random, Seeded, Timestamp};
use farol_store::pages::warc::{Kind, Records, to_exchange};
use farol_store::pages::{Archive, ArchiveOptions, Encoder, Exchange, RevisitOf};
use std::error::Error;
use std::io::{BufReader, Write};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<&str>>()[..] {
        ["--write", count, folder] => write(count.parse()?, folder),
        ["--quiet", ref files @ ..] => files.iter().try_for_each(|file| list(file, true)),
        [] | ["-h" | "--help"] => {
            println!("usage: warc_cat [--quiet] FILE… | warc_cat --write N DIR");
            Ok(())
        }
        ref files => files.iter().try_for_each(|file| list(file, false)),
    }
}

fn list(file: &str, quiet: bool) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let (mut records, mut pages, mut bytes, mut complaints) = (0, 0, 0, 0);
    for record in Records::new(BufReader::with_capacity(1 << 18, std::fs::File::open(file)?)) {
        let record = match record {
            Ok(record) => record,
            Err(complaint) => {
                complaints += 1;
                writeln!(out, "{file}: {complaint}")?;
                continue;
            }
        };
        records += 1;
        let (kind, length) = (record.kind, record.block.len());
        let uri = record.target_uri().unwrap_or("-").to_string();
        let exchange = match to_exchange(record) {
            Ok(exchange) => exchange,
            Err(complaint) => {
                complaints += 1;
                writeln!(out, "{file}: {complaint}")?;
                continue;
            }
        };
        if let Some(exchange) = &exchange {
            pages += 1;
            bytes += exchange.body.len();
        }
        if !quiet {
            write!(out, "{:<12} {length:>9} {uri}", format!("{kind:?}").to_lowercase())?;
            match exchange {
                Some(exchange) => {
                    writeln!(out, "  {} {} bytes decoded", exchange.status, exchange.body.len())?
                }
                None if kind == Kind::Response => writeln!(out, "  (no page)")?,
                None => writeln!(out)?,
            }
        }
    }
    writeln!(
        out,
        "{file}: {records} records, {pages} pages, {bytes} bytes of pages, {complaints} complaints"
    )?;
    Ok(())
}

fn write(count: u64, folder: &str) -> Result<(), Box<dyn Error>> {
    let disk: Arc<dyn Disk> = Arc::new(File::at(folder)?);
    let options = ArchiveOptions { operator: "example".to_string(), ..ArchiveOptions::default() };
    let (mut archive, _) = Archive::open(disk, options)?;
    let mut ids = Seeded::new(std::process::id().into());
    let mut encoder = Encoder::new(Encoder::LEVEL);
    for first in (0..count).step_by(100) {
        let mut batch = Vec::new();
        for number in first..count.min(first + 100) {
            batch.push(encoder.encode(&sample(number)?, &mut ids));
        }
        archive.append(&batch)?;
    }
    archive.sync()?;
    println!("{} exchanges, {} bytes", count, archive.bytes());
    Ok(())
}

/// Pages, pages that were cut, pages without a request, and revisits of both kinds.
fn sample(number: u64) -> Result<Exchange, Box<dyn Error>> {
    let mut random = Seeded::new(number);
    let words = ["lamp", "tower", "sea", "night", "ship", "rock", "keeper", "light"];
    let body: String =
        (0..random.below(4000)).map(|_| words[random.below(8) as usize]).collect::<Vec<_>>().join(" ");
    let status = if number % 10 == 7 { 304 } else { 200 };
    let body = if status == 304 { String::new() } else { format!("<title>{number}</title><p>{body}</p>") };
    let fetched = Timestamp::from_millis(1_700_000_000_000 + number * 37);
    let revisit = matches!(number % 10, 7 | 8);
    Ok(Exchange {
        url: CanonicalUrl::parse(&format!("https://host{}.example/page/{number}", number % 13))?,
        fetched,
        address: Some(if number.is_multiple_of(2) { "192.0.2.10".parse()? } else { "2001:db8::a".parse()? }),
        status,
        request_head: if number % 10 == 3 {
            Vec::new()
        } else {
            format!("GET /page/{number} HTTP/1.1\r\nHost: host{}.example\r\n\r\n", number % 13).into_bytes()
        },
        response_head: format!(
            "HTTP/1.1 {status} OK\r\nContent-Type: text/html\r\nX-Archive-Orig-Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes(),
        truncated: (number % 10 == 5).then_some(Truncated::Length),
        body: body.into(),
        protocol: if number.is_multiple_of(2) { "h2" } else { "http/1.1" }.to_string(),
        revisit_of: revisit.then_some(RevisitOf { fetched, digest: None }),
        metadata: vec![("via".to_string(), "https://host0.example/".to_string()), ("fetchTimeMs".to_string(), "31".to_string())],
    })
}
