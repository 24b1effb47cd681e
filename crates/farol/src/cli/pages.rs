//! `farol refetch`, `farol remove`, `farol restore`: what the operator orders of single pages.

use super::{Place, ask};
use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct PageArgs {
    /// Address of a page; with a * behind, all pages that begin so, as in `https://example.org/old/*`
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub struct RemoveArgs {
    /// Address of a page; with a * behind, all pages that begin so, as in `https://example.org/old/*`
    #[arg(required_unless_present = "list", value_name = "URL")]
    urls: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Tell what was removed, and remove nothing
    #[arg(long, conflicts_with = "urls")]
    list: bool,
}

pub fn refetch(args: &PageArgs) -> Result<ExitCode> {
    order(&args.place, "refetch", &args.urls)
}

pub fn remove(args: &RemoveArgs) -> Result<ExitCode> {
    if !args.list {
        return order(&args.place, "remove-pages", &args.urls);
    }
    let removed = ask::ask(&args.place, "/api/v1/removed-pages", ask::Wants::Now)?;
    for pages in removed["pages"].as_array().into_iter().flatten().filter_map(|pages| pages.as_str()) {
        println!("{pages}");
    }
    Ok(ExitCode::SUCCESS)
}

pub fn restore(args: &PageArgs) -> Result<ExitCode> {
    order(&args.place, "restore-pages", &args.urls)
}

/// Gives an order for each address; those after one that cannot be carried out are carried out all the same.
fn order(place: &Place, name: &str, urls: &[String]) -> Result<ExitCode> {
    let orders = urls.iter().map(|url| (format!("/api/v1/admin/{name}"), json!({ "url": url }))).collect();
    let mut code = ExitCode::SUCCESS;
    for done in ask::order(place, orders)? {
        match done {
            Ok(done) => println!("{}", done["done"].as_str().unwrap_or_default()),
            Err(error) => {
                eprintln!("farol: {error:#}");
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}
