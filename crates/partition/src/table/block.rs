//! A block of addresses, IPv4 or IPv6: `193.136.0.0/16`, `2001:db8::/32`.

use crate::Error;
use crate::geo::as_number;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// All addresses that begin with the same bits. IPv4 stands as IPv4-mapped IPv6, so that one order holds all.
///
/// In this order a block comes right before the blocks that lie in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    first: u128,
    length: u8,
}

/// `::ffff:0:0`, where IPv4 begins.
const MAPPED: u128 = 0xFFFF_0000_0000;

impl Block {
    /// A block of the addresses that share so many bits with this one; longer lengths than there are bits are cut.
    pub fn of(address: IpAddr, length: u8) -> Block {
        let length = match address {
            IpAddr::V4(_) => 96 + length.min(32),
            IpAddr::V6(_) => length.min(128),
        };
        Block { first: as_number(address) & mask(length), length }
    }

    /// One address.
    pub fn single(address: IpAddr) -> Block {
        Block { first: as_number(address), length: 128 }
    }

    /// What a stored block is made of again; bits beyond the length are cut.
    pub(crate) fn from_bits(first: u128, length: u8) -> Option<Block> {
        (length <= 128).then(|| Block { first: first & mask(length), length })
    }

    /// First and last address as numbers.
    pub fn range(&self) -> (u128, u128) {
        (self.first, self.first | !mask(self.length))
    }

    /// Leading bits in common, of 128; IPv4's begin with 96 that all have.
    pub fn length(&self) -> u8 {
        self.length
    }

    pub fn contains(&self, other: &Block) -> bool {
        self.length <= other.length && other.first & mask(self.length) == self.first
    }

    pub fn holds(&self, address: IpAddr) -> bool {
        self.contains(&Block::single(address))
    }

    /// The block twice as wide; `None` beyond all addresses of the family.
    pub fn wider(&self) -> Option<Block> {
        let is_all_of_four = self.length == 96 && self.first == MAPPED;
        let length = self.length.checked_sub(1).filter(|_| !is_all_of_four)?;
        Some(Block { first: self.first & mask(length), length })
    }

    /// The other half of the block twice as wide.
    pub fn twin(&self) -> Option<Block> {
        self.wider()?;
        Some(Block { first: self.first ^ (1 << (128 - u32::from(self.length))), ..*self })
    }

    /// Both halves; `None` of a single address.
    pub fn halves(&self) -> Option<[Block; 2]> {
        let length = self.length + 1;
        let low = Block { first: self.first, length };
        (self.length < 128)
            .then(|| [low, Block { first: self.first | 1 << (128 - u32::from(length)), length }])
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

impl FromStr for Block {
    type Err = Error;

    /// Reads `ADDRESS/LENGTH`, or one address.
    fn from_str(text: &str) -> Result<Block, Error> {
        let wrong = || Error::Block(text.to_string());
        let Some((address, length)) = text.trim().split_once('/') else {
            return text.trim().parse().map(Block::single).map_err(|_| wrong());
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.parse().ok().filter(|length| *length <= most).ok_or_else(wrong)?;
        Ok(Block::of(address, length))
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.first ^ MAPPED) {
            Ok(four) if self.length >= 96 => write!(f, "{}/{}", Ipv4Addr::from(four), self.length - 96),
            _ => write!(f, "{}/{}", Ipv6Addr::from(self.first), self.length),
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_are_read_and_written() {
        for (text, want) in [
            ("193.136.5.7/16", "193.136.0.0/16"),
            ("10.0.0.1", "10.0.0.1/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8:1::/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("::1", "::1/128"),
        ] {
            assert_eq!(block(text).to_string(), want);
        }
        for text in ["", "x", "1.2.3.4/33", "1.2.3/8", "::/129", "1.2.3.4/", "1.2.3.4/-1"] {
            assert!(text.parse::<Block>().is_err(), "{text}");
        }
    }

    #[test]
    fn blocks_nest() {
        let (wide, narrow) = (block("193.136.0.0/16"), block("193.136.8.0/21"));
        assert!(wide.contains(&narrow) && !narrow.contains(&wide) && wide < narrow);
        assert!(
            narrow.holds("193.136.15.255".parse().unwrap()) && !narrow.holds("193.136.16.0".parse().unwrap())
        );
        assert_eq!(block("10.0.2.0/23").twin(), Some(block("10.0.0.0/23")));
        assert_eq!(block("10.0.2.0/23").wider(), Some(block("10.0.0.0/22")));
        assert_eq!(block("10.0.0.0/22").halves(), Some([block("10.0.0.0/23"), block("10.0.2.0/23")]));
        assert_eq!(
            (block("0.0.0.0/0").wider(), block("::/0").twin(), block("::1").halves()),
            (None, None, None)
        );
    }
}
