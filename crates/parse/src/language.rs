//! Names the language of a text.
//!
//! Two policies, cheapest first. `words` counts the small words of the commonest languages (`the`, `und`,
//! `que`) and answers only where one of them is far ahead: a few microseconds. Otherwise `trigrams` asks
//! whatlang, which knows many more languages and takes twenty times as long. Both look at a bounded sample,
//! and an answer counts only where it is sure, so short and mixed texts have no language here and the
//! page's own claim is used.

mod address;
mod trigrams;
mod words;

pub use address::of_address;
use farol_base::Language;

/// Bytes of a text on which its language is told. More changes few answers and costs time.
pub const SAMPLE_BYTES: usize = 1200;
/// Shorter texts say too little.
const BYTES_MIN: usize = 40;

/// The language of a text, if it is sure.
///
/// ```
/// use farol_base::Language;
/// let text = "A pesquisa na Web precisa de máquinas que visitem as páginas muitas vezes.";
/// assert_eq!(farol_parse::language::of_text(text), Some(Language::PORTUGUESE));
/// ```
pub fn of_text(text: &str) -> Option<Language> {
    let sample = sample(text);
    if sample.len() < BYTES_MIN {
        return None;
    }
    words::language(sample).or_else(|| trigrams::language(sample))
}

/// A stretch from the middle, where the text is least likely to be headings and names.
fn sample(text: &str) -> &str {
    if text.len() <= SAMPLE_BYTES {
        return text;
    }
    let start = text.ceil_char_boundary((text.len() - SAMPLE_BYTES) / 2);
    let end = text.floor_char_boundary(start + SAMPLE_BYTES);
    &text[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        for text in [text.to_string(), format!("{text} ").repeat(20)] {
            assert_eq!(of_text(&text).map_or(String::new(), |l| l.to_string()), want, "{text}");
        }
    }

    #[test]
    fn languages_of_sentences() {
        check(
            "A pesquisa na Web precisa de máquinas que visitem as páginas muitas vezes, e isso custa caro.",
            "pt",
        );
        check(
            "La búsqueda en la Web necesita máquinas que visiten las páginas muchas veces, y eso cuesta caro.",
            "es",
        );
        check(
            "Searching the Web needs machines that visit the pages many times over, and that is expensive.",
            "en",
        );
        check(
            "Die Suche im Netz braucht Maschinen, die die Seiten viele Male besuchen, und das ist teuer.",
            "de",
        );
        check(
            "La recherche sur le Web demande des machines qui visitent les pages bien des fois, et cela coûte cher.",
            "fr",
        );
        check(
            "La ricerca sul Web ha bisogno di macchine che visitano le pagine molte volte, e questo costa.",
            "it",
        );
        check("検索エンジンはウェブページを何度も訪れる機械を必要とし、それには費用がかかります。", "ja");
        check("Поиск в сети требует машин, которые много раз посещают страницы, и это стоит дорого.", "ru");
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(of_text(""), None);
        assert_eq!(of_text("ok"), None);
        assert_eq!(of_text(&"1 2 3 4 5 6 7 8 9 10 ".repeat(20)), None);
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "\\PC{0,2000}") {
            let _ = of_text(&text);
        }
    }
}
