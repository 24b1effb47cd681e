//! Prints what hostile robots.txt files cost: reading one, its rules in memory, and the slowest verdict.
//!
//! `cargo run --profile test -p farol-parse --example robots_cost`

use farol_parse::robots::{ROBOTS_BYTES_MAX, Robots, WILD_RULES_MAX};
use std::time::Instant;

fn main() {
    let wild = |i: usize| format!("Disallow: /{}b{i}\n", "*a".repeat(32));
    let overlapping = |i: usize| format!("Disallow: /*{}b*{i}\n", "a".repeat(200));
    let short = |i: usize| format!("Disallow: /*{i}\n");
    let deep = |i: usize| format!("Disallow: /{}{i}\n", "a".repeat(1_900));
    let brief = |i: usize| format!("Allow:/{i:x}\n");
    let files: [(&str, &dyn Fn(usize) -> String); 5] = [
        ("32 wildcards in each rule", &wild),
        ("long pieces that nearly match", &overlapping),
        ("one wildcard in each rule", &short),
        ("long rules with one start", &deep),
        ("as many rules as possible", &brief),
    ];
    println!("{:32} {:>10} {:>10} {:>14}", "file of 500 KiB at most", "read, ms", "KiB", "verdict, ms");
    for (name, line) in files {
        let mut file = "User-agent: *\n".to_string();
        let wild = line(0).contains('*');
        // One rule with wildcards more, and all of them would be read as `Disallow: /`.
        for i in 0..if wild { WILD_RULES_MAX } else { usize::MAX } {
            let line = line(i);
            if file.len() + line.len() > ROBOTS_BYTES_MAX {
                break;
            }
            file.push_str(&line);
        }
        let start = Instant::now();
        let robots = Robots::parse(file.as_bytes(), "farol");
        let read = start.elapsed();
        let slowest = (1..=20).map(|tenth| verdict_ms(&robots, &format!("/{}", "a".repeat(tenth * 100))));
        println!(
            "{name:32} {:10.2} {:10} {:14.4}",
            read.as_secs_f64() * 1e3,
            robots.bytes() >> 10,
            slowest.fold(0.0, f64::max)
        );
    }
}

/// The quickest of some tries: what the work takes, not what else the machine does.
fn verdict_ms(robots: &Robots, path: &str) -> f64 {
    let tries = (0..20).map(|_| {
        let start = Instant::now();
        std::hint::black_box(robots.verdict(path));
        start.elapsed().as_secs_f64() * 1e3
    });
    tries.fold(f64::INFINITY, f64::min)
}
