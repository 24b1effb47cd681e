//! Brings nats-server into `target/nats`, without root: Debian 13's package, unpacked.
//!
//! Debian 12 has a version that loses streams, so apt is pointed at the newer suite, with lists and settings of its own:
//! what is installed on the machine stays as it is. The binary needs libc 2.34 only.

use crate::run;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The suite that has a server which is new enough.
const SUITE: &str = "trixie";

/// Older ones forget streams when they are killed.
const VERSION_MIN: [u64; 3] = [2, 10, 23];

const FOLDER: &str = "target/nats";

/// Where `dpkg -x` puts it.
const PROGRAM: &str = "target/nats/unpacked/usr/sbin/nats-server";

/// Installs nats-server, where none is there that is new enough.
pub fn install() -> Result<(), String> {
    let named = std::env::var("FAROL_NATS_SERVER").ok();
    let candidates = [named.as_deref(), Some(PROGRAM), Some("nats-server"), Some("/usr/sbin/nats-server")];
    if candidates.into_iter().flatten().any(is_good) {
        return Ok(());
    }
    if !run::exists("apt-get") {
        return Err(format!(
            "nats-server {} or later is missing and this is not Debian; install it by hand, or set FAROL_NATS_SERVER",
            VERSION_MIN.map(|part| part.to_string()).join(".")
        ));
    }
    let folder = std::path::absolute(FOLDER).map_err(|error| format!("{FOLDER}: {error}"))?;
    let cannot = |error: std::io::Error| format!("{} cannot be prepared: {error}", folder.display());
    let _ = fs::remove_dir_all(&folder);
    for part in ["etc", "lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(part)).map_err(cannot)?;
    }
    fs::write(folder.join("etc/suite.sources"), newer(&sources_of_this_machine())?).map_err(cannot)?;
    fs::write(folder.join("apt.conf"), apt_settings(&folder)).map_err(cannot)?;
    let here = folder.display();
    let script = format!(
        "cd '{here}' && export APT_CONFIG='{here}/apt.conf' && apt-get -qq update && apt-get -qq download nats-server \
         && dpkg -x nats-server_*.deb unpacked && rm -rf lists cache nats-server_*.deb"
    );
    run::step("installing nats-server into target/nats", "sh", &["-c", &script])?;
    if is_good(PROGRAM) { Ok(()) } else { Err(format!("{PROGRAM} is there now, but does not run")) }
}

fn apt_settings(folder: &Path) -> String {
    let here = folder.display();
    format!(
        "Dir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"{here}/etc\";\nDir::State::lists \"{here}/lists\";\n\
         Dir::Cache \"{here}/cache\";\nAPT::Sandbox::User \"\";\n"
    )
}

/// Whether a program says that it is new enough.
fn is_good(program: &str) -> bool {
    let told = Command::new(program).arg("--version").output();
    told.is_ok_and(|told| {
        version(&String::from_utf8_lossy(&told.stdout)).is_some_and(|found| found >= VERSION_MIN)
    })
}

/// Reads `nats-server: v2.10.27`.
fn version(told: &str) -> Option<[u64; 3]> {
    let plain = told.split_whitespace().last()?.trim_start_matches('v').split('-').next()?;
    let parts: Vec<u64> = plain.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    parts.try_into().ok()
}

/// All that apt is told on this machine about where packages come from.
fn sources_of_this_machine() -> String {
    let listed = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut files: Vec<_> = listed.map(|entry| entry.path()).collect();
    files.sort();
    files.push("/etc/apt/sources.list".into());
    let is_read = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|extension| extension == "sources" || extension == "list")
    };
    let texts = files.iter().filter(|path| is_read(path)).filter_map(|path| fs::read_to_string(path).ok());
    texts.collect::<Vec<_>>().join("\n\n")
}

/// The main suite's source, pointed at the newer suite.
fn newer(sources: &str) -> Result<String, String> {
    let is_main = |uris: &str, suites: &str| {
        let first = suites.split_whitespace().next().unwrap_or_default();
        uris.contains("debian")
            && !uris.contains("security")
            && !first.is_empty()
            && !first.contains(['-', '/'])
    };
    for stanza in sources.split("\n\n") {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .unwrap_or_default()
                .trim()
        };
        if field("Types").split_whitespace().any(|kind| kind == "deb")
            && is_main(field("URIs"), field("Suites"))
        {
            let kept = stanza.lines().filter(|line| !line.trim_start().starts_with('#'));
            let lines = kept.map(|line| match line.strip_prefix("Suites:") {
                Some(_) => format!("Suites: {SUITE}"),
                None => line.to_string(),
            });
            return Ok(lines.collect::<Vec<_>>().join("\n") + "\n");
        }
    }
    // The older way to write the same, one line each.
    for line in sources.lines() {
        let Some(rest) = line.trim().strip_prefix("deb ") else { continue };
        let options_end =
            rest.find(']').filter(|_| rest.trim_start().starts_with('[')).map_or(0, |end| end + 1);
        let mut words = rest[options_end..].split_whitespace();
        let (Some(uri), Some(suite)) = (words.next(), words.next()) else { continue };
        if is_main(uri, suite) {
            return Ok(format!(
                "Types: deb\nURIs: {uri}\nSuites: {SUITE}\nComponents: main\n\
                 Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
            ));
        }
    }
    Err("apt on this machine knows no source of Debian's own packages; install nats-server by hand"
        .to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_source_is_pointed_at_the_newer_suite() {
        let machine = "Types: deb\nURIs: http://mirror/debian-security\nSuites: bookworm-security\n\n\
                       Types: deb\n# a note\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\n\
                       Components: main\nSigned-By: /key.gpg\n";
        assert_eq!(
            newer(machine).unwrap(),
            "Types: deb\nURIs: http://mirror/debian\nSuites: trixie\nComponents: main\nSigned-By: /key.gpg\n"
        );
        let lines = "deb http://mirror/debian-security bookworm-security main\n\
                     deb [arch=amd64] http://mirror/debian bookworm main contrib\n";
        assert!(newer(lines).unwrap().contains("URIs: http://mirror/debian\nSuites: trixie\n"));
        assert!(newer("Types: deb\nURIs: http://other/apt\nSuites: stable\n").is_err());
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(version("nats-server: v2.10.27\n"), Some([2, 10, 27]));
        assert_eq!(version("nats-server: v2.11.0-RC.1"), Some([2, 11, 0]));
        assert_eq!(version("nonsense"), None);
    }
}
