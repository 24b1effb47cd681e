//! `/admin/federation`: partners and agreements, a page for each agreement, and the levers for it.
//!
//! Where nothing is shared there is no such page.

use super::access::Admin;
use super::page;
use crate::failure::Failure;
use crate::pages::PagePath;
use crate::params::{FormParams, Params, link};
use crate::shared::Shared;
use crate::text::{Texts, Visitor, fill, format};
use crate::{
    EngineError, FederationAgreement, FederationFlow, FederationOrder, FederationPartner, FederationStatus,
};
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Duration;

/// Rows shown of each list; `/api/v1/federation` tells all.
const ROWS_MAX: usize = 500;
/// Longest id that is passed on, in bytes; they have 32.
const ID_BYTES_MAX: usize = 64;

pub(crate) async fn show(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let status = of(&shared).await?;
    let shown = SharedParts { status: &status, visitor: &visitor };
    let content = html! {
        section.wide.cluster {
            h1 { (texts.federation) }
            (shown.own())
            (shown.agreements())
            (shown.partners())
            (shown.refused(texts.federation_door, &status.refused))
        }
    };
    let here = PagePath { path: "/admin/federation", ..PagePath::default() };
    Ok(page(&shared, &visitor, Some(&admin), texts.federation, here, content))
}

pub(crate) async fn show_agreement(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let status = of(&shared).await?;
    let agreement = find(&status, params.text("id"))?;
    let shown = SharedParts { status: &status, visitor: &visitor };
    let here = PagePath { path: "/admin/federation/agreement", params: vec![("id", &*agreement.id)] };
    let content = html! {
        section.wide.cluster {
            h1 { (texts.federation_agreement) " " code { (short(&agreement.id)) } }
            (shown.agreement(agreement))
            (shown.refused(texts.federation_refused, &agreement.refused))
            p { a.button href=(shown.to("/admin/federation")) { (texts.back_federation) } }
        }
    };
    Ok(page(&shared, &visitor, Some(&admin), texts.federation_agreement, here, content))
}

/// What an operator decides about an agreement.
#[derive(Clone, Copy)]
enum Lever {
    Accept,
    Refuse,
    End,
}

impl Lever {
    fn path(self) -> &'static str {
        match self {
            Lever::Accept => "/admin/federation/accept",
            Lever::Refuse => "/admin/federation/refuse",
            Lever::End => "/admin/federation/end",
        }
    }

    /// Its name, the question, and what follows.
    fn texts(self, texts: &Texts) -> [&'static str; 3] {
        match self {
            Lever::Accept => {
                [texts.federation_accept, texts.federation_accept_question, texts.federation_accept_text]
            }
            Lever::Refuse => {
                [texts.federation_refuse, texts.federation_refuse_question, texts.federation_refuse_text]
            }
            Lever::End => [texts.federation_end, texts.federation_end_question, texts.federation_end_text],
        }
    }

    fn order(self, agreement: String) -> FederationOrder {
        match self {
            Lever::Accept => FederationOrder::Accept { agreement },
            Lever::Refuse => FederationOrder::Refuse { agreement },
            Lever::End => FederationOrder::End { agreement, purge: false },
        }
    }
}

pub(crate) async fn confirm_accept(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    confirm(Lever::Accept, &admin, &shared, &visitor, &params).await
}

pub(crate) async fn confirm_refuse(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    confirm(Lever::Refuse, &admin, &shared, &visitor, &params).await
}

pub(crate) async fn confirm_end(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    confirm(Lever::End, &admin, &shared, &visitor, &params).await
}

pub(crate) async fn accept(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    act(Lever::Accept, &admin, &shared, &visitor, &form).await
}

pub(crate) async fn refuse(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    act(Lever::Refuse, &admin, &shared, &visitor, &form).await
}

pub(crate) async fn end(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    act(Lever::End, &admin, &shared, &visitor, &form).await
}

/// Asks once more before anything is decided.
async fn confirm(
    lever: Lever,
    admin: &Admin,
    shared: &Shared,
    visitor: &Visitor,
    params: &Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let status = of(shared).await?;
    let agreement = find(&status, params.text("id"))?;
    let [name, question, text] = lever.texts(texts);
    let about = link("/admin/federation/agreement", [("id", &*agreement.id), ("hl", visitor.hl())]);
    let here = PagePath { path: lever.path(), params: vec![("id", &*agreement.id)] };
    let content = html! {
        section.confirm {
            h1 { (fill(question, &[("name", partner_name(agreement))])) }
            p { code { (agreement.view) } }
            p { (text) }
            form method="post" action=(link(lever.path(), [("hl", visitor.hl())])) {
                (admin.field())
                input type="hidden" name="id" value=(agreement.id);
                button.danger type="submit" { (name) }
                a.button href=(about) { (texts.cancel) }
            }
        }
    };
    Ok(page(shared, visitor, Some(admin), name, here, content))
}

async fn act(
    lever: Lever,
    admin: &Admin,
    shared: &Shared,
    visitor: &Visitor,
    form: &Params,
) -> Result<Response, Failure> {
    admin.check(form)?;
    let texts = visitor.texts();
    let done = carry_out(shared, lever.order(id(form.text("id"))?)).await??;
    let content = html! {
        section.done role="status" {
            h1 { (texts.done) }
            p dir="auto" { (done) }
            p { a.button href=(link("/admin/federation", [("hl", visitor.hl())])) { (texts.back_federation) } }
        }
    };
    let here = PagePath { path: "/admin/federation", ..PagePath::default() };
    Ok(page(shared, visitor, Some(admin), texts.done, here, content))
}

/// What is shared, or the sentence that nothing is.
pub(crate) async fn of(shared: &Shared) -> Result<FederationStatus, Failure> {
    let status = shared.ask(|engine| engine.federation()).await?;
    status.ok_or_else(|| {
        Failure::not_found(
            "this engine shares nothing: set enabled = true under [federation] and start it again",
        )
    })
}

/// Has an order carried out and gives the engine's sentence about it.
pub(crate) async fn carry_out(
    shared: &Shared,
    order: FederationOrder,
) -> Result<Result<String, EngineError>, Failure> {
    tracing::info!(?order, "an operator's order about what is shared");
    shared.ask(move |engine| engine.federation_order(order)).await
}

/// An agreement's id as somebody sent it, of a length that makes sense.
fn id(text: &str) -> Result<String, Failure> {
    match text.len() {
        0 => Err(Failure::invalid("id: the id of an agreement is needed")),
        1..=ID_BYTES_MAX => Ok(text.to_string()),
        _ => Err(Failure::invalid("id: it is too long")),
    }
}

fn find<'a>(status: &'a FederationStatus, text: &str) -> Result<&'a FederationAgreement, Failure> {
    let id = id(text)?;
    status.agreement(&id).ok_or_else(|| Failure::not_found(format!("no agreement has the id {id}")))
}

/// As much of a key or an id as tells it from others.
fn short(id: &str) -> String {
    id.chars().take(if id.starts_with("farol:") { 18 } else { 8 }).collect()
}

fn partner_name(agreement: &FederationAgreement) -> &str {
    if agreement.partner_name.is_empty() { &agreement.partner } else { &agreement.partner_name }
}

/// What is shared, as it is shown to somebody.
struct SharedParts<'a> {
    status: &'a FederationStatus,
    visitor: &'a Visitor,
}

impl SharedParts<'_> {
    fn texts(&self) -> &'static Texts {
        self.visitor.texts()
    }

    fn to(&self, path: &str) -> String {
        link(path, [("hl", self.visitor.hl())])
    }

    fn number(&self, value: u64) -> String {
        format::number(value, self.visitor.locale)
    }

    fn ago(&self, value: Duration) -> String {
        let whole = if value < Duration::from_secs(1) { value } else { Duration::from_secs(value.as_secs()) };
        fill(self.texts().cluster_ago, &[("time", &format::span(whole, self.visitor.locale))])
    }

    fn own(&self) -> Markup {
        let texts = self.texts();
        html! {
            dl.tiles.small {
                div { dt { (texts.federation_partner) } dd { (self.status.name) } dd.quiet { (self.status.address) } }
                div { dt { (texts.federation_about) } dd.quiet { code { (self.status.view) } } }
                div { dt { (texts.federation_key) } dd.quiet { code { (self.status.id) } } }
            }
        }
    }

    fn agreements(&self) -> Markup {
        let texts = self.texts();
        html! {
            h2 { (texts.federation_agreements) }
            @if self.status.agreements.is_empty() { p.quiet { (texts.federation_none) } } @else {
                div.scroll.cards tabindex="0" role="region" aria-label=(texts.federation_agreements) {
                    table {
                        thead {
                            tr {
                                th scope="col" { (texts.federation_agreement) }
                                th scope="col" { (texts.state) }
                                th scope="col" { (texts.federation_pages) }
                                th.number scope="col" { (texts.federation_sent) }
                                th.number scope="col" { (texts.federation_received) }
                                th.number scope="col" { (texts.federation_lag) }
                                th.number scope="col" { (texts.federation_refused) }
                            }
                        }
                        tbody {
                            @for agreement in self.status.agreements.iter().take(ROWS_MAX) { (self.row(agreement)) }
                        }
                    }
                }
            }
        }
    }

    fn row(&self, agreement: &FederationAgreement) -> Markup {
        let texts = self.texts();
        let about = link("/admin/federation/agreement", [("id", &*agreement.id), ("hl", self.visitor.hl())]);
        let refused: u64 = agreement.refused.iter().map(|(_, count)| count).sum();
        let flow = |flow: FederationFlow| {
            let bytes = format::bytes(flow.bytes, self.visitor.locale);
            if flow.packets == 0 {
                "–".to_string()
            } else {
                format!("{} · {bytes}", self.number(flow.pages))
            }
        };
        html! {
            tr {
                th scope="row" {
                    a href=(about) { (self.direction(agreement)) }
                    @if agreement.is_undecided { " " span.badge { (texts.federation_waits) } }
                    @if !agreement.trouble.is_empty() { div.bad dir="auto" { (agreement.trouble) } }
                }
                td data-label=(texts.state) { (self.state(agreement)) }
                td data-label=(texts.federation_pages) { code { (agreement.view) } }
                td.number data-label=(texts.federation_sent) { (flow(agreement.sent)) }
                td.number data-label=(texts.federation_received) { (flow(agreement.received)) }
                td.number data-label=(texts.federation_lag) { (agreement.lag.map_or("–".into(), |lag| self.ago(lag))) }
                td.number data-label=(texts.federation_refused) { (self.number(refused)) }
            }
        }
    }

    fn direction(&self, agreement: &FederationAgreement) -> String {
        let texts = self.texts();
        let text = if agreement.is_provider { texts.federation_sends } else { texts.federation_gets };
        fill(text, &[("name", partner_name(agreement))])
    }

    fn state(&self, agreement: &FederationAgreement) -> Markup {
        let texts = self.texts();
        let (lamp, name) = match agreement.state.as_str() {
            "proposed" => ("joining", texts.agreed_proposed),
            "considering" => ("warned", texts.agreed_considering),
            "promised" => ("joining", texts.agreed_promised),
            "serving" => ("up", texts.agreed_serving),
            "lapsed" => ("warned", texts.agreed_lapsed),
            "ending" => ("draining", texts.agreed_ending),
            "filling" => ("joining", texts.agreed_filling),
            "chaining" => ("joining", texts.agreed_chaining),
            "active" => ("up", texts.agreed_active),
            "silent" => ("warned", texts.agreed_silent),
            "taken-back" => ("dead", texts.agreed_taken_back),
            _ => ("left", texts.agreed_ended),
        };
        html! { span class={ "member " (lamp) } { span.lamp aria-hidden="true" {} " " (name) } }
    }

    fn agreement(&self, agreement: &FederationAgreement) -> Markup {
        let texts = self.texts();
        let terms = [
            ("delivery", &*agreement.delivery),
            ("grade", &*agreement.grade),
            ("revision", &*agreement.revision.to_string()),
        ];
        let lever = |lever: Lever| {
            let [name, ..] = lever.texts(texts);
            let to = link(lever.path(), [("id", &*agreement.id), ("hl", self.visitor.hl())]);
            html! { a.button href=(to) { (name) "…" } " " }
        };
        let is_over = matches!(agreement.state.as_str(), "ended" | "ending");
        html! {
            p.state.member { (self.state(agreement)) " " (self.direction(agreement)) }
            @if !agreement.trouble.is_empty() { p.bad dir="auto" { (agreement.trouble) } }
            p {
                @if agreement.is_undecided { (lever(Lever::Accept)) (lever(Lever::Refuse)) }
                @else if !is_over { (lever(Lever::End)) }
            }
            dl.tiles.small {
                div { dt { (texts.federation_pages) } dd.quiet { code { (agreement.view) } } }
                @if !agreement.in_force.is_empty() {
                    div { dt { (texts.federation_in_force) } dd.quiet { code { (agreement.in_force) } } }
                }
                div { dt { (texts.federation_terms) } dd.quiet { (fill(texts.federation_revision, &terms)) } }
                (self.flow(texts.federation_sent, agreement.sent))
                (self.flow(texts.federation_received, agreement.received))
                div {
                    dt { (texts.federation_waiting) }
                    dd { (format::bytes(agreement.waiting.bytes, self.visitor.locale)) }
                    @if let Some(since) = agreement.waiting_since { dd.quiet { (self.ago(since)) } }
                }
                div {
                    dt { (texts.federation_lag) }
                    dd { (agreement.lag.map_or("–".into(), |lag| self.ago(lag))) }
                }
                div { dt { (texts.federation_key) } dd.quiet { code { (agreement.partner) } } }
            }
        }
    }

    fn flow(&self, name: &str, flow: FederationFlow) -> Markup {
        let values = [
            ("pages", &*self.number(flow.pages)),
            ("gone", &*self.number(flow.gone)),
            ("packets", &*self.number(flow.packets)),
        ];
        html! {
            div {
                dt { (name) }
                dd { (format::bytes(flow.bytes, self.visitor.locale)) }
                dd.quiet { (fill(self.texts().federation_flow, &values)) }
            }
        }
    }

    fn partners(&self) -> Markup {
        let texts = self.texts();
        html! {
            h2 { (texts.federation_partners) }
            @if self.status.partners.is_empty() { p.quiet { (texts.federation_no_partner) } } @else {
                div.scroll.cards tabindex="0" role="region" aria-label=(texts.federation_partners) {
                    table {
                        thead {
                            tr {
                                th scope="col" { (texts.federation_partner) }
                                th scope="col" { (texts.address) }
                                th scope="col" { (texts.federation_about) }
                                th.number scope="col" { (texts.cluster_heard) }
                                th.number scope="col" { (texts.federation_letters) }
                            }
                        }
                        tbody {
                            @for partner in self.status.partners.iter().take(ROWS_MAX) { (self.partner(partner)) }
                        }
                    }
                }
            }
        }
    }

    fn partner(&self, partner: &FederationPartner) -> Markup {
        let texts = self.texts();
        let how = if partner.is_confirmed { texts.federation_joined } else { texts.federation_introduced };
        html! {
            tr {
                th scope="row" {
                    span title=(partner.id) { (partner.name) } " " span.badge { (how) }
                    div.quiet { code { (short(&partner.id)) } }
                    @if !partner.trouble.is_empty() { div.bad dir="auto" { (partner.trouble) } }
                }
                td data-label=(texts.address) { (partner.address) }
                td data-label=(texts.federation_about) { code { (partner.view) } }
                td.number data-label=(texts.cluster_heard) {
                    (partner.heard.map_or(texts.federation_silent.to_string(), |heard| self.ago(heard)))
                }
                td.number data-label=(texts.federation_letters) { (self.number(partner.letters)) }
            }
        }
    }

    fn refused(&self, title: &str, refused: &[(String, u64)]) -> Markup {
        let texts = self.texts();
        html! {
            @if !refused.is_empty() {
                h2 { (title) }
                div.scroll.cards tabindex="0" role="region" aria-label=(title) {
                    table {
                        thead {
                            tr { th scope="col" { (texts.federation_reason) } th.number scope="col" { (texts.federation_count) } }
                        }
                        tbody {
                            @for (reason, count) in refused.iter().take(ROWS_MAX) {
                                tr {
                                    th scope="row" { code { (reason) } }
                                    td.number data-label=(texts.federation_count) { (self.number(*count)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
