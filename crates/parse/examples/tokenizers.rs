//! Holds our scanner against html5ever's tokenizer on pages given by hand: same links, and how fast.
//!
//! ```text
//! tokenizers [--rounds N] FILE…
//! ```
//!
//! The links of `a`, `area`, `iframe` and `frame` are compared. Files are read as HTML in UTF-8, others
//! are skipped. Pages whose links differ are named; speeds are per second of one thread.

use farol_base::CanonicalUrl;
use farol_parse::{PageInput, Wants, page};
use html5ever::buffer_queue::BufferQueue;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::{Rawtext, Rcdata, ScriptData};
use html5ever::tokenizer::{Tag, TagKind, TagToken, Token, TokenSink, TokenSinkResult, Tokenizer};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).peekable();
    let mut rounds = 1;
    if args.next_if(|arg| arg == "--rounds").is_some() {
        rounds = args.next().ok_or("--rounds needs a number")?.parse()?;
    }
    let url = CanonicalUrl::parse("http://example.org/dir/page.html")?;
    let (mut pages, mut different, mut links, mut bytes) = (0, 0, 0, 0);
    let (mut our_time, mut their_time) = (Duration::ZERO, Duration::ZERO);
    for file in args {
        let Ok(text) = String::from_utf8(std::fs::read(&file)?) else { continue };
        let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..rounds {
            let start = Instant::now();
            ours = our_links(&url, &text);
            our_time += start.elapsed();
            let start = Instant::now();
            theirs = their_links(&url, &text);
            their_time += start.elapsed();
        }
        // `<link>` is ours alone.
        if !ours.is_superset(&theirs) || theirs.len() < ours.len() && !text.contains("<link") {
            different += 1;
            println!("{file}: {:?}", ours.symmetric_difference(&theirs).take(3).collect::<Vec<_>>());
        }
        pages += 1;
        links += theirs.len();
        bytes += text.len() * rounds;
    }
    let speed = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    println!("{pages} pages, {links} links, {different} pages differ");
    println!("ours {:.0} MB/s, html5ever's tokenizer {:.0} MB/s", speed(our_time), speed(their_time));
    Ok(())
}

fn our_links(url: &CanonicalUrl, text: &str) -> BTreeSet<String> {
    let content_type = Some("text/html; charset=utf-8");
    let body = text.as_bytes();
    let parsed = page(&PageInput {
        url,
        content_type,
        body,
        robots_tags: &[],
        agent: "farol",
        wants: Wants::LinksOnly,
    });
    parsed.links.into_iter().map(|link| link.url.to_string()).collect()
}

#[derive(Default)]
struct Hrefs {
    found: RefCell<Vec<String>>,
    base: RefCell<Option<String>>,
}

impl Hrefs {
    fn start(&self, tag: &Tag) -> TokenSinkResult<()> {
        let attr =
            |name: &str| tag.attrs.iter().find(|a| &*a.name.local == name).map(|a| a.value.to_string());
        match &*tag.name {
            "a" | "area" => self.found.borrow_mut().extend(attr("href")),
            "iframe" | "frame" => self.found.borrow_mut().extend(attr("src")),
            "base" if self.base.borrow().is_none() => *self.base.borrow_mut() = attr("href"),
            _ => {}
        }
        match &*tag.name {
            "script" => TokenSinkResult::RawData(ScriptData),
            "title" | "textarea" => TokenSinkResult::RawData(Rcdata),
            "style" | "xmp" | "iframe" | "noembed" | "noframes" => TokenSinkResult::RawData(Rawtext),
            "plaintext" => TokenSinkResult::Plaintext,
            _ => TokenSinkResult::Continue,
        }
    }
}

impl TokenSink for Hrefs {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            TagToken(tag) if tag.kind == TagKind::StartTag => self.start(&tag),
            _ => TokenSinkResult::Continue,
        }
    }
}

fn their_links(url: &CanonicalUrl, text: &str) -> BTreeSet<String> {
    let tokenizer = Tokenizer::new(Hrefs::default(), Default::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from_slice(text));
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    let mut base = url.to_base();
    if let Some(href) = tokenizer.sink.base.into_inner() {
        base.rebase(href.trim());
    }
    let found = tokenizer.sink.found.into_inner();
    // References within the page are not followed, whatever the base says.
    let trimmed = found.iter().map(|href| href.trim_matches(|c: char| c <= ' '));
    let leading = trimmed.filter(|href| !href.is_empty() && !href.starts_with('#'));
    leading
        .filter_map(|href| base.join(href).ok())
        .filter(|found| found != url)
        .map(|u| u.to_string())
        .collect()
}
