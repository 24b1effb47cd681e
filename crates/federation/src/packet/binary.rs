//! The outside of a packet: header, signature, body as sent.

use super::{
    BODY_BYTES_MAX, Codec, ENTRIES_MAX, PACKET_BYTES_MAX, PacketError, PacketKind, RATIO_MAX, grade_number,
    grade_of,
};
use crate::agreement::{AgreementId, EngineId, Grade};
use farol_base::codec::{Decoder, put_varint};
use farol_base::{PagePosition, Timestamp};
use sha2::{Digest as _, Sha256};

const MAGIC: &[u8; 8] = b"FAROLIDX";
const FORMAT: u32 = 1;
/// What is signed begins with this, so that no other signature of the key is one of a packet.
const DOMAIN: &[u8] = b"farol-packet-1\0";
const SIGNATURE_BYTES: usize = 64;
/// 173 + 4 + 3 fixed, 6 numbers of at most 10 bytes, 32: below this.
const HEADER_BYTES_MAX: usize = 512;
/// Magic, format, length of the header.
const START_BYTES: usize = 16;

/// What the sender says of a packet before it knows how long it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderStart {
    /// Who sends it.
    pub sender: EngineId,
    /// Who it is for.
    pub receiver: EngineId,
    /// Under which agreement; zeros where it is handed over by people.
    pub agreement: AgreementId,
    /// In which version of it.
    pub revision: u32,
    /// Its place among the packets of the agreement, from 1.
    pub sequence: u64,
    /// [`digest`] of the packet before it, zeros of the first.
    pub before: [u8; 32],
    /// When it was made.
    pub made: Timestamp,
    /// How far of the sender's archive it goes.
    pub position: PagePosition,
    /// Digest of the agreed view.
    pub view: [u8; 32],
    /// Number of the analysis that cut the words; 0 in grade text.
    pub analysis: u32,
    /// How much of each page it has.
    pub grade: Grade,
    /// What it is of its agreement.
    pub kind: PacketKind,
}

/// What a packet says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What its sender chose.
    pub start: HeaderStart,
    /// How the body is packed.
    pub codec: Codec,
    /// Pages in it.
    pub pages: usize,
    /// Gone pages in it.
    pub gone: usize,
    /// Addresses outside the view in it.
    pub outside: usize,
    /// Bytes of the body, unpacked.
    pub unpacked: usize,
    /// Bytes of the body as sent.
    pub sent: usize,
    /// SHA-256 of the body as sent.
    pub body_digest: [u8; 32],
}

impl Header {
    fn write(&self) -> Vec<u8> {
        let start = &self.start;
        let mut out = Vec::with_capacity(256);
        out.extend(start.sender.0);
        out.extend(start.receiver.0);
        out.extend(start.agreement.0);
        put_varint(&mut out, u64::from(start.revision));
        out.extend(start.sequence.to_le_bytes());
        out.extend(start.before);
        out.extend(start.made.as_millis().to_le_bytes());
        out.extend(start.position.file.to_le_bytes());
        out.extend(start.position.offset.to_le_bytes());
        out.extend(start.view);
        out.extend(start.analysis.to_le_bytes());
        out.push(grade_number(start.grade));
        out.push(match self.codec {
            Codec::Plain => 0,
            Codec::Zstd => 1,
        });
        out.push(match start.kind {
            PacketKind::Changes => 0,
            PacketKind::Snapshot => 1,
            PacketKind::SnapshotEnd => 2,
        });
        for number in [self.pages, self.gone, self.outside, self.unpacked, self.sent] {
            put_varint(&mut out, number as u64);
        }
        out.extend(self.body_digest);
        out
    }

    fn read(bytes: &[u8]) -> Result<Header, PacketError> {
        let mut from = Decoder::of(bytes);
        let header = Header::read_fields(&mut from)?;
        if !from.is_empty() {
            return Err(PacketError::Header("it is longer than its fields"));
        }
        if header.start.sequence == 0 {
            return Err(PacketError::Header("its sequence number is 0"));
        }
        let entries = header.pages.saturating_add(header.gone).saturating_add(header.outside);
        let limits = [
            ("entries", entries, ENTRIES_MAX),
            ("bytes unpacked", header.unpacked, BODY_BYTES_MAX),
            ("bytes unpacked for those sent", header.unpacked, header.sent.saturating_mul(RATIO_MAX)),
        ];
        for (what, is, max) in limits {
            if is > max {
                return Err(PacketError::TooLarge { what, is: is as u64, max: max as u64 });
            }
        }
        if header.codec == Codec::Plain && header.unpacked != header.sent {
            return Err(PacketError::Header("a plain body has another length than it says"));
        }
        Ok(header)
    }

    fn read_fields(from: &mut Decoder<'_>) -> Result<Header, PacketError> {
        let damaged = PacketError::Header;
        Ok(Header {
            start: HeaderStart {
                sender: EngineId(from.fixed().map_err(damaged)?),
                receiver: EngineId(from.fixed().map_err(damaged)?),
                agreement: AgreementId(from.fixed().map_err(damaged)?),
                revision: from.varint_as().map_err(damaged)?,
                sequence: from.u64().map_err(damaged)?,
                before: from.fixed().map_err(damaged)?,
                made: Timestamp::from_millis(from.u64().map_err(damaged)?),
                position: PagePosition {
                    file: from.u32().map_err(damaged)?,
                    offset: from.u64().map_err(damaged)?,
                },
                view: from.fixed().map_err(damaged)?,
                analysis: from.u32().map_err(damaged)?,
                grade: grade_of(from.byte().map_err(damaged)?)?,
                kind: PacketKind::Changes,
            },
            codec: match from.byte().map_err(damaged)? {
                0 => Codec::Plain,
                1 => Codec::Zstd,
                _ => return Err(PacketError::Header("its body is packed in an unknown way")),
            },
            pages: 0,
            gone: 0,
            outside: 0,
            unpacked: 0,
            sent: 0,
            body_digest: [0; 32],
        })
        .and_then(|mut header| {
            header.start.kind = match from.byte().map_err(damaged)? {
                0 => PacketKind::Changes,
                1 => PacketKind::Snapshot,
                2 => PacketKind::SnapshotEnd,
                _ => return Err(PacketError::Header("it is of an unknown kind")),
            };
            let numbers = [
                &mut header.pages,
                &mut header.gone,
                &mut header.outside,
                &mut header.unpacked,
                &mut header.sent,
            ];
            for number in numbers {
                *number = from.varint_as().map_err(damaged)?;
            }
            header.body_digest = from.fixed().map_err(damaged)?;
            Ok(header)
        })
    }
}

/// A packet that lacks only its signature.
#[derive(Clone, Debug)]
pub struct Draft {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Draft {
    /// Puts a header before a body, which is given as it is sent, with its length before it was packed. `counts` are those
    /// of its pages, gone pages, and addresses outside.
    pub fn new(
        start: HeaderStart,
        counts: [usize; 3],
        unpacked: usize,
        codec: Codec,
        body: Vec<u8>,
    ) -> Draft {
        let [pages, gone, outside] = counts;
        let body_digest = Sha256::digest(&body).into();
        let header = Header { start, codec, pages, gone, outside, unpacked, sent: body.len(), body_digest };
        let header = header.write();
        let mut head = Vec::with_capacity(START_BYTES + header.len());
        head.extend(MAGIC);
        head.extend(FORMAT.to_le_bytes());
        head.extend((header.len() as u32).to_le_bytes());
        head.extend(header);
        Draft { head, body }
    }

    /// The bytes that the sender's key signs.
    pub fn to_sign(&self) -> Vec<u8> {
        [DOMAIN, &self.head].concat()
    }

    /// The packet, as it lies in a file and travels.
    pub fn signed(self, signature: [u8; SIGNATURE_BYTES]) -> Vec<u8> {
        [&self.head[..], &signature, &self.body].concat()
    }
}

/// A packet whose header was read, whose length is right, and whose body is that of the header. Nobody has looked at its
/// signature yet.
#[derive(Clone, Debug)]
pub struct Sealed<'a> {
    /// What it says of itself.
    pub header: Header,
    head: &'a [u8],
    signature: [u8; SIGNATURE_BYTES],
    body: &'a [u8],
}

impl<'a> Sealed<'a> {
    /// Opens a packet.
    ///
    /// # Errors
    /// Where anything is not as the header says, down to the last byte.
    pub fn read(bytes: &'a [u8]) -> Result<Sealed<'a>, PacketError> {
        let too_large =
            |what, is: usize, max: usize| PacketError::TooLarge { what, is: is as u64, max: max as u64 };
        if !bytes.starts_with(MAGIC) {
            return Err(PacketError::NotAPacket);
        }
        if bytes.len() > PACKET_BYTES_MAX {
            return Err(too_large("bytes", bytes.len(), PACKET_BYTES_MAX));
        }
        let mut from = Decoder::of(&bytes[MAGIC.len()..]);
        let cut = |_| PacketError::Length { said: START_BYTES as u64, there: bytes.len() as u64 };
        let format = from.u32().map_err(cut)?;
        if format != FORMAT {
            return Err(PacketError::Format(format));
        }
        let header_bytes = from.u32().map_err(cut)? as usize;
        if header_bytes > HEADER_BYTES_MAX {
            return Err(too_large("bytes of header", header_bytes, HEADER_BYTES_MAX));
        }
        let least = START_BYTES + header_bytes + SIGNATURE_BYTES;
        let length = |said: usize| PacketError::Length { said: said as u64, there: bytes.len() as u64 };
        let fields = from.take(header_bytes).map_err(|_| length(least))?;
        let signature = from.fixed().map_err(|_| length(least))?;
        let header = Header::read(fields)?;
        if from.len() != header.sent {
            return Err(length(least.saturating_add(header.sent)));
        }
        let body = &bytes[least..];
        if <[u8; 32]>::from(Sha256::digest(body)) != header.body_digest {
            return Err(PacketError::Digest);
        }
        Ok(Sealed { header, head: &bytes[..START_BYTES + header_bytes], signature, body })
    }

    /// The bytes that the sender's key must have signed.
    pub fn to_sign(&self) -> Vec<u8> {
        [DOMAIN, self.head].concat()
    }

    /// The signature.
    pub fn signature(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.signature
    }

    /// The body as it was sent.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// What the next packet of the agreement says of this one.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.head);
        hash.update(self.signature);
        hash.finalize().into()
    }
}

/// What the next packet of the agreement says of this one; `None` where the bytes are no packet.
pub fn digest(packet: &[u8]) -> Option<[u8; 32]> {
    Some(Sealed::read(packet).ok()?.digest())
}
