//! Which URLs belong to this crawl.

use super::crawl_view::CrawlView;
use crate::config::pattern::{PatternVerdict, UrlPattern, judge};
use crate::config::{Crawl, CrawlScope, ScopeKind};
use anyhow::Result;
use farol_base::status::ScopeReason;
use farol_base::{CanonicalUrl, Host, PageId};
use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

/// How far the crawl goes.
#[derive(Clone, Debug)]
enum Reach {
    Around(ScopeKind),
    Pages(Arc<CrawlView>),
}

/// The part of the Web that is crawled: around the seeds or in a view, without removed hosts, as far as the patterns let.
#[derive(Clone, Debug)]
pub struct Scope {
    reach: Reach,
    patterns: Vec<UrlPattern>,
    /// Seeds and where they were moved to: they are read though no `+` pattern fits them, and no view holds them.
    starts: HashSet<PageId>,
    /// Lists that a robots.txt names, whatever they are called: `+` patterns do not apply to them, either.
    lists: HashSet<PageId>,
    hosts: HashSet<String>,
    domains: HashSet<String>,
    /// None of them begins with another.
    prefixes: BTreeSet<String>,
    removed: HashSet<Host>,
}

/// What the scope says of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeVerdict {
    Inside,
    /// Too far from the seeds.
    Outside,
    /// The operator took its host out.
    Removed,
    /// This pattern leaves it out.
    Excluded(UrlPattern),
    /// It fits none of the patterns to keep to.
    NotIncluded,
}

/// What was said about the host of the last URL.
#[derive(Debug, Default)]
pub struct Judged {
    host: String,
    inside: bool,
}

impl Scope {
    /// The scope of a crawl without seeds.
    pub fn open(settings: &Crawl) -> Result<Scope> {
        let reach = match (CrawlView::open(settings)?, &settings.scope) {
            (Some(view), _) => Reach::Pages(view),
            (None, CrawlScope::Around(kind)) => Reach::Around(*kind),
            (None, _) => unreachable!("a scope that is a view opens as one"),
        };
        Ok(Scope {
            reach,
            patterns: settings.patterns.clone(),
            starts: HashSet::new(),
            lists: HashSet::new(),
            hosts: HashSet::new(),
            domains: HashSet::new(),
            prefixes: BTreeSet::new(),
            removed: HashSet::new(),
        })
    }

    /// The view that it is, where it is one.
    pub fn view(&self) -> Option<&Arc<CrawlView>> {
        match &self.reach {
            Reach::Around(_) => None,
            Reach::Pages(view) => Some(view),
        }
    }

    /// Why it does not hold a page that [`Scope::verdict_at`] finds outside.
    pub fn why_outside(&self, url: &CanonicalUrl, address: Option<IpAddr>) -> ScopeReason {
        match &self.reach {
            Reach::Around(kind) => ScopeReason::Around(name_of(*kind).to_string()),
            Reach::Pages(view) => view
                .why_not(url, address)
                .unwrap_or(ScopeReason::View { wants: String::new(), told: String::new() }),
        }
    }

    /// Widens the scope to what this seed stands for, though its host was taken out before.
    pub fn add_seed(&mut self, seed: &CanonicalUrl) {
        self.removed.remove(&seed.host());
        self.widen(seed);
    }

    /// Widens the scope to what a URL stands for to which a seed was moved. A host that was taken out stays out.
    pub fn widen(&mut self, to: &CanonicalUrl) {
        let host = to.host();
        self.starts.insert(to.id());
        let Reach::Around(kind) = self.reach else { return };
        match kind {
            ScopeKind::Host => {
                self.hosts.insert(host_name(&host));
            }
            ScopeKind::Domain => {
                self.domains.insert(host.registrable_domain().to_string());
            }
            ScopeKind::Prefix => {
                let text = to.as_str().split('?').next().unwrap_or_default();
                let end = text.rfind('/').map_or(text.len(), |at| at + 1);
                self.add_prefix(&text[..end]);
            }
            ScopeKind::Web => {}
        }
    }

    /// A robots.txt names this list of addresses. It is remembered where nothing else would let it in.
    pub fn add_list(&mut self, list: &CanonicalUrl) {
        if self.verdict(list) == ScopeVerdict::NotIncluded {
            self.lists.insert(list.id());
        }
    }

    /// Adds a prefix, unless a shorter one does already; those that it covers are dropped.
    fn add_prefix(&mut self, prefix: &str) {
        if self.has_prefix_of(prefix) {
            return;
        }
        let after = self.prefixes.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let covered: Vec<String> = after.take_while(|other| other.starts_with(prefix)).cloned().collect();
        for other in covered {
            self.prefixes.remove(&other);
        }
        self.prefixes.insert(prefix.to_string());
    }

    /// Prefixes do not nest, so only the greatest that is not after the text can begin it.
    fn has_prefix_of(&self, text: &str) -> bool {
        let mut upto = self.prefixes.range::<str, _>((Bound::Unbounded, Bound::Included(text)));
        upto.next_back().is_some_and(|prefix| text.starts_with(prefix))
    }

    /// Takes a host out, whatever the seeds say, until it is named as a seed again.
    pub fn remove_host(&mut self, host: Host) {
        self.removed.insert(host);
    }

    /// Whether the host was taken out.
    pub fn is_removed(&self, host: &Host) -> bool {
        self.removed.contains(host)
    }

    /// The same as [`Scope::verdict`], for many URLs in a row: where the host alone decides, and it is the one of the URL before,
    /// it is not judged again.
    pub fn contains_too(&self, url: &CanonicalUrl, judged: &mut Judged) -> bool {
        let host_decides = !matches!(self.reach, Reach::Around(ScopeKind::Prefix) | Reach::Pages(_));
        if !host_decides || judged.host != url.host_str() {
            judged.host.clear();
            judged.host.push_str(url.host_str());
            judged.inside = self.is_around(url, None) && !self.removed.contains(&url.host());
        }
        judged.inside && self.fits(url) == PatternVerdict::Wanted
    }

    #[cfg(test)]
    pub fn contains(&self, url: &CanonicalUrl) -> bool {
        self.contains_too(url, &mut Judged::default())
    }

    /// Says why a URL does not belong to the crawl, if it does not.
    pub fn verdict(&self, url: &CanonicalUrl) -> ScopeVerdict {
        self.verdict_at(url, None)
    }

    /// The same where the address of its server is known.
    pub fn verdict_at(&self, url: &CanonicalUrl, address: Option<IpAddr>) -> ScopeVerdict {
        if self.removed.contains(&url.host()) {
            return ScopeVerdict::Removed;
        }
        if !self.is_around(url, address) {
            return ScopeVerdict::Outside;
        }
        match self.fits(url) {
            PatternVerdict::Wanted => ScopeVerdict::Inside,
            PatternVerdict::Excluded(pattern) => ScopeVerdict::Excluded(pattern.clone()),
            PatternVerdict::NotIncluded => ScopeVerdict::NotIncluded,
        }
    }

    /// Whether a URL is near enough to the seeds, or may be in the view.
    fn is_around(&self, url: &CanonicalUrl, address: Option<IpAddr>) -> bool {
        match &self.reach {
            Reach::Around(ScopeKind::Web) => true,
            Reach::Around(ScopeKind::Prefix) => self.has_prefix_of(url.as_str()),
            Reach::Around(ScopeKind::Host) => self.hosts.contains(&host_name(&url.host())),
            Reach::Around(ScopeKind::Domain) => self.domains.contains(url.host().registrable_domain()),
            Reach::Pages(view) => self.starts.contains(&url.id()) || view.may_hold(url, address),
        }
    }

    fn fits(&self, url: &CanonicalUrl) -> PatternVerdict<'_> {
        if self.patterns.is_empty() {
            return PatternVerdict::Wanted;
        }
        let leads_on = is_list(url) || self.starts.contains(&url.id()) || self.lists.contains(&url.id());
        judge(&self.patterns, url, leads_on)
    }
}

/// Whether a URL looks like a list of addresses: a sitemap, or a part of one.
fn is_list(url: &CanonicalUrl) -> bool {
    let name = url.path().rsplit('/').next().unwrap_or_default();
    name.starts_with("sitemap") || name.ends_with(".xml") || name.ends_with(".xml.gz")
}

/// A seed's host stands for both schemes: a site that moves from http to https is still the site. An unusual
/// port is part of the name.
fn host_name(host: &Host) -> String {
    match host.port() {
        80 | 443 => host.name().to_string(),
        port => format!("{}:{port}", host.name()),
    }
}

/// As settings write it.
fn name_of(kind: ScopeKind) -> &'static str {
    match kind {
        ScopeKind::Host => "host",
        ScopeKind::Domain => "domain",
        ScopeKind::Prefix => "prefix",
        ScopeKind::Web => "web",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(scope: impl Into<CrawlScope>, patterns: &[&str]) -> Scope {
        let patterns = patterns.iter().map(|text| text.parse().unwrap()).collect();
        Scope::open(&Crawl { scope: scope.into(), patterns, ..Crawl::default() }).unwrap()
    }

    #[track_caller]
    fn check(kind: ScopeKind, seed: &str, url: &str, want: bool) {
        let mut scope = scope(kind, &[]);
        scope.add_seed(&CanonicalUrl::parse(seed).unwrap());
        assert_eq!(scope.contains(&CanonicalUrl::parse(url).unwrap()), want, "{kind:?} {seed} {url}");
    }

    #[test]
    fn a_seed_stands_for_its_surroundings() {
        use ScopeKind::*;
        check(Host, "http://a.org/x", "http://a.org/y", true);
        check(Host, "http://a.org/x", "https://a.org/y", true);
        check(Host, "http://a.org/x", "http://a.org:8080/y", false);
        check(Host, "http://a.org:8080/x", "http://a.org:8080/y", true);
        check(Host, "http://a.org/x", "http://b.a.org/y", false);
        check(Domain, "http://a.co.uk/", "http://www.a.co.uk/y", true);
        check(Domain, "http://a.co.uk/", "http://b.co.uk/", false);
        check(Prefix, "http://a.org/docs/index.html", "http://a.org/docs/x/y", true);
        check(Prefix, "http://a.org/docs/?x=/y/", "http://a.org/docs/x", true);
        check(Prefix, "http://a.org/docs/", "http://a.org/", false);
        check(Web, "http://a.org/", "http://z.net/", true);
    }

    #[test]
    fn hosts_are_judged_once_in_a_row() {
        for kind in [ScopeKind::Host, ScopeKind::Domain, ScopeKind::Prefix, ScopeKind::Web] {
            let mut scope = scope(kind, &["-/y"]);
            scope.add_seed(&CanonicalUrl::parse("http://a.org/x/").unwrap());
            let mut judged = Judged::default();
            for url in [
                "http://a.org/x/1",
                "http://a.org/y",
                "http://b.org/x/",
                "http://b.a.org/",
                "http://a.org/x/2",
            ] {
                let url = CanonicalUrl::parse(url).unwrap();
                assert_eq!(scope.contains_too(&url, &mut judged), scope.contains(&url), "{kind:?} {url}");
            }
        }
    }

    #[test]
    fn a_view_holds_pages_wherever_the_seeds_are() {
        let scope_text: CrawlScope =
            "(.pt minus prefix:a.pt/x) and lang:pt and not ip:10.0.0.0/8".parse().unwrap();
        let mut scope = scope(scope_text, &["-/y"]);
        let url = |text: &str| CanonicalUrl::parse(text).unwrap();
        scope.add_seed(&url("http://portal.example/"));
        let mut judged = Judged::default();
        for (text, want) in [
            ("http://a.pt/", ScopeVerdict::Inside),
            ("http://a.pt/x", ScopeVerdict::Outside),
            ("http://a.pt/z", ScopeVerdict::Inside),
            ("http://portal.example/", ScopeVerdict::Inside),
            ("http://portal.example/list", ScopeVerdict::Outside),
            ("http://b.pt/y", ScopeVerdict::Excluded("-/y".parse().unwrap())),
        ] {
            assert_eq!(scope.verdict(&url(text)), want, "{text}");
            assert_eq!(scope.contains_too(&url(text), &mut judged), want == ScopeVerdict::Inside, "{text}");
        }
        let at = Some("10.1.1.1".parse().unwrap());
        assert_eq!(scope.verdict_at(&url("http://a.pt/"), at), ScopeVerdict::Outside);
        assert!(scope.why_outside(&url("http://a.pt/"), at).written().contains("not ip:10.0.0.0/8"));
        scope.remove_host(url("http://a.pt/").host());
        assert_eq!(scope.verdict(&url("http://a.pt/")), ScopeVerdict::Removed);
    }

    #[test]
    fn prefixes_may_nest() {
        let mut scope = scope(ScopeKind::Prefix, &[]);
        for seed in ["http://a/x/b/", "http://a/x/", "http://a/x/c/", "http://a/w/"] {
            scope.add_seed(&CanonicalUrl::parse(seed).unwrap());
        }
        assert_eq!(scope.prefixes.len(), 2);
        for (url, want) in [("http://a/x/c", true), ("http://a/x/b/d", true), ("http://a/y/", false)] {
            assert_eq!(scope.contains(&CanonicalUrl::parse(url).unwrap()), want, "{url}");
        }
    }

    #[test]
    fn a_removed_host_comes_back_only_as_a_seed() {
        let seed = CanonicalUrl::parse("http://a.org/").unwrap();
        let mut scope = scope(ScopeKind::Web, &[]);
        scope.add_seed(&seed);
        scope.remove_host(seed.host());
        assert!(!scope.contains(&seed));
        scope.add_seed(&seed);
        assert!(scope.contains(&seed));
    }

    #[test]
    fn patterns_narrow_the_scope_but_for_what_leads_there() {
        let url = |text: &str| CanonicalUrl::parse(text).unwrap();
        let mut scope = scope(ScopeKind::Host, &["+/docs/", "-/docs/calendar/"]);
        scope.add_seed(&url("http://a.org/"));
        let excluded = || ScopeVerdict::Excluded("-/docs/calendar/".parse().unwrap());
        for (text, want) in [
            ("http://a.org/", ScopeVerdict::Inside),
            ("http://a.org/sitemap.xml", ScopeVerdict::Inside),
            ("http://a.org/docs/x", ScopeVerdict::Inside),
            ("http://a.org/blog/x", ScopeVerdict::NotIncluded),
            ("http://a.org/docs/calendar/1", excluded()),
            ("http://b.org/docs/x", ScopeVerdict::Outside),
        ] {
            assert_eq!(scope.verdict(&url(text)), want, "{text}");
            assert_eq!(scope.contains(&url(text)), want == ScopeVerdict::Inside, "{text}");
        }
        for (list, want) in [
            ("http://a.org/urls.txt", ScopeVerdict::Inside),
            ("http://b.org/urls.txt", ScopeVerdict::Outside),
        ] {
            scope.add_list(&url(list));
            assert_eq!(scope.verdict(&url(list)), want, "{list}");
        }
        scope.remove_host(url("http://a.org/").host());
        assert_eq!(scope.verdict(&url("http://a.org/")), ScopeVerdict::Removed);
        scope.widen(&url("http://a.org/docs/"));
        assert_eq!(
            scope.verdict(&url("http://a.org/")),
            ScopeVerdict::Removed,
            "only a seed lets it back in"
        );
    }
}
