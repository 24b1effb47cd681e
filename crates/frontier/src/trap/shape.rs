//! What was seen on a host, as counts per URL pattern.
//!
//! A pattern is the path with each run of digits, and each long word that mixes digits and letters, left out, and
//! the names of the query's parameters; URLs without numbers and query have none. Patterns are kept as 64-bit
//! fingerprints: two that share one would be judged together, which happens once in 10^16 hosts.

use super::date;
use super::growth::{NamedBy, PageGrowth, SiteParts};
use farol_base::CanonicalUrl;
use farol_base::fingerprint::hash64;

/// Most patterns that are counted per host; beyond that the rarest is forgotten for a new one.
/// 64 × 32 bytes = 2 KiB per host.
const PATTERNS_MAX: usize = 64;

/// Words of at least this length that mix digits and letters are session ids and their like.
const MIXED_WORD_MIN: usize = 16;

/// What is known about the pages of a host. Empty at first; grow it with [`HostShape::admitted`] and
/// [`HostShape::fetched`]. It may be lost at a restart: then it is learnt again.
#[derive(Clone, Debug, Default)]
pub struct HostShape {
    /// Pages known on the host, as the URL store counts them.
    pub pages_known: u64,
    patterns: Vec<Pattern>,
    pub(super) parts: SiteParts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pattern {
    fingerprint: u64,
    pub urls: u32,
    pub fetched: u32,
    pub duplicates: u32,
    /// Pages that speak of time, and those of them that another page equals but for numbers and names of days.
    pub days: u32,
    pub empty_days: u32,
    /// The latest year that a URL of it spoke of.
    pub latest_year: u16,
}

impl HostShape {
    /// The shape of a host of which only the number of pages is known.
    pub fn new(pages_known: u64) -> HostShape {
        HostShape { pages_known, ..HostShape::default() }
    }

    /// A new URL of this host was let in.
    pub fn admitted(&mut self, url: &CanonicalUrl, named: NamedBy) {
        self.parts.admitted(url, named);
        self.recalled(url);
    }

    /// A URL of this host was let in by an earlier run, of which nobody knows who named it.
    pub fn recalled(&mut self, url: &CanonicalUrl) {
        if let Some(pattern) = self.pattern_mut(url) {
            pattern.urls = pattern.urls.saturating_add(1);
            pattern.latest_year =
                pattern.latest_year.max(date::year_of(url.path(), url.query()).unwrap_or(0));
        }
    }

    /// The part of the site that a URL belongs to, for comparing two of this host.
    pub fn part_of(&self, url: &CanonicalUrl) -> u64 {
        self.parts.part_of(url)
    }

    /// A page was read for the first time, and brought this.
    pub fn grew(&mut self, page: &CanonicalUrl, growth: PageGrowth) {
        self.parts.grew(page, growth);
    }

    /// A page whose address speaks of time was read for the first time; `empty` says that another page of its pattern is
    /// the same but for numbers and names of months and days.
    pub fn day(&mut self, page: &CanonicalUrl, empty: bool) {
        if let Some(pattern) = self.pattern_mut(page) {
            pattern.days = pattern.days.saturating_add(1);
            pattern.empty_days = pattern.empty_days.saturating_add(u32::from(empty));
        }
    }

    /// The pattern of a page whose address speaks of time: a date, or a word like `calendar`.
    pub fn calendar_of(page: &CanonicalUrl) -> Option<u64> {
        date::speaks_of_time(page.path(), page.query()).then(|| fingerprint(page)).flatten()
    }

    /// A page was fetched for the first time; `duplicate` says that its text was (nearly) that of another page.
    pub fn fetched(&mut self, url: &CanonicalUrl, duplicate: bool) {
        if let Some(pattern) = self.pattern_mut(url) {
            pattern.fetched = pattern.fetched.saturating_add(1);
            pattern.duplicates = pattern.duplicates.saturating_add(u32::from(duplicate));
        }
    }

    /// A page that was fetched before says something else now: it was a duplicate then, or it is one now.
    pub fn changed(&mut self, url: &CanonicalUrl, was_duplicate: bool, is_duplicate: bool) {
        if was_duplicate != is_duplicate
            && let Some(pattern) = self.pattern_mut(url)
        {
            pattern.duplicates = match is_duplicate {
                true => pattern.duplicates.saturating_add(1),
                false => pattern.duplicates.saturating_sub(1),
            };
        }
    }

    pub(super) fn pattern_of(&self, url: &CanonicalUrl) -> Option<Pattern> {
        let fingerprint = fingerprint(url)?;
        self.patterns.iter().find(|pattern| pattern.fingerprint == fingerprint).copied()
    }

    fn pattern_mut(&mut self, url: &CanonicalUrl) -> Option<&mut Pattern> {
        let fingerprint = fingerprint(url)?;
        let at = match self.patterns.iter().position(|pattern| pattern.fingerprint == fingerprint) {
            Some(at) => at,
            None => self.make_room(Pattern { fingerprint, ..Pattern::default() }),
        };
        self.patterns.get_mut(at)
    }

    fn make_room(&mut self, new: Pattern) -> usize {
        if self.patterns.len() < PATTERNS_MAX {
            self.patterns.push(new);
            return self.patterns.len() - 1;
        }
        let rarest = self.patterns.iter().enumerate().min_by_key(|(_, pattern)| pattern.urls);
        let at = rarest.map_or(0, |(at, _)| at);
        self.patterns[at] = new;
        at
    }
}

/// Fingerprint of the URL's pattern; `None` where it has neither numbers nor a query.
fn fingerprint(url: &CanonicalUrl) -> Option<u64> {
    let text = url.path_and_query();
    let has_pattern = text.bytes().any(|b| b.is_ascii_digit() || b == b'?');
    has_pattern.then(|| hash64(pattern(url.path(), url.query()).as_bytes()))
}

fn pattern(path: &str, query: Option<&str>) -> String {
    let mut pattern = String::with_capacity(path.len() + 32);
    push_without_numbers(&mut pattern, path);
    for parameter in query.into_iter().flat_map(|query| query.split('&')) {
        pattern.push('?');
        push_without_numbers(&mut pattern, parameter.split('=').next().unwrap_or_default());
    }
    pattern
}

fn push_without_numbers(pattern: &mut String, text: &str) {
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word);
        push_word(pattern, word);
        let gap = after.find(|c: char| c.is_ascii_alphanumeric()).unwrap_or(after.len());
        pattern.push_str(&after[..gap]);
        rest = &after[gap..];
    }
}

fn push_word(pattern: &mut String, word: &str) {
    let has = |is: fn(&u8) -> bool| word.as_bytes().iter().any(is);
    if word.len() >= MIXED_WORD_MIN && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) {
        pattern.push('@');
        return;
    }
    let mut in_number = false;
    for c in word.chars() {
        if !c.is_ascii_digit() {
            pattern.push(c);
        } else if !in_number {
            pattern.push('#');
        }
        in_number = c.is_ascii_digit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_leave_numbers_out() {
        let check = |text: &str, want: &str| {
            let (path, query) =
                text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
            assert_eq!(pattern(path, query), want);
        };
        check("/a/b", "/a/b");
        check("/2024/05/06?p=7", "/#/#/#?p");
        check("/a?x=b&y1=&z", "/a?x?y#?z");
        check("/img12x34.html", "/img#x#.html");
        check("/s/0af3b2c1d4e5f6a7b8/x", "/s/@/x");
        check("/s/00000000000000000000/x", "/s/#/x");
        check("/%C3%A9/", "/%C#%A#/");
        check("", "");
    }

    #[test]
    fn memory_is_bounded_and_the_busiest_pattern_stays() {
        let url = |text: String| CanonicalUrl::parse(&text).unwrap();
        let mut shape = HostShape::default();
        let letters = |n: u32| char::from(b'a' + (n % 26) as u8).to_string().repeat(1 + n as usize / 26);
        for n in 0..400 {
            shape.admitted(&url(format!("http://h/busy/{n}")), NamedBy::OwnPart);
            shape.admitted(&url(format!("http://h/{}/{n}", letters(n))), NamedBy::OwnPart);
        }
        assert_eq!(shape.patterns.len(), PATTERNS_MAX);
        assert_eq!(shape.pattern_of(&url("http://h/busy/7".into())).map(|pattern| pattern.urls), Some(400));
        assert!(shape.pattern_of(&url("http://h/none".into())).is_none());
    }
}
