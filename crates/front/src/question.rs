//! From what somebody typed to what the engine is asked.

use farol_base::Languages;
use farol_base::query::Request;
use farol_query::{Complaint, QUERY_BYTES_MAX};

/// Rank of the last hit that can be asked for; deeper questions cost much and help nobody.
pub(crate) const RANK_MAX: usize = 1000;

/// Hits that a program may ask for at once.
pub(crate) const COUNT_MAX: usize = 100;

/// Completions offered while somebody types.
pub(crate) const SUGGESTIONS_MAX: usize = 8;

/// Longest text that is completed, in bytes.
const PREFIX_BYTES_MAX: usize = 200;

/// A question as typed and as understood.
pub(crate) struct Question {
    /// What was typed, cut to the length that is read.
    pub text: String,
    pub request: Request,
    pub complaints: Vec<Complaint>,
}

impl Question {
    pub fn read(text: &str, first: usize, count: usize, languages: Languages) -> Question {
        let text = cut(text, QUERY_BYTES_MAX);
        let reading = farol_query::read(text);
        let first = first.min(RANK_MAX);
        let count = count.min(COUNT_MAX).min(RANK_MAX - first);
        let request = Request { query: reading.query, first, count, languages };
        Question { text: text.to_string(), request, complaints: reading.complaints }
    }

    /// The same question, its words looked for as they are written.
    pub fn with_words_as_written(mut self, as_written: bool) -> Question {
        self.request.query.as_written = as_written;
        self
    }

    /// Whether there is nothing to ask the engine.
    pub fn is_empty(&self) -> bool {
        self.request.query.is_empty()
    }
}

/// What is completed of a text that somebody is typing.
pub(crate) fn prefix(text: &str) -> &str {
    cut(text, PREFIX_BYTES_MAX)
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = Question::read("a", usize::MAX, usize::MAX, Languages::default());
        assert_eq!((deep.request.first, deep.request.count), (RANK_MAX, 0));
        let wide = Question::read("a", 950, 100, Languages::default());
        assert_eq!((wide.request.first, wide.request.count), (950, 50));
        let long = Question::read(&"é".repeat(5000), 0, 10, Languages::default());
        assert!(long.text.len() <= QUERY_BYTES_MAX);
        assert!(Question::read("  ", 0, 10, Languages::default()).is_empty());
    }
}
