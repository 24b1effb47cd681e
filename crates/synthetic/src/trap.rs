//! Endless places: pages that always have one link more.
//!
//! A calendar with a page for every day of every year, a maze whose links carry a new visit number each time,
//! and relative links that make paths ever deeper. A good crawler leaves them after a while; the log says which
//! requests went into one.

use super::place::push_number;
use super::words::push_letters;
use super::world::Door;
use farol_base::fingerprint::hash64;

/// Where in an endless place a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trap {
    /// A month, or a day of it.
    Calendar { year: u32, month: u32, day: Option<u32> },
    /// A step of the maze in some visit.
    Maze { step: u64 },
    /// So many segments deep.
    Deep { depth: usize },
}

impl Trap {
    /// Reads `/calendar/2026/5/`, `/calendar/2026/5/17`, `/maze/4?visit=…` and `/deep/um/dois/um/`.
    pub fn parse(path: &str) -> Option<Trap> {
        let mut segments = path.strip_prefix('/')?.split('/');
        match segments.next()? {
            "calendar" => {
                let year = segments.next()?.parse().ok()?;
                let month = segments.next()?.parse().ok().filter(|month| (1..=12).contains(month))?;
                let day = match segments.next()? {
                    "" => None,
                    day => Some(day.parse().ok().filter(|day| (1..=31).contains(day))?),
                };
                segments.next().is_none().then_some(Trap::Calendar { year, month, day })
            }
            "maze" => {
                let (step, query) = segments.next()?.split_once('?')?;
                (segments.next().is_none() && query.starts_with("visit="))
                    .then_some(Trap::Maze { step: step.parse().ok()? })
            }
            "deep" => {
                let rest: Vec<&str> = segments.collect();
                let (last, inner) = rest.split_last()?;
                (last.is_empty() && inner.iter().all(|s| matches!(*s, "um" | "dois")))
                    .then_some(Trap::Deep { depth: inner.len() })
            }
            _ => None,
        }
    }

    /// Path of the first page behind a door.
    pub fn entrance(door: Door) -> &'static str {
        match door {
            Door::Calendar => "/calendar/2026/1/",
            Door::Maze => "/maze/0?visit=baba",
            Door::Deep => "/deep/",
        }
    }

    /// Appends the links of the page at `path`, which is this place.
    pub fn push_links(&self, out: &mut Vec<u8>, path: &str) {
        let mut link = |href: &dyn Fn(&mut Vec<u8>)| {
            out.extend_from_slice(b"<li><a href=\"");
            let from = out.len();
            href(out);
            let to = out.len();
            out.extend_from_slice(b"\">");
            out.extend_from_within(from..to);
            out.extend_from_slice(b"</a></li>\n");
        };
        match *self {
            Trap::Calendar { year, month, day: None } => {
                let next = if month == 12 { (year.saturating_add(1), 1) } else { (year, month + 1) };
                let last = if month == 1 { (year.saturating_sub(1), 12) } else { (year, month - 1) };
                link(&|out| push_month(out, next.0, next.1));
                link(&|out| push_month(out, last.0, last.1));
                for day in 1..=28 {
                    link(&|out| {
                        push_month(out, year, month);
                        push_number(out, day);
                    });
                }
            }
            Trap::Calendar { year, month, day: Some(_) } => link(&|out| push_month(out, year, month)),
            Trap::Maze { step } => {
                for way in 0..3u64 {
                    let visit = hash64(path.as_bytes()).wrapping_add(way) % 80_000_000;
                    link(&|out| {
                        out.extend_from_slice(b"/maze/");
                        push_number(out, step.saturating_add(way) % 1_000_000);
                        out.extend_from_slice(b"?visit=");
                        push_letters(out, visit);
                        // The same again with a session id, as shops used to do.
                        if way == 2 {
                            out.extend_from_slice(b"&amp;sid=");
                            push_number(out, visit);
                        }
                    });
                }
            }
            Trap::Deep { .. } => {
                for segment in ["um/", "dois/"] {
                    link(&|out| out.extend_from_slice(segment.as_bytes()));
                }
            }
        }
    }
}

fn push_month(out: &mut Vec<u8>, year: u32, month: u32) {
    out.extend_from_slice(b"/calendar/");
    push_number(out, u64::from(year));
    out.push(b'/');
    push_number(out, u64::from(month));
    out.push(b'/');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn endless_places_by_their_path() {
        let check = |path: &str, want: Option<Trap>| assert_eq!(Trap::parse(path), want, "{path}");
        check("/calendar/2026/5/", Some(Trap::Calendar { year: 2026, month: 5, day: None }));
        check("/calendar/2026/5/17", Some(Trap::Calendar { year: 2026, month: 5, day: Some(17) }));
        check("/calendar/2026/13/", None);
        check("/calendar/2026/5", None);
        check("/maze/4?visit=dube", Some(Trap::Maze { step: 4 }));
        check("/maze/4?visit=dube&sid=7", Some(Trap::Maze { step: 4 }));
        check("/maze/4", None);
        check("/deep/", Some(Trap::Deep { depth: 0 }));
        check("/deep/um/dois/um/", Some(Trap::Deep { depth: 3 }));
        check("/deep/um/x/", None);
        check("/news/", None);
        for door in [Door::Calendar, Door::Maze, Door::Deep] {
            assert!(Trap::parse(Trap::entrance(door)).is_some());
        }
    }

    #[test]
    fn there_is_always_a_link_more() {
        let mut path = Trap::entrance(Door::Maze).to_string();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            assert!(seen.insert(path.clone()), "{path} again");
            let mut html = Vec::new();
            Trap::parse(&path).unwrap().push_links(&mut html, &path);
            let html = String::from_utf8(html).unwrap();
            path = html.split('"').nth(3).unwrap().replace("&amp;", "&");
        }
    }

    proptest! {
        #[test]
        fn no_path_breaks_it(path in "/(calendar|maze|deep)(/[0-9a-z?=&]{0,12}){0,5}") {
            if let Some(trap) = Trap::parse(&path) {
                trap.push_links(&mut Vec::new(), &path);
            }
        }
    }
}
