//! Damaged kernels end in results or faults, never in a panic, and always in bounded time.

use std::path::Path;

use cuforge_core::LaunchGeometry;
use cuforge_sim::ptx::{FunctionKind, Module};
use cuforge_sim::{LaunchOptions, Memory, Program, launch, mutate};

/// Runs an entry with every pointer on one buffer and every number 7.
fn run(module: &Module, entry: &str) -> &'static str {
    let Ok(program) = Program::load(module) else { return "not loaded" };
    let Ok(kernel) = program.kernel(entry) else { return "not loaded" };
    let Some(function) = module.function(entry) else { return "not loaded" };
    let mut memory = Memory::new(1 << 24);
    let buffer = memory.allocate(4096, 256).unwrap();
    memory.fill(buffer, 4096, 0).unwrap();
    let mut params = vec![0u8; kernel.param_bytes() as usize];
    let mut at = 0usize;
    for parameter in &function.parameters {
        let size = parameter.size_bytes().unwrap() as usize;
        at = at.next_multiple_of(parameter.align_bytes() as usize);
        let value = if size == 8 { buffer } else { 7 };
        for (byte, value) in params[at..at + size].iter_mut().zip(value.to_le_bytes()) {
            *byte = value;
        }
        at += size;
    }
    let geometry = LaunchGeometry { grid: [2, 1, 1], block: [64, 1, 1], shared_bytes: 512 };
    let options = LaunchOptions { threads: 1, step_budget: 20_000, ..LaunchOptions::default() };
    match launch(&kernel, &geometry, &params, &mut memory, &options) {
        Ok(_) => "done",
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            "fault"
        }
    }
}

#[test]
fn mutants_of_real_kernels_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nvrtc");
    let (mut mutants, mut done) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // One text of each source is enough.
        if !path.to_str().unwrap().contains(".12.9.86.sm_") || path.extension().unwrap() != "ptx" {
            continue;
        }
        let module = Module::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for function in module.functions().filter(|function| function.kind == FunctionKind::Entry) {
            run(&module, &function.name);
            for mutation in mutate::enumerate(&module, &function.name) {
                mutants += 1;
                done += usize::from(run(&mutation.apply(&module).unwrap(), &function.name) == "done");
            }
        }
    }
    assert!(mutants > 500 && done > 50, "{mutants} mutants, {done} came to an end");
}

#[test]
fn lines_that_are_lost_or_swapped_do_no_harm() {
    let text = include_str!("../../../cuforge-oracle/kernels/ptx/softmax.ptx");
    let lines: Vec<&str> = text.lines().collect();
    let mut loaded = 0;
    for at in 0..lines.len() {
        let mut lost = lines.clone();
        lost.remove(at);
        let mut swapped = lines.clone();
        swapped.swap(at, (at * 7 + 3) % lines.len());
        for damaged in [lost, swapped] {
            if let Ok(module) = Module::parse(&damaged.join("\n")) {
                loaded += usize::from(run(&module, "softmax") != "not loaded");
            }
        }
    }
    assert!(loaded > 100, "{loaded}");
}
