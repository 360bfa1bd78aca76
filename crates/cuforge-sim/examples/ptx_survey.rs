//! What is in PTX files: instruction forms, those that the simulator does not run, mutants by operator, and how fast
//! they parse.
//!
//! `cargo run --release -p cuforge-sim --example ptx_survey` surveys the shipped test data; files may be given instead.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cuforge_sim::ptx::Module;
use cuforge_sim::{Program, mutate};

/// Rounds of the speed measurement; the median is reported.
const ROUNDS: usize = 31;
/// Bytes that one round parses at least.
const ROUND_BYTES: usize = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        files = shipped()?;
    }
    let (mut texts, mut refused) = (Vec::new(), 0);
    let mut forms: BTreeMap<String, u64> = BTreeMap::new();
    let mut operators: BTreeMap<mutate::Operator, u64> = BTreeMap::new();
    let mut unsupported: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for file in &files {
        let text = fs::read_to_string(file)?;
        match Module::parse(&text) {
            Ok(module) => {
                count(&module, &mut forms, &mut operators);
                not_run(&module, file, &mut unsupported)?;
            }
            Err(error) => {
                refused += 1;
                println!("{}: {error}", file.display());
            }
        }
        texts.push(text);
    }
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("{} files, {bytes} bytes, {refused} refused", files.len());
    println!("{} instructions of {} forms", forms.values().sum::<u64>(), forms.len());
    println!("{} forms are not run", unsupported.len());
    for (form, (count, place)) in &unsupported {
        println!("  {count:>6} {form} (first at {place})");
    }
    println!("{} mutants", operators.values().sum::<u64>());
    for (operator, count) in &operators {
        println!("  {count:>6} {operator}");
    }
    if bytes > 0 {
        println!("{:.1} MB/s parsed (median of {ROUNDS} rounds)", megabytes_per_second(&texts, bytes));
    }
    Ok(())
}

fn shipped() -> Result<Vec<PathBuf>, std::io::Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nvrtc");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn count(
    module: &Module,
    forms: &mut BTreeMap<String, u64>,
    operators: &mut BTreeMap<mutate::Operator, u64>,
) {
    for instruction in module.functions().flat_map(|function| function.instructions()) {
        *forms.entry(instruction.mnemonic.to_string()).or_default() += 1;
    }
    for entry in module.entries() {
        for mutation in mutate::enumerate(module, &entry.name) {
            *operators.entry(mutation.operator()).or_default() += 1;
        }
    }
}

fn not_run(
    module: &Module,
    file: &Path,
    unsupported: &mut BTreeMap<String, (u64, String)>,
) -> Result<(), Box<dyn Error>> {
    let program = Program::load(module)?;
    for name in program.kernel_names() {
        let kernel = program.kernel(&name)?;
        for (line, form) in kernel.unsupported() {
            let place = || (0, format!("{}:{line}", file.display()));
            unsupported.entry(form.to_owned()).or_insert_with(place).0 += 1;
        }
    }
    Ok(())
}

fn megabytes_per_second(texts: &[String], bytes: usize) -> f64 {
    let repeats = ROUND_BYTES / bytes + 1;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for text in (0..repeats).flat_map(|_| texts) {
                let _ = black_box(Module::parse(black_box(text)));
            }
            (bytes * repeats) as f64 / 1e6 / start.elapsed().as_secs_f64()
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds.get(ROUNDS / 2).copied().unwrap_or_default()
}
