//! Nothing that comes from outside brings this crate down: random bytes and random damage give errors, never a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test panics to fail")]

mod fake;

use cuforge_compile::{Bundle, CacheOptions, CompileError, PtxHeader, kernel_resources};
use cuforge_core::{CompileRequest, ComputeCapability, DriverVersion, Target};
use fake::{Folder, compiler, request};
use proptest::prelude::*;

/// Words of PTX in any order, so that parsers get past their first check.
fn ptx() -> impl Strategy<Value = String> {
    let words = [
        ".version",
        "8.0",
        "9.5",
        "99999.1",
        ".target",
        "sm_90",
        "sm_90a",
        "sm_",
        ".address_size",
        "64",
        ".entry",
        "k",
        "(",
        ")",
        "{",
        "}",
        ";",
        "\n",
        " ",
        "//",
        "/*",
        "*/",
        "\"",
        ".param",
        "[",
        "]",
        "ld.global.b32",
        "ü",
        "@%p1",
        ".b8",
        "4400",
    ];
    let word = prop::sample::select(words.to_vec());
    prop::collection::vec((word, "[ \n]"), 0..60)
        .prop_map(|parts| parts.iter().map(|(word, gap)| format!("{word}{gap}")).collect())
}

/// A 64-bit ELF head with everything else at random, small numbers likely.
fn elf() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), 0..70_u8, any::<u8>()];
    prop::collection::vec(byte, 0..600).prop_map(|rest| {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1];
        bytes.extend(rest);
        bytes
    })
}

proptest! {
    #[test]
    fn any_text_is_a_header_or_an_error_with_a_line_in_it(text in prop_oneof![ptx(), any::<String>()]) {
        match PtxHeader::parse(&text) {
            Ok(header) => prop_assert!(text.get(header.version_span.0..header.version_span.1).is_some()),
            Err(CompileError::Ptx { line, .. }) => prop_assert!(line >= 1 && line as usize <= text.lines().count().max(1) + 1),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn any_ptx_for_an_old_driver_is_an_image_or_an_error(text in ptx()) {
        let (compiler, _) = compiler(CacheOptions::memory_only());
        let driver = DriverVersion { major: 12, minor: 4 };
        let target = Target::new(ComputeCapability::from_sm(90)).with_driver(driver);
        let _ = compiler.image(&CompileRequest::ptx("k.ptx", format!(".version 9.5\n.target sm_75\n{text}"), target));
    }

    #[test]
    fn any_bytes_are_a_cubin_or_nothing(bytes in elf()) {
        let _ = kernel_resources(&bytes);
    }

    #[test]
    fn any_source_is_scanned_and_keyed(source in prop_oneof![any::<String>(), "([#%:]? ?(include|INCLUDE|__has_include|define X) ?[(<\"/*a.h>\\\\\n)]{0,6}){0,6}"]) {
        let (compiler, _) = compiler(CacheOptions::memory_only());
        if !source.contains("panic") && !source.contains("broken") {
            compiler.image(&request(&source)).unwrap();
        }
    }
}

#[test]
fn random_files_are_no_bundles_and_random_entries_are_misses() {
    let folder = Folder::new("arbitrary");
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let file = folder.path().join("file");
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    runner
        .run(&bytes, |mut bytes| {
            bytes.splice(0..0, *b"CUFBNDL\x01");
            std::fs::write(&file, &bytes).unwrap();
            prop_assert!(Bundle::open(&file).is_err());
            Ok(())
        })
        .unwrap();
    let (maker, _) = compiler(CacheOptions::in_folder(folder.path()));
    maker.image(&request("int a;")).unwrap();
    let entry = folder.entries()[0].clone();
    runner
        .run(&bytes, |mut bytes| {
            bytes.splice(0..0, *b"CUFORGE\x01");
            std::fs::write(&entry, &bytes).unwrap();
            let (again, runs) = compiler(CacheOptions::in_folder(folder.path()));
            again.image(&request("int a;")).unwrap();
            prop_assert_eq!(fake::count(&runs), 1);
            Ok(())
        })
        .unwrap();
}
