//! Which packages of documentation the questions are about.

use crate::debian_docs::packages::{FREE, Robots, Site, plain};

/// Left out: 29,000 pages of processor instructions and of private parts, sources, older editions.
const RUST_ROBOTS: Robots = Robots {
    text: "User-agent: *\nDisallow: /core/\nDisallow: /alloc/\nDisallow: /test/\nDisallow: /proc_macro/\n\
           Disallow: /src/\nDisallow: /std/arch/\nDisallow: /std/os/\nDisallow: /std/simd/\n\
           Disallow: /book/2018-edition/\nDisallow: /book/first-edition/\nDisallow: /book/second-edition/\n",
    ..FREE
};

/// Translations into languages in which nobody asks are left out: the same pages ten to twenty times.
const OMEGAT_ROBOTS: Robots = Robots {
    text: "User-agent: *\nDisallow: /ar/\nDisallow: /be/\nDisallow: /ca/\nDisallow: /cs/\nDisallow: /cy/\n\
           Disallow: /da/\nDisallow: /de/\nDisallow: /el/\nDisallow: /eo/\nDisallow: /eu/\nDisallow: /fr/\n\
           Disallow: /hr/\nDisallow: /hu/\nDisallow: /ia/\nDisallow: /id/\nDisallow: /it/\nDisallow: /ja/\n\
           Disallow: /ko/\nDisallow: /nl/\nDisallow: /no/\nDisallow: /pl/\nDisallow: /ru/\nDisallow: /sh/\n\
           Disallow: /sk/\nDisallow: /sl/\nDisallow: /sq/\nDisallow: /sv/\nDisallow: /tr/\nDisallow: /uk/\n\
           Disallow: /zh_CN/\nDisallow: /zh_TW/\n",
    ..FREE
};

const SOLFEGE_ROBOTS: Robots = Robots {
    text: "User-agent: *\nDisallow: /de/\nDisallow: /eo/\nDisallow: /et/\nDisallow: /fr/\nDisallow: /nb/\n\
           Disallow: /nl/\nDisallow: /pl/\nDisallow: /ru/\nDisallow: /tr/\n",
    ..FREE
};

const BIBLETIME_ROBOTS: Robots = Robots {
    text: "User-agent: *\nDisallow: /*/html/ar/\nDisallow: /*/html/bg/\nDisallow: /*/html/br/\n\
           Disallow: /*/html/cs/\nDisallow: /*/html/da/\nDisallow: /*/html/de/\nDisallow: /*/html/fi/\n\
           Disallow: /*/html/fr/\nDisallow: /*/html/hu/\nDisallow: /*/html/it/\nDisallow: /*/html/ja/\n\
           Disallow: /*/html/ko/\nDisallow: /*/html/lt/\nDisallow: /*/html/nl/\nDisallow: /*/html/ru/\n\
           Disallow: /*/html/th/\nDisallow: /*/html/uk/\n",
    ..FREE
};

const MPLAYER_ROBOTS: Robots = Robots {
    text: "User-agent: *\nDisallow: /cs/\nDisallow: /de/\nDisallow: /fr/\nDisallow: /hu/\nDisallow: /it/\n\
           Disallow: /pl/\nDisallow: /ru/\nDisallow: /zh_CN/\n",
    ..FREE
};

const OTHER_ROBOTS: Robots = Robots {
    text: "User-agent: *\nDisallow: /cs/\nDisallow: /de/\nDisallow: /el/\nDisallow: /fr/\nDisallow: /it/\n\
           Disallow: /nl/\nDisallow: /ru/\nDisallow: /sv/\n",
    ..FREE
};

/// Of sets A and B.
#[rustfmt::skip]
pub const SITES: &[Site] = &[
    listed("gnucash-docs", "gnucash", 1, "usr/share/doc/gnucash-docs", "DocBook"),
    listed("harden-doc", "harden", 2, "usr/share/doc/harden-doc/html", "Publican"),
    listed("focalinux-html", "focalinux", 3, "usr/share/doc/focalinux/html", "DebianDoc"),
    listed("lilypond-doc-html-es", "lilypond", 4, "usr/share/doc/lilypond/html/Documentation", "texi2html"),
    made_by("DocBook", plain("aptitude-doc-es", "aptitude", 5, "usr/share/doc/aptitude/html/es")),
    listed("freedombox-doc-es", "freedombox", 6, "usr/share/freedombox/manual/es", "MoinMoin by DocBook"),
    listed("live-manual-html", "live", 7, "usr/share/doc/live-manual/html", "SiSU"),
    made_by("Sphinx", plain("python-django-doc", "django", 8, "usr/share/doc/python-django-doc/html")),
    made_by("Sphinx", plain("cmake-doc", "cmake", 9, "usr/share/doc/cmake-data/html")),
    made_by("Texinfo", plain("octave-doc", "octave", 10, "usr/share/doc/octave/octave.html")),
    listed("ant-doc", "ant", 11, "usr/share/doc/ant", "Javadoc and by hand"),
    made_by("Doxygen", plain("libeigen3-doc", "eigen", 12, "usr/share/doc/libeigen3-dev/html")),
    made_by("MkDocs", plain("mkdocs-doc", "mkdocs", 13, "usr/share/doc/mkdocs/html")),
    made_by("rustdoc and mdBook", Site { robots: RUST_ROBOTS, ..plain("rust-doc", "rust", 14, "usr/share/doc/rust-doc/html") }),
];

/// Of set C.
#[rustfmt::skip]
pub const OTHER_SITES: &[Site] = &[
    Site { robots: OMEGAT_ROBOTS, ..listed("omegat", "omegat", 1, "usr/share/doc/omegat/html", "DocBook") },
    Site { robots: SOLFEGE_ROBOTS, ..listed("solfege-doc", "solfege", 2, "usr/share/doc/solfege/help", "DocBook") },
    Site { index: "index.pt.html", ..made_by("DocBook", plain("debian-faq-pt", "faq", 3, "usr/share/doc/debian/FAQ/pt")) },
    Site { robots: BIBLETIME_ROBOTS, ..listed("bibletime-data", "bibletime", 4, "usr/share/doc/bibletime-data", "DocBook") },
    Site { robots: MPLAYER_ROBOTS, ..listed("mplayer-doc", "mplayer", 5, "usr/share/doc/mplayer/HTML", "DocBook") },
    Site { robots: OTHER_ROBOTS, ..listed("drgeo-doc", "drgeo", 6, "usr/share/drgeo/help", "TeXmacs") },
    Site { robots: OTHER_ROBOTS, ..listed("nted-doc", "nted", 7, "usr/share/doc/nted", "DocBook") },
    Site { index: "index.es.html", ..made_by("DocBook", plain("maint-guide-es", "maint", 8, "usr/share/doc/maint-guide-es/html")) },
    Site { robots: OTHER_ROBOTS, ..listed("genius-common", "genius", 9, "usr/share/genius/help", "DocBook") },
    made_by("Sphinx", plain("borgbackup-doc", "borg", 10, "usr/share/doc/borgbackup/html")),
    made_by("Sphinx", plain("python-flask-doc", "flask", 11, "usr/share/doc/python-flask-doc/html")),
    made_by("xfpt and DocBook", plain("exim4-doc-html", "exim", 12, "usr/share/doc/exim4-doc-html/spec_html")),
    listed("shorewall-doc", "shorewall", 13, "usr/share/doc/shorewall-doc", "DocBook"),
    made_by("by hand and from manual pages", plain("postfix-doc", "postfix", 14, "usr/share/doc/postfix/html")),
];

/// Those that a set asks about.
pub fn of_set(set: &str) -> &'static [Site] {
    if set == "c" { OTHER_SITES } else { SITES }
}

const fn made_by(generator: &'static str, site: Site) -> Site {
    Site { generator, ..site }
}

/// A package without a page of plain links to all of its parts.
const fn listed(
    package: &'static str,
    label: &'static str,
    address: u8,
    root: &'static str,
    generator: &'static str,
) -> Site {
    Site { listing: Some("/"), generator, ..plain(package, label, address, root) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian_docs::packages;

    #[test]
    fn no_site_was_used_before() {
        for site in SITES {
            assert!(packages::SITES.iter().all(|used| used.package != site.package), "{}", site.package);
        }
        for site in OTHER_SITES {
            let mut used = packages::SITES.iter().chain(SITES);
            assert!(
                used.all(|used| used.package != site.package && used.label != site.label),
                "{}",
                site.package
            );
        }
    }
}
