//! Whatever parses can be mutated, and every mutant is a module again and another text.
//!
//! `cargo +nightly fuzz run mutate fuzz/corpus/mutate fuzz/seeds -- -dict=fuzz/ptx.dict`, in `crates/cuforge-sim`.
#![no_main]

use cuforge_sim::mutate;
use cuforge_sim::ptx::Module;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(module) = Module::parse(text) else { return };
    for entry in module.entries() {
        let found = mutate::enumerate(&module, &entry.name);
        let step = found.len() / 16 + 1;
        for mutation in found.iter().step_by(step) {
            match mutation.apply(&module) {
                Ok(mutant) => assert_ne!(mutant.source(), text, "{}", mutation.description()),
                Err(error) => panic!("{}: {error}", mutation.description()),
            }
        }
    }
});
