//! Messages of agreements as JSON: `{"agreement": "…", "say": "renew", …}`.

use super::envelope::{MessageError, wrong};
use crate::agreement::{
    AgreementId, Delivery, EngineId, Grade, Kind, Message, OnEnd, PATH_MAX, PathPart, Quota, Terms,
};
use crate::view::{Limits, View};
use data_encoding::HEXLOWER;
use farol_base::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Parts of a path that are read.
pub const MESSAGE_PARTS_MAX: usize = 64;

/// Views of parts of paths are made of several others.
const PART_LIMITS: Limits = Limits { bytes: 64 * 1024, atoms: 2048, depth: 32 };

/// Terms as they travel, and as they are kept.
#[derive(Serialize, Deserialize)]
pub(crate) struct TermsText {
    id: String,
    revision: u32,
    provider: String,
    consumer: String,
    kind: KindText,
    view: String,
    grade: GradeText,
    delivery: DeliveryText,
    delay_max_ms: u64,
    pages_day: u64,
    bytes_day: u64,
    forward: u8,
    on_end: OnEndText,
    notice_ms: u64,
    lease_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindText {
    Index,
    Search,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GradeText {
    Text,
    Words,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnEndText {
    Keep,
    Purge,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DeliveryText {
    Push,
    Pull,
    Window(u16, u16),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PathPartText {
    view: String,
    path: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct MessageText {
    agreement: String,
    #[serde(flatten)]
    said: Said,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
enum Said {
    Propose { terms: TermsText },
    Accept { digest: String },
    Refuse { digest: String },
    Ready { round: u64, revision: u32 },
    Path { round: u64, number: u64, parts: Vec<PathPartText>, good_for_ms: u64 },
    NotNow { round: u64 },
    Chain { number: u64, parts: Vec<PathPartText> },
    Chained { number: u64 },
    Busy { number: u64 },
    ChainRefused { number: u64 },
    Active { round: u64 },
    Renew { sent: u64, revision: u32 },
    Renewed { sent: u64, number: u64, parts: Option<Vec<PathPartText>>, good_for_ms: u64 },
    Lapsed { sent: u64 },
    Amend { terms: TermsText },
    End,
    Ended,
}

/// Writes a message about an agreement.
pub fn said(agreement: AgreementId, message: &Message) -> Vec<u8> {
    let ms = |at: &Timestamp| at.as_millis();
    let parts = |parts: &[PathPart]| parts.iter().map(PathPartText::of).collect();
    let said = match message {
        Message::Propose(terms) => Said::Propose { terms: TermsText::of(terms) },
        Message::Accept(digest) => Said::Accept { digest: HEXLOWER.encode(digest) },
        Message::Refuse(digest) => Said::Refuse { digest: HEXLOWER.encode(digest) },
        Message::Ready(round, revision) => Said::Ready { round: ms(round), revision: *revision },
        Message::Path(round, number, path, good_for) => Said::Path {
            round: ms(round),
            number: *number,
            parts: parts(path),
            good_for_ms: millis(*good_for),
        },
        Message::NotNow(round) => Said::NotNow { round: ms(round) },
        Message::Chain(number, path) => Said::Chain { number: *number, parts: parts(path) },
        Message::Chained(number) => Said::Chained { number: *number },
        Message::Busy(number) => Said::Busy { number: *number },
        Message::ChainRefused(number) => Said::ChainRefused { number: *number },
        Message::Active(round) => Said::Active { round: ms(round) },
        Message::Renew(sent, revision) => Said::Renew { sent: ms(sent), revision: *revision },
        Message::Renewed(sent, number, path, good_for) => Said::Renewed {
            sent: ms(sent),
            number: *number,
            parts: path.as_deref().map(parts),
            good_for_ms: millis(*good_for),
        },
        Message::Lapsed(sent) => Said::Lapsed { sent: ms(sent) },
        Message::Amend(terms) => Said::Amend { terms: TermsText::of(terms) },
        Message::End => Said::End,
        Message::Ended => Said::Ended,
    };
    let text = MessageText { agreement: agreement.to_string(), said };
    // Strings, numbers and lists of them have a JSON form.
    serde_json::to_vec(&text).unwrap_or_default()
}

/// Reads a message about an agreement.
///
/// # Errors
/// Where it is none, with what is wrong.
pub fn heard(bytes: &[u8]) -> Result<(AgreementId, Message), MessageError> {
    let text: MessageText = serde_json::from_slice(bytes)
        .map_err(|error| wrong(format!("it is no message about an agreement: {error}")))?;
    let at = Timestamp::from_millis;
    let message = match text.said {
        Said::Propose { terms } => Message::Propose(Box::new(terms.read()?)),
        Said::Accept { digest } => Message::Accept(digest_of(&digest)?),
        Said::Refuse { digest } => Message::Refuse(digest_of(&digest)?),
        Said::Ready { round, revision } => Message::Ready(at(round), revision),
        Said::Path { round, number, parts, good_for_ms } => {
            Message::Path(at(round), number, read_parts(parts)?, span(good_for_ms))
        }
        Said::NotNow { round } => Message::NotNow(at(round)),
        Said::Chain { number, parts } => Message::Chain(number, read_parts(parts)?),
        Said::Chained { number } => Message::Chained(number),
        Said::Busy { number } => Message::Busy(number),
        Said::ChainRefused { number } => Message::ChainRefused(number),
        Said::Active { round } => Message::Active(at(round)),
        Said::Renew { sent, revision } => Message::Renew(at(sent), revision),
        Said::Renewed { sent, number, parts, good_for_ms } => {
            Message::Renewed(at(sent), number, parts.map(read_parts).transpose()?, span(good_for_ms))
        }
        Said::Lapsed { sent } => Message::Lapsed(at(sent)),
        Said::Amend { terms } => Message::Amend(Box::new(terms.read()?)),
        Said::End => Message::End,
        Said::Ended => Message::Ended,
    };
    Ok((text.agreement.parse()?, message))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Longer spans than a hundred years would only overflow elsewhere.
fn span(millis: u64) -> Duration {
    Duration::from_millis(millis.min(100 * 366 * 86_400_000))
}

fn digest_of(text: &str) -> Result<[u8; 32], MessageError> {
    let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| wrong("a digest is 64 hexadecimal digits"))
}

fn read_parts(parts: Vec<PathPartText>) -> Result<Vec<PathPart>, MessageError> {
    if parts.len() > MESSAGE_PARTS_MAX {
        return Err(wrong(format!(
            "the path has {} parts, at most {MESSAGE_PARTS_MAX} are read",
            parts.len()
        )));
    }
    parts.into_iter().map(PathPartText::read).collect()
}

impl PathPartText {
    pub(crate) fn of(part: &PathPart) -> PathPartText {
        PathPartText {
            view: part.view.to_string(),
            path: part.path.iter().map(ToString::to_string).collect(),
        }
    }

    pub(crate) fn read(self) -> Result<PathPart, MessageError> {
        // One more than is allowed, so that whoever gets it refuses it for its length.
        if self.path.is_empty() || self.path.len() > PATH_MAX + 1 {
            return Err(wrong(format!("a path of {} engines, 1 to {PATH_MAX} are read", self.path.len())));
        }
        let view = View::parse_within(&self.view, &PART_LIMITS)
            .map_err(|error| wrong(format!("the view of a path: {error}")))?;
        Ok(PathPart { view, path: self.path.iter().map(|id| id.parse()).collect::<Result<_, _>>()? })
    }
}

impl TermsText {
    pub(crate) fn of(terms: &Terms) -> TermsText {
        TermsText {
            id: terms.id.to_string(),
            revision: terms.revision,
            provider: terms.provider.to_string(),
            consumer: terms.consumer.to_string(),
            kind: match terms.kind {
                Kind::Index => KindText::Index,
                Kind::Search => KindText::Search,
            },
            view: terms.view.to_string(),
            grade: match terms.grade {
                Grade::Text => GradeText::Text,
                Grade::Words => GradeText::Words,
            },
            delivery: match terms.delivery {
                Delivery::Push => DeliveryText::Push,
                Delivery::Pull => DeliveryText::Pull,
                Delivery::Window(from, to) => DeliveryText::Window(from, to),
            },
            delay_max_ms: millis(terms.delay_max),
            pages_day: terms.quota.pages_day,
            bytes_day: terms.quota.bytes_day,
            forward: terms.forward,
            on_end: match terms.on_end {
                OnEnd::Keep => OnEndText::Keep,
                OnEnd::Purge => OnEndText::Purge,
            },
            notice_ms: millis(terms.notice),
            lease_ms: millis(terms.lease),
        }
    }

    pub(crate) fn read(self) -> Result<Terms, MessageError> {
        let delivery = match self.delivery {
            DeliveryText::Push => Delivery::Push,
            DeliveryText::Pull => Delivery::Pull,
            DeliveryText::Window(from, to) if from < 1440 && to < 1440 => Delivery::Window(from, to),
            DeliveryText::Window(..) => return Err(wrong("a window is told in minutes below 1440")),
        };
        let provider: EngineId = self.provider.parse()?;
        let consumer: EngineId = self.consumer.parse()?;
        Ok(Terms {
            id: self.id.parse()?,
            revision: self.revision,
            provider,
            consumer,
            kind: match self.kind {
                KindText::Index => Kind::Index,
                KindText::Search => Kind::Search,
            },
            view: View::parse(&self.view)
                .map_err(|error| wrong(format!("the view of the terms: {error}")))?,
            grade: match self.grade {
                GradeText::Text => Grade::Text,
                GradeText::Words => Grade::Words,
            },
            delivery,
            delay_max: span(self.delay_max_ms),
            quota: Quota { pages_day: self.pages_day, bytes_day: self.bytes_day },
            forward: self.forward,
            on_end: match self.on_end {
                OnEndText::Keep => OnEnd::Keep,
                OnEndText::Purge => OnEnd::Purge,
            },
            notice: span(self.notice_ms),
            lease: span(self.lease_ms),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn terms() -> Terms {
        Terms {
            id: AgreementId([7; 16]),
            revision: 1,
            provider: EngineId([1; 32]),
            consumer: EngineId([2; 32]),
            kind: Kind::Index,
            view: View::parse(".pt").unwrap(),
            grade: Grade::Text,
            delivery: Delivery::Window(120, 300),
            delay_max: Duration::from_secs(600),
            quota: Quota { pages_day: 10, bytes_day: 1000 },
            forward: 2,
            on_end: OnEnd::Purge,
            notice: Duration::from_secs(86_400),
            lease: Duration::from_secs(1800),
        }
    }

    #[test]
    fn every_message_is_read_as_it_was_written() {
        let at = Timestamp::from_millis(77);
        let part = PathPart { view: View::parse(".pt").unwrap(), path: vec![EngineId([1; 32])] };
        let span = Duration::from_secs(3);
        for message in [
            Message::Propose(Box::new(terms())),
            Message::Accept([5; 32]),
            Message::Refuse([6; 32]),
            Message::Ready(at, 2),
            Message::Path(at, 3, vec![part.clone()], span),
            Message::NotNow(at),
            Message::Chain(4, vec![part.clone()]),
            Message::Chained(4),
            Message::Busy(4),
            Message::ChainRefused(4),
            Message::Active(at),
            Message::Renew(at, 1),
            Message::Renewed(at, 5, None, span),
            Message::Renewed(at, 5, Some(vec![part]), span),
            Message::Lapsed(at),
            Message::Amend(Box::new(terms())),
            Message::End,
            Message::Ended,
        ] {
            let bytes = said(AgreementId([9; 16]), &message);
            assert_eq!(heard(&bytes), Ok((AgreementId([9; 16]), message)));
        }
        let text = String::from_utf8(said(AgreementId([9; 16]), &Message::NotNow(at))).unwrap();
        assert_eq!(text, r#"{"agreement":"09090909090909090909090909090909","say":"not-now","round":77}"#);
    }

    #[test]
    fn what_is_no_message_is_refused_with_a_reason() {
        let refused = |text: &str| heard(text.as_bytes()).unwrap_err().to_string();
        assert!(refused("{}").contains("no message about an agreement"));
        assert!(refused(r#"{"agreement":"09","say":"end"}"#).contains("32 hexadecimal digits"));
        let path = |view: &str, path: &str| {
            let id = "09".repeat(16);
            refused(&format!(
                r#"{{"agreement":"{id}","say":"chain","number":1,"parts":[{{"view":"{view}","path":[{path}]}}]}}"#
            ))
        };
        assert!(path(".pt", "").contains("a path of 0"));
        assert!(path("pt:", "\"x\"").contains("view of a path"));
        assert!(path(".pt", "\"x\"").contains("farol:"));
        let mut window =
            String::from_utf8(said(AgreementId([9; 16]), &Message::Propose(Box::new(terms())))).unwrap();
        window = window.replace("[120,300]", "[120,3000]");
        assert!(refused(&window).contains("1440"));
    }
}
