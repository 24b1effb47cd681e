//! What joins the log lines of one question, from a visitor's browser to the last node that was asked.
//!
//! It is written as W3C Trace Context says (`traceparent`, version 00), so that what stands before or behind Farol can
//! join in. A thread knows the question it works on ([`Trace::enter`]): the seams between front, cache and index carry
//! questions, not where they came from.

use crate::fingerprint::random_key;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

thread_local! {
    static CURRENT: Cell<Option<Trace>> = const { Cell::new(None) };
}

/// The name of one question, and of the step of it that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    id: u128,
    step: u64,
    /// The step that this one is part of, where that is known.
    parent: Option<u64>,
    flags: u8,
}

impl Trace {
    /// A new question.
    pub fn new() -> Trace {
        let id = u128::from(random_key()) << 64 | u128::from(random_key() | 1);
        Trace { id, step: random_key() | 1, parent: None, flags: 0 }
    }

    /// Reads a `traceparent`; `None` where it is none, or one of those that must not be taken up. Later versions are
    /// read as far as this one goes.
    ///
    /// ```
    /// use farol_base::trace::Trace;
    /// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// assert_eq!(Trace::parse(text).unwrap().to_string(), text);
    /// ```
    pub fn parse(text: &str) -> Option<Trace> {
        let mut parts = text.split('-');
        let mut next = |digits: usize| {
            let part = parts.next()?;
            let is_hex = part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            (part.len() == digits && is_hex).then_some(part)
        };
        let (version, id, step, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        let more = parts.next().is_some();
        if version == "ff" || (version == "00" && more) {
            return None;
        }
        let id = u128::from_str_radix(id, 16).ok().filter(|id| *id != 0)?;
        let step = u64::from_str_radix(step, 16).ok().filter(|step| *step != 0)?;
        Some(Trace { id, step, parent: None, flags: u8::from_str_radix(flags, 16).ok()? })
    }

    /// The same question, one step further.
    pub fn child(self) -> Trace {
        Trace { step: random_key() | 1, parent: Some(self.step), ..self }
    }

    /// What all steps of a question share, as it stands in log lines.
    pub fn id(self) -> String {
        format!("{:032x}", self.id)
    }

    /// This step, as collectors of traces write it.
    pub fn step(self) -> String {
        format!("{:016x}", self.step)
    }

    /// The step that this one is part of; nothing at the first.
    pub fn parent(self) -> String {
        self.parent.map(|step| format!("{step:016x}")).unwrap_or_default()
    }

    /// The question that this thread works on.
    pub fn current() -> Option<Trace> {
        CURRENT.get()
    }

    /// This thread works on the question until what is returned is dropped.
    #[must_use = "the thread works on it only until this is dropped"]
    pub fn enter(self) -> EnteredTrace {
        EnteredTrace { before: CURRENT.replace(Some(self)), _stays: PhantomData }
    }
}

impl Default for Trace {
    fn default() -> Trace {
        Trace::new()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "00-{:032x}-{:016x}-{:02x}", self.id, self.step, self.flags)
    }
}

/// Ends the work of a thread on a question.
#[derive(Debug)]
pub struct EnteredTrace {
    before: Option<Trace>,
    /// It must be dropped where it was made.
    _stays: PhantomData<*const ()>,
}

impl Drop for EnteredTrace {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_own_examples() {
        let check = |text: &str, read: bool| assert_eq!(Trace::parse(text).is_some(), read, "{text}");
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true);
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", true);
        check("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-follows", true);
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-follows", false);
        check("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false);
        check("00-00000000000000000000000000000000-00f067aa0ba902b7-01", false);
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false);
        check("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false);
        check("00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false);
        check("", false);
        check("00-é", false);
    }

    #[test]
    fn steps_of_a_question_have_its_name() {
        let question = Trace::new();
        let step = question.child();
        assert_eq!(step.id(), question.id());
        assert_ne!(step, question);
        assert_ne!(Trace::new().id(), question.id());
        assert_eq!((step.parent(), question.parent()), (question.step(), String::new()));
        let read = Trace::parse(&step.to_string()).unwrap();
        assert_eq!((read.id(), read.step()), (step.id(), step.step()));
    }

    #[test]
    fn a_thread_works_on_one_question_at_a_time() {
        let (one, two) = (Trace::new(), Trace::new());
        assert_eq!(Trace::current(), None);
        let outer = one.enter();
        {
            let _inner = two.enter();
            assert_eq!(Trace::current(), Some(two));
        }
        assert_eq!(Trace::current(), Some(one));
        drop(outer);
        assert_eq!(Trace::current(), None);
    }
}
