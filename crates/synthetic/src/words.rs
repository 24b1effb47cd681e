//! Words, clauses and names: the text that pages are made of.
//!
//! Each language has a vocabulary: common words written by hand, so that a language detector has something to
//! hold on to, then words made of the language's syllables, in the order of their frequency. From it a pool of
//! clauses is drawn once, by Zipf's law; a page copies clauses from the pool, which costs little more than
//! copying bytes.
//!
//! INVARIANT: everything here depends on the seed alone.

use farol_base::random::mix;
use farol_base::{Language, Random, Seeded};

/// Words per language; needed only while the clauses are made.
const VOCABULARY: usize = 6000;
/// Clauses per language: 3 × 2,048 × about 45 bytes = 280 KB. With the topics below, a processor's second cache
/// holds them, and a page is made without waiting for memory.
const CLAUSES: usize = 2048;
/// Rarer words that titles are made of: 3 × 2,048 × 24 bytes = 147 KB.
const TOPICS: usize = 2048;
/// Room for a topic, the last byte of which holds its length. The longest word that can be made has 21 bytes.
const TOPIC_BYTES: usize = 24;

/// The languages spoken, most common first.
pub const LANGUAGES: [Language; 3] = [Language::ENGLISH, Language::PORTUGUESE, Language::SPANISH];

/// All the text there is.
#[derive(Debug)]
pub struct Lexicon {
    vocabularies: [Vocabulary; 3],
}

/// One language's words and clauses, laid out to be copied from.
#[derive(Debug)]
pub struct Vocabulary {
    topics: Vec<[u8; TOPIC_BYTES]>,
    clauses: Vec<u8>,
    /// Where each clause starts, and after the last one where it ends.
    starts: Vec<u32>,
}

impl Lexicon {
    pub fn new(seed: u64) -> Lexicon {
        let vocabulary = |i: usize| Vocabulary::new(&mut Seeded::new(mix(seed ^ i as u64)), &SOURCES[i]);
        Lexicon { vocabularies: [vocabulary(0), vocabulary(1), vocabulary(2)] }
    }

    /// The words of the language with this number in [`LANGUAGES`].
    pub fn vocabulary(&self, language: usize) -> &Vocabulary {
        &self.vocabularies[language % LANGUAGES.len()]
    }
}

impl Vocabulary {
    fn new(random: &mut Seeded, source: &Source) -> Vocabulary {
        let mut words: Vec<String> = source.common.split_whitespace().map(str::to_string).collect();
        let common = words.len();
        while words.len() < VOCABULARY {
            words.push(source.make_word(random));
        }
        let mut clauses = Vec::with_capacity(CLAUSES * 48);
        let mut starts = vec![0];
        for _ in 0..CLAUSES {
            for i in 0..4 + random.below(6) {
                if i > 0 {
                    clauses.push(b' ');
                }
                // Zipf's law with exponent 1: the logarithm of a word's rank is uniform.
                let rank = (VOCABULARY as f64).powf(random.unit()) as usize - 1;
                clauses.extend_from_slice(words[rank.min(VOCABULARY - 1)].as_bytes());
            }
            starts.push(clauses.len() as u32);
        }
        let topics = words[common..].iter().filter_map(|word| topic_slot(word)).take(TOPICS).collect();
        Vocabulary { topics, clauses, starts }
    }

    /// A clause of four to nine words, chosen by the upper half of any number.
    #[inline]
    pub fn clause(&self, choice: u64) -> &[u8] {
        let i = (choice >> 32) as usize % CLAUSES;
        &self.clauses[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    /// A rarer word, chosen by the upper half of any number.
    #[inline]
    pub fn topic(&self, choice: u64) -> &[u8] {
        let slot = &self.topics[(choice >> 32) as usize % self.topics.len()];
        &slot[..usize::from(slot[TOPIC_BYTES - 1])]
    }
}

/// A word in its slot; none where it is too long for one.
fn topic_slot(word: &str) -> Option<[u8; TOPIC_BYTES]> {
    let mut slot = [0; TOPIC_BYTES];
    slot[..TOPIC_BYTES - 1].get_mut(..word.len())?.copy_from_slice(word.as_bytes());
    slot[TOPIC_BYTES - 1] = word.len() as u8;
    Some(slot)
}

/// Appends a number as pronounceable letters, different for different numbers: 0 is `baba`.
pub fn push_letters(out: &mut Vec<u8>, mut number: u64) {
    for syllable in 0.. {
        if number == 0 && syllable >= 2 {
            break;
        }
        let digit = (number % 80) as usize;
        out.extend_from_slice(&[CONSONANTS[digit / 5], VOWELS[digit % 5]]);
        number /= 80;
    }
}

/// Reads what [`push_letters`] wrote.
pub fn read_letters(text: &[u8]) -> Option<u64> {
    // 80^10 is above 2^63, so ten syllables could overflow; page numbers need seven.
    if !text.len().is_multiple_of(2) || !(4..=18).contains(&text.len()) {
        return None;
    }
    let mut number = 0u64;
    for pair in text.chunks(2).rev() {
        let consonant = CONSONANTS.iter().position(|c| *c == pair[0])?;
        let vowel = VOWELS.iter().position(|v| *v == pair[1])?;
        number = number * 80 + (consonant * 5 + vowel) as u64;
    }
    Some(number)
}

const CONSONANTS: [u8; 16] = *b"bdfghjklmnprstvz";
const VOWELS: [u8; 5] = *b"aeiou";

/// What a language's words are made of.
struct Source {
    /// Frequent words, most frequent first.
    common: &'static str,
    onsets: &'static [&'static str],
    vowels: &'static [&'static str],
    endings: &'static [&'static str],
}

impl Source {
    fn make_word(&self, random: &mut Seeded) -> String {
        let mut pick = |from: &[&'static str]| from[random.below(from.len() as u64) as usize];
        let mut word = String::new();
        word.push_str(pick(self.onsets));
        word.push_str(pick(self.vowels));
        word.push_str(pick(self.onsets));
        let long = pick(&["", "", "x"]);
        if !long.is_empty() {
            word.push_str(pick(self.vowels));
            word.push_str(pick(self.onsets));
        }
        word.push_str(pick(self.endings));
        word
    }
}

/// In the order of [`LANGUAGES`].
const SOURCES: [Source; 3] = [
    Source {
        common: "the of and to in a is that for it was on with as be by at this from are which or have an they \
                 not were their but had one all we can more has when there been if who out so its about into \
                 than up other some time could these two may then do first any like our over such people only \
                 new will my would him your how way after many must through back years where much before right \
                 too means old same tell does set three want air well also play small end put home read hand \
                 large spell even land here big high such follow act why ask men change went light kind off \
                 need house picture try again animal point mother world near build self earth father head \
                 stand own page should country found answer school grow study still learn plant cover food",
        onsets: &[
            "b", "br", "c", "ch", "cl", "d", "f", "fl", "g", "gr", "h", "l", "m", "n", "p", "pl", "r", "s",
            "sh", "st", "t", "th", "tr", "w",
        ],
        vowels: &["a", "e", "i", "o", "u", "ea", "ee", "oo", "ou"],
        endings: &["ing", "er", "ed", "ness", "ly", "ment", "able", "tion", "ful", "y", "ow", "and"],
    },
    Source {
        common: "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele das \
                 tem à seu sua ou ser quando muito há nos já está eu também só pelo pela até isso ela entre era \
                 depois sem mesmo aos ter seus quem nas me esse eles estão você tinha foram essa num nem suas \
                 meu às minha têm numa pelos elas havia seja qual será nós tenho lhe deles essas esses pelas \
                 este fosse dele tu te vocês vos lhes meus minhas teu tua nosso nossa dela delas esta estes \
                 casa água cidade praia mundo vida tempo ano dia homem mulher coração ação criança noite manhã \
                 trabalho escola livro caminho rio irmão mãe pai luz porta palavra história língua verão terra",
        onsets: &[
            "b", "c", "d", "f", "g", "l", "lh", "m", "n", "nh", "p", "pr", "r", "s", "t", "tr", "v", "z",
            "ch", "j", "br", "gr",
        ],
        vowels: &["a", "e", "i", "o", "u", "ã", "ei", "ou", "á", "ê"],
        endings: &["ção", "ções", "ado", "ando", "mente", "eiro", "inha", "dade", "oso", "agem", "ar", "ão"],
    },
    Source {
        common: "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha \
                 me si sin sobre este ya entre cuando todo esta ser son dos también fue había era muy años hasta \
                 desde está mi porque qué sólo han yo hay vez puede todos así nos ni parte tiene él uno donde \
                 bien tiempo mismo ese ahora cada e vida otro después te otros aunque esa eso hace otra gobierno \
                 tan durante siempre día tanto ella tres sí dijo sido gran país según menos mundo año antes \
                 estado contra sino forma caso nada hacer general estaba poco estos presidente mayor ante unos \
                 casa agua ciudad playa camino libro escuela niño niña mañana noche corazón luz puerta palabra",
        onsets: &[
            "b", "c", "d", "f", "g", "l", "ll", "m", "n", "ñ", "p", "pr", "r", "rr", "s", "t", "tr", "v",
            "z", "ch", "j", "br",
        ],
        vowels: &["a", "e", "i", "o", "u", "ie", "ue", "á", "í", "ó"],
        endings: &["ción", "ciones", "ado", "ando", "mente", "ero", "ita", "dad", "oso", "aje", "ar", "illo"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_seed_one_lexicon() {
        let (a, b, c) = (Lexicon::new(1), Lexicon::new(1), Lexicon::new(2));
        let text = |lexicon: &Lexicon| lexicon.vocabulary(1).clause(77 << 32).to_vec();
        assert_eq!(text(&a), text(&b));
        assert_ne!(text(&a), text(&c));
    }

    #[test]
    fn frequent_words_are_those_of_the_language() {
        let lexicon = Lexicon::new(1);
        for (language, word) in [(0, "the"), (1, "que"), (2, "los")] {
            let vocabulary = lexicon.vocabulary(language);
            let clauses =
                (0..CLAUSES as u64).map(|i| String::from_utf8(vocabulary.clause(i << 32).to_vec()).unwrap());
            let all = clauses.collect::<Vec<_>>().join(" ");
            let count = all.split(' ').filter(|w| *w == word).count();
            let total = all.split(' ').count();
            assert!(count * 200 > total, "{word} is {count} of {total} words");
            assert_eq!(vocabulary.topics.len(), TOPICS);
            assert!(
                (0..TOPICS as u64)
                    .all(|i| std::str::from_utf8(vocabulary.topic(i << 32)).unwrap().len() >= 4)
            );
        }
    }

    proptest! {
        #[test]
        fn letters_read_back(number in 0u64..1_000_000_000_000) {
            let mut text = Vec::new();
            push_letters(&mut text, number);
            prop_assert_eq!(read_letters(&text), Some(number));
        }

        #[test]
        fn no_letters_break_it(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = read_letters(&text);
        }
    }
}
