//! What the sender's lanes carry: documents to the log of a shard, or links to the ranker's.
//!
//! When a batch is cut, and what it says of its place in the archive, is decided by [`farol_cluster::lane`].

use crate::wire::batch::{DocumentBatch, LinkBatch, LinkChange, Stretch, WireChange};
use farol_cluster::lane::Cut;
use farol_fabric::Topic;

/// One log and how far it has come.
pub type Lane = farol_cluster::lane::Lane<Item>;

/// What a lane carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Document(WireChange),
    Link(LinkChange),
}

impl Item {
    /// About how large it is, before it is packed.
    pub fn bytes(&self) -> usize {
        64 + match self {
            Item::Document(WireChange::Put(page)) => {
                page.body.len()
                    + page.rest.len()
                    + page.headings.len()
                    + page.title.len()
                    + page.description.len()
            }
            Item::Document(_) => 64,
            Item::Link(LinkChange::Put { links, .. }) => {
                links.iter().map(|link| 20 + link.anchor.len()).sum()
            }
            Item::Link(LinkChange::Remove { .. }) => 8,
        }
    }
}

/// A batch that is ready for the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch {
    Documents(DocumentBatch),
    Links(LinkBatch),
}

/// The batch of a cut, as the readers of this log expect it.
pub fn batch(topic: Topic, cut: Cut<Item>) -> Batch {
    let stretch = Stretch::from(&cut.stretch);
    let items = cut.items.into_iter();
    if topic == Topic::Links {
        let changes = items.filter_map(|item| match item {
            Item::Link(change) => Some(change),
            Item::Document(_) => None,
        });
        Batch::Links(LinkBatch { stretch, changes: changes.collect() })
    } else {
        let changes = items.filter_map(|item| match item {
            Item::Document(change) => Some(change),
            Item::Link(_) => None,
        });
        Batch::Documents(DocumentBatch { stretch: Some(stretch), changes: changes.collect() })
    }
}

/// The same batch with half of the text of each page, and half of the links.
pub fn shortened(batch: Batch) -> Batch {
    match batch {
        Batch::Documents(mut batch) => {
            for change in &mut batch.changes {
                if let WireChange::Put(page) = change {
                    for text in [&mut page.body, &mut page.rest] {
                        text.truncate(text.floor_char_boundary(text.len() / 2));
                    }
                }
            }
            Batch::Documents(batch)
        }
        Batch::Links(mut batch) => {
            for change in &mut batch.changes {
                if let LinkChange::Put { links, .. } = change {
                    links.truncate(links.len() / 2);
                }
            }
            Batch::Links(batch)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::PagePosition;

    #[test]
    fn a_cut_becomes_a_batch_of_what_its_log_carries() {
        let cut = |item: Item| {
            let mut lane = Lane::new(3, PagePosition { file: 1, offset: 5 }, 9);
            assert_eq!(lane.push(item, 8), None);
            lane.upto(PagePosition { file: 2, offset: 7 }).unwrap()
        };
        let stretch = Stretch { from: 3, prev: (1, 5), upto: (2, 7), cut: 9, piece: 0 };
        let (page, link) = (WireChange::Delete("http://a/".into()), LinkChange::Remove { page: 1 });
        assert_eq!(
            batch(Topic::Docs(0), cut(Item::Document(page.clone()))),
            Batch::Documents(DocumentBatch { stretch: Some(stretch), changes: vec![page] })
        );
        assert_eq!(
            batch(Topic::Links, cut(Item::Link(link.clone()))),
            Batch::Links(LinkBatch { stretch, changes: vec![link] })
        );
    }
}
