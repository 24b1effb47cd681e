//! Reads HTML files and prints what was found in them, one line of JSON each.
//!
//! ```text
//! extract [--links] [--charset] [--time N] [--type TYPE] FILE…
//! ```
//!
//! `--links` prints the links too; `--charset` reads every file as HTML or XML and prints only the charset;
//! `--time N` reads all files N times and prints megabytes per second of processor time instead, with and
//! without text.

use farol_base::CanonicalUrl;
use farol_parse::{PageInput, Parsed, Wants, charset, page};
use std::sync::OnceLock;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (mut links, mut charset_only, mut rounds, mut content_type) =
        (false, false, 0, "text/html".to_string());
    let mut files = Vec::new();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--links" => links = true,
            "--charset" => charset_only = true,
            "--time" => rounds = args.next().ok_or("--time needs a number")?.parse()?,
            "--type" => content_type = args.next().ok_or("--type needs a media type")?,
            _ => files.push(arg),
        }
    }
    let url = CanonicalUrl::parse("http://example.org/dir/page.html")?;
    let bodies: Vec<Vec<u8>> = files.iter().map(std::fs::read).collect::<Result<_, _>>()?;
    let read = |body: &[u8], wants: Wants| {
        let content_type = Some(content_type.as_str());
        page(&PageInput { url: &url, content_type, body, robots_tags: &[], agent: "farol", wants })
    };
    if rounds > 0 {
        let bytes: usize = bodies.iter().map(Vec::len).sum();
        for wants in [Wants::LinksOnly, Wants::Everything] {
            let start = processor_seconds();
            let mut found = 0;
            for body in (0..rounds).flat_map(|_| &bodies) {
                found += read(body, wants).links.len();
            }
            let seconds = processor_seconds() - start;
            let pages = (rounds * bodies.len()) as f64;
            let megabytes = (rounds * bytes) as f64 / 1e6;
            println!(
                "{wants:?}: {:.0} MB/s, {:.0} pages/s, {:.0} links and {:.0} bytes per page",
                megabytes / seconds,
                pages / seconds,
                found as f64 / pages,
                bytes as f64 / bodies.len() as f64,
            );
        }
        return Ok(());
    }
    for (file, body) in files.iter().zip(&bodies) {
        if charset_only {
            println!(
                "{{\"file\":{},\"charset\":{}}}",
                json(file),
                json(charset::find(None, body, None).name())
            );
        } else {
            println!("{}", line(file, &read(body, Wants::Everything), links));
        }
    }
    Ok(())
}

/// Time spent on the processor where Linux tells it, so that a busy machine does not count; else time.
fn processor_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanos =
        told.as_deref().and_then(|text| text.split(' ').next()).and_then(|nanos| nanos.parse::<f64>().ok());
    nanos.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn line(file: &str, parsed: &Parsed, links: bool) -> String {
    let language = parsed.language.map_or("null".to_string(), |language| json(language.code()));
    let dated = parsed.dated.map_or("null".to_string(), |dated| json(&dated.to_string()));
    let mut line = format!(
        "{{\"file\":{},\"charset\":{},\"title\":{},\"headings\":{},\"text\":{},\"rest\":{},\"description\":{},\"language\":{language},\"dated\":{dated}",
        json(file),
        json(parsed.charset),
        json(&parsed.title),
        json(&parsed.headings),
        json(&parsed.body),
        json(&parsed.rest),
        json(&parsed.description),
    );
    if links {
        let all: Vec<String> = parsed
            .links
            .iter()
            .map(|link| format!("[{},{}]", json(link.url.as_str()), json(&link.anchor)))
            .collect();
        line.push_str(&format!(",\"links\":[{}]", all.join(",")));
    }
    line.push('}');
    line
}

/// Writes a text as a JSON string.
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
