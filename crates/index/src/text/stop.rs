//! Function words, by language: they score, but a page need not contain them.
//!
//! The lists are short on purpose: articles, pronouns, prepositions, forms of "to be" and question words.

use farol_base::Language;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

const ENGLISH: &str = "a about above after again all also am an and any are as at be because been before being \
    below between both but by can could did do does doing down during each few for from further had has have \
    having he her here hers him his how i if in into is it its just me more most my no nor not of off on once \
    only or other our out over own same she should so some such than that the their them then there these they \
    this those through to too under until up very was we were what when where which while who whom why will \
    with would you your yours";

const PORTUGUESE: &str = "a à ao aos aquela aquelas aquele aqueles aquilo as às até com como da das de dela \
    delas dele deles depois do dos e é ela elas ele eles em entre era eram essa essas esse esses esta está \
    estão estas este estes eu foi foram há isso isto já lhe lhes mais mas me mesmo meu meus minha minhas muito \
    na nas não nem no nos nós nossa nossas nosso nossos num numa o os ou para pela pelas pelo pelos por porque \
    qual quais quando quanto que quem se sem ser seu seus só sua suas também te tem têm teu tua um uma umas \
    uns você vocês";

const SPANISH: &str = "a al algo algunas algunos ante antes aquel aquella aquellas aquellos como con contra \
    cual cuál cuando cuándo de del desde donde dónde durante e el él ella ellas ellos en entre era eran es esa \
    esas ese eso esos esta está están estas este esto estos fue fueron ha han hasta hay la las le les lo los \
    más me mi mis mucho muy nada ni no nos nosotros nuestra nuestro o os otra otro para pero poco por porque \
    que qué quien quién se ser si sí sin sobre son su sus también te tiene tu tus un una unas uno unos y ya yo";

const FRENCH: &str = "a à au aussi aux avec c ce ces cet cette comme d dans de des donc dont du elle elles en \
    est et été être eux il ils j je l la le les leur leurs lui m ma mais me même mes mon n ne ni nos notre nous \
    on ont ou où par pas plus pour qu quand que quel quelle quelles quels qui s sa sans se ses si son sont sur \
    t ta te tes toi ton tu un une vos votre vous y";

const GERMAN: &str = "aber als am an auch auf aus bei bin bis da damit dann das dass dein deine dem den denn \
    der des dessen die dies diese dieser dieses doch dort du durch ein eine einem einen einer eines er es für \
    hat hatte ich ihm ihn ihr ihre im in ist ja jede jeder kann kein keine können man mehr mein mich mir mit \
    muss nach nicht noch nun nur ob oder ohne sehr sein seine sich sie sind so über um und uns unter vom von \
    vor war waren warum was weil wenn wer werden wie wir wird wo zu zum zur zwischen";

const ITALIAN: &str = "a ad agli ai al alla alle allo anche c che chi ci coi col come con contro cui d da dai \
    dal dalla dalle dallo degli dei del dell della delle dello di dove e è ed era erano essere fra fu gli ha \
    hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mie mio ne negli nei nel nella nelle nello \
    noi non nostra nostro o ogni per perché più quale quali quando quella quelle quelli quello questa queste \
    questi questo se sei si sia sono su sua sue sui sul sulla suo suoi tra tu un una uno vi voi";

const DUTCH: &str = "aan al als altijd bij dan dat de deze die dit doen door dus een en er ge geen had heb heeft \
    het hij hoe hun ik in is ja je kan maar me meer met mij mijn moet na naar niet nog nu of om ons onder ook op \
    over te tot uit van veel voor waar was wat we wel werd wie wij wil worden wordt ze zich zij zijn zo zou";

const RUSSIAN: &str = "а без более бы был была были было быть в вам вас весь во вот все всё вы где да для до его \
    ее её если есть еще ещё же за и из или им их к как ко когда кто ли мы на над не него нет но ну о об он она \
    они оно от по под при с со так также там то того тоже только у уже чем что чтобы эта эти это этот я";

const SWEDISH: &str = "alla att av blev bli de den deras dess det detta dig din du där efter ej eller en er ett \
    från för ha hade han hans har hon honom hur här i icke inte ja jag kan man med men mig min mot mycket när \
    någon något nu och om oss på samma sedan sig sin som så till under upp ut vad var vi vid vilken är över";

const DANISH: &str = "af alle at blev bliver da de den der deres det dette dig din dog du efter eller en end er et \
    for fra ham han hans har havde her hun hvad hvis hvor i ikke ind jeg kan man med meget men mig mod når og \
    også om op os over på sig sin skal som så til ud under var ved vi vil være";

const NORWEGIAN: &str = "alle at av ble bli da de den der deres det dette du eller en er et etter for fra før ha \
    hadde han hans har her hun hva hvis hvor i ikke jeg kan man med meg men mot når og også om opp oss over på \
    seg sin skal som så til ut var ved vi vil være å";

/// The lists by language code; a language without one has no function words.
const LISTS: &[(&str, &str)] = &[
    ("en", ENGLISH),
    ("pt", PORTUGUESE),
    ("es", SPANISH),
    ("fr", FRENCH),
    ("de", GERMAN),
    ("it", ITALIAN),
    ("nl", DUTCH),
    ("ru", RUSSIAN),
    ("sv", SWEDISH),
    ("da", DANISH),
    ("nb", NORWEGIAN),
    ("no", NORWEGIAN),
];

/// Verbs of asking: "how do I *get*", "¿cómo *puedo*?", "o que *devo fazer*". They say nothing of the thing that is asked
/// for, but many of them are words of their own in other questions, so they count as such only in whole sentences.
/// Folded, in all languages that have a list.
const ASKING: &str = "can cannot could get let make may might must need please shall want wish \
    consigo consegue consigue debe debemos deben debo deve devem devemos devo fazer faco faz gostaria hace hacer hago \
    necesito pode podem podemos poder posso precisa preciso puede pueden puedo queremos quer quero quiere quiero \
    tengo tenho ter tener vou voy";

/// Whether a folded word may only say that something is asked for.
pub(crate) fn is_asking(folded: &str) -> bool {
    ASKING.split_ascii_whitespace().any(|word| word == folded)
}

/// Whether a lower-cased word only holds sentences of this language together.
pub(crate) fn is_stop_word(language: Language, lowered: &str) -> bool {
    sets().get(language.code()).is_some_and(|set| set.contains(lowered))
}

/// Whether a lower-cased word is a function word of any language.
pub(crate) fn is_stop_word_anywhere(lowered: &str) -> bool {
    sets().values().any(|set| set.contains(lowered))
}

fn sets() -> &'static HashMap<&'static str, HashSet<&'static str>> {
    static SETS: OnceLock<HashMap<&'static str, HashSet<&'static str>>> = OnceLock::new();
    SETS.get_or_init(|| {
        LISTS.iter().map(|(code, words)| (*code, words.split_ascii_whitespace().collect())).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_words_are_known_by_language() {
        let check = |code: &str, word: &str, want: bool| {
            assert_eq!(is_stop_word(Language::parse(code).unwrap(), word), want, "{code} {word}");
        };
        check("en", "the", true);
        check("en", "lighthouse", false);
        check("pt", "não", true);
        check("es", "también", true);
        check("fr", "qu", true);
        check("de", "über", true);
        check("it", "perché", true);
        check("ru", "и", true);
        check("ru", "книга", false);
        check("nl", "het", true);
        check("zh", "的", false);
    }
}
