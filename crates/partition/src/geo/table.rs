//! Tables of address ranges with their places, in the formats that are given away: DB-IP lite, IP2Location lite,
//! GeoLite2 and plain country tables, all as CSV.
//!
//! | format | columns |
//! |---|---|
//! | DB-IP city lite | first, last, continent, country, region, city, latitude, longitude |
//! | IP2Location lite DB5 | first, last (as numbers), country code, country, region, city, latitude, longitude |
//! | GeoLite2 city blocks | header; network, geoname_id, …, latitude, longitude, accuracy_radius |
//! | country tables | first, last, country code; the place is the middle of the country, handed in |

use super::Position;
use crate::{Block, Error};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Located {
    pub position: Option<Position>,
    /// ISO 3166 code, such as `PT`; `??` where unknown.
    pub country: [u8; 2],
}

/// Ranges of addresses and where they are.
#[derive(Clone, Debug, Default)]
pub struct GeoTable {
    /// First, last, place; in rising order. IPv4 stands as IPv4-mapped IPv6.
    ranges: Vec<(u128, u128, Located)>,
}

impl GeoTable {
    /// Reads a table; the format is told from its first line. `countries` says where the middles of countries are, for
    /// tables without coordinates.
    ///
    /// # Errors
    /// Names the first line that is not as the format wants it.
    pub fn read(text: &str, countries: &HashMap<[u8; 2], Position>) -> Result<GeoTable, Error> {
        let mut ranges = Vec::new();
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
        let is_geolite = lines.peek().is_some_and(|(_, line)| line.starts_with("network,"));
        let header: Vec<String> = if is_geolite {
            lines.next().map(|(_, line)| fields(line)).unwrap_or_default()
        } else {
            Vec::new()
        };
        let column = |name: &str| header.iter().position(|column| column == name);
        let (latitude, longitude) = (column("latitude"), column("longitude"));
        for (at, line) in lines {
            let fields = fields(line);
            let row = if is_geolite {
                geolite(&fields, latitude, longitude)
            } else {
                first_last(&fields, countries)
            };
            match row {
                Some(row) => ranges.push(row),
                None => {
                    let what = "it is no range of addresses with a place, in any format that is known";
                    return Err(Error::Line { line: at + 1, what: what.to_string() });
                }
            }
        }
        Ok(GeoTable::of_ranges(ranges))
    }

    /// A table of ranges, first and last address as numbers (IPv4 as IPv4-mapped IPv6); in any order.
    pub fn of_ranges(mut ranges: Vec<(u128, u128, Located)>) -> GeoTable {
        ranges.retain(|(first, last, _)| first <= last);
        ranges.sort_by_key(|(first, last, _)| (*first, std::cmp::Reverse(*last)));
        GeoTable { ranges }
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Where an address is. Of ranges that overlap, the one that starts last counts.
    pub fn find(&self, address: IpAddr) -> Option<Located> {
        let number = as_number(address);
        let at = self.ranges.partition_point(|(first, ..)| *first <= number);
        // Ranges seldom overlap, and never deeply.
        let before = self.ranges[..at].iter().rev().take(8);
        before.filter(|(_, last, _)| number <= *last).map(|(.., located)| *located).next()
    }
}

impl GeoTable {
    /// Blocks that tile the ranges of a country, as few as can be, in rising order.
    pub fn blocks_of(&self, country: [u8; 2]) -> Vec<Block> {
        let mut blocks = Vec::new();
        let own = self.ranges.iter().filter(|(.., located)| located.country == country);
        for (first, last, _) in own {
            let mut at = *first;
            loop {
                // The widest block that begins here and ends within the range.
                let aligned = at.trailing_zeros().min(127);
                let fits = (last - at).checked_add(1).map_or(127, |count| count.ilog2());
                let bits = aligned.min(fits);
                blocks.extend(Block::from_bits(at, 128 - bits as u8));
                match at.checked_add(1 << bits) {
                    Some(next) if next <= *last => at = next,
                    _ => break,
                }
            }
        }
        blocks
    }
}

/// Any address as one number, IPv4 as IPv4-mapped IPv6.
pub(crate) fn as_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(four.to_ipv6_mapped()),
        IpAddr::V6(six) => u128::from(six),
    }
}

fn geolite(
    fields: &[String],
    latitude: Option<usize>,
    longitude: Option<usize>,
) -> Option<(u128, u128, Located)> {
    let block: Block = fields.first()?.parse().ok()?;
    let number = |at: Option<usize>| fields.get(at?)?.parse::<f64>().ok();
    let position = number(latitude).zip(number(longitude)).and_then(|(lat, long)| Position::new(lat, long));
    let (first, last) = block.range();
    Some((first, last, Located { position, country: *b"??" }))
}

fn first_last(fields: &[String], countries: &HashMap<[u8; 2], Position>) -> Option<(u128, u128, Located)> {
    let address = |text: &String| match text.parse::<IpAddr>() {
        Ok(address) => Some(as_number(address)),
        // IP2Location writes addresses as numbers.
        Err(_) => {
            let number: u128 = text.parse().ok()?;
            Some(match u32::try_from(number) {
                Ok(four) => u128::from(Ipv4Addr::from(four).to_ipv6_mapped()),
                Err(_) => u128::from(Ipv6Addr::from(number)),
            })
        }
    };
    let (first, last) = (address(fields.first()?)?, address(fields.get(1)?)?);
    let code = |at: usize| fields.get(at).and_then(|text| <[u8; 2]>::try_from(text.as_bytes()).ok());
    let number = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    let (country, position) = match fields.len() {
        3 | 4 => (code(2)?, countries.get(&code(2)?).copied()),
        8.. => {
            // DB-IP has a continent before the country, IP2Location the country's name after it.
            let country = if code(3).is_some() { code(3) } else { code(2) };
            let position = number(6).zip(number(7)).and_then(|(lat, long)| Position::new(lat, long));
            (country.unwrap_or(*b"??"), position)
        }
        _ => return None,
    };
    (first <= last).then_some((first, last, Located { position, country }))
}

/// The fields of a line of CSV; quotes may hold commas, two quotes are one.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.trim_end_matches('\r').chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn countries() -> HashMap<[u8; 2], Position> {
        HashMap::from([(*b"PT", Position::new(39.5, -8.0).unwrap())])
    }

    #[track_caller]
    fn check(text: &str, address: &str, country: &[u8; 2], latitude: Option<f64>) {
        let table = GeoTable::read(text, &countries()).unwrap();
        let found = table.find(address.parse().unwrap()).unwrap();
        assert_eq!(&found.country, country);
        assert_eq!(found.position.map(Position::latitude), latitude);
    }

    #[test]
    fn every_format_is_read() {
        check("1.0.0.0,1.0.0.255,PT\n", "1.0.0.7", b"PT", Some(39.5));
        check(
            "1.0.0.0,1.0.0.255,OC,AU,Queensland,\"South, Brisbane\",-27.4,153.0\n",
            "1.0.0.7",
            b"AU",
            Some(-27.4),
        );
        check(
            "\"16777216\",\"16777471\",\"AU\",\"Australia\",\"Queensland\",\"Brisbane\",\"-27.4\",\"153.0\"\n",
            "1.0.0.7",
            b"AU",
            Some(-27.4),
        );
        let geolite = "network,geoname_id,latitude,longitude,accuracy_radius\n2001:db8::/32,7,41.8,-6.7,5\n";
        check(geolite, "2001:db8:1::1", b"??", Some(41.8));
        check("2001:db8::,2001:db8::ffff,ZZ\n", "2001:db8::1", b"ZZ", None);
    }

    #[test]
    fn a_narrower_range_wins_and_gaps_are_unknown() {
        let text = "1.0.0.0,1.255.255.255,FR\n1.2.0.0,1.2.0.255,PT\n";
        let table = GeoTable::read(text, &countries()).unwrap();
        assert_eq!(table.find("1.2.0.9".parse().unwrap()).unwrap().country, *b"PT");
        assert_eq!(table.find("1.3.0.9".parse().unwrap()).unwrap().country, *b"FR");
        assert_eq!(table.find("2.0.0.0".parse().unwrap()), None);
        assert_eq!(GeoTable::default().find("::1".parse().unwrap()), None);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for line in ["x,y,z", "1.0.0.9,1.0.0.1,PT", "1.0.0.0", "1.0.0.0,1.0.0.1", "1.0.0.0,1.0.0.1,PORTUGAL"]
        {
            let error = GeoTable::read(&format!("1.0.0.0,1.0.0.1,PT\n{line}\n"), &countries()).unwrap_err();
            assert!(error.to_string().starts_with("line 2: "), "{line}: {error}");
        }
    }

    /// Races a look-up of every address.
    #[test]
    fn the_blocks_of_a_country_tile_its_ranges() {
        let text = "10.0.0.3,10.0.0.9,PT\n10.0.0.16,10.0.1.255,PT\n10.0.2.0,10.0.2.0,ES\n::,::ff,PT\n";
        let table = GeoTable::read(text, &countries()).unwrap();
        let blocks = table.blocks_of(*b"PT");
        for n in 0..800u32 {
            let address = IpAddr::from((0x0A00_0000 + n).to_be_bytes());
            let holding = blocks.iter().filter(|block| block.holds(address)).count();
            let located = table.find(address).is_some_and(|located| located.country == *b"PT");
            assert_eq!(holding, usize::from(located), "{address}");
        }
        let texts: Vec<String> = blocks.iter().map(Block::to_string).collect();
        assert_eq!(texts[..5], ["::/120", "10.0.0.3/32", "10.0.0.4/30", "10.0.0.8/31", "10.0.0.16/28"]);
        let all = GeoTable::read("0.0.0.0,255.255.255.255,PT\n", &countries()).unwrap();
        assert_eq!(all.blocks_of(*b"PT").iter().map(Block::to_string).collect::<Vec<_>>(), ["0.0.0.0/0"]);
        assert!(all.blocks_of(*b"ES").is_empty());
    }
}
