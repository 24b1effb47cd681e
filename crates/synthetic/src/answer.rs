//! What a request is answered with: status, headers and body, by formula.

use super::change::Version;
use super::links::LinkTo;
use super::place::Place;
use super::world::{Breakage, Draw, Failure, Kind, Page, Redirect, World, draw};
use farol_base::Timestamp;
use farol_base::random::mix;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A request, as far as it matters for the answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// Host name, with or without a port.
    pub host: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a str>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<Timestamp>,
}

/// What sort of thing was asked for; the log keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Served {
    Page,
    Duplicate,
    Door,
    Redirect,
    Missing,
    Failing,
    Slow,
    Broken,
    Huge,
    Robots,
    Sitemap,
    Feed,
    Trap,
    /// No such path, or no such host.
    #[default]
    Nothing,
}

/// How an answer is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    #[default]
    Whole,
    /// After this long, or in pieces over this long.
    Slow {
        wait: Duration,
        dribbles: bool,
    },
    /// So many bytes of filler after the body.
    Huge {
        bytes: u64,
    },
    /// So many bytes of filler, as a small gzip body.
    Bomb {
        bytes: u64,
    },
    Broken(Breakage),
}

/// An answer. Made once and filled again and again, so that its buffers are reused.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub served: Served,
    pub content_type: &'static str,
    pub location: Option<String>,
    pub etag: Option<u64>,
    pub last_modified: Option<Timestamp>,
    pub retry_after_secs: Option<u32>,
    /// `X-Robots-Tag`.
    pub robots_tag: Option<&'static str>,
    pub body: Vec<u8>,
    pub delivery: Delivery,
    links: Vec<LinkTo>,
}

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
const XML: &str = "application/xml";
const GZIP: &str = "application/gzip";

/// Size of a huge page.
pub const HUGE_BYTES: u64 = 64 << 20;
/// `Retry-After` of pages that fail.
pub const RETRY_AFTER_SECS: u32 = 1;
/// Half the period of pages that fail by turns.
const TURN_SECS: u64 = 10;

impl Answer {
    pub(super) fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Answer {
        Answer { status, content_type, body, ..Answer::default() }
    }

    fn reset(&mut self, status: u16, served: Served, content_type: &'static str) {
        self.body.clear();
        *self = Answer {
            status,
            served,
            content_type,
            body: std::mem::take(&mut self.body),
            links: std::mem::take(&mut self.links),
            ..Answer::default()
        };
    }

    fn say(&mut self, sentence: &str) {
        self.body.extend_from_slice(b"<!DOCTYPE html>\n<title>");
        self.body.extend_from_slice(sentence.as_bytes());
        self.body.extend_from_slice(b"</title>\n<p>");
        self.body.extend_from_slice(sentence.as_bytes());
        self.body.extend_from_slice(b"</p>\n");
    }

    fn redirect(&mut self, status: u16, location: Vec<u8>) {
        self.reset(status, Served::Redirect, HTML);
        self.location = String::from_utf8(location).ok();
        self.say("It is elsewhere.");
    }
}

impl World {
    /// The answer to an unconditional request for a URL when the world's clock shows `at`.
    ///
    /// ```
    /// use farol_synthetic::{WebConfig, World};
    /// let world = World::new(WebConfig { hosts: 10, pages: 100, ..WebConfig::default() })?;
    /// let front = world.page(&format!("http://{}/", world.host_name(0)), world.config().start);
    /// assert_eq!(front.status, 200);
    /// assert!(front.body.starts_with(b"<!DOCTYPE html>"));
    /// # Ok::<(), farol_synthetic::Error>(())
    /// ```
    pub fn page(&self, url: &str, at: Timestamp) -> Answer {
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let mut answer = Answer::default();
        let path = if path.is_empty() { "/" } else { path };
        self.answer(&Ask { host, path, ..Ask::default() }, at, &mut answer);
        answer
    }

    /// Fills in the answer to a request when the world's clock shows `at`.
    pub fn answer(&self, ask: &Ask<'_>, at: Timestamp, answer: &mut Answer) {
        let Some(host) = self.host_number(ask.host) else {
            answer.reset(404, Served::Nothing, HTML);
            return answer.say("There is no such host in this Web.");
        };
        match self.locate(host, ask.path) {
            Place::Page(page) => self.answer_page(page, ask, at, answer),
            Place::Robots => self.answer_robots(host, at, answer),
            Place::MovedRobots if self.rules(host).moved => {
                answer.reset(200, Served::Robots, TEXT);
                answer.body.extend_from_slice(self.rules(host).text(&self.host_name(host)).as_bytes());
            }
            Place::Hop { page, left } => self.answer_hop(page, left, answer),
            Place::Loop { page, turn } => {
                let mut path = Vec::new();
                self.push_step(&mut path, "loop", page, 1 - turn.min(1));
                answer.redirect(302, path);
            }
            Place::Sitemap if self.has_sitemap(host) => {
                answer.reset(200, Served::Sitemap, XML);
                self.push_sitemap(&mut answer.body, host, at);
            }
            Place::SitemapPart(part) => {
                answer.reset(200, Served::Sitemap, if part.is_multiple_of(2) { XML } else { GZIP });
                if !self.push_sitemap_part(&mut answer.body, host, part, at) {
                    nothing(answer);
                }
            }
            Place::Feed if self.has_feed(host) => {
                answer.reset(200, Served::Feed, XML);
                self.push_feed(&mut answer.body, host, at);
            }
            Place::Trap(trap) => {
                answer.reset(200, Served::Trap, HTML);
                self.render_trap(host, ask.path, &trap, &mut answer.body);
            }
            Place::Sitemap | Place::Feed | Place::MovedRobots | Place::Nothing => nothing(answer),
        }
    }

    fn answer_page(&self, page: Page, ask: &Ask<'_>, at: Timestamp, answer: &mut Answer) {
        match self.kind(page) {
            Kind::Redirect(redirect) => return self.answer_redirect(page, redirect, answer),
            Kind::Missing { gone } => {
                answer.reset(if gone { 410 } else { 404 }, Served::Missing, HTML);
                return answer.say("It is not here.");
            }
            Kind::Failing(failure) if self.fails_now(failure, at) => {
                let status = match failure {
                    Failure::Error => 500,
                    Failure::Unavailable | Failure::ByTurns => 503,
                    Failure::TooMany => 429,
                };
                answer.reset(status, Served::Failing, HTML);
                answer.retry_after_secs = (failure != Failure::Error).then_some(RETRY_AFTER_SECS);
                return answer.say("Not now.");
            }
            Kind::Plain => answer.reset(200, Served::Page, HTML),
            Kind::Failing(_) => answer.reset(200, Served::Failing, HTML),
            Kind::Duplicate { .. } => answer.reset(200, Served::Duplicate, HTML),
            Kind::Door(_) => answer.reset(200, Served::Door, HTML),
            Kind::Slow { dribbles } => {
                answer.reset(200, Served::Slow, HTML);
                let wait = Duration::from_millis(u64::from(self.config().slow_millis));
                answer.delivery = Delivery::Slow { wait, dribbles };
            }
            Kind::Broken(breakage) => {
                answer.reset(200, Served::Broken, HTML);
                answer.delivery = Delivery::Broken(breakage);
                if breakage == Breakage::BadText {
                    answer.content_type = "text/html; charset=utf-16";
                }
            }
            Kind::Huge { bomb } => {
                answer.reset(200, Served::Huge, HTML);
                let bytes = HUGE_BYTES;
                answer.delivery = if bomb { Delivery::Bomb { bytes } } else { Delivery::Huge { bytes } };
            }
        }
        let shown = self.shown(page);
        let marks = self.marks(shown);
        if marks.in_header {
            answer.robots_tag = Some("noindex");
        }
        let version = self.version(shown, at);
        self.validate(page, version, ask, answer);
        if answer.status != 304 {
            self.render(page, at, &mut answer.links, &mut answer.body);
        }
    }

    /// Sets the validators of a page and turns the answer into 304 where the asker has this version already.
    fn validate(&self, page: Page, version: Version, ask: &Ask<'_>, answer: &mut Answer) {
        // One host in ten has neither validator, one in ten only the date.
        let offers = draw(self.host_key(page.host), Draw::Validators) % 10;
        let etag = mix(self.key(page) ^ version.number);
        answer.etag = (offers >= 2).then_some(etag);
        answer.last_modified = (offers >= 1).then_some(version.since);
        // RFC 9110 §13.2.2: If-Modified-Since counts only where there is no If-None-Match.
        let unchanged = match (ask.if_none_match, ask.if_modified_since) {
            (Some(tags), _) => answer.etag.is_some_and(|etag| has_tag(tags, etag)),
            (None, Some(since)) => {
                answer.last_modified.is_some_and(|modified| modified.as_secs() <= since.as_secs())
            }
            (None, None) => false,
        };
        if unchanged && answer.delivery == Delivery::Whole {
            answer.status = 304;
        }
    }

    fn answer_redirect(&self, page: Page, redirect: Redirect, answer: &mut Answer) {
        let mut to = Vec::new();
        match redirect {
            Redirect::To(target) if target.host == page.host => self.push_path(&mut to, target),
            Redirect::To(target) => self.push_url(&mut to, target),
            Redirect::Chain { hops, .. } => self.push_step(&mut to, "hop", page, hops),
            Redirect::Loop => self.push_step(&mut to, "loop", page, 0),
        }
        let status = [301, 302, 303, 307, 308][(self.key(page) % 5) as usize];
        answer.redirect(status, to);
    }

    fn answer_hop(&self, page: Page, left: u8, answer: &mut Answer) {
        let Kind::Redirect(Redirect::Chain { hops, to }) = self.kind(page) else { return nothing(answer) };
        if left == 0 || left > hops {
            return nothing(answer);
        }
        let mut path = Vec::new();
        match left {
            1 => self.push_path(&mut path, to),
            _ => self.push_step(&mut path, "hop", page, left - 1),
        }
        answer.redirect(302, path);
    }

    fn answer_robots(&self, host: u32, at: Timestamp, answer: &mut Answer) {
        let rules = self.rules(host);
        if self.elapsed(at) < rules.fails_for {
            answer.reset(503, Served::Robots, TEXT);
            answer.retry_after_secs = Some(RETRY_AFTER_SECS);
        } else if rules.moved {
            answer.redirect(301, b"/robots-moved.txt".to_vec());
            answer.served = Served::Robots;
        } else {
            answer.reset(rules.status, Served::Robots, TEXT);
            if rules.status == 200 {
                answer.body.extend_from_slice(rules.text(&self.host_name(host)).as_bytes());
            }
        }
    }

    fn fails_now(&self, failure: Failure, at: Timestamp) -> bool {
        failure != Failure::ByTurns || (self.elapsed(at).as_secs() / TURN_SECS).is_multiple_of(2)
    }
}

fn nothing(answer: &mut Answer) {
    answer.reset(404, Served::Nothing, HTML);
    answer.say("There is nothing here.");
}

/// Whether a list of entity tags has this one; weak tags count as strong ones.
fn has_tag(tags: &str, etag: u64) -> bool {
    tags.split(',')
        .map(|tag| tag.trim().trim_start_matches("W/").trim_matches('"'))
        .any(|tag| tag == "*" || (tag.len() == 16 && u64::from_str_radix(tag, 16) == Ok(etag)))
}

/// An instant as HTTP and RSS write it: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn http_date(at: Timestamp) -> httpdate::HttpDate {
    // The type holds years up to 9999.
    let secs = at.as_secs().min(253_402_300_799);
    httpdate::HttpDate::from(std::time::UNIX_EPOCH + Duration::from_secs(secs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebConfig;

    fn all_sorts() -> World {
        World::new(WebConfig {
            hosts: 40,
            pages: 4000,
            redirects: 0.1,
            missing: 0.1,
            failing: 0.1,
            slow: 0.1,
            broken: 0.1,
            huge: 0.05,
            duplicates: 0.1,
            traps: 0.1,
            mean_page_bytes: 4000,
            mean_links: 10.0,
            ..WebConfig::default()
        })
        .unwrap()
    }

    #[test]
    fn every_kind_of_page_answers_as_it_is() {
        let world = all_sorts();
        let start = world.config().start;
        for page in world.all_pages() {
            let answer = world.page(&world.url(page), start);
            let want = match world.kind(page) {
                Kind::Plain => (200, Served::Page),
                Kind::Duplicate { .. } => (200, Served::Duplicate),
                Kind::Door(_) => (200, Served::Door),
                Kind::Redirect(_) => (answer.status, Served::Redirect),
                Kind::Missing { gone: true } => (410, Served::Missing),
                Kind::Missing { gone: false } => (404, Served::Missing),
                Kind::Failing(Failure::Error) => (500, Served::Failing),
                Kind::Failing(Failure::TooMany) => (429, Served::Failing),
                Kind::Failing(_) => (503, Served::Failing),
                Kind::Slow { .. } => (200, Served::Slow),
                Kind::Broken(_) => (200, Served::Broken),
                Kind::Huge { .. } => (200, Served::Huge),
            };
            assert_eq!((answer.status, answer.served), want, "{}", world.url(page));
            assert_eq!(answer.location.is_some(), (301..=308).contains(&answer.status));
        }
    }

    #[test]
    fn redirects_arrive_where_they_lead() {
        let world = all_sorts();
        let start = world.config().start;
        for page in world.all_pages() {
            let Kind::Redirect(redirect) = world.kind(page) else { continue };
            let mut url = world.url(page);
            let mut hops = 0;
            let wanted = match redirect {
                Redirect::To(to) => (1, Some(world.url(to))),
                Redirect::Chain { hops, to } => (u32::from(hops) + 1, Some(world.url(to))),
                Redirect::Loop => (12, None),
            };
            while hops < wanted.0 {
                let location = world.page(&url, start).location.expect("still on the way");
                let host = url.split('/').nth(2).unwrap();
                url = if location.starts_with('/') { format!("http://{host}{location}") } else { location };
                hops += 1;
            }
            if let Some(to) = wanted.1 {
                assert_eq!(url, to);
            }
        }
    }

    #[test]
    fn conditional_requests_get_304_until_the_page_changes() {
        let config = WebConfig { hosts: 40, pages: 400, change_rate: 1.0, ..WebConfig::tame() };
        let world = World::new(config).unwrap();
        let start = world.config().start;
        let mut both = 0;
        for page in world.all_pages().step_by(7) {
            let (name, path) = (world.host_name(page.host), world.path(page));
            let first = world.page(&world.url(page), start);
            let ask = Ask { host: &name, path: &path, ..Ask::default() };
            let mut answer = Answer::default();
            let tag = first.etag.map(|tag| format!("W/\"0\", \"{tag:016x}\""));
            let year = start + Duration::from_secs(365 * 86_400);
            if let Some(tag) = &tag {
                both += 1;
                world.answer(&Ask { if_none_match: Some(tag), ..ask }, start, &mut answer);
                assert_eq!((answer.status, answer.body.len()), (304, 0));
                world.answer(&Ask { if_none_match: Some(tag), ..ask }, year, &mut answer);
                assert_eq!(answer.status, 200);
                // A tag that does not match is not overruled by the date.
                let stale = Ask { if_none_match: Some("\"x\""), if_modified_since: Some(year), ..ask };
                world.answer(&stale, start, &mut answer);
                assert_eq!(answer.status, 200);
            }
            if let Some(modified) = first.last_modified {
                world.answer(&Ask { if_modified_since: Some(modified), ..ask }, start, &mut answer);
                assert_eq!(answer.status, 304);
                world.answer(&Ask { if_modified_since: Some(modified), ..ask }, year, &mut answer);
                assert_eq!(answer.status, 200);
            }
        }
        assert!(both > 20);
    }

    #[test]
    fn robots_fail_at_first_and_then_speak() {
        let config =
            WebConfig { hosts: 50, pages: 50, robots_failing: 1.0, robots: 1.0, ..WebConfig::default() };
        let world = World::new(config).unwrap();
        let after = world.clock(Duration::from_secs(10));
        for host in 0..50 {
            let url = format!("http://{}/robots.txt", world.host_name(host));
            let answer = world.page(&url, world.config().start);
            assert_eq!((answer.status, answer.retry_after_secs), (503, Some(1)));
            let answer = world.page(&url, after);
            match world.rules(host).moved {
                true => assert_eq!(answer.location.as_deref(), Some("/robots-moved.txt")),
                false => assert!(String::from_utf8(answer.body).unwrap().contains("Disallow: /")),
            }
        }
    }

    #[test]
    fn what_does_not_exist_is_404() {
        let world = all_sorts();
        for url in ["http://nowhere.test/", "http://casa1.web.test", "http://", "", "http://x/y?z"] {
            let answer = world.page(url, world.config().start);
            assert!(answer.status == 404 || world.host_number("casa1.web.test").is_some(), "{url}");
        }
        let url = format!("http://{}/hop/9/1", world.host_name(0));
        assert_eq!(world.page(&url, world.config().start).served, Served::Nothing);
    }

    #[test]
    fn failing_by_turns_works_in_between() {
        let world = all_sorts();
        let turns = world.all_pages().find(|p| world.kind(*p) == Kind::Failing(Failure::ByTurns)).unwrap();
        let status = |secs| world.page(&world.url(turns), world.clock(Duration::from_secs(secs))).status;
        assert_eq!([status(1), status(11), status(21), status(31)], [503, 200, 503, 200]);
    }
}
