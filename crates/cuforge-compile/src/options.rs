//! From typed options to the effective list that the compiler is given, in order.

use std::path::PathBuf;

use cuforge_core::CompileOptions;

use crate::error::CompileError;

/// Raw options that this crate owns: each has a typed way, or would make a result depend on what no key holds.
const REFUSED: &[(&str, &str)] = &[
    ("--gpu-architecture", "the target of the request sets the architecture"),
    ("-arch", "the target of the request sets the architecture"),
    ("--pch", "precompiled headers are process-local and cannot be keyed"),
    ("-pch", "precompiled headers are process-local and cannot be keyed"),
    ("--create-pch", "precompiled headers are process-local and cannot be keyed"),
    ("-create-pch", "precompiled headers are process-local and cannot be keyed"),
    ("--use-pch", "precompiled headers are process-local and cannot be keyed"),
    ("-use-pch", "precompiled headers are process-local and cannot be keyed"),
    ("--pch-dir", "precompiled headers are process-local and cannot be keyed"),
    ("-pch-dir", "precompiled headers are process-local and cannot be keyed"),
    ("--include-path", "use the include folders of the request, which are tracked"),
    ("-I", "use the include folders of the request, which are tracked"),
    ("--use-bundled-headers", "use Nvrtc::with_bundled_headers, which is tracked"),
    ("-use-bundled-headers", "use Nvrtc::with_bundled_headers, which is tracked"),
    ("--pre-include", "put the include directive into the source, where it is tracked"),
    ("-include", "put the include directive into the source, where it is tracked"),
    ("--fdevice-time-trace", "it writes a file beside the result, which a cache hit would not"),
    ("-fdevice-time-trace", "it writes a file beside the result, which a cache hit would not"),
    ("--time", "it writes a file beside the result, which a cache hit would not"),
    ("-time", "it writes a file beside the result, which a cache hit would not"),
    ("--dlink-time-opt", "link-time IR is no image that a module loads"),
    ("-dlto", "link-time IR is no image that a module loads"),
    ("--optix-ir", "OptiX IR is no image that a module loads"),
    ("-optix-ir", "OptiX IR is no image that a module loads"),
];

/// A folder that cannot exist.
const NOWHERE: &str = "/dev/null/";

/// The effective option list for one compilation, in the order in which it is passed:
///
/// architecture, cache and include rules, arithmetic, registers, line info, defines, include folders, raw options.
///
/// Without include folders NVRTC is told to read no file at all: `--no-source-include`. With them that option is left
/// out, because on every version (12.4 to 13.5, measured) it also stops a header from including its neighbour by a
/// quoted name, as `mma.h` does; the source then gets a name whose folder cannot exist, see [`unplaced`].
pub(crate) fn effective(
    architecture: &str,
    options: &CompileOptions,
    include_dirs: Option<&[PathBuf]>,
    compiler: (u32, u32),
) -> Result<Vec<Vec<u8>>, CompileError> {
    let mut list: Vec<Vec<u8>> = Vec::new();
    let mut push = |text: String| list.push(text.into_bytes());
    push(format!("--gpu-architecture={architecture}"));
    if compiler >= (12, 9) {
        // NVRTC's own cache would swallow logs, and opens the driver.
        push("--no-cache".to_owned());
    }
    if include_dirs.is_none() {
        push("--no-source-include".to_owned());
    }
    if options.fast_math {
        push("--use_fast_math".to_owned());
    }
    if let Some(fmad) = options.fmad {
        push(format!("--fmad={fmad}"));
    }
    if let Some(ftz) = options.flush_to_zero {
        push(format!("--ftz={ftz}"));
    }
    if let Some(registers) = options.max_registers {
        push(format!("--maxrregcount={registers}"));
    }
    if options.line_info {
        push("--generate-line-info".to_owned());
    }
    for (name, value) in &options.defines {
        check_define(name)?;
        push(format!("--define-macro={name}={value}"));
    }
    for dir in include_dirs.unwrap_or_default() {
        let mut option = b"--include-path=".to_vec();
        option.extend_from_slice(dir.as_os_str().as_encoded_bytes());
        list.push(option);
    }
    for option in &options.raw {
        check_raw(option)?;
        list.push(option.clone().into_bytes());
    }
    Ok(list)
}

/// Name and text for a source that may read headers from folders.
///
/// NVRTC looks for quoted includes in the folder of the source's name, or in the working folder, and no key could hold
/// that. So the name goes below a file, where nothing can be, and a line directive gives diagnostics and line info the
/// name that the user knows.
pub(crate) fn unplaced(name: &str, source: &str) -> (String, String) {
    let shown = name.replace('\\', "\\\\").replace('"', "\\\"");
    (format!("{NOWHERE}{}", name.trim_start_matches('/')), format!("#line 1 \"{shown}\"\n{source}"))
}

/// The compiler's log with the name that the user knows.
pub(crate) fn placed_log(log: &str) -> String {
    log.replace(NOWHERE, "")
}

/// The failure with the name that the user knows.
pub(crate) fn placed(name: &str, error: CompileError) -> CompileError {
    match error {
        CompileError::Source { log, .. } => {
            CompileError::Source { name: name.to_owned(), log: placed_log(&log) }
        }
        CompileError::Call { call, code, text, log } => {
            CompileError::Call { call, code, text, log: placed_log(&log) }
        }
        other => other,
    }
}

fn check_define(name: &str) -> Result<(), CompileError> {
    // A parameter list is part of a name: `F(x)`.
    let end = name.find('(').unwrap_or(name.len());
    let head = &name[..end];
    let starts_well = head.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if starts_well && head.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Ok(());
    }
    Err(CompileError::OptionRefused {
        option: name.to_owned(),
        why: "a define needs a C identifier as its name",
    })
}

fn check_raw(option: &str) -> Result<(), CompileError> {
    let refuse = |why| Err(CompileError::OptionRefused { option: option.to_owned(), why });
    if !option.starts_with('-') {
        return refuse("a raw option starts with a dash; join an argument with `=`");
    }
    let name = option.split('=').next().unwrap_or(option).trim_end();
    for (refused, why) in REFUSED {
        // `-I` takes its folder without a mark between.
        if name == *refused || (*refused == "-I" && option.starts_with("-I")) {
            return refuse(why);
        }
        // `-arch sm_90` in one string is two words to the compiler.
        if name.split_ascii_whitespace().next() == Some(refused) {
            return refuse(why);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(options: &CompileOptions) -> Vec<String> {
        let list = effective("sm_90", options, Some(&[PathBuf::from("/inc")]), (12, 9)).unwrap();
        list.into_iter().map(|option| String::from_utf8(option).unwrap()).collect()
    }

    #[test]
    fn every_typed_option_reaches_the_list_in_order() {
        let options = CompileOptions {
            fast_math: true,
            fmad: Some(false),
            flush_to_zero: Some(true),
            max_registers: Some(64),
            line_info: true,
            defines: vec![("B".into(), "2".into()), ("A".into(), "1".into())],
            raw: vec!["--std=c++20".into()],
            ..CompileOptions::default()
        };
        let want = [
            "--gpu-architecture=sm_90",
            "--no-cache",
            "--use_fast_math",
            "--fmad=false",
            "--ftz=true",
            "--maxrregcount=64",
            "--generate-line-info",
            "--define-macro=B=2",
            "--define-macro=A=1",
            "--include-path=/inc",
            "--std=c++20",
        ];
        assert_eq!(texts(&options), want);
    }

    #[test]
    fn without_folders_no_file_is_read_and_nvrtc_s_own_cache_is_off_where_there_is_one() {
        let list = |version| effective("sm_90", &CompileOptions::default(), None, version).unwrap();
        assert_eq!(list((12, 4)), [b"--gpu-architecture=sm_90".to_vec(), b"--no-source-include".to_vec()]);
        assert!(list((12, 9)).contains(&b"--no-cache".to_vec()));
    }

    #[test]
    fn a_name_with_quotes_survives_the_line_directive() {
        let (name, source) = unplaced("/a/\"b\".cu", "int x;");
        assert_eq!(
            (name.as_str(), source.as_str()),
            ("/dev/null/a/\"b\".cu", "#line 1 \"/a/\\\"b\\\".cu\"\nint x;")
        );
        assert_eq!(placed_log("/dev/null/a.cu(3): error"), "a.cu(3): error");
    }

    #[test]
    fn what_cannot_be_keyed_is_refused_by_name() {
        let raws = [
            "-I/x",
            "-I /x",
            "--include-path=/x",
            "-arch=sm_80",
            "-arch sm_80",
            "--pch",
            "--create-pch=a",
            "x",
        ];
        for raw in raws {
            let options = CompileOptions { raw: vec![raw.into()], ..CompileOptions::default() };
            let error = effective("sm_90", &options, None, (13, 5)).unwrap_err();
            assert!(matches!(&error, CompileError::OptionRefused { option, .. } if option == raw), "{error}");
        }
    }

    #[test]
    fn a_define_without_a_name_is_refused() {
        for name in ["", "1A", "A B", "A=1", "-x"] {
            let options =
                CompileOptions { defines: vec![(name.into(), "1".into())], ..CompileOptions::default() };
            assert!(effective("sm_90", &options, None, (13, 5)).is_err(), "{name}");
        }
        let function =
            CompileOptions { defines: vec![("F(x)".into(), "x".into())], ..CompileOptions::default() };
        assert!(effective("sm_90", &function, None, (13, 5)).is_ok());
    }
}
