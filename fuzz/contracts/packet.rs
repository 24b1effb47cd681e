//! Any bytes as a packet, and as the body of one in either grade.
//!
//! Contract: bytes are refused, or read; what was read is written as something that reads the same; nothing that is read
//! exceeds the limits, and it takes memory in proportion to the input. A page that was read is put into the form for
//! strangers and back without trouble.

use farol_base::codec::Decoder;
use farol_base::{PagePosition, Timestamp};
use farol_federation::agreement::{AgreementId, EngineId, Grade};
use farol_federation::packet::{
    Body, Codec, Draft, ENTRIES_MAX, HeaderStart, LINKS_MAX, PacketKind, Sealed, VIA_MAX, read_record,
    write_record, xml,
};

pub fn check(bytes: &[u8]) {
    if let Ok(sealed) = Sealed::read(bytes) {
        let _ = Body::decode(sealed.body(), &sealed.header);
    }
    let Some((first, bytes)) = bytes.split_first() else { return };
    let grade = if first % 2 == 0 { Grade::Text } else { Grade::Words };
    let number = if grade == Grade::Text { 1 } else { 2 };
    // Of a packet whose counts are those that it has: they are tried from few on.
    for pages in 0..4 {
        let packet = draft(grade, [pages, usize::from(first / 2 % 4), usize::from(first / 8 % 4)], bytes);
        let sealed = Sealed::read(&packet).expect("a header that was written can be read");
        if let Ok(read) = Body::decode(sealed.body(), &sealed.header) {
            looked_at(&read.body);
            let written = read.body.encode(grade);
            let packet = draft(grade, read.body.counts(), &written);
            let sealed = Sealed::read(&packet).expect("a header that was written can be read");
            let again = Body::decode(sealed.body(), &sealed.header).expect("what was written can be read");
            assert_eq!((again.body, again.unreadable), (read.body, 0));
        }
    }
    let record = [&[1, number, 0, 0, 0, 0][..], bytes].concat();
    if let Ok((body, grade, analysis)) = read_record(&record) {
        let again = read_record(&write_record(&body, grade, analysis));
        assert_eq!(again, Ok((body, grade, analysis)));
    }
}

fn looked_at(body: &Body) {
    assert!(body.pages.len() <= ENTRIES_MAX);
    for page in &body.pages {
        assert!(page.links.len() <= LINKS_MAX && page.via.len() <= VIA_MAX);
    }
    let packet = xml::RadixPacket::of(".br", body);
    let read = xml::read(&xml::write(&packet)).expect("what was written can be read");
    assert_eq!(read.pages.len(), body.pages.len());
}

/// The first engine is the sender.
fn first_engine(body: &[u8]) -> Option<EngineId> {
    let mut from = Decoder::of(body);
    let section = (from.byte().ok()? == 1).then_some(from.bytes().ok()?)?;
    let mut section = Decoder::of(section);
    section.varint().ok()?;
    section.fixed().ok().map(EngineId)
}

fn draft(grade: Grade, counts: [usize; 3], body: &[u8]) -> Vec<u8> {
    let start = HeaderStart {
        sender: first_engine(body).unwrap_or(EngineId([0; 32])),
        receiver: EngineId([0; 32]),
        agreement: AgreementId([0; 16]),
        revision: 1,
        sequence: 1,
        before: [0; 32],
        made: Timestamp::EPOCH,
        position: PagePosition::default(),
        view: [0; 32],
        analysis: 0,
        grade,
        kind: PacketKind::Changes,
    };
    Draft::new(start, counts, body.len(), Codec::Plain, body.to_vec()).signed([0; 64])
}
