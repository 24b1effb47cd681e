//! Gives a node's archive and what it was told to whoever makes a backup, while it goes on.
//!
//! The archive only grows, so that what lies before its end can be copied at leisure. Whoever copies asks for what was
//! told first: orders speak of positions in the archive, which must then be in the copy.

use crate::fabric::{Table, Tables};
use crate::wire::v1::backup::{ArchiveFiles, PieceRequest, ToldEntries, ToldRequest, WirePiece};
use crate::wire::v1::verb;
use bytes::Bytes;
use farol_rpc::{RpcError, decode, encode};
use farol_store::pages::{ArchiveReader, file_name, lengths};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

pub const VERBS: [&str; 3] = [verb::ARCHIVE, verb::PIECE, verb::TOLD];

/// Tables that nothing but the node has: all others are made from the archive again.
pub const TOLD: [Table; 2] = [Table::Orders, Table::Clicks];

/// Bytes of one answer: calls have 16 MiB at most, and questions share the connection.
const BYTES_MAX: usize = 1 << 20;

/// What can be backed up.
pub struct BackupDesk {
    /// The archive's folder.
    pub pages: PathBuf,
    pub archive: ArchiveReader,
    pub tables: Arc<dyn Tables>,
}

/// Answers one of [`VERBS`].
pub fn answer(desk: Option<&BackupDesk>, verb: &str, body: &[u8]) -> Result<Bytes, RpcError> {
    let not_yet = || RpcError::Refused("this node has not opened its folder yet; try again".to_string());
    let desk = desk.ok_or_else(not_yet)?;
    let failed = |error: anyhow::Error| RpcError::Failed(format!("{error:#}"));
    Ok(match verb {
        verb::ARCHIVE => {
            decode::<()>(body)?;
            encode(&desk.files().map_err(failed)?)?
        }
        verb::PIECE => encode(&desk.piece(&decode(body)?).map_err(failed)?)?,
        verb::TOLD => encode(&desk.told(&decode(body)?)?)?,
        _ => return Err(RpcError::UnknownVerb(verb.to_string())),
    })
}

impl BackupDesk {
    /// The archive's files as far as they are whole.
    fn files(&self) -> anyhow::Result<ArchiveFiles> {
        let end = self.archive.end();
        let mut files = lengths(&*crate::disk::at(&self.pages)?)?;
        files.retain(|(file, _)| *file <= end.file);
        for (_, bytes) in files.iter_mut().filter(|(file, _)| *file == end.file) {
            *bytes = end.offset.min(*bytes);
        }
        files.retain(|(_, bytes)| *bytes > 0);
        Ok(ArchiveFiles { files })
    }

    fn piece(&self, request: &PieceRequest) -> anyhow::Result<WirePiece> {
        let mut file = std::fs::File::open(self.pages.join(file_name(request.file)))?;
        file.seek(SeekFrom::Start(request.offset))?;
        let mut bytes = Vec::new();
        file.take(u64::from(request.bytes).min(BYTES_MAX as u64)).read_to_end(&mut bytes)?;
        Ok(WirePiece { bytes })
    }

    fn told(&self, request: &ToldRequest) -> Result<ToldEntries, RpcError> {
        let table = TOLD.into_iter().find(|table| table.name() == request.table);
        let table =
            table.ok_or_else(|| RpcError::Refused(format!("{:?} is no table to copy", request.table)))?;
        let all = self.tables.scan(table).map_err(|error| RpcError::Failed(format!("{error:#}")))?;
        let mut room = BYTES_MAX;
        let fits = |(key, value): &(String, Vec<u8>)| {
            let is_in = room > 0;
            room = room.saturating_sub(key.len() + value.len());
            is_in
        };
        Ok(ToldEntries {
            entries: all.into_iter().filter(|(key, _)| *key > request.after).take_while(fits).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Fabric;
    use crate::folder::Folder;

    fn ask<Q: serde::Serialize, A: serde::de::DeserializeOwned>(
        desk: &BackupDesk,
        verb: &str,
        question: &Q,
    ) -> Result<A, RpcError> {
        Ok(decode(&answer(Some(desk), verb, &encode(question)?)?)?)
    }

    #[test]
    fn what_is_told_comes_in_pieces_and_nothing_else_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        let tables = Fabric::local(&folder.tables()).unwrap().tables;
        let large = vec![1; BYTES_MAX * 2 / 3];
        for key in ["a", "b", "c"] {
            tables.put(&[(Table::Orders, key, &large), (Table::Hosts, key, b"h")]).unwrap();
        }
        let archive = ArchiveReader::open(crate::disk::at(&folder.pages()).unwrap()).unwrap();
        let desk = BackupDesk { pages: folder.pages(), archive, tables };
        let keys = |after: &str| -> Vec<String> {
            let request = ToldRequest { table: "orders".into(), after: after.into() };
            let told: ToldEntries = ask(&desk, verb::TOLD, &request).unwrap();
            told.entries.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(
            (keys(""), keys("b"), keys("c")),
            (vec!["a".into(), "b".into()], vec!["c".into()], vec![])
        );
        let hosts = ToldRequest { table: "hosts".into(), after: String::new() };
        assert!(ask::<_, ToldEntries>(&desk, verb::TOLD, &hosts).is_err());
        // Bytes behind the archive's end are not given: they may be taken back.
        std::fs::write(folder.pages().join(file_name(0)), b"torn").unwrap();
        assert_eq!(ask::<_, ArchiveFiles>(&desk, verb::ARCHIVE, &()).unwrap().files, []);
        assert!(matches!(answer(None, verb::ARCHIVE, b""), Err(RpcError::Refused(_))));
    }
}
