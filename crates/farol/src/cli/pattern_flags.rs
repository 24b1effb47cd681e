//! `--include` and `--exclude`: the patterns of the settings, without their signs.

use crate::config::pattern::UrlPattern;

/// Patterns from the command line; those of the settings hold besides.
#[derive(clap::Args, Clone)]
pub struct PatternFlags {
    /// Keep to addresses of this pattern, such as /docs/ or *.example.org/docs/; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = included)]
    include: Vec<UrlPattern>,
    /// Leave addresses of this pattern out, such as /calendar/ or '/*.pdf$'; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = excluded, allow_hyphen_values = true)]
    exclude: Vec<UrlPattern>,
}

impl PatternFlags {
    pub fn patterns(&self) -> impl Iterator<Item = UrlPattern> {
        self.include.iter().chain(&self.exclude).cloned()
    }
}

fn included(text: &str) -> Result<UrlPattern, String> {
    format!("+{}", text.trim_start_matches('+')).parse()
}

fn excluded(text: &str) -> Result<UrlPattern, String> {
    format!("-{}", text.trim_start_matches('-')).parse()
}
