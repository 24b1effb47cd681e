//! Query language, plan, merge.
