//! Any text as a config file.
//!
//! Contract: reading fails with an error of one paragraph, or gives settings that are the same after they
//! were written and read again.

#[allow(dead_code)]
#[path = "../../crates/farol/src/config/mod.rs"]
mod settings;

use settings::Config;

pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::parse(text) {
        Ok(config) => {
            let written = toml::to_string(&config).expect("settings can be written");
            let again = Config::parse(&written).expect("what was written can be read");
            assert_eq!(format!("{again:?}"), format!("{config:?}"));
            assert!(!config.user_agent().is_empty());
        }
        Err(error) => assert!(!format!("{error:#}").is_empty()),
    }
}
