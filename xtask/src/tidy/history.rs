//! Subjects of commits that are not upstream yet fit on one line.

use std::path::Path;
use std::process::Command;

/// What `git log --oneline` and mail show of a subject.
const SUBJECT_MAX: usize = 72;

/// Looks at `origin/main..HEAD`; where there is no such branch, or no git, at nothing.
pub fn check(root: &Path, problems: &mut Vec<String>) {
    let log = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s", "origin/main..HEAD"])
        .current_dir(root)
        .output();
    if let Ok(log) = log
        && log.status.success()
    {
        check_subjects(&String::from_utf8_lossy(&log.stdout), problems);
    }
}

fn check_subjects(log: &str, problems: &mut Vec<String>) {
    for (hash, subject) in log.lines().filter_map(|line| line.split_once(' ')) {
        let len = subject.chars().count();
        if len > SUBJECT_MAX {
            problems.push(format!(
                "commit {hash} has a subject of {len} characters, at most {SUBJECT_MAX} fit: the why goes below it"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_subject_is_found() {
        let log = format!("abc store: short\ndef {}\nfed {}\n", "x".repeat(72), "é".repeat(73));
        let mut problems = Vec::new();
        check_subjects(&log, &mut problems);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("fed") && problems[0].contains("73"), "{problems:?}");
    }
}
