//! Spells a query in its one canonical way.
//!
//! Wanted terms, unwanted terms, then filters, each kind in the order it was typed in. Order is kept because the
//! proximity of words counts. Queries that [`crate::read`](fn@crate::read) did not make may hold what no text can
//! say (a quotation mark inside a word, a millisecond): such a thing is written as near as it can be.

use crate::dates::write_date;
use farol_base::query::{Field, Query, Term};

/// Writes a query as text that reads as the same query.
///
/// ```
/// let query = farol_query::read("LANG:português “ponte  rio” −mar ext:PDF").query;
/// assert_eq!(farol_query::write(&query), r#""ponte rio" -mar lang:pt filetype:pdf"#);
/// ```
pub fn write(query: &Query) -> String {
    let filters = &query.filters;
    let mut pieces: Vec<String> = query.wanted.iter().map(|term| write_term(term, false)).collect();
    pieces.extend(query.unwanted.iter().map(|term| write_term(term, true)));
    pieces.extend(filters.sites.iter().map(|site| format!("site:{site}")));
    pieces.extend(filters.not_sites.iter().map(|site| format!("-site:{site}")));
    pieces.extend(filters.languages.iter().map(|language| format!("lang:{language}")));
    pieces.extend(filters.not_languages.iter().map(|language| format!("-lang:{language}")));
    pieces.extend(filters.file_types.iter().map(|kind| format!("filetype:{kind}")));
    pieces.extend(filters.not_file_types.iter().map(|kind| format!("-filetype:{kind}")));
    pieces.extend(filters.after.iter().map(|at| format!("after:{}", write_date(*at))));
    pieces.extend(filters.before.iter().map(|at| format!("before:{}", write_date(*at))));
    pieces.join(" ")
}

fn write_term(term: &Term, negative: bool) -> String {
    let sign = if negative { "-" } else { "" };
    let name = match term.field {
        Field::Any => "",
        Field::Title => "intitle:",
        Field::Url => "inurl:",
    };
    let quote = if term.phrase { "\"" } else { "" };
    format!("{sign}{name}{quote}{}{quote}", term.text)
}
