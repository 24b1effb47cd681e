//! A replica's mark as text, as it is committed with what it stands for.

use anyhow::{Context, Result};
use farol_cluster::record::ReplicaMark;

/// Reads what an index was committed with; an index without a mark is at the beginning.
pub fn read(mark: &str) -> Result<ReplicaMark> {
    if mark.is_empty() {
        return Ok(ReplicaMark::default());
    }
    serde_json::from_str(mark).with_context(|| format!("its mark reads {mark:?}"))
}

pub fn write(mark: &ReplicaMark) -> String {
    serde_json::to_string(mark).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::PagePosition;
    use farol_cluster::stretch::Stretch;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mut mark = ReplicaMark { stream: "00ff".to_string(), seq: 9, ..ReplicaMark::default() };
        let (prev, upto) = (PagePosition::default(), PagePosition { file: 2, offset: 7 });
        mark.take(&Stretch { from: 4, prev, upto, cut: 70_000, piece: 0 });
        assert_eq!(read(&write(&mark)).unwrap(), mark);
        assert!(read("12/3456").is_err());
        assert_eq!(read("").unwrap(), ReplicaMark::default());
    }
}
