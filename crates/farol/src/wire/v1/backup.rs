//! Bodies of the verbs by which a node is backed up.

use serde::{Deserialize, Serialize};

/// Files of an archive by number, each with the bytes that will not change any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveFiles {
    pub files: Vec<(u32, u64)>,
}

/// Asks for a piece of a file of the archive; the answer is a [`WirePiece`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRequest {
    pub file: u32,
    pub offset: u64,
    pub bytes: u32,
}

/// The bytes that were asked for: fewer at the end of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WirePiece {
    #[serde(with = "super::node::bytes_of")]
    pub bytes: Vec<u8>,
}

/// Asks for entries of a table; the answer is a [`ToldEntries`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldRequest {
    /// Name of the table: `orders` or `clicks`.
    pub table: String,
    /// Only keys behind this one.
    pub after: String,
}

/// Entries in the order of their keys; none where there are no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldEntries {
    pub entries: Vec<(String, Vec<u8>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_is_frozen() {
        let files = ArchiveFiles { files: vec![(0, 300), (1, 2)] };
        assert_eq!(postcard::to_stdvec(&files).unwrap(), b"\x02\x00\xac\x02\x01\x02");
        let piece = PieceRequest { file: 1, offset: 300, bytes: 9 };
        assert_eq!(postcard::to_stdvec(&piece).unwrap(), b"\x01\xac\x02\x09");
        let piece = WirePiece { bytes: vec![7, 0] };
        assert_eq!(postcard::to_stdvec(&piece).unwrap(), b"\x02\x07\x00");
        let told = ToldRequest { table: "o".into(), after: "k".into() };
        assert_eq!(postcard::to_stdvec(&told).unwrap(), b"\x01o\x01k");
        let told = ToldEntries { entries: vec![("k".into(), vec![1, 2])] };
        assert_eq!(postcard::to_stdvec(&told).unwrap(), b"\x01\x01k\x02\x01\x02");
    }
}
