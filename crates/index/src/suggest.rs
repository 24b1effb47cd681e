//! Completes what somebody is typing.
//!
//! First phrases of titles and words that begin with everything typed; where they run out, the last two words
//! and then the last word alone are completed, and what was typed before stays in front.

use crate::text::fold;
use crate::text::spans::Spans;
use crate::vocabulary::{Completion, Vocabulary};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes of typed text that are read.
const TYPED_BYTES_MAX: usize = 200;

/// Completions given at most.
const COUNT_MAX: usize = 50;

/// Completions of a text, best first, none of them the text itself.
pub(crate) fn complete(vocabulary: &Vocabulary, typed: &str, count: usize) -> Vec<String> {
    let typed = crate::limits::cut(typed, TYPED_BYTES_MAX).trim_start();
    let count = count.min(COUNT_MAX);
    let words: Vec<(String, &str)> = Spans::new(typed)
        .map(|span| &typed[span.start..span.end])
        .map(|word| (fold::folded(word), word))
        .collect();
    let finished = typed.ends_with(char::is_whitespace);
    let mut out: Vec<String> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    let whole = key(&words, finished);
    // Everything typed, then its last two words, then its last one.
    let mut tails: Vec<usize> = vec![0, words.len().saturating_sub(2), words.len().saturating_sub(1)];
    tails.dedup();
    for tail in tails {
        if words.is_empty() || out.len() >= count {
            break;
        }
        let before = words[..tail].iter().map(|(_, word)| word.to_lowercase()).collect::<Vec<_>>().join(" ");
        for entry in best(vocabulary, &key(&words[tail..], finished), count + 1) {
            let text =
                if before.is_empty() { entry.shown.to_string() } else { format!("{before} {}", entry.shown) };
            let form = folded_words(&text);
            if form != whole.trim_end() && !known.contains(&form) && out.len() < count {
                known.push(form);
                out.push(text);
            }
        }
        if finished && tail + 1 == words.len() {
            break;
        }
    }
    out
}

/// The folded words of a text, however it is spelt.
fn folded_words(text: &str) -> String {
    let words = Spans::new(text).map(|span| fold::folded(&text[span.start..span.end]));
    words.collect::<Vec<_>>().join(" ")
}

fn key(words: &[(String, &str)], finished: bool) -> String {
    let mut key = words.iter().map(|(form, _)| form.as_str()).collect::<Vec<_>>().join(" ");
    if finished && !key.is_empty() {
        key.push(' ');
    }
    key
}

/// The weightiest completions whose key begins with a prefix.
fn best<'v>(vocabulary: &'v Vocabulary, prefix: &str, count: usize) -> Vec<&'v Completion> {
    if prefix.is_empty() {
        return Vec::new();
    }
    let completions = &vocabulary.completions;
    let start = completions.partition_point(|entry| *entry.key < *prefix);
    let len = completions[start..].partition_point(|entry| entry.key.starts_with(prefix));
    // A short prefix has tens of thousands of completions, of which only the weights are scanned.
    let mut heap: BinaryHeap<Reverse<(u32, Reverse<usize>)>> = BinaryHeap::with_capacity(count + 1);
    for (at, entry) in completions[start..start + len].iter().enumerate() {
        if heap.len() < count || heap.peek().is_some_and(|Reverse((least, _))| entry.weight > *least) {
            heap.push(Reverse((entry.weight, Reverse(at))));
            if heap.len() > count {
                heap.pop();
            }
        }
    }
    heap.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(at)))| &completions[start + at]).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestShard, page, page_in};

    #[test]
    fn completes_words_and_phrases() {
        let shard = TestShard::new(&[
            page_in("pt", "http://a/1", "Instalação do Farol", "um guia"),
            page_in("pt", "http://a/2", "Instalação do Debian", "outro guia"),
            page_in("pt", "http://a/3", "Guia do Farol", "ilustrado"),
            page("http://a/4", "Lighthouse keeper", "instant light"),
        ]);
        let check = |typed: &str, want: &[&str]| {
            assert_eq!(shard.searcher().suggest(typed, 3), want, "{typed:?}");
        };
        check("insta", &["instalação do debian", "instalação do farol", "instalação"]);
        check("instalacao do f", &["instalação do farol"]);
        check("Guia do Far", &["guia do farol"]);
        check("lighth", &["lighthouse keeper", "lighthouse"]);
        check("debian keep", &["debian keeper"]); // Never together in a title.
        check("", &[]);
        check("  ", &[]);
        check("…", &[]);
        assert_eq!(shard.searcher().suggest("a", 0).len(), 0);
    }
}
