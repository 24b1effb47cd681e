//! Hot-key replication (D in [Gomez14 ch. 4]): what is asked far more than the rest is served by several nodes.
//!
//! [`SpaceSaving`] counts; [`degree`] says how many nodes a query needs; [`mod@sequence`] says which; [`table`] remembers
//! what is hot, lets degrees rise at once and fall slowly, and picks a node for each question.

pub mod degree;
pub mod sequence;
mod space_saving;
pub mod table;

pub use degree::{Degree, degrees, dynamic_capacity};
pub use sequence::{Sequence, sequence};
pub use space_saving::{Counted, SpaceSaving, counters};
pub use table::{Choice, HotTable};
