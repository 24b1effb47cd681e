//! `farol federation id|card|join|forget|partners|propose|accept|refuse|amend|end|status`: who we are, whom we know, and what was
//! agreed on.

use super::super::{Place, ask};
use crate::federation::key::EngineKey;
use crate::folder::Folder;
use crate::progress::{counted, size};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Exit code where something waits for the operator.
const SOMETHING_WAITS: u8 = 3;

#[derive(clap::Args)]
pub struct IdArgs {
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub struct CardArgs {
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub struct JoinArgs {
    /// Where the other engine listens: https://HOST:PORT
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Its key, as its owner told it: another one is refused
    #[arg(long, value_name = "farol:…")]
    key: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub struct ForgetArgs {
    /// Its name, its key, or how the key begins
    #[arg(value_name = "ENGINE")]
    partner: String,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub struct ListArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Who does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SideArg {
    /// This engine crawls, and sends its pages.
    Provider,
    /// The other engine crawls, this one gets its pages.
    Consumer,
}

#[derive(clap::Args)]
pub struct ProposeArgs {
    /// With whom: name, key, or how the key begins
    #[arg(value_name = "ENGINE")]
    partner: String,
    /// Which pages, as a view: '.ufpe.br', 'prefix:docs.example.org/guide'
    #[arg(long)]
    view: String,
    /// What is shared
    #[arg(long, value_name = "KIND", default_value = "index")]
    kind: String,
    /// What this engine is
    #[arg(long = "as", value_enum)]
    side: SideArg,
    /// How much of a page travels: text, or words (fewer bytes, no snippets but the first lines)
    #[arg(long, value_name = "GRADE", default_value = "text")]
    grade: String,
    /// When pages travel: push, pull, or a window such as 02:00-05:00 in UTC [default: push, or federation.window]
    #[arg(long, value_name = "WHEN")]
    delivery: Option<String>,
    /// Engines that the pages may go on to, one after the other
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=8))]
    forward: u8,
    /// Pages leave the consumer when it ends
    #[arg(long)]
    purge: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub struct AgreementArgs {
    /// The agreement's id, or how it begins
    #[arg(value_name = "AGREEMENT")]
    agreement: String,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub struct AmendArgs {
    /// The agreement's id, or how it begins
    #[arg(value_name = "AGREEMENT")]
    agreement: String,
    /// The pages that it is to be about
    #[arg(long)]
    view: String,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub struct EndArgs {
    /// The agreement's id, or how it begins
    #[arg(value_name = "AGREEMENT")]
    agreement: String,
    /// Have the pages leave that were received under it
    #[arg(long)]
    purge: bool,
    #[command(flatten)]
    place: Place,
}

pub fn id(args: &IdArgs) -> Result<ExitCode> {
    let folder = Folder::open(&args.place.data)?;
    println!("{}", EngineKey::read_or_draw(folder.path())?.id());
    Ok(ExitCode::SUCCESS)
}

pub fn card(args: &CardArgs) -> Result<ExitCode> {
    let status = status_of(&args.place)?;
    println!("{}", status["card"].as_str().unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

pub fn join(args: &JoinArgs) -> Result<ExitCode> {
    let key = args.key.as_deref().unwrap_or_default();
    order(&args.place, json!({ "order": "join", "address": args.address, "key": key }))
}

pub fn forget(args: &ForgetArgs) -> Result<ExitCode> {
    order(&args.place, json!({ "order": "forget", "partner": args.partner }))
}

pub fn propose(args: &ProposeArgs) -> Result<ExitCode> {
    let body = json!({
        "order": "propose", "partner": args.partner, "view": args.view, "kind": args.kind,
        "provider": args.side == SideArg::Provider, "grade": args.grade,
        "delivery": args.delivery.as_deref().unwrap_or_default(), "forward": args.forward, "purge": args.purge,
    });
    order(&args.place, body)
}

pub fn accept(args: &AgreementArgs) -> Result<ExitCode> {
    order(&args.place, json!({ "order": "accept", "agreement": args.agreement }))
}

pub fn refuse(args: &AgreementArgs) -> Result<ExitCode> {
    order(&args.place, json!({ "order": "refuse", "agreement": args.agreement }))
}

pub fn amend(args: &AmendArgs) -> Result<ExitCode> {
    order(&args.place, json!({ "order": "amend", "agreement": args.agreement, "view": args.view }))
}

pub fn end(args: &EndArgs) -> Result<ExitCode> {
    order(&args.place, json!({ "order": "end", "agreement": args.agreement, "purge": args.purge }))
}

pub fn partners(args: &ListArgs) -> Result<ExitCode> {
    let status = status_of(&args.place)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&status["partners"])?);
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", partners_text(&status));
    Ok(ExitCode::SUCCESS)
}

pub fn status(args: &ListArgs) -> Result<ExitCode> {
    let status = status_of(&args.place)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        println!(
            "{}  {}\n{}\nabout  {}\n",
            text(&status, "name"),
            text(&status, "address"),
            text(&status, "id"),
            text(&status, "view")
        );
        print!("{}", partners_text(&status));
        print!("{}", agreements_text(&status));
    }
    let waits = list(&status, "agreements").any(|agreement| agreement["undecided"] == true);
    Ok(if waits { ExitCode::from(SOMETHING_WAITS) } else { ExitCode::SUCCESS })
}

/// What the running engine says of what is shared.
fn status_of(place: &Place) -> Result<Value> {
    need_running(place)?;
    ask::ask(place, "/api/v1/federation", ask::Wants::Now)
}

/// Partners can only be reached by an engine that runs.
fn need_running(place: &Place) -> Result<()> {
    if !Folder::open(&place.data)?.is_locked() {
        bail!(
            "no engine runs on {}: start it with `farol up --data {0}`, with enabled = true under [federation] in its \
             farol.toml",
            place.data.display()
        );
    }
    Ok(())
}

fn order(place: &Place, body: Value) -> Result<ExitCode> {
    need_running(place)?;
    for done in ask::order(place, vec![("/api/v1/admin/federation".to_string(), body)])? {
        println!("{}", done?["done"].as_str().unwrap_or_default());
    }
    Ok(ExitCode::SUCCESS)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn partners_text(status: &Value) -> String {
    let mut out = String::new();
    let mut any = false;
    for partner in list(status, "partners") {
        any = true;
        let heard = match partner["heard_seconds"].as_f64() {
            Some(secs) => format!("heard {secs:.0} s ago"),
            None => "not heard since the start".to_string(),
        };
        let how = if partner["confirmed"] == true { "joined" } else { "introduced itself" };
        let _ = writeln!(out, "{}  {}  {how}, {heard}", text(partner, "name"), text(partner, "address"));
        let _ = writeln!(out, "  {}\n  about  {}", text(partner, "id"), text(partner, "view"));
        let letters = partner["letters"].as_u64().unwrap_or(0);
        if !text(partner, "trouble").is_empty() {
            let waiting = counted(letters, "letter");
            let _ = writeln!(out, "  not reached, {waiting} waiting: {}", text(partner, "trouble"));
        }
    }
    if !any {
        out.push_str("No other engine is known; `farol federation join ADDRESS` adds one.\n");
    }
    out.push('\n');
    out
}

fn agreements_text(status: &Value) -> String {
    let mut out = String::new();
    for agreement in list(status, "agreements") {
        let provides = agreement["provider"] == true;
        let who = if provides { "sends to" } else { "gets from" };
        let _ = writeln!(
            out,
            "{}  {}  {who} {}",
            text(agreement, "id"),
            text(agreement, "state"),
            text(agreement, "partner_name")
        );
        let _ = writeln!(
            out,
            "  {}, {} {}, revision {}",
            text(agreement, "view"),
            text(agreement, "delivery"),
            text(agreement, "grade"),
            agreement["revision"]
        );
        let flow = &agreement[if provides { "sent" } else { "received" }];
        let number = |key: &str| flow[key].as_u64().unwrap_or(0);
        let _ = writeln!(
            out,
            "  {} {} in {}, {}",
            if provides { "sent" } else { "received" },
            counted(number("pages"), "page"),
            counted(number("packets"), "packet"),
            size(number("bytes"))
        );
        for refused in list(agreement, "refused") {
            let _ = writeln!(out, "  refused {}: {}", text(refused, "reason"), refused["count"]);
        }
        if !text(agreement, "trouble").is_empty() {
            let _ = writeln!(out, "  {}", text(agreement, "trouble"));
        }
        if agreement["undecided"] == true {
            let id = &text(agreement, "id")[..8.min(text(agreement, "id").len())];
            let _ = writeln!(
                out,
                "  waits for you: `farol federation accept {id}` or `farol federation refuse {id}`"
            );
        }
    }
    out
}
