//! Locks that are never poisoned.
//!
//! A thread that panics while it holds a lock leaves data that is whole by construction here: every critical section
//! of ours replaces values or appends, and the panic itself is reported elsewhere. So whoever comes next goes on.

use std::sync::{Condvar, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// As [`std::sync::Mutex`], without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As [`std::sync::RwLock`], without poisoning.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until `condvar` is notified, and has the lock again.
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_panic_under_a_lock_stops_nobody_else() {
        let (mutex, shared) = (Arc::new(Mutex::new(1)), Arc::new(RwLock::new(1)));
        let (held, written) = (mutex.clone(), shared.clone());
        let ended = std::thread::spawn(move || {
            let (mut held, mut written) = (held.lock(), written.write());
            (*held, *written) = (2, 2);
            panic!("on purpose");
        });
        assert!(ended.join().is_err());
        assert_eq!((*mutex.lock(), *shared.read()), (2, 2));
    }
}
