//! The table of unit costs: what one page, one question, one URL takes, with the command that measured it.
//!
//! A line is `name <tab> value <tab> unit <tab> kind <tab> date <tab> how`; `#` begins a comment. The table in the
//! binary is `docs/results/unit-costs.tsv`; somebody who has measured on machines of their own hands in theirs.
//! Does not compute; see [`super::plan`].

use std::collections::BTreeMap;

/// The table that comes with the program.
const OURS: &str = include_str!("../../../../docs/results/unit-costs.tsv");

macro_rules! costs {
    ($($(#[$doc:meta])* $field:ident = $name:literal,)*) => {
        /// What one of something takes. Seconds are of one processor core.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct UnitCosts {
            $($(#[$doc])* pub $field: f64,)*
        }

        impl UnitCosts {
            /// Names in the table, in order.
            pub const NAMES: &[&str] = &[$($name),*];

            fn from_values(values: &BTreeMap<&str, f64>) -> Result<UnitCosts, String> {
                let value = |name: &str| {
                    values.get(name).copied().ok_or_else(|| format!("the table of unit costs lacks a line {name}"))
                };
                Ok(UnitCosts { $($field: value($name)?,)* })
            }
        }
    };
}

costs! {
    /// Fetching, parsing, archiving a page and looking up its links, for a page of `crawl_page_bytes`.
    crawl_cpu = "crawl.cpu_seconds_per_page",
    crawl_page_bytes = "crawl.page_bytes",
    /// Memory of a crawling process at its limits.
    crawl_memory = "crawl.memory_bytes",
    archive_bytes = "archive.bytes_per_page",
    urls_per_page = "urls.known_per_page",
    url_bytes = "urls.bytes_per_url",
    link_bytes = "links.bytes_per_page",
    index_cpu = "index.cpu_seconds_per_page",
    index_bytes = "index.bytes_per_page",
    /// Memory of a process that answers, before its first page.
    shard_memory = "shard.memory_bytes",
    /// Share of a shard's files that must be in memory for the times of questions to hold.
    shard_cached = "shard.cached_share",
    query_cpu = "query.cpu_seconds_per_shard",
    query_page_cpu = "query.cpu_seconds_per_page",
    front_cpu = "front.cpu_seconds_per_query",
    cache_hits = "front.cache_hit_rate",
    /// Of both sides together.
    rpc_cpu = "rpc.cpu_seconds_per_call",
    rpc_calls = "rpc.calls_per_query_and_shard",
    rpc_bytes = "rpc.bytes_per_call",
    log_document_bytes = "log.bytes_per_document",
    /// What one stream bears with every message on disk before it is acknowledged.
    log_stream_rate = "log.bytes_per_second_and_stream",
    table_writes = "tables.writes_per_second",
    table_bytes_max = "tables.bytes_max",
    table_replica_bytes = "tables.bytes_per_replica",
    rank_known_bytes = "rank.bytes_per_known_page",
    snapshot_factor = "snapshot.bytes_per_indexed_byte",
}

/// Where a figure comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostSource {
    pub name: String,
    /// `measured`, `design` (a limit that was chosen), or `assumed`.
    pub kind: String,
    pub how: String,
}

/// The costs, and where each comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct CostTable {
    pub costs: UnitCosts,
    pub sources: Vec<CostSource>,
}

impl CostTable {
    /// The table that comes with the program.
    pub fn ours() -> Result<CostTable, String> {
        CostTable::read(OURS)
    }

    /// Reads a table; names the line that cannot be read.
    pub fn read(text: &str) -> Result<CostTable, String> {
        let mut values = BTreeMap::new();
        let mut sources = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
            let [name, value, _unit, kind, _date, how] = columns[..] else {
                return Err(format!(
                    "line {number} of the table of unit costs has {} columns and not name, value, unit, kind, date, how",
                    columns.len()
                ));
            };
            if !UnitCosts::NAMES.contains(&name) {
                return Err(format!("line {number} of the table of unit costs has an unknown name: {name}"));
            }
            let value: f64 = value
                .parse()
                .ok()
                .filter(|value: &f64| value.is_finite() && *value >= 0.0)
                .ok_or_else(|| {
                    format!("line {number} of the table of unit costs: {value:?} is no number of 0 or more")
                })?;
            if values.insert(name, value).is_some() {
                return Err(format!("line {number} of the table of unit costs names {name} again"));
            }
            if !matches!(kind, "measured" | "design" | "assumed") {
                return Err(format!(
                    "line {number} of the table of unit costs: a figure is measured, design or assumed, not {kind:?}"
                ));
            }
            sources.push(CostSource { name: name.into(), kind: kind.into(), how: how.into() });
        }
        let costs = UnitCosts::from_values(&values)?;
        if !(0.0..1.0).contains(&costs.cache_hits) || costs.shard_cached > 1.0 {
            return Err(
                "shares in the table of unit costs go from 0 to 1, and a cache never spares all".into()
            );
        }
        Ok(CostTable { costs, sources })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_table_has_every_figure_with_its_origin() {
        let table = CostTable::ours().unwrap();
        assert_eq!(table.sources.len(), UnitCosts::NAMES.len());
        for source in &table.sources {
            assert!(source.how.len() > 10, "{source:?} does not say how");
        }
        let measured = table.sources.iter().filter(|source| source.kind == "measured").count();
        assert!(measured * 2 > table.sources.len(), "{measured} figures are measured");
    }

    #[test]
    fn a_table_that_cannot_be_read_is_named_by_its_line() {
        let check = |text: &str, want: &str| {
            let error = CostTable::read(text).unwrap_err();
            assert!(error.contains(want) && !error.contains('\n'), "{error}");
        };
        check("# nothing\n", "lacks a line crawl.cpu_seconds_per_page");
        check(
            "\nindex.bytes\t1\tB\tmeasured\ttoday\tso",
            "line 2 of the table of unit costs has an unknown name",
        );
        check("crawl.page_bytes\t1\tB", "line 1 of the table of unit costs has 3 columns");
        check("crawl.page_bytes\tmany\tB\tmeasured\ttoday\tso", "\"many\" is no number");
        check("crawl.page_bytes\t-1\tB\tmeasured\ttoday\tso", "\"-1\" is no number");
        check("crawl.page_bytes\tNaN\tB\tmeasured\ttoday\tso", "\"NaN\" is no number");
        check("crawl.page_bytes\t1\tB\tguessed\ttoday\tso", "not \"guessed\"");
        let twice = "crawl.page_bytes\t1\tB\tmeasured\ttoday\tso\n".repeat(2);
        check(&twice, "line 2 of the table of unit costs names crawl.page_bytes again");
    }
}
