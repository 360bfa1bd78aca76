//! Any text is a module that prints back byte for byte, or an error that lies within the text.
//!
//! `cargo +nightly fuzz run parse fuzz/corpus/parse fuzz/seeds -- -dict=fuzz/ptx.dict`, in `crates/cuforge-sim`.
#![no_main]

use cuforge_sim::ptx::Module;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Module::parse(text) {
        Ok(module) => {
            assert_eq!(module.to_string(), text);
            for function in module.functions() {
                assert!(module.text(function.span).contains(function.name.as_str()));
                for instruction in function.instructions() {
                    assert!(module.text(instruction.span).ends_with(';'));
                    let _ = instruction.call();
                }
            }
            for variable in module.variables() {
                let _ = (variable.size_bytes(), variable.align_bytes());
            }
        }
        Err(error) => {
            assert!(error.span().end as usize <= text.len());
            assert!(error.line() as usize <= text.matches('\n').count() + 1);
            assert!(!error.to_string().is_empty());
        }
    }
});
