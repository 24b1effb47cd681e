//! Words of titles in one spelling that every engine finds the same: no accents, lower case, plain width.

use icu_normalizer::DecomposingNormalizerBorrowed;

/// The word in its one spelling; none where the text is no single word.
pub fn folded_word(text: &str) -> Option<String> {
    let mut words = folded_words(text).into_iter();
    words.next().filter(|_| words.next().is_none())
}

/// The words of a text in their one spelling: what stands between characters that are neither letters nor digits.
pub fn folded_words(text: &str) -> Vec<String> {
    let folded = folded(text);
    folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_string).collect()
}

/// Lower-casing can uncover marks and marks can keep letters apart, so both are repeated while they change something.
fn folded(text: &str) -> String {
    let normaliser = DecomposingNormalizerBorrowed::new_nfkd();
    let mut text = text.to_string();
    for _ in 0..4 {
        let lower = normaliser.normalize(&text).to_lowercase();
        let next: String =
            normaliser.normalize(&lower).chars().filter(|c| !('\u{300}'..='\u{36F}').contains(c)).collect();
        if next == text {
            break;
        }
        text = next;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded_and_found() {
        assert_eq!(folded_words("A Água, é: PRAIA-2001"), ["a", "agua", "e", "praia", "2001"]);
        assert_eq!(folded_word("Práia").as_deref(), Some("praia"));
        assert_eq!(folded_word("duas praias"), None);
        assert_eq!(folded_word("¡"), None);
    }
}
