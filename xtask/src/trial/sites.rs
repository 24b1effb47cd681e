//! Which packages of documentation the questions are about.

use crate::debian_docs::packages::{FREE, Robots, Site, plain};

/// Left out: 29,000 pages of processor instructions and of private parts, sources, older editions.
const RUST_ROBOTS: Robots = Robots {
    text: "User-agent: *\nDisallow: /core/\nDisallow: /alloc/\nDisallow: /test/\nDisallow: /proc_macro/\n\
           Disallow: /src/\nDisallow: /std/arch/\nDisallow: /std/os/\nDisallow: /std/simd/\n\
           Disallow: /book/2018-edition/\nDisallow: /book/first-edition/\nDisallow: /book/second-edition/\n",
    ..FREE
};

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
    }
}
