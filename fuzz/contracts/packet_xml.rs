//! Any bytes as a packet in the form `radix-1`.
//!
//! Contract: a document is refused with a place in it and a sentence, or read; what was read is written as something that
//! reads the same, and as pages it is put into the form again without trouble.

use farol_base::Timestamp;
use farol_federation::agreement::EngineId;
use farol_federation::packet::xml;

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match xml::read(&text) {
        Err(error) => assert!(error.offset <= text.len() as u64 && !error.why.is_empty(), "{error}"),
        Ok(packet) => {
            assert_eq!(xml::read(&xml::write(&packet)), Ok(packet.clone()));
            let read = packet.to_body(EngineId([1; 32]), "", Timestamp::EPOCH);
            assert_eq!(
                read.body.pages.len() + read.body.gone.len() + read.unreadable,
                packet.pages.len() + packet.urls.len()
            );
            let again = xml::RadixPacket::of(&packet.webview, &read.body);
            assert_eq!(xml::read(&xml::write(&again)), Ok(again));
        }
    }
}
