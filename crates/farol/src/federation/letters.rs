//! Seals what is said to another engine, and opens what another has said.

use super::key::{EngineKey, verify};
use farol_base::Timestamp;
use farol_base::sync::Mutex;
use farol_federation::agreement::EngineId;
use farol_federation::message::{Envelope, MESSAGE_ID_BYTES, Seen, SeenVerdict};

/// Signs a letter.
pub fn seal(key: &EngineKey, to: EngineId, kind: &str, payload: Vec<u8>, now: Timestamp) -> Envelope {
    let mut id = [0; MESSAGE_ID_BYTES];
    // Without random numbers the time tells letters apart; a second one in the same millisecond would be taken for a replay.
    if getrandom::fill(&mut id).is_err() {
        id[..8].copy_from_slice(&now.as_millis().to_le_bytes());
    }
    let mut envelope =
        Envelope { from: key.id(), to, kind: kind.to_string(), id, at: now, payload, signature: [0; 64] };
    envelope.signature = key.sign(&envelope.signed_bytes());
    envelope
}

/// Why a letter is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum LetterRefused {
    #[error("the letter is for another engine")]
    NotForUs,
    #[error("the letter is not signed by the engine that it names")]
    Forged,
    #[error("the letter's sender is not the engine at the other end of the connection")]
    OtherEnd,
    #[error("the letter was signed more than five minutes ago or ahead; set both clocks")]
    OutOfTime,
    #[error("the letter came before")]
    Again,
    #[error("too many letters come from this engine; send fewer")]
    TooMany,
}

impl LetterRefused {
    /// Its name in counters.
    pub fn code(self) -> &'static str {
        match self {
            LetterRefused::NotForUs => "letter_not_for_us",
            LetterRefused::Forged => "letter_forged",
            LetterRefused::OtherEnd => "letter_other_end",
            LetterRefused::OutOfTime => "letter_out_of_time",
            LetterRefused::Again => "letter_replayed",
            LetterRefused::TooMany => "letters_too_many",
        }
    }
}

/// Looks at a letter, the cheapest first; `end` is whose certificate the connection showed, where it showed one.
pub fn open(
    me: EngineId,
    envelope: &Envelope,
    end: Option<EngineId>,
    now: Timestamp,
    seen: &Mutex<Seen>,
) -> Result<(), LetterRefused> {
    if envelope.to != me || envelope.from == me {
        return Err(LetterRefused::NotForUs);
    }
    if end.is_some_and(|end| end != envelope.from) {
        return Err(LetterRefused::OtherEnd);
    }
    if !verify(envelope.from, &envelope.signed_bytes(), &envelope.signature) {
        return Err(LetterRefused::Forged);
    }
    match seen.lock().admit(now, envelope.from, envelope.id, envelope.at) {
        SeenVerdict::New => Ok(()),
        SeenVerdict::Again => Err(LetterRefused::Again),
        SeenVerdict::OutOfTime => Err(LetterRefused::OutOfTime),
        SeenVerdict::TooMany => Err(LetterRefused::TooMany),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_letter_is_opened_once_by_whom_it_is_for() {
        let (a, b) = (EngineKey::of_seed([1; 32]).unwrap(), EngineKey::of_seed([2; 32]).unwrap());
        let now = Timestamp::from_secs(1_000_000);
        let seen = Mutex::default();
        let letter = seal(&a, b.id(), "agreement", b"{}".to_vec(), now);
        let opened = |letter: &Envelope, end| open(b.id(), letter, end, now, &seen);
        assert_eq!(opened(&letter, Some(b.id())), Err(LetterRefused::OtherEnd));
        assert_eq!(opened(&letter, Some(a.id())), Ok(()));
        assert_eq!(opened(&letter, None), Err(LetterRefused::Again));
        let forged = Envelope { payload: b"{ }".to_vec(), ..letter.clone() };
        assert_eq!(opened(&forged, None), Err(LetterRefused::Forged));
        assert_eq!(open(a.id(), &letter, None, now, &seen), Err(LetterRefused::NotForUs));
        let old = seal(&a, b.id(), "agreement", Vec::new(), now - Duration::from_secs(301));
        assert_eq!(opened(&old, None), Err(LetterRefused::OutOfTime));
    }
}
