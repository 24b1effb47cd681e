//! Which version of the wire two programs speak.

/// Least and greatest version that a program speaks.
pub type WireRange = (u16, u16);

/// The greatest version that both speak.
pub fn common(ours: WireRange, theirs: WireRange) -> Option<u16> {
    let (least, greatest) = (ours.0.max(theirs.0), ours.1.min(theirs.1));
    (least <= greatest).then_some(greatest)
}

/// Whether a newcomer can speak with a node that is there, and which of them to upgrade where it cannot.
///
/// # Errors
/// A sentence for the newcomer's operator.
pub fn check(ours: WireRange, name: &str, program: &str, theirs: WireRange) -> Result<u16, String> {
    if let Some(version) = common(ours, theirs) {
        return Ok(version);
    }
    let who = match ours.1 < theirs.0 {
        true => "this node".to_string(),
        false => format!("node {name} (farol {program})"),
    };
    Err(format!(
        "this node speaks versions {} to {} of the wire, node {name} {} to {}: upgrade {who} first",
        ours.0, ours.1, theirs.0, theirs.1
    ))
}

/// Whether a newcomer reads and writes what lies in the cluster's logs. Those have many readers, so one version is
/// written for all: that of the cluster's record.
///
/// # Errors
/// A sentence for the newcomer's operator.
pub fn check_logs(ours: WireRange, logs: u16) -> Result<(), String> {
    if (ours.0..=ours.1).contains(&logs) {
        return Ok(());
    }
    let what = match ours.1 < logs {
        true => "upgrade this node first",
        false => "start a program of the cluster's own version first, and upgrade one version at a time",
    };
    Err(format!(
        "the logs of this cluster are written in version {logs} of the wire, this node speaks {} to {}: {what}",
        ours.0, ours.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_common_version_is_spoken() {
        let check_common = |ours, theirs, want| {
            assert_eq!(common(ours, theirs), want);
            assert_eq!(common(theirs, ours), want);
        };
        check_common((1, 1), (1, 1), Some(1));
        check_common((1, 3), (2, 5), Some(3));
        check_common((1, 2), (3, 4), None);
        check_common((0, u16::MAX), (7, 7), Some(7));
    }

    #[test]
    fn the_sentence_says_whom_to_upgrade() {
        assert!(check((1, 2), "b", "0.3.0", (3, 4)).unwrap_err().ends_with("upgrade this node first"));
        assert!(check((3, 4), "b", "0.3.0", (1, 2)).unwrap_err().contains("upgrade node b (farol 0.3.0)"));
        assert_eq!(check((1, 2), "b", "0.3.0", (2, 3)), Ok(2));
        assert_eq!((check_logs((1, 2), 1), check_logs((1, 2), 2)), (Ok(()), Ok(())));
        assert!(check_logs((1, 2), 3).unwrap_err().ends_with("upgrade this node first"));
        assert!(check_logs((2, 3), 1).unwrap_err().contains("one version at a time"));
    }
}
