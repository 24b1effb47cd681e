//! Who has logged in: unguessable names in RAM, forgotten when the process ends.

use farol_base::sync::Mutex;
use std::time::Duration;

/// Sessions at one time; the oldest goes first. 64 × about 200 bytes = 13 kB.
const SESSIONS_MAX: usize = 64;

/// How long a session lasts.
pub(crate) const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);

pub(crate) struct Sessions {
    open: Mutex<Vec<Session>>,
    /// Token of forms for those who need no session.
    form_token: Option<String>,
}

struct Session {
    id: String,
    form_token: String,
    ends: Duration,
}

impl Sessions {
    pub fn new() -> Sessions {
        Sessions { open: Mutex::default(), form_token: unguessable() }
    }

    /// Opens a session and gives its id; `None` where the machine has no random numbers.
    pub fn open(&self, now: Duration) -> Option<String> {
        let (id, form_token) = (unguessable()?, unguessable()?);
        let mut open = self.open.lock();
        open.retain(|session| session.ends > now);
        if open.len() >= SESSIONS_MAX {
            open.remove(0);
        }
        open.push(Session { id: id.clone(), form_token, ends: now + SESSION_TIME });
        Some(id)
    }

    /// The form token of an open session.
    pub fn find(&self, id: &str, now: Duration) -> Option<String> {
        let open = self.open.lock();
        let session = open.iter().find(|session| session.ends > now && is_same(&session.id, id))?;
        Some(session.form_token.clone())
    }

    pub fn close(&self, id: &str) {
        let mut open = self.open.lock();
        open.retain(|session| !is_same(&session.id, id));
    }

    /// The form token of those without a session: empty, and so never valid, where there are no random numbers.
    pub fn form_token(&self) -> String {
        self.form_token.clone().unwrap_or_default()
    }
}

/// 256 bits from the system, in hexadecimal.
fn unguessable() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares secrets in a time that depends on their lengths only.
pub(crate) fn is_same(ours: &str, theirs: &str) -> bool {
    let (ours, theirs) = (ours.as_bytes(), theirs.as_bytes());
    let mut difference = u8::from(ours.len() != theirs.len()) | u8::from(ours.is_empty());
    for (i, byte) in theirs.iter().enumerate() {
        difference |= byte ^ ours.get(i % ours.len().max(1)).copied().unwrap_or(0);
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sessions_open_end_and_are_bounded() {
        let sessions = Sessions::new();
        let first = sessions.open(Duration::ZERO).unwrap();
        assert_eq!(first.len(), 64);
        assert!(sessions.find(&first, Duration::ZERO).is_some());
        assert!(sessions.find(&first, SESSION_TIME).is_none());
        assert!(sessions.find("", Duration::ZERO).is_none());
        let second = sessions.open(Duration::ZERO).unwrap();
        assert_ne!(sessions.find(&first, Duration::ZERO), sessions.find(&second, Duration::ZERO));
        sessions.close(&second);
        assert!(sessions.find(&second, Duration::ZERO).is_none());
        (0..SESSIONS_MAX).for_each(|_| drop(sessions.open(Duration::ZERO)));
        assert!(sessions.find(&first, Duration::ZERO).is_none());
        assert_eq!(sessions.open.lock().len(), SESSIONS_MAX);
    }

    #[test]
    fn an_empty_secret_is_never_right() {
        assert!(!is_same("", ""));
        assert!(!is_same("a", "") && !is_same("", "a") && !is_same("ab", "abab"));
    }

    proptest! {
        #[test]
        fn secrets_compare_as_texts_do(a in "[ab]{1,4}", b in "[ab]{0,4}") {
            prop_assert_eq!(is_same(&a, &b), a == b);
        }
    }
}
