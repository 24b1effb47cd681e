//! Three nodes on loopback with two shards on two of them each, and a broker before them.

mod calls;
mod cancel;
mod costs;
mod failures;
mod merged;
mod world;
