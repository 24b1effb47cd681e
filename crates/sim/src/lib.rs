//! Synthetic Web, checkers, the papers' experiments.
