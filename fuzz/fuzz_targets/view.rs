#![no_main]

#[path = "../contracts/view.rs"]
mod contract;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contract::check(bytes));
