#![no_main]

#[path = "../contracts/message.rs"]
mod contract;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contract::check(bytes));
