//! Hot-key replication (D in [Gomez14 ch. 4]): what is asked far more than the rest is served by several nodes.
//!
//! Each front counts with a [`SpaceSaving`] and sends a [`Summary`]; the leader adds these up, [`degree`] says how many
//! nodes a query needs, and [`Ageing`] lets degrees rise at once and fall slowly. With what the leader publishes each
//! front's [`HotTable`] picks a node for each question; [`mod@sequence`] says which nodes serve it.

mod ageing;
pub mod degree;
pub mod sequence;
mod space_saving;
mod summary;
pub mod table;

pub use ageing::Ageing;
pub use degree::{Degree, degrees, dynamic_capacity};
pub use sequence::{Sequence, sequence};
pub use space_saving::{Counted, SpaceSaving, counters};
pub use summary::{Summary, TALLIES_MAX, Tally};
pub use table::{Choice, HotTable};
