//! `farol broken-links`: links that lead nowhere, with the pages that have them.

use super::{Place, ask};
use anyhow::Result;
use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;

/// Addresses asked for at a time.
const COUNT: usize = 500;

#[derive(clap::Args)]
#[command(
    after_help = "One line for each link, separated by tabs: status (- where no answer came), the address that leads \
                        nowhere, the page that links to it, and the text of the link."
)]
pub struct BrokenLinksArgs {
    #[command(flatten)]
    place: Place,
    /// Only addresses on hosts whose name contains this
    #[arg(long, value_name = "NAME", default_value = "")]
    host: String,
    /// As JSON, one object for each address
    #[arg(long)]
    json: bool,
}

pub fn run(args: &BrokenLinksArgs) -> Result<ExitCode> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let path = |first: usize| {
        format!("/api/v1/broken?filter={}&first={first}&count={COUNT}", ask::escaped(&args.host))
    };
    let mut first = 0;
    ask::ask_on(&args.place, &mut |page: Option<Value>| {
        let Some(page) = page else { return Ok(Some(path(0))) };
        let rows = page["pages"].as_array().cloned().unwrap_or_default();
        for row in &rows {
            match args.json {
                true => writeln!(out, "{row}")?,
                false => out.write_all(lines(row).as_bytes())?,
            }
        }
        first += rows.len();
        let is_more = !rows.is_empty() && (first as u64) < page["total"].as_u64().unwrap_or(0);
        Ok(is_more.then(|| path(first)))
    })?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The lines of one address: one for each link to it, or one where nobody links to it.
fn lines(row: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().replace(char::is_control, " ");
    let status = row["status"].as_u64().map_or("-".to_string(), |status| status.to_string());
    let url = text(&row["url"]);
    let links = row["linked_from"]["links"].as_array().cloned().unwrap_or_default();
    if links.is_empty() {
        return format!("{status}\t{url}\t\t\n");
    }
    let line = |link: &Value| format!("{status}\t{url}\t{}\t{}\n", text(&link["url"]), text(&link["text"]));
    links.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_link_is_a_line_whatever_its_text_holds() {
        let row = json!({
            "url": "http://h/gone", "status": 404,
            "linked_from": {"pages": 2, "links": [
                {"url": "http://h/a", "text": "a\ttab"}, {"url": "http://h/b", "text": ""}]},
        });
        assert_eq!(lines(&row), "404\thttp://h/gone\thttp://h/a\ta tab\n404\thttp://h/gone\thttp://h/b\t\n");
        let alone = json!({ "url": "http://h/x", "status": null, "linked_from": {"pages": 0, "links": []} });
        assert_eq!(lines(&alone), "-\thttp://h/x\t\t\n");
    }
}
