//! Why a text is no view, or a question about views was too large.

use std::fmt;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text cannot be read; `at` counts bytes from its beginning.
    #[error("at character {}: expected {expected}, found {found}", column(text, *at))]
    Syntax {
        /// The whole text.
        text: String,
        /// The byte at which reading stopped.
        at: usize,
        /// What would have been right there.
        expected: Expected,
        /// What stands there.
        found: String,
    },
    /// The text of a view, as written or in canonical form.
    #[error("the view has {bytes} bytes, at most {max} are read")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Too many conditions in one view.
    #[error("the view has {atoms} conditions, at most {max} are read")]
    TooManyAtoms {
        /// How many there are.
        atoms: usize,
        /// The limit.
        max: usize,
    },
    /// `and`, `or` and `not` inside one another.
    #[error("the view is nested {depth} deep, at most {max} is read")]
    TooDeep {
        /// How deep it is.
        depth: usize,
        /// The limit.
        max: usize,
    },
    /// The normal form grew beyond what is worth computing.
    #[error("the views are too intricate to compare: more than {max} boxes")]
    TooManyBoxes {
        /// The limit.
        max: usize,
    },
}

/// What a reader would have accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected(pub String);

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error {
    /// The same error with the text and a mark below the character that it is about.
    ///
    /// ```
    /// let error = farol_federation::View::parse(".br and lnag:pt").unwrap_err();
    /// assert!(error.pointed().contains("\n  .br and lnag:pt\n          ^"));
    /// ```
    pub fn pointed(&self) -> String {
        match self {
            Error::Syntax { text, at, .. } => {
                let before = text.get(..*at).unwrap_or(text);
                let line_start = before.rfind('\n').map_or(0, |end| end + 1);
                let line = text[line_start..].lines().next().unwrap_or_default();
                let blanks = " ".repeat(before[line_start..].chars().count());
                format!("{self}\n  {line}\n  {blanks}^")
            }
            other => other.to_string(),
        }
    }
}

/// The character that a byte belongs to, from 1.
fn column(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).chars().count() + 1
}
