//! The rules of one group, compactly, and which of them decides about a path.
//!
//! All patterns stand in one text; a rule is twelve bytes that say where. Rules without wildcards are sorted by
//! their text and found by narrowing the range that shares a path's first octets, one octet at a time; rules with
//! wildcards are tried in turn, the most specific first.
//!
//! Whatever a file says, a verdict is bounded work and its rules are bounded memory. What would go beyond a
//! limit is read as forbidding more than it says, never less:
//! - [`WILDCARDS_MAX`] in a rule and [`WILD_RULES_MAX`] of them: a Disallow is cut before the wildcard that is
//!   one too many, an Allow is left out;
//! - [`RULES_BYTES_MAX`]: everything is refused;
//! - [`WORK_MAX`] for a path: this path is refused.

use super::pattern::{self, Matched, Pattern, Work};
use std::cmp::Reverse;

/// Memory of a host's rules: 500 KiB of file give at most 500 KiB of text, and 12 bytes for each line of nine
/// or more, 670 KiB. Only a file of octets that must be escaped, and so take thrice the room, is larger.
pub const RULES_BYTES_MAX: usize = 1 << 20;

/// Wildcards of one rule that count. Among 3,172 real files no rule had more than 16.
pub const WILDCARDS_MAX: usize = 32;

/// Rules with wildcards that are tried. Among 3,172 real files no group had more than 528.
pub const WILD_RULES_MAX: usize = 1_024;

/// Work for one path, in octets looked at: 528 rules of two pieces on a path of 200 octets take half of it. An octet
/// takes one to five nanoseconds, so that the costliest verdict takes 1.3 ms (measured: `examples/robots_cost.rs`).
pub const WORK_MAX: usize = 256 << 10;

/// What a verdict calls its reason where the work was not enough.
const TOO_MUCH_WORK: &str = "(too many wildcards to judge this path)";
/// And where the rules did not fit.
const TOO_MANY_BYTES: &str = "(more rules than are kept of one site)";

/// Where a rule's pattern stands, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    start: u32,
    len: u16,
    /// How specific it is: octets of the pattern as it was, before anything was cut off (RFC 9309 §2.2.2).
    octets: u16,
    allow: bool,
    /// The pattern ended with `$`: nothing may follow.
    to_the_end: bool,
}

impl Rule {
    /// What decides between rules that match: the longest, Allow on a tie.
    fn weight(&self) -> (u16, bool) {
        (self.octets, self.allow)
    }
}

/// The rules of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    text: Box<str>,
    /// Sorted by text.
    plain: Box<[Rule]>,
    /// The one that decides first: longest first, Allow before Disallow.
    wild: Box<[Rule]>,
    /// More was said than is kept.
    overflown: bool,
}

/// What the rules say about a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    Silent,
    Allow(String),
    Refuse(String),
}

impl Rules {
    /// Memory that they take.
    pub fn bytes(&self) -> usize {
        self.text.len() + (self.plain.len() + self.wild.len()) * size_of::<Rule>()
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.plain.len() + self.wild.len()
    }

    /// Finds the rule that decides about a path in normal spelling.
    pub fn decide(&self, path: &str) -> Decision {
        if self.overflown {
            return Decision::Refuse(TOO_MANY_BYTES.to_string());
        }
        let plain = self.best_plain(path.as_bytes());
        let mut work = Work::new(WORK_MAX);
        for rule in &self.wild {
            // Those that follow weigh less than what was found.
            if plain.is_some_and(|plain| plain.weight() >= rule.weight()) {
                break;
            }
            match self.pattern(rule).matches(path, &mut work) {
                Matched::Yes => return self.said(rule),
                Matched::No => {}
                Matched::TooMuchWork => return Decision::Refuse(TOO_MUCH_WORK.to_string()),
            }
        }
        plain.map_or(Decision::Silent, |rule| self.said(rule))
    }

    /// The rule without wildcards that weighs most. In each turn, the range holds those that begin with the first
    /// `at` octets of the path; of these, the ones that end there match.
    fn best_plain(&self, path: &[u8]) -> Option<&Rule> {
        let mut range = &self.plain[..];
        let mut best: Option<&Rule> = None;
        for at in 0..=path.len() {
            let ending = range.iter().take_while(|rule| usize::from(rule.len) == at).count();
            let (here, longer) = range.split_at(ending);
            for rule in here.iter().filter(|rule| !rule.to_the_end || at == path.len()) {
                if best.is_none_or(|best| best.weight() < rule.weight()) {
                    best = Some(rule);
                }
            }
            let Some(&octet) = path.get(at) else { break };
            let next = |rule: &Rule| self.text.as_bytes()[rule.start as usize + at];
            let from = longer.partition_point(|rule| next(rule) < octet);
            let upto = longer.partition_point(|rule| next(rule) <= octet);
            range = &longer[from..upto];
            if range.is_empty() {
                break;
            }
        }
        best
    }

    fn pattern(&self, rule: &Rule) -> Pattern<'_> {
        let start = rule.start as usize;
        Pattern { text: &self.text[start..start + usize::from(rule.len)], to_the_end: rule.to_the_end }
    }

    fn said(&self, rule: &Rule) -> Decision {
        let pattern = self.pattern(rule);
        if rule.allow {
            Decision::Allow(format!("Allow: {pattern}"))
        } else {
            Decision::Refuse(format!("Disallow: {pattern}"))
        }
    }

    /// Each rule, for a judge that tries them all.
    #[cfg(test)]
    pub fn each(&self) -> impl Iterator<Item = (Pattern<'_>, usize, bool)> {
        let rules = self.plain.iter().chain(&self.wild);
        rules.map(|rule| (self.pattern(rule), usize::from(rule.octets), rule.allow))
    }
}

/// Takes rules in as they are read.
#[derive(Debug, Default)]
pub struct RulesBuilder {
    text: String,
    plain: Vec<Rule>,
    wild: Vec<Rule>,
    overflown: bool,
}

impl RulesBuilder {
    /// Adds a rule; one line may stand for two.
    pub fn add(&mut self, allow: bool, value: &[u8]) {
        self.add_pattern(allow, value);
        // Google's parser: who allows /a/index.html allows /a/ too.
        let page = value.iter().rposition(|b| *b == b'/').map_or(value.len(), |slash| slash + 1);
        if allow && value[page..].starts_with(b"index.htm") {
            let mut folder = value[..page].to_vec();
            folder.push(b'$');
            self.add_pattern(allow, &folder);
        }
    }

    fn add_pattern(&mut self, allow: bool, value: &[u8]) {
        let Some((text, to_the_end)) = pattern::read(value) else { return };
        let octets = text.len() + usize::from(to_the_end);
        let end = text.match_indices('*').nth(WILDCARDS_MAX).map_or(text.len(), |(at, _)| at);
        let is_cut = end < text.len();
        if is_cut && allow {
            return;
        }
        let (start, len) = (self.text.len(), end);
        // A line is at most 16,664 bytes, thrice that where all are escaped, so neither number is ever too large.
        let (Ok(start), Ok(len), Ok(octets)) = (start.try_into(), len.try_into(), octets.try_into()) else {
            self.overflown = true;
            return;
        };
        let rule = Rule { start, len, octets, allow, to_the_end: to_the_end && !is_cut };
        let rules = if text.contains('*') { &mut self.wild } else { &mut self.plain };
        rules.push(rule);
        self.text.push_str(&text[..end]);
        let bytes = self.text.len() + (self.plain.len() + self.wild.len()) * size_of::<Rule>();
        if bytes > RULES_BYTES_MAX {
            *self = RulesBuilder { overflown: true, ..RulesBuilder::default() };
        }
    }

    /// Sorts them, without those that are said twice.
    pub fn finish(self) -> Rules {
        let RulesBuilder { text: all, mut plain, mut wild, overflown } = self;
        if overflown {
            return Rules { overflown, ..Rules::default() };
        }
        let text = |rule: &Rule| &all[rule.start as usize..rule.start as usize + usize::from(rule.len)];
        let same = |a: &Rule, b: &Rule| {
            a.allow == b.allow && a.to_the_end == b.to_the_end && a.len == b.len && text(a) == text(b)
        };
        // Of those that were cut to the same text, the one that weighs most stays.
        let order = |rule: &Rule| (rule.allow, rule.to_the_end, Reverse(rule.octets));
        let sort = |rules: &mut Vec<Rule>| {
            rules.sort_by(|a, b| text(a).cmp(text(b)).then_with(|| order(a).cmp(&order(b))));
            rules.dedup_by(|a, b| same(a, b));
        };
        sort(&mut wild);
        wild.sort_by_key(|rule| rule.start);
        for late in wild.drain(wild.len().min(WILD_RULES_MAX)..).filter(|rule| !rule.allow) {
            let literal = text(&late).find('*').unwrap_or_default();
            plain.push(Rule { len: literal as u16, to_the_end: false, ..late });
        }
        wild.sort_by_key(|rule| Reverse(rule.weight()));
        sort(&mut plain);
        // The text again, of those that are left, in their order: neighbours in the table are neighbours in memory.
        let mut kept =
            String::with_capacity(plain.iter().chain(&wild).map(|rule| usize::from(rule.len)).sum());
        for rule in plain.iter_mut().chain(&mut wild) {
            let start = kept.len() as u32;
            kept.push_str(text(rule));
            rule.start = start;
        }
        Rules { text: kept.into(), plain: plain.into(), wild: wild.into(), overflown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &[(bool, &str)]) -> Rules {
        let mut builder = RulesBuilder::default();
        lines.iter().for_each(|(allow, value)| builder.add(*allow, value.as_bytes()));
        builder.finish()
    }

    #[test]
    fn a_rule_takes_twelve_bytes_and_its_text_and_is_kept_once() {
        assert_eq!(size_of::<Rule>(), 12);
        let twice = rules(&[(false, "/a"), (false, "/a"), (true, "/a"), (false, "/a$"), (false, "/a*b")]);
        assert_eq!((twice.len(), twice.bytes()), (4, 4 * 12 + 2 + 2 + 2 + 4));
    }

    #[test]
    fn beyond_the_limits_more_is_refused_and_never_less() {
        // Too many wildcards in one rule.
        let many = format!("/x{}", "*a".repeat(WILDCARDS_MAX + 1));
        let cut = rules(&[(false, &many)]);
        let enough = format!("/x{}", "a".repeat(WILDCARDS_MAX));
        assert!(matches!(cut.decide(&enough), Decision::Refuse(_)));
        assert_eq!(cut.decide("/y"), Decision::Silent);
        // A cut rule keeps its weight against an Allow.
        assert!(matches!(rules(&[(false, &many), (true, "/xa")]).decide(&enough), Decision::Refuse(_)));
        assert_eq!(
            rules(&[(true, &many), (false, "/")]).decide(&enough),
            Decision::Refuse("Disallow: /".into())
        );
        // Too many rules with wildcards: the rest counts as far as its first one.
        let mut builder = RulesBuilder::default();
        (0..WILD_RULES_MAX).for_each(|i| builder.add(false, format!("/*q{i}").as_bytes()));
        builder.add(true, b"/late/*.html");
        builder.add(false, b"/late/*.php");
        let late = builder.finish();
        assert_eq!(late.decide("/late/x.html"), Decision::Refuse("Disallow: /late/".into()));
        assert_eq!(late.decide("/early"), Decision::Silent);
        // Too many bytes: nothing can be told any more.
        let mut builder = RulesBuilder::default();
        (0..30).for_each(|i| builder.add(false, format!("/{i}{}", "\u{e9}".repeat(8_000)).as_bytes()));
        let overflown = builder.finish();
        assert!(matches!(overflown.decide("/"), Decision::Refuse(_)));
        assert_eq!(overflown.bytes(), 0);
    }

    #[test]
    fn a_path_that_would_take_too_much_work_is_refused() {
        let mut builder = RulesBuilder::default();
        for i in 0..WILD_RULES_MAX {
            builder.add(false, format!("/{}b{i}", "*a".repeat(WILDCARDS_MAX)).as_bytes());
        }
        let costly = builder.finish();
        assert_eq!(
            costly.decide(&format!("/{}", "a".repeat(2_000))),
            Decision::Refuse(TOO_MUCH_WORK.to_string())
        );
        assert_eq!(costly.decide("/aaa"), Decision::Silent);
    }
}
