//! A signed letter from one engine to another.

use crate::agreement::EngineId;
use data_encoding::{BASE64, HEXLOWER};
use farol_base::Timestamp;
use serde::{Deserialize, Serialize};

/// Longest envelope that is read, as JSON: a change of terms with 64 parts of a path, each a view of some kilobytes.
pub const ENVELOPE_BYTES_MAX: usize = 512 * 1024;
/// Longest name of a type.
const TYPE_BYTES_MAX: usize = 128;
/// Bytes of an envelope's id.
pub const MESSAGE_ID_BYTES: usize = 16;

/// Why something that another engine sent cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MessageError(pub String);

pub(crate) fn wrong(text: impl Into<String>) -> MessageError {
    MessageError(text.into())
}

/// A letter and who signed it. That the signature is right is for the shell to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Who signed it.
    pub from: EngineId,
    /// For whom it is; what is for everybody, as a card, is for its sender.
    pub to: EngineId,
    /// What the payload is: `agreement`, `card`, `fill`, or a request as in `GET /federation/v1/…`.
    pub kind: String,
    /// Drawn at random.
    pub id: [u8; MESSAGE_ID_BYTES],
    /// When it was signed, by the sender's clock.
    pub at: Timestamp,
    /// What it says.
    pub payload: Vec<u8>,
    /// ed25519 over [`Envelope::signed_bytes`].
    pub signature: [u8; 64],
}

#[derive(Serialize, Deserialize)]
struct EnvelopeText {
    from: String,
    to: String,
    #[serde(rename = "type")]
    kind: String,
    id: String,
    at: u64,
    payload: String,
    sig: String,
}

impl Envelope {
    /// What is signed: `farol-message-1`, a zero, then from, to, type and id each behind its length, the time, and the
    /// payload behind its length. Numbers are little-endian, lengths of 4 bytes, the time of 8 in milliseconds.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut bytes = b"farol-message-1\0".to_vec();
        let mut put = |part: &[u8]| {
            bytes.extend((part.len() as u32).to_le_bytes());
            bytes.extend(part);
        };
        put(self.from.to_string().as_bytes());
        put(self.to.to_string().as_bytes());
        put(self.kind.as_bytes());
        put(HEXLOWER.encode(&self.id).as_bytes());
        bytes.extend(self.at.as_millis().to_le_bytes());
        bytes.extend((self.payload.len() as u32).to_le_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// The envelope as it travels.
    pub fn to_json(&self) -> String {
        let text = EnvelopeText {
            from: self.from.to_string(),
            to: self.to.to_string(),
            kind: self.kind.clone(),
            id: HEXLOWER.encode(&self.id),
            at: self.at.as_millis(),
            payload: BASE64.encode(&self.payload),
            sig: BASE64.encode(&self.signature),
        };
        // A struct of strings and one number has a JSON form.
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// Reads an envelope; its signature is not looked at.
    ///
    /// # Errors
    /// Where it is too long or no envelope, with what is wrong.
    pub fn from_json(bytes: &[u8]) -> Result<Envelope, MessageError> {
        if bytes.len() > ENVELOPE_BYTES_MAX {
            return Err(wrong(format!(
                "the envelope has {} bytes, at most {ENVELOPE_BYTES_MAX} are read",
                bytes.len()
            )));
        }
        let text: EnvelopeText =
            serde_json::from_slice(bytes).map_err(|error| wrong(format!("it is no envelope: {error}")))?;
        if text.kind.is_empty() || text.kind.len() > TYPE_BYTES_MAX {
            return Err(wrong(format!("the envelope's type has not 1 to {TYPE_BYTES_MAX} bytes")));
        }
        Ok(Envelope {
            from: text.from.parse()?,
            to: text.to.parse()?,
            kind: text.kind,
            id: fixed(HEXLOWER.decode(text.id.as_bytes()).ok(), "id is not 32 hexadecimal digits")?,
            at: Timestamp::from_millis(text.at),
            payload: BASE64
                .decode(text.payload.as_bytes())
                .map_err(|_| wrong("the envelope's payload is not base64"))?,
            signature: fixed(BASE64.decode(text.sig.as_bytes()).ok(), "sig is not 64 bytes in base64")?,
        })
    }
}

fn fixed<const N: usize>(bytes: Option<Vec<u8>>, otherwise: &str) -> Result<[u8; N], MessageError> {
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| wrong(format!("the envelope's {otherwise}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope {
        Envelope {
            from: EngineId([1; 32]),
            to: EngineId([2; 32]),
            kind: "agreement".into(),
            id: [3; 16],
            at: Timestamp::from_millis(5),
            payload: b"{}".to_vec(),
            signature: [4; 64],
        }
    }

    #[test]
    fn an_envelope_is_read_as_it_was_written() {
        let json = envelope().to_json();
        assert_eq!(Envelope::from_json(json.as_bytes()), Ok(envelope()));
        let refused = |from: &str, to: &str, want: &str| {
            let error = Envelope::from_json(json.replace(from, to).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        refused("farol:", "faro:", "farol:");
        refused("\"at\":5", "\"at\":-5", "no envelope");
        refused("03030303", "", "id is not 32");
        refused("BAQE", "", "sig is not 64");
        refused("agreement", "", "type");
        let long = vec![b' '; ENVELOPE_BYTES_MAX + 1];
        assert!(Envelope::from_json(&long).unwrap_err().to_string().contains("bytes"));
    }

    #[test]
    fn every_part_of_an_envelope_is_signed() {
        let bytes = envelope().signed_bytes();
        assert!(bytes.starts_with(b"farol-message-1\0\x3a\0\0\0farol:"));
        let changes: [fn(&mut Envelope); 6] = [
            |e| e.from = EngineId([9; 32]),
            |e| e.to = EngineId([9; 32]),
            |e| e.kind.push('x'),
            |e| e.id[0] = 9,
            |e| e.at = Timestamp::from_millis(6),
            |e| e.payload.push(b' '),
        ];
        for change in changes {
            let mut changed = envelope();
            change(&mut changed);
            assert_ne!(changed.signed_bytes(), bytes);
        }
    }
}
