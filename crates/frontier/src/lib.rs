//! Which page next and when: host queues, politeness, revisits, traps.
