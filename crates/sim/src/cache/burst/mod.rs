//! What judges the product's burst detector, each with the whole history at hand ([Gomez14 ch. 6]).
//!
//! [`offline`] is the reference detector of \[Vlachos04\]; [`quality`] compares a detector with it;
//! [`taxonomy`] tells permanent queries from bursts; [`season`] takes the daily and weekly course out of a
//! series.

pub mod offline;
pub mod quality;
pub mod season;
pub mod taxonomy;
