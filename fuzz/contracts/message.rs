//! Any bytes as what another engine says: an envelope, its payload as a message about an agreement, a card, a kept agreement.
//!
//! Contract: reading fails with a sentence or gives what says the same when it is written and read again; a message that was
//! read does no harm to a book, and what the book keeps of it can be read again.

use farol_base::{Seeded, Timestamp};
use farol_federation::View;
use farol_federation::agreement::{Book, EngineId, Message, Rules, Timers};
use farol_federation::message::{Card, Envelope, heard, said};

pub fn check(bytes: &[u8]) {
    match Envelope::from_json(bytes) {
        Ok(envelope) => {
            assert_eq!(Envelope::from_json(envelope.to_json().as_bytes()), Ok(envelope.clone()));
            assert!(envelope.signed_bytes().len() >= envelope.payload.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(card) = Card::from_json(bytes) {
        assert_eq!(Card::from_json(card.to_json().as_bytes()), Ok(card));
    }
    let me = EngineId([1; 32]);
    let book = || Book::new(me, View::all(), Timers::default(), Rules::default());
    let _ = book().take_up(bytes);
    if let Ok((id, message)) = heard(bytes) {
        assert_eq!(heard(&said(id, &message)), Ok((id, message.clone())));
        let (mut book, random) = (book(), &mut Seeded::new(1));
        let now = Timestamp::from_secs(1_000_000);
        let from = match &message {
            Message::Propose(terms) | Message::Amend(terms) => terms.partner_of(me),
            _ => EngineId([2; 32]),
        };
        for again in [message.clone(), message] {
            let _ = book.receive(now, from, id, again, random);
            let _ = book.decide(id, true);
            let _ = book.tick(now, random);
        }
        if let Some(kept) = book.saved(id) {
            let mut other = Book::new(me, View::all(), Timers::default(), Rules::default());
            other.take_up(&kept).expect("what was kept can be read");
            assert_eq!(other.saved(id), Some(kept));
        }
    }
}
