//! Any bytes as a WARC file: reading ends, and what is read can be turned into a page or not.
#![no_main]

use farol_store::pages::warc::{Records, to_exchange};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for record in Records::new(bytes).flatten() {
        let _ = to_exchange(record);
    }
});
