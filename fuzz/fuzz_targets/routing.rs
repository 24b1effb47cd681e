#![no_main]

#[path = "../contracts/routing.rs"]
mod contract;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contract::check(bytes));
