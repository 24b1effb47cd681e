//! Keeps the blocks of a page that are its main text.
//!
//! Three ideas, none of which looks at the words of a language. First, text that people read comes in long
//! blocks with few links; such blocks carry *weight* (as in boilerpipe and jusText). Second, the weight of
//! a page sits in one container: starting from the page, or from where its markup says the article is, we
//! go down for as long as one child holds nearly all the weight (as Readability looks for its candidate).
//! Third, inside that container nearly everything belongs to the text, except containers that call
//! themselves navigation, comments or the like, lists of links, and scraps: bylines, credits, buttons. So do
//! paragraphs, sections and tables of prose that we passed on the way down.
//!
//! A page without enough of such text (an index, a start page) is kept whole, apart from what calls itself
//! navigation; so is one that is nearly all links, of which only a footer would be left. The shares and sizes below were tuned on annotated pages; around the chosen values the
//! quality hardly changes.

use super::hints::Hint;
use super::layout::{Block, Node};
use super::{HEADINGS_BYTES_MAX, MainText, whitespace};
use crate::html::tags::Tag;

/// Main texts below this size are doubted, and more of the page is kept.
const MAIN_BYTES_MIN: usize = 250;
/// A block this long is something to read.
const LONG_BYTES: usize = 80;
/// A block this long is something to read if it ends as sentences do.
const SENTENCE_BYTES: usize = 40;
/// A block below this size that ends unlike a sentence is a scrap: a byline, a button, a date.
const SCRAP_BYTES: usize = 25;
/// The same for captions of figures, which then name the photographer.
const CAPTION_SCRAP_BYTES: usize = 60;
/// A block whose text is links by more than this is no text.
const LINK_PERCENT_MAX: u64 = 60;
/// The main text is in a child that has this share of its parent's weight.
const CHILD_PERCENT_MIN: u64 = 80;
/// A page of which less than this is text is a list of links.
const TEXT_PERCENT_MIN: usize = 10;
/// A container whose name has several meanings is part of the text if this share of the weight is in it.
const WEAK_PERCENT_MAX: u64 = 25;
/// What was passed on the way down is part of the text if it has this weight, this share of weight,
const PASSED_BYTES_MIN: u64 = LONG_BYTES as u64;
const PASSED_WEIGHT_PERCENT_MIN: u64 = 50;
/// … and no more links than this.
const PASSED_LINK_PERCENT_MAX: u64 = 25;
/// A long block in a list of links is text if it has no more links than this.
const PROSE_LINK_PERCENT_MAX: u64 = 20;
/// The markup's word for where the article is counts if this share of the weight is there.
const STATED_PERCENT_MIN: u64 = 50;

/// Picks the main text; what else can be seen is the rest.
pub fn main_text(text: &str, nodes: &[Node], blocks: &[Block]) -> MainText {
    let page = Page::new(text, nodes, blocks);
    let kept = page.keep();
    let mut body = String::with_capacity(size(&kept) + kept.len());
    let mut rest = String::new();
    let hidden = page.hidden();
    let mut main = kept.iter().map(|block| block.start).peekable();
    for block in blocks {
        if main.next_if_eq(&block.start).is_some() {
            push_line(&mut body, page.text_of(block));
        } else if !hidden[block.node as usize] {
            push_line(&mut rest, page.text_of(block));
        }
    }
    let mut headings = String::new();
    for block in blocks.iter().filter(|block| page.is_heading(block) && page.is_shown(block)) {
        let room = HEADINGS_BYTES_MAX.saturating_sub(headings.len() + 1);
        let line = page.text_of(block);
        if line.len() <= room {
            push_line(&mut headings, line);
        } else {
            push_line(&mut headings, whitespace::cut(line, room));
            break;
        }
    }
    MainText { body, rest, headings }
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

/// A laid-out page with the sums that the choice needs.
struct Page<'a> {
    text: &'a str,
    nodes: &'a [Node],
    blocks: &'a [Block],
    /// Per node: it or one around it is not part of the text.
    out: Vec<bool>,
    /// Per node, its descendants included.
    sums: Vec<Sum>,
}

/// Where a container stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockPlace {
    /// In the main text.
    Inside,
    /// In a list of links in the main text.
    LinkList,
    Outside,
}

/// What a container holds, in bytes.
#[derive(Clone, Copy, Default)]
struct Sum {
    /// Of blocks that look like something to read.
    weight: u64,
    /// Of text.
    all: u64,
    /// Of text of links.
    links: u64,
}

impl<'a> Page<'a> {
    fn new(text: &'a str, nodes: &'a [Node], blocks: &'a [Block]) -> Page<'a> {
        let mut page = Page { text, nodes, blocks, out: vec![false; nodes.len()], sums: Vec::new() };
        // Of two looks the first leaves nothing out: a container that holds most of the page is not
        // navigation, whatever it is called.
        page.sums = page.sum_up();
        let all = page.sums[0].weight;
        for (i, node) in nodes.iter().enumerate().skip(1) {
            let left_out = match node.hint {
                Hint::Bad => page.sums[i].weight <= all / 2,
                Hint::Weak => page.sums[i].weight <= all * WEAK_PERCENT_MAX / 100,
                Hint::Hidden => true,
                Hint::None | Hint::Good | Hint::Main => false,
            };
            page.out[i] = left_out || page.out[node.parent as usize];
        }
        page.sums = page.sum_up();
        page
    }

    /// Per node: no reader sees it.
    fn hidden(&self) -> Vec<bool> {
        let mut hidden = vec![false; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate().skip(1) {
            hidden[i] = node.hint == Hint::Hidden || hidden[node.parent as usize];
        }
        hidden
    }

    fn sum_up(&self) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); self.nodes.len()];
        for block in self.blocks.iter().filter(|block| self.is_shown(block)) {
            let sum = &mut sums[block.node as usize];
            sum.weight += self.weight_of(block);
            sum.all += block.len() as u64;
            sum.links += u64::from(block.link_bytes);
        }
        // Parents come before their children, so one walk backwards adds everything up.
        for i in (1..self.nodes.len()).rev() {
            let Sum { weight, all, links } = sums[i];
            let parent = &mut sums[self.nodes[i].parent as usize];
            parent.weight += weight;
            parent.all += all;
            parent.links += links;
        }
        sums
    }

    /// The blocks of the main text, or more where that is too little.
    fn keep(&self) -> Vec<&'a Block> {
        let top = self.stated_container().unwrap_or(0);
        let main = self.main_container(top);
        let places = self.places(top, main);
        let is_main = |block: &&Block| {
            self.is_shown(block)
                && match places[block.node as usize] {
                    BlockPlace::Inside => self.is_text(block),
                    BlockPlace::LinkList => self.is_prose(block),
                    BlockPlace::Outside => false,
                }
        };
        let mut kept: Vec<&Block> = self.blocks.iter().filter(is_main).collect();
        self.trim(&mut kept);
        let under = self.under(top);
        let around = || self.blocks.iter().filter(|block| self.is_shown(block) && under[block.node as usize]);
        let around_bytes: usize = around().map(Block::len).sum();
        if size(&kept) * 100 < around_bytes * TEXT_PERCENT_MIN {
            kept = around().collect();
        }
        if size(&kept) < MAIN_BYTES_MIN {
            let shown: Vec<&Block> = self.blocks.iter().filter(|block| self.is_shown(block)).collect();
            if size(&shown) > 2 * size(&kept) {
                kept = shown;
            }
        }
        if size(&kept) < MAIN_BYTES_MIN / 4 {
            kept = self.blocks.iter().collect();
        }
        kept
    }

    /// How much a block looks like something to read.
    fn weight_of(&self, block: &Block) -> u64 {
        let plain = block.len().saturating_sub(block.link_bytes as usize);
        if block.link_percent() > 50 || self.is_heading(block) {
            0
        } else if plain >= LONG_BYTES || (plain >= SENTENCE_BYTES && ends_sentence(self.text_of(block))) {
            plain as u64
        } else {
            plain as u64 / 8
        }
    }

    /// The container that the main text is in, from this one down.
    fn main_container(&self, top: usize) -> usize {
        let mut main = top;
        // An article is not searched further: what is in it was put there to be read.
        if self.nodes[main].tag == Tag::Article {
            return main;
        }
        // Children come after their parents, so one walk finds the child that holds nearly all of the
        // container so far, and goes on inside it.
        for i in main + 1..self.nodes.len() {
            let node = &self.nodes[i];
            let enough = self.sums[i].weight * 100 >= self.sums[main].weight * CHILD_PERCENT_MIN;
            if node.parent as usize == main && is_container(node.tag) && enough {
                main = i;
            }
        }
        main
    }

    /// Where the markup says the article is, if there is enough in it to believe.
    fn stated_container(&self) -> Option<usize> {
        let stated = (1..self.nodes.len()).filter(|&i| self.nodes[i].hint == Hint::Main);
        let heaviest = stated.max_by_key(|&i| (self.sums[i].weight, i))?;
        let weight = self.sums[heaviest].weight;
        (weight > 0 && weight * 100 >= self.sums[0].weight * STATED_PERCENT_MIN).then_some(heaviest)
    }

    /// Per node: whether it is in the main container, or was passed on the way down to it and is text.
    fn places(&self, top: usize, main: usize) -> Vec<BlockPlace> {
        let mut on_way = vec![false; self.nodes.len()];
        let mut node = main;
        while node != top {
            node = self.nodes[node].parent as usize;
            on_way[node] = true;
        }
        let mut places = vec![BlockPlace::Outside; self.nodes.len()];
        for i in top..self.nodes.len() {
            let parent = self.nodes[i].parent as usize;
            places[i] = if i == main || (on_way[parent] && !on_way[i] && self.is_passed_text(i)) {
                BlockPlace::Inside
            } else if places[parent] == BlockPlace::Inside && self.is_link_list(i) {
                BlockPlace::LinkList
            } else {
                places[parent]
            };
        }
        places
    }

    /// Per node: it is in this container.
    fn under(&self, top: usize) -> Vec<bool> {
        let mut under = vec![false; self.nodes.len()];
        under[top] = true;
        for i in top + 1..self.nodes.len() {
            under[i] = under[self.nodes[i].parent as usize];
        }
        under
    }

    /// Whether something beside the way to the main container is text too. Of containers that wrap anything
    /// only those count that say so: a teaser beside an article is prose as well.
    fn is_passed_text(&self, node: usize) -> bool {
        use Tag::*;
        let Node { tag, hint, .. } = self.nodes[node];
        let Sum { weight, all, links } = self.sums[node];
        let wraps_anything = matches!(tag, Div | Td | Tr | Table | Tbody | Center | Form | Li);
        weight >= PASSED_BYTES_MIN
            && weight * 100 >= all * PASSED_WEIGHT_PERCENT_MIN
            && links * 100 <= all * PASSED_LINK_PERCENT_MAX
            && (!wraps_anything || hint == Hint::Good)
    }

    /// Whether a container is mostly links. A paragraph or a row of a table may be, in the middle of text;
    /// and what carries a fifth of the page is not cast out for its links.
    fn is_link_list(&self, node: usize) -> bool {
        let tag = self.nodes[node].tag;
        let Sum { weight, all, links } = self.sums[node];
        links * 2 > all
            && weight * 5 < self.sums[0].weight
            && !matches!(tag, Tag::P | Tag::Td | Tag::Tr | Tag::Th)
            && !tag.is_heading()
    }

    /// Whether a block may be part of the text at all.
    fn is_shown(&self, block: &Block) -> bool {
        !self.out[block.node as usize]
    }

    /// Whether a block reads as part of a text.
    fn is_text(&self, block: &Block) -> bool {
        let tag = self.nodes[block.node as usize].tag;
        if tag.is_heading() {
            return true;
        }
        let scrap = match tag {
            Tag::Figcaption => CAPTION_SCRAP_BYTES,
            tag if is_loose(tag) => SCRAP_BYTES,
            _ => 0,
        };
        let is_scrap = block.len() < scrap && !ends_sentence(self.text_of(block));
        block.link_percent() <= LINK_PERCENT_MAX && !is_scrap
    }

    /// Whether a block is surely something to read.
    fn is_prose(&self, block: &Block) -> bool {
        self.weight_of(block) >= LONG_BYTES as u64 && block.link_percent() <= PROSE_LINK_PERCENT_MAX
    }

    /// Takes off what follows the last block that is surely text: dates, categories, headings of lists that
    /// are gone.
    fn trim(&self, kept: &mut Vec<&Block>) {
        let is_sure = |block: &&Block| {
            let tag = self.nodes[block.node as usize].tag;
            !tag.is_heading() && (self.weight_of(block) >= SENTENCE_BYTES as u64 || !is_loose(tag))
        };
        if let Some(last) = kept.iter().rposition(is_sure) {
            kept.truncate(last + 1);
        }
    }

    fn is_heading(&self, block: &Block) -> bool {
        self.nodes[block.node as usize].tag.is_heading()
    }

    fn text_of(&self, block: &Block) -> &'a str {
        &self.text[block.start as usize..block.end as usize]
    }
}

impl Block {
    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Share of the block that is the text of links, in percent.
    fn link_percent(&self) -> u64 {
        u64::from(self.link_bytes) * 100 / (self.len() as u64).max(1)
    }
}

/// Elements that wrap whole texts.
fn is_container(tag: Tag) -> bool {
    use Tag::*;
    matches!(
        tag,
        Html | Body
            | Div
            | Section
            | Article
            | Main
            | Table
            | Tbody
            | Tr
            | Td
            | Form
            | Center
            | Fieldset
            | Header
            | Details
            | Ul
            | Li
    )
}

/// Elements that say nothing about the text in them. The others (list items, table cells, quotes, …) are
/// part of something even when short.
fn is_loose(tag: Tag) -> bool {
    use Tag::*;
    !matches!(tag, Li | Td | Th | Dd | Dt | Pre | Blockquote | Figcaption) && !tag.is_heading()
}

/// Whether a text ends as sentences do.
fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(['"', '\'', '”', '“', '»', ')', ']', '’']);
    text.ends_with(['.', '!', '?', ':', ';', '…', '。', '！', '？', '।', '؟'])
}

#[cfg(test)]
mod tests {
    use crate::html::directives::Directives;
    use crate::page::Wants;
    use farol_base::CanonicalUrl;

    const STORY: &str = "The crawler asks each server for one page at a time, and waits between two requests. \
        A page that changes often is asked for more often than one that never does.";
    const MORE: &str = "Nobody reads what is never found, so the index must follow the Web as closely as it can. \
        That is what the order of visits is for.";

    fn body_of(html: &str) -> String {
        let url = CanonicalUrl::parse("http://h/").unwrap();
        crate::html::read(html, &url, "farol", Wants::Everything, Directives::default()).text.body
    }

    #[track_caller]
    fn check(html: &str, want: &[&str]) {
        assert_eq!(body_of(html), want.join("\n"), "{html}");
    }

    #[test]
    fn what_is_around_the_text_goes() {
        let nav = "<ul><li><a href=/1>Home</a><li><a href=/2>News from everywhere</a></ul>";
        let story = format!("<h1>Title</h1><p>{STORY}</p><h2>Part</h2><p>{MORE}</p>");
        let want = ["Title", STORY, "Part", MORE];
        check(&format!("<body><nav>Menu</nav>{story}<footer>{STORY}</footer>"), &want);
        check(&format!("<div id=sidebar>{STORY}</div><div class=content>{story}</div>"), &want);
        check(&format!("{nav}<article>{story}</article>{nav}"), &want);
        check(&format!("<article>{story}{nav}</article>"), &want); // A list of links inside.
        check(&format!("<div>{story}<div class=comments><p>{STORY}</p></div></div>"), &want);
        check(&format!("<div>{story}<p style='display:none'>{STORY}</p></div>"), &want);
        check(&format!("<article>{story}<p>Share</p><div>12 May</div></article>"), &want);
        check(&format!("<table><tr><td width=20%>{nav}<td>{story}</table>"), &want);
    }

    #[test]
    fn text_of_all_shapes_stays() {
        let parts = format!(
            "<p>{STORY}<ul><li>one<li>two</ul><table><tr><th>a<td>b</table><pre>x = 1\n  y = 2</pre><blockquote>so</blockquote><p>{MORE}"
        );
        let want = [STORY, "one", "two", "a", "b", "x = 1", "y = 2", "so", MORE];
        check(&parts, &want);
        check(&format!("<p>{STORY}<br>{MORE}<br><br>{MORE}"), &[&format!("{STORY} {MORE}"), MORE]);
        // A name is not everything: this is where the text is.
        check(&format!("<div class=sidebar><p>{STORY}</p><p>{MORE}</p></div>"), &[STORY, MORE]);
    }

    #[test]
    fn sections_beside_the_heaviest_one_stay() {
        let long = format!("<p>{STORY}</p>").repeat(12);
        let body = body_of(&format!(
            "<div class=body role=main><section id=lists><h1>Lists</h1><p>{MORE}</p><section id=a>{long}</section>\
             <section id=more-on-lists><h2>More</h2><p>{MORE}</p></section></section></div>"
        ));
        assert_eq!(body.matches(MORE).count(), 2, "{body}");
    }

    #[test]
    fn a_page_of_links_is_its_links() {
        let entries: String =
            (0..60).map(|i| format!("<li><a href=/{i}>function number {i} of the module</a></li>")).collect();
        let body = body_of(&format!("<div role=main><h1>Index</h1><ul>{entries}</ul><p>{STORY}</p></div>"));
        assert!(body.contains("function number 7 of the module"), "{body}");
    }

    #[test]
    fn the_rest_is_what_else_is_seen() {
        let url = CanonicalUrl::parse("http://h/").unwrap();
        let html = format!(
            "<nav>Menu</nav><div class=body role=main><h1>One<a class=headerlink href='#one' title=x>¶</a></h1>\
             <p>{STORY} <a href='#1'>#</a></p><p>{MORE}</p></div><p hidden>Secret</p><footer>Made by us.</footer>"
        );
        let read = crate::html::read(&html, &url, "farol", Wants::Everything, Directives::default());
        assert_eq!(read.text.body, format!("One\n{STORY}\n{MORE}"));
        assert_eq!((read.text.rest.as_str(), read.text.headings.as_str()), ("Menu\nMade by us.", "One"));
    }

    #[test]
    fn pages_without_much_text_are_kept_whole() {
        check("<p>Hello</p><p>world</p>", &["Hello", "world"]);
        check("<nav>Menu</nav>", &["Menu"]);
        check("", &[]);
        check("<a href=/1>First</a> <a href=/2>Second</a>", &["First Second"]);
        check("<noscript>needs a script</noscript>", &["needs a script"]);
    }

    #[test]
    fn headings_have_their_own_place() {
        let url = CanonicalUrl::parse("http://h/").unwrap();
        let html = format!(
            "<h1>One</h1><nav><h2>Menu</h2></nav><p>{STORY}</p><h3>Two <b>three</b></h3><p>{MORE}</p>"
        );
        let read = crate::html::read(&html, &url, "farol", Wants::Everything, Directives::default());
        assert_eq!(read.text.headings, "One\nTwo three");
    }
}
