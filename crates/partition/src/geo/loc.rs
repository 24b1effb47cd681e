//! LOC records of the DNS: where a host says it is [RFC 1876].
//!
//! | octets | what |
//! |---|---|
//! | 0 | version, 0 |
//! | 1–3 | size, horizontal and vertical precision: a digit times a power of ten, in centimetres |
//! | 4–7 | latitude: thousandths of a second of arc, the equator is 2³¹, north is more |
//! | 8–11 | longitude: the same, Greenwich is 2³¹, east is more |
//! | 12–15 | altitude in centimetres, from 100 km below the reference spheroid |
//!
//! Everybody writes into his own zone what he likes: a position is a hint, and round-trip times that contradict it win.

use super::Position;
use crate::Error;

/// Thousandths of a second of arc in a degree.
const PER_DEGREE: f64 = 3_600_000.0;
const MIDDLE: i64 = 1 << 31;

/// A host's own account of where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loc {
    pub position: Position,
    /// Metres by which the position may be off to any side.
    pub horizontal_m: f64,
    /// Diameter of what is there, in metres.
    pub size_m: f64,
    pub altitude_m: f64,
}

/// Reads the data of a LOC record.
///
/// # Errors
/// Where it is not of version 0, has not 16 octets, or names no point of the globe.
pub fn read(data: &[u8]) -> Result<Loc, Error> {
    let data: &[u8; 16] = data.try_into().map_err(|_| Error::Loc("it has not 16 octets"))?;
    if data[0] != 0 {
        return Err(Error::Loc("it is of a version that is not 0"));
    }
    let word = |at: usize| u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    let degrees = |at: usize| (i64::from(word(at)) - MIDDLE) as f64 / PER_DEGREE;
    let (north, east) = (degrees(4), degrees(8));
    if east.abs() > 180.0 {
        return Err(Error::Loc("it names no point of the globe"));
    }
    let position = Position::new(north, east).ok_or(Error::Loc("it names no point of the globe"))?;
    let horizontal_m = metres(data[2])?;
    metres(data[3])?;
    Ok(Loc {
        position,
        horizontal_m,
        size_m: metres(data[1])?,
        altitude_m: f64::from(word(12)) / 100.0 - 100_000.0,
    })
}

/// A digit in the upper half, a power of ten in the lower one; centimetres.
fn metres(octet: u8) -> Result<f64, Error> {
    let (digit, power) = (octet >> 4, octet & 0x0F);
    if digit > 9 || power > 9 {
        return Err(Error::Loc("a precision has a digit above 9"));
    }
    Ok(f64::from(digit) * 10f64.powi(i32::from(power)) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cambridge-net.kei.com. LOC 42 21 54 N 71 06 18 W -24m 30m`, the first example of RFC 1876.
    #[test]
    fn the_example_of_the_rfc_is_read() {
        let (north, west) = (42 * 3600 + 21 * 60 + 54, 71 * 3600 + 6 * 60 + 18);
        let mut data = vec![0, 0x33, 0x16, 0x13];
        data.extend(((MIDDLE + north * 1000) as u32).to_be_bytes());
        data.extend(((MIDDLE - west * 1000) as u32).to_be_bytes());
        data.extend((10_000_000u32 - 2400).to_be_bytes());
        let loc = read(&data).unwrap();
        assert!((loc.position.latitude() - 42.365).abs() < 1e-4, "{loc:?}");
        assert!((loc.position.longitude() + 71.105).abs() < 1e-4, "{loc:?}");
        assert_eq!((loc.size_m, loc.horizontal_m, loc.altitude_m), (30.0, 10_000.0, -24.0));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let good = |north: u32, east: u32| {
            [&[0, 0x12, 0x16, 0x13][..], &north.to_be_bytes(), &east.to_be_bytes(), &[0; 4]].concat()
        };
        let middle = MIDDLE as u32;
        assert!(read(&good(middle, middle)).is_ok());
        let quarter = 90 * 3_600_000;
        assert!(read(&good(middle + quarter, middle - 2 * quarter)).is_ok());
        assert!(read(&good(middle + quarter + 1, middle)).is_err());
        assert!(read(&good(middle, middle + 2 * quarter + 1)).is_err());
        assert!(read(&good(0, 0)).is_err());
        assert!(read(&good(middle, middle)[..15]).is_err());
        assert!(read(&[]).is_err());
        let mut bad = good(middle, middle);
        bad[0] = 1;
        assert_eq!(
            read(&bad).unwrap_err().to_string(),
            "the LOC record is wrong: it is of a version that is not 0"
        );
        bad[0] = 0;
        for octet in 1..4 {
            let mut bad = bad.clone();
            bad[octet] = 0x1A;
            assert!(read(&bad).is_err());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut random = farol_base::Seeded::new(4);
        use farol_base::Random;
        for _ in 0..20_000 {
            let length = random.below(20) as usize;
            let data: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            if let Ok(loc) = read(&data) {
                assert!(loc.position.latitude().abs() <= 90.0 && loc.horizontal_m >= 0.0);
            }
        }
    }
}
