//! Thirty questions, each with what a sensible answer must be.
//!
//! The expectations come from reading the packages' pages, and were written before any answer was seen. They name
//! pages, not ranks: a result is sensible when its URL or its title holds one of the marks. A question is answered by
//! the manual in its language: marks name that manual's folder where a host holds several. (Two questions about Apache
//! were narrowed to the English manual later, when a Turkish page had passed.)

/// A question with its sensible answers.
pub struct Query {
    /// Language of the question and of the search page.
    pub language: &'static str,
    pub words: &'static str,
    /// First labels of the hosts that can answer it.
    hosts: &'static [&'static str],
    /// Parts of the URL or of the title, in lower case, of which one is enough.
    marks: &'static [&'static str],
}

const OFFICE_PT: &[&str] = &["office-pt", "office-pt-br"];

#[rustfmt::skip]
pub const QUERIES: &[Query] = &[
    // The functions of spreadsheets are described on one long page, 04060109.
    pt("função PROCV", OFFICE_PT, &["/scalc/01/04060109"]),
    pt("tabelas dinâmicas no Calc", OFFICE_PT, &["datapilot", "/scalc/01/1209", "tabela dinâmica", "tabelas dinâmicas"]),
    pt("gravar uma macro", OFFICE_PT, &["macro_recording", "/shared/01/06130010"]),
    pt("exportar como PDF", OFFICE_PT, &["ref_pdf_export", "/shared/02/07090000"]),
    pt("instalar Debian a partir de uma pen USB", &["install"], &["/pt/ch04s03", "/pt/ch05s01", "/pt/apas02"]),
    pt("requisitos de memória e de espaço em disco", &["install"], &["/pt/ch02s05", "/pt/ch03s04", "/pt/apds02"]),
    pt("servidor de arquivos NFS", &["handbook"], &["/pt-br/sect.nfs-file-server"]),
    pt("compartilhamento Windows com Samba", &["handbook"], &["/pt-br/sect.windows-file-server-with-samba"]),
    pt("gestão de pacotes Debian", &["reference-pt"], &["/ch02.pt"]),
    pt("arquivos .htaccess do Apache", &["apache"], &["/pt-br/howto/htaccess"]),
    es("función BUSCARV", &["office-es"], &["/scalc/01/04060109"]),
    es("tablas dinámicas en Calc", &["office-es"], &["datapilot", "/scalc/01/1209", "tabla dinámica", "tablas dinámicas"]),
    es("combinar correspondencia", &["office-es"], &["form_letters", "mailmerge", "mail_merge", "combinar correspondencia"]),
    es("máscara de capa", &["gimp-es"], &["layer-mask", "máscara de capa", "máscaras de capa"]),
    es("quitar ojos rojos de una foto", &["gimp-es"], &["red-eye"]),
    es("modos de capa en GIMP", &["gimp-es"], &["layer-mode"]),
    es("instalar Debian paso a paso", &["handbook", "install"], &["/es-es/sect.installation-steps", "/es-es/installation.html", "install.docs.test/es/"]),
    es("configurar impresoras en Debian", &["handbook"], &["/es-es/sect.config-printing"]),
    es("autenticación y autorización en Apache", &["apache"], &["/es/howto/auth"]),
    es("iniciar y parar el servidor Apache", &["apache"], &["/es/stopping"]),
    en("PostgreSQL VACUUM", &["postgresql"], &["/sql-vacuum", "/routine-vacuuming"]),
    en("git rebase", &["git"], &["/git-rebase"]),
    en("python list comprehension", &["python"], &["/tutorial/datastructures", "/reference/expressions", "/howto/functional"]),
    en("sqlite write-ahead logging", &["sqlite"], &["/wal.html", "/walformat"]),
    en("apache mod_rewrite", &["apache"], &["/en/mod/mod_rewrite", "/en/rewrite/"]),
    en("name-based virtual hosts", &["apache"], &["/en/vhosts/name-based"]),
    en("std::vector push_back", &["cppreference"], &["/vector/push_back"]),
    en("C++ lambda expressions", &["cppreference"], &["/language/lambda"]),
    en("point-in-time recovery", &["postgresql"], &["/continuous-archiving"]),
    en("python regular expressions", &["python"], &["/library/re.html", "/howto/regex"]),
];

const fn pt(words: &'static str, hosts: &'static [&'static str], marks: &'static [&'static str]) -> Query {
    Query { language: "pt", words, hosts, marks }
}

const fn es(words: &'static str, hosts: &'static [&'static str], marks: &'static [&'static str]) -> Query {
    Query { language: "es", words, hosts, marks }
}

const fn en(words: &'static str, hosts: &'static [&'static str], marks: &'static [&'static str]) -> Query {
    Query { language: "en", words, hosts, marks }
}

impl Query {
    pub fn is_answered_by(&self, title: &str, url: &str) -> bool {
        let label = url.trim_start_matches("http://").split('.').next().unwrap_or_default();
        let (title, url) = (title.to_lowercase(), url.to_lowercase());
        let is_marked = self.marks.iter().any(|mark| title.contains(mark) || url.contains(mark));
        self.hosts.contains(&label) && is_marked
    }

    /// What is expected, for the report.
    pub fn wanted(&self) -> String {
        format!("{}: {}", self.hosts.join(" or "), self.marks.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::packages::SITES;
    use super::*;

    #[test]
    fn ten_questions_in_each_language_about_hosts_that_exist() {
        for language in ["pt", "es", "en"] {
            assert_eq!(QUERIES.iter().filter(|query| query.language == language).count(), 10);
        }
        for query in QUERIES {
            assert!(
                query.hosts.iter().all(|label| SITES.iter().any(|site| site.label == *label)),
                "{}",
                query.words
            );
            assert!(query.marks.iter().all(|mark| *mark == mark.to_lowercase()), "{}", query.words);
        }
    }

    #[test]
    fn host_and_mark_must_both_fit() {
        let check = |path: &str, want: bool| {
            assert_eq!(QUERIES[0].is_answered_by("Funções", &format!("http://{path}")), want, "{path}");
        };
        check("office-pt-br.docs.test/pt-BR/text/scalc/01/04060109.html", true);
        check("office-es.docs.test/es/text/scalc/01/04060109.html", false);
        check("office-pt.docs.test/pt/text/scalc/01/04060110.html", false);
    }
}
