//! The compact form in which tables travel and rest; docs/formats/routing.md draws it.

use super::{Block, Exception, Filter, RoutingTable, Unknown};
use crate::Error;
use farol_base::fingerprint::hash64;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const MAGIC: &[u8; 8] = b"FAROLRTE";
const FORMAT: u32 = 1;
/// Longest name of a destination or domain.
const NAME_BYTES_MAX: usize = 4096;

/// Writes a table.
pub fn write(table: &RoutingTable) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&table.version.to_le_bytes());
    out.push(u8::from(table.unknown == Unknown::Hash));
    number(&mut out, table.destinations.len() as u128);
    table.destinations.iter().for_each(|name| text(&mut out, name));
    number(&mut out, table.blocks.len() as u128);
    let mut before = 0;
    for (block, owner) in &table.blocks {
        put_block(&mut out, block, &mut before);
        number(&mut out, u128::from(*owner));
    }
    number(&mut out, table.hosts.len() as u128);
    let mut before = 0;
    for (key, exception) in &table.hosts {
        number(&mut out, u128::from(key - before));
        before = *key;
        number(&mut out, u128::from(exception.owner));
        match exception.address {
            None => out.push(0),
            Some(IpAddr::V4(four)) => {
                out.push(4);
                out.extend_from_slice(&four.octets());
            }
            Some(IpAddr::V6(six)) => {
                out.push(6);
                out.extend_from_slice(&six.octets());
            }
        }
    }
    number(&mut out, table.filters.len() as u128);
    for (filter, owner) in &table.filters {
        match filter {
            Filter::Domain(name) => {
                out.push(0);
                text(&mut out, name);
            }
            Filter::Block(block) => {
                out.push(1);
                put_block(&mut out, block, &mut 0);
            }
        }
        number(&mut out, u128::from(*owner));
    }
    let sum = hash64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Reads a table.
///
/// # Errors
/// Where the bytes are no table, of another format, or damaged.
pub fn read(bytes: &[u8]) -> Result<RoutingTable, Error> {
    let (content, sum) = bytes.split_last_chunk::<8>().ok_or(Error::Table("it is too short"))?;
    if !content.starts_with(MAGIC) {
        return Err(Error::Table("it does not begin as a table does"));
    }
    let mut rest = Rest(&content[MAGIC.len()..]);
    let found = u32::from_le_bytes(rest.take()?);
    if found != FORMAT {
        return Err(Error::Format { found, known: FORMAT });
    }
    if hash64(content) != u64::from_le_bytes(*sum) {
        return Err(Error::Table("its checksum is wrong"));
    }
    let version = u64::from_le_bytes(rest.take()?);
    let unknown = if rest.byte()? == 1 { Unknown::Hash } else { Unknown::Hold };
    let mut destinations = Vec::new();
    for _ in 0..rest.number()? {
        destinations.push(rest.text()?);
    }
    let mut blocks = BTreeMap::new();
    let mut before = 0;
    for _ in 0..rest.number()? {
        let block = rest.block(&mut before)?;
        blocks.insert(block, rest.owner()?);
    }
    let mut hosts = BTreeMap::new();
    let mut key = 0u64;
    for _ in 0..rest.number()? {
        let step = u64::try_from(rest.number()?).map_err(|_| Error::Table("a host is out of order"))?;
        key = key.checked_add(step).ok_or(Error::Table("a host is out of order"))?;
        let owner = rest.owner()?;
        let address = match rest.byte()? {
            0 => None,
            4 => Some(IpAddr::V4(Ipv4Addr::from(rest.take::<4>()?))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(rest.take::<16>()?))),
            _ => return Err(Error::Table("an address is of no known kind")),
        };
        hosts.insert(key, Exception { owner, address });
    }
    let mut filters = Vec::new();
    for _ in 0..rest.number()? {
        let filter = match rest.byte()? {
            0 => Filter::Domain(rest.text()?),
            1 => Filter::Block(rest.block(&mut 0)?),
            _ => return Err(Error::Table("a filter is of no known kind")),
        };
        filters.push((filter, rest.owner()?));
    }
    if !rest.0.is_empty() {
        return Err(Error::Table("something follows its end"));
    }
    let table = RoutingTable { version, unknown, destinations, blocks, hosts, filters };
    table.check()?;
    Ok(table)
}

/// Seven bits a byte, the lowest first; the top bit says that more follow.
fn number(out: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u128);
    out.extend_from_slice(text.as_bytes());
}

/// Length, then the first address without its trailing zeros, as the step from the block before.
fn put_block(out: &mut Vec<u8>, block: &Block, before: &mut u128) {
    let first = block.range().0;
    out.push(block.length());
    number(out, first - *before);
    *before = first;
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Error::Table("it ends too soon"))?;
        self.0 = tail;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8, Error> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u128, Error> {
        let mut number = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            number |= u128::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Error::Table("a number is too long"))
    }

    fn owner(&mut self) -> Result<u32, Error> {
        u32::try_from(self.number()?).map_err(|_| Error::Table("an owner is out of range"))
    }

    fn block(&mut self, before: &mut u128) -> Result<Block, Error> {
        let length = self.byte()?;
        let first = before.checked_add(self.number()?).ok_or(Error::Table("a block is out of order"))?;
        *before = first;
        Block::from_bits(first, length).ok_or(Error::Table("a block is longer than an address"))
    }

    fn text(&mut self) -> Result<String, Error> {
        let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if length > NAME_BYTES_MAX || length > self.0.len() {
            return Err(Error::Table("a name is too long"));
        }
        let (head, tail) = self.0.split_at(length);
        self.0 = tail;
        String::from_utf8(head.to_vec()).map_err(|_| Error::Table("a name is no text"))
    }
}
