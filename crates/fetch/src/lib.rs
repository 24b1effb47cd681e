//! The only door to the Web: HTTP, DNS, TLS, address guard.
