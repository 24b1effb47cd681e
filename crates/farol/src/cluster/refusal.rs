//! Why a node does not join: one sentence, before anything is written.

/// A refusal to start that the operator must mend; the process ends with code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// As an error of the binary.
    pub fn of(sentence: impl std::fmt::Display) -> anyhow::Error {
        anyhow::Error::new(Refusal(sentence.to_string()))
    }
}
