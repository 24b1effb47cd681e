//! Counts the pages of a folder whose language is told rightly.
//!
//! `cargo run -p farol-parse --example languages -- FOLDER=LANG…` reads every HTML file below each folder as a page of
//! a site and prints, for each folder, how many get the language expected, none, or another: by text and head alone,
//! and with the address where these say nothing.

use farol_base::{CanonicalUrl, Language};
use farol_parse::{PageInput, Wants, language, page};
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:<40} {:>6} {:>18} {:>18}", "folder", "pages", "right/none/wrong", "with the address");
    for argument in std::env::args().skip(1) {
        let (folder, code) = argument.split_once('=').ok_or("write FOLDER=LANG")?;
        let want = Language::parse(code).ok_or("LANG is a code such as pt")?;
        let mut files = Vec::new();
        list(Path::new(folder), &mut files)?;
        let (mut before, mut after) = ([0; 3], [0; 3]);
        for file in &files {
            let body = std::fs::read(file)?;
            let path = file.strip_prefix(folder)?.display().to_string();
            let Ok(url) = CanonicalUrl::parse(&format!("http://site.test/{path}")) else { continue };
            let parsed = page(&PageInput {
                url: &url,
                content_type: Some("text/html"),
                body: &body,
                robots_tags: &[],
                agent: "farol",
                wants: Wants::Everything,
            });
            let with_address = parsed.language.or_else(|| language::of_address(&url));
            for (counts, found) in [(&mut before, parsed.language), (&mut after, with_address)] {
                counts[if found == Some(want) { 0 } else { 1 + usize::from(found.is_some()) }] += 1;
            }
            if with_address != Some(want) && std::env::var_os("SHOW").is_some() {
                println!("  {:?} {path}", with_address);
            }
        }
        let shown = |[right, none, wrong]: [u32; 3]| format!("{right}/{none}/{wrong}");
        println!("{folder:<40} {:>6} {:>18} {:>18}", files.len(), shown(before), shown(after));
    }
    Ok(())
}

/// All HTML files below a folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_page =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains(".htm"));
        if path.is_dir() {
            list(&path, files)?;
        } else if is_page {
            files.push(path);
        }
    }
    Ok(())
}
