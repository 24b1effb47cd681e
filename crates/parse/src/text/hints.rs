//! What attributes say about a container: that it is navigation, or the article, or not to be seen.
//!
//! Class names and ids are split into words (`post-comments`, `sidebarRight`), and each word is looked up.
//! The lists come from names that content systems and newspapers use; a name is only a hint, and
//! [`super::select`] overrules it where a container holds much of the page. The id of a section or a heading is
//! no hint at all: generators of documentation make it of the heading (`more-on-lists`, `comments`).

use crate::html::scanner::Scanner;
use crate::html::tags::Tag;

/// Bytes of a class or id that are read.
const NAME_BYTES_MAX: usize = 256;

/// What a container seems to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Hint {
    #[default]
    None,
    /// It seems to be the main text.
    Good,
    /// Its markup says that it is the main text (`main`, `article`, `itemprop=articleBody`).
    Main,
    /// It seems to be around the main text: navigation, comments, advertisement.
    Bad,
    /// The same by a name that has other meanings too: `options`, `index`, `right`.
    Weak,
    /// It is not shown.
    Hidden,
}

/// Reads the hint of an element from its tag and attributes. `in_article` tells whether it is part of an
/// article or section, where a `header` belongs to the text.
pub fn of_element(tag: Tag, scanner: &Scanner<'_>, in_article: bool) -> Hint {
    match tag {
        Tag::Nav | Tag::Footer | Tag::Menu | Tag::Dialog | Tag::Noscript => return Hint::Bad,
        Tag::Header if !in_article => return Hint::Bad,
        Tag::Html | Tag::Body => return Hint::None,
        _ => {}
    }
    let mut found = HintsFound::default();
    let (mut id, mut is_part, mut is_note) = ("", false, false);
    for (name, value) in scanner.attrs() {
        match name.len() {
            2 if name.eq_ignore_ascii_case("id") => id = value,
            4 if name.eq_ignore_ascii_case("role") => {
                found.role(value);
                is_note |= value == "note" || value.starts_with("doc-");
            }
            5 if name.eq_ignore_ascii_case("class") => {
                found.words(value);
                is_part |= any_class(value, is_part_class);
                is_note |= any_class(value, is_note_class);
            }
            5 if name.eq_ignore_ascii_case("style") => found.hidden |= hides(value),
            6 if name.eq_ignore_ascii_case("hidden") => found.hidden = true,
            8 if name.eq_ignore_ascii_case("itemprop") => {
                found.main |=
                    value.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("articleBody"));
            }
            11 if name.eq_ignore_ascii_case("aria-hidden") => {
                // Readers with eyes see it.
                found.bad |= value.eq_ignore_ascii_case("true")
            }
            _ => {}
        }
    }
    found.main |= matches!(tag, Tag::Main | Tag::Article);
    found.good |= is_part;
    found.bad |= tag == Tag::Aside && !is_note;
    if !is_part && !is_text_element(tag) && tag != Tag::Section && !tag.is_heading() {
        found.id(id);
    }
    // `<td class=right>` is aligned to the right.
    found.weak &= !is_text_element(tag);
    found.verdict(tag)
}

#[derive(Default)]
struct HintsFound {
    hidden: bool,
    main: bool,
    good: bool,
    weak: bool,
    bad: bool,
}

impl HintsFound {
    fn verdict(&self, tag: Tag) -> Hint {
        if self.hidden {
            Hint::Hidden
        } else if self.bad && tag != Tag::Main {
            Hint::Bad
        } else if self.main {
            Hint::Main
        } else if self.good {
            Hint::Good
        } else if self.weak {
            Hint::Weak
        } else {
            Hint::None
        }
    }

    fn role(&mut self, role: &str) {
        match role.trim() {
            "main" | "article" => self.main = true,
            "navigation" | "banner" | "contentinfo" | "complementary" | "search" | "menu" | "menubar"
            | "dialog" | "alertdialog" | "toolbar" | "tablist" | "tooltip" => self.bad = true,
            _ => {}
        }
    }

    /// Reads an id, in which words with other meanings count for nothing.
    fn id(&mut self, id: &str) {
        let mut found = HintsFound::default();
        found.words(id);
        self.bad |= found.bad;
        self.good |= found.good;
    }

    /// Reads a class or id word by word.
    fn words(&mut self, names: &str) {
        let names = &names.as_bytes()[..names.len().min(NAME_BYTES_MAX)];
        let mut word = HintWord::default();
        let mut last_lower = false;
        for &byte in names {
            let upper = byte.is_ascii_uppercase();
            if !byte.is_ascii_alphabetic() || (upper && last_lower) {
                self.word(&word);
                word = HintWord::default();
            }
            if byte.is_ascii_alphabetic() {
                word.push(byte | 0x20);
            }
            last_lower = byte.is_ascii_lowercase();
        }
        self.word(&word);
    }

    fn word(&mut self, word: &HintWord) {
        match word.meaning() {
            Meaning::Bad => self.bad = true,
            Meaning::Weak => self.weak = true,
            Meaning::Good => self.good = true,
            Meaning::Nothing => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Nothing,
    Good,
    /// Around the text, unless a good word stands next to it: `article-header`.
    Weak,
    Bad,
}

/// The first eight letters of a word, packed.
#[derive(Default)]
struct HintWord {
    key: u64,
    len: usize,
}

impl HintWord {
    fn push(&mut self, lower: u8) {
        if self.len < 8 {
            self.key = self.key << 8 | u64::from(lower);
        }
        self.len += 1;
    }

    /// Looks the word up by its first eight letters.
    #[rustfmt::skip]
    fn meaning(&self) -> Meaning {
        macro_rules! any { ($($word:literal)*) => { [$(key($word)),*] }; }
        const BAD: &[u64] = &sorted(any!(
            "nav" "navbar" "navigati" "navi" "navbox" "menu" "menubar" "menus" "submenu" "topmenu" "mainmenu" "leftmenu"
            "mainnav" "topnav" "subnav" "sidenav" "breadcru" "sidebar" "sidebars" "sidebarl" "sidebarr" "rightbar" "leftbar" "sidecol"
            "aside" "footer" "foot" "footerna" "pagefoot" "printfoo" "comment" "comments" "commentl" "commenta" "commentf"
            "kommenta" "disqus" "respond" "reply" "replies" "related" "relatedp" "relateda" "relatedc" "recommen" "empfehlu"
            "share" "sharing" "shares" "sharebar" "sharethi" "sharedad" "shariff" "social" "sociable" "socialme" "socials" "socialba"
            "addthis" "addtoany" "newslett" "subscrib" "subscrip" "signup" "login" "register" "cookie" "cookies"
            "gdpr" "consent" "banner" "banners" "popup" "modal" "overlay" "lightbox" "advert" "adverts" "advertis" "anzeige" "werbung"
            "ads" "ad" "adsense" "adbox" "sponsor" "sponsore" "promo" "promos" "promotio" "promobox"
            "outbrain" "taboola" "paginati" "pager" "paginato" "paging" "pagenavi" "masthead" "toolbar" "tagcloud" "copyrigh"
            "disclaim" "poll" "donate" "donation" "trending" "popular" "mostread" "mostpopu" "dropdown" "tooltip" "search" "searchfo"
            "searchbo" "catlinks" "noprint" "jump" "jumpto" "skip" "skiplink" "shoutbox" "feedback" "trackbac" "pingback" "bookmark"
            "whatsapp" "printpag" "sitemap" "topbar" "bottomba" "infobar" "topstori" "morefrom" "readmore" "webring" "blogroll"
            "imprint" "impressu" "captcha" "tweetbut" "wpcnt" "sharedda" "ssba" "embedcod"
        ));
        const WEAK: &[u64] = &sorted(any!(
            "header" "head" "widget" "widgets" "widgetar" "meta" "metadata" "author" "authors" "autor" "byline" "bio" "tags" "tag" "category" "categori" "slider"
            "carousel" "slidesho" "gallery" "links" "tools" "buttons" "button" "options" "actions" "side" "rail" "right" "bottom"
            "archive" "recent" "latest" "more" "print" "extra" "logo" "branding" "credits" "hidden" "topics" "notice" "alert"
            "secondar" "tertiary" "partner" "partners" "shop" "basket" "cart" "form" "toc" "index" "rating" "ratings" "votes" "vote"
        ));
        const GOOD: &[u64] = &sorted(any!(
            "article" "articles" "articleb" "articlet" "articlec" "artikel" "content" "contents" "contentb" "contentt" "maincont" "entry"
            "entrycon" "post" "postcont" "postbody" "story" "storybod" "storytex" "text" "texte" "body" "bodytext" "maintext" "main" "hentry"
            "blogpost" "inhalt" "conteudo" "contenid" "noticia" "materia" "texto" "news" "page" "document" "section"
        ));
        let within = |list: &[u64]| list.binary_search(&self.key).is_ok();
        if self.len < 2 {
            Meaning::Nothing
        } else if within(BAD) {
            Meaning::Bad
        } else if within(WEAK) {
            Meaning::Weak
        } else if within(GOOD) {
            Meaning::Good
        } else {
            Meaning::Nothing
        }
    }
}

const fn key(word: &str) -> u64 {
    let bytes = word.as_bytes();
    assert!(bytes.len() <= 8);
    let mut key = 0u64;
    let mut i = 0;
    while i < bytes.len() {
        key = key << 8 | bytes[i] as u64;
        i += 1;
    }
    key
}

/// Sorts a list while compiling.
const fn sorted<const N: usize>(mut list: [u64; N]) -> [u64; N] {
    let mut i = 1;
    while i < N {
        let mut j = i;
        while j > 0 && list[j - 1] > list[j] {
            (list[j - 1], list[j]) = (list[j], list[j - 1]);
            j -= 1;
        }
        i += 1;
    }
    list
}

/// Elements that hold a piece of a text rather than a part of a page.
fn is_text_element(tag: Tag) -> bool {
    use Tag::*;
    matches!(tag, P | Li | Dl | Dt | Dd | Td | Th | Tr | Pre | Blockquote)
}

fn any_class(names: &str, is: fn(&str) -> bool) -> bool {
    names.split_ascii_whitespace().take(16).any(is)
}

/// Whether a class is one that Sphinx, DocBook, Texinfo, AsciiDoc or Pandoc give to chapters and sections.
fn is_part_class(name: &str) -> bool {
    let starts = ["sect", "refsect", "level"].iter().any(|start| name.starts_with(start));
    let parts = ["subsection", "subsubsection", "chapter", "appendix", "unnumbered", "preface", "refentry"];
    starts || parts.contains(&name) || name.ends_with("-level-extent")
}

/// Whether a class is one of a note that belongs to the text around it.
fn is_note_class(name: &str) -> bool {
    let notes = ["footnote", "footnotes", "footnote-list", "citation", "topic", "admonition"];
    notes.contains(&name) || ["note", "tip", "warning", "important", "caution"].contains(&name)
}

/// Whether a class is one that documentation generators give to links which mark the place of a heading.
pub fn is_permalink_class(names: &str) -> bool {
    let known = [
        "headerlink",
        "hash-link",
        "header-anchor",
        "copiable-link",
        "permalink",
        "anchor-link",
        "heading-anchor",
    ];
    names.split_ascii_whitespace().any(|name| known.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

/// Whether an inline style hides the element.
fn hides(style: &str) -> bool {
    let style = &style.as_bytes()[..style.len().min(NAME_BYTES_MAX)];
    let mut plain = [0u8; NAME_BYTES_MAX];
    let mut len = 0;
    for byte in style.iter().filter(|b| !b.is_ascii_whitespace()) {
        plain[len] = byte.to_ascii_lowercase();
        len += 1;
    }
    let has = |text: &[u8]| memchr::memmem::find(&plain[..len], text).is_some();
    has(b"display:none") || has(b"visibility:hidden")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::scanner::Token;

    #[track_caller]
    fn check(tag: &str, want: Hint) {
        let mut scanner = Scanner::new(tag);
        let Some(Token::Start { tag: name, .. }) = scanner.next_token() else { panic!("{tag} is no tag") };
        assert_eq!(of_element(name, &scanner, false), want, "{tag}");
    }

    #[test]
    fn ids_of_sections_are_their_headings() {
        check("<section id=comments>", Hint::None);
        check("<h2 id=share>", Hint::None);
        check("<div class=sect2 id=RELATED-OPTIONS>", Hint::Good);
        check("<div class='section' id='sidebar'>", Hint::Good);
        check("<div id=more-on-lists>", Hint::None);
        check("<div id=index-0>", Hint::None);
        check("<dl id=navigation>", Hint::None);
        check("<td class=right>", Hint::None);
        check("<aside>", Hint::Bad);
        check("<aside class='footnote brackets' role=note>", Hint::None);
    }

    #[test]
    fn names_give_hints() {
        check("<div>", Hint::None);
        check("<nav>", Hint::Bad);
        check("<header>", Hint::Bad);
        check("<main class=sidebar>", Hint::Main);
        check("<div class='post-comments'>", Hint::Bad);
        check("<div id=sidebarRight>", Hint::Bad);
        check("<div CLASS='Newsletter2'>", Hint::Bad);
        check("<div class='article-header'>", Hint::Good);
        check("<div class='page__header'>", Hint::Good);
        check("<div class='author'>", Hint::Weak);
        check("<div class='entry-content'>", Hint::Good);
        check("<div itemprop='articleBody'>", Hint::Main);
        check("<div role=navigation>", Hint::Bad);
        check("<div style='color:red; Display: none'>", Hint::Hidden);
        check("<div hidden>", Hint::Hidden);
        check("<body class='has-sidebar'>", Hint::None);
        check("<div class='a b'>", Hint::None);
    }

    #[test]
    fn endless_names_are_cut() {
        check(&format!("<div class='{} sidebar'>", "x".repeat(100_000)), Hint::None);
        check(&format!("<div style='{}'>", "é".repeat(100_000)), Hint::None);
    }
}
