//! Runs other programs, saying what and how long.

use std::process::{Command, Stdio};
use std::time::Instant;

pub fn announce(name: &str) {
    println!("== {name}");
}

/// Runs a program; its failure is ours.
pub fn step(name: &str, program: &str, arguments: &[&str]) -> Result<(), String> {
    announce(name);
    let begun = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .status()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    println!("== {name}: {:.0} s", begun.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{name} failed: {program} {}", arguments.join(" "))) }
}

/// Runs a program and says only whether it worked.
pub fn quietly(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Whether a program is on the path.
pub fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Programs for administrators are often not on a user's path.
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places.into_iter().any(|place: std::path::PathBuf| place.join(program).is_file())
}

/// What a program writes on its standard output.
pub fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(program)
        .args(arguments)
        .stderr(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {program}: {error}; install it"))?;
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
