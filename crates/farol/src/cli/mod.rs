//! The command line: one file per command.

mod ask;
mod broken_links;
mod cache;
mod check;
mod cluster;
mod config;
mod demo;
mod explain;
mod export;
mod federation;
mod freshness;
mod host_graph;
mod import;
mod input;
mod node;
mod pages;
mod partition;
mod partition_running;
mod pattern_flags;
mod plan;
mod run;
mod search;
mod seed_news;
mod status;

use crate::config::{Config, CrawlScope};
use crate::folder::Folder;
use anyhow::{Result, bail};
use clap::{Args, CommandFactory, Parser, Subcommand};
use farol_base::CanonicalUrl;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// A web search engine that you run yourself: crawls politely, keeps pages fresh, answers queries.
#[derive(Parser)]
#[command(name = "farol", version, max_term_width = 100, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Say more: -v each page that is fetched, -vv each decision too
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

const EXAMPLES: &str = "Examples:
  farol up https://docs.example.org     crawl a site and search it at http://127.0.0.1:8080
  farol demo                            the same with a small library on this machine
  farol search \"install guide\"          search from the terminal
  farol up                              go on where the last run stopped

Exit codes: 0 done, 1 failed, 2 the command line is wrong, 3 `search` or `explain` did not find it.";

/// Exit code where what was asked for is not found; whoever asks in a script must not take a failure for that.
const NOTHING_FOUND: u8 = 3;

#[derive(Subcommand)]
pub enum Command {
    /// Crawl, index and serve, all in one process
    #[command(after_help = "Run it again without seeds to go on where it stopped. Ctrl-C stops cleanly.")]
    Up(Crawling),
    /// Serve a small library on loopback and run `up` on it, in a folder of its own
    Demo(demo::Demo),
    /// Crawl only: pages go to disk and are indexed by a later `up` or `serve`
    Crawl(run::CrawlOnly),
    /// Answer queries over what has been crawled
    Serve(Serving),
    /// Search from the terminal
    Search(search::Search),
    /// Tell how the engine is doing
    Status(status::StatusArgs),
    /// Tell why a page is found or not, who links to it, and when it is visited
    Explain(explain::ExplainArgs),
    /// Fetch a page again soon
    Refetch(pages::PageArgs),
    /// Remove a page: it is found and fetched no more until it is put back
    Remove(pages::RemoveArgs),
    /// Put a removed page back
    Restore(pages::PageArgs),
    /// List links that lead nowhere, with the pages that have them
    BrokenLinks(broken_links::BrokenLinksArgs),
    /// Tell how fresh the index is, and why a page is visited when it is
    Freshness(freshness::FreshnessArgs),
    /// Look at query logs and say what a cache of answers would gain
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Take in pages from WARC files of any origin, Common Crawl's included
    Import(import::Import),
    /// Write out pages, URLs, visits or the graph of hosts for other tools
    Export(export::Export),
    /// Plan which agent crawls which hosts
    Partition(partition::PartitionArgs),
    /// Run one node of a cluster
    Node(node::NodeArgs),
    /// Make, watch and change a cluster of several machines
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Say which part of the Web is meant, and compare such views
    #[command(subcommand)]
    Federation(federation::FederationCommand),
    /// Work out how many machines a target takes
    Plan(plan::SizingArgs),
    /// Verify a data folder
    Check(check::Check),
    /// Show the settings
    Config(config::ConfigArgs),
    /// Write completions for a shell to standard output
    Completions { shell: clap_complete::Shell },
    /// Write the manual page to standard output
    Man,
}

/// Where the data and the settings are.
#[derive(Args, Clone)]
pub struct Place {
    /// Data folder
    #[arg(long, value_name = "DIR", default_value = "farol-data", env = "FAROL_DATA")]
    pub data: PathBuf,
    /// Settings [default: farol.toml in the data folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What `up` and `crawl` have in common.
#[derive(Args, Clone)]
pub struct Crawling {
    /// Where to start; https:// may be left out
    #[arg(value_name = "SEED")]
    pub seeds: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    /// Address and port of the search page [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    #[command(flatten)]
    pub flags: CrawlFlags,
}

/// What is crawled and how, as flags.
#[derive(Args, Clone)]
pub struct CrawlFlags {
    /// Stop fetching after this many pages
    #[arg(long, value_name = "N")]
    pub max_pages: Option<u64>,
    /// How far from the seeds to go (host, domain, prefix, web), or which pages: '.pt and lang:pt' [default: host]
    #[arg(long)]
    pub scope: Option<CrawlScope>,
    #[command(flatten)]
    pub patterns: pattern_flags::PatternFlags,
    /// Least time between two requests to one server, such as 500ms [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub delay: Option<crate::config::Span>,
    /// Crawl private, link-local and loopback addresses too
    #[arg(long)]
    pub allow_private: bool,
    /// Use this address for a host name; patterns such as *.test allowed; may be repeated
    #[arg(long, value_name = "HOST=ADDR[:PORT]")]
    pub resolve: Vec<String>,
}

/// What `serve` takes.
#[derive(Args, Clone)]
pub struct Serving {
    #[command(flatten)]
    pub place: Place,
    /// Address and port of the search page [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
}

impl Place {
    /// Reads the settings: the file named, or the data folder's own, or the defaults.
    pub fn settings(&self) -> Result<Config> {
        let own = self.data.join("farol.toml");
        match &self.config {
            Some(path) => Config::read(path),
            None if own.exists() => Config::read(&own),
            None => Ok(Config::default()),
        }
    }
}

impl Crawling {
    /// The settings with these flags on top.
    pub fn settings(&self) -> Result<Config> {
        let mut config = self.place.settings()?;
        config.serve.listen = self.listen.clone().unwrap_or(config.serve.listen);
        self.flags.apply(&mut config);
        config.check()?;
        Ok(config)
    }

    /// The seeds of the command line and of the settings.
    pub fn seeds(&self, config: &Config) -> Result<Vec<CanonicalUrl>> {
        let texts = self.seeds.iter().chain(&config.crawl.seeds);
        texts.map(|text| crate::seed::read_seed(text).map_err(anyhow::Error::msg)).collect()
    }
}

impl CrawlFlags {
    /// Puts the flags on top of the settings.
    pub fn apply(&self, config: &mut Config) {
        config.crawl.max_pages = self.max_pages.unwrap_or(config.crawl.max_pages);
        config.crawl.scope = self.scope.clone().unwrap_or_else(|| config.crawl.scope.clone());
        config.crawl.patterns.extend(self.patterns.patterns());
        config.crawl.delay_min = self.delay.unwrap_or(config.crawl.delay_min);
        config.crawl.allow_private |= self.allow_private;
        config.crawl.resolve.extend(self.resolve.iter().cloned());
    }
}

/// Runs a command.
pub fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Up(args) => run::up(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Crawl(args) => run::crawl(&args),
        Command::Serve(args) => run::serve(&args),
        Command::Search(args) => search::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Refetch(args) => pages::refetch(&args),
        Command::Remove(args) => pages::remove(&args),
        Command::Restore(args) => pages::restore(&args),
        Command::BrokenLinks(args) => broken_links::run(&args),
        Command::Freshness(args) => freshness::run(&args),
        Command::Cache(command) => cache::run(&command),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Partition(args) => partition::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Cluster(command) => cluster::run(&command),
        Command::Federation(command) => federation::run(&command),
        Command::Plan(args) => plan::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Completions { shell } => {
            // Whole, then out: the generator does not survive a reader that goes away.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "farol", &mut script);
            std::io::stdout().write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man => {
            man(&mut std::io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The manual page: the program, then each command.
fn man(out: &mut dyn std::io::Write) -> Result<()> {
    let command = Cli::command();
    clap_mangen::Man::new(command.clone()).render(out)?;
    for sub in command.get_subcommands() {
        let page = clap_mangen::Man::new(sub.clone().display_name(format!("farol-{}", sub.get_name())));
        page.render_name_section(out)?;
        page.render_synopsis_section(out)?;
        page.render_options_section(out)?;
    }
    Ok(())
}

/// Whether a crawl has anywhere to start from.
fn need_seeds(place: &Place, seeds: &[CanonicalUrl], command: &str) -> Result<()> {
    // A folder that has been crawled before has its seeds in its tables.
    if seeds.is_empty() && !Folder::open(&place.data).is_ok_and(|folder| folder.tables().exists()) {
        bail!(
            "nowhere to start: name a site, as in `farol {command} https://docs.example.org` (or try `farol demo`)"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ScopeKind;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
        let mut page = Vec::new();
        man(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("farol\\-up") && page.contains("resolve"), "{page}");
    }

    #[test]
    fn flags_win_over_settings() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("farol.toml"), "[crawl]\nmax_pages = 5\nscope = 'web'\n").unwrap();
        let data = dir.path().to_str().unwrap();
        let cli =
            Cli::parse_from(["farol", "up", "a.org", "--data", data, "--max-pages", "9", "--delay", "0"]);
        let Command::Up(args) = cli.command else { panic!() };
        let config = args.settings().unwrap();
        assert_eq!((config.crawl.max_pages, config.crawl.scope.clone()), (9, ScopeKind::Web.into()));
        assert!(config.crawl.delay_min.get().is_zero());
        assert_eq!(args.seeds(&config).unwrap()[0].as_str(), "https://a.org/");
    }

    #[test]
    fn patterns_come_from_flags_too() {
        let flags =
            ["farol", "up", "a.org", "--exclude", "/cal/", "--include", "/docs/", "--exclude", "-/x/"];
        let Command::Up(args) = Cli::parse_from(flags).command else { panic!() };
        let texts: Vec<String> = args.flags.patterns.patterns().map(|pattern| pattern.to_string()).collect();
        assert_eq!(texts, ["+/docs/", "-/cal/", "-/x/"]);
        let wrong = Cli::try_parse_from(["farol", "up", "--exclude", "*.pdf"]).err().unwrap().to_string();
        assert!(wrong.contains("-/*.pdf$"), "{wrong}");
    }
}
