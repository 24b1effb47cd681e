//! Measures what is made of pages: the main text by annotated pages, and the prose of documentation that is lost.
//!
//! The judge is `measure.py`, which reads pages with lxml and shares no code with Farol.

use crate::run;

const USAGE: &str = "cargo xtask extraction [--gold FILE --pages FOLDER] [--count N] [--site NAME=FOLDER]…

  --gold FILE --pages FOLDER   segments that must and must not be in the main text, as trafilatura's evaldata.json
                               has them, and the pages that it names
  --site NAME=FOLDER           HTML pages of one site; which of their sentences are lost
  --count N                    pages that are read of each site, drawn by a fixed seed (default: 150)

Needs python3 with lxml (`pip install lxml`).";

/// Builds the reader and has it judged.
pub fn measure(arguments: &[&str]) -> Result<(), String> {
    if arguments.is_empty() || arguments.contains(&"--help") {
        return Err(USAGE.to_string());
    }
    if !run::quietly("python3", &["-c", "import lxml.html"]) {
        return Err("python3 with lxml is missing; `pip install lxml` brings it".to_string());
    }
    run::step(
        "build",
        "cargo",
        &["build", "--release", "--quiet", "-p", "farol-parse", "--example", "extract"],
    )?;
    let script = "xtask/src/extraction/measure.py";
    let reader = ["-B", script, "--reader", "target/release/examples/extract"];
    run::step("measure", "python3", &[&reader, arguments].concat())
}
