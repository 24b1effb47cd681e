//! `farol federation export`, `import`, `inspect`: pages between two engines by hand.
//!
//! Whoever carries the files is the agreement: packets are signed by the engine that wrote them, belong to the agreement
//! of zeros, and may be for anybody.

use super::super::Place;
use crate::archive::replay::is_damage;
use crate::archive::take_in::{Arrived, TakenIn, facts_of, take_in};
use crate::archive::{self, Opened};
use crate::engine::Roles;
use crate::fabric::Fabric;
use crate::federation::key::EngineKey;
use crate::federation::pack::{self, OpenedPacket};
use crate::federation::pages::{Sendable, Sender};
use crate::folder::Folder;
use crate::progress::{counted, grouped};
use anyhow::{Context, Result, anyhow, bail};
use farol_base::{Clock, PageId, PagePosition, SystemClock};
use farol_federation::agreement::{AgreementId, EngineId, Grade};
use farol_federation::packet::{
    BODY_BYTES_FULL, Body, Census, HeaderStart, PACKET_BYTES_MAX, PAGES_FULL, PacketKind, xml,
};
use farol_federation::{Answer, View};
use farol_index::ANALYSIS;
use farol_store::pages::Archive;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub const EXAMPLES: &str = "Examples:
  farol federation export '.cin.ufpe.br' -o cin        writes cin-00001.idx, cin-00002.idx, …
  farol federation inspect cin-00001.idx
  farol federation import cin-*.idx --view '.ufpe.br'  takes in what lies in that view
  farol federation export --xml '.cin.ufpe.br' -o cin  writes cin-00001.xml.gz, for engines that are not Farol

The engine must not run meanwhile. Importing a packet twice changes nothing.";

/// Packets that are handed over by people are for whoever gets them.
const ANYBODY: EngineId = EngineId([0; 32]);
const BY_HAND: AgreementId = AgreementId([0; 16]);

#[derive(clap::Args)]
pub struct ExportPackets {
    /// Which pages
    #[arg(value_name = "VIEW")]
    view: String,
    #[command(flatten)]
    place: Place,
    /// What the files are called, before their number
    #[arg(short, long, value_name = "NAME", default_value = "packet")]
    output: PathBuf,
    /// In the form radix-1, for engines that are not Farol
    #[arg(long, conflicts_with = "words")]
    xml: bool,
    /// Words in order instead of texts: nobody can read them, and they find the same
    #[arg(long)]
    words: bool,
}

#[derive(clap::Args)]
pub struct ImportPackets {
    /// Packets, binary or radix-1 (plain or .gz), in the order in which they were written
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// Take in only pages that surely lie in this view [default: the one that the packet names]
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,
    /// Only store the pages; they are indexed by a later `up` or `serve`
    #[arg(long)]
    no_index: bool,
}

#[derive(clap::Args)]
pub struct InspectPacket {
    /// The packet
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// List its pages
    #[arg(long)]
    pages: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

fn read_view(text: &str) -> Result<View> {
    let json = text.trim_start().starts_with('{');
    let read = if json { View::from_json(text) } else { View::parse(text) };
    read.map_err(|error| anyhow!("{}", error.pointed()))
}

pub fn export(args: &ExportPackets) -> Result<ExitCode> {
    let view = read_view(&args.view)?;
    let config = args.place.settings()?;
    let folder = Folder::open(&args.place.data)?;
    let _lock = folder.lock().context("pages are exported from a folder that nobody writes to")?;
    let key = EngineKey::read_or_draw(folder.path())?;
    let opened = archive::open(&folder, &config, Fabric::local(&folder.tables())?, false)?;
    let grade = if args.words { Grade::Words } else { Grade::Text };
    let public = config.identity.public_url.trim_end_matches('/');
    let sender = Sender::new(key.id(), opened.interpreter.clone(), !public.is_empty(), grade);
    let name = match public {
        "" => config.identity.name.clone(),
        public => format!("{} <{public}/>", config.identity.name),
    };
    let mut files = PacketFiles {
        args,
        view,
        key,
        name,
        grade,
        written: 0,
        before: [0; 32],
        pages: 0,
        bytes: 0,
        known: 0,
    };
    files.write_all(&opened, sender)?;
    if files.written == 0 {
        eprintln!("farol: no archived page lies surely in {}; nothing was written", files.view);
        return Ok(ExitCode::FAILURE);
    }
    eprintln!(
        "{} in {}, {} bytes a page",
        counted(files.pages, "page"),
        counted(files.written, "packet"),
        grouped(files.bytes / files.pages.max(1))
    );
    Ok(ExitCode::SUCCESS)
}

/// Packets on their way into files.
struct PacketFiles<'a> {
    args: &'a ExportPackets,
    view: View,
    key: EngineKey,
    name: String,
    grade: Grade,
    written: u64,
    before: [u8; 32],
    pages: u64,
    bytes: u64,
    known: u64,
}

impl PacketFiles<'_> {
    /// Writes the newest version of each page, in the order of the archive.
    fn write_all(&mut self, opened: &Opened, mut sender: Sender) -> Result<()> {
        let archive = opened.archive.reader();
        let followers = &opened.followers;
        let places = followers.view();
        // 24 bytes a page: which entry has its newest version.
        let mut newest: HashMap<PageId, PagePosition> = HashMap::new();
        for record in archive.scan(PagePosition::default()) {
            match record {
                Ok((position, _, archived)) if sender.read(&archived).is_some() => {
                    newest.insert(archived.url().id(), position);
                }
                Ok(_) => {}
                Err(error) if is_damage(&error) => eprintln!("farol: {error}; left out"),
                Err(error) => return Err(error).context("cannot read the archive"),
            }
        }
        self.known = newest.len() as u64;
        let mut body = Body::default();
        let (mut bytes, mut end) = (0, PagePosition::default());
        for record in archive.scan(PagePosition::default()) {
            let Ok((position, next, archived)) = record else { continue };
            end = next;
            let url = archived.url();
            let stays =
                followers.is_host_removed(&url.host()) || followers.operator().removal_of(url).is_some();
            if stays || newest.get(&url.id()) != Some(&position) {
                continue;
            }
            let Some(Sendable::Page(page, names)) = sender.read(&archived) else { continue };
            let facts = facts_of(&page, places.as_ref().map(|view| view.places()));
            if self.view.has(&facts) != Answer::Yes {
                continue;
            }
            let texts = &page.texts;
            bytes += [&texts.title, &texts.description, &texts.headings, &texts.body, &texts.rest]
                .map(|text| text.len())
                .iter()
                .sum::<usize>()
                + page
                    .links
                    .iter()
                    .map(|link| link.url.as_str().len() + link.anchor.len() + 4)
                    .sum::<usize>()
                + 200;
            let known: Vec<EngineId> = body.engines.iter().map(|(engine, _)| *engine).collect();
            body.engines.extend(names.into_iter().filter(|(engine, _)| !known.contains(engine)));
            body.pages.push(*page);
            if bytes >= BODY_BYTES_FULL || body.pages.len() >= PAGES_FULL {
                self.write(std::mem::take(&mut body), end)?;
                bytes = 0;
            }
        }
        if !body.pages.is_empty() {
            self.write(body, end)?;
        }
        Ok(())
    }

    fn write(&mut self, mut body: Body, end: PagePosition) -> Result<()> {
        self.written += 1;
        let me = self.key.id();
        body.engines.retain(|(engine, _)| *engine != me);
        body.engines.insert(0, (me, self.name.clone()));
        // A packet that is handed over by hand says itself which view it is of.
        let collected = body.pages.len() as u64;
        body.census = vec![Census { view: self.view.as_str().to_string(), known: self.known, collected }];
        let (bytes, ending) = if self.args.xml {
            let text = xml::write(&xml::RadixPacket::of(self.view.as_str(), &body));
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            packer.write_all(text.as_bytes())?;
            (packer.finish()?, "xml.gz")
        } else {
            let start = HeaderStart {
                sender: me,
                receiver: ANYBODY,
                agreement: BY_HAND,
                revision: 1,
                sequence: self.written,
                before: self.before,
                made: SystemClock.now(),
                position: end,
                view: self.view.digest(),
                analysis: if self.grade == Grade::Words { ANALYSIS } else { 0 },
                grade: self.grade,
                kind: PacketKind::Snapshot,
            };
            let packet = pack::seal(&self.key, start, &body)?;
            self.before = pack::open(&packet)?.digest();
            (packet, "idx")
        };
        let path = self.args.output.with_file_name(format!(
            "{}-{:05}.{ending}",
            self.args.output.file_name().unwrap_or_default().to_string_lossy(),
            self.written
        ));
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).open(&path).with_context(|| {
                format!("cannot write {}; choose another name with -o, or remove the file", path.display())
            })?;
        file.write_all(&bytes).and_then(|()| file.sync_all())?;
        self.pages += collected;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// The bytes of a file that may be a packet, and no more than one has.
fn read_file(path: &Path) -> Result<Vec<u8>> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut bytes = Vec::new();
    file.take(PACKET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > PACKET_BYTES_MAX {
        bail!("{} is larger than the {} MiB that a packet may have", path.display(), PACKET_BYTES_MAX >> 20);
    }
    Ok(bytes)
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes.starts_with(b"FAROLIDX")
}

/// Reads the form `radix-1`, in gzip or not.
fn read_xml(bytes: &[u8]) -> Result<xml::RadixPacket> {
    let mut plain = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let unpacker = flate2::read::MultiGzDecoder::new(bytes);
        unpacker
            .take(xml::XML_BYTES_MAX as u64 + 1)
            .read_to_end(&mut plain)
            .context("its gzip is damaged")?;
    } else {
        plain.extend(bytes);
    }
    // Leaves are spelled in ASCII, whatever is declared.
    let text = String::from_utf8_lossy(&plain);
    Ok(xml::read(&text)?)
}

/// A file as what is to be taken in of it; `None` where no view says which of its pages are wanted.
fn arrived(path: &Path, me: EngineId, wanted: Option<&View>) -> Result<(Arrived, usize)> {
    let bytes = read_file(path)?;
    if !is_binary(&bytes) {
        let packet = read_xml(&bytes).context("this is neither a packet nor radix-1")?;
        // Nobody signed it: it counts as fetched by an engine without a key.
        let read = packet.to_body(EngineId([0; 32]), &packet.webview, SystemClock.now());
        let view = match wanted {
            Some(view) => view.clone(),
            None => View::parse(&packet.webview).with_context(|| {
                format!("the packet's webview {:?} is no view; name one with --view", packet.webview)
            })?,
        };
        let from = EngineId([0; 32]);
        let (grade, analysis) = (Grade::Text, 0);
        let arrived =
            Arrived { me, from, agreement: BY_HAND, sequence: 0, view, grade, analysis, body: read.body };
        return Ok((arrived, read.unreadable));
    }
    let packet = pack::open(&bytes)?;
    let start = &packet.header().start;
    if start.receiver != ANYBODY && start.receiver != me {
        bail!("the packet is for {}, and this engine is {me}", start.receiver);
    }
    if start.sender == me {
        bail!("this engine wrote the packet itself");
    }
    if start.grade == Grade::Words && start.analysis != ANALYSIS {
        bail!(
            "its words were cut by analysis {}, and this Farol has {ANALYSIS}: have it exported without --words",
            start.analysis
        );
    }
    let read = packet.unpack()?;
    let named = read.body.census.iter().filter_map(|one| View::parse(&one.view).ok());
    let named = named.into_iter().find(|view| view.digest() == start.view);
    let view = wanted.cloned().or(named).context("it does not name its view; name one with --view")?;
    let (sender, sequence, grade, analysis) = (start.sender, start.sequence, start.grade, start.analysis);
    let body = read.body;
    Ok((
        Arrived { me, from: sender, agreement: BY_HAND, sequence, view, grade, analysis, body },
        read.unreadable,
    ))
}

pub fn import(args: &ImportPackets) -> Result<ExitCode> {
    let wanted = args.view.as_deref().map(read_view).transpose()?;
    let config = args.place.settings()?;
    let folder = Folder::open_or_create(&args.place.data)?;
    let lock = folder.lock()?;
    let key = EngineKey::read_or_draw(folder.path())?;
    let mut opened = archive::open(&folder, &config, Fabric::local(&folder.tables())?, false)?;
    let (mut sums, mut unreadable) = (TakenIn::default(), 0);
    for path in &args.files {
        let failed = || format!("while importing {}", path.display());
        let (arrived, left_out) = arrived(path, key.id(), wanted.as_ref()).with_context(failed)?;
        unreadable += left_out as u64;
        crate::folder::grow_format(folder.path())?;
        let taken = take(&mut opened, arrived).with_context(failed)?;
        sums.pages += taken.pages;
        sums.gone += taken.gone;
        for (why, count) in taken.dropped {
            *sums.dropped.entry(why).or_default() += count;
        }
    }
    let Opened { archive, followers, .. } = &mut opened;
    followers.urls.compact_all()?;
    followers.urls.sync()?;
    followers.confirm(archive)?;
    followers.linker.sync()?;
    drop(opened);
    drop(lock);
    tell(&sums, unreadable);
    if !args.no_index {
        let roles = Roles { crawl: false, index: true, serve: false, ends_when_done: true, federates: false };
        let running = crate::engine::Running::start(folder, config, &[], roles)?;
        while !running.caught_up() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        eprintln!("{} can be found", counted(running.documents().unwrap_or(0), "page"));
        running.stop()?;
    }
    let is_news = sums.pages + sums.gone > 0 || sums.wrong() + unreadable == 0;
    Ok(if is_news { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn take(opened: &mut Opened, arrived: Arrived) -> Result<TakenIn> {
    let Opened { archive, followers, interpreter, .. } = opened;
    let mut append =
        |archive: &mut Archive, batch: &[farol_store::pages::Encoded]| Ok(archive.append(batch)?);
    take_in(archive, &mut append, followers, interpreter, SystemClock.now(), arrived)
}

fn tell(sums: &TakenIn, unreadable: u64) {
    eprintln!("{} stored, {} gone", counted(sums.pages, "page"), grouped(sums.gone));
    for (why, count) in &sums.dropped {
        eprintln!("{} left out: {}", counted(*count, "page"), why.name());
    }
    if unreadable > 0 {
        eprintln!("{} left out: their address is none", counted(unreadable, "page"));
    }
}

pub fn inspect(args: &InspectPacket) -> Result<ExitCode> {
    let bytes = read_file(&args.file)?;
    let named = || format!("in {}", args.file.display());
    let (facts, body) = if is_binary(&bytes) {
        let packet = pack::open(&bytes).with_context(named)?;
        let body = packet.unpack().with_context(named)?.body;
        (facts_of_packet(&packet, &body, bytes.len()), body)
    } else {
        let packet = read_xml(&bytes).with_context(named)?;
        let words: usize = packet.pages.iter().map(|page| page.words.len()).sum();
        let links: usize = packet.pages.iter().map(|page| page.links.len()).sum();
        let facts = BTreeMap::from([
            ("form", "radix-1".to_string()),
            ("bytes", bytes.len().to_string()),
            ("view", packet.webview.clone()),
            ("pages", packet.pages.len().to_string()),
            ("words", words.to_string()),
            ("links", links.to_string()),
            ("gone", packet.urls.len().to_string()),
        ]);
        (facts, packet.to_body(EngineId([0; 32]), "", SystemClock.now()).body)
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let pages: Vec<&str> = body.pages.iter().map(|page| page.url.as_str()).collect();
        let gone: Vec<&str> = body.gone.iter().map(|gone| gone.url.as_str()).collect();
        let mut json = serde_json::to_value(&facts)?;
        if let (true, Some(json)) = (args.pages, json.as_object_mut()) {
            json.insert("page_list".to_string(), serde_json::json!(pages));
            json.insert("gone_list".to_string(), serde_json::json!(gone));
        }
        writeln!(out, "{json:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, value) in &facts {
        writeln!(out, "{name:<10} {value}")?;
    }
    if args.pages {
        for page in &body.pages {
            writeln!(out, "{} {} {:?}", page.fetched, page.url, page.texts.title)?;
        }
        for gone in &body.gone {
            writeln!(out, "{} {} ({})", gone.at, gone.url, gone.reason.name())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn facts_of_packet(packet: &OpenedPacket<'_>, body: &Body, bytes: usize) -> BTreeMap<&'static str, String> {
    let header = packet.header();
    let start = &header.start;
    let name = body.engines.first().map_or("", |(_, name)| name.as_str());
    let view = body.census.iter().find(|one| View::parse(&one.view).is_ok_and(|v| v.digest() == start.view));
    let receiver = if start.receiver == ANYBODY { "anybody".to_string() } else { start.receiver.to_string() };
    let links: usize = body.pages.iter().map(|page| page.links.len()).sum();
    BTreeMap::from([
        ("form", "binary, format 1".to_string()),
        ("bytes", format!("{bytes}, {} unpacked", header.unpacked)),
        ("sender", format!("{} {name}", start.sender).trim_end().to_string()),
        ("receiver", receiver),
        (
            "agreement",
            if start.agreement == BY_HAND { "by hand".to_string() } else { start.agreement.to_string() },
        ),
        ("sequence", start.sequence.to_string()),
        ("kind", start.kind.name().to_string()),
        ("made", start.made.to_string()),
        ("grade", if start.grade == Grade::Words { "words" } else { "text" }.to_string()),
        ("view", view.map_or("not named".to_string(), |one| one.view.clone())),
        ("pages", header.pages.to_string()),
        ("links", links.to_string()),
        ("gone", header.gone.to_string()),
        ("outside", header.outside.to_string()),
        ("signature", "that of the sender".to_string()),
    ])
}
