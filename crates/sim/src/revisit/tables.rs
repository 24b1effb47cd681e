//! Real tables as input: rates, weights and servers of pages.
//!
//! Tab-separated with a header `rate_per_day`, `weight`, `server`, one line per page.

use farol_frontier::revisit::Change;
use farol_frontier::revisit::allocate::Page;
use std::collections::BTreeMap;

/// Pages by the name of their server.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub servers: BTreeMap<String, Vec<Page>>,
}

impl Table {
    pub const HEADER: &str = "rate_per_day\tweight\tserver";

    /// Reads a table; the error says which line is wrong.
    pub fn read(text: &str) -> Result<Table, String> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, header)| header.trim_end()) != Some(Table::HEADER) {
            return Err(format!("the table does not begin with {:?}", Table::HEADER));
        }
        let mut table = Table::default();
        for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let mut fields = line.split('\t');
            let page = fields.next().zip(fields.next()).and_then(|(rate, weight)| {
                let change = Change::known(rate.trim().parse::<f64>().ok()? / 86_400.0)?;
                let weight = weight
                    .trim()
                    .parse::<f32>()
                    .ok()
                    .filter(|weight| *weight >= 0.0 && weight.is_finite())?;
                Some(Page { change, weight })
            });
            let (Some(page), Some(server)) = (page, fields.next()) else {
                return Err(format!("line {} of the table is not a rate, a weight and a server", at + 1));
            };
            table.servers.entry(server.to_string()).or_default().push(page);
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_and_a_wrong_line_is_named() {
        let table = Table::read("rate_per_day\tweight\tserver\n1\t2\ta\n0.5\t1\tb\n0\t1\ta\n").unwrap();
        assert_eq!(table.servers["a"].len(), 2);
        assert!((table.servers["b"][0].change.rate() * 86_400.0 - 0.5).abs() < 1e-6);
        for line in ["NaN\t1\ta", "-1\t1\ta", "1\tNaN\ta", "1\t-2\ta", "1\tinf\ta", "1\t1", "x\t1\ta", "1"] {
            let error = Table::read(&format!("{}\n1\t1\ta\n{line}\n", Table::HEADER)).unwrap_err();
            assert!(error.starts_with("line 3"), "{line:?}: {error}");
        }
        assert!(Table::read("").is_err());
    }
}
