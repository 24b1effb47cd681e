//! The elements that mean something to us, and what they mean for links and text.

/// An element name; everything without a meaning here is [`Tag::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[rustfmt::skip]
#[repr(u8)]
pub enum Tag {
    Other, A, Address, Area, Article, Aside, Base, Blockquote, Body, Br, Button, Caption, Center, Datalist, Dd,
    Details, Dialog, Dir, Div, Dl, Dt, Fieldset, Figcaption, Figure, Footer, Form, Frame, H1, H2, H3, H4, H5, H6,
    Head, Header, Hgroup, Hr, Html, Iframe, Img, Input, Label, Legend, Li, Link, Listing, Main, Math, Menu, Meta,
    Nav, Noembed, Noframes, Noscript, Object, Ol, Optgroup, Option, P, Plaintext, Pre, Script, Section, Select,
    Style, Summary, Svg, Table, Tbody, Td, Template, Textarea, Tfoot, Th, Thead, Time, Title, Tr, Ul, Video,
    Audio, Canvas, Xmp,
}

/// How many values [`Tag`] has.
pub const TAGS: usize = Tag::Xmp as usize + 1;

/// How a text run is cut into blocks around an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Part of the running text: `b`, `span`, unknown elements.
    Inline,
    /// Stands for itself: what comes before and after are different blocks.
    Block,
    /// Has no content and no end tag: `br`, `img`, …
    Void,
}

impl Tag {
    /// Finds an element by its name, in any case.
    pub fn of(name: &[u8]) -> Tag {
        if name.len() > 8 {
            return Tag::of_long(name);
        }
        let mut key = 0u64;
        for &byte in name {
            key = key << 8 | u64::from(byte.to_ascii_lowercase());
        }
        Tag::of_key(key)
    }

    fn of_long(name: &[u8]) -> Tag {
        let known = [
            (&b"blockquote"[..], Tag::Blockquote),
            (b"figcaption", Tag::Figcaption),
            (b"plaintext", Tag::Plaintext),
        ];
        known.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map_or(Tag::Other, |(_, tag)| *tag)
    }

    // The constants of the match carry the names of the tags that they lead to.
    #[allow(non_upper_case_globals)]
    #[rustfmt::skip]
    fn of_key(name: u64) -> Tag {
        // One comparison of integers per step instead of one of strings: names are read for every tag.
        macro_rules! table {
            ($($text:literal => $tag:ident,)*) => {{
                $(const $tag: u64 = key($text);)*
                match name { $($tag => Tag::$tag,)* _ => Tag::Other }
            }};
        }
        table! {
            "a" => A, "address" => Address, "area" => Area, "article" => Article, "aside" => Aside, "base" => Base,
            "body" => Body, "br" => Br, "button" => Button, "caption" => Caption, "center" => Center,
            "datalist" => Datalist, "dd" => Dd, "details" => Details, "dialog" => Dialog, "dir" => Dir, "div" => Div,
            "dl" => Dl, "dt" => Dt, "fieldset" => Fieldset, "figure" => Figure, "footer" => Footer, "form" => Form,
            "frame" => Frame, "h1" => H1, "h2" => H2, "h3" => H3, "h4" => H4, "h5" => H5, "h6" => H6, "head" => Head,
            "header" => Header, "hgroup" => Hgroup, "hr" => Hr, "html" => Html, "iframe" => Iframe, "img" => Img,
            "input" => Input, "label" => Label, "legend" => Legend, "li" => Li, "link" => Link, "listing" => Listing,
            "main" => Main, "math" => Math, "menu" => Menu, "meta" => Meta, "nav" => Nav, "noembed" => Noembed,
            "noframes" => Noframes, "noscript" => Noscript, "object" => Object, "ol" => Ol, "optgroup" => Optgroup,
            "option" => Option, "p" => P, "pre" => Pre, "script" => Script, "section" => Section, "select" => Select,
            "style" => Style, "summary" => Summary, "svg" => Svg, "table" => Table, "tbody" => Tbody, "td" => Td,
            "template" => Template, "textarea" => Textarea, "tfoot" => Tfoot, "th" => Th, "thead" => Thead,
            "time" => Time, "title" => Title, "tr" => Tr, "ul" => Ul, "video" => Video, "audio" => Audio,
            "canvas" => Canvas, "xmp" => Xmp,
        }
    }

    /// Elements whose content is not markup (HTML standard, §13.2.5.1), by their name in lower case.
    pub fn raw_text_name(self) -> std::option::Option<&'static str> {
        Some(match self {
            Tag::Script => "script",
            Tag::Style => "style",
            Tag::Title => "title",
            Tag::Textarea => "textarea",
            Tag::Iframe => "iframe",
            Tag::Noembed => "noembed",
            Tag::Noframes => "noframes",
            Tag::Xmp => "xmp",
            Tag::Plaintext => "plaintext",
            _ => return None,
        })
    }

    pub fn shape(self) -> Shape {
        use Tag::*;
        match self {
            Other | A | Label | Time | Svg | Math | Object | Video | Audio | Canvas => Shape::Inline,
            Area | Base | Br | Frame | Hr | Img | Input | Link | Meta => Shape::Void,
            _ => Shape::Block,
        }
    }

    pub fn is_heading(self) -> bool {
        (Tag::H1..=Tag::H6).contains(&self)
    }
}

const fn key(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let mut key = 0u64;
    let mut i = 0;
    while i < bytes.len() {
        key = key << 8 | bytes[i] as u64;
        i += 1;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_case() {
        let check = |name: &str, want: Tag| assert_eq!(Tag::of(name.as_bytes()), want, "{name}");
        check("a", Tag::A);
        check("TITLE", Tag::Title);
        check("BlockQuote", Tag::Blockquote);
        check("noscript", Tag::Noscript);
        check("h6", Tag::H6);
        check("h7", Tag::Other);
        check("", Tag::Other);
        check("a\0", Tag::Other);
        check("my-element", Tag::Other);
        assert!(Tag::H3.is_heading() && !Tag::Head.is_heading());
    }

    #[test]
    fn raw_text_names_lead_back() {
        for name in
            ["script", "style", "title", "textarea", "iframe", "noembed", "noframes", "xmp", "plaintext"]
        {
            assert_eq!(Tag::of(name.as_bytes()).raw_text_name(), Some(name));
        }
    }
}
