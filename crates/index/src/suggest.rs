//! Completes what somebody is typing.
//!
//! First phrases of titles and words that begin with everything typed; where they run out, the last two words
//! and then the last word alone are completed, and what was typed before stays in front. Those completions fit what
//! stands before: some page has both, and those that most pages have with it come first.

use crate::error::Error;
use crate::searcher::View;
use crate::text::spans::Spans;
use crate::text::{fold, stop};
use crate::vocabulary::{Completion, Vocabulary};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocSet, TERMINATED};

/// Bytes of typed text that are read.
const TYPED_BYTES_MAX: usize = 200;

/// Completions given at most.
const COUNT_MAX: usize = 50;

/// Completions that are compared with the words before.
const COMPARED_MAX: usize = 64;

/// Pages of one completion that are compared in a segment: 64 × 2,000 steps are below a millisecond.
const PAGES_MAX: usize = 2_000;

/// What somebody may be typing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// All of it, what was typed before included.
    pub text: String,
    /// 0 where it continues everything typed, more where it continues the last words alone.
    pub tail: u8,
    /// How much speaks for it: of equal `tail`, the greater comes first.
    pub weight: u64,
}

/// Completions of a text, best first, none of them the text itself.
pub(crate) fn complete(
    view: &View,
    vocabulary: &Vocabulary,
    typed: &str,
    count: usize,
) -> Result<Vec<Completed>, Error> {
    let typed = crate::limits::cut(typed, TYPED_BYTES_MAX).trim_start();
    let count = count.min(COUNT_MAX);
    let words: Vec<(String, &str)> = Spans::new(typed)
        .map(|span| &typed[span.start..span.end])
        .map(|word| (fold::folded(word), word))
        .collect();
    let finished = typed.ends_with(char::is_whitespace);
    let mut out: Vec<Completed> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    let whole = key(&words, finished);
    // Everything typed, then its last two words, then its last one.
    let mut tails: Vec<usize> = vec![0, words.len().saturating_sub(2), words.len().saturating_sub(1)];
    tails.dedup();
    for (step, tail) in (0u8..).zip(tails) {
        if words.is_empty() || out.len() >= count {
            break;
        }
        let before = words[..tail].iter().map(|(_, word)| word.to_lowercase()).collect::<Vec<_>>().join(" ");
        let prefix = key(&words[tail..], finished);
        let entries = match tail {
            0 => {
                let entries = best(vocabulary, &prefix, count + 1).into_iter();
                entries.map(|entry| (entry.weight, entry)).collect()
            }
            _ => {
                let context = PagesBefore::of(view, &words[..tail])?;
                context.fitting(view, best(vocabulary, &prefix, COMPARED_MAX))?
            }
        };
        for (weight, entry) in entries {
            let text =
                if before.is_empty() { entry.shown.to_string() } else { format!("{before} {}", entry.shown) };
            let form = folded_words(&text);
            if form != whole.trim_end() && !known.contains(&form) && out.len() < count {
                known.push(form);
                out.push(Completed { text, tail: step, weight: weight.into() });
            }
        }
        if finished && tail + 1 == words.len() {
            break;
        }
    }
    Ok(out)
}

/// The pages that have all words before the one that is completed, a set for each segment.
struct PagesBefore(Vec<BitSet>);

impl PagesBefore {
    fn of(view: &View, words: &[(String, &str)]) -> Result<PagesBefore, Error> {
        let mut sets = Vec::new();
        for part in view.segments() {
            let (segment, mut set) = (part.reader, None::<BitSet>);
            for (form, word) in words {
                if stop::is_stop_word_anywhere(&word.to_lowercase()) {
                    continue;
                }
                let mut both = BitSet::with_max_value(segment.max_doc());
                if let Some(mut postings) = part.open(view.fields.words, form, IndexRecordOption::Basic)? {
                    while postings.doc() != TERMINATED {
                        let doc = postings.doc();
                        if set.as_ref().is_none_or(|set| set.contains(doc)) && !segment.is_deleted(doc) {
                            both.insert(doc);
                        }
                        postings.advance();
                    }
                }
                set = Some(both);
            }
            sets.push(set.unwrap_or_else(|| {
                let mut all = BitSet::with_max_value(segment.max_doc());
                for doc in segment.doc_ids_alive() {
                    all.insert(doc);
                }
                all
            }));
        }
        Ok(PagesBefore(sets))
    }

    /// The completions that some page has with the words before, with the number of such pages, most of them first.
    fn fitting<'v>(
        &self,
        view: &View,
        entries: Vec<&'v Completion>,
    ) -> Result<Vec<(u32, &'v Completion)>, Error> {
        let mut fitting: Vec<(u32, &Completion)> = Vec::new();
        for entry in entries {
            // Of a phrase, its longest word stands for it: that is the rarest as a rule.
            let Some(word) = entry.key.split(' ').max_by_key(|word| word.len()) else { continue };
            if stop::is_stop_word_anywhere(&entry.shown) {
                continue;
            }
            let mut pages = 0;
            for (segment, set) in view.segments().zip(&self.0) {
                let Some(mut postings) = segment.open(view.fields.words, word, IndexRecordOption::Basic)?
                else {
                    continue;
                };
                let mut looked = 0;
                while postings.doc() != TERMINATED && looked < PAGES_MAX {
                    pages += u32::from(set.contains(postings.doc()));
                    postings.advance();
                    looked += 1;
                }
            }
            if pages > 0 {
                fitting.push((pages, entry));
            }
        }
        fitting.sort_by_key(|(pages, entry)| (Reverse(*pages), Reverse(entry.weight)));
        Ok(fitting)
    }
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
        check("farol ilu", &["farol ilustrado"]); // Never together in a title, but on a page.
        check("debian keep", &[]); // No page has both.
        check("", &[]);
        check("  ", &[]);
        check("…", &[]);
        assert_eq!(shard.searcher().suggest("a", 0).len(), 0);
    }

    #[test]
    fn completions_fit_the_words_before() {
        let mut pages = vec![
            page("http://b/1", "Bread", "bake the bread in a hot oven"),
            page("http://b/2", "Rolls", "bake rolls in the oven too"),
            page("http://b/3", "Spoons", "bake with an overdone spoon"),
        ];
        pages.extend((0..9).map(|n| page(&format!("http://o/{n}"), "Over", &format!("over and over {n}"))));
        let shard = TestShard::new(&pages);
        assert_eq!(shard.searcher().suggest("ov", 1), ["over"]);
        assert_eq!(shard.searcher().suggest("bake ov", 5), ["bake oven", "bake overdone"]);
    }
}
