//! Where each agent's pages are, in cells of some degrees: what is drawn of a plan.

use super::Replanner;
use crate::Position;
use std::collections::BTreeMap;

/// Degrees that a cell has on each side.
const CELL: f64 = 5.0;

/// Pages of one agent in one part of the globe.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub agent: String,
    /// The cell's middle.
    pub place: Position,
    pub pages: u64,
}

impl Replanner {
    /// The cells with most pages, as far as places are known.
    pub fn cells(&self, most: usize) -> Vec<Cell> {
        let Some(table) = &self.in_force else { return Vec::new() };
        let mut pages: BTreeMap<(&str, i32, i32), u64> = BTreeMap::new();
        for (_, known) in self.atlas.hosts() {
            let newest = &known.told[0];
            let by_table = || self.places.as_ref()?.find(newest.address)?.position;
            let (Some(place), Some(owner)) =
                (newest.position.or_else(by_table), table.owner(&known.name, Some(newest.address)))
            else {
                continue;
            };
            let cell = |degrees: f64| (degrees / CELL).floor() as i32;
            *pages.entry((owner, cell(place.latitude()), cell(place.longitude()))).or_default() +=
                newest.pages;
        }
        let middle = |cell: i32| (f64::from(cell) + 0.5) * CELL;
        let mut cells: Vec<Cell> = pages
            .into_iter()
            .filter_map(|((agent, north, east), pages)| {
                let place = Position::new(middle(north).clamp(-89.0, 89.0), middle(east))?;
                Some(Cell { agent: agent.to_string(), place, pages })
            })
            .collect();
        cells.sort_by_key(|cell| std::cmp::Reverse(cell.pages));
        cells.truncate(most);
        cells
    }
}
