#![no_main]

#[path = "../contracts/log.rs"]
mod contract;
#[allow(dead_code)]
#[path = "../contracts/framing.rs"]
mod framing;
#[path = "../contracts/urls.rs"]
mod urls;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contract::check(bytes));
