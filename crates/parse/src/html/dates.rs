//! When a page says that it was published or changed.
//!
//! Pages say it in many places; each statement has its [`Source`], and the surest source wins. There is no
//! clock here: dates before the Web existed are mistakes, dates in the future are for the caller to judge.

use farol_base::Timestamp;
use memchr::memmem;

/// Bytes of a page's structured data that are searched for dates, in all its JSON-LD scripts together.
pub const JSON_LD_BYTES_MAX: usize = 256 << 10;

/// Who says the date, from the surest to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Modified,
    Published,
    /// `<meta name=date>`, Dublin Core and their like: made or changed, who knows.
    Stated,
    /// A `<time>` somewhere on the page.
    Mentioned,
}

/// The dates of one page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dates {
    known: [Option<Timestamp>; 4],
    json_bytes: usize,
}

impl Dates {
    /// Takes in a date; the first of its source counts.
    pub fn add(&mut self, source: Source, text: &str) {
        let slot = &mut self.known[source as usize];
        if slot.is_none() {
            *slot = parse(text);
        }
    }

    /// Takes in what a `<meta>` with this name or property says, if it is about dates.
    pub fn add_meta(&mut self, name: &str, content: &str) {
        if let Some(source) = meta_source(name) {
            self.add(source, content);
        }
    }

    /// Takes in the dates of a JSON-LD script.
    ///
    /// The script is searched, not parsed: the first value of each key is enough, and broken JSON is common.
    pub fn add_json_ld(&mut self, json: &str) {
        let json = crate::text::whitespace::cut(json, JSON_LD_BYTES_MAX - self.json_bytes);
        self.json_bytes += json.len();
        for (key, source) in
            [("\"dateModified\"", Source::Modified), ("\"datePublished\"", Source::Published)]
        {
            if let Some(at) = memmem::find(json.as_bytes(), key.as_bytes())
                && let Some(value) = json[at + key.len()..].trim_start().strip_prefix(':')
                && let Some(value) = value.trim_start().strip_prefix('"')
                && let Some(end) = value.bytes().take(64).position(|b| b == b'"')
            {
                self.add(source, &value[..end]);
            }
        }
    }

    /// The date that counts.
    pub fn best(&self) -> Option<Timestamp> {
        self.known.iter().flatten().next().copied()
    }
}

fn meta_source(name: &str) -> Option<Source> {
    let is = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    if is(&[
        "article:modified_time",
        "og:updated_time",
        "last-modified",
        "datemodified",
        "dcterms.modified",
        "dc.date.modified",
        "revised",
    ]) {
        Some(Source::Modified)
    } else if is(&[
        "article:published_time",
        "datepublished",
        "og:published_time",
        "dc.date.issued",
        "dcterms.issued",
        "dcterms.created",
        "dc.date.created",
        "pubdate",
        "publishdate",
        "publish_date",
        "sailthru.date",
        "parsely-pub-date",
        "citation_publication_date",
        "citation_date",
    ]) {
        Some(Source::Published)
    } else if is(&["date", "dc.date", "dcterms.date"]) {
        Some(Source::Stated)
    } else {
        None
    }
}

/// Reads a date in the forms of [`Timestamp::parse`] or with slashes (`2024/05/06`).
pub fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let found = Timestamp::parse(text).or_else(|| {
        let slashed = text.len() <= 64 && text.contains('/');
        if slashed { Timestamp::parse(&text.replace('/', "-")) } else { None }
    });
    // The first Web page is of 1990.
    found.filter(|at| (1990..2100).contains(&at.date().0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(dates: &Dates) -> String {
        dates.best().map_or(String::new(), |at| at.to_string())
    }

    #[test]
    fn the_surest_source_counts() {
        let mut dates = Dates::default();
        dates.add(Source::Mentioned, "2001-01-01");
        assert_eq!(shown(&dates), "2001-01-01T00:00:00Z");
        dates.add_meta("DC.Date", "2002/02/02");
        assert_eq!(shown(&dates), "2002-02-02T00:00:00Z");
        dates.add_meta("article:published_time", "2003-03-03T00:00:00Z");
        dates.add_meta("article:published_time", "2013-03-03"); // The first counts.
        assert_eq!(shown(&dates), "2003-03-03T00:00:00Z");
        dates.add_json_ld(
            r#"{"@type": "Article", "dateModified" : "2004-04-04T10:00:00+02:00", "datePublished": 7}"#,
        );
        assert_eq!(shown(&dates), "2004-04-04T08:00:00Z");
    }

    #[test]
    fn what_is_no_date_is_left_alone() {
        for text in ["", "yesterday", "0001-01-01", "1970-01-01", "9999-12-31", "2024-99-01", "１９９９"]
        {
            let mut dates = Dates::default();
            dates.add(Source::Stated, text);
            assert_eq!(dates.best(), None, "{text}");
        }
        let mut dates = Dates::default();
        dates.add_json_ld(r#"{"dateModified": "2004"#);
        dates.add_json_ld(r#"{"dateModified""#);
        dates.add_json_ld(&" ".repeat(JSON_LD_BYTES_MAX));
        dates.add_json_ld(r#"{"dateModified": "2004"}"#); // Beyond the limit.
        assert_eq!(dates.best(), None);
    }
}
