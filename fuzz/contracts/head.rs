//! Any bytes as a recorded HTTP response: its head, its chunks, its compression.
//!
//! Contract: reading ends; a status has three digits and is the one of the first line; no header has a line
//! end in it; a body is within its limit.

use farol_store::pages::warc::{Headers, RECORD_BYTES_MAX, http_response, http_status};

pub fn check(bytes: &[u8]) {
    let _ = Headers::parse(bytes);
    let Some(response) = http_response(&bytes.to_vec().into()) else { return };
    assert_eq!(http_status(bytes), Some(response.status));
    assert!((100..1000).contains(&response.status) && response.body.len() <= RECORD_BYTES_MAX);
    for (name, value) in response.headers.iter() {
        assert!(!name.contains(['\n', ':']) && !value.contains('\n'), "{name:?} {value:?}");
        assert!(response.headers.get(name).is_some());
    }
}
