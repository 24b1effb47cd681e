//! The view that a crawl is about, where its scope is one, and what can be said of a page at which time.
//!
//! Before a visit the address of a page is known, and once its server was found, that server's address and where it stands: a page
//! that is surely outside by these is not asked for. After the visit its language, type, date and title are known: a page
//! that turns out to lie outside stays out of the index, and its links are not followed. Links of seeds are followed all the
//! same, as a list of a country's sites may well stand elsewhere.

use super::places::Places;
use crate::config::{Crawl, CrawlScope};
use anyhow::{Context, Result, bail};
use farol_base::status::ScopeReason;
use farol_base::{CanonicalUrl, Language, Timestamp};
use farol_federation::view::{Atom, Limits, Matcher};
use farol_federation::{Answer, Facts, View};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// A view that decides what belongs to a crawl.
#[derive(Debug)]
pub struct CrawlView {
    view: View,
    matcher: Matcher,
    places: Places,
    /// It has conditions that only a visit can decide.
    needs_visit: bool,
}

/// What a visit told of a page.
#[derive(Clone, Copy, Debug)]
pub struct VisitFacts<'a> {
    pub url: &'a CanonicalUrl,
    pub address: Option<IpAddr>,
    pub language: Option<Language>,
    pub content_type: Option<&'a str>,
    pub dated: Option<Timestamp>,
    pub title: &'a str,
}

impl CrawlView {
    /// Reads what the settings say; `None` where the scope lies around the seeds.
    pub fn open(crawl: &Crawl) -> Result<Option<Arc<CrawlView>>> {
        let view = match &crawl.scope {
            CrawlScope::Around(_) => return Ok(None),
            CrawlScope::Pages(view) => view.clone(),
            CrawlScope::Listed(file) => read_list(file)?,
        };
        let atoms = view.atoms();
        if atoms.iter().any(|atom| matches!(atom, Atom::Linked(..) | Atom::Like(..))) {
            bail!("crawl.scope cannot have linked: or like:, which a crawl does not know of a page");
        }
        let by_place = atoms.iter().any(|atom| matches!(atom, Atom::Country(_) | Atom::Within(_)));
        if by_place && crawl.places.is_empty() {
            bail!(
                "country: and geo: in crawl.scope need a table of where servers stand: set crawl.places to its file"
            );
        }
        let places = if by_place { Places::read(Path::new(&crawl.places))? } else { Places::default() };
        let needs_visit = atoms.iter().any(|atom| {
            matches!(
                atom,
                Atom::Language(_) | Atom::Type(_) | Atom::Dated(..) | Atom::Undated | Atom::Title(_)
            )
        });
        Ok(Some(Arc::new(CrawlView { matcher: Matcher::of(&view), view, places, needs_visit })))
    }

    /// Whether pages must be read to tell, not only their links.
    pub fn needs_visit(&self) -> bool {
        self.needs_visit
    }

    /// Whether a page may belong to it, before it is visited.
    pub fn may_hold(&self, url: &CanonicalUrl, address: Option<IpAddr>) -> bool {
        self.matcher.has(&self.before(url, address)) != Answer::No
    }

    /// Why a page does not belong to it, as far as is known before a visit.
    pub fn why_not(&self, url: &CanonicalUrl, address: Option<IpAddr>) -> Option<ScopeReason> {
        let facts = self.before(url, address);
        let condition = self.view.failing(&facts)?;
        let told = address.map_or(String::new(), |address| format!("ip:{address}"));
        Some(ScopeReason::View { wants: shortened(&condition), told })
    }

    /// Why a page that was visited does not belong to it.
    pub fn why_outside(&self, page: &VisitFacts<'_>) -> Option<ScopeReason> {
        let facts = self.before(page.url, page.address);
        let facts = facts.language(page.language).dated(page.dated).title(page.title);
        let facts = match page.content_type {
            Some(media) => facts.media_type(media),
            None => facts,
        };
        if self.matcher.has(&facts) != Answer::No {
            return None;
        }
        let condition = self.view.failing(&facts).unwrap_or_default();
        let language = page.language.map_or("?".to_string(), |language| language.to_string());
        let kind = page.content_type.map_or("?", |text| text.split(';').next().unwrap_or_default().trim());
        let told = format!("lang:{language} type:{kind}");
        Some(ScopeReason::View { wants: shortened(&condition), told })
    }

    fn before(&self, url: &CanonicalUrl, address: Option<IpAddr>) -> Facts {
        let facts = Facts::of(url);
        match address {
            Some(address) => self.places.facts_at(facts, address),
            None => facts,
        }
    }

    /// Where servers stand.
    pub fn places(&self) -> &Places {
        &self.places
    }
}

/// Any of the views of a file, one a line; `#` at the beginning of a line makes it a comment.
fn read_list(file: &Path) -> Result<View> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the views of crawl.scope in {}", file.display()))?;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let mut joined = String::new();
    for (number, line) in lines {
        // Each alone, so that a mistake is found in its line.
        View::parse(line)
            .map_err(|error| anyhow::anyhow!("{}", error.pointed()))
            .with_context(|| format!("line {} of {}", number + 1, file.display()))?;
        joined.push_str(if joined.is_empty() { "(" } else { ") or (" });
        joined.push_str(line);
    }
    if joined.is_empty() {
        bail!("{} has no view: nothing would be crawled", file.display());
    }
    joined.push(')');
    View::parse_within(&joined, &Limits::own_file()).with_context(|| format!("in {}", file.display()))
}

/// A condition as it is told: lists of thousands of hosts are cut.
fn shortened(condition: &str) -> String {
    match condition.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &condition[..end]),
        None => condition.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crawl(scope: &str, places: &str) -> Crawl {
        Crawl { scope: scope.parse().unwrap(), places: places.to_string(), ..Crawl::default() }
    }

    fn url(text: &str) -> CanonicalUrl {
        CanonicalUrl::parse(text).unwrap()
    }

    #[test]
    fn what_is_known_decides_when_it_is_known() {
        let view = CrawlView::open(&crawl(".pt and lang:pt and not ip:10.0.0.0/8", "")).unwrap().unwrap();
        let page = url("http://www.a.pt/x");
        let at = |text: &str| Some(text.parse().unwrap());
        assert!(view.needs_visit() && view.may_hold(&page, None) && view.may_hold(&page, at("11.0.0.1")));
        assert!(!view.may_hold(&url("http://a.es/"), None) && !view.may_hold(&page, at("10.0.0.1")));
        let why = view.why_not(&page, at("10.0.0.1")).unwrap();
        assert_eq!(why.written(), "view not ip:10.0.0.0/8\nip:10.0.0.1");
        assert_eq!(view.why_not(&page, None), None);
        let told = |language| VisitFacts {
            url: &page,
            address: at("11.0.0.1"),
            language,
            content_type: Some("text/html; charset=utf-8"),
            dated: None,
            title: "Praia",
        };
        assert_eq!(view.why_outside(&told(Some(Language::PORTUGUESE))), None);
        let why = view.why_outside(&told(Some(Language::SPANISH))).unwrap();
        assert_eq!(why.written(), "view lang:pt\nlang:es type:text/html");
    }

    #[test]
    fn files_of_views_and_of_places_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
        std::fs::write(path("hosts"), "# sites\nhost:a.org\n\nprefix:b.org/docs\n.pt and country:pt\n")
            .unwrap();
        std::fs::write(path("places"), "193.136.0.0/15,pt\n").unwrap();
        let view = CrawlView::open(&crawl(&format!("@{}", path("hosts")), &path("places"))).unwrap().unwrap();
        let at = |text: &str| Some(text.parse().unwrap());
        assert!(
            view.may_hold(&url("https://a.org/x"), None) && view.may_hold(&url("http://b.org/docs/x"), None)
        );
        assert!(!view.may_hold(&url("http://b.org/x"), None) && view.may_hold(&url("http://c.pt/"), None));
        assert!(view.may_hold(&url("http://c.pt/"), at("193.137.1.1")));
        assert!(!view.may_hold(&url("http://c.pt/"), at("11.0.0.1")) && !view.needs_visit());
        std::fs::write(path("hosts"), "host:a.org\nlnag:pt\n").unwrap();
        let refused =
            |scope: &str, places: &str| format!("{:#}", CrawlView::open(&crawl(scope, places)).unwrap_err());
        assert!(refused(&format!("@{}", path("hosts")), "").contains("line 2 of"));
        assert!(refused("country:pt", "").contains("crawl.places"));
        assert!(refused("linked:http://a.org/~2", "").contains("linked:"));
        assert!(refused("@nowhere", "").contains("cannot read"));
    }

    #[test]
    fn a_list_of_many_hosts_is_one_look_up() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts");
        let lines: Vec<String> = (0..20_000).map(|i| format!("host:h{i}.example.org")).collect();
        std::fs::write(&file, lines.join("\n")).unwrap();
        let view = CrawlView::open(&crawl(&format!("@{}", file.display()), "")).unwrap().unwrap();
        let held = (0..40_000).filter(|i| view.may_hold(&url(&format!("http://h{i}.example.org/")), None));
        assert_eq!(held.count(), 20_000);
    }
}
