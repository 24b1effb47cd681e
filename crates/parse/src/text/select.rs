//! Keeps the blocks of a page that are its main text.
//!
//! Three ideas, none of which looks at words of a language. First, text that people read comes in long
//! blocks with few links; such blocks carry *weight* (as in boilerpipe and jusText). Second, the weight of
//! a page sits in one container: starting from the page, or from where its markup says the article is, we
//! go down for as long as one child holds nearly all the weight (as Readability looks for its candidate).
//! Third, inside that container nearly everything belongs to the text, except containers that call
//! themselves navigation, comments or the like, and lists of links.
//!
//! A page without enough of such text (an index, a start page) is kept whole, apart from what calls itself
//! navigation.

use super::hints::Hint;
use super::layout::{Block, Node};
use super::{HEADINGS_BYTES_MAX, MainText, squeeze};
use crate::html::tags::Tag;

/// Main texts below this size are doubted, and more of the page is kept.
const MAIN_BYTES_MIN: usize = 250;

/// Picks the main text.
pub fn main_text(text: &str, nodes: &[Node], blocks: &[Block]) -> MainText {
    let page = Page::new(text, nodes, blocks);
    let main = page.main_container();
    let mut kept: Vec<&Block> = blocks.iter().filter(|block| page.is_main(block, main)).collect();
    if size(&kept) < MAIN_BYTES_MIN {
        let more: Vec<&Block> = blocks.iter().filter(|block| page.is_shown(block)).collect();
        if size(&more) > 2 * size(&kept) {
            kept = more;
        }
    }
    if size(&kept) < MAIN_BYTES_MIN / 4 {
        kept = blocks.iter().collect();
    }
    let mut body = String::with_capacity(size(&kept) + kept.len());
    for block in &kept {
        push_line(&mut body, page.text_of(block));
    }
    let mut headings = String::new();
    for block in blocks.iter().filter(|block| page.is_heading(block) && page.is_shown(block)) {
        if headings.len() < HEADINGS_BYTES_MAX {
            push_line(&mut headings, squeeze::cut(page.text_of(block), HEADINGS_BYTES_MAX));
        }
    }
    MainText { body, headings }
}

fn push_line(out: &mut String, line: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(line);
}

fn size(blocks: &[&Block]) -> usize {
    blocks.iter().map(|block| block.len()).sum()
}

impl Block {
    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Bytes that are not the text of links.
    fn plain_bytes(&self) -> usize {
        self.len().saturating_sub(self.link_bytes as usize)
    }

    /// Share of the block that is the text of links, in percent.
    fn link_percent(&self) -> usize {
        self.link_bytes as usize * 100 / self.len().max(1)
    }
}

/// A laid-out page with the sums that the choice needs.
struct Page<'a> {
    text: &'a str,
    nodes: &'a [Node],
    /// Per node: it or one around it is not part of the text.
    out: Vec<bool>,
    /// Per node: weight of all blocks in it that may be part of the text.
    weight: Vec<u32>,
    blocks: &'a [Block],
}

impl<'a> Page<'a> {
    fn new(text: &'a str, nodes: &'a [Node], blocks: &'a [Block]) -> Page<'a> {
        let mut page = Page { text, nodes, out: vec![false; nodes.len()], weight: Vec::new(), blocks };
        // With nothing left out yet: a container that holds most of the page is not navigation, whatever
        // it is called.
        let all = page.sums();
        let most = all.first().copied().unwrap_or(0) / 2;
        for i in 1..nodes.len() {
            let left_out = match nodes[i].hint {
                Hint::Bad => all[i] <= most,
                Hint::Hidden => true,
                _ => false,
            };
            page.out[i] = left_out || page.out[nodes[i].parent as usize];
        }
        page.weight = page.sums();
        page
    }

    /// The weight in each node, its descendants' included.
    fn sums(&self) -> Vec<u32> {
        let mut sums = vec![0u32; self.nodes.len()];
        for block in self.blocks.iter().filter(|block| !self.out[block.node as usize]) {
            sums[block.node as usize] += self.weight_of(block);
        }
        // Parents come before their children, so one walk backwards adds everything up.
        for i in (1..self.nodes.len()).rev() {
            sums[self.nodes[i].parent as usize] += sums[i];
        }
        sums
    }

    /// How much a block looks like something to read.
    fn weight_of(&self, block: &Block) -> u32 {
        let plain = block.plain_bytes() as u32;
        if block.link_percent() > 50 || self.is_heading(block) {
            0
        } else if plain >= 80 || (plain >= 40 && ends_sentence(self.text_of(block))) {
            plain
        } else {
            plain / 8
        }
    }

    /// The container that the main text is in.
    fn main_container(&self) -> usize {
        let mut at = self.stated_container().unwrap_or(0);
        let mut child = at;
        // Children come after their parents: one walk finds, for the container so far, the child that holds
        // nearly all of it, and goes on inside that child.
        for i in at + 1..self.nodes.len() {
            let node = &self.nodes[i];
            if node.parent as usize == child
                && is_container(node.tag)
                && self.weight[i] * 100 >= self.weight[at] * 80
            {
                child = i;
                at = i;
            }
        }
        at
    }

    /// Where the markup says the article is, if there is enough in it to believe.
    fn stated_container(&self) -> Option<usize> {
        let stated = (1..self.nodes.len()).filter(|&i| self.nodes[i].hint == Hint::Main && !self.out[i]);
        let heaviest = stated.max_by_key(|&i| (self.weight[i], std::cmp::Reverse(i)))?;
        (self.weight[heaviest] * 100 >= self.weight[0] * 40 && self.weight[heaviest] > 0).then_some(heaviest)
    }

    /// Whether a block is part of the main text in this container.
    fn is_main(&self, block: &Block, main: usize) -> bool {
        self.is_shown(block) && self.is_inside(block.node as usize, main) && self.is_text(block)
    }

    /// Whether a block may be part of the text at all.
    fn is_shown(&self, block: &Block) -> bool {
        !self.out[block.node as usize]
    }

    fn is_inside(&self, mut node: usize, around: usize) -> bool {
        // Parents have smaller numbers, so the walk ends.
        while node > around {
            node = self.nodes[node].parent as usize;
        }
        node == around
    }

    fn is_text(&self, block: &Block) -> bool {
        self.is_heading(block) || block.link_percent() <= 60
    }

    fn is_heading(&self, block: &Block) -> bool {
        self.nodes[block.node as usize].tag.is_heading()
    }

    fn text_of(&self, block: &Block) -> &'a str {
        &self.text[block.start as usize..block.end as usize]
    }
}

fn is_container(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::Html
            | Tag::Body
            | Tag::Div
            | Tag::Section
            | Tag::Article
            | Tag::Main
            | Tag::Table
            | Tag::Tbody
            | Tag::Tr
            | Tag::Td
            | Tag::Form
            | Tag::Center
            | Tag::Fieldset
            | Tag::Header
            | Tag::Details
            | Tag::Ul
            | Tag::Li
    )
}

/// Whether a text ends as sentences do.
fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(['"', '\'', '”', '“', '»', ')', ']', '’']);
    text.ends_with(['.', '!', '?', ':', ';', '…', '。', '！', '？', '।', '؟'])
}
