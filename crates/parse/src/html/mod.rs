//! Walks over a decoded HTML page once and hands each tag and text to those who collect.
//!
//! The walk is the same whether text is wanted or not, so the links are the same too.

pub mod dates;
pub mod directives;
pub mod entities;
pub mod head;
pub mod links;
pub mod scanner;
pub mod tags;

use crate::fingerprint::WordsHash;
use crate::page::{Complaint, Wants};
use crate::text::{Layout, MainText};
use directives::Directives;
use farol_base::{CanonicalUrl, ContentHash, Link};
use head::{Head, is_nofollow};
use links::Links;
use scanner::{Scanner, Token};
use tags::{Shape, Tag};

/// What was read from an HTML page.
pub struct HtmlPage {
    pub head: Head,
    pub links: Vec<Link>,
    pub text: MainText,
    /// Of all words, where the main text was not wanted; `None` where there are none.
    pub words: Option<ContentHash>,
    pub complaints: Vec<Complaint>,
}

/// Reads a page. `directives` are those of its headers.
pub fn read(text: &str, url: &CanonicalUrl, agent: &str, wants: Wants, directives: Directives) -> HtmlPage {
    let mut scanner = Scanner::new(text);
    let mut links = Links::new(url);
    let mut head = Head::new(directives);
    let mut layout = (wants == Wants::Everything).then(|| Layout::new(text.len()));
    let mut words = WordsHash::default();
    let mut json_ld = false;
    while let Some(token) = scanner.next_token() {
        match token {
            Token::Text(raw) => {
                if links.wants_text() {
                    links.text(raw);
                }
                match &mut layout {
                    Some(layout) => layout.text(raw),
                    None => words.add(raw),
                }
            }
            Token::Start { tag, self_closing } => {
                start(tag, &scanner, &mut links, &mut head, agent);
                json_ld = tag == Tag::Script && is_json_ld(&scanner);
                if let Some(layout) = &mut layout {
                    layout.start(tag, self_closing, &scanner);
                }
            }
            Token::End(tag) => {
                match tag {
                    Tag::A | Tag::Td | Tag::Th | Tag::Caption => links.close(),
                    tag if tag.shape() == Shape::Block => links.space(),
                    _ => {}
                }
                if let Some(layout) = &mut layout {
                    layout.end(tag);
                }
            }
            Token::Raw(Tag::Title, raw) if !scanner.in_foreign() => head.title(raw),
            Token::Raw(Tag::Script, raw) if json_ld => head.dates.add_json_ld(raw),
            Token::Raw(Tag::Plaintext | Tag::Xmp, raw) => match &mut layout {
                Some(layout) => layout.text(raw),
                None => words.add(raw),
            },
            Token::Raw(..) => {}
        }
    }
    head.finish();
    let mut complaints = Vec::new();
    let (links, links_cut) = links.finish();
    complaints.extend(links_cut.then_some(Complaint::LinksCut));
    complaints.extend(scanner.unfinished().then_some(Complaint::Unfinished));
    let text = match layout {
        Some(layout) => {
            complaints.extend(layout.text_cut().then_some(Complaint::TextCut));
            complaints.extend(layout.too_deep().then_some(Complaint::DeepNesting));
            layout.finish()
        }
        None => MainText::default(),
    };
    HtmlPage { head, links, text, words: words.finish(), complaints }
}

/// What a start tag means for links and head.
fn start(tag: Tag, scanner: &Scanner<'_>, links: &mut Links<'_>, head: &mut Head, agent: &str) {
    match tag {
        Tag::A => {
            let nofollow = scanner.attr("rel").is_some_and(is_nofollow);
            links.open(scanner.attr("href"), nofollow);
        }
        Tag::Area => {
            if let Some(href) = scanner.attr("href") {
                let nofollow = scanner.attr("rel").is_some_and(is_nofollow);
                links.add_with_text(href, nofollow, scanner.attr("alt").unwrap_or(""));
            }
        }
        Tag::Iframe | Tag::Frame => {
            if let Some(src) = scanner.attr("src") {
                links.add(src, false);
            }
        }
        Tag::Img => links.image(scanner.attr("alt")),
        Tag::Base => {
            if let Some(href) = scanner.attr("href") {
                links.rebase(href);
            }
        }
        Tag::Link => head.link(scanner, links),
        Tag::Meta => head.meta(scanner, links, agent),
        Tag::Html => head.html(scanner),
        Tag::Time => head.time(scanner),
        Tag::Body => head.body_started = true,
        Tag::Td | Tag::Th | Tag::Caption => links.close(),
        Tag::Br => links.space(),
        tag if tag.shape() == Shape::Block => links.space(),
        _ => {}
    }
}

fn is_json_ld(scanner: &Scanner<'_>) -> bool {
    scanner.attr("type").is_some_and(|media| media.trim().eq_ignore_ascii_case("application/ld+json"))
}
