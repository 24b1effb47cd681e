//! Spells words as the indexed pages do: the words of this index for the rule of [`farol_query::spell`].

use crate::vocabulary::{Vocabulary, letters};
use farol_query::spell::{self, KnownWord};

impl spell::Vocabulary for Vocabulary {
    fn documents(&self) -> u64 {
        self.documents
    }

    fn near<'v>(&'v self, form: &str, slips_max: u32) -> Box<dyn Iterator<Item = KnownWord<'v>> + 'v> {
        let wanted = letters(form);
        let near =
            self.words.iter().filter(move |word| (wanted ^ word.letters).count_ones() <= 2 * slips_max);
        Box::new(near.map(|word| (&*word.form, &*word.shown, word.pages)))
    }

    fn stands(&self, phrase: &str) -> bool {
        self.completions.binary_search_by(|entry| (*entry.key).cmp(phrase)).is_ok()
    }

    fn is_in_title(&self, form: &str) -> bool {
        let found = self.words.binary_search_by(|word| (*word.form).cmp(form));
        found.is_ok_and(|at| self.words[at].is_in_title)
    }

    fn begins(&self, form: &str) -> bool {
        let start = self.words.partition_point(|word| *word.form < *form);
        self.words.get(start).is_some_and(|word| word.form.starts_with(form))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestShard, page, page_in, written};

    fn shard() -> TestShard {
        let mut pages: Vec<_> = (0..4)
            .map(|n| page(&format!("http://h{n}/"), "The lighthouse", &format!("about light {n}")))
            .collect();
        pages.extend(
            (0..4).map(|n| page_in("pt", &format!("http://p{n}/"), "Instalação", &format!("corpo {n}"))),
        );
        TestShard::new(&pages)
    }

    #[test]
    fn words_that_no_page_has_are_spelt_as_pages_spell_them() {
        let shard = shard();
        let check = |words: &str, want: Option<&str>| {
            let answer = shard.ask(words);
            assert_eq!(answer.corrected.map(|query| written(&query)).as_deref(), want, "{words}");
        };
        check("lighthuose", Some("lighthouse"));
        check("the ligthouse \"about light\"", Some("the lighthouse \"about light\""));
        check("ligthouse abuot", Some("lighthouse about")); // Several at once.
        check("ligthouse -instalação", Some("lighthouse -instalação")); // All else stays.
        check("instalacão", None); // Found already, accents or not.
        check("instelacao", Some("instalação"));
        check("lighthouse", None);
        check("lit", None); // Too short to tell.
        check("zzzzzzzz", None);
        check("lightho", Some("lightho*")); // A beginning.
        check("\"lighthuose\"", None); // What is quoted is meant.
        let found = shard.ask("lighthuose");
        assert_eq!((found.hits.len(), found.suggestion), (4, None));
    }

    #[test]
    fn words_as_written_are_left_alone() {
        let shard = shard();
        let mut query = crate::testing::query("lighthuose", Default::default());
        query.as_written = true;
        let answer = shard.ask_query(query);
        assert_eq!((answer.hits.len(), answer.corrected), (0, None));
        assert_eq!(answer.suggestion.map(|query| written(&query)).as_deref(), Some("lighthouse"));
    }

    #[test]
    fn a_rare_slip_does_not_win_over_the_right_word_nor_is_it_replaced_unasked() {
        let mut pages: Vec<_> = (0..40)
            .map(|n| page(&format!("http://r{n}/"), "Settings", &format!("the configuration {n}")))
            .collect();
        for n in 0..3 {
            pages.push(page(&format!("http://w{n}/"), "Notes", &format!("the configuraton {n}")));
        }
        // A rare word that is one: it has other forms.
        pages.push(page("http://x/", "Texts", "a formal text"));
        pages.push(page("http://y/", "Texts", "it is formally right"));
        pages.extend((0..30).map(|n| page(&format!("http://f{n}/"), "File", &format!("the format {n}"))));
        let shard = TestShard::new(&pages);
        let suggested = |words: &str| shard.ask(words).suggestion.map(|query| written(&query));
        // The right word is likelier, but not by far.
        let answer = shard.ask("configuraton");
        assert_eq!((answer.corrected, answer.hits.len()), (None, 3));
        assert_eq!(suggested("configuraton").as_deref(), Some("configuration"));
        // One slip from the slip, two from the word.
        let answer = shard.ask("configurato");
        assert_eq!(answer.corrected.map(|query| written(&query)).as_deref(), Some("configuration"));
        assert_eq!(suggested("formal"), None);
    }

    #[test]
    fn a_slip_of_three_pages_gives_way_to_a_word_of_hundreds_unless_it_is_asked_for_or_stands_in_a_title() {
        let mut pages: Vec<_> = (0..700)
            .map(|n| page(&format!("http://r{n}/"), "Settings", &format!("the configuration {n}")))
            .collect();
        pages.extend(
            (0..3).map(|n| page(&format!("http://w{n}/"), "Notes", &format!("the configuraton {n}"))),
        );
        pages.push(page("http://n/", "The Configurator", "a program"));
        let shard = TestShard::new(&pages);
        let answer = shard.ask("configuraton");
        assert_eq!(answer.corrected.map(|query| written(&query)).as_deref(), Some("configuration"));
        assert_eq!(answer.total, 701, "the program has the same stem");
        let mut query = crate::testing::query("configuraton", Default::default());
        query.as_written = true;
        let answer = shard.ask_query(query);
        assert_eq!((answer.corrected, answer.hits.len()), (None, 3));
        assert_eq!(shard.ask("configurator").corrected, None);
    }

    #[test]
    fn neighbours_in_titles_decide_between_likely_words() {
        let mut pages = Vec::new();
        for n in 0..6 {
            pages.push(page(&format!("http://a{n}/"), "Harbour light", &format!("of the coast {n}")));
            pages.push(page(&format!("http://b{n}/"), "Good night", &format!("of the coast {n}{n}")));
        }
        let shard = TestShard::new(&pages);
        let check = |words: &str, want: &str| {
            let answer = shard.ask(words);
            assert_eq!(answer.corrected.map(|query| written(&query)).as_deref(), Some(want), "{words}");
        };
        check("harbour xight", "harbour light");
        check("good xight", "good night");
    }
}
