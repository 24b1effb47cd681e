//! Answers questions over the newest commit of a shard.
//!
//! A search goes through these steps, each in its own file:
//! [`crate::plan`] analyses the words, [`crate::filter`] says which pages may answer, [`crate::matching`]
//! finds and scores the best candidates, [`crate::rank`] rescores them, [`farol_query::parts`] orders them and thins
//! copies and hosts, [`crate::snippet`] shows why a page was found, [`crate::spell`] offers another spelling.
//! [`crate::parts`] leads through them; a shard that is one of several goes through the same.
//!
//! INVARIANT: one search sees one commit from beginning to end.

mod lookup;

use crate::columns::SegmentColumns;
use crate::error::Error;
use crate::language_counts::{self, SegmentLanguages};
use crate::near_languages::{NearLanguages, SegmentPlaces, near_languages};
use crate::parts::ShardedSearch;
use crate::pins::Pins;
use crate::rank::Ranks;
use crate::rank::links::SegmentHosts;
use crate::schema::{self, Fields};
use crate::shard::{last_commit, open_index, parse_watermark, reader_of};
use crate::statistics;
use crate::stored::StoredDocument;
use crate::suggest;
use crate::suggest::Completed;
use crate::synonyms::Synonyms;
use crate::terms::SegmentTerms;
use crate::vocabulary::{Vocabulary, VocabularySlot};
use farol_base::query::{Answer, Request};
use farol_base::sync::RwLock;
use farol_base::{CanonicalUrl, Document, Host, Language, PageId, PagePosition};
use farol_query::parts::Sizes;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tantivy::index::SegmentId;
use tantivy::postings::{SegmentPostings, TermInfo};
use tantivy::schema::{Field, IndexRecordOption, Value};
use tantivy::{DocAddress, DocId, DocSet, Index, IndexReader, SegmentReader, TERMINATED, TantivyDocument};

/// Pages of one host that come before those of other hosts, unless it is said otherwise.
const HITS_PER_HOST: usize = 2;

/// What all searchers of a shard share.
pub(crate) struct Shared {
    dir: PathBuf,
    pub(crate) index: Index,
    reader: IndexReader,
    fields: Fields,
    view: RwLock<Arc<View>>,
    vocabulary: VocabularySlot,
}

/// One commit, opened.
pub(crate) struct View {
    pub searcher: tantivy::Searcher,
    pub fields: Fields,
    pub generation: u64,
    /// Pages alive.
    pub documents: u64,
    pub sizes: Sizes,
    segment_languages: Vec<Arc<SegmentLanguages>>,
    segment_places: Vec<Arc<SegmentPlaces>>,
    near_languages: OnceLock<NearLanguages>,
    /// Words in the fields whose lengths count, of each segment.
    segment_tokens: Vec<[u64; 3]>,
    /// The words of each segment.
    terms: Vec<SegmentTerms>,
    /// The hosts of each segment.
    hosts: Vec<Arc<SegmentHosts>>,
    /// The columns of each segment.
    columns: Vec<Arc<SegmentColumns>>,
}

/// A segment of a commit with what is known of it.
#[derive(Clone, Copy)]
pub(crate) struct SegmentView<'a> {
    pub ordinal: u32,
    pub reader: &'a SegmentReader,
    pub terms: &'a SegmentTerms,
    pub hosts: &'a SegmentHosts,
    pub columns: &'a SegmentColumns,
}

impl SegmentView<'_> {
    /// Opens the pages of a word.
    pub(crate) fn open(
        &self,
        field: Field,
        text: &str,
        option: IndexRecordOption,
    ) -> Result<Option<SegmentPostings>, Error> {
        self.find(field, text)?.map(|term| self.open_at(field, &term, option)).transpose()
    }

    /// Where the pages of a word, alive or not, are listed.
    pub(crate) fn find(&self, field: Field, text: &str) -> Result<Option<TermInfo>, Error> {
        self.terms.find(self.reader, field, text)
    }

    pub(crate) fn has(&self, field: Field, text: &str) -> Result<bool, Error> {
        Ok(self.find(field, text)?.is_some())
    }

    /// Opens the pages of a word that was found.
    pub(crate) fn open_at(
        &self,
        field: Field,
        term: &TermInfo,
        option: IndexRecordOption,
    ) -> Result<SegmentPostings, Error> {
        let index = self.reader.inverted_index(field).map_err(Error::engine("open a segment"))?;
        let postings = index.read_postings_from_terminfo(term, option);
        postings.map_err(Error::engine("read the pages of a word"))
    }
}

impl Shared {
    pub(crate) fn new(
        dir: &Path,
        index: Index,
        reader: IndexReader,
        fields: Fields,
    ) -> Result<Arc<Shared>, Error> {
        let meta = index.load_metas().map_err(Error::engine("read its list of segments"))?;
        let view = RwLock::new(Arc::new(View::new(reader.searcher(), fields, meta.opstamp, None)?));
        let vocabulary = VocabularySlot::default();
        Ok(Arc::new(Shared { dir: dir.to_path_buf(), index, reader, fields, view, vocabulary }))
    }

    pub(crate) fn reload(&self, generation: u64) -> Result<(), Error> {
        self.reader.reload().map_err(Error::engine("show its newest commit"))?;
        let view = Arc::new(View::new(self.reader.searcher(), self.fields, generation, Some(&self.view()))?);
        *self.view.write() = view;
        Ok(())
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.view.read().clone()
    }

    pub(crate) fn bytes_on_disk(&self) -> u64 {
        let files = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
    }

    pub(crate) fn vocabulary(&self, view: &Arc<View>) -> Arc<Vocabulary> {
        self.vocabulary.get(view)
    }
}

impl View {
    fn new(
        searcher: tantivy::Searcher,
        fields: Fields,
        generation: u64,
        before: Option<&View>,
    ) -> Result<View, Error> {
        let (mut hosts, mut columns, mut segment_places) = (Vec::new(), Vec::new(), Vec::new());
        let (mut segment_languages, mut segment_tokens, mut terms) = (Vec::new(), Vec::new(), Vec::new());
        for segment in searcher.segment_readers() {
            let known = before.and_then(|view| Some((view, view.place_of(segment.segment_id())?)));
            hosts.push(match known {
                Some((view, at)) => view.hosts[at].clone(),
                None => Arc::new(SegmentHosts::read(segment)?),
            });
            let own = match known {
                Some((view, at)) => view.columns[at].clone(),
                None => Arc::new(SegmentColumns::open(segment, fields)?),
            };
            let (words, deleted) = SegmentTerms::new(segment, known.map(|(view, at)| &view.terms[at]));
            let counted = known.map(|(view, at)| view.segment_tokens[at]);
            segment_tokens.push(statistics::tokens(segment, &own.lengths, counted, &deleted));
            columns.push(own);
            terms.push(words);
            let counted = known.map(|(view, at)| view.segment_languages[at].clone());
            segment_languages.push(SegmentLanguages::count(segment, fields.language, counted)?);
            let places = known.map(|(view, at)| view.segment_places[at].clone());
            segment_places.push(SegmentPlaces::of(segment, places));
        }
        let languages = language_counts::sums(&segment_languages);
        let documents = searcher.num_docs();
        let tokens = std::array::from_fn(|field| segment_tokens.iter().map(|tokens| tokens[field]).sum());
        let sizes = Sizes { documents, tokens, languages, generation };
        Ok(View {
            searcher,
            fields,
            generation,
            documents,
            sizes,
            segment_languages,
            segment_places,
            near_languages: OnceLock::new(),
            segment_tokens,
            terms,
            hosts,
            columns,
        })
    }

    /// The segments with what is known of them.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentView<'_>> {
        (0..self.terms.len() as u32).map(|ordinal| self.segment(ordinal))
    }

    pub(crate) fn segment(&self, ordinal: u32) -> SegmentView<'_> {
        let at = ordinal as usize;
        SegmentView {
            ordinal,
            reader: self.searcher.segment_reader(ordinal),
            terms: &self.terms[at],
            hosts: &self.hosts[at],
            columns: &self.columns[at],
        }
    }

    /// The pages of a segment that have a language from their neighbours alone.
    pub(crate) fn near_languages(&self, ordinal: u32) -> Result<&[(DocId, Language)], Error> {
        let all = match self.near_languages.get() {
            Some(all) => all,
            None => {
                let segments = self.searcher.segment_readers().iter().zip(&self.segment_places);
                let found = near_languages(segments, self.fields)?;
                self.near_languages.get_or_init(|| found)
            }
        };
        Ok(all.get(ordinal as usize).map_or(&[], Vec::as_slice))
    }

    /// The place of a segment that this commit has too.
    fn place_of(&self, segment: SegmentId) -> Option<usize> {
        self.searcher.segment_readers().iter().position(|known| known.segment_id() == segment)
    }

    /// The stored bytes of a page.
    pub(crate) fn stored(&self, at: DocAddress) -> Result<Vec<u8>, Error> {
        let document: TantivyDocument = self.searcher.doc(at).map_err(Error::engine("read a stored page"))?;
        let bytes =
            document.get_first(self.fields.stored).and_then(|value| value.as_bytes().map(<[u8]>::to_vec));
        bytes.ok_or_else(|| Error::Damaged { what: "a page has no stored text".to_string() })
    }

    pub(crate) fn find(&self, id: PageId) -> Result<Option<Document>, Error> {
        let Some(at) = self.locate(id)? else { return Ok(None) };
        decode(&self.stored(at)?)?.to_document().map(Some).ok_or_else(not_a_page)
    }

    /// Where a page stands.
    pub(crate) fn locate(&self, id: PageId) -> Result<Option<DocAddress>, Error> {
        let term = tantivy::Term::from_field_u64(self.fields.page, id.0);
        for (ordinal, segment) in self.searcher.segment_readers().iter().enumerate() {
            let pages = segment.inverted_index(self.fields.page).map_err(Error::engine("open a segment"))?;
            let postings = pages.read_postings(&term, IndexRecordOption::Basic);
            let Some(mut postings) = postings.map_err(Error::engine("look a page up"))? else { continue };
            while postings.doc() != TERMINATED {
                if !segment.is_deleted(postings.doc()) {
                    return Ok(Some(DocAddress::new(ordinal as u32, postings.doc())));
                }
                postings.advance();
            }
        }
        Ok(None)
    }
}

/// What the operator decides about answers.
#[derive(Clone, Debug, Default)]
pub struct SearchRules {
    /// Other words for what is asked.
    pub synonyms: Synonyms,
    /// Pages that come first.
    pub pins: Pins,
}

/// Answers questions; cheap to clone, and safe to use from many threads at once.
#[derive(Clone)]
pub struct Searcher {
    pub(crate) shared: Arc<Shared>,
    hits_per_host: usize,
}

impl Searcher {
    pub(crate) fn new(shared: Arc<Shared>) -> Searcher {
        Searcher { shared, hits_per_host: HITS_PER_HOST }
    }

    /// How many pages of one host an answer shows before those of other hosts; 0 for any number. The rest of them
    /// follow when the other hosts are used up. Default: 2.
    pub fn with_hits_per_host(self, hits: usize) -> Searcher {
        Searcher { hits_per_host: hits, ..self }
    }

    /// Opens a shard for reading alone, beside a process that may be writing to it.
    ///
    /// It sees the newest commit at this moment, and none that follows.
    pub fn open(dir: &Path) -> Result<Searcher, Error> {
        let index = open_index(dir, false)?;
        let reader = reader_of(&index, crate::ShardOptions::default().cached_blocks)?;
        let (_, fields) = schema::schema();
        Ok(Searcher::new(Shared::new(dir, index, reader, fields)?))
    }

    /// Answers a question, without rules of the operator; see [`Searcher::search_by`].
    pub fn search(&self, request: &Request, ranks: &dyn Ranks) -> Result<Answer, Error> {
        self.search_by(request, &SearchRules::default(), ranks)
    }

    /// Answers a question.
    ///
    /// Pages with all words come first, save function words, and those with most of them follow; of more than three words
    /// (function words among them), only where they score about as well as the best. What was quoted,
    /// excluded or wanted in one field must hold. `total` counts the hits that can be reached. An empty question has
    /// an empty answer; a question of filters alone lists the best-ranked and newest pages. `first + count` is cut at [`crate::HITS_MAX`]. Where no page has some of the words, the
    /// question is answered as it was probably meant, unless it asks for its words as written.
    pub fn search_by(
        &self,
        request: &Request,
        rules: &SearchRules,
        ranks: &dyn Ranks,
    ) -> Result<Answer, Error> {
        let one = std::slice::from_ref(self);
        ShardedSearch::new(one, rules, ranks, self.hits_per_host).search(request)
    }

    /// Completes what somebody is typing, best first: phrases of titles, then words by how many pages hold them.
    pub fn suggest(&self, prefix: &str, count: usize) -> Vec<String> {
        self.completions(prefix, count).into_iter().map(|completed| completed.text).collect()
    }

    /// The same with what speaks for each, for whoever puts those of several shards together.
    pub fn completions(&self, prefix: &str, count: usize) -> Vec<Completed> {
        let view = self.shared.view();
        suggest::complete(&view, &self.shared.vocabulary(&view), prefix, count).unwrap_or_else(|error| {
            tracing::warn!(%error, "nothing could be completed");
            Vec::new()
        })
    }

    /// Gives a page back as it was put, its texts cut at the limits of the index.
    pub fn document(&self, url: &CanonicalUrl) -> Result<Option<Document>, Error> {
        self.find_by_id(url.id())
    }

    /// Gives the page with this id back.
    pub fn find_by_id(&self, id: PageId) -> Result<Option<Document>, Error> {
        self.shared.view().find(id)
    }

    /// How many pages of a host are searchable.
    pub fn pages_of_host(&self, host: &Host) -> Result<usize, Error> {
        let view = self.shared.view();
        let term = tantivy::Term::from_field_text(view.fields.host, host.as_str());
        let mut pages = 0;
        for segment in view.searcher.segment_readers() {
            let index = segment.inverted_index(view.fields.host).map_err(Error::engine("open a segment"))?;
            let postings = index.read_postings(&term, IndexRecordOption::Basic);
            let Some(mut postings) = postings.map_err(Error::engine("read the pages of a host"))? else {
                continue;
            };
            while postings.doc() != TERMINATED {
                pages += usize::from(!segment.is_deleted(postings.doc()));
                postings.advance();
            }
        }
        Ok(pages)
    }

    /// How many pages are searchable.
    pub fn documents(&self) -> u64 {
        self.shared.view().documents
    }

    /// The commit that is visible; a later one has a greater number.
    pub fn generation(&self) -> u64 {
        self.shared.view().generation
    }

    /// Bytes of all files in the shard's folder.
    pub fn bytes_on_disk(&self) -> u64 {
        self.shared.bytes_on_disk()
    }

    /// The languages of the pages with their counts, most pages first.
    pub fn languages(&self) -> Vec<(Language, u64)> {
        self.shared.view().sizes.languages.clone()
    }

    /// Checks every file of the newest commit against its checksum and reads every stored page; answers how
    /// many pages there are.
    pub fn verify(&self) -> Result<u64, Error> {
        let damaged = self.shared.index.validate_checksum().map_err(Error::engine("check its files"))?;
        if let Some(file) = damaged.iter().min() {
            let what = format!(
                "{} of its files do not match their checksums, {} first",
                damaged.len(),
                file.display()
            );
            return Err(Error::Damaged { what });
        }
        let mut pages = 0;
        for url in self.all_urls() {
            url?;
            pages += 1;
        }
        let documents = self.documents();
        if pages != documents {
            return Err(Error::Damaged { what: format!("it counts {documents} pages and holds {pages}") });
        }
        Ok(pages)
    }

    /// The position up to which stored pages had been taken in at the last commit.
    pub fn watermark(&self) -> Result<PagePosition, Error> {
        last_commit(&self.shared.index).and_then(|(_, mark)| parse_watermark(&mark))
    }

    /// The URLs of all pages of the commit that is visible now, in no special order.
    pub fn all_urls(&self) -> impl Iterator<Item = Result<CanonicalUrl, Error>> + use<> {
        self.all_documents().map(|document| document.map(|document| document.url))
    }

    /// All pages of the commit that is visible now, in no special order.
    pub fn all_documents(&self) -> impl Iterator<Item = Result<Document, Error>> + use<> {
        let view = self.shared.view();
        let slots: Vec<u32> =
            view.searcher.segment_readers().iter().map(|segment| segment.max_doc()).collect();
        let all = slots
            .into_iter()
            .enumerate()
            .flat_map(|(ordinal, slots)| (0..slots).map(move |doc| DocAddress::new(ordinal as u32, doc)));
        all.filter_map(move |at| {
            if view.searcher.segment_reader(at.segment_ord).is_deleted(at.doc_id) {
                return None;
            }
            let bytes = match view.stored(at) {
                Ok(bytes) => bytes,
                Err(error) => return Some(Err(error)),
            };
            Some(decode(&bytes).and_then(|stored| stored.to_document().ok_or_else(not_a_page)))
        })
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Result<StoredDocument<'_>, Error> {
    StoredDocument::decode(bytes).ok_or_else(not_a_page)
}

pub(crate) fn not_a_page() -> Error {
    Error::Damaged { what: "a stored page cannot be read".to_string() }
}
