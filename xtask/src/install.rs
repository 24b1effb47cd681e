//! Installs what the tests need from Debian's packages and PyPI, where it is not there yet.
//!
//! All but one by apt or pip; nats-server is fetched by [`crate::install_nats`].

use crate::run;

/// Programs of the tests, with the Debian packages that bring them.
const PROGRAMS: &[(&str, &str)] = &[
    ("nginx", "nginx-light"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    ("python3", "python3"),
];

/// Those of [`PROGRAMS`] that only tests with a browser start.
const BROWSER: &[&str] = &["chromium", "chromedriver"];

/// A folder for Python packages, beside what cargo builds.
const VENV: &str = "target/python";

/// Independent readers of what we write.
const PYTHON: &[&str] = &["warcio==1.8.1"];

/// Installs what all tests need, the browser only where it is wanted.
pub fn everything(browser: bool) -> Result<(), String> {
    let wanted = |program: &str| browser || !BROWSER.contains(&program);
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| wanted(program) && !run::exists(program))
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        apt(&missing)?;
    }
    crate::install_nats::install()?;
    python()
}

fn apt(packages: &[&str]) -> Result<(), String> {
    let wanted = packages.join(" ");
    if !run::exists("apt-get") {
        return Err(format!("these are missing and this is not Debian; install them by hand: {wanted}"));
    }
    // Only root may install; others go through sudo where it is there.
    let (program, prefix): (&str, &[&str]) =
        if run::exists("sudo") && !run::quietly("test", &["-w", "/var/lib/dpkg"]) {
            ("sudo", &["apt-get"])
        } else {
            ("apt-get", &[])
        };
    let with = |rest: &[&str]| [prefix, rest].concat().into_iter().map(String::from).collect::<Vec<_>>();
    let update = with(&["update", "-qq"]);
    let mut install = with(&["install", "-y", "-qq", "--no-install-recommends"]);
    install.extend(packages.iter().map(|package| package.to_string()));
    run::step("package lists", program, &update.iter().map(String::as_str).collect::<Vec<_>>())?;
    run::step(
        &format!("installing {wanted}"),
        program,
        &install.iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

fn python() -> Result<(), String> {
    let interpreter = format!("{VENV}/bin/python");
    if run::quietly(&interpreter, &["-c", "import warcio"]) {
        return Ok(());
    }
    if !run::quietly("python3", &["-m", "venv", VENV]) {
        // Debian keeps the module in a package of its own.
        apt(&["python3-venv"])?;
        run::step("Python folder", "python3", &["-m", "venv", VENV])?;
    }
    let arguments = [&["-m", "pip", "install", "--quiet", "--disable-pip-version-check"], PYTHON].concat();
    run::step("installing Python packages", &interpreter, &arguments)
}
