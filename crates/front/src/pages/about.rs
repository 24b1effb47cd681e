//! `/about`: who runs the crawler, how to recognise it, and how to keep it out.

use super::{Frame, PageKind, PagePath, search_box};
use crate::shared::Shared;
use crate::text::{Visitor, fill};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;

pub(crate) async fn show(State(shared): State<Arc<Shared>>, visitor: Visitor) -> Response {
    let texts = visitor.texts();
    let settings = &shared.settings;
    let robot = settings.robots_name();
    let operator = if settings.operator.is_empty() { texts.about_nobody } else { &settings.operator };
    let here = PagePath { path: "/about", params: Vec::new() };
    let top = search_box(&visitor, "", false);
    let frame =
        Frame { shared: &shared, visitor: &visitor, title: texts.about, top, here, kind: PageKind::Text };
    frame.page(html! {
        article.prose {
            h1 { (texts.about) }
            p.lead { (fill(texts.about_lead, &[("name", &settings.name)])) }
            h2 { (texts.about_who) }
            dl.facts-list {
                div { dt { (texts.about_operator) } dd dir="auto" { (operator) } }
                div { dt { (texts.about_contact) } dd { (contact(&settings.contact, texts.about_no_contact)) } }
                div { dt { (texts.about_agent) } dd { code { (settings.user_agent) } } }
                div { dt { (texts.about_robot) } dd { code { (robot) } } }
            }
            h2 { (texts.about_manners) }
            ul {
                li { (texts.about_manner_robots) }
                li { (texts.about_manner_delay) }
                li { (texts.about_manner_retry) }
                li { (texts.about_manner_meta) }
            }
            h2 { (texts.about_block) }
            p { (texts.about_block_all) }
            pre { code { "User-agent: " (robot) "\nDisallow: /" } }
            p { (texts.about_block_part) }
            pre { code { "User-agent: " (robot) "\nDisallow: /private/\nCrawl-delay: 10" } }
            p { (texts.about_block_page) }
            pre { code { "<meta name=\"robots\" content=\"noindex, noarchive\">" } }
            p { (texts.about_block_when) }
            @if settings.clicks { p { (texts.about_clicks) } }
            h2 { (texts.about_software) }
            p { (texts.about_software_text) }
        }
    })
}

/// A link where the contact is an address of a known kind, else plain text.
fn contact(contact: &str, nobody: &str) -> Markup {
    let plain = !contact.contains(|c: char| c.is_whitespace() || c.is_control());
    html! {
        @if contact.is_empty() {
            (nobody)
        } @else if plain && (contact.starts_with("https://") || contact.starts_with("http://")) {
            a href=(contact) rel="noopener" { (contact) }
        } @else if plain && contact.contains('@') && !contact.contains([':', '?', '&']) {
            a href={ "mailto:" (contact) } { (contact) }
        } @else {
            (contact)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::contact;

    #[test]
    fn only_known_kinds_of_address_become_links() {
        let check = |text: &str, linked: bool| {
            assert_eq!(contact(text, "-").into_string().contains("href"), linked, "{text}");
        };
        check("ops@example.org", true);
        check("https://example.org/contact", true);
        check("javascript:alert(1)", false);
        check("javascript:a@b", false);
        check("call Ana at 5 pm", false);
        check("", false);
    }
}
