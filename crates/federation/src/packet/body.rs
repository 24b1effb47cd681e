//! The inside of a packet: sections of engines, hosts, words, pages, and of what is gone.

use super::words::{ReadWords, WordList};
use super::{
    Body, ENTRIES_MAX, Flags, Gone, GoneReason, Header, LEAD_BYTES_MAX, LINKS_MAX, Outside, PacketError,
    PageEntry, ReadBody, Texts, VIA_MAX, grade_number, grade_of,
};
use crate::agreement::{EngineId, Grade};
use farol_base::codec::{DecodeError, Decoder, put_bytes, put_varint};
use farol_base::{CanonicalUrl, ContentHash, Host, Language, Link, Timestamp};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

const ENGINES: u8 = 1;
const HOSTS: u8 = 2;
const WORDS: u8 = 3;
const PAGES: u8 = 4;
const GONE: u8 = 5;
const OUTSIDE: u8 = 6;
const CENSUS: u8 = 7;
/// Kinds of sections and of fields behind a page from here on may not be skipped by who does not know them.
const MANDATORY: u8 = 128;

/// Fields behind a page.
const REST: u8 = 1;
const ADDRESS: u8 = 2;
const MEDIA_TYPE: u8 = 3;

/// Engines of a packet: as many as any page's way may have, for each of its pages. Nobody needs more than a few.
const ENGINES_MAX: usize = 1024;
/// Views that a sender tells the size of.
const CENSUS_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 256;
const FILE_TYPE_BYTES_MAX: usize = 64;
/// What addresses and texts that are named by number may come to, beyond a multiple of the body: names may be long, and
/// their numbers are short.
const ROOM_BYTES: usize = 1 << 20;
const ROOM_RATIO: usize = 16;
/// What an address takes in memory besides its text.
const ADDRESS_BYTES: usize = 48;
/// Dates that are not known.
const UNDATED: u64 = u64::MAX;
const NO_LANGUAGE: [u8; 2] = [0, 0];

/// How many pages of a view the sender knows, and has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// The view, as text.
    pub view: String,
    /// Pages that it knows of.
    pub known: u64,
    /// Pages that it has.
    pub collected: u64,
}

impl Body {
    /// How many pages, gone pages, and addresses outside there are.
    pub fn counts(&self) -> [usize; 3] {
        [self.pages.len(), self.gone.len(), self.outside.len()]
    }

    /// Writes the body, unpacked.
    pub fn encode(&self, grade: Grade) -> Vec<u8> {
        let mut tables = Tables::default();
        self.engines.iter().for_each(|(engine, name)| tables.engine_named(*engine, name));
        for page in &self.pages {
            tables.engine_named(page.origin, "");
            page.via.iter().for_each(|via| tables.engine_named(*via, ""));
        }
        let words = match grade {
            Grade::Words => WordList::of(self.pages.iter().map(|page| &page.texts)),
            Grade::Text => WordList::default(),
        };
        let mut pages = Vec::new();
        for page in &self.pages {
            put_entry(&mut pages, |out| tables.write_page(page, grade, &words, out));
        }
        let mut gone = Vec::new();
        for one in &self.gone {
            put_entry(&mut gone, |out| {
                tables.write_url(&one.url, out);
                out.extend(one.at.as_millis().to_le_bytes());
                let number = GoneReason::ALL.iter().position(|reason| *reason == one.reason).unwrap_or(0);
                out.push(number as u8 + 1);
            });
        }
        let mut outside = Vec::new();
        for one in &self.outside {
            put_entry(&mut outside, |out| {
                tables.write_url(&one.url, out);
                out.extend(one.at.as_millis().to_le_bytes());
            });
        }
        let mut census = Vec::new();
        put_varint(&mut census, self.census.len() as u64);
        for one in &self.census {
            put_bytes(&mut census, one.view.as_bytes());
            put_varint(&mut census, one.known);
            put_varint(&mut census, one.collected);
        }
        let sections = [
            (ENGINES, tables.engines(), !tables.engine_list.is_empty()),
            (HOSTS, tables.hosts(), !tables.host_list.is_empty()),
            (WORDS, words.write(), !words.is_empty()),
            (PAGES, pages, !self.pages.is_empty()),
            (GONE, gone, !self.gone.is_empty()),
            (OUTSIDE, outside, !self.outside.is_empty()),
            (CENSUS, census, !self.census.is_empty()),
        ];
        let mut out = Vec::new();
        for (kind, bytes, _) in sections.iter().filter(|(.., is_there)| *is_there) {
            out.push(*kind);
            put_bytes(&mut out, bytes);
        }
        out
    }

    /// Reads an unpacked body, and sees that it has what the header says.
    ///
    /// # Errors
    /// Where anything but the spelling of an address is not as it is written.
    pub fn decode(bytes: &[u8], header: &Header) -> Result<ReadBody, PacketError> {
        if bytes.len() != header.unpacked {
            return Err(PacketError::Count { what: "bytes", said: header.unpacked, there: bytes.len() });
        }
        let (read, counts) = read(bytes, header.start.grade).map_err(PacketError::Body)?;
        let said = [("pages", header.pages), ("gone pages", header.gone), ("addresses", header.outside)];
        for ((what, said), there) in said.into_iter().zip(counts) {
            if said != there {
                return Err(PacketError::Count { what, said, there });
            }
        }
        match read.body.engines.first() {
            Some((sender, _)) if *sender != header.start.sender => {
                Err(PacketError::Body("its first engine is not its sender"))
            }
            _ => Ok(read),
        }
    }
}

/// Number of the layout of archived entries.
const RECORD: u8 = 1;

/// Writes one page, or one gone page, as it is archived: a body of its own behind three fields.
pub fn write_record(body: &Body, grade: Grade, analysis: u32) -> Vec<u8> {
    let mut out = vec![RECORD, grade_number(grade)];
    out.extend(analysis.to_le_bytes());
    out.extend(body.encode(grade));
    out
}

/// Reads what [`write_record`] wrote: a body with one entry, its grade, and its analysis.
///
/// # Errors
/// Where the bytes are no such thing.
pub fn read_record(bytes: &[u8]) -> Result<(Body, Grade, u32), PacketError> {
    let mut from = Decoder::of(bytes);
    if from.byte().map_err(PacketError::Body)? != RECORD {
        return Err(PacketError::Body("an archived page of a later layout"));
    }
    let grade = grade_of(from.byte().map_err(PacketError::Body)?)?;
    let analysis = from.u32().map_err(PacketError::Body)?;
    let (read, counts) = read(&bytes[bytes.len() - from.len()..], grade).map_err(PacketError::Body)?;
    match (counts, read.unreadable) {
        ([1, 0, 0] | [0, 1, 0], 0) => Ok((read.body, grade, analysis)),
        _ => Err(PacketError::Body("an archived page that is not one page")),
    }
}

/// What entries name by number.
#[derive(Default)]
struct Tables<'a> {
    engine_list: Vec<(EngineId, &'a str)>,
    engine_numbers: HashMap<EngineId, u64>,
    host_list: Vec<&'a str>,
    host_numbers: HashMap<&'a str, u64>,
}

impl<'a> Tables<'a> {
    fn engine_named(&mut self, engine: EngineId, name: &'a str) {
        if !self.engine_numbers.contains_key(&engine) {
            self.engine_numbers.insert(engine, self.engine_list.len() as u64);
            self.engine_list.push((engine, name));
        }
    }

    fn engine(&self, engine: EngineId) -> u64 {
        self.engine_numbers.get(&engine).copied().unwrap_or(0)
    }

    fn write_url(&mut self, url: &'a CanonicalUrl, out: &mut Vec<u8>) {
        let next = self.host_list.len() as u64;
        let number = *self.host_numbers.entry(url.host_str()).or_insert(next);
        if number == next {
            self.host_list.push(url.host_str());
        }
        put_varint(out, number);
        put_bytes(out, url.path_and_query().as_bytes());
    }

    fn write_page(&mut self, page: &'a PageEntry, grade: Grade, words: &WordList<'_>, out: &mut Vec<u8>) {
        self.write_url(&page.url, out);
        put_varint(out, self.engine(page.origin));
        let via = &page.via[..page.via.len().min(VIA_MAX)];
        put_varint(out, via.len() as u64);
        via.iter().for_each(|engine| put_varint(out, self.engine(*engine)));
        out.extend(page.fetched.as_millis().to_le_bytes());
        out.extend(page.dated.map_or(UNDATED, Timestamp::as_millis).to_le_bytes());
        let code = page.language.as_ref().and_then(|language| language.code().as_bytes().try_into().ok());
        out.extend(code.unwrap_or(NO_LANGUAGE));
        let links = &page.links[..page.links.len().min(LINKS_MAX)];
        let cut = page.flags.cut || links.len() < page.links.len();
        out.push(Flags { cut, ..page.flags }.to_byte());
        put_varint(out, u64::from(page.hops));
        put_varint(out, page.size);
        out.extend(page.content_hash.0.to_le_bytes());
        out.extend(page.simhash.to_le_bytes());
        put_bytes(out, page.file_type.as_bytes());
        let texts = &page.texts;
        put_bytes(out, texts.title.as_bytes());
        let mut rest = Vec::new();
        match grade {
            Grade::Text => {
                for text in [&texts.description, &texts.headings, &texts.body] {
                    put_bytes(out, text.as_bytes());
                }
                rest.extend(texts.rest.as_bytes());
            }
            Grade::Words => {
                put_bytes(out, texts.lead.as_bytes());
                for text in [&texts.title_words, &texts.description, &texts.headings, &texts.body] {
                    words.write_text(text, out);
                }
                words.write_text(&texts.rest, &mut rest);
            }
        }
        put_varint(out, links.len() as u64);
        for link in links {
            self.write_url(&link.url, out);
            out.push(u8::from(link.nofollow));
            put_bytes(out, link.anchor.as_bytes());
        }
        if !texts.rest.is_empty() {
            out.push(REST);
            put_bytes(out, &rest);
        }
        if let Some(address) = page.address {
            out.push(ADDRESS);
            put_bytes(out, &mapped(address).octets());
        }
        if let Some(media_type) = &page.media_type {
            out.push(MEDIA_TYPE);
            put_bytes(out, media_type.as_bytes());
        }
    }

    fn engines(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.engine_list.len() as u64);
        for (engine, name) in &self.engine_list {
            out.extend(engine.0);
            put_bytes(&mut out, name.as_bytes());
        }
        out
    }

    fn hosts(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.host_list.len() as u64);
        self.host_list.iter().for_each(|host| put_bytes(&mut out, host.as_bytes()));
        out
    }
}

/// Appends an entry behind its length.
fn put_entry(section: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut entry = Vec::new();
    write(&mut entry);
    put_bytes(section, &entry);
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The sections of a body, and what they name.
#[derive(Default)]
struct Sections<'a> {
    engines: Vec<(EngineId, String)>,
    /// `None` where the name is no host by today's rules.
    hosts: Vec<Option<Host>>,
    words: ReadWords<'a>,
    /// Bytes that addresses, and texts made of numbers, may still take.
    room: usize,
    unreadable: usize,
}

/// A body, and how many pages, gone pages and addresses outside stood in it, readable or not.
fn read(bytes: &[u8], grade: Grade) -> Result<(ReadBody, [usize; 3]), DecodeError> {
    let room = ROOM_BYTES + ROOM_RATIO * bytes.len();
    let mut sections = Sections { room, ..Sections::default() };
    let mut body = Body::default();
    let mut counts = [0; 3];
    let mut from = Decoder::of(bytes);
    let mut before = 0;
    while !from.is_empty() {
        let kind = from.byte()?;
        let section = from.bytes()?;
        if kind <= before {
            return Err("its sections are not in order");
        }
        before = kind;
        match kind {
            ENGINES => sections.engines = read_engines(section)?,
            HOSTS => sections.hosts = read_hosts(section)?,
            WORDS => sections.words = ReadWords::read(section)?,
            PAGES => {
                let read = |entry: &mut Decoder<'_>| sections.page(entry, grade);
                counts[0] = entries(section, &mut body.pages, read)?;
            }
            GONE => counts[1] = entries(section, &mut body.gone, |entry| sections.gone(entry))?,
            OUTSIDE => counts[2] = entries(section, &mut body.outside, |entry| sections.outside(entry))?,
            CENSUS => body.census = read_census(section)?,
            kind if kind >= MANDATORY => return Err("a section that must be understood, of a newer Farol"),
            _ => {}
        }
    }
    body.engines = sections.engines;
    Ok((ReadBody { body, unreadable: sections.unreadable }, counts))
}

/// Reads each entry of a section; answers how many there were.
fn entries<T>(
    section: &[u8],
    into: &mut Vec<T>,
    mut read: impl FnMut(&mut Decoder<'_>) -> Result<Option<T>, DecodeError>,
) -> Result<usize, DecodeError> {
    let mut from = Decoder::of(section);
    let mut count = 0;
    while !from.is_empty() {
        count += 1;
        if count > ENTRIES_MAX {
            return Err("too many entries");
        }
        let mut entry = Decoder::of(from.bytes()?);
        into.extend(read(&mut entry)?);
        if !entry.is_empty() {
            return Err("an entry that is longer than its fields");
        }
    }
    Ok(count)
}

fn read_engines(section: &[u8]) -> Result<Vec<(EngineId, String)>, DecodeError> {
    let mut from = Decoder::of(section);
    let count: usize = from.varint_as()?;
    if count > ENGINES_MAX {
        return Err("too many engines");
    }
    let mut engines = Vec::with_capacity(count);
    for _ in 0..count {
        engines.push((EngineId(from.fixed()?), short(&mut from, NAME_BYTES_MAX)?.to_string()));
    }
    end(&from)?;
    Ok(engines)
}

fn read_hosts(section: &[u8]) -> Result<Vec<Option<Host>>, DecodeError> {
    let mut from = Decoder::of(section);
    let count: usize = from.varint_as()?;
    if count > section.len() {
        return Err("a list of more hosts than there are bytes");
    }
    let mut hosts = Vec::with_capacity(count);
    for _ in 0..count {
        let text = from.text()?;
        hosts.push(Host::parse(text).ok().filter(|host| host.as_str() == text));
    }
    end(&from)?;
    Ok(hosts)
}

fn read_census(section: &[u8]) -> Result<Vec<Census>, DecodeError> {
    let mut from = Decoder::of(section);
    let count: usize = from.varint_as()?;
    if count > CENSUS_MAX {
        return Err("too many views");
    }
    let mut census = Vec::with_capacity(count);
    for _ in 0..count {
        let view = short(&mut from, 8 << 10)?.to_string();
        census.push(Census { view, known: from.varint()?, collected: from.varint()? });
    }
    end(&from)?;
    Ok(census)
}

fn end(from: &Decoder<'_>) -> Result<(), DecodeError> {
    if from.is_empty() { Ok(()) } else { Err("a section that is longer than its fields") }
}

fn short<'a>(from: &mut Decoder<'a>, bytes_max: usize) -> Result<&'a str, DecodeError> {
    let text = from.text()?;
    if text.len() > bytes_max { Err("a text that is too long") } else { Ok(text) }
}

impl Sections<'_> {
    /// An address; `None` where it is none by today's rules.
    fn url(&mut self, from: &mut Decoder<'_>) -> Result<Option<CanonicalUrl>, DecodeError> {
        let number: usize = from.varint_as()?;
        let path = from.text()?;
        let host = self.hosts.get(number).ok_or("a host that is not in the list")?;
        let Some(host) = host else { return Ok(None) };
        let bytes = host.as_str().len() + path.len() + ADDRESS_BYTES;
        self.room = self.room.checked_sub(bytes).ok_or("addresses that are too long together")?;
        Ok(host.stored_page(path).ok())
    }

    fn engine(&self, from: &mut Decoder<'_>) -> Result<EngineId, DecodeError> {
        let number: usize = from.varint_as()?;
        Ok(self.engines.get(number).ok_or("an engine that is not in the list")?.0)
    }

    fn page(&mut self, from: &mut Decoder<'_>, grade: Grade) -> Result<Option<PageEntry>, DecodeError> {
        let url = self.url(from)?;
        let origin = self.engine(from)?;
        let hops: usize = from.varint_as()?;
        if hops > VIA_MAX {
            return Err("a page that came by too many engines");
        }
        let via = (0..hops).map(|_| self.engine(from)).collect::<Result<_, _>>()?;
        let fetched = Timestamp::from_millis(from.u64()?);
        let dated = Some(from.u64()?).filter(|at| *at != UNDATED).map(Timestamp::from_millis);
        let language = match from.fixed::<2>()? {
            NO_LANGUAGE => None,
            code => Some(
                (std::str::from_utf8(&code).ok().and_then(Language::parse))
                    .ok_or("a language that is none")?,
            ),
        };
        let flags = Flags::from_byte(from.byte()?);
        let hops = from.varint_as()?;
        let size = from.varint()?;
        let content_hash = ContentHash(from.u128()?);
        let simhash = from.u64()?;
        let file_type = short(from, FILE_TYPE_BYTES_MAX)?.to_string();
        let mut texts = self.texts(from, grade)?;
        let links = self.links(from)?;
        let (mut address, mut media_type) = (None, None);
        let mut before = 0;
        while !from.is_empty() {
            let kind = from.byte()?;
            let field = from.bytes()?;
            if kind <= before {
                return Err("fields of a page that are not in order");
            }
            before = kind;
            let mut field = Decoder::of(field);
            match kind {
                REST if grade == Grade::Text => texts.rest = whole_text(&mut field)?,
                REST => texts.rest = self.words.read_text(&mut field, &mut self.room)?,
                ADDRESS => address = Some(Ipv6Addr::from(field.fixed::<16>()?).to_canonical()),
                MEDIA_TYPE => media_type = Some(whole_text(&mut field)?),
                kind if kind >= MANDATORY => return Err("a field that must be understood, of a newer Farol"),
                _ => continue,
            }
            if !field.is_empty() {
                return Err("a field that is longer than it should be");
            }
        }
        let Some(url) = url else {
            self.unreadable += 1;
            return Ok(None);
        };
        Ok(Some(PageEntry {
            url,
            origin,
            via,
            fetched,
            dated,
            language,
            flags,
            hops,
            size,
            content_hash,
            simhash,
            file_type,
            media_type,
            address,
            texts,
            links,
        }))
    }

    fn texts(&mut self, from: &mut Decoder<'_>, grade: Grade) -> Result<Texts, DecodeError> {
        let title = from.text()?.to_string();
        if grade == Grade::Text {
            let [description, headings, body] =
                [from.text()?, from.text()?, from.text()?].map(str::to_string);
            return Ok(Texts { title, description, headings, body, ..Texts::default() });
        }
        let lead = short(from, LEAD_BYTES_MAX)?.to_string();
        let mut next = || self.words.read_text(from, &mut self.room);
        let (title_words, description, headings, body) = (next()?, next()?, next()?, next()?);
        Ok(Texts { title, lead, title_words, description, headings, body, rest: String::new() })
    }

    fn links(&mut self, from: &mut Decoder<'_>) -> Result<Vec<Link>, DecodeError> {
        let count: usize = from.varint_as()?;
        if count > LINKS_MAX {
            return Err("a page with too many links");
        }
        let mut links = Vec::new();
        for _ in 0..count {
            let url = self.url(from)?;
            let flags = from.byte()?;
            let anchor = from.text()?.to_string();
            // A link that leads nowhere by today's rules is left out, as on a page that was crawled.
            links.extend(url.map(|url| Link { url, anchor, nofollow: flags & 1 != 0 }));
        }
        Ok(links)
    }

    fn gone(&mut self, from: &mut Decoder<'_>) -> Result<Option<Gone>, DecodeError> {
        let url = self.url(from)?;
        let at = Timestamp::from_millis(from.u64()?);
        let number = usize::from(from.byte()?);
        let reason = number.checked_sub(1).and_then(|number| GoneReason::ALL.get(number).copied());
        let reason = reason.ok_or("an unknown reason")?;
        self.unreadable += usize::from(url.is_none());
        Ok(url.map(|url| Gone { url, at, reason }))
    }

    fn outside(&mut self, from: &mut Decoder<'_>) -> Result<Option<Outside>, DecodeError> {
        let url = self.url(from)?;
        let at = Timestamp::from_millis(from.u64()?);
        self.unreadable += usize::from(url.is_none());
        Ok(url.map(|url| Outside { url, at }))
    }
}

/// The rest of a field as text.
fn whole_text(field: &mut Decoder<'_>) -> Result<String, DecodeError> {
    let bytes = field.take(field.len())?;
    std::str::from_utf8(bytes).map(str::to_string).map_err(|_| "a text that is not UTF-8")
}
