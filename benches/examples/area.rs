//! Measures areas by name and prints their figures: `cargo run --release --example area -- launch [--quick]`.

use cuforge_benches::{AREAS, Settings};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let settings = Settings { quick: words.iter().any(|word| word == "--quick") };
    let mut failed = words.is_empty();
    for name in words.iter().filter(|word| !word.starts_with("--")) {
        let Some(area) = AREAS.iter().find(|area| area.name == name) else {
            eprintln!("no area {name}");
            failed = true;
            continue;
        };
        match (area.run)(&settings) {
            Ok(figures) => {
                for figure in figures {
                    let spread = figure.spread;
                    let (name, unit) = (&figure.name, figure.unit);
                    let bar = figure.bar.map(|bar| format!("  bar {bar}")).unwrap_or_default();
                    let held = figure.holds().map_or("", |held| if held { "  held" } else { "  NOT HELD" });
                    println!(
                        "{name:<46} {:>11.3} [{:.3} .. {:.3}] {unit}{bar}{held}",
                        spread.median, spread.lower, spread.upper
                    );
                }
            }
            Err(error) => {
                eprintln!("{name}: {error}");
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}
