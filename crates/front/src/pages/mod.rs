//! Pages for everybody, and the frame that every page stands in.

pub(crate) mod about;
pub(crate) mod copy;
pub(crate) mod failure;
pub(crate) mod home;
pub(crate) mod search;

use crate::assets::{MARK, versioned};
use crate::params::link;
use crate::shared::Shared;
use crate::text::{Locale, Visitor};
use axum::response::{Html, IntoResponse, Response};
use farol_base::CanonicalUrl;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// What the frame around a page needs to know.
pub(crate) struct Frame<'a> {
    pub shared: &'a Shared,
    pub visitor: &'a Visitor,
    /// What the browser's tab says, before the engine's name; empty for the name alone.
    pub title: &'a str,
    /// Shown at the top, beside the mark.
    pub top: Markup,
    /// This page without its locale, for the links to the other locales.
    pub here: PagePath<'a>,
    pub kind: PageKind,
}

/// A path with its parameters.
#[derive(Clone, Default)]
pub(crate) struct PagePath<'a> {
    pub path: &'a str,
    pub params: Vec<(&'a str, &'a str)>,
}

/// How a page is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// The mark in the middle, nothing at the top.
    Home,
    /// A column of text.
    Text,
    /// The width of the screen, with the script for live charts.
    Admin,
    /// The height of the screen, for a framed copy.
    Copy,
}

impl Frame<'_> {
    /// Puts the content into the page.
    pub fn page(&self, content: Markup) -> Response {
        let texts = self.visitor.texts();
        let name = &self.shared.settings.name;
        let class = match self.kind {
            PageKind::Home => "home",
            PageKind::Text => "text",
            PageKind::Admin => "admin",
            PageKind::Copy => "copy",
        };
        let page = html! {
            (DOCTYPE)
            html lang=(self.visitor.locale.code()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    @if self.kind != PageKind::Home { meta name="robots" content="noindex"; }
                    @if self.kind == PageKind::Admin && self.here.path == "/admin" {
                        noscript { meta http-equiv="refresh" content="10"; }
                    }
                    title { @if !self.title.is_empty() { (self.title) " · " } (name) }
                    link rel="stylesheet" href=(versioned("/assets/style.css"));
                    link rel="icon" type="image/svg+xml" href="/favicon.svg";
                    link rel="search" type="application/opensearchdescription+xml" title=(name) href="/opensearch.xml";
                    script src=(versioned("/assets/suggest.js")) defer {}
                    @if self.kind == PageKind::Admin { script src=(versioned("/assets/admin.js")) defer {} }
                }
                body class=(class) {
                    a.skip href="#main" { (texts.skip) }
                    @if self.kind != PageKind::Home {
                        header.top {
                            a.brand href=(self.link("/", [])) aria-label=(name) {
                                (mark()) span.name { (name) }
                            }
                            (self.top)
                        }
                    }
                    main id="main" tabindex="-1" { (content) }
                    (self.foot())
                }
            }
        };
        Html(page.into_string()).into_response()
    }

    /// A link that keeps the locale that was chosen.
    pub fn link<'a>(&self, path: &str, params: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        link(path, params.into_iter().chain([("hl", self.visitor.hl())]))
    }

    fn foot(&self) -> Markup {
        let texts = self.visitor.texts();
        html! {
            footer.foot {
                nav aria-label=(texts.footer) {
                    a href=(self.link("/about", [])) { (texts.about) }
                    a href="/api/v1/openapi.json" { (texts.api) }
                    a href=(self.link("/admin", [])) { (texts.admin) }
                }
                nav.locales aria-label=(texts.language) {
                    @for locale in Locale::ALL {
                        @let to = link(self.here.path, self.here.params.iter().copied().chain([("hl", locale.code())]));
                        @if locale == self.visitor.locale {
                            span aria-current="true" lang=(locale.code()) { (locale.name()) }
                        } @else {
                            a href=(to) hreflang=(locale.code()) lang=(locale.code()) { (locale.name()) }
                        }
                    }
                }
            }
        }
    }
}

/// The lighthouse.
pub(crate) fn mark() -> Markup {
    html! { span.mark aria-hidden="true" { (PreEscaped(MARK)) } }
}

/// The box that people type into.
pub(crate) fn search_box(visitor: &Visitor, text: &str, focus: bool) -> Markup {
    let texts = visitor.texts();
    html! {
        form.search action="/search" method="get" role="search" {
            div.box {
                input type="search" name="q" id="q" value=(text) maxlength="2048" autofocus[focus]
                    autocomplete="off" autocapitalize="off" spellcheck="false" enterkeyhint="search"
                    aria-label=(texts.search_label) placeholder=(texts.search_placeholder)
                    aria-keyshortcuts="/" data-suggest=(texts.suggestions);
                @if visitor.chosen { input type="hidden" name="hl" value=(visitor.hl()); }
                button type="submit" { (icon_search()) span { (texts.search) } }
            }
        }
    }
}

fn icon_search() -> Markup {
    html! {
        svg viewBox="0 0 24 24" aria-hidden="true" focusable="false" {
            circle cx="10.5" cy="10.5" r="6.5" fill="none" stroke="currentColor" stroke-width="2.2" {}
            path d="M15.5 15.5 21 21" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" {}
        }
    }
}

/// An address that may stand in a link: http and https only.
pub(crate) fn href(url: &CanonicalUrl) -> &str {
    let text = url.as_str();
    if text.starts_with("http://") || text.starts_with("https://") { text } else { "about:blank" }
}

/// Characters that change how the text around them is shown: controls and direction marks.
pub(crate) fn is_treacherous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}
