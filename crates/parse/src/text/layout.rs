//! Cuts the text of a page into blocks and remembers which containers they stand in.
//!
//! There is no tree: elements are opened and closed on a stack of bounded depth, with as much of the
//! standard's implied end tags as text needs (`p`, `li`, table cells, …), and each block-level element leaves
//! one [`Node`] in a list in document order. A stray end tag closes nothing outside its table cell.
//!
//! INVARIANT: a node's parent comes before it in the list.
//! INVARIANT: one tag costs at most [`DEPTH_MAX`] steps.

use super::hints::{self, Hint};
use super::{DEPTH_MAX, MainText, NODES_MAX, TEXT_BYTES_MAX, select, whitespace};
use crate::html::entities::{self, Place};
use crate::html::scanner::Scanner;
use crate::html::tags::{Shape, TAGS, Tag};

/// A container: a block-level element.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The one around it; the first node is its own.
    pub parent: u32,
    pub tag: Tag,
    pub hint: Hint,
}

/// A run of text without a break in it.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Where it stands in the laid-out text.
    pub start: u32,
    pub end: u32,
    /// Its container.
    pub node: u32,
    /// How much of it is the text of links.
    pub link_bytes: u32,
}

/// A page being laid out.
pub struct Layout {
    text: String,
    blocks: Vec<Block>,
    nodes: Vec<Node>,
    stack: Vec<OpenElement>,
    /// How many elements of each kind are open, so that most stray end tags cost one look.
    open: [u16; TAGS],
    /// Open elements beyond [`DEPTH_MAX`].
    beyond: u32,
    /// Open elements whose text is not shown.
    silent: u32,
    block_start: usize,
    link_bytes: usize,
    in_link: bool,
    /// An open link to a place on this page, which may be a permalink.
    permalink: Option<OpenPermalink>,
    space: bool,
    breaks: u8,
    text_cut: bool,
    too_deep: bool,
    scratch: String,
}

/// Where the text of an open link to a place on this page began, so that it can be taken back.
#[derive(Clone, Copy)]
struct OpenPermalink {
    start: usize,
    space: bool,
    /// Its class says that it is a permalink, whatever its text.
    named: bool,
}

#[derive(Clone, Copy)]
struct OpenElement {
    tag: Tag,
    node: u32,
}

impl Layout {
    /// Starts a page of about this many bytes.
    pub fn new(page_bytes: usize) -> Layout {
        Layout {
            text: String::with_capacity((page_bytes / 3).min(TEXT_BYTES_MAX)),
            blocks: Vec::with_capacity(page_bytes / 200),
            nodes: vec![Node { parent: 0, tag: Tag::Html, hint: Hint::None }],
            stack: Vec::with_capacity(32),
            open: [0; TAGS],
            beyond: 0,
            silent: 0,
            block_start: 0,
            link_bytes: 0,
            in_link: false,
            permalink: None,
            space: false,
            breaks: 0,
            text_cut: false,
            too_deep: false,
            scratch: String::new(),
        }
    }

    /// Whether there was more text than is kept.
    pub fn text_cut(&self) -> bool {
        self.text_cut
    }

    /// Whether elements were nested too deeply.
    pub fn too_deep(&self) -> bool {
        self.too_deep
    }

    /// Takes in text with its entities.
    pub fn text(&mut self, raw: &str) {
        if self.silent > 0 {
            return;
        }
        let room = TEXT_BYTES_MAX.saturating_sub(self.text.len());
        if raw.len() > room {
            self.text_cut = true;
        }
        let raw = whitespace::cut(raw, room);
        let before = self.text.len();
        if self.open[Tag::Pre as usize] > 0 {
            self.preformatted(raw);
        } else {
            self.push(raw);
        }
        if self.text.len() > before {
            self.breaks = 0;
            if self.in_link {
                self.link_bytes += self.text.len() - before;
            }
        }
    }

    fn push(&mut self, raw: &str) {
        if memchr::memchr(b'&', raw.as_bytes()).is_none() {
            self.space = whitespace::push(&mut self.text, self.block_start, raw, self.space);
        } else {
            self.scratch.clear();
            entities::decode_into(&mut self.scratch, raw, Place::Text);
            self.space = whitespace::push(&mut self.text, self.block_start, &self.scratch, self.space);
        }
    }

    /// Keeps the lines of `<pre>`, each a block of its own.
    fn preformatted(&mut self, raw: &str) {
        let mut lines = raw.split('\n');
        if let Some(first) = lines.next() {
            self.push(first);
        }
        for line in lines {
            self.end_block();
            self.push(line);
        }
    }

    /// Takes in a start tag.
    pub fn start(&mut self, tag: Tag, self_closing: bool, scanner: &Scanner<'_>) {
        match tag {
            Tag::A => self.open_link(scanner),
            Tag::Br => self.line_break(),
            Tag::Hr => self.end_block(),
            _ if is_silent(tag) && self_closing && scanner.in_foreign() => {}
            _ if is_silent(tag) => self.open(tag, Hint::None),
            _ if tag.shape() == Shape::Block => {
                self.end_block();
                self.imply_ends(tag);
                // Scripts, styles and titles come with their own text, which never passes here.
                if tag.raw_text_name().is_none() {
                    let in_article =
                        self.open[Tag::Article as usize] > 0 || self.open[Tag::Main as usize] > 0;
                    self.open(tag, hints::of_element(tag, scanner, in_article));
                }
            }
            _ => {}
        }
    }

    /// Takes in an end tag.
    pub fn end(&mut self, tag: Tag) {
        match tag {
            Tag::A => self.close_link(),
            Tag::Br => self.line_break(),
            _ if tag.raw_text_name().is_some() => {}
            _ if is_silent(tag) || tag.shape() == Shape::Block => {
                if !is_silent(tag) {
                    self.end_block();
                }
                self.close(tag);
            }
            _ => {}
        }
    }

    /// Ends the page and picks its main text.
    pub fn finish(mut self) -> MainText {
        self.end_block();
        select::main_text(&self.text, &self.nodes, &self.blocks)
    }

    fn open_link(&mut self, scanner: &Scanner<'_>) {
        let href = scanner.attr("href");
        self.in_link = href.is_some();
        self.permalink = href.filter(|href| href.starts_with('#')).map(|_| OpenPermalink {
            start: self.text.len(),
            space: self.space,
            named: scanner.attr("class").is_some_and(hints::is_permalink_class),
        });
    }

    /// Ends a link. One that only marks its own place (`¶`, `#`, `§`) is no text.
    fn close_link(&mut self) {
        self.in_link = false;
        let Some(OpenPermalink { start, space, named }) = self.permalink.take() else { return };
        let Some(text) = self.text.get(start..).filter(|_| start >= self.block_start) else { return };
        if named || !text.contains(char::is_alphanumeric) {
            self.link_bytes = self.link_bytes.saturating_sub(text.len());
            self.text.truncate(start);
            self.space = space;
        }
    }

    /// One `<br>` is a space; two in a row end the block.
    fn line_break(&mut self) {
        self.space = true;
        self.breaks += 1;
        if self.breaks >= 2 {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        self.breaks = 0;
        self.space = false;
        if self.text.len() > self.block_start {
            self.blocks.push(Block {
                start: self.block_start as u32,
                end: self.text.len() as u32,
                node: self.node(),
                link_bytes: self.link_bytes as u32,
            });
            self.block_start = self.text.len();
        }
        self.link_bytes = 0;
    }

    /// The innermost open container.
    fn node(&self) -> u32 {
        self.stack.last().map_or(0, |open| open.node)
    }

    fn open(&mut self, tag: Tag, hint: Hint) {
        if self.stack.len() >= DEPTH_MAX {
            self.beyond = self.beyond.saturating_add(1);
            self.too_deep = true;
            return;
        }
        let parent = self.node();
        let node = if self.nodes.len() < NODES_MAX {
            self.nodes.push(Node { parent, tag, hint });
            self.nodes.len() as u32 - 1
        } else {
            parent
        };
        self.stack.push(OpenElement { tag, node });
        self.open[tag as usize] += 1;
        self.silent += u32::from(is_silent(tag));
    }

    fn pop(&mut self) {
        if let Some(open) = self.stack.pop() {
            self.open[open.tag as usize] -= 1;
            self.silent -= u32::from(is_silent(open.tag));
        }
    }

    /// Closes the innermost open element of this kind, with all that is in it.
    fn close(&mut self, tag: Tag) {
        if self.beyond > 0 {
            self.beyond -= 1;
        } else if tag.is_heading() {
            // Any heading's end tag ends any heading.
            self.close_any(
                &[Tag::H1, Tag::H2, Tag::H3, Tag::H4, Tag::H5, Tag::H6],
                &[Tag::Td, Tag::Th, Tag::Table],
            );
        } else if matches!(
            tag,
            Tag::Table | Tag::Tr | Tag::Tbody | Tag::Thead | Tag::Tfoot | Tag::Body | Tag::Html
        ) {
            self.close_any(&[tag], &[]);
        } else if matches!(tag, Tag::Td | Tag::Th | Tag::Caption) {
            self.close_any(&[tag], &[Tag::Table]);
        } else {
            self.close_any(&[tag], &[Tag::Td, Tag::Th, Tag::Table]);
        }
    }

    /// Closes the innermost open element of any of these kinds, unless a barrier is met first.
    fn close_any(&mut self, tags: &[Tag], barriers: &[Tag]) {
        if tags.iter().all(|tag| self.open[*tag as usize] == 0) {
            return;
        }
        let mut depth = self.stack.len();
        while depth > 0 {
            let tag = self.stack[depth - 1].tag;
            if tags.contains(&tag) {
                while self.stack.len() >= depth {
                    self.pop();
                }
                return;
            }
            if barriers.contains(&tag) {
                return;
            }
            depth -= 1;
        }
    }

    /// Closes what the start of this element ends without saying so.
    fn imply_ends(&mut self, tag: Tag) {
        let top = self.stack.last().map(|open| open.tag);
        if top == Some(Tag::P)
            || (top == Some(Tag::Head) && !matches!(tag, Tag::Title | Tag::Style | Tag::Script))
        {
            self.pop();
        }
        match tag {
            Tag::Li => self.close_any(&[Tag::Li], &[Tag::Ul, Tag::Ol, Tag::Menu, Tag::Dir, Tag::Td, Tag::Th]),
            Tag::Dd | Tag::Dt => self.close_any(&[Tag::Dd, Tag::Dt], &[Tag::Dl, Tag::Td, Tag::Th]),
            Tag::Td | Tag::Th => self.close_any(&[Tag::Td, Tag::Th], &[Tag::Table]),
            Tag::Tr => self.close_any(&[Tag::Tr], &[Tag::Table]),
            Tag::Tbody | Tag::Thead | Tag::Tfoot => {
                self.close_any(&[Tag::Tbody, Tag::Thead, Tag::Tfoot], &[Tag::Table]);
            }
            Tag::Option | Tag::Optgroup => self.close_any(&[Tag::Option], &[Tag::Select, Tag::Datalist]),
            Tag::Body => self.close_any(&[Tag::Head], &[]),
            _ => {}
        }
    }
}

/// Elements whose text is not part of the page: choices of forms, fallbacks, drawings.
fn is_silent(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::Head
            | Tag::Select
            | Tag::Datalist
            | Tag::Button
            | Tag::Template
            | Tag::Svg
            | Tag::Object
            | Tag::Video
            | Tag::Audio
            | Tag::Canvas
    )
}
