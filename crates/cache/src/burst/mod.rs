//! R, bursts (thesis ch. 6): queries that many people begin to ask within minutes, found before their peak.
//!
//! [`online`] is Algorithm 4, which the router runs each minute over what the monitor counts; [`offline`] is the
//! reference of Vlachos et al., which needs the whole history; [`quality`] compares the two; [`taxonomy`] tells
//! permanent queries from bursts, and [`season`] takes the daily and weekly course out of a series.

pub mod offline;
pub mod online;
pub mod quality;
pub mod season;
pub mod taxonomy;

pub use online::{Detector, Event, Rules, Series};
