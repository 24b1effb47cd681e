//! Reads a line of text as a query. Never fails: what is not understood is read as words, with a complaint.
//!
//! INVARIANT: the query that is read, written again, fits both limits below, so that it can be read again whole.
//! Does not look at what words mean; see [`crate::scan`] for how a line is cut into pieces.

use crate::complaint::Complaint;
use crate::dates::read_date;
use crate::languages::read_language;
use crate::scan::{Piece, Scanner, Value, has_substance, is_space};
use crate::sites::{is_address, read_address, read_site};
use crate::write::write;
use farol_base::query::{Field, Query, Term};

/// Most bytes of a question that are read, and most that its canonical text has. A spoken sentence has about 100.
pub const QUERY_BYTES_MAX: usize = 2048;

/// Most terms and filter values of a question; each costs the index one pass over a list of pages.
pub const QUERY_TERMS_MAX: usize = 32;

/// Most complaints about one question: more would not be read by anybody. 8 × 60 characters quoted < 2 KiB.
const COMPLAINTS_MAX: usize = 8;

/// Most characters of a question that a complaint quotes.
const QUOTED_CHARS_MAX: usize = 60;

/// Filters that other engines have and people type here by habit.
const OTHER_ENGINES: &str = "allinanchor allintext allintitle allinurl author cache contains daterange define domain \
    feed hasfeed host inanchor inbody info insubject instreamset intext ip link linkdomain linkfromdomain loc \
    location near numrange prefer related source stocks title url weather";

/// Ours, for noticing a typing mistake.
const OURS: [&str; 9] =
    ["site", "intitle", "inurl", "lang", "language", "filetype", "ext", "before", "after"];

/// A question as it was understood, and what should be said about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedQuery {
    /// The query.
    pub query: Query,
    /// In the order in which they were noticed, each once, at most 8.
    pub complaints: Vec<Complaint>,
}

/// Reads a question.
///
/// ```
/// let reading = farol_query::read("ponte -rio before:yesterday");
/// assert_eq!(reading.query.wanted.len(), 2); // "ponte" and "before:yesterday"
/// assert_eq!(reading.complaints[0].code(), "bad_date");
/// ```
pub fn read(text: &str) -> ParsedQuery {
    let line = first_bytes(text);
    let mut parser = Parser { cut: line.len() < text.trim_end_matches(is_space).len(), ..Parser::default() };
    let mut scanner = Scanner::new(line);
    for piece in scanner.by_ref() {
        parser.piece(&piece);
        if parser.full {
            break;
        }
    }
    if scanner.unclosed_quote {
        parser.complain(Complaint::UnclosedQuote);
    }
    parser.finish()
}

/// What fits the limit, cut between words where there is a gap at all.
fn first_bytes(text: &str) -> &str {
    let text = text.trim_start_matches(is_space);
    if text.len() <= QUERY_BYTES_MAX {
        return text;
    }
    let head = &text[..text.floor_char_boundary(QUERY_BYTES_MAX)];
    match head.rfind(is_space) {
        Some(gap) if !text[head.len()..].starts_with(is_space) => &head[..gap],
        _ => head,
    }
}

#[derive(Default)]
struct Parser {
    query: Query,
    complaints: Vec<Complaint>,
    /// Terms and filter values so far.
    terms: usize,
    /// Bytes of the canonical text so far, a space after each piece.
    bytes: usize,
    /// Something did not fit.
    full: bool,
    /// The line was longer than what is read.
    cut: bool,
    /// An `OR` or its like that something stands before; it is worth a word if something follows.
    operator_word: Option<String>,
}

/// Whether a filter was taken, or has to be read as a word.
type Taken = Result<(), Complaint>;

impl Parser {
    fn piece(&mut self, piece: &Piece<'_>) {
        let value = match &piece.value {
            Value::Word { value, .. } => value,
            Value::Phrase(text) => text.as_str(),
        };
        let mut taken = None;
        if let Some(name) = piece.name {
            taken = self.filter(&name.to_ascii_lowercase(), piece, value);
        } else if let Value::Word { whole, .. } = piece.value
            && piece.negative
            && is_address(whole)
        {
            taken = Some(self.site(true, whole));
        }
        match taken {
            Some(Ok(())) => self.note_operator_word(),
            Some(Err(complaint)) => {
                self.complain(complaint);
                self.words(piece);
            }
            None => self.words(piece),
        }
    }

    /// Reads a filter; `None` where the name is not ours.
    fn filter(&mut self, name: &str, piece: &Piece<'_>, value: &str) -> Option<Taken> {
        let known = OURS.contains(&name);
        if known && !has_substance(value) {
            return Some(Err(Complaint::EmptyFilter(name.to_string())));
        }
        Some(match name {
            "intitle" => self.term(piece, Field::Title, value),
            "inurl" => self.term(piece, Field::Url, value),
            "site" => self.site(piece.negative, value),
            "lang" | "language" => self.language(piece.negative, value),
            "filetype" | "ext" => self.file_type(piece.negative, value),
            "before" => self.date("before", piece.negative, value),
            "after" => self.date("after", piece.negative, value),
            _ => {
                if !value.is_empty() && looks_like_a_filter(name) {
                    self.complain(Complaint::UnknownFilter(name.to_string()));
                }
                return None;
            }
        })
    }

    fn words(&mut self, piece: &Piece<'_>) {
        match &piece.value {
            Value::Phrase(text) if has_substance(text) => {
                let _ = self.term(piece, Field::Any, text);
                self.note_operator_word();
            }
            Value::Word { whole, .. } if has_substance(whole) => {
                let something_before = self.terms > 0;
                let _ = self.term(piece, Field::Any, whole);
                if matches!(*whole, "OR" | "AND" | "NOT") && something_before {
                    self.operator_word = Some(whole.to_string());
                } else {
                    self.note_operator_word();
                }
            }
            _ => {}
        }
    }

    fn term(&mut self, piece: &Piece<'_>, field: Field, text: &str) -> Taken {
        let phrase = matches!(piece.value, Value::Phrase(_));
        let name_bytes = match field {
            Field::Any => 0,
            Field::Title => "intitle:".len(),
            Field::Url => "inurl:".len(),
        };
        let marks_bytes = usize::from(piece.negative) + if phrase { 2 } else { 0 };
        let term = Term { text: text.to_string(), field, phrase };
        if piece.negative {
            if !self.query.unwanted.contains(&term) && self.fits(marks_bytes + name_bytes + text.len()) {
                self.query.unwanted.push(term);
            }
        } else if self.fits(marks_bytes + name_bytes + text.len()) {
            self.query.wanted.push(term);
        }
        Ok(())
    }

    fn site(&mut self, negative: bool, value: &str) -> Taken {
        let site = read_site(value).ok_or_else(|| Complaint::BadSite(quoted(value)))?;
        let fits_bytes = "-site:".len() + site.len();
        self.push_once(negative, site, fits_bytes, |query| {
            (&mut query.filters.sites, &mut query.filters.not_sites)
        });
        Ok(())
    }

    fn language(&mut self, negative: bool, value: &str) -> Taken {
        let language = read_language(value).ok_or_else(|| Complaint::BadLanguage(quoted(value)))?;
        self.push_once(negative, language, "-lang:pt".len(), |query| {
            (&mut query.filters.languages, &mut query.filters.not_languages)
        });
        Ok(())
    }

    fn file_type(&mut self, negative: bool, value: &str) -> Taken {
        let plain = value.strip_prefix('.').unwrap_or(value).to_ascii_lowercase();
        if plain.is_empty() || plain.len() > 16 || !plain.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(Complaint::BadFileType(quoted(value)));
        }
        let kind = match plain.as_str() {
            "htm" | "xhtml" => "html".to_string(),
            "text" => "txt".to_string(),
            "jpeg" => "jpg".to_string(),
            _ => plain,
        };
        let fits_bytes = "-filetype:".len() + kind.len();
        self.push_once(negative, kind, fits_bytes, |query| {
            (&mut query.filters.file_types, &mut query.filters.not_file_types)
        });
        Ok(())
    }

    /// Several dates narrow each other. Not before a day is from that day on, and the other way round.
    fn date(&mut self, field: &'static str, negative: bool, value: &str) -> Taken {
        let at = read_date(value).ok_or_else(|| Complaint::BadDate { field, value: quoted(value) })?;
        if !self.fits("before:2024-05-06T07:08:09Z".len()) {
            return Ok(());
        }
        let filters = &mut self.query.filters;
        if (field == "before") != negative {
            filters.before = Some(filters.before.map_or(at, |before| before.min(at)));
        } else {
            filters.after = Some(filters.after.map_or(at, |after| after.max(at)));
        }
        Ok(())
    }

    fn push_once<T: PartialEq>(
        &mut self,
        negative: bool,
        value: T,
        bytes: usize,
        lists: impl FnOnce(&mut Query) -> (&mut Vec<T>, &mut Vec<T>),
    ) {
        let fits = self.fits(bytes);
        let (wanted, unwanted) = lists(&mut self.query);
        let list = if negative { unwanted } else { wanted };
        if fits && !list.contains(&value) {
            list.push(value);
        }
    }

    /// Takes room for one more piece of this many bytes, if there is.
    fn fits(&mut self, bytes: usize) -> bool {
        if self.terms == QUERY_TERMS_MAX || self.bytes + bytes + 1 > QUERY_BYTES_MAX + 1 {
            self.full = true;
            return false;
        }
        self.terms += 1;
        self.bytes += bytes + 1;
        true
    }

    fn note_operator_word(&mut self) {
        if let Some(word) = self.operator_word.take() {
            self.complain(Complaint::OperatorWord(word));
        }
    }

    fn complain(&mut self, complaint: Complaint) {
        if self.complaints.len() < COMPLAINTS_MAX && !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }

    fn finish(mut self) -> ParsedQuery {
        self.read_lone_address();
        if self.full || self.cut {
            self.complaints.truncate(COMPLAINTS_MAX - 1);
            self.complain(Complaint::TooLong { kept: self.terms });
        }
        let filters = &self.query.filters;
        let wants_something = !self.query.wanted.is_empty()
            || !filters.sites.is_empty()
            || !filters.languages.is_empty()
            || !filters.file_types.is_empty()
            || filters.after.is_some()
            || filters.before.is_some();
        if !wants_something && (!self.query.unwanted.is_empty() || !filters.is_empty()) {
            self.complain(Complaint::OnlyExclusions);
        }
        ParsedQuery { query: self.query, complaints: self.complaints }
    }

    /// An address alone asks for that page and those below it. Among other words it is a word: error messages have them.
    fn read_lone_address(&mut self) {
        let [Term { text, field: Field::Any, phrase: false }] = self.query.wanted.as_slice() else { return };
        if !self.query.unwanted.is_empty() || !self.query.filters.is_empty() || !is_address(text) {
            return;
        }
        let Some((site, parameters)) = read_address(text) else { return };
        let mut query = Query::default();
        query.filters.sites.push(site);
        // Apostrophes and the like may stand in a query string, quotation marks are escaped there.
        if let Some(text) = parameters.filter(|text| has_substance(text)) {
            query.wanted.push(Term { text, field: Field::Url, phrase: true });
        }
        if write(&query).len() <= QUERY_BYTES_MAX {
            self.complain(Complaint::AddressAsSite(quoted(&query.filters.sites[0])));
            self.query = query;
        }
    }
}

/// As much of a text as a complaint should show.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// Another engine's filter, or one of ours with a letter wrong, missing, too many or swapped.
fn looks_like_a_filter(name: &str) -> bool {
    OTHER_ENGINES.split(' ').any(|other| other == name) || OURS.iter().any(|ours| is_near(name, ours))
}

fn is_near(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > 1 || b.len() < 4 {
        return false;
    }
    let same_start = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[same_start..], &b[same_start..]);
    match (a, b) {
        ([], _) | (_, []) => true,
        _ if a.len() > b.len() => a[1..] == *b,
        _ if a.len() < b.len() => *a == b[1..],
        _ if a[1..] == b[1..] => true,
        ([p, q, a @ ..], [r, s, b @ ..]) => (p, q) == (s, r) && a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
