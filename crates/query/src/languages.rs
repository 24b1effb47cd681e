//! Languages of `lang:`, by code or by their English, Portuguese or Spanish name.
//!
//! A code must be one of ISO 639-1: a typing mistake should give a complaint rather than no pages.
//! Reading the *text* of a question by language is the index's work.

use farol_base::Language;

/// Reads `pt`, `pt-BR`, `portuguese`, `português`, `Portugués`.
pub(crate) fn read_language(value: &str) -> Option<Language> {
    let plain = plain(value);
    let named = NAMES.iter().find(|(_, names)| names.split(' ').any(|name| name == plain));
    let code = named.map_or(plain.as_str(), |(code, _)| code);
    let language = Language::parse(code)?;
    // Region and script may follow, `pt-BR`, but not just anything: `pt-` and `pt-$` are mistakes.
    let well_formed = code
        .split(['-', '_'])
        .all(|part| !part.is_empty() && part.len() <= 8 && part.bytes().all(|b| b.is_ascii_alphanumeric()));
    (well_formed && CODES.split(' ').any(|known| known == language.code())).then_some(language)
}

/// Lower case, with the accents gone that occur in the names below.
fn plain(name: &str) -> String {
    let bare = |c: char| match c {
        'á' | 'à' | 'â' | 'ã' => 'a',
        'é' | 'ê' => 'e',
        'í' => 'i',
        'ó' | 'ô' => 'o',
        'ú' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        other => other,
    };
    name.chars().flat_map(char::to_lowercase).map(bare).collect()
}

/// All of ISO 639-1.
const CODES: &str = "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy \
    da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig \
    ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml \
    mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg \
    si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh \
    yi yo za zh zu";

/// Names without accents: English, Portuguese, Spanish, and the language's own where it is plain Latin.
const NAMES: &[(&str, &str)] = &[
    ("af", "afrikaans africaner"),
    ("ar", "arabic arabe"),
    ("bg", "bulgarian bulgaro"),
    ("bn", "bengali bengales"),
    ("ca", "catalan catalao catala"),
    ("cs", "czech tcheco checo"),
    ("cy", "welsh gales"),
    ("da", "danish dinamarques danes dansk"),
    ("de", "german alemao aleman deutsch"),
    ("el", "greek grego griego"),
    ("en", "english ingles"),
    ("eo", "esperanto"),
    ("es", "spanish espanhol espanol castellano"),
    ("et", "estonian estoniano estonio"),
    ("eu", "basque basco vasco euskara"),
    ("fa", "persian farsi persa"),
    ("fi", "finnish finlandes suomi"),
    ("fr", "french frances francais"),
    ("ga", "irish irlandes"),
    ("gl", "galician galego gallego"),
    ("gn", "guarani"),
    ("he", "hebrew hebraico hebreo"),
    ("hi", "hindi"),
    ("hr", "croatian croata"),
    ("hu", "hungarian hungaro"),
    ("hy", "armenian armenio"),
    ("id", "indonesian indonesio"),
    ("is", "icelandic islandes"),
    ("it", "italian italiano"),
    ("ja", "japanese japones"),
    ("ka", "georgian georgiano"),
    ("ko", "korean coreano"),
    ("la", "latin latim"),
    ("lt", "lithuanian lituano"),
    ("lv", "latvian letao leton"),
    ("mk", "macedonian macedonio"),
    ("ms", "malay malaio malayo"),
    ("nl", "dutch holandes neerlandes nederlands"),
    ("no", "norwegian noruegues norsk"),
    ("pl", "polish polones polaco polski"),
    ("pt", "portuguese portugues"),
    ("qu", "quechua"),
    ("ro", "romanian romeno rumano"),
    ("ru", "russian russo ruso"),
    ("sk", "slovak eslovaco"),
    ("sl", "slovene slovenian esloveno"),
    ("sq", "albanian albanes"),
    ("sr", "serbian servio serbio"),
    ("sv", "swedish sueco svenska"),
    ("sw", "swahili suaili"),
    ("ta", "tamil"),
    ("th", "thai tailandes"),
    ("tr", "turkish turco"),
    ("uk", "ukrainian ucraniano"),
    ("ur", "urdu"),
    ("vi", "vietnamese vietnamita"),
    ("yo", "yoruba ioruba"),
    ("zh", "chinese chines chino"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, want: Option<&str>) {
        assert_eq!(
            read_language(value).map(|language| language.code().to_string()).as_deref(),
            want,
            "{value}"
        );
    }

    #[test]
    fn codes_tags_and_names() {
        check("pt", Some("pt"));
        check("PT-br", Some("pt"));
        check("zh_Hant_TW", Some("zh"));
        check("Português", Some("pt"));
        check("inglés", Some("en"));
        check("español", Some("es"));
        check("German", Some("de"));
    }

    #[test]
    fn what_is_no_language() {
        for value in ["", "p", "xx", "klingonese", "pt-", "pt-$", "portuguese-brazil", "日本"] {
            check(value, None);
        }
    }

    #[test]
    fn every_name_leads_to_a_code_of_the_standard() {
        assert_eq!(CODES.split(' ').count(), 184);
        for (code, names) in NAMES {
            for name in names.split(' ') {
                check(name, Some(code));
            }
        }
    }
}
