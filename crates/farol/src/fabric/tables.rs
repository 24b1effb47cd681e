//! Named tables of small values under text keys, for what must survive a restart or be seen by other roles.
//!
//! PROMISE, of every [`Tables`]:
//! - *Durable.* What was written survives a crash once [`Tables::put`] has returned.
//! - *Order.* The entries of one call are written in the order given. After a crash in the middle of it a first part
//!   of them may be there; writers therefore put last what speaks for the rest, such as a watermark. (The local tables
//!   write all or none.)
//! - *Read your writes.* A reader in the same process sees what was written before.
//!
//! Each key has one writer, so that there are no revisions to compare; readers look when they start, so that there is
//! nothing to watch.

use anyhow::Result;

/// The name of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// What is remembered of each host.
    Hosts,
    /// robots.txt of each host, as it was sent.
    Robots,
    /// What the operator has said: seeds, pause, removed hosts and pages.
    Orders,
    /// What came of each seed.
    Seeds,
    /// How often people opened each page from the results.
    Clicks,
    /// How far each follower of the archive has come.
    Marks,
    /// Engines of other owners.
    Partners,
    /// What was agreed on with them, and how far packets have come.
    Agreements,
    /// Letters that wait for them.
    Letters,
}

impl Table {
    pub const ALL: [Table; 9] = [
        Table::Hosts,
        Table::Robots,
        Table::Orders,
        Table::Seeds,
        Table::Clicks,
        Table::Marks,
        Table::Partners,
        Table::Agreements,
        Table::Letters,
    ];

    /// Its name on disk.
    pub fn name(self) -> &'static str {
        match self {
            Table::Hosts => "hosts",
            Table::Robots => "robots",
            Table::Orders => "orders",
            Table::Seeds => "seeds",
            Table::Clicks => "clicks",
            Table::Marks => "marks",
            Table::Partners => "partners",
            Table::Agreements => "agreements",
            Table::Letters => "letters",
        }
    }
}

/// Key-value tables. See the [module](self) for what they promise.
pub trait Tables: Send + Sync {
    /// Writes entries; an empty value removes its key.
    fn put(&self, entries: &[(Table, &str, &[u8])]) -> Result<()>;

    /// Reads one entry.
    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>>;

    /// Reads a whole table in the order of its keys.
    fn scan(&self, table: Table) -> Result<Vec<(String, Vec<u8>)>>;

    /// Reads up to `max` entries that follow a key, in the order of keys.
    fn scan_after(&self, table: Table, after: &str, max: usize) -> Result<Vec<(String, Vec<u8>)>>;
}

/// What every implementation must pass; `open` gives the same tables anew, at first empty.
#[cfg(test)]
pub fn check_contract(open: impl Fn() -> std::sync::Arc<dyn Tables>) {
    {
        let tables = open();
        assert_eq!(tables.get(Table::Orders, "a").unwrap(), None);
        assert!(tables.scan(Table::Orders).unwrap().is_empty());
        let entries: [(Table, &str, &[u8]); 3] =
            [(Table::Orders, "b", b"2"), (Table::Orders, "a", b"1"), (Table::Hosts, "a", b"3")];
        tables.put(&entries).unwrap();
        let both = [("a".to_string(), b"1".to_vec()), ("b".to_string(), b"2".to_vec())];
        assert_eq!(tables.scan(Table::Orders).unwrap(), both);
        assert_eq!(tables.scan_after(Table::Orders, "", 1).unwrap(), both[..1]);
        assert_eq!(tables.scan_after(Table::Orders, "a", 9).unwrap(), both[1..]);
        assert!(tables.scan_after(Table::Clicks, "", 9).unwrap().is_empty());
        tables.put(&[(Table::Orders, "a", b""), (Table::Orders, "never there", b"")]).unwrap();
    }
    let tables = open();
    assert_eq!(tables.scan(Table::Orders).unwrap(), [("b".to_string(), b"2".to_vec())]);
    assert_eq!(tables.get(Table::Hosts, "a").unwrap().as_deref(), Some(&b"3"[..]));
    assert!(tables.scan(Table::Clicks).unwrap().is_empty());
}
