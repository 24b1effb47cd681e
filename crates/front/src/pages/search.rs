//! `/search`: what was found.

use super::copy::copy_at;
use super::{Frame, PageKind, PagePath, href, is_treacherous, search_box};
use crate::failure::Failure;
use crate::params::{Params, link};
use crate::question::{Question, RANK_MAX};
use crate::shared::Shared;
use crate::text::{Texts, Visitor, counted, fill, format};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use farol_base::query::{Answer, Fragment, Hit};
use farol_base::{CanonicalUrl, Origin};
use farol_query::Complaint;
use maud::{Markup, html};
use std::sync::Arc;

/// Longest title and snippet shown, in characters, whatever the engine hands over.
const TITLE_CHARS_MAX: usize = 200;
const SNIPPET_CHARS_MAX: usize = 600;

pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    if params.text("q").is_empty() {
        return Ok(Redirect::to(&link("/", [("hl", visitor.hl())])).into_response());
    }
    let size = shared.settings.results_per_page;
    // Nobody reads beyond the deepest page, so that is the one shown.
    let page = params.number("page", 1, 1..=usize::MAX)?.min(RANK_MAX / size);
    let question = Question::read(params.text("q"), (page - 1) * size, size, visitor.languages)
        .with_words_as_written(params.text("exact") == "1");
    let answer = if question.is_empty() {
        Answer::default()
    } else {
        let request = question.request.clone();
        shared.ask(move |engine| engine.search(&request)).await??
    };
    let results = Results {
        visitor: &visitor,
        question: &question,
        answer: &answer,
        page,
        size,
        clicks: shared.settings.clicks,
    };
    let here = PagePath { path: "/search", params: params.without("hl").collect() };
    let top = search_box(&visitor, &question.text, false);
    let frame =
        Frame { shared: &shared, visitor: &visitor, title: &question.text, top, here, kind: PageKind::Text };
    Ok(frame.page(results.show()))
}

/// `/clicked`: a browser says that a result was opened. Nobody waits for an answer.
pub(crate) async fn clicked(
    State(shared): State<Arc<Shared>>,
    params: Params,
) -> Result<StatusCode, Failure> {
    let text = params.text("url");
    let url = CanonicalUrl::parse(text)
        .map_err(|error| Failure::invalid(format!("{text:?} cannot have been opened: {error}")))?;
    if shared.settings.clicks {
        shared.ask(move |engine| engine.clicked(&url)).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

struct Results<'a> {
    visitor: &'a Visitor,
    question: &'a Question,
    answer: &'a Answer,
    page: usize,
    size: usize,
    clicks: bool,
}

impl Results<'_> {
    fn show(&self) -> Markup {
        let texts = self.visitor.texts();
        html! {
            h1.unseen { (texts.results) }
            @if !self.answer.hits.is_empty() { (self.summary()) }
            @if let Some(shards) = self.answer.shards.filter(|shards| shards.is_partial()) {
                @let (answered, total) = (shards.answered.to_string(), shards.total.to_string());
                p.notes role="status" { (fill(texts.partial, &[("answered", &answered), ("total", &total)])) }
            }
            @if !self.question.complaints.is_empty() {
                ul.notes aria-label=(texts.notes) {
                    @for one in &self.question.complaints { li { (complaint(one, texts)) } }
                }
            }
            @if let Some(better) = self.answer.corrected.as_ref().map(farol_query::write) {
                p.meant role="status" {
                    (fill(texts.nothing_as_written, &[("asked", &shorten(&self.question.text, 80))])) " "
                    (texts.showing_for) " " a href=(self.search(&better, 1)) dir="auto" { (better) } ". "
                    a.as-written href=(self.search_as_written(1)) { (texts.as_written) }
                }
            }
            @if let Some(better) = self.answer.suggestion.as_ref().map(farol_query::write) {
                p.meant { (texts.did_you_mean) " " a href=(self.search(&better, 1)) dir="auto" { (better) } }
            }
            @if self.answer.hits.is_empty() {
                (self.nothing())
            } @else {
                ol.hits start=(self.question.request.first + 1) {
                    @for hit in self.answer.hits.iter().take(self.size) { li { (self.hit(hit)) } }
                }
                (self.pages())
            }
        }
    }

    fn summary(&self) -> Markup {
        let texts = self.visitor.texts();
        let total = format::number(self.answer.total as u64, self.visitor.locale);
        let took = format::span(self.answer.took, self.visitor.locale);
        let template = counted(self.answer.total as u64, texts.found_one, texts.found);
        html! {
            p.summary role="status" {
                (fill(template, &[("count", &total), ("time", &took)]))
                @if self.page > 1 { " · " (fill(texts.page_number, &[("page", &self.page.to_string())])) }
            }
        }
    }

    fn hit(&self, hit: &Hit) -> Markup {
        let texts = self.visitor.texts();
        let locale = self.visitor.locale;
        let lang = hit.language.map(|language| language.code().to_string());
        let host = hit.url.host();
        // Browsers that do not tell are not asked in another way.
        let ping = self.clicks.then(|| link("/clicked", [("url", hit.url.as_str())]));
        html! {
            article.hit {
                p.crumb { (breadcrumb(&hit.url)) }
                h2 dir="auto" lang=[lang.as_deref()] {
                    a href=(href(&hit.url)) rel="noreferrer noopener nofollow" ping=[ping] { (title(hit)) }
                }
                p.snippet dir="auto" lang=[lang.as_deref()] { (fragments(&hit.snippet, SNIPPET_CHARS_MAX)) }
                p.facts {
                    @if hit.pinned { span.pinned { (texts.pinned) } }
                    @if let Some(dated) = hit.dated {
                        time datetime=(dated) { (format::date(dated, locale)) }
                    }
                    @if let Some(language) = &lang {
                        span.language title=(texts.page_language) { (language) }
                    }
                    @match &hit.source {
                        None => {
                            a href=(self.link("/copy", &[("url", hit.url.as_str()), ("q", &self.question.text)])) { (texts.stored_copy) }
                        }
                        Some(source) => { (self.source(hit, source)) }
                    }
                    @if hit.more_from_host {
                        @let more = format!("{} site:{}", self.question.text, host.name());
                        a href=(self.search(&more, 1)) { (fill(texts.more_from, &[("host", host.name())])) }
                    }
                    @if hit.duplicates > 0 {
                        @let count = format::number(hit.duplicates.into(), locale);
                        @let template = counted(hit.duplicates.into(), texts.similar_one, texts.similar);
                        span { (fill(template, &[("count", &count)])) }
                    }
                }
            }
        }
    }

    /// Who fetched a page for this engine; its copy is linked to where it is.
    fn source(&self, hit: &Hit, source: &Origin) -> Markup {
        let texts = self.visitor.texts();
        let text = fill(texts.fetched_by, &[("name", &source.label())]);
        html! {
            @if let Some(copy) = copy_at(source, &hit.url) {
                a href=(copy) rel="noreferrer noopener nofollow" { (texts.stored_copy) }
            }
            @if source.site.is_empty() {
                span.source { (text) }
            } @else {
                a.source href=(source.site) rel="noreferrer noopener nofollow" { (text) }
            }
        }
    }

    /// Earlier pages by number, and the next one where there is more.
    fn pages(&self) -> Markup {
        let texts = self.visitor.texts();
        let last = self.page + usize::from(self.has_next());
        if last == 1 {
            return html! {};
        }
        html! {
            nav.pages aria-label=(texts.pagination) {
                @if self.page > 1 {
                    a rel="prev" href=(self.turn_to(self.page - 1)) { "‹ " (texts.previous) }
                }
                @for number in self.page.saturating_sub(4).max(1)..=last {
                    @if number == self.page {
                        span.current aria-current="page" { (number) }
                    } @else {
                        a href=(self.turn_to(number))
                            aria-label=(fill(texts.page_number, &[("page", &number.to_string())])) { (number) }
                    }
                }
                @if self.has_next() {
                    a rel="next" href=(self.turn_to(self.page + 1)) { (texts.next) " ›" }
                }
            }
        }
    }

    fn has_next(&self) -> bool {
        self.answer.more && (self.page + 1) * self.size <= RANK_MAX
    }

    /// Concrete things to try, each only where it applies.
    fn nothing(&self) -> Markup {
        let texts = self.visitor.texts();
        let query = &self.question.request.query;
        let words: Vec<&str> =
            query.wanted.iter().filter(|term| !term.phrase).map(|term| &*term.text).collect();
        let mut loose = query.clone();
        loose.filters = Default::default();
        let without_filters =
            (!query.filters.is_empty() && !loose.is_empty()).then(|| farol_query::write(&loose));
        loose.wanted.iter_mut().for_each(|term| term.phrase = false);
        loose.unwanted.clear();
        let as_words = query.wanted.iter().any(|term| term.phrase).then(|| farol_query::write(&loose));
        html! {
            section.nothing {
                @if self.page > 1 {
                    h2 { (texts.no_more) }
                    p { a href=(self.turn_to(1)) { (texts.first_page) } }
                } @else {
                    h2 { (texts.nothing_for) " " q dir="auto" { (self.question.text) } }
                    ul {
                        @if let Some(text) = &without_filters {
                            li { (texts.try_without_filters) " " a href=(self.search(text, 1)) dir="auto" { (text) } }
                        }
                        @if let Some(text) = &as_words {
                            li { (texts.try_without_quotes) " " a href=(self.search(text, 1)) dir="auto" { (text) } }
                        }
                        @if words.len() > 1 {
                            li {
                                (texts.try_fewer)
                                @for word in words.iter().take(6) { " " a.word href=(self.search(word, 1)) dir="auto" { (word) } }
                            }
                        }
                        li { (texts.try_spelling) }
                        li { (texts.try_other_words) }
                        li { (texts.try_scope) " " a href=(self.link("/about", &[])) { (texts.about) } }
                    }
                }
            }
        }
    }

    fn search(&self, text: &str, page: usize) -> String {
        let number = page.to_string();
        self.link("/search", &[("q", text), ("page", if page > 1 { &number } else { "" })])
    }

    /// The question as it was typed, not corrected.
    fn search_as_written(&self, page: usize) -> String {
        let number = page.to_string();
        let page = if page > 1 { &*number } else { "" };
        self.link("/search", &[("q", &self.question.text), ("exact", "1"), ("page", page)])
    }

    /// Another page of these results.
    fn turn_to(&self, page: usize) -> String {
        match self.question.request.query.as_written {
            true => self.search_as_written(page),
            false => self.search(&self.question.text, page),
        }
    }

    fn link(&self, path: &str, params: &[(&str, &str)]) -> String {
        link(path, params.iter().copied().chain([("hl", self.visitor.hl())]))
    }
}

/// A complaint of the query parser in the visitor's locale.
fn complaint(complaint: &Complaint, texts: &Texts) -> String {
    let template = match complaint {
        Complaint::UnclosedQuote => texts.note_unclosed_quote,
        Complaint::UnknownFilter(_) => texts.note_unknown_filter,
        Complaint::BadDate { .. } => texts.note_bad_date,
        Complaint::BadLanguage(_) => texts.note_bad_language,
        Complaint::BadSite(_) => texts.note_bad_site,
        Complaint::BadFileType(_) => texts.note_bad_file_type,
        Complaint::EmptyFilter(_) => texts.note_empty_filter,
        Complaint::OperatorWord(_) => texts.note_operator_word,
        Complaint::OnlyExclusions => texts.note_only_exclusions,
        Complaint::AddressAsSite(_) => texts.note_address_as_site,
        Complaint::TooLong { .. } => texts.note_too_long,
        other => return other.to_string(),
    };
    fill(template, &[("subject", &complaint.subject())])
}

/// The title, or the address of a page without one.
fn title(hit: &Hit) -> Markup {
    let blank = hit.title.iter().all(|fragment| fragment.text.trim().is_empty());
    html! {
        @if blank { (shorten(hit.url.as_str(), 80)) } @else { (fragments(&hit.title, TITLE_CHARS_MAX)) }
    }
}

fn fragments(fragments: &[Fragment], chars_max: usize) -> Markup {
    let mut left = chars_max;
    let mut shown = Vec::with_capacity(fragments.len().min(chars_max));
    for fragment in fragments {
        if left == 0 {
            break;
        }
        let text = shorten(&fragment.text, left);
        left = left.saturating_sub(text.chars().count());
        shown.push((text, fragment.hit));
    }
    html! {
        @for (text, hit) in shown {
            @if hit { mark { (text) } } @else { (text) }
        }
    }
}

/// Cuts a text to `chars_max` characters and drops those that would disturb its surroundings.
fn shorten(text: &str, chars_max: usize) -> String {
    let mut chars = text.chars().filter(|c| !is_treacherous(*c) || *c == '\n');
    let mut short: String = chars.by_ref().take(chars_max).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

/// Host and path of an address, readable: `example.org › docs › … › page`.
///
/// The host name stays in its ASCII form, so that look-alike letters show; escapes in the path are resolved.
fn breadcrumb(url: &CanonicalUrl) -> Markup {
    let segments: Vec<String> = url
        .path()
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| shorten(&unescape(segment), 40))
        .collect();
    let (head, tail) = match segments.len() {
        0..=4 => (&segments[..], &segments[..0]),
        count => (&segments[..2], &segments[count - 1..]),
    };
    let host = url.host();
    html! {
        bdi.host { (shorten(host.authority(), 80)) }
        @for segment in head { span.sep { " › " } bdi { (segment) } }
        @if !tail.is_empty() { span.sep { " › … › " } @for segment in tail { bdi { (segment) } } }
    }
}

/// Resolves percent escapes where the result is readable text.
fn unescape(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| segment.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_become_readable() {
        let check = |url: &str, want: &str| {
            let html = breadcrumb(&CanonicalUrl::parse(url).unwrap()).into_string();
            let mut text = String::new();
            let mut inside = false;
            for c in html.chars() {
                match c {
                    '<' => inside = true,
                    '>' => inside = false,
                    c if !inside => text.push(c),
                    _ => {}
                }
            }
            assert_eq!(text, want, "{url}");
        };
        check("https://example.org/", "example.org");
        check("https://example.org:8443/a/b/?q", "example.org:8443 › a › b");
        check("http://h/a/b/c/d/e", "h › a › b › … › e");
        check("http://h/caf%C3%A9", "h › café");
        check("http://h/%E2%80%AEtxt.exe", "h › txt.exe"); // A direction override does not turn the name round.
        check("http://h/%FF%FE", "h › %FF%FE");
        check("http://h/%3Cscript%3E", "h › &lt;script&gt;");
        check("http://bücher.example/", "xn--bcher-kva.example");
    }

    #[test]
    fn texts_are_cut() {
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten("abcd", 3), "abc…");
        assert_eq!(shorten("a\u{202E}b\0c", 9), "abc");
        let long = vec![
            Fragment { text: "x".repeat(150), hit: true },
            Fragment { text: "y".repeat(150), hit: false },
            Fragment { text: "z".into(), hit: false },
        ];
        let html = fragments(&long, 200).into_string();
        assert!(html.contains('y') && html.contains('…') && !html.contains('z'));
    }

    proptest! {
        #[test]
        fn no_segment_breaks_unescaping(text in ".{0,60}") {
            let _ = unescape(&text);
        }
    }
}
