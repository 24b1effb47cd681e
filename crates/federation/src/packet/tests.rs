//! Packets as bytes: the vector of the format, round trips, and what is refused.

use super::*;
use crate::View;
use crate::agreement::AgreementId;
use data_encoding::HEXLOWER;
use farol_base::{PagePosition, Random, Seeded};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

/// The body of the test vector in `docs/formats/packet.md`.
const BODY: &str = "\
01250103a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b80343496e022b0216687474703a2f2f7777772e63696e2e7566\
70652e627212687474703a2f2f7777772e756670652e6272047c7b00012f0000c83af9e2e8000000e06699c7e800000070740800b030efcdab896745\
2301efcdab896745230188776655443322110468746d6c1643656e74726f20646520496e666f726dc3a1746963\
6100001f496e73637269c3a7c3a36f206e612050c3b3732d477261647561c3a7c3a36f0101012f000455465045051716000b2f76656c686f2e68746d\
6cc83af9e2e800000001";
/// The signature of its header by the key whose seed is 00, 01, … 1f.
const SIGNATURE: &str = "\
de6ff6eb772e6916ede3d1c280c599500bfc392fc05d31900aa293dc073db6d1c2db5a879039729b1a10ee8c055f3157522eab1fbea5361165110e87\
18bf6605";

fn key(hex: &str) -> EngineId {
    EngineId(HEXLOWER.decode(hex.as_bytes()).unwrap().try_into().unwrap())
}

fn sender() -> EngineId {
    key("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
}

fn url(text: &str) -> CanonicalUrl {
    CanonicalUrl::parse(text).unwrap()
}

fn start() -> HeaderStart {
    HeaderStart {
        sender: sender(),
        receiver: key("29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd7"),
        agreement: AgreementId(std::array::from_fn(|i| i as u8)),
        revision: 1,
        sequence: 1,
        before: [0; 32],
        made: Timestamp::from_millis(1_000_300_000_000),
        position: PagePosition { file: 0, offset: 77 },
        view: View::parse("domain:cin.ufpe.br").unwrap().digest(),
        analysis: 0,
        grade: Grade::Text,
        kind: PacketKind::Changes,
    }
}

fn example() -> Body {
    Body {
        engines: vec![(sender(), "CIn".to_string())],
        pages: vec![PageEntry {
            url: url("http://www.cin.ufpe.br/"),
            origin: sender(),
            via: Vec::new(),
            fetched: Timestamp::from_millis(0xE8_E2F9_3AC8),
            dated: Some(Timestamp::from_millis(0xE8_C799_66E0)),
            language: Some(Language::PORTUGUESE),
            flags: Flags { copy_offered: true, ..Flags::default() },
            hops: 0,
            size: 6192,
            content_hash: ContentHash(0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF),
            simhash: 0x1122_3344_5566_7788,
            file_type: "html".to_string(),
            media_type: None,
            address: None,
            texts: Texts {
                title: "Centro de Informática".to_string(),
                body: "Inscrição na Pós-Graduação".to_string(),
                ..Texts::default()
            },
            links: vec![Link {
                url: url("http://www.ufpe.br/"),
                anchor: "UFPE".to_string(),
                nofollow: false,
            }],
        }],
        gone: vec![Gone {
            url: url("http://www.cin.ufpe.br/velho.html"),
            at: Timestamp::from_millis(0xE8_E2F9_3AC8),
            reason: GoneReason::Gone,
        }],
        ..Body::default()
    }
}

fn sealed(start: HeaderStart, body: &Body) -> Vec<u8> {
    let plain = body.encode(start.grade);
    Draft::new(start, body.counts(), plain.len(), Codec::Plain, plain).signed([7; 64])
}

#[test]
fn the_vector_is_written_byte_by_byte() {
    let body = example();
    let plain = body.encode(Grade::Text);
    assert_eq!(HEXLOWER.encode(&plain), BODY);
    let draft = Draft::new(start(), body.counts(), plain.len(), Codec::Plain, plain);
    assert_eq!(draft.to_sign().len(), 15 + 16 + 219);
    let packet = draft.signed(HEXLOWER.decode(SIGNATURE.as_bytes()).unwrap().try_into().unwrap());
    assert_eq!(packet.len(), 534);
    let hash = HEXLOWER.encode(&Sha256::digest(&packet));
    assert_eq!(hash, "5bee56458d0bb37e124d244093650920ccc9e986c44efb862f169c74b45a9812");
    let next = HEXLOWER.encode(&digest(&packet).unwrap());
    assert_eq!(next, "d298d460c402fd84eada2b23b4c77e927f480d48530c83e2727f49083601f953");
    let read = Sealed::read(&packet).unwrap();
    assert_eq!(read.header.start, start());
    let back = Body::decode(read.body(), &read.header).unwrap();
    assert_eq!((back.body, back.unreadable), (body, 0));
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused_or_signed_otherwise() {
    let packet = sealed(start(), &example());
    let signed = Sealed::read(&packet).unwrap().to_sign();
    for cut in 0..packet.len() {
        assert!(Sealed::read(&packet[..cut]).is_err(), "cut at {cut}");
    }
    assert!(Sealed::read(&[&packet[..], b"x"].concat()).is_err());
    for bit in 0..packet.len() * 8 {
        let mut flipped = packet.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(read) = Sealed::read(&flipped) {
            let is_signature = (16 + 219..16 + 219 + 64).contains(&(bit / 8));
            assert!(is_signature || read.to_sign() != signed, "bit {bit}");
        }
    }
}

#[test]
fn headers_that_promise_too_much_are_refused() {
    let refused = |counts: [usize; 3], unpacked: usize, codec| {
        let packet = Draft::new(start(), counts, unpacked, codec, vec![0; 1000]).signed([0; 64]);
        Sealed::read(&packet).unwrap_err()
    };
    assert!(matches!(
        refused([9_000, 900, 101], 1000, Codec::Plain),
        PacketError::TooLarge { what: "entries", .. }
    ));
    assert!(matches!(refused([0; 3], (64 << 20) + 1, Codec::Zstd), PacketError::TooLarge { .. }));
    assert!(matches!(refused([0; 3], 200_001, Codec::Zstd), PacketError::TooLarge { .. }), "a bomb");
    assert!(matches!(refused([0; 3], 1001, Codec::Plain), PacketError::Header(_)));
    let large = vec![b'x'; PACKET_BYTES_MAX];
    assert!(matches!(
        Sealed::read(&[&sealed(start(), &example())[..], &large].concat()),
        Err(PacketError::TooLarge { .. })
    ));
    assert_eq!(Sealed::read(b"PK").unwrap_err(), PacketError::NotAPacket);
    let mut later = sealed(start(), &example());
    later[8] = 2;
    assert_eq!(Sealed::read(&later).unwrap_err(), PacketError::Format(2));
}

#[test]
fn a_body_has_what_the_header_says() {
    let body = example();
    let plain = body.encode(Grade::Text);
    let packet = Draft::new(start(), [2, 1, 0], plain.len(), Codec::Plain, plain).signed([0; 64]);
    let read = Sealed::read(&packet).unwrap();
    let error = Body::decode(read.body(), &read.header).unwrap_err();
    assert_eq!(error.to_string(), "the packet says that it has 2 pages, and has 1");
    let other = HeaderStart { sender: EngineId([9; 32]), ..start() };
    let packet = sealed(other, &body);
    let read = Sealed::read(&packet).unwrap();
    assert!(matches!(Body::decode(read.body(), &read.header), Err(PacketError::Body(_))));
}

#[test]
fn an_address_that_is_none_here_costs_its_entry_alone() {
    let mut body = example();
    body.pages.push(PageEntry { url: url("http://other.br/"), ..body.pages[0].clone() });
    let plain = body.encode(Grade::Text);
    // Of the same length, and not as it is spelled.
    let at = memmem(&plain, b"http://other.br");
    let spelled = [&plain[..at], b"http://OTHER.br", &plain[at + 15..]].concat();
    let packet = Draft::new(start(), body.counts(), spelled.len(), Codec::Plain, spelled).signed([0; 64]);
    let read = Sealed::read(&packet).unwrap();
    let read = Body::decode(read.body(), &read.header).unwrap();
    assert_eq!((read.body.pages.len(), read.unreadable), (1, 1));
}

fn memmem(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).unwrap()
}

#[test]
fn names_that_are_long_and_numbered_often_are_no_bomb() {
    let host = format!("http://{}.br/", "a".repeat(60));
    let links = vec![Link { url: url(&host), anchor: String::new(), nofollow: false }; LINKS_MAX];
    let page = PageEntry { links, ..example().pages[0].clone() };
    let body = Body { pages: vec![page; 100], ..example() };
    // 5 bytes a link that come to 120: refused as a whole, before they are in memory.
    let packet = sealed(start(), &body);
    let read = Sealed::read(&packet).unwrap();
    assert_eq!(
        Body::decode(read.body(), &read.header).unwrap_err(),
        PacketError::Body("addresses that are too long together")
    );
}

#[test]
fn unknown_sections_are_skipped_unless_they_must_be_understood() {
    let body = example();
    let read = |kind: u8| {
        let plain = [&body.encode(Grade::Text)[..], &[kind, 2, 1, 1]].concat();
        let packet = Draft::new(start(), body.counts(), plain.len(), Codec::Plain, plain).signed([0; 64]);
        let sealed = Sealed::read(&packet).unwrap();
        Body::decode(sealed.body(), &sealed.header).map(|read| read.body == body)
    };
    assert_eq!(read(99), Ok(true));
    assert!(read(200).is_err());
}

#[test]
fn pages_are_archived_one_by_one_with_what_they_name() {
    let mut random = Seeded::new(1);
    for grade in [Grade::Text, Grade::Words] {
        let body = made(&mut random, grade);
        for page in &body.pages {
            let one = Body { pages: vec![page.clone()], engines: body.engines.clone(), ..Body::default() };
            let bytes = write_record(&one, grade, 3);
            let (back, told, analysis) = read_record(&bytes).unwrap();
            assert_eq!((back.pages, told, analysis), (one.pages, grade, 3));
            for cut in 0..bytes.len() {
                assert!(read_record(&bytes[..cut]).is_err());
            }
        }
        assert!(read_record(&write_record(&body, grade, 3)).is_err(), "more than one page");
    }
}

fn made(random: &mut Seeded, grade: Grade) -> Body {
    let text = |random: &mut Seeded, words: u64| {
        let words: Vec<String> = (0..random.below(words)).map(|_| format!("p{}", random.below(30))).collect();
        words.join(" ")
    };
    let engines: Vec<EngineId> = (0..4).map(|n| EngineId([n; 32])).collect();
    let address = |random: &mut Seeded| url(&format!("http://h{}.br/{}", random.below(5), random.below(99)));
    let pages = (0..random.below(6) + 1).map(|n| {
        let is_words = grade == Grade::Words;
        PageEntry {
            url: address(random),
            origin: engines[random.below(4) as usize],
            via: engines[..random.below(4) as usize].to_vec(),
            fetched: Timestamp::from_millis(random.below(1 << 40)),
            dated: (random.below(2) == 0).then(|| Timestamp::from_millis(random.below(1 << 40))),
            language: (random.below(2) == 0).then_some(Language::SPANISH),
            flags: Flags::from_byte(random.below(32) as u8),
            hops: random.below(300) as u16,
            size: random.below(1 << 30),
            content_hash: ContentHash(u128::from(random.next_u64()) << 7),
            simhash: random.next_u64(),
            file_type: "txt".to_string(),
            media_type: (random.below(2) == 0).then(|| "text/plain".to_string()),
            address: (random.below(2) == 0).then(|| IpAddr::from([10, 0, 0, n as u8])),
            texts: Texts {
                title: text(random, 5),
                lead: if is_words { text(random, 9) } else { String::new() },
                title_words: if is_words { text(random, 5) } else { String::new() },
                description: text(random, 9),
                headings: text(random, 9),
                body: text(random, 99),
                rest: text(random, 30),
            },
            links: (0..random.below(9))
                .map(|n| Link { url: address(random), anchor: text(random, 4), nofollow: n % 2 == 0 })
                .collect(),
        }
    });
    Body { engines: vec![(engines[0], "Umá".to_string())], pages: pages.collect(), ..Body::default() }
}

#[test]
fn bodies_of_both_grades_come_back() {
    for seed in 0..200 {
        let random = &mut Seeded::new(seed);
        let grade = if seed % 2 == 0 { Grade::Text } else { Grade::Words };
        let mut body = made(random, grade);
        body.outside = vec![Outside { url: url("http://x.br/"), at: Timestamp::from_secs(seed) }];
        body.census = vec![Census { view: ".br".to_string(), known: seed, collected: 3 }];
        let from = HeaderStart { sender: body.engines[0].0, grade, ..start() };
        let packet = sealed(from, &body);
        let read = Sealed::read(&packet).unwrap();
        let back = Body::decode(read.body(), &read.header).unwrap().body;
        assert_eq!((&back.pages, &back.outside, &back.census), (&body.pages, &body.outside, &body.census));
        assert_eq!(back.engines[0], body.engines[0]);
    }
}

proptest! {
    #[test]
    fn no_bytes_break_a_body(bytes in prop::collection::vec(any::<u8>(), 0..300), flips in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        let grade = if bytes.len() % 2 == 0 { Grade::Text } else { Grade::Words };
        let mut made = made(&mut Seeded::new(bytes.len() as u64), grade).encode(grade);
        for (flip, byte) in flips.iter().zip(&bytes) {
            let at = flip.index(made.len());
            made[at] ^= byte;
        }
        for bytes in [bytes, made] {
            let record = [&[1, super::grade_number(grade), 0, 0, 0, 0][..], &bytes].concat();
            let _ = read_record(&record);
            let header = HeaderStart { grade, ..start() };
            let packet = Draft::new(header, [0; 3], bytes.len(), Codec::Plain, bytes).signed([0; 64]);
            let sealed = Sealed::read(&packet).unwrap();
            let _ = Body::decode(sealed.body(), &sealed.header);
        }
    }
}

#[test]
fn a_packet_of_the_old_form_is_read_and_written() {
    // Put together after the description of the thesis' example: leaves in ISO-8859-1, weights, suffixes, a word twice.
    let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE packet [<!ELEMENT packet (webview, page*, URL*)>\n\
        <!ELEMENT name (CDATA)>]>\n<packet><webview>.br</webview><page>\
        <address>http%3A%2F%2Fwww.cin.ufpe.br%2F</address><visitedDate>1000300000000</visitedDate>\
        <modifiedDate>-1</modifiedDate><size>6192</size><title>Centro+de+Inform%E1tica</title>\
        <paragraph>Centro+de+ensino</paragraph>\
        <word><name>de</name><occurrency>11</occurrency><positions>4,7</positions></word>\
        <word><name>centro</name><occurrency>10</occurrency><positions>3</positions></word>\
        <word><name>inform%E1tica</name><occurrency>10</occurrency><positions>5</positions></word>\
        <word><name>informatica</name><occurrency>10</occurrency><positions>5</positions></word>\
        <word><name>cin</name><occurrency>5</occurrency><positions>1</positions></word>\
        <word><name>ufpe</name><occurrency>5</occurrency><positions>2</positions></word>\
        <word><name>%23br%23</name><occurrency>10</occurrency><positions>1</positions></word>\
        <word><name>casa</name><occurrency>1</occurrency><positions>6</positions></word>\
        <word><name>%E1gua</name><occurrency>1</occurrency><positions>8</positions></word>\
        <word><name>agua</name><occurrency>1</occurrency><positions>8</positions></word>\
        <link>http%3A%2F%2Fwww.ufpe.br%2F</link><link>mailto%3Ax%40cin.ufpe.br</link></page>\
        <URL>http://www.cin.ufpe.br/velho.html</URL></packet>";
    let packet = xml::read(text).unwrap();
    assert_eq!((packet.webview.as_str(), packet.pages.len(), packet.urls.len()), (".br", 1, 1));
    let read = packet.to_body(sender(), "CIn", Timestamp::from_secs(5));
    let page = &read.body.pages[0];
    assert_eq!(page.texts.title, "Centro de Informática");
    assert_eq!(page.texts.body, "casa de água");
    assert_eq!(page.links.len(), 1, "no mailto:");
    assert_eq!((page.fetched.as_millis(), page.dated, page.size), (1_000_300_000_000, None, 6192));
    assert_eq!(read.body.gone[0].url.as_str(), "http://www.cin.ufpe.br/velho.html");
    let again = xml::RadixPacket::of(".br", &read.body);
    let word = |name: &str| again.pages[0].words.iter().find(|word| word.name == name).unwrap().clone();
    assert_eq!((word("de").occurrency, word("de").positions), (11, vec![4, 7]));
    assert_eq!((word("#ufpe.br#").occurrency, word("#www.cin.ufpe.br#").positions), (10, vec![1]));
    assert_eq!(word("agua").positions, word("água").positions);
    assert_eq!(xml::read(&xml::write(&again)).unwrap(), again);
    let back = again.to_body(sender(), "CIn", Timestamp::from_secs(5)).body;
    assert_eq!(back.pages[0].texts.body, "casa de água");
}

#[test]
fn documents_that_are_no_packets_are_refused_with_a_sentence() {
    let check = |text: &str, want: &str| {
        let error = xml::read(text).unwrap_err();
        assert!(error.why.contains(want), "{text}: {error}");
    };
    check("", "there is no <packet>");
    check("<html/>", "expected <packet>, found <html>");
    check("<packet>", "the document ends before </packet>");
    check("<packet><page><size>x</size></page></packet>", "size is no number: x");
    check(
        "<packet><page><word><positions>0</positions></word></page></packet>",
        "positions are numbers from 1",
    );
    let bomb = "<!DOCTYPE packet [<!ENTITY a \"aaaaaaaa\"><!ENTITY b \"&a;&a;\">]><packet><webview>&b;</webview></packet>";
    check(bomb, "entities of a document's own");
    assert_eq!(
        xml::read("<packet><webview>&#46;br&amp;</webview><new><x/>y</new></packet>").unwrap().webview,
        ".br&"
    );
    let many = format!("<packet>{}</packet>", "<page/>".repeat(ENTRIES_MAX + 1));
    check(&many, "more than 10000 pages");
}

proptest! {
    #[test]
    fn no_text_breaks_the_old_form(text in "(<(/)?(packet|page|word|name|positions|URL)>|[a-z0-9,&;%+ ]{0,5}){0,40}") {
        if let Ok(packet) = xml::read(&text) {
            prop_assert_eq!(xml::read(&xml::write(&packet)).unwrap().pages.len(), packet.pages.len());
            let _ = packet.to_body(EngineId([1; 32]), "", Timestamp::EPOCH);
        }
    }
}
