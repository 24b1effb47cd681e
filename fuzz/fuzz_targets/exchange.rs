#![no_main]

#[path = "../contracts/exchange.rs"]
mod contract;
#[allow(dead_code)]
#[path = "../contracts/framing.rs"]
mod framing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contract::check(bytes));
