//! Compares views: whether they meet, whether one contains another, and what is left of one without another.

use super::boxes::{Boxes, Cell, Literal};
use super::names::{Key, Names};
use super::page::Witness;
use super::{Answer, View, context, geo};
use crate::Error;
use std::collections::BTreeMap;

/// An answer with the possible page that proves it, where one does and can be named.
pub type Proved = (Answer, Option<Witness>);

impl Boxes {
    /// Whether any page is in it, with such a page for a yes.
    pub fn any_page(&self) -> Proved {
        let mut answer = Answer::No;
        for cell in &self.cells {
            let (one, witness) = satisfiable(cell);
            if one == Answer::Yes {
                return (one, witness);
            }
            answer = answer.or(one);
        }
        (answer, None)
    }

    /// The pages that are not in the other; boxes that are surely empty are left out.
    pub fn minus(&self, other: &Boxes) -> Result<Boxes, Error> {
        let mut rest = self.clone();
        for taken in &other.cells {
            if rest.cells.iter().all(|cell| cell.and(taken).is_none()) {
                continue;
            }
            rest = Boxes::collect(rest.cells.iter().flat_map(|cell| cell.minus(taken)))?;
        }
        rest.cells.retain(|cell| satisfiable(cell).0 != Answer::No);
        Ok(rest)
    }

    /// Whether every page of the other is in this one; a no comes with a page that is not.
    pub fn contains(&self, other: &Boxes) -> Result<Proved, Error> {
        let (left, witness) = other.minus(self)?.any_page();
        Ok((left.not(), witness))
    }

    /// Whether some page is in both; a yes comes with such a page.
    pub fn intersects(&self, other: &Boxes) -> Result<Proved, Error> {
        Ok(self.and(other)?.any_page())
    }
}

impl View {
    /// Whether every page of the other is in this one; a no comes with a page that is not.
    ///
    /// ```
    /// use farol_federation::{Answer, View};
    /// let (br, ufpe) = (View::parse(".br").unwrap(), View::parse(".ufpe.br").unwrap());
    /// assert_eq!(br.contains(&ufpe).unwrap().0, Answer::Yes);
    /// let (no, witness) = ufpe.contains(&br).unwrap();
    /// assert_eq!((no, witness.unwrap().to_string().as_str()), (Answer::No, "http://br/"));
    /// ```
    pub fn contains(&self, other: &View) -> Result<Proved, Error> {
        self.boxes()?.contains(&other.boxes()?)
    }

    /// Whether some page is in both; a yes comes with such a page.
    pub fn intersects(&self, other: &View) -> Result<Proved, Error> {
        self.boxes()?.intersects(&other.boxes()?)
    }

    /// The pages of this one that are not in the other, in normal form.
    pub fn difference(&self, other: &View) -> Result<View, Error> {
        Ok(self.boxes()?.minus(&other.boxes()?)?.to_view())
    }

    /// Pages of it that are known to be in it before they are visited. A robot may skip these and no others.
    pub fn core(&self) -> Result<View, Error> {
        Ok(self.surely_not_empty()?.core()?.to_view())
    }

    /// Pages that may turn out to be in it once they are visited.
    pub fn hull(&self) -> Result<View, Error> {
        Ok(self.surely_not_empty()?.hull()?.to_view())
    }

    fn surely_not_empty(&self) -> Result<Boxes, Error> {
        let mut boxes = self.boxes()?;
        boxes.cells.retain(|cell| satisfiable(cell).0 != Answer::No);
        Ok(boxes)
    }
}

/// Whether some page is in the box.
pub(crate) fn satisfiable(cell: &Cell) -> Proved {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    let (mut near, mut far) = (Vec::new(), Vec::new());
    // Of each reference the shortest path that is allowed and the longest that is not.
    let mut links: BTreeMap<&Key, (Option<u32>, Option<u32>)> = BTreeMap::new();
    let mut words = Vec::new();
    for (literal, holds) in &cell.literals {
        match (literal, holds) {
            (Literal::Within(disc), true) => inside.push(*disc),
            (Literal::Within(disc), false) => outside.push(*disc),
            (Literal::Like(like), true) => near.push(like),
            (Literal::Like(like), false) => far.push(like),
            (Literal::Title(word), true) => words.push(word.clone()),
            (Literal::Title(_), false) => {}
            (Literal::Linked(key, hops), holds) => {
                let (most, beyond) = links.entry(key).or_default();
                match holds {
                    true => *most = Some(most.map_or(*hops, |most| most.min(*hops))),
                    false => *beyond = Some(beyond.map_or(*hops, |beyond| beyond.max(*hops))),
                }
            }
        }
    }
    if links
        .values()
        .any(|(most, beyond)| matches!((most, beyond), (Some(most), Some(beyond)) if most <= beyond))
    {
        return (Answer::No, None);
    }
    // A page is no link away from itself, so what must be far from a reference is not the reference.
    let references = links.iter().filter(|(_, (_, beyond))| beyond.is_some()).map(|(key, _)| (*key).clone());
    let names = cell.names.and(&Names::below_any(references).complement());
    if names.is_empty() {
        return (Answer::No, None);
    }
    let (place_answer, place) = geo::solve(&inside, &outside);
    let (like_answer, signature) = context::solve(&near, &far);
    let answer = place_answer.and(like_answer);
    if answer != Answer::Yes {
        return (answer, None);
    }
    let has_place = !inside.is_empty() || !outside.is_empty();
    // Without a place or signature that survives rounding there is a page, but none to show.
    if has_place && place.is_none() {
        return (answer, None);
    }
    let Some(name) = some_page(&names) else { return (answer, None) };
    let mut witness = Witness::named(name);
    if let Some((first, last)) = cell.addresses.iter().next().filter(|_| !cell.addresses.is_all()) {
        // Whole blocks usually begin with an address that nobody uses.
        witness.set_address(if first < last { first + 1 } else { first });
    }
    if let Some(code) = cell.countries.any().filter(|_| !cell.countries.is_all()) {
        witness.set_country(code);
    }
    if let Some(code) = cell.languages.any().filter(|_| !cell.languages.is_all()) {
        witness.set_language(code);
    }
    if !cell.types.is_all() {
        let Some(media) = some_type(&cell.types) else { return (answer, None) };
        witness.set_type(media);
    }
    if let Some((first, _)) = cell.dates.iter().next().filter(|_| !cell.dates.is_all()) {
        witness.set_dated(u64::try_from(first).ok());
    }
    if let Some(place) = place.filter(|_| has_place) {
        witness.set_place(place);
    }
    if let Some(signature) = signature.filter(|_| !near.is_empty() || !far.is_empty()) {
        witness.set_signature(signature);
    }
    if cell.literals.keys().any(|literal| matches!(literal, Literal::Title(_))) {
        witness.set_title(words);
    }
    for (key, (most, _)) in links {
        witness.set_hops(key.clone(), most);
    }
    (answer, Some(witness))
}

/// The key of some page in the set, a plain one where there is one.
fn some_page(names: &Names) -> Option<Key> {
    let home = |labels: Vec<String>| Key::of(labels.iter().map(String::as_str).chain(["|", "?/"]));
    let most = names.outline().nodes.len();
    if names.has_rest() {
        let example = home(vec!["org".to_string(), "example".to_string()]);
        let others = (0..=most).map(|i| home(vec![format!("w{i}")]));
        return [example].into_iter().chain(others).find(|key| names.has(key));
    }
    names.plus_keys().flat_map(|key| pages_below(key, most)).find(|key| names.has(key))
}

/// More pages at and below a key than there are marks, the plainest first.
fn pages_below(key: &Key, most: usize) -> Vec<Key> {
    let tokens: Vec<String> = key.tokens().map(str::to_string).collect();
    let with = |more: &[String]| Key::of(tokens.iter().chain(more).map(String::as_str));
    let text = |text: &str| text.to_string();
    let numbers = || 0..=most;
    match tokens.last().map(|last| last.as_bytes().first()) {
        Some(Some(b'?')) => vec![key.clone()],
        Some(Some(b'|' | b'/')) => {
            let port = tokens.iter().position(|token| token.starts_with('|')).unwrap_or(0);
            let path = tokens[port + 1..].concat();
            let own = if path.is_empty() { "?/".to_string() } else { format!("?{path}") };
            let below = numbers().map(|i| with(&[format!("/w{i}"), format!("?{path}/w{i}")]));
            [with(&[own])].into_iter().chain(below).collect()
        }
        _ => {
            let home = with(&[text("|"), text("?/")]);
            let pages = numbers().map(|i| with(&[text("|"), format!("/w{i}"), format!("?/w{i}")]));
            let hosts = numbers().map(|i| with(&[format!("w{i}"), text("|"), text("?/")]));
            let ports = (0..=most).map(|i| with(&[format!("|{}", 8000 + i), text("?/")]));
            [home].into_iter().chain(pages).chain(hosts).chain(ports).collect()
        }
    }
}

fn some_type(types: &Names) -> Option<Key> {
    let most = types.outline().nodes.len();
    let usual = [["text", "html"], ["application", "pdf"]].map(Key::of);
    let fresh = (0..=most).map(|i| Key::of([format!("x-w{i}").as_str(), "x"]));
    let listed = types.plus_keys().flat_map(|key| {
        let major = key.tokens().next().unwrap_or_default().to_string();
        let below = (0..=most).map(move |i| Key::of([major.as_str(), format!("x-w{i}").as_str()]));
        [key.clone()].into_iter().filter(|key| key.tokens().count() == 2).chain(below.collect::<Vec<_>>())
    });
    usual.into_iter().chain(fresh).chain(listed).find(|key| types.has(key))
}
