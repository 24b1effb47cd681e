//! An agreement as it is kept on disk, as JSON with a version. Rounds and relays are not kept.

use super::book::{Book, Given, GivenState};
use super::paths::PathPart;
use super::taken::{Taken, TakenState};
use super::terms::{AgreementId, Terms};
use crate::message::{MessageError, PathPartText, TermsText};
use crate::view::{Limits, View};
use data_encoding::HEXLOWER;
use farol_base::Timestamp;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct SavedText {
    version: u32,
    #[serde(flatten)]
    side: SideText,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "side", rename_all = "lowercase")]
enum SideText {
    Given(GivenText),
    Taken(TakenText),
}

#[derive(Serialize, Deserialize)]
struct GivenText {
    terms: TermsText,
    state: StateText,
    bound_view: String,
    bound_until: u64,
    path_no: u64,
    is_pending: bool,
    next_word: u64,
    amending: Option<TermsText>,
    refused: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct TakenText {
    terms: TermsText,
    state: StateText,
    in_force: String,
    path_no: u64,
    parts: Vec<PathPartText>,
    horizon: Option<u64>,
    lease_until: u64,
    active_since: u64,
    rejoins: bool,
    #[serde(default)]
    lacks: Option<u32>,
    next_renewal: u64,
    next_round: u64,
    next_word: u64,
    amending: Option<TermsText>,
    refused: Vec<String>,
}

/// Where an agreement stands, with the time that belongs to it.
#[derive(Serialize, Deserialize)]
struct StateText {
    name: String,
    #[serde(default)]
    until: u64,
}

impl Book {
    /// An agreement as it is to be kept; `None` where it is not known.
    pub fn saved(&self, id: AgreementId) -> Option<Vec<u8>> {
        let side = match (self.given.get(&id), self.taken.get(&id)) {
            (Some(given), _) => SideText::Given(given_text(given)),
            (None, Some(taken)) => SideText::Taken(taken_text(taken)),
            (None, None) => return None,
        };
        // Strings, numbers and lists of them have a JSON form.
        serde_json::to_vec(&SavedText { version: VERSION, side }).ok()
    }

    /// Takes an agreement up again as it was kept. After all of them, [`Book::restart`] is to be called.
    ///
    /// # Errors
    /// Where it cannot be read, with what is wrong.
    pub fn take_up(&mut self, bytes: &[u8]) -> Result<(), MessageError> {
        let saved: SavedText = serde_json::from_slice(bytes)
            .map_err(|error| MessageError(format!("an agreement cannot be read: {error}")))?;
        if saved.version != VERSION {
            return Err(MessageError(format!(
                "an agreement is kept in version {}, this program reads {VERSION}: use the newer program",
                saved.version
            )));
        }
        match saved.side {
            SideText::Given(text) => {
                let given = read_given(text)?;
                self.given.insert(given.terms.id, given);
            }
            SideText::Taken(text) => {
                let taken = read_taken(text)?;
                self.taken.insert(taken.terms.id, taken);
            }
        }
        Ok(())
    }
}

fn given_text(given: &Given) -> GivenText {
    GivenText {
        terms: TermsText::of(&given.terms),
        state: match given.state {
            GivenState::Proposed(until) => state("proposed", until),
            GivenState::Considering => state("considering", Timestamp::EPOCH),
            GivenState::Promised => state("promised", Timestamp::EPOCH),
            GivenState::Serving => state("serving", Timestamp::EPOCH),
            GivenState::Lapsed => state("lapsed", Timestamp::EPOCH),
            GivenState::Ending(until) => state("ending", until),
            GivenState::Ended => state("ended", Timestamp::EPOCH),
        },
        bound_view: given.bound_view.to_string(),
        bound_until: given.bound_until.as_millis(),
        path_no: given.path_no,
        is_pending: given.is_pending,
        next_word: given.next_word.as_millis(),
        amending: given.amending.as_ref().map(TermsText::of),
        refused: digests(&given.refused),
    }
}

fn read_given(text: GivenText) -> Result<Given, MessageError> {
    let until = at(text.state.until);
    let state = match text.state.name.as_str() {
        "proposed" => GivenState::Proposed(until),
        "considering" => GivenState::Considering,
        "promised" => GivenState::Promised,
        "serving" => GivenState::Serving,
        "lapsed" => GivenState::Lapsed,
        "ending" => GivenState::Ending(until),
        "ended" => GivenState::Ended,
        other => return Err(no_state(other)),
    };
    Ok(Given {
        terms: text.terms.read()?,
        state,
        bound_view: view(&text.bound_view)?,
        bound_until: at(text.bound_until),
        path_no: text.path_no,
        is_pending: text.is_pending,
        next_word: at(text.next_word),
        amending: read_terms(text.amending)?,
        refused: read_digests(&text.refused)?,
    })
}

fn taken_text(taken: &Taken) -> TakenText {
    TakenText {
        terms: TermsText::of(&taken.terms),
        state: match taken.state {
            TakenState::Proposed(until) => state("proposed", until),
            TakenState::Considering => state("considering", Timestamp::EPOCH),
            TakenState::Filling => state("filling", Timestamp::EPOCH),
            TakenState::Chaining => state("chaining", Timestamp::EPOCH),
            TakenState::Active => state("active", Timestamp::EPOCH),
            TakenState::Silent => state("silent", Timestamp::EPOCH),
            TakenState::TakenBack => state("taken-back", Timestamp::EPOCH),
            TakenState::Ending(until) => state("ending", until),
            TakenState::Ended => state("ended", Timestamp::EPOCH),
        },
        in_force: taken.in_force.to_string(),
        path_no: taken.path_no,
        parts: taken.parts.iter().map(PathPartText::of).collect(),
        horizon: taken.horizon.map(Timestamp::as_millis),
        lease_until: taken.lease_until.as_millis(),
        active_since: taken.active_since.as_millis(),
        rejoins: taken.rejoins,
        lacks: taken.lacks,
        next_renewal: taken.next_renewal.as_millis(),
        next_round: taken.next_round.as_millis(),
        next_word: taken.next_word.as_millis(),
        amending: taken.amending.as_ref().map(TermsText::of),
        refused: digests(&taken.refused),
    }
}

fn read_taken(text: TakenText) -> Result<Taken, MessageError> {
    let until = at(text.state.until);
    let state = match text.state.name.as_str() {
        "proposed" => TakenState::Proposed(until),
        "considering" => TakenState::Considering,
        "filling" => TakenState::Filling,
        "chaining" => TakenState::Chaining,
        "active" => TakenState::Active,
        "silent" => TakenState::Silent,
        "taken-back" => TakenState::TakenBack,
        "ending" => TakenState::Ending(until),
        "ended" => TakenState::Ended,
        other => return Err(no_state(other)),
    };
    Ok(Taken {
        in_force: view(&text.in_force)?,
        path_no: text.path_no,
        parts: text.parts.into_iter().map(PathPartText::read).collect::<Result<Vec<PathPart>, _>>()?,
        horizon: text.horizon.map(at),
        lease_until: at(text.lease_until),
        active_since: at(text.active_since),
        rejoins: text.rejoins,
        lacks: text.lacks,
        next_renewal: at(text.next_renewal),
        next_round: at(text.next_round),
        next_word: at(text.next_word),
        amending: read_terms(text.amending)?,
        refused: read_digests(&text.refused)?,
        ..Taken::new(text.terms.read()?, state)
    })
}

fn state(name: &str, until: Timestamp) -> StateText {
    StateText { name: name.to_string(), until: until.as_millis() }
}

fn no_state(name: &str) -> MessageError {
    MessageError(format!("{name:?} is no state of an agreement"))
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// What was made of several views may be longer than one that travels.
fn view(text: &str) -> Result<View, MessageError> {
    View::parse_within(text, &Limits::own_file())
        .map_err(|error| MessageError(format!("a kept view cannot be read: {error}")))
}

fn read_terms(terms: Option<TermsText>) -> Result<Option<Terms>, MessageError> {
    terms.map(TermsText::read).transpose()
}

fn digests(refused: &[[u8; 32]]) -> Vec<String> {
    refused.iter().map(|digest| HEXLOWER.encode(digest)).collect()
}

fn read_digests(texts: &[String]) -> Result<Vec<[u8; 32]>, MessageError> {
    let read = |text: &String| HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    texts
        .iter()
        .map(|text| read(text).ok_or_else(|| MessageError("a kept digest is damaged".into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::{EngineId, Message, Rules, Timers};
    use crate::message::tests_terms as terms;
    use farol_base::Seeded;
    use std::time::Duration;

    #[test]
    fn both_sides_of_an_agreement_survive_on_disk_at_every_step() {
        let all = View::parse(".pt or .br").unwrap();
        let ids = [EngineId([1; 32]), EngineId([2; 32])];
        let mut books = ids.map(|id| Book::new(id, all.clone(), Timers::default(), Rules::default()));
        let random = &mut Seeded::new(1);
        let mut now = Timestamp::from_secs(1_000_000);
        let id = terms().id;
        let mut queue = books[0].propose(now, terms()).unwrap();
        let mut states = std::collections::BTreeSet::new();
        for step in 0..200 {
            for book in &mut books {
                let saved: Vec<Vec<u8>> = book.saved(id).into_iter().collect();
                let mut again = Book::new(book.me(), all.clone(), Timers::default(), Rules::default());
                saved.iter().for_each(|bytes| again.take_up(bytes).unwrap());
                assert_eq!(again.saved(id).into_iter().collect::<Vec<_>>(), saved, "step {step}");
                assert_eq!(again.given, book.given);
                // What a round has gathered is not kept.
                for taken in book.taken.values() {
                    let kept = Taken { round: None, relay: None, ..taken.clone() };
                    assert_eq!(again.taken[&id], kept);
                }
                states.extend(book.taken.values().map(|taken| format!("{:?}", taken.state)));
                states.extend(book.given.values().map(|given| format!("{:?}", given.state)));
            }
            for out in std::mem::take(&mut queue) {
                let (to, from) = if out.to == ids[0] { (0, 1) } else { (1, 0) };
                queue.extend(books[to].receive(now, ids[from], id, out.message, random));
            }
            queue.extend(books[1].decide(id, true));
            books[1].filled(id, 1);
            now = now + Duration::from_secs(7);
            books.iter_mut().for_each(|book| queue.extend(book.tick(now, random)));
        }
        assert!(states.contains("Active") && states.contains("Serving"), "{states:?}");
        let out = books[0].end(now, id);
        assert!(matches!(out[0].message, Message::End));
        assert!(books[0].saved(id).is_some() && books[0].saved(AgreementId([0; 16])).is_none());
    }

    #[test]
    fn what_a_newer_program_kept_is_not_guessed_at() {
        let mut book = Book::new(EngineId([1; 32]), View::all(), Timers::default(), Rules::default());
        book.propose(Timestamp::EPOCH, terms()).unwrap();
        let text = String::from_utf8(book.saved(terms().id).unwrap()).unwrap();
        let newer = text.replace("\"version\":1", "\"version\":2");
        assert!(book.take_up(newer.as_bytes()).unwrap_err().to_string().contains("version 2"));
        assert!(book.take_up(b"{}").is_err());
        let odd = text.replace("proposed", "posed");
        assert!(book.take_up(odd.as_bytes()).unwrap_err().to_string().contains("posed"));
    }
}
