//! Titles: a page whose title holds the words asked for is probably about them.

use crate::error::Error;
use crate::matching::Cursor;
use crate::plan::{Place, Plan, Unit};
use tantivy::{DocId, SegmentReader};

/// How much a page gains whose title holds every word.
const WEIGHT: f32 = 0.2;

/// Looks words up in the titles of one segment, asked for in growing order of pages.
pub(crate) struct Titles {
    cursors: Vec<(Cursor, f32)>,
    weight_all: f32,
}

impl Titles {
    pub(crate) fn new(segment: &SegmentReader, plan: &Plan) -> Result<Titles, Error> {
        let mut titles = Titles { cursors: Vec::new(), weight_all: 0.0 };
        let Ok(title) = segment.schema().get_field("title") else { return Ok(titles) };
        for unit in plan.units.iter().filter(|unit| unit.place.everywhere) {
            titles.weight_all += unit.idf;
            let place = Place { forms: title, stems: Some(title), everywhere: false };
            let unit = Unit { place, ..unit.clone() };
            if let Some(cursor) = Cursor::open(segment, &unit)? {
                titles.cursors.push((cursor, unit.idf));
            }
        }
        Ok(titles)
    }

    /// The factor of a page: 1 where its title holds none of the words.
    pub(crate) fn factor(&mut self, doc: DocId) -> f32 {
        if self.weight_all <= 0.0 {
            return 1.0;
        }
        let held: f32 = self
            .cursors
            .iter_mut()
            .map(|(cursor, idf)| if cursor.seek(doc) == doc { *idf } else { 0.0 })
            .sum();
        1.0 + WEIGHT * held / self.weight_all
    }
}
