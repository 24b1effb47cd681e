//! Where servers stand, by a table of address blocks that the operator supplies.
//!
//! A line is `BLOCK,COUNTRY` or `FIRST,LAST,COUNTRY`, with latitude and longitude after that where they are known; `#` begins
//! a comment. Of blocks that lie in one another the narrowest counts.

use anyhow::{Context, Result, anyhow, bail};
use farol_federation::Facts;
use farol_federation::view::geo::Place;
use farol_partition::Position;
use farol_partition::geo::{GeoTable, Located};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// What the table says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    pub country: [u8; 2],
    pub place: Option<Place>,
}

/// A table of blocks.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Disjoint: where each begins, where it ends, and what stands there.
    blocks: BTreeMap<u128, (u128, Whereabouts)>,
}

impl Places {
    pub fn read(path: &Path) -> Result<Places> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the table of places {}", path.display()))?;
        Places::parse(&text).with_context(|| format!("in the table of places {}", path.display()))
    }

    pub fn parse(text: &str) -> Result<Places> {
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                rows.push(row(line).with_context(|| format!("line {}", number + 1))?);
            }
        }
        // The widest first, so that what comes later is cut out of it.
        rows.sort_by_key(|(first, last, _)| std::cmp::Reverse(last - first));
        let mut places = Places::default();
        for (first, last, what) in rows {
            places.put(first, last, what);
        }
        Ok(places)
    }

    /// What stands at an address, if the table knows.
    pub fn of(&self, address: IpAddr) -> Option<Whereabouts> {
        let address = number(address);
        let (_, (last, what)) = self.blocks.range(..=address).next_back()?;
        (address <= *last).then_some(*what)
    }

    /// The same for the partitioner.
    pub fn geo_table(&self) -> GeoTable {
        let located = |what: &Whereabouts| Located {
            position: what
                .place
                .and_then(|place| Position::new(f64::from(place.lat) / 1e4, f64::from(place.lon) / 1e4)),
            country: what.country.map(|byte| byte.to_ascii_uppercase()),
        };
        let ranges = self.blocks.iter().map(|(first, (last, what))| (*first, *last, located(what)));
        GeoTable::of_ranges(ranges.collect())
    }

    /// What is known of a page, and where its server stands.
    pub fn facts_at(&self, facts: Facts, address: IpAddr) -> Facts {
        let found = self.of(address);
        let facts = facts.address(address).country(found.map(|found| found.country));
        match found.and_then(|found| found.place) {
            Some(place) => facts.place(place),
            None => facts,
        }
    }

    fn put(&mut self, first: u128, last: u128, what: Whereabouts) {
        let over: Vec<(u128, (u128, Whereabouts))> = self
            .blocks
            .range(..=last)
            .rev()
            .take_while(|(_, (end, _))| *end >= first)
            .map(|(start, rest)| (*start, *rest))
            .collect();
        for (start, (end, old)) in over {
            self.blocks.remove(&start);
            if start < first {
                self.blocks.insert(start, (first - 1, old));
            }
            if end > last {
                self.blocks.insert(last + 1, (end, old));
            }
        }
        self.blocks.insert(first, (last, what));
    }
}

fn row(line: &str) -> Result<(u128, u128, Whereabouts)> {
    let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
    let (first, last, rest) = match fields[0].split_once('/') {
        Some((address, bits)) => {
            let address: IpAddr = address.parse().map_err(|_| anyhow!("{address:?} is no address"))?;
            let most = if address.is_ipv4() { 32u32 } else { 128 };
            let bits: u32 =
                bits.parse().ok().filter(|bits| *bits <= most).context("a block has too many bits")?;
            let below = u128::MAX.checked_shr(128 - (most - bits)).unwrap_or(0);
            (number(address) & !below, number(address) | below, &fields[1..])
        }
        None if fields.len() >= 2 => {
            let address = |field: &str| {
                field
                    .parse::<IpAddr>()
                    .map(number)
                    .map_err(|_| anyhow!("{field:?} is neither a block nor an address"))
            };
            (address(fields[0])?, address(fields[1])?, &fields[2..])
        }
        None => bail!("{:?} is neither a block nor a range", fields[0]),
    };
    if first > last {
        bail!("the range ends before it begins");
    }
    let country = rest.first().map(|code| code.to_ascii_lowercase());
    let country = country.and_then(|code| <[u8; 2]>::try_from(code.as_bytes()).ok());
    let country = country.filter(|code| code.iter().all(u8::is_ascii_lowercase));
    let country = country.context("the country is not two letters")?;
    let place = match rest.get(1..3) {
        Some([lat, lon]) if !lat.is_empty() => {
            let place = lat.parse().ok().zip(lon.parse().ok()).and_then(|(lat, lon)| Place::at(lat, lon));
            Some(place.with_context(|| format!("{lat},{lon} is no place in degrees"))?)
        }
        _ => None,
    };
    Ok((first, last, Whereabouts { country, place }))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(four.to_ipv6_mapped()),
        IpAddr::V6(six) => u128::from(six),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_block_counts() {
        let table = "# ours\n193.136.0.0/15,PT\n193.137.20.0,193.137.20.9,es,42.24,-8.72\n0.0.0.0/0,zz\n2001:db8::/32,pt\n";
        let places = Places::parse(table).unwrap();
        let country = |address: &str| {
            places
                .of(address.parse().unwrap())
                .map(|found| String::from_utf8(found.country.to_vec()).unwrap())
        };
        for (address, want) in [
            ("193.136.0.0", Some("pt")),
            ("193.137.20.0", Some("es")),
            ("193.137.20.9", Some("es")),
            ("193.137.20.10", Some("pt")),
            ("193.138.0.0", Some("zz")),
            ("2001:db8:ffff::1", Some("pt")),
            ("2001:db9::1", None),
        ] {
            assert_eq!(country(address).as_deref(), want, "{address}");
        }
        let place = places.of("193.137.20.5".parse().unwrap()).unwrap().place;
        assert_eq!(place, Place::at(42.24, -8.72));
        let found = places.geo_table().find("193.137.20.5".parse().unwrap()).unwrap();
        assert_eq!((found.country, found.position), (*b"ES", Position::new(42.24, -8.72)));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for line in [
            "193.136.0.0/33,pt",
            "x,pt",
            "193.136.0.0/16,Portugal",
            "2.0.0.0,1.0.0.0,pt",
            "1.0.0.0/8,pt,north,5",
        ] {
            let error = format!("{:#}", Places::parse(&format!("10.0.0.0/8,br\n{line}\n")).unwrap_err());
            assert!(error.contains("line 2"), "{line}: {error}");
        }
    }
}
