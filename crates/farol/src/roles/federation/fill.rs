//! A consumer's question: send me all that there is, and say when that was all.

use farol_federation::agreement::AgreementId;
use serde::{Deserialize, Serialize};

/// The type of its envelope.
pub const KIND: &str = "fill";

#[derive(Serialize, Deserialize)]
pub struct FillLetter {
    pub agreement: String,
    /// Tells one filling from another; the same question has the same number.
    pub round: u64,
}

impl FillLetter {
    pub fn write(&self) -> Vec<u8> {
        // A text and a number have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn read(bytes: &[u8]) -> Option<(AgreementId, u64)> {
        let letter: FillLetter = serde_json::from_slice(bytes).ok()?;
        Some((letter.agreement.parse().ok()?, letter.round))
    }
}
