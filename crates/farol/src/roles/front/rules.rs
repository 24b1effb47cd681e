//! What the operator decides about answers, from two files: synonyms and pinned results.
//!
//! Read at start, where a wrong line is an error, and again when a file changes, where a wrong line is told in the log
//! and the rules from before stay in force.

use crate::config;
use crate::handles::index::RulesInForce;
use anyhow::{Context, Result};
use farol_base::sync::Mutex;
use farol_index::{Pins, SearchRules, Synonyms};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The rules in force.
pub struct RuleFiles {
    synonyms: PathBuf,
    pins: PathBuf,
    state: Mutex<RuleState>,
}

struct RuleState {
    in_force: RulesInForce,
    looked: Instant,
    changed: [Option<SystemTime>; 2],
}

impl RuleFiles {
    /// Reads the files that the settings name.
    pub fn open(settings: &config::Search) -> Result<RuleFiles> {
        let files = RuleFiles {
            synonyms: PathBuf::from(&settings.synonyms),
            pins: PathBuf::from(&settings.pins),
            state: Mutex::new(RuleState {
                in_force: RulesInForce::default(),
                looked: Instant::now(),
                changed: [None; 2],
            }),
        };
        let changed = files.changed();
        let rules = files.read()?;
        let mut state = files.state.lock();
        (state.in_force, state.changed) = (rules, changed);
        drop(state);
        Ok(files)
    }

    /// The rules in force.
    pub fn now(&self) -> RulesInForce {
        let mut state = self.state.lock();
        if state.looked.elapsed() >= LOOK_EVERY {
            state.looked = Instant::now();
            let changed = self.changed();
            if changed != state.changed {
                state.changed = changed;
                match self.read() {
                    Ok(rules) => {
                        state.in_force = RulesInForce { version: state.in_force.version + 1, ..rules };
                    }
                    Err(error) => tracing::warn!("{error:#}; the rules from before stay in force"),
                }
            }
        }
        state.in_force.clone()
    }

    fn changed(&self) -> [Option<SystemTime>; 2] {
        [&self.synonyms, &self.pins].map(|path| path.metadata().ok()?.modified().ok())
    }

    fn read(&self) -> Result<RulesInForce> {
        let text = |path: &PathBuf, key: &str| {
            if path.as_os_str().is_empty() {
                return Ok(String::new());
            }
            std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}, which search.{key} names", path.display()))
        };
        let texts = (text(&self.synonyms, "synonyms")?, text(&self.pins, "pins")?);
        let rules = SearchRules {
            synonyms: Synonyms::parse(&texts.0)
                .with_context(|| format!("in the file of synonyms {}", self.synonyms.display()))?,
            pins: Pins::parse(&texts.1)
                .with_context(|| format!("in the file of pinned results {}", self.pins.display()))?,
        };
        Ok(RulesInForce { rules: Arc::new(rules), texts: Arc::new(texts), version: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(synonyms: &std::path::Path) -> config::Search {
        config::Search { synonyms: synonyms.display().to_string(), ..config::Search::default() }
    }

    #[test]
    fn a_wrong_file_is_one_sentence_with_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("synonyms.txt");
        let missing = format!("{:#}", RuleFiles::open(&settings(&path)).err().unwrap());
        assert!(missing.contains("which search.synonyms names"), "{missing}");
        std::fs::write(&path, "a, b\nalone\n").unwrap();
        let wrong = format!("{:#}", RuleFiles::open(&settings(&path)).err().unwrap());
        assert!(wrong.contains("synonyms.txt: line 2: \"alone\" has no synonym"), "{wrong}");
        assert!(RuleFiles::open(&config::Search::default()).is_ok());
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_wrong_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("synonyms.txt");
        std::fs::write(&path, "a, b\n").unwrap();
        let files = RuleFiles::open(&settings(&path)).unwrap();
        let look_again = |text: &str, age_secs: u64| {
            std::fs::write(&path, text).unwrap();
            let file = std::fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age_secs)).unwrap();
            let mut state = files.state.lock();
            state.looked = state.looked.checked_sub(LOOK_EVERY).unwrap();
        };
        let now = || (files.now().rules.synonyms.clone(), files.now().version);
        assert_eq!(now().1, 0);
        look_again("a, c\n", 100);
        assert_eq!(now(), (Synonyms::parse("a, c").unwrap(), 1));
        look_again("wrong\n", 50);
        assert_eq!(now(), (Synonyms::parse("a, c").unwrap(), 1));
    }
}
