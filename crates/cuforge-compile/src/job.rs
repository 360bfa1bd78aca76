//! From a request to a job for the engine and the key that stands for it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cuforge_core::{CompileRequest, Digest};

use crate::engine::{Engine, Job};
use crate::error::CompileError;
use crate::headers::{Headers, scan};
use crate::options;
use crate::policy::{self, Architecture};
use crate::record::{Record, Surroundings};

/// Options that put the working folder into the result, as the folder of the source's name.
const PLACED: &[&str] = &["-lineinfo", "--generate-line-info", "-G", "--device-debug"];

/// Variables that NVRTC reads while it compiles (every `getenv` of 12.4, 12.9, 13.0 and 13.5, recorded), but for those that
/// only say where temporary files go. None of them is documented.
const READ: &[&str] = &[
    "CAN_FINALIZE_DEBUG",
    "EDG_BASE",
    "FINALIZER_CUBIE",
    "FINALIZER_USE_LEGACY_ELF_BUILDER",
    "NVRTCWIZ",
    "NVRTC_APPEND_FLAGS",
    "NVVM_IR_VER_CHK",
];

/// All that is known of a CUDA C request before it is compiled.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) job: Job,
    pub(crate) architecture: Architecture,
    /// The whole key, or why no key can hold the request.
    pub(crate) record: Result<Record, &'static str>,
    /// Digest of the header files, if any can be read.
    pub(crate) headers: Option<Digest>,
}

/// Where header files come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeaderSource<'a> {
    /// These folders, after those of the request.
    Folders(&'a Headers, &'a [PathBuf]),
    /// A bundle stands for them.
    Vouched,
}

/// Decides everything about a request but compiles nothing. Reads header files only if the request mentions an include.
pub(crate) fn plan(
    request: &CompileRequest,
    engine: &dyn Engine,
    source: HeaderSource<'_>,
) -> Result<Plan, CompileError> {
    if request.name.contains(['\n', '\r', '\0']) {
        return Err(CompileError::Request("the source name holds a line break or a zero byte"));
    }
    let identity = engine.identity();
    let architecture = policy::architecture(&request.target, engine.supported_archs(), identity.version)?;
    let list = |dirs: Option<&[PathBuf]>| {
        options::effective(&architecture.name, &request.options, dirs, identity.version)
    };
    let (mut job, mut local, mut headers, mut odd) = (job(request), Vec::new(), None, odd_options(request));
    // The key holds the folders apart from the other options, because they differ from machine to machine.
    let mut portable = Job { options: list(mentions_include(request).then_some(&[][..]))?, ..job.clone() };
    if mentions_include(request) {
        let (name, text) = options::unplaced(&request.name, &request.source);
        (job.name, job.source) = (name, text.into());
        // The unplaced form of name and source follows from them; the key keeps the short one.
        portable.options.push(b"(unplaced)".to_vec());
        let dirs = match source {
            HeaderSource::Folders(tracked, own) => {
                let dirs = folders(request, own);
                let closure = tracked.closure(texts(request), &dirs);
                odd = odd.or(closure.uncacheable);
                headers = Some(closure.digest());
                local = closure.record;
                dirs
            }
            HeaderSource::Vouched => {
                local = b"any".to_vec();
                Vec::new()
            }
        };
        job.options = list(Some(&dirs))?;
    } else {
        job.options.clone_from(&portable.options);
    }
    let surroundings = Surroundings {
        working_dir: working_dir_matters(request).then(env::current_dir).and_then(Result::ok),
        variables: variables(&|name| env::var_os(name)),
    };
    let record = Record::of_job(identity, &portable, &surroundings, &local);
    let record = match source {
        HeaderSource::Vouched => Record::vouched(record.bytes()).ok_or("a record is not well formed"),
        HeaderSource::Folders(..) => Ok(record),
    };
    Ok(Plan { job, architecture, record: odd.map_or(record, Err), headers })
}

/// The digest of the header files of a request as they are now; `None` if it mentions none.
pub(crate) fn headers_now(request: &CompileRequest, tracked: &Headers, own: &[PathBuf]) -> Option<Digest> {
    mentions_include(request).then(|| tracked.closure(texts(request), &folders(request, own)).digest())
}

fn job(request: &CompileRequest) -> Job {
    let headers = request.options.headers.iter();
    Job {
        name: request.name.clone(),
        source: Arc::clone(&request.source),
        options: Vec::new(),
        headers: headers.map(|(name, text)| (name.clone(), text.as_str().into())).collect(),
        name_expressions: request.options.name_expressions.clone(),
    }
}

/// The folders of the request, then the compiler's own, absolute: a relative one would mean another elsewhere.
fn folders(request: &CompileRequest, own: &[PathBuf]) -> Vec<PathBuf> {
    let asked = request.options.include_folders.iter().map(Path::new);
    let all = asked.chain(own.iter().map(PathBuf::as_path));
    all.map(|dir| std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf())).collect()
}

/// Every text of the request that can hold an include directive.
fn texts(request: &CompileRequest) -> impl Iterator<Item = &str> {
    request.options.headers.iter().map(|(_, text)| text.as_str()).chain([&*request.source])
}

/// Whether any text could hold an include directive; a word in a comment counts as one.
fn mentions_include(request: &CompileRequest) -> bool {
    // A line splice may stand inside the word.
    texts(request).any(|text| {
        text.contains("include") || text.contains("\\\n") || text.contains("\\\r\n") || text.contains("??/")
    })
}

/// What makes a request one that no key can hold, in texts that no scan of files sees: macros that change with the clock,
/// and defines that may name an include outside the folders.
fn odd_options(request: &CompileRequest) -> Option<&'static str> {
    let timed = |text: &str| ["__TIME__", "__DATE__", "__TIMESTAMP__"].iter().any(|word| text.contains(word));
    let options = &request.options;
    let mut all = options.defines.iter().map(|(_, value)| value.as_str());
    let found = all.any(timed) || options.raw.iter().any(|raw| timed(raw)) || texts(request).any(timed);
    if found {
        return Some("its result depends on the time of the compilation");
    }
    let leaves = |text: &str| scan::leaves(text.as_bytes());
    let mut values = options.defines.iter().map(|(_, value)| value.as_str());
    let leaving =
        mentions_include(request) && (values.any(leaves) || options.raw.iter().any(|raw| leaves(raw)));
    leaving.then_some("a define may name an include outside the folders")
}

/// The variables of [`READ`] that are set.
fn variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<Vec<u8>> {
    let set = READ.iter().filter_map(|name| Some((name, variable(name)?)));
    set.map(|(name, value)| [name.as_bytes(), b"=", value.as_encoded_bytes()].concat()).collect()
}

fn working_dir_matters(request: &CompileRequest) -> bool {
    let raw = |option: &String| PLACED.iter().any(|placed| option.starts_with(placed));
    (request.options.line_info || request.options.raw.iter().any(raw))
        && !Path::new(&request.name).is_absolute()
}

/// Whether a request means something else in another working folder: it must not be remembered by its words alone.
pub(crate) fn depends_on_place(request: &CompileRequest) -> bool {
    let relative = |folder: &String| Path::new(folder).is_relative();
    mentions_include(request) && request.options.include_folders.iter().any(relative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_are_set_and_read_count() {
        let set = |name: &str| (name == "NVRTC_APPEND_FLAGS" || name == "HOME").then(|| "-G".into());
        assert_eq!(variables(&set), [b"NVRTC_APPEND_FLAGS=-G".to_vec()]);
    }
}
