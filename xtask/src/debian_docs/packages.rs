//! Which packages are served as which hosts, and how they get onto this disk.
//!
//! Two packages share one address, so that politeness per address is tried as well as politeness per host.

use crate::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package of documentation, served as one host.
pub struct Site {
    pub package: &'static str,
    /// First label of the host name.
    pub label: &'static str,
    /// Last number of the address, in 127.0.77.0/24.
    pub address: u8,
    /// Folder in the package that the host serves.
    pub root: &'static str,
    /// Where a visitor starts.
    pub front: &'static str,
    /// File shown for a folder.
    pub index: &'static str,
    /// The program that made its pages; empty where it does not matter.
    pub generator: &'static str,
    /// Folder from which on nginx lists files, where the package has no page of plain links.
    pub listing: Option<&'static str>,
    pub robots: Robots,
}

/// What the host's robots.txt says; an empty text means that there is none.
#[derive(Clone, Copy)]
pub struct Robots {
    pub text: &'static str,
    /// Beginnings of the paths that the text forbids to Farol.
    pub refused: &'static [&'static str],
    /// The pause that it asks for, in milliseconds.
    pub delay_ms: u64,
}

pub const FREE: Robots = Robots { text: "", refused: &[], delay_ms: 0 };

const APACHE_ROBOTS: Robots = Robots { text: "User-agent: *\nDisallow: /ko/\n", refused: &["/ko/"], ..FREE };

const PYTHON_ROBOTS: Robots = Robots {
    text: "# Sources are for people.\nUser-agent: *\nDisallow: /_sources/\nDisallow: /distutils/\n",
    refused: &["/_sources/", "/distutils/"],
    ..FREE
};

const SQLITE_ROBOTS: Robots = Robots {
    text: "User-agent: *\nCrawl-delay: 0.05\nDisallow: /releaselog/\n",
    refused: &["/releaselog/"],
    delay_ms: 50,
};

/// Everybody else is sent away; who reads the wrong group finds nothing here.
const GIT_ROBOTS: Robots = Robots {
    text: "User-agent: *\nDisallow: /\n\nUser-agent: farol\nDisallow: /howto/\n",
    refused: &["/howto/"],
    ..FREE
};

pub const fn plain(package: &'static str, label: &'static str, address: u8, root: &'static str) -> Site {
    let (front, index) = ("/", "index.html");
    Site { package, label, address, root, front, index, generator: "", listing: None, robots: FREE }
}

/// LibreOffice's contents are made by JavaScript: plain links come from nginx's listing of the text folder.
const fn office(package: &'static str, label: &'static str, address: u8, text: &'static str) -> Site {
    Site { front: text, listing: Some(text), ..plain(package, label, address, "usr/share/libreoffice/help") }
}

#[rustfmt::skip]
pub const SITES: &[Site] = &[
    plain("postgresql-doc-15", "postgresql", 1, "usr/share/doc/postgresql-doc-15/html"),
    Site { listing: Some("/"), ..plain("debian-handbook", "handbook", 2, "usr/share/doc/debian-handbook/html") },
    Site { listing: Some("/"), ..plain("installation-guide-amd64", "install", 3, "usr/share/doc/installation-guide-amd64") },
    Site { robots: APACHE_ROBOTS, ..plain("apache2-doc", "apache", 4, "usr/share/doc/apache2-doc/manual") },
    Site { robots: SQLITE_ROBOTS, ..plain("sqlite3-doc", "sqlite", 5, "usr/share/doc/sqlite3") },
    Site { robots: PYTHON_ROBOTS, ..plain("python3.11-doc", "python", 6, "usr/share/doc/python3.11/html") },
    Site { robots: GIT_ROBOTS, ..plain("git-doc", "git", 7, "usr/share/doc/git-doc") },
    Site { front: "/en/", ..plain("cppreference-doc-en-html", "cppreference", 8, "usr/share/cppreference/doc/html") },
    plain("gimp-help-en", "gimp-en", 9, "usr/share/gimp/2.0/help/en"),
    plain("gimp-help-es", "gimp-es", 10, "usr/share/gimp/2.0/help/es"),
    plain("gimp-help-pt", "gimp-pt", 11, "usr/share/gimp/2.0/help/pt"),
    Site { index: "index.pt.html", ..plain("debian-reference-pt", "reference-pt", 12, "usr/share/debian-reference") },
    Site { index: "index.es.html", ..plain("debian-reference-es", "reference-es", 12, "usr/share/debian-reference") },
    office("libreoffice-help-pt", "office-pt", 13, "/pt/text/"),
    office("libreoffice-help-pt-br", "office-pt-br", 14, "/pt-BR/text/"),
    office("libreoffice-help-es", "office-es", 15, "/es/text/"),
    office("libreoffice-help-en-us", "office-en", 16, "/en-US/text/"),
    office("libreoffice-help-fr", "office-fr", 17, "/fr/text/"),
    office("libreoffice-help-de", "office-de", 18, "/de/text/"),
    office("libreoffice-help-it", "office-it", 19, "/it/text/"),
];

impl Site {
    pub fn host(&self) -> String {
        format!("{}.docs.test", self.label)
    }

    pub fn address(&self) -> String {
        format!("127.0.77.{}", self.address)
    }

    pub fn seed(&self) -> String {
        format!("http://{}{}", self.host(), self.front)
    }

    pub fn folder(&self, dir: &Path) -> PathBuf {
        unpacked(dir, self.package).join(self.root)
    }

    pub fn refuses(&self, path: &str) -> bool {
        self.robots.refused.iter().any(|beginning| path.starts_with(beginning))
    }
}

/// Brings every package to `dir/x/PACKAGE`; what is there already stays.
pub fn unpack_all(dir: &Path, sites: &[Site]) -> Result<(), String> {
    let debs = dir.join("debs");
    for folder in [&debs, &dir.join("x")] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    let mut lists_are_new = false;
    for site in sites {
        let goal = unpacked(dir, site.package);
        if !goal.is_dir() {
            let deb = match deb(&debs, site.package) {
                Some(deb) => deb,
                None => download(&debs, site.package, &mut lists_are_new)?,
            };
            // Under another name until it is whole, so that a run cut short leaves nothing half done.
            let part = dir.join("x").join(format!("{}.part", site.package));
            let _ = std::fs::remove_dir_all(&part);
            run::step(site.package, "dpkg", &["-x", &deb.to_string_lossy(), &part.to_string_lossy()])?;
            std::fs::rename(&part, &goal)
                .map_err(|error| format!("cannot make {}: {error}", goal.display()))?;
        }
        if !site.folder(dir).is_dir() {
            return Err(format!("{} has no folder {}; another release of Debian?", site.package, site.root));
        }
    }
    Ok(())
}

fn unpacked(dir: &Path, package: &str) -> PathBuf {
    dir.join("x").join(package)
}

/// The package's file, if it was downloaded before.
fn deb(debs: &Path, package: &str) -> Option<PathBuf> {
    let beginning = format!("{package}_");
    let names = std::fs::read_dir(debs).ok()?.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = names
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&beginning) && name.ends_with(".deb")
        })
        .collect();
    found.sort();
    found.pop()
}

fn download(debs: &Path, package: &str, lists_are_new: &mut bool) -> Result<PathBuf, String> {
    let fetch = || {
        let status = Command::new("apt-get").args(["download", "-q", package]).current_dir(debs).status();
        status.is_ok_and(|status| status.success())
    };
    println!("downloading {package}");
    if !fetch() {
        if !*lists_are_new {
            // Package lists that are old name files that are gone.
            let sudo = run::exists("sudo") && !run::quietly("test", &["-w", "/var/lib/apt/lists"]);
            let (program, arguments): (&str, &[&str]) =
                if sudo { ("sudo", &["apt-get", "update", "-qq"]) } else { ("apt-get", &["update", "-qq"]) };
            run::step("package lists", program, arguments)?;
            *lists_are_new = true;
        }
        if !fetch() {
            return Err(format!("cannot download {package}; Debian 12 has it, other systems may not"));
        }
    }
    deb(debs, package).ok_or(format!("{package} was downloaded, but no file is in {}", debs.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_has_a_name_of_its_own_and_one_pair_an_address_in_common() {
        let distinct =
            |values: Vec<String>| values.into_iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(distinct(SITES.iter().map(Site::host).collect()), SITES.len());
        assert_eq!(distinct(SITES.iter().map(Site::address).collect()), SITES.len() - 1);
    }

    #[test]
    fn what_robots_refuse_is_in_their_text() {
        for site in SITES {
            for beginning in site.robots.refused {
                assert!(site.robots.text.contains(&format!("Disallow: {beginning}\n")), "{}", site.label);
            }
            assert_eq!(site.robots.delay_ms > 0, site.robots.text.contains("Crawl-delay"), "{}", site.label);
        }
    }
}
