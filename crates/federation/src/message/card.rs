//! What an engine says of itself.

use super::envelope::{MessageError, wrong};
use crate::view::View;
use serde::{Deserialize, Serialize};

/// Longest card that is read.
pub const CARD_BYTES_MAX: usize = 64 * 1024;
const NAME_BYTES_MAX: usize = 200;
const ADDRESS_BYTES_MAX: usize = 300;

/// An engine's own words about itself; who it is stands on the envelope around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its name for people.
    pub name: String,
    /// Where it listens to other engines: `https://HOST[:PORT]`.
    pub address: String,
    /// There is a proxy before it, whose certificate is one of the Web's; otherwise its certificate is made of its key.
    pub behind_proxy: bool,
    /// The pages that it is about.
    pub view: View,
    /// The name by which its robot obeys robots.txt.
    pub agent: String,
    /// How to reach its owner.
    pub contact: String,
}

#[derive(Serialize, Deserialize)]
struct CardText {
    name: String,
    address: String,
    #[serde(default)]
    behind_proxy: bool,
    view: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    contact: String,
}

impl Card {
    /// The card as it travels.
    pub fn to_json(&self) -> String {
        let text = CardText {
            name: self.name.clone(),
            address: self.address.clone(),
            behind_proxy: self.behind_proxy,
            view: self.view.to_string(),
            agent: self.agent.clone(),
            contact: self.contact.clone(),
        };
        // Strings and a flag have a JSON form.
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// Reads a card.
    ///
    /// # Errors
    /// Where it is no card, with what is wrong.
    pub fn from_json(bytes: &[u8]) -> Result<Card, MessageError> {
        if bytes.len() > CARD_BYTES_MAX {
            return Err(wrong(format!(
                "the card has {} bytes, at most {CARD_BYTES_MAX} are read",
                bytes.len()
            )));
        }
        let text: CardText =
            serde_json::from_slice(bytes).map_err(|error| wrong(format!("it is no card: {error}")))?;
        for (what, value, max) in [
            ("name", &text.name, NAME_BYTES_MAX),
            ("address", &text.address, ADDRESS_BYTES_MAX),
            ("agent", &text.agent, NAME_BYTES_MAX),
            ("contact", &text.contact, ADDRESS_BYTES_MAX),
        ] {
            if value.len() > max || value.chars().any(char::is_control) {
                return Err(wrong(format!(
                    "the card's {what} is longer than {max} bytes, or not plain text"
                )));
            }
        }
        let view = View::parse(&text.view).map_err(|error| wrong(format!("the card's view: {error}")))?;
        Ok(Card {
            name: text.name,
            address: text.address,
            behind_proxy: text.behind_proxy,
            view,
            agent: text.agent,
            contact: text.contact,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_as_it_was_written() {
        let card = Card {
            name: "Praia".into(),
            address: "https://a.example:8090".into(),
            behind_proxy: false,
            view: View::parse(".pt minus .gov.pt").unwrap(),
            agent: "farol".into(),
            contact: String::new(),
        };
        assert_eq!(Card::from_json(card.to_json().as_bytes()), Ok(card.clone()));
        let refused = |from: &str, to: &str| {
            Card::from_json(card.to_json().replace(from, to).as_bytes()).unwrap_err().to_string()
        };
        assert!(refused("domain:pt", "domian:pt").contains("view"));
        assert!(refused("Praia", "Pra\\u0007").contains("name"));
        assert!(refused("\"view\"", "\"vue\"").contains("no card"));
    }
}
