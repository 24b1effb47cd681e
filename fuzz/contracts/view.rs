//! Any text as a view, or two with a line between them, as text and as JSON.
//!
//! Contract: a text is refused with a sentence that points into it, or read; a view that was read is written as text and as
//! JSON that say the same; its normal form has the same pages, as far as its witnesses tell; what is said of two views fits
//! together, and every witness lies where it should.

use farol_base::CanonicalUrl;
use farol_federation::view::{BOXES_MAX, Limits, Matcher};
use farol_federation::{Answer, Facts, View};

/// Smaller than the product's: what is intricate takes long, and says no more.
fn limits() -> Limits {
    Limits { bytes: 1024, atoms: 12, depth: 12 }
}

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let views: Vec<View> = text.splitn(2, '\n').filter_map(read).collect();
    views.iter().for_each(looked_at);
    if let [a, b] = views.as_slice() {
        compared(a, b);
    }
}

fn read(text: &str) -> Option<View> {
    if let Ok(view) = View::from_json(text) {
        return View::parse_within(view.as_str(), &limits()).ok();
    }
    match View::parse_within(text, &limits()) {
        Ok(view) => Some(view),
        Err(error) => {
            assert!(!error.pointed().is_empty() && error.pointed().starts_with(&error.to_string()));
            None
        }
    }
}

fn looked_at(view: &View) {
    let again = View::parse(view.as_str()).expect("the canonical text of a view can be read");
    assert_eq!(again.as_str(), view.as_str());
    assert_eq!(again.digest(), view.digest());
    let json = View::from_json(&view.to_json()).expect("the JSON of a view can be read");
    assert_eq!(json.as_str(), view.as_str());
    let page = CanonicalUrl::parse("http://www.example.org/a/b?c").expect("a URL");
    let (matcher, facts) = (Matcher::of(view), Facts::of(&page));
    assert_eq!(matcher.has(&facts), view.has(&facts));
    assert_eq!(view.complement().has(&facts), view.has(&facts).not());
    let Ok(boxes) = view.boxes() else { return };
    assert!(boxes.len() <= BOXES_MAX);
    let normal = boxes.to_view();
    if let (Answer::Yes, Some(witness)) = boxes.any_page() {
        assert_eq!(view.has(witness.facts()), Answer::Yes, "{view}: {witness}");
        assert_eq!(normal.has(witness.facts()), Answer::Yes, "{view} as {normal}: {witness}");
        assert_eq!(Matcher::of(view).has(witness.facts()), Answer::Yes, "{view}: {witness}");
    }
}

fn compared(a: &View, b: &View) {
    if let Ok((Answer::Yes, Some(witness))) = a.intersects(b) {
        let facts = witness.facts();
        assert_eq!((a.has(facts), b.has(facts)), (Answer::Yes, Answer::Yes), "{a} and {b}: {witness}");
    }
    let held = a.contains(b);
    if let Ok((Answer::No, Some(witness))) = &held {
        let facts = witness.facts();
        assert_eq!((a.has(facts), b.has(facts)), (Answer::No, Answer::Yes), "{a} and {b}: {witness}");
    }
    // What one has of the other is in both, and what is taken away is not there.
    if let Ok((Answer::Yes, _)) = &held
        && let Ok((answer, _)) = b.minus(a).intersects(b)
    {
        assert_ne!(answer, Answer::Yes, "{b} lies in {a}, and has pages beside it");
    }
    if let Ok((answer, _)) = a.contains(&a.and(b)) {
        assert_ne!(answer, Answer::No, "{a} does not hold what it has of {b}");
    }
}
