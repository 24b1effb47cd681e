//! Judged collections in the formats they come in.
//!
//! | folder | documents | queries | judgements |
//! |---|---|---|---|
//! | cacm, cran, med, npl, adi | SMART and Vaswani formats under their usual file names | the same | the same |
//! | any other | `documents*`, `docs*`, `corpus*`, `collection*` | `queries*`, `topics*` | `qrels*` |
//!
//! In any other folder documents are tab-separated (`id text`, `id title text` or `id address title text`), JSON
//! lines (`_id`, `id` or `docno`; `url`, `title`, `text`, `contents` or `body`) or TREC SGML (`<DOC>`, `<DOCNO>`);
//! queries are tab-separated (`id text`) or TREC topics (`<top>`, `<num>`, `<title>`); judgements are TREC's (`query
//! iteration document grade`), or tab-separated with a line of headings (`query document grade`).

use crate::measures::{Measures, measure};
use crate::{Result, Run};
use farol_base::fingerprint::hash64;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A document as its collection has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JudgedPage {
    pub address: String,
    pub title: String,
    pub text: String,
}

/// Documents, queries and judgements by their names.
#[derive(Default)]
pub struct Collection {
    pub name: String,
    pub documents: BTreeMap<String, JudgedPage>,
    pub queries: BTreeMap<String, String>,
    /// Grades by query and document; every query here has a relevant document.
    pub judged: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Collection {
    /// Reads the collection in a folder.
    pub fn read(folder: &Path) -> Result<Collection> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("?").to_string();
        let mut collection = Collection { name: name.clone(), ..Collection::default() };
        let file = |name: &str| read_text(&folder.join(name));
        match name.as_str() {
            "cacm" => {
                collection.read_smart(&file("cacm.all")?, &file("query.text")?, false);
                collection.judge_pairs(&file("qrels.text")?);
            }
            "cran" => {
                collection.read_smart(&file("cran.all.1400")?, &file("cran.qry")?, true);
                // Code -1 marks the document that a question was made from; it was not judged.
                let judgements = file("cran.qrels")?;
                let lines = judgements.lines().filter(|line| !line.trim().ends_with("-1"));
                collection.judge_pairs(&lines.collect::<Vec<_>>().join("\n"));
            }
            "med" => {
                collection.read_smart(&file("MED.ALL")?, &file("MED.QRY")?, false);
                collection.judge_trec(&file("MED.REL")?);
            }
            "adi" => {
                collection.read_smart(&file("ADI.ALL")?, &file("ADI.QRY")?, false);
                collection.judge_pairs(&file("ADI.REL")?);
            }
            "npl" => {
                for (number, text) in blocks(&file("doc-text")?) {
                    collection.documents.insert(number, JudgedPage { text, ..JudgedPage::default() });
                }
                collection.queries = blocks(&file("query-text")?).into_iter().collect();
                for (query, documents) in blocks(&file("rlv-ass")?) {
                    documents.split_whitespace().for_each(|document| collection.judge(&query, document, 1));
                }
            }
            _ => collection.read_by_names(folder)?,
        }
        let queries = &collection.queries;
        collection
            .judged
            .retain(|query, grades| queries.contains_key(query) && grades.values().any(|grade| *grade > 0));
        if collection.documents.is_empty() || collection.judged.is_empty() {
            return Err(format!("{}: no documents, or no judged queries", folder.display()).into());
        }
        Ok(collection)
    }

    /// Keeps the queries of one half: 0 or 1.
    pub fn keep_half(&mut self, half: u64) {
        self.judged.retain(|query, _| hash64(query.as_bytes()) & 1 == half);
    }

    /// What a run is worth for each judged query.
    pub fn measure(&self, run: &Run) -> Vec<Measures> {
        let of = |(query, grades)| measure(run.get(query).map_or(&[][..], Vec::as_slice), grades);
        self.judged.iter().map(of).collect()
    }

    fn judge(&mut self, query: &str, document: &str, grade: u32) {
        self.judged.entry(query.to_string()).or_default().insert(document.to_string(), grade);
    }

    /// Lines that begin with a query and a document that is relevant to it.
    fn judge_pairs(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some(query), Some(document)) = (words.next(), words.next()) {
                // CACM writes its queries' numbers with leading zeros here, and without them elsewhere.
                self.judge(query.trim_start_matches('0'), document, 1);
            }
        }
    }

    /// TREC's judgements, or a table with headings. Grades below 0 mean spam, and count as 0.
    fn judge_trec(&mut self, text: &str) {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (query, document, grade) = match words[..] {
                [query, _, document, grade] => (query, document, grade),
                [query, document, grade] => (query, document, grade),
                _ => continue,
            };
            if let Ok(grade) = grade.parse::<f64>() {
                self.judge(query, document, grade.max(0.0) as u32);
            }
        }
    }

    /// Documents and queries with `.I`, `.T` and `.W` sections.
    fn read_smart(&mut self, documents: &str, queries: &str, count_queries: bool) {
        for (number, mut sections) in smart(documents) {
            let mut section = |key: &str| sections.remove(key).unwrap_or_default();
            let page = JudgedPage { title: section("T"), text: section("W"), address: String::new() };
            self.documents.insert(number, page);
        }
        for (at, (number, mut sections)) in smart(queries).into_iter().enumerate() {
            // The judgements of CRAN count its queries instead of using their numbers.
            let number = if count_queries { (at + 1).to_string() } else { number };
            self.queries.insert(number, sections.remove("W").unwrap_or_default());
        }
    }

    fn read_by_names(&mut self, folder: &Path) -> Result<()> {
        let mut names: Vec<_> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
        names.sort();
        for path in names {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_lowercase();
            let is = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
            if is(&["documents", "docs", "corpus", "collection"]) {
                self.documents.extend(documents(&read_text(&path)?));
            } else if is(&["queries", "topics"]) {
                self.queries.extend(queries(&read_text(&path)?));
            } else if is(&["qrels"]) {
                self.judge_trec(&read_text(&path)?);
            }
        }
        Ok(())
    }
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn documents(text: &str) -> BTreeMap<String, JudgedPage> {
    if text.contains("<DOCNO>") {
        return text.split("<DOC>").skip(1).filter_map(sgml_document).collect();
    }
    let mut out = BTreeMap::new();
    for line in text.lines() {
        if let Ok(Value::Object(map)) = serde_json::from_str(line) {
            let first = |keys: &[&str]| {
                let value = keys.iter().find_map(|key| map.get(*key));
                value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_string))
            };
            let Some(name) = first(&["_id", "id", "docno", "docid"]) else { continue };
            let page = JudgedPage {
                address: first(&["url"]).unwrap_or_default(),
                title: first(&["title"]).unwrap_or_default(),
                text: first(&["text", "contents", "body"]).unwrap_or_default(),
            };
            out.insert(name, page);
            continue;
        }
        let columns: Vec<&str> = line.split('\t').collect();
        let (name, [address, title, text]) = match columns[..] {
            [name, text] => (name, ["", "", text]),
            [name, title, text] => (name, ["", title, text]),
            [name, address, title, text] => (name, [address, title, text]),
            _ => continue,
        };
        let page =
            JudgedPage { address: address.to_string(), title: title.to_string(), text: text.to_string() };
        out.insert(name.to_string(), page);
    }
    out
}

fn sgml_document(text: &str) -> Option<(String, JudgedPage)> {
    let inside = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        rest.split_once(&format!("</{tag}>")).map(|(inside, _)| without_tags(inside))
    };
    let title = ["TITLE", "HEADLINE", "HL", "TI"].iter().find_map(|tag| inside(tag)).unwrap_or_default();
    let page = JudgedPage { address: String::new(), title, text: inside("TEXT").unwrap_or_default() };
    Some((inside("DOCNO")?.trim().to_string(), page))
}

fn queries(text: &str) -> BTreeMap<String, String> {
    if !text.contains("<top>") {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        return lines.map(|(name, text)| (name.to_string(), text.to_string())).collect();
    }
    // Old topics close no tag: a section ends where the next one begins.
    let section = |topic: &str, tag: &str| {
        let (_, rest) = topic.split_once(tag)?;
        let end = rest.find('<').unwrap_or(rest.len());
        Some(rest[..end].split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let topic = |topic: &str| {
        let number = section(topic, "<num>")?.trim_start_matches("Number:").trim().to_string();
        let title = section(topic, "<title>")?.trim_start_matches("Topic:").trim().to_string();
        Some((number, title))
    };
    text.split("<top>").skip(1).filter_map(topic).collect()
}

fn without_tags(text: &str) -> String {
    let mut out = String::new();
    for (at, piece) in text.split('<').enumerate() {
        out.push_str(if at == 0 { piece } else { piece.split_once('>').map_or("", |(_, text)| text) });
        out.push(' ');
    }
    out
}

/// Records of `.I number` with sections by their letter, in order.
fn smart(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut records: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        let letter = line.strip_prefix('.').map(str::trim).filter(|rest| !rest.is_empty());
        if let Some(rest) = line.strip_prefix(".I") {
            records.push((rest.trim().trim_start_matches('0').to_string(), BTreeMap::new()));
            section.clear();
        } else if let Some(letter) = letter.filter(|rest| rest.bytes().all(|b| b.is_ascii_uppercase())) {
            section = letter.to_string();
        } else if let Some((_, sections)) = records.last_mut().filter(|_| !section.is_empty()) {
            let text = sections.entry(section.clone()).or_default();
            text.push_str(line);
            text.push('\n');
        }
    }
    records
}

/// Records of a number, lines, and a slash.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut records = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match &mut open {
            _ if line.trim() == "/" => records.extend(open.take()),
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
            None => {
                let number = line.trim();
                open = number.parse::<u32>().ok().map(|_| (number.to_string(), String::new()));
            }
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_come_in_four_formats() {
        let want = JudgedPage { address: String::new(), title: "T".into(), text: "some text".into() };
        for text in [
            "d1\tT\tsome text\n",
            "{\"_id\": \"d1\", \"title\": \"T\", \"text\": \"some text\"}\n",
            "{\"id\": \"d1\", \"title\": \"T\", \"contents\": \"some text\"}\n",
            "<DOC>\n<DOCNO> d1 </DOCNO><TITLE>T</TITLE><TEXT>some <P>text</TEXT></DOC>",
        ] {
            let read = documents(text);
            let page = &read["d1"];
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(
                (words(&page.title), words(&page.text)),
                (want.title.clone(), want.text.clone()),
                "{text}"
            );
        }
        assert_eq!(documents("1\thttp://a/\tT\tx\n")["1"].address, "http://a/");
    }

    #[test]
    fn topics_are_sgml_or_lines() {
        let old =
            "<top>\n<num> Number: 301\n<title> Topic: Organized Crime\n\n<desc> Description:\nWho?\n</top>";
        for text in
            [old, "301\tOrganized Crime\n", "<top><num>301</num><title>Organized\nCrime</title></top>"]
        {
            assert_eq!(queries(text)["301"], "Organized Crime", "{text}");
        }
    }

    #[test]
    fn judgements_with_and_without_iterations() {
        let mut collection = Collection::default();
        collection.judge_trec("query-id\tcorpus-id\tscore\n1\ta\t2\n2 0 b 1\n2 Q0 c -2\n");
        assert_eq!(collection.judged["1"]["a"], 2);
        assert_eq!((collection.judged["2"]["b"], collection.judged["2"]["c"]), (1, 0));
        assert_eq!(collection.judged.len(), 2);
    }

    #[test]
    fn records_of_the_glasgow_collections() {
        let records = smart(".I 01\n.T\nTitle\n.W\nSome\ntext\n.I 2\n.W\nOther\n");
        assert_eq!(records[0].0, "1");
        assert_eq!((records[0].1["T"].as_str(), records[0].1["W"].as_str()), ("Title\n", "Some\ntext\n"));
        assert_eq!(
            blocks("1\nA B\n/\n2\nC\n/\n"),
            [("1".into(), "A B\n".into()), ("2".into(), "C\n".into())]
        );
    }
}
