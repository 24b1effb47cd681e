//! Numbers and texts as bytes, for every file format of ours.
//!
//! Numbers of any size are LEB128 varints, or little-endian where their width is fixed. Reading never trusts a length or a
//! value: whatever does not fit is a [`DecodeError`], and the bytes count as damaged.

use crate::Timestamp;

/// What was wrong with some bytes.
pub type DecodeError = &'static str;

/// Appends a number: seven bits a byte, the lowest first (LEB128).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// As [`put_varint`], for numbers of up to 128 bits.
pub fn put_varint128(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes after their length.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends an instant such that the two that stand for "not known" and "never" take one byte.
#[inline]
pub fn put_instant(out: &mut Vec<u8>, at: Timestamp) {
    put_varint(out, at.as_millis().wrapping_add(1));
}

/// Takes values off the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub fn of(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes }
    }

    /// Bytes that are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        // Nearly all numbers are small.
        if let [first, rest @ ..] = self.rest
            && *first < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(*first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number of more than 64 bits")
    }

    #[inline]
    pub fn varint_as<T: TryFrom<u64>>(&mut self) -> Result<T, DecodeError> {
        T::try_from(self.varint()?).map_err(|_| "a number that is too large")
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        let (byte, rest) = self.rest.split_first().ok_or("bytes that end too early")?;
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or("bytes that end too early")?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Bytes after their length.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.varint_as()?;
        self.take(len)
    }

    #[inline]
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a text that is not UTF-8")
    }

    #[inline]
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| "bytes that end too early")
    }

    #[inline]
    pub fn instant(&mut self) -> Result<Timestamp, DecodeError> {
        self.varint().map(|at| Timestamp::from_millis(at.wrapping_sub(1)))
    }

    /// A number of up to 128 bits.
    pub fn varint128(&mut self) -> Result<u128, DecodeError> {
        let mut value = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number of more than 128 bits")
    }

    /// Little-endian numbers of a fixed width.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.fixed().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.fixed().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.fixed().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        self.fixed().map(u128::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_comes_back_and_cut_bytes_are_an_error() {
        let numbers = [0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, u64::MAX];
        for number in numbers {
            let (mut out, mut wide) = (Vec::new(), Vec::new());
            put_varint(&mut out, number);
            put_varint128(&mut wide, u128::from(number) << 60);
            assert_eq!(Decoder::of(&out).varint(), Ok(number));
            assert_eq!(Decoder::of(&wide).varint128(), Ok(u128::from(number) << 60));
            assert!(Decoder::of(&out[..out.len() - 1]).varint().is_err());
            assert!(Decoder::of(&wide[..wide.len() - 1]).varint128().is_err());
        }
        assert!(Decoder::of(&[0xFF; 10]).varint().is_err());
        assert!(Decoder::of(&[0xFF; 20]).varint128().is_err());
        for at in [Timestamp::EPOCH, Timestamp::NEVER, Timestamp::from_secs(1_700_000_000)] {
            let mut out = Vec::new();
            put_instant(&mut out, at);
            put_bytes(&mut out, b"text");
            let mut decoder = Decoder::of(&out);
            assert_eq!((decoder.instant(), decoder.text(), decoder.is_empty()), (Ok(at), Ok("text"), true));
            let mut cut = Decoder::of(&out[..out.len() - 1]);
            assert!(cut.instant().is_ok() && cut.text().is_err());
        }
        assert_eq!(Decoder::of(&7u32.to_le_bytes()).u32(), Ok(7));
        assert!(Decoder::of(&[0; 7]).u64().is_err() && Decoder::of(&[0; 16]).u128() == Ok(0));
        assert_eq!(Decoder::of(&[0x80, 2]).varint_as::<u8>(), Err("a number that is too large"));
        assert_eq!(Decoder::of(&[2, 0xC3, 0x28]).text(), Err("a text that is not UTF-8"));
    }
}
