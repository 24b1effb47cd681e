//! What a page costs on the wire and in processor time, by form, compression and packet size: experiments on packets that an
//! engine has exported, so on real pages.

use anyhow::{Context, Result, bail, ensure};
use farol_base::{PagePosition, Timestamp};
use farol_federation::agreement::{AgreementId, EngineId, Grade};
use farol_federation::packet::xml::{self, RadixPacket};
use farol_federation::packet::{
    Body, Codec, Draft, HeaderStart, PACKET_BYTES_MAX, PacketKind, PageEntry, Sealed,
};
use serde::Serialize;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::time::Instant;

/// Which pages.
#[derive(Clone, Debug, clap::Args)]
pub struct PacketArgs {
    /// Packets of one grade, as `farol federation export` writes them.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Writes the outcome as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// One form, compression and size of packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PacketCost {
    pub form: &'static str,
    pub codec: &'static str,
    pub pages_a_packet: usize,
    /// Bytes of a page as it was fetched, and as it travels.
    pub html_bytes: f64,
    pub packet_bytes: f64,
    /// Processor time for a page, packing and unpacking.
    pub pack_ms: f64,
    pub unpack_ms: f64,
}

/// Packets of so many pages.
const SIZES: [usize; 5] = [1, 8, 64, 512, usize::MAX];

/// The pages of some packets, and their grade.
fn pages_of(files: &[PathBuf]) -> Result<(Vec<PageEntry>, Grade)> {
    let (mut pages, mut grade) = (Vec::new(), None);
    for file in files {
        let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let sealed = Sealed::read(&bytes).with_context(|| format!("{} is no packet", file.display()))?;
        let header = &sealed.header;
        ensure!(
            grade.is_none_or(|grade| grade == header.start.grade),
            "the packets are of two grades; name one's"
        );
        grade = Some(header.start.grade);
        let read = match header.codec {
            Codec::Plain => Body::decode(sealed.body(), header)?,
            Codec::Zstd => Body::decode(&zstd::bulk::decompress(sealed.body(), header.unpacked)?, header)?,
        };
        pages.extend(read.body.pages);
    }
    match grade {
        Some(grade) if !pages.is_empty() => Ok((pages, grade)),
        _ => bail!("there are no pages in these packets"),
    }
}

fn start(grade: Grade) -> HeaderStart {
    HeaderStart {
        sender: EngineId([1; 32]),
        receiver: EngineId([2; 32]),
        agreement: AgreementId([0; 16]),
        revision: 1,
        sequence: 1,
        before: [0; 32],
        made: Timestamp::EPOCH,
        position: PagePosition::default(),
        view: [0; 32],
        analysis: 0,
        grade,
        kind: PacketKind::Snapshot,
    }
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

fn gunzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain)?;
    Ok(plain)
}

/// A compression: its name, how it packs, how it unpacks.
type Compression = (&'static str, fn(&[u8]) -> Result<Vec<u8>>, fn(&[u8]) -> Result<Vec<u8>>);

const COMPRESSIONS: [Compression; 3] = [
    ("gzip 6", gzip, gunzip),
    (
        "zstd 9",
        |bytes| Ok(zstd::bulk::compress(bytes, 9)?),
        |bytes| Ok(zstd::bulk::decompress(bytes, 64 << 20)?),
    ),
    ("plain", |bytes| Ok(bytes.to_vec()), |bytes| Ok(bytes.to_vec())),
];

/// All forms, compressions and sizes.
pub fn costs(pages: &[PageEntry], grade: Grade) -> Result<Vec<PacketCost>> {
    let mut costs = Vec::new();
    for compression in COMPRESSIONS {
        for size in SIZES {
            costs.push(cost(pages, grade, compression, size)?);
        }
        if grade == Grade::Text && compression.0 == "gzip 6" {
            costs.push(radix_cost(pages, compression)?);
        }
    }
    Ok(costs)
}

fn cost(
    pages: &[PageEntry],
    grade: Grade,
    (codec, pack, unpack): Compression,
    size: usize,
) -> Result<PacketCost> {
    let mut bytes = 0;
    let (mut packing, mut unpacking) = (0.0, 0.0);
    let size = size.min(pages.len());
    for some in pages.chunks(size) {
        let body = Body {
            engines: vec![(EngineId([1; 32]), "Sender".into())],
            pages: some.to_vec(),
            ..Body::default()
        };
        let begun = Instant::now();
        let plain = body.encode(grade);
        let packed = pack(&plain)?;
        packing += begun.elapsed().as_secs_f64();
        // What surrounds it is the same for all; the largest packets may be larger than any that travels.
        bytes += packed.len();
        let draft = Draft::new(start(grade), body.counts(), plain.len(), Codec::Plain, Vec::new());
        let head = draft.signed([0; 64]);
        bytes += head.len();
        let begun = Instant::now();
        let plain = unpack(&packed)?;
        if plain.len() <= PACKET_BYTES_MAX {
            let whole =
                Draft::new(start(grade), body.counts(), plain.len(), Codec::Plain, plain).signed([0; 64]);
            let sealed = Sealed::read(&whole)?;
            let read = Body::decode(sealed.body(), &sealed.header)?;
            ensure!(read.body.pages.len() == some.len(), "pages were lost on the way");
        }
        unpacking += begun.elapsed().as_secs_f64();
    }
    let form = if grade == Grade::Text { "text" } else { "words" };
    Ok(shared(pages, form, codec, size, bytes, packing, unpacking))
}

/// The form of the thesis, eight pages a packet.
fn radix_cost(pages: &[PageEntry], (codec, pack, unpack): Compression) -> Result<PacketCost> {
    let mut bytes = 0;
    let (mut packing, mut unpacking) = (0.0, 0.0);
    for some in pages.chunks(8) {
        let body = Body { pages: some.to_vec(), ..Body::default() };
        let begun = Instant::now();
        let packed = pack(xml::write(&RadixPacket::of("all", &body)).as_bytes())?;
        packing += begun.elapsed().as_secs_f64();
        bytes += packed.len();
        let begun = Instant::now();
        let text = String::from_utf8(unpack(&packed)?)?;
        let read = xml::read(&text).map_err(|error| anyhow::anyhow!("{error}"))?;
        let read = read.to_body(EngineId([1; 32]), "Sender", Timestamp::EPOCH);
        unpacking += begun.elapsed().as_secs_f64();
        ensure!(read.body.pages.len() == some.len(), "pages were lost on the way");
    }
    Ok(shared(pages, "radix-1", codec, 8, bytes, packing, unpacking))
}

fn shared(
    pages: &[PageEntry],
    form: &'static str,
    codec: &'static str,
    pages_a_packet: usize,
    bytes: usize,
    packing: f64,
    unpacking: f64,
) -> PacketCost {
    let count = pages.len() as f64;
    PacketCost {
        form,
        codec,
        pages_a_packet,
        html_bytes: pages.iter().map(|page| page.size as f64).sum::<f64>() / count,
        packet_bytes: bytes as f64 / count,
        pack_ms: packing * 1e3 / count,
        unpack_ms: unpacking * 1e3 / count,
    }
}

/// Prints the table, the thesis' figures first.
pub fn run(args: &PacketArgs) -> Result<()> {
    let (pages, grade) = pages_of(&args.files)?;
    let costs = costs(&pages, grade)?;
    println!("{} pages", pages.len());
    println!(
        "{:<8} {:<7} {:>7} {:>9} {:>9} {:>8} {:>9} {:>9}",
        "form", "codec", "pages", "HTML", "bytes", "saved", "pack ms", "unpack ms"
    );
    println!(
        "{:<8} {:<7} {:>7} {:>9} {:>9} {:>7.2}% {:>9} {:>9}",
        "thesis", "gzip", "", 19_803, 2_585, 86.95, 54, 266
    );
    for cost in &costs {
        println!(
            "{:<8} {:<7} {:>7} {:>9.0} {:>9.0} {:>7.2}% {:>9.3} {:>9.3}",
            cost.form,
            cost.codec,
            cost.pages_a_packet,
            cost.html_bytes,
            cost.packet_bytes,
            100.0 * (1.0 - cost.packet_bytes / cost.html_bytes.max(1.0)),
            cost.pack_ms,
            cost.unpack_ms
        );
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&costs)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::{CanonicalUrl, ContentHash};
    use farol_federation::packet::{Flags, Texts};

    #[test]
    fn larger_packets_cost_less_a_page_and_compressed_ones_too() {
        let page = |number: usize| PageEntry {
            url: CanonicalUrl::parse(&format!("http://a.test/{number}")).unwrap(),
            origin: EngineId([1; 32]),
            via: Vec::new(),
            fetched: Timestamp::from_secs(1),
            dated: None,
            language: None,
            flags: Flags::default(),
            hops: 1,
            size: 20_000,
            content_hash: ContentHash(number as u128),
            simhash: 1,
            file_type: "html".into(),
            media_type: None,
            address: None,
            texts: Texts {
                title: format!("Page {number}"),
                body: "The sea and its lights. ".repeat(60),
                ..Texts::default()
            },
            links: Vec::new(),
        };
        let pages: Vec<PageEntry> = (0..70).map(page).collect();
        let costs = costs(&pages, Grade::Text).unwrap();
        let of = |codec: &str, pages: usize| {
            costs
                .iter()
                .find(|cost| (cost.form, cost.codec, cost.pages_a_packet) == ("text", codec, pages))
                .unwrap()
                .packet_bytes
        };
        assert!(of("zstd 9", 1) > of("zstd 9", 8) && of("zstd 9", 8) > of("zstd 9", 70));
        assert!(of("plain", 70) > of("gzip 6", 70) && of("gzip 6", 70) < 20_000.0);
        assert!(costs.iter().any(|cost| cost.form == "radix-1" && cost.html_bytes == 20_000.0));
    }
}
