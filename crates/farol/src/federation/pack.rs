//! Packets on their way out and in: packed, signed, checked and unpacked.
//!
//! What is in a packet is in `farol_federation::packet`. This does what that crate does not: compress and sign.

use super::key::{EngineKey, verify};
use anyhow::{Context, Result, bail};
use farol_federation::packet::{Body, Codec, Draft, Header, HeaderStart, PacketError, ReadBody, Sealed};
use std::io::Read;

/// Beyond this level packing a page takes longer than reading it did.
const LEVEL: i32 = 9;

/// Writes a packet; its sender must be the key's engine. A body that does not get smaller travels as it is.
pub fn seal(key: &EngineKey, start: HeaderStart, body: &Body) -> Result<Vec<u8>> {
    let plain = body.encode(start.grade);
    let packed = zstd::bulk::compress(&plain, LEVEL).context("a packet could not be compressed")?;
    let unpacked = plain.len();
    // What is nearly all the same would be taken for a bomb.
    let is_small = packed.len() < plain.len()
        && plain.len() < packed.len().saturating_mul(farol_federation::packet::RATIO_MAX);
    let (codec, sent) = if is_small { (Codec::Zstd, packed) } else { (Codec::Plain, plain) };
    let draft = Draft::new(start, body.counts(), unpacked, codec, sent);
    let signature = key.sign(&draft.to_sign());
    Ok(draft.signed(signature))
}

/// Opens a packet that its sender signed. Whose it is, for whom, and whether it is the next one is for the caller to say,
/// who looks at [`OpenedPacket::header`] before [`OpenedPacket::unpack`].
pub fn open(packet: &[u8]) -> Result<OpenedPacket<'_>> {
    let sealed = Sealed::read(packet)?;
    if !verify(sealed.header.start.sender, &sealed.to_sign(), sealed.signature()) {
        bail!("the packet's signature is not that of its sender: it was changed on its way, or is forged");
    }
    Ok(OpenedPacket { sealed })
}

/// A packet that is its sender's.
#[derive(Debug)]
pub struct OpenedPacket<'a> {
    sealed: Sealed<'a>,
}

impl OpenedPacket<'_> {
    /// What it says of itself.
    pub fn header(&self) -> &Header {
        &self.sealed.header
    }

    /// What the next packet must say of this one.
    pub fn digest(&self) -> [u8; 32] {
        self.sealed.digest()
    }

    /// Its pages. Never more is unpacked than the header says, which is bounded.
    pub fn unpack(&self) -> Result<ReadBody> {
        let header = &self.sealed.header;
        match header.codec {
            Codec::Plain => Ok(Body::decode(self.sealed.body(), header)?),
            Codec::Zstd => Ok(Body::decode(&unpacked(self.sealed.body(), header.unpacked)?, header)?),
        }
    }
}

/// Undoes zstd, up to a byte more than there may be.
fn unpacked(sent: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
    let damaged = "the packet's body cannot be unpacked";
    let mut plain = Vec::with_capacity(bytes_max.min(sent.len().saturating_mul(8)));
    let unpacker = zstd::stream::read::Decoder::with_buffer(sent).context(damaged)?;
    unpacker.take(bytes_max as u64 + 1).read_to_end(&mut plain).context(damaged)?;
    if plain.len() != bytes_max {
        bail!(PacketError::Count { what: "bytes", said: bytes_max, there: plain.len() });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{CanonicalUrl, PagePosition, Timestamp};
    use farol_federation::agreement::{AgreementId, EngineId, Grade};
    use farol_federation::packet::{Gone, GoneReason, PacketKind};

    fn start(key: &EngineKey) -> HeaderStart {
        HeaderStart {
            sender: key.id(),
            receiver: EngineId([2; 32]),
            agreement: AgreementId([0; 16]),
            revision: 1,
            sequence: 1,
            before: [0; 32],
            made: Timestamp::from_secs(1),
            position: PagePosition::default(),
            view: [3; 32],
            analysis: 0,
            grade: Grade::Text,
            kind: PacketKind::Changes,
        }
    }

    fn gone(count: u64) -> Body {
        let one = |n: u64| Gone {
            url: CanonicalUrl::parse(&format!("http://a.test/{n}")).unwrap(),
            at: Timestamp::from_secs(n),
            reason: GoneReason::Gone,
        };
        Body { gone: (0..count).map(one).collect(), ..Body::default() }
    }

    #[test]
    fn what_was_sealed_is_opened_and_every_flipped_bit_is_refused() {
        let key = EngineKey::of_seed([9; 32]).unwrap();
        for count in [1, 300] {
            let body = gone(count);
            let packet = seal(&key, start(&key), &body).unwrap();
            let opened = open(&packet).unwrap();
            assert_eq!(opened.header().codec, if count > 1 { Codec::Zstd } else { Codec::Plain });
            assert_eq!(opened.unpack().unwrap().body.gone, body.gone);
            for bit in 0..packet.len() * 8 {
                let mut flipped = packet.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(open(&flipped).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_body_that_unpacks_to_more_than_it_says_is_refused_before_it_is_in_memory() {
        let key = EngineKey::of_seed([9; 32]).unwrap();
        let bomb = zstd::bulk::compress(&vec![0; 8 << 20], 19).unwrap();
        for said in [1000, bomb.len() * farol_federation::packet::RATIO_MAX] {
            let draft = Draft::new(start(&key), [0; 3], said, Codec::Zstd, bomb.clone());
            let signature = key.sign(&draft.to_sign());
            let packet = draft.signed(signature);
            let error = open(&packet).unwrap().unpack().unwrap_err().to_string();
            assert!(error.contains("bytes, and has"), "{error}");
        }
    }

    #[test]
    fn the_vector_is_signed_byte_by_byte() {
        let key = EngineKey::of_seed(std::array::from_fn(|i| i as u8)).unwrap();
        let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
        assert_eq!(hex(&key.id().0), "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8");
        let packet = seal(&key, start(&key), &gone(1)).unwrap();
        let sealed = Sealed::read(&packet).unwrap();
        assert!(verify(key.id(), &sealed.to_sign(), sealed.signature()));
        assert!(!verify(EngineId([2; 32]), &sealed.to_sign(), sealed.signature()));
    }
}
