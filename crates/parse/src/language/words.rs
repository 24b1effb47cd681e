//! Names a language by its small words, where one language is far ahead of the others.
//!
//! In running text a fifth or more of the words are articles, prepositions and the like. Those that only one
//! language has count most, those of three or more not at all. The list also holds relatives of the languages
//! that are answered for, so that Catalan is not taken for Spanish: where a relative comes near, there is
//! no answer.

use farol_base::Language;
use std::sync::LazyLock;

/// Fewer words say too little.
const WORDS_MIN: usize = 30;
/// Share of the words that must be small words of the language.
const PERCENT_MIN: usize = 20;

/// Small words of each language. Only the first [`ANSWERED`] are ever the answer; the others compete.
const LISTS: &[(&str, &str)] = &[
    (
        "en",
        "the of and to in is that for it was on are as with be this by from at or not have has were which an his they you we can",
    ),
    (
        "es",
        "de la que el en y los del se las por un para con no una su al lo como más pero sus le ya o este es son fue",
    ),
    (
        "pt",
        "de a o que e do da em um para com não uma os no se na por mais as dos como mas ao das à seu sua ou é são foi nos pela pelo",
    ),
    (
        "fr",
        "de la le et les des en un du une que est dans qui par pour au sur pas plus ne se ce il sont avec à aux cette ou nous vous",
    ),
    (
        "de",
        "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass sie wird bei",
    ),
    (
        "it",
        "di e il la che in un a per è del una con non si da le i dei nel al alla della sono come più gli ha ma delle nella anche",
    ),
    (
        "ca",
        "de la i el que a en les els del per una un amb és no al dels més com va són seva aquest ha o però",
    ),
    (
        "gl",
        "de a o que e do da en un para con non unha os no se na por máis as dos como ao das é súa seu ou pola polo",
    ),
    ("oc", "de la e lo que en los las un una del per amb es dels se dins au mai son sus pas foguèt"),
    ("nl", "de van het een en in is dat op te zijn met voor niet aan er ook als bij door die"),
    ("af", "die van en in is het vir wat te nie met op dit aan was hy word"),
    ("ro", "de și în a la cu pe nu din care o un mai să pentru este sunt al lui ca"),
    ("sv", "och i att en det som på är av för med den till inte har de ett om"),
    ("da", "og i at det en den til er som på de med af for ikke der var et"),
    ("lb", "de an d der den déi dat vun op zu ass eng en mat fir net am um"),
    ("eo", "la de kaj en estas al kiu por kun ne ke li ĝi"),
    ("la", "et in est non ut cum ad quod qui ex sed de esse"),
];

/// How many of [`LISTS`], from the first on, are ever the answer.
const ANSWERED: usize = 6;

/// Each word's packed bytes with the set of its languages, in order.
static WORDS: LazyLock<Vec<(u64, u32)>> = LazyLock::new(|| {
    let mut all: Vec<(u64, u32)> = Vec::new();
    for (i, (_, list)) in LISTS.iter().enumerate() {
        all.extend(list.split(' ').map(|word| (word.bytes().fold(0, pack), 1 << i)));
    }
    all.sort_unstable();
    all.dedup_by(|later, first| {
        let same = later.0 == first.0;
        first.1 |= if same { later.1 } else { 0 };
        same
    });
    all
});

fn pack(key: u64, byte: u8) -> u64 {
    key << 8 | u64::from(byte.to_ascii_lowercase())
}

/// The language whose small words are by far the most.
pub fn language(text: &str) -> Option<Language> {
    let mut found = [WordsFound::default(); LISTS.len()];
    let mut words = 0;
    let is_letter = |b: &u8| b.is_ascii_alphabetic() || *b >= 0x80;
    for word in text.as_bytes().split(|b| !is_letter(b)).filter(|word| !word.is_empty()) {
        words += 1;
        if word.len() > 8 {
            continue;
        }
        let key = word.iter().copied().fold(0, pack);
        if let Ok(at) = WORDS.binary_search_by_key(&key, |(key, _)| *key) {
            let mut languages = WORDS[at].1;
            let score = [0, 3, 1].get(languages.count_ones() as usize).copied().unwrap_or(0);
            while languages != 0 {
                let language = &mut found[languages.trailing_zeros() as usize];
                language.words += 1;
                language.score += score;
                languages &= languages - 1;
            }
        }
    }
    let best = (0..ANSWERED).max_by_key(|&i| found[i].score)?;
    let rival = (0..LISTS.len()).filter(|&i| i != best).map(|i| found[i].score).max()?;
    let WordsFound { words: small, score } = found[best];
    let sure =
        words >= WORDS_MIN && small * 100 >= words * PERCENT_MIN && score * 5 >= words && score >= 2 * rival;
    if sure { Language::parse(LISTS[best].0) } else { None }
}

/// What was found of one language.
#[derive(Clone, Copy, Default)]
struct WordsFound {
    /// How many of its small words.
    words: usize,
    /// Three for each word that is only its own, one for each that one other language has too.
    score: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        let text = format!("{text} ").repeat(4);
        assert_eq!(language(&text).map_or(String::new(), |l| l.to_string()), want, "{text}");
    }

    #[test]
    fn far_ahead_or_no_answer() {
        check("O texto que se lê na página foi escrito por uma pessoa que não é da cidade.", "pt");
        check("El texto que se lee en la página fue escrito por una persona que no es de la ciudad.", "es");
        check("The text that is read on the page was written by a person who is not from the city.", "en");
        check("El text que es llegeix a la pàgina va ser escrit per una persona que no és de la ciutat.", ""); // Catalan.
        check(
            "Die teks wat op die bladsy gelees word, is geskryf deur iemand wat nie van die stad is nie.",
            "",
        ); // Afrikaans.
        check("names only: Lisboa Porto Braga Coimbra Faro", "");
        check("12 13 14", "");
    }

    #[test]
    fn words_fit_their_key() {
        for word in LISTS.iter().flat_map(|(_, list)| list.split(' ')) {
            assert!((1..=8).contains(&word.len()), "{word}");
        }
        assert!(WORDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
