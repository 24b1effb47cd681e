//! Offers another spelling for words that hardly any page has.
//!
//! INVARIANT: a word is only replaced by one that clearly more pages have.

use crate::plan::Plan;
use crate::vocabulary::{Vocabulary, letters};

/// A word on more pages than this is taken as meant.
pub(crate) const RARE_PAGES: u64 = 20;

/// A replacement must be on this many times the pages, and then on one more.
const CLEARLY: u64 = 10;

/// How much likelier one slip is than two.
const SECOND_SLIP: u64 = 50;

/// The wanted terms with rare words replaced, where any can be.
pub(crate) fn suggest(plan: &Plan, vocabulary: &Vocabulary) -> Option<String> {
    let mut changed = false;
    let words: Vec<&str> = plan
        .typed
        .iter()
        .map(|typed| {
            let better = typed.word.as_ref().and_then(|(form, pages)| correct(form, *pages, vocabulary));
            changed |= better.is_some();
            better.unwrap_or(&typed.text)
        })
        .collect();
    changed.then(|| words.join(" "))
}

/// A likelier spelling of a folded word that is on `pages` pages.
fn correct<'v>(form: &str, pages: u64, vocabulary: &'v Vocabulary) -> Option<&'v str> {
    let chars: Vec<char> = form.chars().collect();
    let slips_max = match chars.len() {
        0..=3 => return None,
        4 | 5 => 1,
        _ => 2,
    };
    if pages > RARE_PAGES {
        return None;
    }
    let wanted = letters(form);
    let mut best: Option<(u64, &str)> = None;
    for word in &vocabulary.words {
        let found = u64::from(word.pages);
        if (wanted ^ word.letters).count_ones() > 2 * slips_max || found <= pages * CLEARLY {
            continue;
        }
        let slips = distance(&chars, &word.form, slips_max);
        let score = match slips {
            1 => found.saturating_mul(SECOND_SLIP),
            2 => found,
            _ => continue,
        };
        // The first letter is seldom wrong.
        let score =
            if word.form.chars().next() == chars.first().copied() { score.saturating_mul(4) } else { score };
        if best.is_none_or(|(known, _)| score > known) {
            best = Some((score, &word.shown));
        }
    }
    best.map(|(_, shown)| shown)
}

/// Slips between two words: letters missing, added, wrong, or two neighbours swapped. Counts to `max + 1`.
fn distance(from: &[char], to: &str, max: u32) -> u32 {
    let to: Vec<char> = to.chars().collect();
    if from.len().abs_diff(to.len()) as u32 > max {
        return max + 1;
    }
    let mut before: Vec<u32> = Vec::new();
    let mut above: Vec<u32> = (0..=to.len() as u32).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = Vec::with_capacity(above.len());
        row.push(i as u32 + 1);
        for (j, b) in to.iter().enumerate() {
            let mut cost = (above[j] + u32::from(a != b)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        if row.iter().all(|cost| *cost > max) {
            return max + 1;
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(max + 1).min(max + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, page_in};

    #[test]
    fn slips_are_counted() {
        let check = |from: &str, to: &str, want: u32| {
            assert_eq!(distance(&from.chars().collect::<Vec<_>>(), to, 2), want, "{from} {to}");
        };
        check("farol", "farol", 0);
        check("faorl", "farol", 1); // Two neighbours swapped.
        check("frol", "farol", 1);
        check("farrol", "farol", 1);
        check("fxrxl", "farol", 2);
        check("casa", "farol", 3);
        check("", "", 0);
    }

    fn shard() -> TestShard {
        let mut pages: Vec<_> = (0..4)
            .map(|n| page(&format!("http://h{n}/"), "The lighthouse", &format!("about light {n}")))
            .collect();
        pages.extend(
            (0..4).map(|n| page_in("pt", &format!("http://p{n}/"), "Instalação", &format!("corpo {n}"))),
        );
        TestShard::new(&pages)
    }

    #[test]
    fn rare_words_are_spelt_as_pages_spell_them() {
        let shard = shard();
        let check = |words: &str, want: Option<&str>| {
            assert_eq!(shard.ask(words).suggestion.as_deref(), want, "{words}");
        };
        check("lighthuose", Some("lighthouse"));
        check("the ligthouse \"about light\"", Some("the lighthouse \"about light\""));
        check("instalacão", None); // Found already, accents or not.
        check("instelacao", Some("instalação"));
        check("lighthouse", None);
        check("lit", None); // Too short to tell.
        check("zzzzzzzz", None);
    }
}
