//! Holds the scanner against html5ever's tokenizer, which follows the standard state by state.

use super::*;
use crate::html::entities::{Place, decode};
use html5ever::buffer_queue::BufferQueue;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::{RawKind, Rawtext, Rcdata, ScriptData};
use html5ever::tokenizer::{
    CharacterTokens, Tag as OracleTag, TagKind, TagToken, Token as OracleToken, TokenSink, TokenSinkResult,
    Tokenizer,
};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};

/// A token in a form that both sides can be brought to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Start(Tag, Vec<(String, String)>),
    End(Tag),
}

/// Adds text to the text before it, so that it does not matter where it was cut.
fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(before)) => before.push_str(text),
        _ => pieces.push(Piece::Text(text.to_string())),
    }
}

fn ours(html: &str) -> Vec<Piece> {
    let mut scanner = Scanner::new(html);
    let mut pieces = Vec::new();
    while let Some(token) = scanner.next_token() {
        match token {
            Token::Text(raw) | Token::Raw(Tag::Title | Tag::Textarea, raw) => {
                push_text(&mut pieces, &decode(raw, Place::Text));
            }
            Token::Raw(_, raw) => push_text(&mut pieces, raw),
            Token::End(tag) => pieces.push(Piece::End(tag)),
            Token::Start { tag, .. } => {
                let mut attrs: Vec<(String, String)> = Vec::new();
                for (name, value) in scanner.attrs() {
                    let name = name.to_ascii_lowercase();
                    // The first of a name counts.
                    if attrs.iter().all(|(known, _)| *known != name) {
                        attrs.push((name, decode(value, Place::Attribute).into_owned()));
                    }
                }
                pieces.push(Piece::Start(tag, attrs));
            }
        }
    }
    pieces
}

#[derive(Default)]
struct Oracle {
    pieces: RefCell<Vec<Piece>>,
    foreign: Cell<u32>,
}

impl Oracle {
    fn start(&self, tag: Tag, token: &OracleTag) -> TokenSinkResult<()> {
        let attrs = token.attrs.iter().map(|a| (a.name.local.to_string(), a.value.to_string())).collect();
        self.pieces.borrow_mut().push(Piece::Start(tag, attrs));
        if matches!(tag, Tag::Svg | Tag::Math) && !token.self_closing {
            self.foreign.set(self.foreign.get() + 1);
        }
        if token.self_closing && self.foreign.get() > 0 {
            return TokenSinkResult::Continue;
        }
        let raw = |kind: RawKind| TokenSinkResult::RawData(kind);
        match tag {
            Tag::Script => raw(ScriptData),
            Tag::Title | Tag::Textarea => raw(Rcdata),
            Tag::Plaintext => TokenSinkResult::Plaintext,
            tag if tag.raw_text_name().is_some() => raw(Rawtext),
            _ => TokenSinkResult::Continue,
        }
    }
}

impl TokenSink for Oracle {
    type Handle = ();

    fn process_token(&self, token: OracleToken, _line: u64) -> TokenSinkResult<()> {
        match token {
            TagToken(token) => {
                let tag = Tag::of(token.name.as_bytes());
                if token.kind == TagKind::StartTag {
                    return self.start(tag, &token);
                }
                if matches!(tag, Tag::Svg | Tag::Math) {
                    self.foreign.set(self.foreign.get().saturating_sub(1));
                }
                self.pieces.borrow_mut().push(Piece::End(tag));
            }
            CharacterTokens(text) => push_text(&mut self.pieces.borrow_mut(), &text),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

fn oracle(html: &str) -> Vec<Piece> {
    let tokenizer = Tokenizer::new(Oracle::default(), Default::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from_slice(html));
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    tokenizer.sink.pieces.into_inner()
}

#[track_caller]
fn check(html: &str) {
    assert_eq!(ours(html), oracle(html), "{html}");
}

#[test]
fn ordinary_markup() {
    check("<p>a<b class='x y' id=z>b</b> &amp; c<br/></p>");
    check("<A HREF=\"x?a=1&amp;b=2&copy=3\" hidden>t</A >");
    check("<!DOCTYPE html PUBLIC \"a>b\"><html><!-- c > -- -> --><body>");
    check("a < b <3 <é </ > </> </é> <?php x > y");
    check("<a href=x/>y<a href=x / >z<a / href = 'q' =x y=>");
    check("<title>a &lt; <b> </titlex></TITLE >b<textarea></p></textarea>");
    check("<style>a > b { }</style><iframe><a></iframe><xmp>&amp;</xmp>");
    check("<svg><title/><script/><a href=x></svg><script>x</script>");
    check("<plaintext></plaintext><a>");
}

#[test]
fn comments_and_their_ends() {
    for html in [
        "<!-->a",
        "<!--->a",
        "<!---->a",
        "<!--!>a-->b",
        "<!---!>a-->b",
        "<!----!>a",
        "<!-- --!>a",
        "<!--a--",
        "<!--",
    ] {
        check(html);
    }
    check("<!-- <!-- a --> b -->");
    check("<![CDATA[ a > b ]]>c<!x>d<!>e");
}

#[test]
fn scripts_in_comments_in_scripts() {
    check("<script>a</script>b");
    check("<script>if (a < b) '<a>'</SCRIPT\n>b");
    check("<script><!-- <script> </script> --></script>a");
    check("<script><!-- <script> </script> </script>a");
    check("<script><!--></script>a");
    check("<script><!-- <scripty> </script>a");
    check("<script><!-- <script> --></script>a</script>b");
    check("<script></scriptx></script >a");
    check("<script>");
}

#[test]
fn pages_that_end_too_early() {
    for html in
        ["<", "</", "<a", "<a ", "<a h", "<a h=", "<a h='x", "<a h=x", "</a", "<!", "<!d", "<?", "a<b/"]
    {
        check(html);
    }
}

#[test]
fn attributes_beyond_the_limit_are_skipped() {
    let attrs: String = (0..1000).map(|i| format!(" a{i}='>'")).collect();
    let html = format!("<p{attrs}>x");
    let mut scanner = Scanner::new(&html);
    assert_eq!(scanner.next_token(), Some(Token::Start { tag: Tag::P, self_closing: false }));
    assert_eq!(scanner.attrs().count(), ATTRS_MAX);
    assert_eq!(scanner.next_token(), Some(Token::Text("x")));
}

/// Pieces that markup is made of, and broken by.
fn soup() -> impl Strategy<Value = String> {
    const PARTS: &[&str] = &[
        "<",
        "</",
        ">",
        "/>",
        "a",
        "script",
        "<script>",
        "</script>",
        "<!--",
        "-->",
        "--!>",
        "-",
        "!",
        "'",
        "\"",
        "=",
        " ",
        "/",
        "href",
        " href=x",
        "&amp;",
        "&not",
        "&notin;",
        "&#x41;",
        "&#55555",
        "&",
        ";",
        "x1",
        "<title>",
        "</title>",
        "<textarea>",
        "</textarea",
        "<style>",
        "</style>",
        "<svg>",
        "</svg>",
        "<?",
        "<!",
        "<!doctype x",
        "\n",
        "é",
        "<iframe>",
        "</iframe>",
        "<a href='y'>",
        "</a>",
        "<p ",
        "\t",
        "<A B=\"",
        "]]>",
        "<![CDATA[",
    ];
    proptest::collection::vec(proptest::sample::select(PARTS), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn like_the_standard_on_any_soup(html in soup()) {
        prop_assert_eq!(ours(&html), oracle(&html), "{}", html);
    }
}
