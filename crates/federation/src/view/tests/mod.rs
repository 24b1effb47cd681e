//! What must hold of views as a whole: the golden examples, and random views against every page of a small world.

mod golden;
mod random;
mod reading;
