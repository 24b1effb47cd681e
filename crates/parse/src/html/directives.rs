//! Robots rules for one page: `<meta name=robots>` and `X-Robots-Tag`.
//!
//! The strictest of all rules that concern us counts, as the large engines do it.

use farol_base::Timestamp;

/// What an author asks of engines for one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// Do not show the page in results.
    pub noindex: bool,
    /// Do not follow its links.
    pub nofollow: bool,
    /// Do not show a stored copy.
    pub noarchive: bool,
    /// Do not show its text in results.
    pub nosnippet: bool,
    /// From then on, `noindex`.
    pub unavailable_after: Option<Timestamp>,
}

impl Directives {
    /// Takes in the content of a `<meta>` that is addressed to us or to all robots.
    pub fn read_meta(&mut self, content: &str) {
        self.read(content);
    }

    /// Takes in an `X-Robots-Tag` value: rules, or rules with an agent's name and a colon before them.
    ///
    /// `agent` is our product token. A name holds until the next one: `other: noindex, farol: nofollow`.
    pub fn read_header(&mut self, value: &str, agent: &str) {
        let mut concerns_us = true;
        let mut rules_start = 0;
        let mut at = 0;
        for item in value.split(',') {
            if let Some((name, _)) = item.split_once(':')
                && is_agent_name(name.trim())
            {
                if concerns_us {
                    self.read(value[rules_start..at].trim_end_matches(','));
                }
                concerns_us = name.trim().eq_ignore_ascii_case(agent) || name.trim() == "*";
                rules_start = at + name.len() + 1;
            }
            at += item.len() + 1;
        }
        if concerns_us {
            self.read(&value[rules_start.min(value.len())..]);
        }
    }

    fn read(&mut self, rules: &str) {
        for rule in rules.split([',', ';']) {
            let rule = rule.trim();
            let is = |name: &str| rule.eq_ignore_ascii_case(name);
            self.noindex |= is("noindex") || is("none");
            self.nofollow |= is("nofollow") || is("none");
            self.noarchive |= is("noarchive") || is("nocache");
            self.nosnippet |= is("nosnippet");
            if let Some((name, value)) = rule.split_once(':') {
                self.nosnippet |= name.trim().eq_ignore_ascii_case("max-snippet") && value.trim() == "0";
            }
        }
        if let Some(date) = unavailable_after(rules) {
            self.unavailable_after = Some(self.unavailable_after.map_or(date, |known| known.min(date)));
        }
    }
}

/// Whether what stands before a colon is an agent's name and not a rule that takes a value, nor the hour of
/// a date.
fn is_agent_name(name: &str) -> bool {
    const WITH_VALUE: [&str; 4] =
        ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"];
    let is_token = name == "*" || name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    !name.is_empty() && is_token && !WITH_VALUE.iter().any(|rule| rule.eq_ignore_ascii_case(name))
}

/// The date of `unavailable_after:`, which may itself hold commas (`Mon, 06 May 2024 …`): the longest run of
/// comma-separated parts that reads as a date.
fn unavailable_after(rules: &str) -> Option<Timestamp> {
    const NAME: &str = "unavailable_after:";
    let at = rules.as_bytes().windows(NAME.len()).position(|w| w.eq_ignore_ascii_case(NAME.as_bytes()))?;
    let value = rules.get(at + NAME.len()..)?;
    let commas = value.match_indices(',').map(|(at, _)| at).take(3);
    let ends: Vec<usize> = commas.chain([value.len()]).collect();
    ends.iter().rev().find_map(|end| crate::html::dates::parse(&value[..*end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, want: &str) {
        let mut d = Directives::default();
        d.read_header(header, "farol");
        let names = [
            (d.noindex, "noindex"),
            (d.nofollow, "nofollow"),
            (d.noarchive, "noarchive"),
            (d.nosnippet, "nosnippet"),
        ];
        let mut found: Vec<String> =
            names.iter().filter(|(set, _)| *set).map(|(_, name)| name.to_string()).collect();
        found.extend(d.unavailable_after.map(|at| at.to_string()));
        assert_eq!(found.join(" "), want, "{header}");
    }

    #[test]
    fn rules_for_all_and_for_us() {
        check("noindex", "noindex");
        check("NoIndex, NOFOLLOW", "noindex nofollow");
        check("none", "noindex nofollow");
        check("all", "");
        check("noarchive,nosnippet", "noarchive nosnippet");
        check("max-snippet: 0", "nosnippet");
        check("max-snippet:20, max-image-preview:large", "");
        check("farol: noindex", "noindex");
        check("Farol: noindex, nofollow", "noindex nofollow");
        check("otherbot: noindex, nofollow", "");
        check("otherbot: noindex, farol: nofollow", "nofollow");
        check("noarchive, otherbot: noindex", "noarchive");
        check("*: noindex", "noindex");
        check("", "");
        check(":,:,", "");
    }

    #[test]
    fn dates_after_which_a_page_is_gone() {
        check("unavailable_after: 2024-05-06", "2024-05-06T00:00:00Z");
        check("unavailable_after: Mon, 06 May 2024 07:08:09 GMT", "2024-05-06T07:08:09Z");
        check(
            "noindex, unavailable_after: 06 May 2024 07:08:09 GMT, noarchive",
            "noindex noarchive 2024-05-06T07:08:09Z",
        );
        check("unavailable_after: never", "");
        check("otherbot: unavailable_after: 2024-05-06", "");
    }
}
