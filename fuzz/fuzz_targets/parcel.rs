#![no_main]

#[path = "../contracts/parcel.rs"]
mod contract;
#[allow(dead_code)]
#[path = "../contracts/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contract::check(bytes));
