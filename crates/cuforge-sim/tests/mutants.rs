//! Mutants of real kernels: every operator finds sites, changes nothing but its site, and leaves valid PTX.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuforge_sim::mutate::{self, Mutation, MutationError, Operator};
use cuforge_sim::ptx::Module;

/// What NVRTC made, by file name.
fn compiled() -> Vec<(String, Module)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/nvrtc");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            let module = Module::parse(&fs::read_to_string(&path).unwrap()).unwrap();
            found.push((path.file_name().unwrap().to_string_lossy().into_owned(), module));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn all_mutants(module: &Module) -> Vec<Mutation> {
    module.entries().flat_map(|entry| mutate::enumerate(module, &entry.name)).collect()
}

/// A kernel around one instruction, its declarations and its mutants by operator: the changed line of each.
fn mutants_of(line: &str) -> BTreeMap<&'static str, Vec<String>> {
    let text = format!(
        ".version 8.6\n.target sm_90\n.visible .entry k(.param .u64 k_0) {{\n\
         .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .f64 %d<4>;\n\
         {line}\nDONE: ret;\n}}\n"
    );
    let module = Module::parse(&text).unwrap();
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for mutation in mutate::enumerate(&module, "k") {
        assert_eq!((mutation.line(), mutation.function()), (5, "k"));
        let mutant = mutation.apply(&module).unwrap().to_string();
        let changed = mutant.lines().nth(4).unwrap().trim().to_owned();
        // Nothing but that line has changed.
        assert_eq!(mutant.lines().take(4).collect::<Vec<_>>(), text.lines().take(4).collect::<Vec<_>>());
        assert_eq!(mutant.lines().skip(5).collect::<Vec<_>>(), text.lines().skip(5).collect::<Vec<_>>());
        found.entry(mutation.operator().name()).or_default().push(changed);
    }
    found
}

#[test]
fn each_operator_makes_the_change_it_is_named_for() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("st.global.f32 [%rd1], %f1;", "drop-store", &[""]),
        ("@%p1 red.global.add.u32 [%rd1], 1;", "drop-store", &[""]),
        ("atom.global.add.u32 %r1, [%rd1], 1;", "drop-store", &[""]),
        ("ld.shared.f32 %f1, [%rd1+4];", "zero-load", &["mov.f32 %f1, 0f00000000;"]),
        ("@%p1 ld.global.u64 %rd2, [%rd1];", "zero-load", &["@%p1 mov.u64 %rd2, 0;"]),
        ("bar.sync 0;", "drop-barrier", &[""]),
        ("bar.warp.sync -1;", "drop-barrier", &[""]),
        ("barrier.cluster.arrive.aligned;", "drop-barrier", &[""]),
        ("membar.gl;", "drop-fence", &[""]),
        ("fence.acq_rel.gpu;", "drop-fence", &[""]),
        ("cp.async.wait_group 0;", "drop-wait", &[""]),
        ("@%p1 bra DONE;", "drop-branch", &[""]),
        ("@%p1 bra DONE;", "drop-guard", &["bra DONE;"]),
        ("@%p1 bra DONE;", "negate-guard", &["@!%p1 bra DONE;"]),
        ("@!%p1 st.global.u32 [%rd1], %r1;", "negate-guard", &["@%p1 st.global.u32 [%rd1], %r1;"]),
        ("setp.lt.s32 %p1, %r1, %r2;", "shift-boundary", &["setp.le.s32 %p1, %r1, %r2;"]),
        ("setp.geu.ftz.f32 %p1, %f1, %f2;", "shift-boundary", &["setp.gtu.ftz.f32 %p1, %f1, %f2;"]),
        ("setp.eq.b32 %p1, %r1, %r2;", "negate-comparison", &["setp.ne.b32 %p1, %r1, %r2;"]),
        ("setp.lt.s32 %p1, %r1, %r2;", "negate-comparison", &["setp.ge.s32 %p1, %r1, %r2;"]),
        ("sub.f32 %f1, %f2, %f3;", "swap-operands", &["sub.f32 %f1, %f3, %f2;"]),
        ("fma.rn.f32 %f1, %f2, %f3, %f4;", "swap-operands", &["fma.rn.f32 %f1, %f2, %f4, %f3;"]),
        ("selp.f32 %f1, %f2, 0f3F800000, %p1;", "swap-operands", &["selp.f32 %f1, 0f3F800000, %f2, %p1;"]),
        ("st.v2.f32 [%rd1], {%f1, %f2};", "swap-elements", &["st.v2.f32 [%rd1], {%f2, %f1};"]),
        ("ld.shared.f32 %f1, [%rd1];", "shift-offset", &["ld.shared.f32 %f1, [%rd1+4];"]),
        (
            "st.v4.f32 [%rd1+-16], {%f1, %f2, %f3, %f4};",
            "shift-offset",
            &["st.v4.f32 [%rd1+0], {%f1, %f2, %f3, %f4};", "st.v4.f32 [%rd1+-32], {%f1, %f2, %f3, %f4};"],
        ),
        ("mov.u32 %r1, %tid.x;", "swap-axis", &["mov.u32 %r1, %tid.y;"]),
        ("mov.u32 %r1, %ctaid.y;", "swap-axis", &["mov.u32 %r1, %ctaid.x;"]),
        ("add.s32 %r1, %r2, 1;", "change-constant", &["add.s32 %r1, %r2, 2;"]),
        ("and.b32 %r1, %r2, -1;", "change-constant", &["and.b32 %r1, %r2, 0;"]),
        ("and.b32 %r1, %r2, 4294967295;", "change-constant", &["and.b32 %r1, %r2, 4294967294;"]),
        ("mov.f32 %f1, 0fFF800000;", "change-constant", &["mov.f32 %f1, 0f00000000;"]),
        ("mul.f32 %f1, %f2, 0f40000000;", "change-constant", &["mul.f32 %f1, %f2, 0f40400000;"]),
        ("mov.b64 %rd1, {%r1, 7};", "change-constant", &["mov.b64 %rd1, {%r1, 8};"]),
        (
            "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1;",
            "change-constant",
            &["shfl.sync.bfly.b32 %r1|%p1, %r2, 17, 31, -1;"],
        ),
        ("fma.rn.ftz.f32 %f1, %f2, %f3, %f4;", "change-rounding", &["fma.rz.ftz.f32 %f1, %f2, %f3, %f4;"]),
        ("add.ftz.f32 %f1, %f2, %f3;", "change-rounding", &["add.rz.ftz.f32 %f1, %f2, %f3;"]),
        ("cvt.rni.s32.f32 %r1, %f1;", "change-rounding", &["cvt.rzi.s32.f32 %r1, %f1;"]),
        ("div.rn.f32 %f1, %f2, %f3;", "approximate", &["div.approx.f32 %f1, %f2, %f3;"]),
        ("fma.rn.f32 %f1, %f2, %f3, %f1;", "drop-accumulation", &["mul.rn.f32 %f1, %f2, %f3;"]),
        ("mad.lo.s32 %r1, %r2, %r3, %r1;", "drop-accumulation", &["mul.lo.s32 %r1, %r2, %r3;"]),
        ("dp4a.s32.s32 %r1, %r2, %r3, %r4;", "drop-accumulation", &["dp4a.s32.s32 %r1, %r2, %r3, 0;"]),
        ("add.f32 %f1, %f1, %f2;", "drop-term", &["mov.f32 %f1, %f1;"]),
        ("add.f16 %h1, %h2, %h3;", "drop-term", &["mov.b16 %h1, %h2;"]),
        ("max.f32 %f1, %f2, %f3;", "swap-extremum", &["min.f32 %f1, %f2, %f3;"]),
        ("redux.sync.min.u32 %r1, %r2, -1;", "swap-extremum", &["redux.sync.max.u32 %r1, %r2, -1;"]),
        ("mul.lo.s32 %r1, %r2, %r3;", "change-operation", &["add.s32 %r1, %r2, %r3;"]),
        ("shr.s64 %rd1, %rd2, 3;", "change-operation", &["shl.b64 %rd1, %rd2, 3;"]),
        ("setp.lt.and.s32 %p1, %r1, %r2, %p2;", "change-operation", &["setp.lt.or.s32 %p1, %r1, %r2, %p2;"]),
        (
            "shfl.sync.down.b32 %r1|%p1, %r2, 1, 31, -1;",
            "change-exchange",
            &["shfl.sync.up.b32 %r1|%p1, %r2, 1, 31, -1;"],
        ),
        ("vote.sync.any.pred %p1, %p2, -1;", "change-exchange", &["vote.sync.all.pred %p1, %p2, -1;"]),
    ];
    for (line, operator, expected) in cases {
        let found = mutants_of(line);
        assert_eq!(
            found.get(operator).map_or(&[][..], |lines| &lines[..]),
            *expected,
            "{operator} of `{line}`"
        );
    }
    let tested: BTreeSet<&str> = cases.iter().map(|(_, operator, _)| *operator).collect();
    assert_eq!(tested.len(), Operator::ALL.len(), "an operator has no case");
}

#[test]
fn changes_that_would_change_nothing_or_break_the_form_are_not_offered() {
    let none: &[(&str, &str)] = &[
        ("sub.f32 %f1, %f2, %f2;", "swap-operands"),
        ("setp.eq.s32 %p1, %r1, %r2;", "swap-operands"),
        ("shl.b64 %rd1, %rd2, 3;", "swap-operands"),
        ("mad.wide.s32 %rd1, %r1, %r2, %rd2;", "swap-operands"),
        ("setp.eq.s32 %p1, %r1, %r2;", "shift-boundary"),
        ("fma.rn.f16 %h1, %h2, %h3, %h1;", "change-rounding"),
        ("add.cc.u32 %r1, %r2, %r3;", "change-operation"),
        ("mad.lo.cc.u32 %r1, %r2, %r3, %r4;", "drop-accumulation"),
        ("ld.param.u64 %rd1, [k_0];", "shift-offset"),
        ("ld.param.u64 %rd1, [k_0];", "zero-load"),
        ("bar.sync 1;", "change-constant"),
        ("atom.global.add.u32 %r1, [%rd1], %r1;", "drop-store"),
        ("ret;", "drop-branch"),
    ];
    for (line, operator) in none {
        assert_eq!(mutants_of(line).get(operator), None, "{operator} of `{line}`");
    }
}

#[test]
fn every_operator_but_rare_ones_finds_sites_in_compiled_kernels() {
    let mut counts: BTreeMap<Operator, usize> = BTreeMap::new();
    for (_, module) in compiled() {
        for mutation in all_mutants(&module) {
            *counts.entry(mutation.operator()).or_default() += 1;
        }
    }
    for operator in Operator::ALL {
        assert!(counts.contains_key(operator), "{operator}: {counts:?}");
    }
}

#[test]
fn a_mutant_differs_from_its_kernel_at_its_site_only() {
    for (name, module) in compiled() {
        let text = module.source();
        for mutation in all_mutants(&module).iter().step_by(7) {
            let mutant = mutation.apply(&module).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_ne!(mutant.source(), text, "{name}: {}", mutation.description());
            let site = mutation.span().range();
            let behind = text.len() - site.end;
            assert_eq!(mutant.source()[..site.start], text[..site.start], "{name}");
            assert_eq!(mutant.source()[mutant.source().len() - behind..], text[site.end..], "{name}");
            assert_eq!(mutant.source().lines().count(), text.lines().count(), "{name}");
            let line = text.lines().nth(mutation.line() as usize - 1).unwrap();
            assert!(text[site.clone()].lines().next().is_some_and(|first| line.contains(first)), "{name}");
        }
    }
}

#[test]
fn one_module_always_gives_the_same_mutants_in_text_order() {
    for (name, module) in compiled() {
        let again = Module::parse(module.source()).unwrap();
        for entry in module.entries() {
            let found = mutate::enumerate(&module, &entry.name);
            assert_eq!(found, mutate::enumerate(&again, &entry.name), "{name}");
            let of_kernel: Vec<u32> =
                found.iter().filter(|m| m.function() == &*entry.name).map(|m| m.span().start).collect();
            assert!(of_kernel.is_sorted(), "{name}");
            // No two of them make the same text.
            let texts: BTreeSet<String> = found.iter().map(|m| format!("{:?}", m.edits())).collect();
            assert_eq!(texts.len(), found.len(), "{name}");
        }
    }
}

#[test]
fn functions_that_a_kernel_calls_are_mutated_with_it() {
    let (_, module) =
        compiled().into_iter().find(|(name, _)| name.starts_with("calls.13.5.37.sm_80")).unwrap();
    let functions: BTreeSet<String> =
        mutate::enumerate(&module, "calls").iter().map(|mutation| mutation.function().to_owned()).collect();
    assert!(
        functions.contains("calls") && functions.iter().any(|name| name.contains("weigh")),
        "{functions:?}"
    );
    assert!(!functions.contains("choose"));
    assert!(mutate::enumerate(&module, "nothing").is_empty());
}

#[test]
fn a_mutation_says_in_words_what_it_changes() {
    let text = ".version 8.0\n.target sm_80\n.entry k() {\n.reg .f32 %f<3>; .reg .pred %p<2>;\n\
                @%p1\tmax.f32  %f1, %f1, [%f2+4];\n}";
    let module = Module::parse(text).unwrap();
    let words: Vec<String> = mutate::enumerate(&module, "k").iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "k line 5: drop-guard: without `@%p1` in `@%p1 max.f32 %f1, %f1, [%f2+4];`",
            "k line 5: negate-guard: `@!%p1` for `@%p1` in `@%p1 max.f32 %f1, %f1, [%f2+4];`",
            "k line 5: swap-extremum: `min.f32` for `max.f32` in `@%p1 max.f32 %f1, %f1, [%f2+4];`",
        ]
    );
}

#[test]
fn a_mutation_of_another_module_is_refused() {
    let kernel = |op: &str| {
        Module::parse(&format!(
            ".version 8.0\n.target sm_80\n.entry k() {{ .reg .f32 %f<3>; {op}.f32 %f1, %f1, %f2; }}"
        ))
        .unwrap()
    };
    let (one, other) = (kernel("max"), kernel("sub"));
    let mutation = &mutate::enumerate(&one, "k")[0];
    assert!(mutation.apply(&kernel("max")).is_ok());
    assert!(matches!(mutation.apply(&other), Err(MutationError::OtherModule { line: 3, .. })));
}

fn ptxas(version: &str) -> PathBuf {
    let toolchain =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/cuda").join(format!("nvrtc-{version}"));
    let places = ["nvidia/cuda_nvcc/bin/ptxas", "nvidia/cu13/bin/ptxas"];
    places.iter().map(|place| toolchain.join(place)).find(|path| path.exists()).unwrap()
}

#[test]
#[ignore = "needs NVRTC: the wheels of 12.9.86 and 13.5.37 bring ptxas"]
fn mutants_assemble_with_ptxas() {
    let folder = std::env::temp_dir().join(format!("cuforge-mutants-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("mutant.ptx");
    let mut tried = 0;
    for (name, module) in compiled().iter().filter(|(name, _)| !name.contains("debug")) {
        let version = if name.contains(".12.9.86.") { "12.9.86" } else { "13.5.37" };
        // One of each operator and mnemonic, two at most of an operator.
        let mut seen: BTreeMap<Operator, BTreeSet<String>> = BTreeMap::new();
        for mutation in all_mutants(module) {
            let text = module.text(mutation.span());
            let mnemonic = text.split_whitespace().find(|word| !word.starts_with('@')).unwrap().to_owned();
            let of_operator = seen.entry(mutation.operator()).or_default();
            if of_operator.len() >= 2 || !of_operator.insert(mnemonic) {
                continue;
            }
            fs::write(&file, mutation.apply(module).unwrap().source()).unwrap();
            let arch = format!("-arch={}", module.header().target);
            let output =
                Command::new(ptxas(version)).args(["-O0", &arch, "-o", "/dev/null"]).arg(&file).output();
            let output = output.unwrap();
            assert!(
                output.status.success(),
                "{name}, line {}, {}: {}\n{}",
                mutation.line(),
                mutation.operator(),
                mutation.description(),
                String::from_utf8_lossy(&output.stderr)
            );
            tried += 1;
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(tried > 300, "{tried}");
}
