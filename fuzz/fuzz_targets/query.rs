//! Any text as a query: reading never fails, and what is written is read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let query = farol_query::read(text).query;
    assert_eq!(farol_query::read(&farol_query::write(&query)).query, query);
});
