//! Which language a page has that shows none, by the pages around it: those of its folder where enough of them are known
//! and agree, or else of the next folder above, or of its host.
//!
//! Worked out when a question first filters by language, from what the commit holds, and not stored with the page: so it
//! does not matter in which order pages came, and all replicas of a shard answer alike.

use crate::error::Error;
use crate::schema::{Fields, path_prefixes};
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, Language};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet, SegmentReader, TERMINATED};

/// With fewer pages that have a language, the folder above is asked.
const NEIGHBOURS_MIN: u32 = 5;

/// Folders that are asked, the page's own first, before its host is.
const FOLDERS_MAX: usize = 3;

/// Hashes of the places whose pages are a page's neighbours, nearest first: of its folder, those above it, and its host.
pub(crate) fn places(url: &CanonicalUrl) -> impl Iterator<Item = u64> {
    let host = url.host();
    let folder = url.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut folders: Vec<&str> = path_prefixes(folder).collect();
    folders.reverse();
    folders.truncate(FOLDERS_MAX);
    folders.push("");
    let places: Vec<u64> =
        folders.iter().map(|folder| hash64(format!("{}\n{folder}", host.as_str()).as_bytes())).collect();
    places.into_iter()
}

/// What one segment says; read when it is first asked for, and again when pages of it were deleted.
pub(crate) struct SegmentPlaces {
    /// Pages deleted when it was read.
    deleted: u32,
    read: OnceLock<Places>,
}

struct Places {
    /// How many pages of a place have a language; sorted.
    spoken: Vec<(u64, Language, u32)>,
    /// Pages without a language, with their places.
    silent: Vec<(DocId, Vec<u64>)>,
}

impl SegmentPlaces {
    /// One known from an earlier commit is taken where nothing was deleted since.
    pub(crate) fn of(segment: &SegmentReader, before: Option<Arc<SegmentPlaces>>) -> Arc<SegmentPlaces> {
        let deleted = segment.num_deleted_docs();
        before
            .filter(|before| before.deleted == deleted)
            .unwrap_or_else(|| Arc::new(SegmentPlaces { deleted, read: OnceLock::new() }))
    }

    fn places(&self, segment: &SegmentReader, fields: Fields) -> Result<&Places, Error> {
        if let Some(places) = self.read.get() {
            return Ok(places);
        }
        let read = Places::read(segment, fields)?;
        Ok(self.read.get_or_init(|| read))
    }
}

impl Places {
    fn read(segment: &SegmentReader, fields: Fields) -> Result<Places, Error> {
        let column =
            segment.fast_fields().u64("places").map_err(Error::engine("read the folders of pages"))?;
        let index = segment.inverted_index(fields.language).map_err(Error::engine("open a segment"))?;
        let mut stream = index.terms().stream().map_err(Error::engine("list its languages"))?;
        let mut counts: HashMap<(u64, Language), u32> = HashMap::new();
        let mut speaks = BitSet::with_max_value(segment.max_doc());
        while let Some((code, info)) = stream.next() {
            let Some(language) = std::str::from_utf8(code).ok().and_then(Language::parse) else { continue };
            let mut postings = index
                .read_postings_from_terminfo(info, IndexRecordOption::Basic)
                .map_err(Error::engine("read the pages of a language"))?;
            while postings.doc() != TERMINATED {
                let doc = postings.doc();
                speaks.insert(doc);
                if !segment.is_deleted(doc) {
                    for place in column.values_for_doc(doc) {
                        *counts.entry((place, language)).or_default() += 1;
                    }
                }
                postings.advance();
            }
        }
        let mut spoken: Vec<_> =
            counts.into_iter().map(|((place, language), pages)| (place, language, pages)).collect();
        spoken.sort_unstable();
        let silent = segment.doc_ids_alive().filter(|doc| !speaks.contains(*doc));
        let silent = silent.map(|doc| (doc, column.values_for_doc(doc).collect())).collect();
        Ok(Places { spoken, silent })
    }

    /// Adds the languages of a place.
    fn add(&self, place: u64, sums: &mut Vec<(Language, u32)>) {
        let from = self.spoken.partition_point(|(known, ..)| *known < place);
        for (_, language, pages) in self.spoken[from..].iter().take_while(|(known, ..)| *known == place) {
            match sums.iter_mut().find(|(known, _)| known == language) {
                Some((_, sum)) => *sum += pages,
                None => sums.push((*language, *pages)),
            }
        }
    }
}

/// What the neighbours of a page say about its language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbours {
    /// Nine in ten of them or more have this one.
    Agree(Language),
    Differ,
    TooFew,
}

impl Neighbours {
    fn of(counts: &[(Language, u32)]) -> Neighbours {
        let all: u32 = counts.iter().map(|(_, pages)| pages).sum();
        match counts.iter().max_by_key(|(_, pages)| pages) {
            Some((language, pages)) if all >= NEIGHBOURS_MIN => {
                match u64::from(*pages) * 10 >= u64::from(all) * 9 {
                    true => Neighbours::Agree(*language),
                    false => Neighbours::Differ,
                }
            }
            _ => Neighbours::TooFew,
        }
    }
}

/// The pages of each segment that have a language from their neighbours.
pub(crate) type NearLanguages = Vec<Vec<(DocId, Language)>>;

/// Asks the neighbours of all pages without a language.
pub(crate) fn near_languages<'a>(
    segments: impl Iterator<Item = (&'a SegmentReader, &'a Arc<SegmentPlaces>)>,
    fields: Fields,
) -> Result<NearLanguages, Error> {
    let all: Vec<&Places> =
        segments.map(|(segment, places)| places.places(segment, fields)).collect::<Result<_, _>>()?;
    let mut said: HashMap<u64, Neighbours> = HashMap::new();
    let mut ask = |place: u64| {
        *said.entry(place).or_insert_with(|| {
            let mut sums = Vec::new();
            all.iter().for_each(|places| places.add(place, &mut sums));
            Neighbours::of(&sums)
        })
    };
    let mut language_near = |places: &[u64]| {
        let first = places.iter().map(|place| ask(*place)).find(|said| *said != Neighbours::TooFew);
        match first {
            Some(Neighbours::Agree(language)) => Some(language),
            _ => None,
        }
    };
    let of_segment = |places: &&Places| {
        let silent = places.silent.iter();
        silent.filter_map(|(doc, places)| Some((*doc, language_near(places)?))).collect()
    };
    Ok(all.iter().map(of_segment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, page_in, paths};
    use farol_base::query::Filters;
    use farol_base::{Document, PagePosition};

    #[test]
    fn neighbours_have_a_language_where_nine_in_ten_agree() {
        let (pt, en) = (Language::PORTUGUESE, Language::ENGLISH);
        let check = |counts: &[(Language, u32)], want| assert_eq!(Neighbours::of(counts), want);
        check(&[(pt, 9), (en, 1)], Neighbours::Agree(pt));
        check(&[(pt, 8), (en, 1)], Neighbours::Differ);
        check(&[(pt, 4)], Neighbours::TooFew);
        check(&[], Neighbours::TooFew);
    }

    /// Five pages of a folder on the host `a`.
    fn five(code: &str, folder: &str) -> Vec<Document> {
        let url = |number| format!("http://a{folder}/{number}");
        (0..5).map(|number| page_in(code, &url(number), "", &url(number))).collect()
    }

    fn silent(url: &str) -> Document {
        Document { language: None, ..page(url, "silent", url) }
    }

    /// The silent pages that `lang:` finds.
    fn found(shard: &TestShard, code: &str) -> Vec<String> {
        let filters =
            Filters { languages: Language::parse(code).into_iter().collect(), ..Filters::default() };
        let mut paths = paths(&shard.ask_filtered("silent", filters));
        paths.sort();
        paths
    }

    #[test]
    fn the_folder_says_the_language_then_the_one_above_then_the_host() {
        // No page of another host counts, nor one that is gone.
        let others = (0..9).map(|number| page_in("de", &format!("http://b/docs/{number}"), "", "b"));
        let mut pages = [five("pt", "/docs"), five("en", "/code"), five("es", "/docs/gone")].concat();
        pages.extend(others);
        for url in [
            "http://a/docs/list",
            "http://a/docs/gone/list",
            "http://a/code/",
            "http://a/list",
            "http://b/x/y",
        ] {
            pages.push(silent(url));
        }
        pages.push(silent("http://c/docs/alone"));
        let mut shard = TestShard::new(&pages);
        for number in 0..5 {
            shard.shard.delete(&page(&format!("http://a/docs/gone/{number}"), "", "").url);
        }
        shard.shard.commit("").unwrap();
        assert_eq!(found(&shard, "pt"), ["/docs/gone/list", "/docs/list"]);
        assert_eq!(found(&shard, "en"), ["/code/"]);
        assert_eq!(found(&shard, "de"), ["/x/y"]);
        assert!(found(&shard, "es").is_empty());
        let pt = Language::PORTUGUESE;
        let not_pt = shard.ask_filtered("silent", Filters { not_languages: vec![pt], ..Filters::default() });
        let mut not_pt = paths(&not_pt);
        not_pt.sort();
        // Of `/list` nothing is known, as its host speaks both.
        assert_eq!(not_pt, ["/code/", "/docs/alone", "/list", "/x/y"]);
    }

    #[test]
    #[ignore = "a page keeps its neighbours' language when one of them is deleted"]
    fn a_page_that_came_before_its_neighbours_has_their_language_too() {
        let mut shard = TestShard::new(&[silent("http://a/docs/first")]);
        assert!(found(&shard, "pt").is_empty());
        for page in five("pt", "/docs") {
            shard.shard.put(&page).unwrap();
            shard.shard.commit(PagePosition::default()).unwrap();
        }
        assert_eq!(found(&shard, "pt"), ["/docs/first"]);
        // And loses it when they are gone.
        shard.shard.delete(&five("pt", "/docs")[0].url);
        shard.shard.commit(PagePosition::default()).unwrap();
        assert!(found(&shard, "pt").is_empty());
    }
}
