//! The roles of an engine. Each runs by itself.
//!
//! INVARIANT: no role knows another. What one tells the other goes through the fabric ([`crate::fabric`]); what one may
//! see of the other is a handle ([`crate::handles`]); what they all do with archived pages is in [`crate::archive`].

pub mod cacheleader;
pub mod cachenode;
pub mod control;
pub mod courier;
pub mod crawler;
pub mod desk;
pub mod estate;
pub mod federation;
pub mod front;
pub mod indexer;
pub mod member;
pub mod planner;
pub mod ranker;
pub mod replica;
pub mod reporter;
pub mod sender;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    const ROLES: [&str; 16] = [
        "cacheleader",
        "cachenode",
        "control",
        "courier",
        "crawler",
        "desk",
        "estate",
        "federation",
        "front",
        "indexer",
        "member",
        "planner",
        "ranker",
        "replica",
        "reporter",
        "sender",
    ];

    fn sources(path: &Path, found: &mut Vec<PathBuf>) {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap();
            entries.for_each(|entry| sources(&entry.unwrap().path(), found));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path.to_path_buf());
        }
    }

    /// Files below `path`, each with its text.
    fn texts(path: &Path) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        sources(path, &mut found);
        found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
    }

    fn source() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
    }

    #[test]
    fn no_role_knows_another() {
        let roles = source().join("roles");
        for role in ROLES {
            let (file, folder) = (roles.join(format!("{role}.rs")), roles.join(role));
            let files = texts(if folder.exists() { &folder } else { &file });
            assert!(!files.is_empty(), "{role} has no source");
            for other in ROLES.into_iter().filter(|other| *other != role) {
                // `super` is this module in a role's own file, and the role itself further down.
                let ways = [format!("roles::{other}"), format!("super::{other}")];
                for (path, text) in &files {
                    let found = ways.iter().find(|way| text.contains(way.as_str()));
                    assert_eq!(found, None, "{} knows the role {other}", path.display());
                }
                let grouped = files.iter().find(|(_, text)| text.contains("roles::{"));
                assert!(grouped.is_none(), "{grouped:?} takes from several roles");
            }
        }
        let listed = std::fs::read_dir(&roles).unwrap().count();
        assert_eq!(listed, ROLES.len() + 1, "a role is missing from this test");
    }

    #[test]
    fn what_roles_share_knows_no_role() {
        for shared in [
            "archive",
            "broker",
            "exchange",
            "fabric",
            "graph",
            "handles",
            "ring",
            "clicks.rs",
            "operator.rs",
            "seed.rs",
            "disk.rs",
        ] {
            for (path, text) in texts(&source().join(shared)) {
                assert!(!text.contains("roles::"), "{} knows a role", path.display());
                let shows = shared != "handles" && text.contains("farol_front::");
                assert!(!shows, "{} knows the pages", path.display());
            }
        }
        for (path, text) in texts(&source().join("roles").join("crawler")) {
            assert!(!text.contains("farol_front::"), "{} knows the pages", path.display());
        }
    }
}
