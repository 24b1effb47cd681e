//! Writes the HTML of a page: navigation, headings, paragraphs with links in them, footer.
//!
//! One pass into one buffer, copying clauses from the pool of [`super::words`]: making a page of 20 KB costs a few
//! microseconds, so that a crawler under test is never waiting for its server.

use super::links::LinkTo;
use super::trap::Trap;
use super::words::{Vocabulary, push_letters};
use super::world::{Door, Draw, Kind, Likeness, Page, World, draw, unit};
use farol_base::random::mix;
use farol_base::{Random, Seeded, Timestamp};

/// What a page says to robots, and whether its title is hostile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub noindex: bool,
    /// None of its links is to be followed.
    pub nofollow: bool,
    /// Said by `X-Robots-Tag` rather than by a `meta` element.
    pub in_header: bool,
    /// Its title tries to run a script.
    pub hostile: bool,
}

/// Bytes that the end of a page takes, about.
const FOOTER_BYTES: usize = 320;

impl World {
    /// What a page says to robots.
    pub fn marks(&self, page: Page) -> Marks {
        if page.number == 0 {
            return Marks::default();
        }
        let bits = draw(self.key(page), Draw::Marks);
        let noindex = unit(bits) < self.config().noindex;
        Marks {
            noindex,
            nofollow: noindex && bits & 3 == 0,
            in_header: noindex && bits & 3 == 1,
            hostile: unit(mix(bits)) < self.config().hostile,
        }
    }

    /// Title of a page: three words of its topic and a name that no other page has.
    ///
    /// A hostile page has markup around it.
    pub fn title(&self, page: Page) -> String {
        let mut title = Vec::new();
        self.push_title(&mut title, page);
        title.push(b' ');
        self.push_name(&mut title, page);
        String::from_utf8(title).unwrap_or_default()
    }

    /// The word of a page's title that no other page has (while there are fewer than 6,400 hosts).
    pub fn name(&self, page: Page) -> String {
        let mut name = Vec::new();
        self.push_name(&mut name, page);
        String::from_utf8(name).unwrap_or_default()
    }

    /// The page whose bytes are shown at this one: the original of an exact duplicate, otherwise itself.
    pub(super) fn shown(&self, page: Page) -> Page {
        match self.kind(page) {
            Kind::Duplicate { original, likeness: Likeness::Exact } => original,
            _ => page,
        }
    }

    /// Appends the HTML of a page as it is when the world's clock shows `at`; `links` is working space.
    pub(super) fn render(&self, page: Page, at: Timestamp, links: &mut Vec<LinkTo>, out: &mut Vec<u8>) {
        let page = self.shown(page);
        let kind = self.kind(page);
        let marks = self.marks(page);
        let text_of = match kind {
            Kind::Duplicate { original, .. } => original,
            _ => page,
        };
        self.links_into(page, links);
        let navigation = self.navigation_links(page).min(links.len());
        let vocabulary = self.lexicon().vocabulary(self.language_index(text_of));
        let version = self.version(text_of, at);
        let start = out.len();

        self.push_head(out, page, text_of, kind, marks, version.since);
        out.extend_from_slice(b"<body>\n<header><a href=\"/\">");
        self.push_host(out, page.host);
        out.extend_from_slice(b"</a><nav><ul>\n");
        for link in &links[..navigation] {
            out.extend_from_slice(b"<li>");
            self.push_link(out, page, *link, marks);
            out.extend_from_slice(b"</li>\n");
        }
        out.extend_from_slice(b"</ul></nav></header>\n<main><article>\n<h1>");
        self.push_title(out, text_of);
        out.extend_from_slice(b"</h1>\n");

        // What a change changes: the first paragraph. The rest of the text stays for ever.
        let text_key = draw(self.key(text_of), Draw::Text);
        let mut news = Seeded::new(mix(text_key ^ version.number));
        push_paragraph(out, vocabulary, &mut news, 3);
        if let Kind::Duplicate { likeness: Likeness::Near, .. } = kind {
            push_paragraph(out, vocabulary, &mut Seeded::new(self.key(page)), 2);
        }
        let end = start + self.target_bytes(text_of).saturating_sub(FOOTER_BYTES);
        let rest = &links[navigation..];
        let used = self.push_text(out, page, text_of, marks, rest, end);

        out.extend_from_slice(b"</article></main>\n<aside><ul>\n");
        for link in &rest[used..] {
            out.extend_from_slice(b"<li>");
            self.push_link(out, page, *link, marks);
            out.extend_from_slice(b"</li>\n");
        }
        if let Kind::Door(door) = kind {
            push_door(out, door);
        }
        out.extend_from_slice(b"</ul></aside>\n<footer><p>\xC2\xA9 ");
        self.push_host(out, page.host);
        out.extend_from_slice(b" \xC2\xB7 ");
        let host_key = self.host_key(page.host);
        out.extend_from_slice(vocabulary.clause(host_key));
        out.extend_from_slice(b" \xC2\xB7 ");
        out.extend_from_slice(vocabulary.clause(mix(host_key)));
        out.extend_from_slice(b"</p></footer>\n</body></html>\n");
    }

    /// Appends a page of an endless place.
    pub(super) fn render_trap(&self, host: u32, path: &str, trap: &Trap, out: &mut Vec<u8>) {
        let front = Page { host, number: 0 };
        let vocabulary = self.lexicon().vocabulary(self.language_index(front));
        let key = farol_base::fingerprint::hash64(path.as_bytes());
        out.extend_from_slice(b"<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>");
        out.extend_from_slice(vocabulary.topic(key));
        out.extend_from_slice(b"</title></head><body>\n<p><a href=\"/\">");
        self.push_host(out, host);
        out.extend_from_slice(b"</a></p>\n");
        push_paragraph(out, vocabulary, &mut Seeded::new(key), 12);
        out.extend_from_slice(b"<ul>\n");
        trap.push_links(out, path);
        out.extend_from_slice(b"</ul>\n</body></html>\n");
    }

    pub(super) fn push_title(&self, out: &mut Vec<u8>, page: Page) {
        let vocabulary = self.lexicon().vocabulary(self.language_index(page));
        let topic = draw(self.key(page), Draw::Title);
        let at = out.len();
        out.extend_from_slice(vocabulary.topic(topic));
        out[at..at + 1].make_ascii_uppercase();
        out.push(b' ');
        out.extend_from_slice(vocabulary.topic(topic.rotate_left(21)));
        out.push(b' ');
        out.extend_from_slice(vocabulary.topic(topic.rotate_left(42)));
    }

    fn push_name(&self, out: &mut Vec<u8>, page: Page) {
        push_letters(out, u64::from(page.host));
        push_letters(out, page.number);
    }

    fn push_head(
        &self,
        out: &mut Vec<u8>,
        page: Page,
        text_of: Page,
        kind: Kind,
        marks: Marks,
        since: Timestamp,
    ) {
        out.extend_from_slice(b"<!DOCTYPE html>\n<html lang=\"");
        out.extend_from_slice(self.language(text_of).code().as_bytes());
        out.extend_from_slice(b"\"><head><meta charset=\"utf-8\">\n<title>");
        if marks.hostile {
            out.extend_from_slice(HOSTILE[page.number as usize % HOSTILE.len()].as_bytes());
        }
        self.push_title(out, text_of);
        out.push(b' ');
        self.push_name(out, text_of);
        out.extend_from_slice(b"</title>\n<meta name=\"description\" content=\"");
        let vocabulary = self.lexicon().vocabulary(self.language_index(text_of));
        out.extend_from_slice(vocabulary.clause(self.key(text_of)));
        out.extend_from_slice(b"\">\n<meta property=\"article:modified_time\" content=\"");
        out.extend_from_slice(since.to_string().as_bytes());
        out.extend_from_slice(b"\">\n");
        if marks.noindex && !marks.in_header {
            let nofollow: &[u8] = if marks.nofollow { b", nofollow" } else { b"" };
            out.extend_from_slice(b"<meta name=\"robots\" content=\"noindex");
            out.extend_from_slice(nofollow);
            out.extend_from_slice(b"\">\n");
        }
        if let Kind::Duplicate { original, likeness: Likeness::Canonical } = kind {
            out.extend_from_slice(b"<link rel=\"canonical\" href=\"");
            self.push_url(out, original);
            out.extend_from_slice(b"\">\n");
        }
        if page.number == 0 && self.has_feed(page.host) {
            out.extend_from_slice(
                b"<link rel=\"alternate\" type=\"application/rss+xml\" href=\"/feed.xml\">\n",
            );
        }
        out.extend_from_slice(b"</head>\n");
    }

    /// Appends paragraphs up to `end` with links spread over them; answers how many links were used.
    fn push_text(
        &self,
        out: &mut Vec<u8>,
        page: Page,
        text_of: Page,
        marks: Marks,
        links: &[LinkTo],
        end: usize,
    ) -> usize {
        let vocabulary = self.lexicon().vocabulary(self.language_index(text_of));
        let topic = draw(self.key(text_of), Draw::Title);
        let mut random = Seeded::new(draw(self.key(text_of), Draw::Text));
        let gap = end.saturating_sub(out.len()) / (links.len() + 1);
        let mut next_link_at = out.len() + gap;
        let mut used = 0;
        let mut sentence_starts = true;
        out.extend_from_slice(b"<p>");
        while out.len() < end {
            let bits = random.next_u64();
            let at = out.len();
            out.extend_from_slice(vocabulary.clause(bits));
            if sentence_starts {
                out[at..at + 1].make_ascii_uppercase();
            }
            if bits & 7 == 0 {
                out.push(b' ');
                out.extend_from_slice(vocabulary.topic(topic.rotate_left([0, 21, 42][used % 3])));
            }
            if out.len() >= next_link_at && used < links.len() {
                next_link_at += gap;
                out.push(b' ');
                self.push_link(out, page, links[used], marks);
                used += 1;
            }
            sentence_starts = bits & 0x30 != 0;
            if !sentence_starts {
                out.extend_from_slice(b", ");
            } else if bits & 0x700 != 0 {
                out.extend_from_slice(b". ");
            } else if bits & 0x3000 != 0 {
                out.extend_from_slice(b".</p>\n<p>");
            } else {
                out.extend_from_slice(b".</p>\n<h2>");
                out.extend_from_slice(vocabulary.clause(bits.rotate_left(16)));
                out.extend_from_slice(b"</h2>\n<p>");
            }
        }
        out.extend_from_slice(b"</p>\n");
        used
    }

    fn push_link(&self, out: &mut Vec<u8>, from: Page, link: LinkTo, marks: Marks) {
        out.extend_from_slice(b"<a href=\"");
        if link.to.host == from.host {
            self.push_path(out, link.to);
        } else {
            self.push_url(out, link.to);
        }
        // Where the whole page says nofollow, its links need not.
        if link.nofollow && !marks.nofollow {
            out.extend_from_slice(b"\" rel=\"nofollow");
        }
        out.extend_from_slice(b"\">");
        self.push_title(out, link.to);
        out.extend_from_slice(b"</a>");
    }
}

/// What hostile titles start with: escaped, plain inside the title, and closing it.
const HOSTILE: [&str; 3] = [
    "&lt;script&gt;document.documentElement.dataset.hacked=1&lt;/script&gt; ",
    "<script>document.documentElement.dataset.hacked=1</script> ",
    "&quot;&gt;&lt;img src=x onerror=\"document.documentElement.dataset.hacked=1\"&gt; ",
];

fn push_door(out: &mut Vec<u8>, door: Door) {
    out.extend_from_slice(b"<li><a href=\"");
    out.extend_from_slice(Trap::entrance(door).as_bytes());
    out.extend_from_slice(b"\">");
    out.extend_from_slice(Trap::entrance(door).as_bytes());
    out.extend_from_slice(b"</a></li>\n");
}

fn push_paragraph(out: &mut Vec<u8>, vocabulary: &Vocabulary, random: &mut Seeded, clauses: usize) {
    out.extend_from_slice(b"<p>");
    for i in 0..clauses {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(vocabulary.clause(random.next_u64()));
    }
    out.extend_from_slice(b".</p>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebConfig;
    use std::time::Duration;

    fn html(world: &World, page: Page, at: Timestamp) -> String {
        let mut out = Vec::new();
        world.render(page, at, &mut Vec::new(), &mut out);
        String::from_utf8(out).expect("pages are UTF-8")
    }

    #[test]
    fn same_seed_same_bytes() {
        let make =
            |seed| World::new(WebConfig { seed, hosts: 30, pages: 900, ..WebConfig::default() }).unwrap();
        let (a, b, c) = (make(1), make(1), make(2));
        let at = a.config().start;
        for page in a.all_pages().step_by(37) {
            assert_eq!(html(&a, page, at), html(&b, page, at));
            assert_ne!(html(&a, page, at), html(&c, page, at));
        }
    }

    #[test]
    fn sizes_have_the_mean_asked_for() {
        let world = World::new(WebConfig { hosts: 100, pages: 20_000, ..WebConfig::tame() }).unwrap();
        let sizes: Vec<usize> = world
            .all_pages()
            .step_by(41)
            .map(|page| html(&world, page, world.config().start).len())
            .collect();
        let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
        assert!((18_500.0..21_500.0).contains(&mean), "{mean} bytes in the mean");
        let large = sizes.iter().filter(|size| **size > 40_000).count();
        assert!(large * 20 > sizes.len() / 2, "the sizes hardly differ");
    }

    #[test]
    fn a_page_shows_all_its_links() {
        let world = World::new(WebConfig { hosts: 30, pages: 900, ..WebConfig::default() }).unwrap();
        for page in world.all_pages().step_by(11) {
            let links = world.links(page);
            if links.is_empty() {
                continue;
            }
            let html = html(&world, page, world.config().start);
            for link in links {
                let url = if link.to.host == page.host { world.path(link.to) } else { world.url(link.to) };
                assert!(html.contains(&format!("<a href=\"{url}\"")), "{url} is missing");
            }
        }
    }

    #[test]
    fn a_change_changes_the_text_and_not_the_links() {
        let config = WebConfig { hosts: 5, pages: 100, change_rate: 1.0, ..WebConfig::tame() };
        let world = World::new(config).unwrap();
        let page = Page { host: 0, number: 3 };
        let start = world.config().start;
        let later = (1..1000).map(|hours| start + Duration::from_secs(3600 * hours));
        let changed = later.into_iter().find(|at| world.version(page, *at) != world.version(page, start));
        let (before, after) = (html(&world, page, start), html(&world, page, changed.unwrap()));
        assert_ne!(before, after);
        let links = |html: &str| html.matches("href=\"").count();
        assert_eq!(links(&before), links(&after));
    }

    #[test]
    fn duplicates_resemble_their_originals() {
        let world =
            World::new(WebConfig { hosts: 5, pages: 600, duplicates: 0.5, ..WebConfig::tame() }).unwrap();
        let at = world.config().start;
        let mut seen = [0; 3];
        for page in world.all_pages() {
            let Kind::Duplicate { original, likeness } = world.kind(page) else { continue };
            if seen[likeness as usize] > 20 {
                continue;
            }
            seen[likeness as usize] += 1;
            let (copy, model) = (html(&world, page, at), html(&world, original, at));
            let canonical = format!("<link rel=\"canonical\" href=\"{}\">", world.url(original));
            match likeness {
                Likeness::Exact => assert_eq!(copy, model),
                Likeness::Canonical => assert!(copy.contains(&canonical) && copy != model),
                Likeness::Near => assert!(!copy.contains("canonical") && copy != model),
            }
            assert!(copy.contains(&world.name(original)));
        }
        assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
    }

    #[test]
    fn hostile_titles_and_marks_appear() {
        let config = WebConfig { hosts: 5, pages: 400, noindex: 0.5, hostile: 0.5, ..WebConfig::tame() };
        let world = World::new(config).unwrap();
        let (mut hostile, mut noindex) = (0, 0);
        for page in world.all_pages() {
            let marks = world.marks(page);
            let html = html(&world, page, world.config().start);
            hostile += usize::from(marks.hostile);
            noindex += usize::from(marks.noindex);
            assert_eq!(html.contains("dataset.hacked"), marks.hostile);
            assert_eq!(html.contains("content=\"noindex"), marks.noindex && !marks.in_header);
        }
        assert!((150..250).contains(&hostile) && (150..250).contains(&noindex), "{hostile} {noindex}");
    }
}
