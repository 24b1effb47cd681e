//! Texts without what tells one day from another: numbers, and names of months and days.
//!
//! Two days of a calendar on which nothing happens have the same words but for these. Does not say what a calendar is.

use farol_base::fingerprint::hash64;

/// Names of months and days, and their abbreviations: English, Portuguese, Spanish, Galician, Catalan, French, German,
/// Italian.
const NAMES: &[&str] = &[
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "jan",
    "feb",
    "mar",
    "apr",
    "jun",
    "jul",
    "aug",
    "sep",
    "sept",
    "oct",
    "nov",
    "dec",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    "sat",
    "sun",
    "janeiro",
    "fevereiro",
    "março",
    "abril",
    "maio",
    "junho",
    "julho",
    "agosto",
    "setembro",
    "outubro",
    "novembro",
    "dezembro",
    "segunda",
    "terça",
    "quarta",
    "quinta",
    "sexta",
    "sábado",
    "domingo",
    "enero",
    "febrero",
    "marzo",
    "mayo",
    "junio",
    "julio",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
    "lunes",
    "martes",
    "miércoles",
    "jueves",
    "viernes",
    "xaneiro",
    "febreiro",
    "xuño",
    "xullo",
    "decembro",
    "luns",
    "mércores",
    "xoves",
    "venres",
    "gener",
    "febrer",
    "març",
    "maig",
    "juny",
    "juliol",
    "setembre",
    "novembre",
    "desembre",
    "dilluns",
    "dimarts",
    "dimecres",
    "dijous",
    "divendres",
    "dissabte",
    "diumenge",
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "décembre",
    "lundi",
    "mardi",
    "mercredi",
    "jeudi",
    "vendredi",
    "samedi",
    "dimanche",
    "januar",
    "februar",
    "märz",
    "juni",
    "juli",
    "oktober",
    "dezember",
    "montag",
    "dienstag",
    "mittwoch",
    "donnerstag",
    "freitag",
    "samstag",
    "sonntag",
    "gennaio",
    "febbraio",
    "aprile",
    "maggio",
    "giugno",
    "luglio",
    "settembre",
    "ottobre",
    "dicembre",
    "lunedì",
    "martedì",
    "mercoledì",
    "giovedì",
    "venerdì",
    "sabato",
    "domenica",
];

/// The longest of the names.
const NAME_BYTES_MAX: usize = 11;

/// Ordinals as in `17th` are numbers up to this length.
const ORDINAL_BYTES_MAX: usize = 4;

/// The fingerprint of texts by their words in their order, without those that tell one day from another.
pub fn fingerprint(texts: [&str; 3]) -> u64 {
    let words = texts.into_iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
    let kept = words.filter(|word| !word.is_empty() && !is_number(word) && !is_name(word));
    kept.fold(0, |hash, word| farol_base::random::mix(hash ^ hash64(word.as_bytes())))
}

fn is_number(word: &str) -> bool {
    let starts = word.starts_with(|c: char| c.is_ascii_digit());
    starts && (word.len() <= ORDINAL_BYTES_MAX || word.bytes().all(|b| b.is_ascii_digit()))
}

fn is_name(word: &str) -> bool {
    word.len() <= NAME_BYTES_MAX && NAMES.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_without_anything_are_alike_and_others_are_not() {
        let of = |text: &str| fingerprint([text, "", ""]);
        let empty = of("Events of 17 November 2026. Nothing is planned. Previous day, next day");
        assert_eq!(empty, of("Events of 1 May 2031. Nothing is planned. Previous day, next day"));
        assert_ne!(empty, of("Events of 18 November 2026. Concert in the park. Previous day, next day"));
        assert_ne!(empty, of("Events of 18 November 2026. Nothing planned is. Previous day, next day"));
        assert_eq!(of("Terça, 3 de março"), of("Sábado, 21 de Abril"));
        assert_eq!(of("Monday 1st"), of("Friday 22nd"));
        // Words with a number inside are words.
        assert_ne!(of("Room w17x"), of("Room w18x"));
        assert!(NAMES.iter().all(|name| name.len() <= NAME_BYTES_MAX));
    }
}
