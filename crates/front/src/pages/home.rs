//! `/`: the box, and how to ask.

use super::{Frame, PageKind, PagePath, mark, search_box};
use crate::failure::Failure;
use crate::params::Params;
use crate::shared::Shared;
use crate::text::{Visitor, counted, fill, format};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;

pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    // The page is of use without its one number, so a busy engine does not spoil it.
    let documents = shared.ask(|engine| engine.status().index.documents).await.ok();
    let frame = Frame {
        shared: &shared,
        visitor: &visitor,
        title: "",
        top: html! {},
        here: PagePath { path: "/", params: params.without("hl").filter(|(key, _)| *key == "q").collect() },
        kind: PageKind::Home,
    };
    Ok(frame.page(html! {
        div.hero {
            (mark())
            h1 { (shared.settings.name) }
            (search_box(&visitor, params.text("q"), true))
            p.quiet {
                @match documents {
                    Some(0) => (texts.home_empty),
                    Some(count) => {
                        @let template = counted(count, texts.home_pages_one, texts.home_pages);
                        (fill(template, &[("count", &format::number(count, visitor.locale))]))
                    }
                    None => (texts.home_busy),
                }
            }
            (how_to_ask(&visitor))
        }
    }))
}

/// The query language, folded away.
fn how_to_ask(visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    let rows = [
        ("\"mar azul\"", texts.ask_phrase),
        ("-mar", texts.ask_without),
        ("mar*", texts.ask_prefix),
        ("site:example.org", texts.ask_site),
        ("intitle:mar", texts.ask_title),
        ("inurl:mar", texts.ask_url),
        ("lang:pt", texts.ask_language),
        ("filetype:txt", texts.ask_file_type),
        ("after:2023 before:2024-06", texts.ask_dates),
    ];
    html! {
        details.ask {
            summary { (texts.ask_title_line) }
            dl {
                @for (example, meaning) in rows {
                    div { dt { code { (example) } } dd { (meaning) } }
                }
            }
            p.quiet { (texts.ask_keys) }
        }
    }
}
