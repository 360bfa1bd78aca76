//! Launches: what is refused, and what is a launch of nothing.

use crate::harness::{Bench, load, module};
use cuforge_core::LaunchGeometry;
use cuforge_sim::{Fault, LaunchMisuse, LaunchOptions, LaunchReport, Memory, Program, launch, ptx::Module};

fn misuse(found: Result<LaunchReport, Fault>) -> LaunchMisuse {
    match found {
        Err(Fault::BadLaunch { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_grid_with_a_zero_launches_nothing() {
    let kernel = load(&module("", "trap;"));
    let mut bench = Bench::new(4);
    for grid in [[0, 1, 1], [4, 0, 1], [4, 4, 0]] {
        assert_eq!(bench.launch_with(&kernel, grid, [32, 1, 1], 0).unwrap(), LaunchReport::default());
    }
}

#[test]
fn wrong_launches_are_refused_and_say_why() {
    let kernel = load(&module("", ""));
    let mut bench = Bench::new(4);
    assert!(matches!(misuse(bench.launch(&kernel, 1, 0)), LaunchMisuse::BlockSize { x: 0, .. }));
    assert!(matches!(misuse(bench.launch(&kernel, 1, 1025)), LaunchMisuse::BlockSize { limit: 1024, .. }));
    let wide = bench.launch_with(&kernel, [1, 1, 1], [64, 64, 1], 0);
    assert!(matches!(misuse(wide), LaunchMisuse::BlockSize { .. }));
    let huge = bench.launch_with(&kernel, [u32::MAX, 2, 1], [1, 1, 1], 0);
    assert!(matches!(misuse(huge), LaunchMisuse::GridSize { blocks: 8_589_934_590 }));
    let shared = bench.launch_with(&kernel, [1, 1, 1], [1, 1, 1], 1 << 20);
    assert!(matches!(misuse(shared), LaunchMisuse::SharedBytes { bytes: 1_048_576, .. }));
    let geometry = LaunchGeometry { grid: [1, 1, 1], block: [1, 1, 1], shared_bytes: 0 };
    let short = launch(&kernel, &geometry, &[0; 19], &mut bench.memory, &LaunchOptions::default());
    assert_eq!(misuse(short), LaunchMisuse::ParamBytes { got: 19, expected: 20 });
}

#[test]
fn bounds_of_the_kernel_on_its_block_hold() {
    let text = module("", "").replace(".param .u32 n) {", ".param .u32 n)\n.reqntid 64, 2, 1\n{");
    let kernel = load(&text);
    let mut bench = Bench::new(4);
    assert!(bench.launch_with(&kernel, [1, 1, 1], [64, 2, 1], 0).is_ok());
    let found = bench.launch_with(&kernel, [1, 1, 1], [128, 1, 1], 0);
    assert_eq!(misuse(found), LaunchMisuse::RequiredBlock { got: [128, 1, 1], required: [64, 2, 1] });
    let kernel = load(&text.replace(".reqntid 64, 2, 1", ".maxntid 96, 1, 1"));
    assert!(matches!(misuse(bench.launch(&kernel, 1, 97)), LaunchMisuse::BlockSize { limit: 96, .. }));
    assert!(bench.launch(&kernel, 1, 96).is_ok());
}

#[test]
fn variables_that_do_not_fit_the_memory_are_an_error() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.global .align 4 .b8 big[4096];\n\
                .visible .entry k() { .reg .b32 %r1; ld.global.u32 %r1, [big]; ret; }";
    let kernel = Program::load(&Module::parse(text).unwrap()).unwrap().kernel("k").unwrap();
    let geometry = LaunchGeometry { grid: [1, 1, 1], block: [1, 1, 1], shared_bytes: 0 };
    let found = launch(&kernel, &geometry, &[], &mut Memory::new(1000), &LaunchOptions::default());
    assert_eq!(misuse(found), LaunchMisuse::ModuleVariables { bytes: 4096, free: 1000 });
}

#[test]
fn modules_that_cannot_be_laid_out_do_not_load() {
    let load = |text: &str| Program::load(&Module::parse(text).unwrap()).unwrap_err().to_string();
    let wrong = load(".version 8.0\n.target sm_80\n.address_size 32\n.entry k() { ret; }");
    assert_eq!(wrong, "line 1: addresses of 32 bits; only 64 are supported");
    let wrong = load(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{ .local .align 4 .b8 l[1000000]; ret; }",
    );
    assert_eq!(wrong, "line 5: local variables exceed 512 kilobytes");
}

#[test]
fn parameters_lie_at_their_alignment() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
                .visible .entry k(.param .u8 c, .param .align 4 .b8 s[6], .param .u64 p, .param .u16 h) {\n\
                .reg .b64 %rd1; .reg .b32 %r<4>; .reg .b16 %h1;\n\
                ld.param.u8 %r1, [c]; ld.param.u16 %r2, [s+4]; ld.param.u64 %rd1, [p]; ld.param.u16 %h1, [h];\n\
                mad.lo.u32 %r1, %r1, 1000, %r2; cvt.u32.u16 %r3, %h1; mad.lo.u32 %r1, %r1, 1000, %r3;\n\
                st.global.u32 [%rd1], %r1; ret; }";
    let kernel = load(text);
    assert_eq!(kernel.param_bytes(), 26);
    let mut bench = Bench::new(1);
    let mut params = vec![7u8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    params.extend(bench.a.to_le_bytes());
    params.extend(5u16.to_le_bytes());
    let geometry = LaunchGeometry { grid: [1, 1, 1], block: [1, 1, 1], shared_bytes: 0 };
    launch(&kernel, &geometry, &params, &mut bench.memory, &LaunchOptions::default()).unwrap();
    assert_eq!(bench.result(), [7_009_005]);
}

#[test]
fn geometry_beyond_every_device_is_refused() {
    let kernel = load(&module("", ""));
    let mut bench = Bench::new(4);
    let deep = bench.launch_with(&kernel, [1, 1, 1], [1, 1, 65], 0);
    assert!(matches!(misuse(deep), LaunchMisuse::BlockSize { z: 65, .. }));
    for grid in [[1, 65_536, 1], [1, 1, 65_536], [1 << 31, 1, 1]] {
        let wide = bench.launch_with(&kernel, grid, [1, 1, 1], 0);
        assert_eq!(
            misuse(wide),
            LaunchMisuse::GridSize { blocks: grid.iter().map(|n| u128::from(*n)).product() }
        );
    }
}

#[test]
fn sizes_that_no_host_has_are_errors_and_never_an_abort() {
    let found = Memory::new(u64::MAX).allocate(1 << 50, 1).unwrap_err();
    assert_eq!(found, cuforge_sim::MemoryError::HostMemory { requested: 1 << 50 });
    assert!(Memory::new(u64::MAX).allocate(u64::MAX, 1).is_err());

    let header = ".version 8.0\n.target sm_80\n.address_size 64\n";
    let load = |text: &str| Program::load(&Module::parse(text).unwrap()).map(drop);
    let many: String = (0..64).map(|n| format!(".global .align 4 .b8 g{n}[1073741824];\n")).collect();
    let wrong = load(&format!("{header}{many}.entry k() {{ ret; }}")).unwrap_err().to_string();
    assert_eq!(wrong, "line 5: module variables exceed 1 gigabyte");
    let wide = ".shared .align 4 .b8 s[4];\n.extern .shared .align 1073741824 .b8 d[];\n";
    let body = ".entry k() { .reg .b32 %r<2>; mov.u32 %r0, s; mov.u32 %r1, d; ret; }";
    let wrong = load(&format!("{header}{wide}{body}")).unwrap_err().to_string();
    assert!(wrong.contains("shared variables exceed 16 megabytes"), "{wrong}");

    let mut bench = Bench::new(4);
    bench.options.threads = usize::MAX;
    assert!(bench.launch(&crate::harness::load(&module("", "")), 100_000, 1).is_ok());
}

#[test]
fn a_chain_of_calls_may_be_as_long_as_the_text() {
    let last = 20_000;
    let link = |n: u32| format!(".func f{n}() {{ call f{}; ret; }}\n", n - 1);
    let chain: String = (1..=last).map(link).collect();
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.func f0() {{ ret; }}\n{chain}\
         .entry k() {{ call f{last}; ret; }}"
    );
    let kernel = load(&text);
    let geometry = LaunchGeometry { grid: [1, 1, 1], block: [1, 1, 1], shared_bytes: 0 };
    let report = launch(&kernel, &geometry, &[], &mut Memory::new(0), &LaunchOptions::default()).unwrap();
    assert_eq!(report.instructions, 2 * (u64::from(last) + 1) + 1);
}

#[test]
fn names_that_are_declared_twice_do_not_load() {
    let load = |body: &str| {
        let module = Module::parse(&module("", body)).unwrap();
        Program::load(&module).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(load("L:\nbra L;\nL:\n"), Err("line 14: label L stands twice".to_owned()));
    let twice = load(".reg .b32 %x;\n.reg .f32 %x;");
    assert_eq!(twice, Err("line 13: register %x is declared twice".to_owned()));
    let twice = load(".reg .b32 %y<4>;\n.reg .f32 %y<2>;");
    assert_eq!(twice, Err("line 13: register %y is declared twice".to_owned()));
    let module = |text: &str| {
        let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n{text}");
        Program::load(&Module::parse(&text).unwrap()).map(drop).map_err(|error| error.to_string())
    };
    let twice = module(".entry k() { ret; }\n.entry k() { trap; }");
    assert_eq!(twice, Err("line 5: k is defined twice".to_owned()));
    let twice = module(".global .b32 x;\n.global .b64 x;\n.entry k() { ret; }");
    assert_eq!(twice, Err("line 5: x is defined twice".to_owned()));
    assert_eq!(
        module(".extern .global .b32 x;\n.global .b32 x = 1;\n.func f();\n.func f() { ret; }"),
        Ok(())
    );
    assert_eq!(load("{\n.reg .b32 %x;\nL:\n}\n{\n.reg .b32 %x;\nL:\n}"), Ok(()));
}

#[test]
fn a_variable_that_is_only_declared_has_no_value_to_be_wrong() {
    let text = |first: &str, second: &str| {
        module(&format!("{first} {second}"), "ld.global.u32 %r9, [x];\nst.global.u32 [%rd3], %r9;")
    };
    let (declared, defined) = (".extern .global .align 4 .b32 x;", ".global .align 4 .b32 x = 5;");
    for text in [text(declared, defined), text(defined, declared)] {
        let mut bench = Bench::new(1);
        bench.launch(&load(&text), 1, 1).unwrap();
        assert_eq!(bench.result(), [5]);
    }
    let kernel = Program::load(&Module::parse(&text(declared, "")).unwrap()).unwrap().kernel("k").unwrap();
    assert_eq!(kernel.unsupported().map(|(_, form)| form).collect::<Vec<_>>(), ["ld.global.u32"]);
}
