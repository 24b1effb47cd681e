//! `farol federation view`: reads views, compares them, and tells which pages they hold.

use crate::archive::places::Places;
use anyhow::{Context, Result, anyhow, bail};
use farol_base::{CanonicalUrl, Language, Timestamp};
use farol_federation::view::Candidate;
use farol_federation::view::solve::Proved;
use farol_federation::{Answer, Facts, View};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  farol federation view check '.pt minus .gov.pt'
  farol federation view check '.pt' '.up.pt and lang:pt'
  farol federation view page '.pt and lang:pt' http://example.pt/ --language es
  farol federation view cover '.pt' partners.txt

A view is made of conditions with `and`, `or`, `not`, `minus` and parentheses: .pt (short for domain:pt), host:, prefix:, page:,
ip:, net:, country:, geo:, lang:, type:, dated:, title:, linked:, like:. It may be given as JSON too.

Exit codes: 0 yes, 1 no, 4 it cannot be told.";

/// Exit code of a question without a proved answer.
const UNKNOWN: u8 = 4;

#[derive(clap::Subcommand)]
pub enum ViewCommand {
    /// Show a view in its one spelling; with a second one, whether the first holds it and whether they meet
    #[command(after_help = EXAMPLES)]
    Check(CheckViews),
    /// Tell whether a view holds a page, as far as what is said of it goes
    Page(ViewPage),
    /// Choose those of the views in a file that together hold all of a view at the least cost
    #[command(
        after_help = "A line of the file is a view, or a cost, a space, and a view. Each counts 1 where no cost stands."
    )]
    Cover(ViewCover),
}

#[derive(clap::Args)]
pub struct CheckViews {
    /// The view
    #[arg(value_name = "VIEW")]
    view: String,
    /// What it is compared with
    #[arg(value_name = "OTHER")]
    other: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ViewPage {
    /// The view
    #[arg(value_name = "VIEW")]
    view: String,
    /// Address of the page
    #[arg(value_name = "URL")]
    url: String,
    /// Address of its server
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// Table of where servers stand, as for crawl.places
    #[arg(long, value_name = "FILE", requires = "address")]
    places: Option<PathBuf>,
    /// Its language, or `und` where none was recognised
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    /// Its media type
    #[arg(long = "type", value_name = "TYPE")]
    media_type: Option<String>,
    /// When it says it was changed, or `none`
    #[arg(long, value_name = "DATE")]
    dated: Option<String>,
    /// Its title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ViewCover {
    /// The view
    #[arg(value_name = "VIEW")]
    view: String,
    /// The views to choose from, one a line
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(command: &ViewCommand) -> Result<ExitCode> {
    let (text, answer) = match command {
        ViewCommand::Check(args) => check(args)?,
        ViewCommand::Page(args) => page(args)?,
        ViewCommand::Cover(args) => cover(args)?,
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(match answer {
        Answer::Yes => ExitCode::SUCCESS,
        Answer::No => ExitCode::from(1),
        Answer::Unknown => ExitCode::from(UNKNOWN),
    })
}

/// Text or JSON, whichever it is.
fn read(text: &str) -> Result<View> {
    let is_json = text.trim_start().starts_with('{') || matches!(text.trim(), "true" | "false");
    let view = if is_json { View::from_json(text) } else { View::parse(text) };
    view.map_err(|error| anyhow!("{}", error.pointed()))
}

fn written(value: &Value) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

fn json_of(view: &View) -> Result<Value> {
    serde_json::from_str(&view.to_json()).context("the JSON of a view is not JSON")
}

fn hex(digest: [u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(args: &CheckViews) -> Result<(String, Answer)> {
    let view = read(&args.view)?;
    let Some(other) = &args.other else {
        let (boxes, core, hull) = (view.boxes()?, view.core()?, view.hull()?);
        let (some, witness) = boxes.any_page();
        if args.json {
            let value = json!({
                "view": view.as_str(), "json": json_of(&view)?, "digest": hex(view.digest()), "boxes": boxes.len(),
                "core": core.as_str(), "hull": hull.as_str(), "holds_some_page": some.to_string(),
                "witness": witness.map(|page| page.to_string()),
            });
            return Ok((written(&value)?, some));
        }
        let mut out = format!("view    {view}\njson    {}\ndigest  {}\n", view.to_json(), hex(view.digest()));
        writeln!(out, "boxes   {} of its normal form", boxes.len())?;
        writeln!(out, "before  {core}   known to be in it before a visit")?;
        writeln!(out, "hull    {hull}   may turn out to be in it")?;
        match witness {
            Some(page) => writeln!(out, "holds   {page}, for one")?,
            None => writeln!(
                out,
                "holds   {}",
                if some == Answer::No { "no page" } else { "some page, or none: not known" }
            )?,
        }
        return Ok((out, some));
    };
    let other = read(other)?;
    let (holds, meets) = (view.contains(&other)?, view.intersects(&other)?);
    if args.json {
        let proof = |(answer, witness): &Proved| json!({ "answer": answer.to_string(), "witness": witness.as_ref().map(ToString::to_string) });
        let value = json!({
            "view": view.as_str(), "other": other.as_str(), "contains": proof(&holds), "intersects": proof(&meets),
            "left": other.difference(&view)?.as_str(),
        });
        return Ok((written(&value)?, holds.0));
    }
    let told = |(answer, witness): &Proved, word: &str| match witness {
        Some(page) => format!("{answer}: {word}{page}"),
        None => answer.to_string(),
    };
    let mut out = format!("view      {view}\nother     {other}\n");
    writeln!(out, "contains  {}", told(&holds, "not "))?;
    writeln!(out, "meets     {}", told(&meets, "as in "))?;
    if holds.0 != Answer::Yes {
        writeln!(out, "left      {}", other.difference(&view)?)?;
    }
    Ok((out, holds.0))
}

fn page(args: &ViewPage) -> Result<(String, Answer)> {
    let view = read(&args.view)?;
    let url = CanonicalUrl::parse(&args.url)
        .map_err(|error| anyhow!("{} cannot be looked up: {error}", args.url))?;
    let mut facts = Facts::of(&url);
    if let Some(address) = args.address {
        facts = facts.address(address);
        if let Some(file) = &args.places {
            let found = Places::read(file)?.of(address);
            facts = facts.country(found.map(|found| found.country));
            if let Some(place) = found.and_then(|found| found.place) {
                facts = facts.place(place);
            }
        }
    }
    if let Some(code) = &args.language {
        let language = Language::parse(code);
        if language.is_none() && code != "und" {
            bail!("{code:?} is neither a language's two letters such as pt, nor und");
        }
        facts = facts.language(language);
    }
    if let Some(date) = &args.dated {
        let dated = Timestamp::parse(date);
        if dated.is_none() && date != "none" {
            bail!("{date:?} is neither a date such as 2024-05-06, nor none");
        }
        facts = facts.dated(dated);
    }
    if let Some(media) = &args.media_type {
        facts = facts.media_type(media);
    }
    if let Some(title) = &args.title {
        facts = facts.title(title);
    }
    let (answer, failing) = (view.has(&facts), view.failing(&facts));
    if args.json {
        let value = json!({ "view": view.as_str(), "page": url.as_str(), "in": answer.to_string(), "fails": failing });
        return Ok((written(&value)?, answer));
    }
    let out = match (answer, failing) {
        (Answer::Yes, _) => format!("yes: {url} is in {view}\n"),
        (_, Some(condition)) => format!("no: {url} fails {condition}\n"),
        _ => format!("unknown: it takes more than what is said of {url} to tell\n"),
    };
    Ok((out, answer))
}

fn cover(args: &ViewCover) -> Result<(String, Answer)> {
    let view = read(&args.view)?;
    let text = std::fs::read_to_string(&args.file)
        .with_context(|| format!("cannot read {}", args.file.display()))?;
    let mut candidates = Vec::new();
    for (number, line) in
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let first =
            line.trim().split_once(' ').and_then(|(cost, rest)| Some((cost.parse::<f64>().ok()?, rest)));
        let (cost, rest) = first.unwrap_or((1.0, line));
        if !cost.is_finite() || cost <= 0.0 {
            bail!("line {} of {}: a cost is more than nothing", number + 1, args.file.display());
        }
        let view = read(rest).with_context(|| format!("line {} of {}", number + 1, args.file.display()))?;
        candidates.push(Candidate { view, cost });
    }
    // How many pages a view has is not known here: each counts alike.
    let cover = view.cover(&candidates, &|_| 1.0)?;
    let chosen: Vec<&str> = cover.chosen.iter().map(|at| candidates[*at].view.as_str()).collect();
    let cost: f64 = cover.chosen.iter().map(|at| candidates[*at].cost).sum();
    if args.json {
        let value = json!({
            "view": view.as_str(), "whole": cover.whole.to_string(), "chosen": chosen, "cost": cost,
            "residual": cover.residual.as_str(),
        });
        return Ok((written(&value)?, cover.whole));
    }
    let mut out = match cover.whole {
        Answer::Yes => format!("{} hold all of {view}, at a cost of {cost}:\n", chosen.len()),
        _ => format!("no choice is known to hold all of {view}; these hold as much as all do:\n"),
    };
    chosen.iter().try_for_each(|view| writeln!(out, "  {view}"))?;
    if cover.whole != Answer::Yes {
        writeln!(out, "what is left: {}", cover.residual)?;
    }
    Ok((out, cover.whole))
}
