//! An NVRTC that is known before it is loaded: a cache folder remembers who each library is, so a warm start loads none.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};

use crate::bytes::{Reader, Writer};
use crate::engine::{Engine, Identity, Job, Limits, Output};
use crate::error::CompileError;
use crate::locate::{Candidate, Looked, SearchPaths};
use crate::nvrtc::{self, Nvrtc};
use crate::places::System;
use crate::record;

/// First field of a note.
const SCHEMA: &[u8] = b"cuforge-compile nvrtc 1";
/// No note is longer.
const LIMIT_BYTES: u64 = 1 << 16;

/// The best NVRTC of a search.
#[derive(Debug)]
pub(crate) enum Best {
    /// Loaded, because the folder did not know it.
    Loaded(Nvrtc),
    /// Known from an earlier process.
    Deferred(Arc<Deferred>),
}

/// The best NVRTC there is. One that `notes` knows is not loaded; one that it does not know is, and is noted there.
///
/// # Errors
///
/// As [`Nvrtc::find`].
pub(crate) fn best(paths: &SearchPaths, notes: &Path) -> Result<Best, CompileError> {
    let (mut best, mut refused) = (None, Vec::new());
    let mut looked = paths.search(&System::here(), &mut |candidate| {
        match of_candidate(&candidate, notes) {
            Err(error) if !matches!(error, CompileError::PatchConflict { .. }) => {
                let (origin, path) = (candidate.origin, candidate.library);
                refused.push(Looked { origin, path, outcome: error.to_string() });
                return ControlFlow::Continue(());
            }
            found => best = Some(found),
        }
        ControlFlow::Break(())
    });
    best.unwrap_or_else(|| {
        looked.append(&mut refused);
        Err(CompileError::NvrtcNotFound { wanted: None, looked })
    })
}

fn of_candidate(candidate: &Candidate, notes: &Path) -> Result<Best, CompileError> {
    // A file that cannot be read is refused by the load, in words.
    let place = nvrtc::build_of(candidate).ok().map(|build| Place::of(notes, candidate, build));
    if let Some(known) = place.as_ref().and_then(|place| Deferred::known(place, candidate)) {
        return Ok(Best::Deferred(Arc::new(known)));
    }
    let nvrtc = Nvrtc::load(candidate)?;
    if let Some(place) = &place {
        place.note(&nvrtc);
    }
    Ok(Best::Loaded(nvrtc))
}

/// An NVRTC on disk that an earlier process has loaded: identity and architectures as they were then.
///
/// The note is found by the paths and by the builds of both libraries, which are read from the files as they are now. It
/// holds the whole of that, so a hash only locates it; and what it says is compared with the library once that is
/// loaded, before anything is compiled.
#[derive(Debug)]
pub(crate) struct Deferred {
    identity: Identity,
    archs: Vec<u32>,
    candidate: Candidate,
    file: PathBuf,
    loaded: OnceLock<Nvrtc>,
}

impl Deferred {
    /// What `place` knows of the candidate. Nothing where its headers have to be unpacked from the library itself.
    fn known(place: &Place, candidate: &Candidate) -> Option<Self> {
        let note = place.read()?;
        if candidate.includes.is_empty() && note.bundled_headers {
            return None;
        }
        let identity =
            Identity { kind: nvrtc::KIND.to_owned(), version: note.version, build: place.build.clone() };
        tracing::debug!(compiler = %identity, library = %candidate.library.display(), "nvrtc known, not loaded");
        let (candidate, file) = (candidate.clone(), place.file.clone());
        Some(Self { identity, archs: note.archs, candidate, file, loaded: OnceLock::new() })
    }

    pub(crate) fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The library, loaded by the first who needs it. Where that fails, or it is not what the note says, the note goes.
    fn nvrtc(&self) -> Result<&Nvrtc, CompileError> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let nvrtc = Nvrtc::load(&self.candidate).and_then(|nvrtc| {
            let same = *nvrtc.identity() == self.identity && nvrtc.supported_archs() == self.archs;
            let reason =
                || format!("it is {} and was {} when this process looked", nvrtc.identity(), self.identity);
            match same {
                true => Ok(nvrtc),
                false => Err(CompileError::NvrtcUnusable {
                    library: self.candidate.library.clone(),
                    reason: reason(),
                }),
            }
        });
        match nvrtc {
            Ok(nvrtc) => Ok(self.loaded.get_or_init(|| nvrtc)),
            Err(error) => {
                // There may be none any more; a stale one that stays is compared again by the next who loads.
                let _ = fs::remove_file(&self.file);
                Err(error)
            }
        }
    }
}

impl Engine for Deferred {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn supported_archs(&self) -> &[u32] {
        &self.archs
    }

    fn run(&self, job: &Job, limits: &Limits) -> Result<Output, CompileError> {
        self.nvrtc()?.run(job, limits)
    }
}

/// Where the note of one library lies, and the whole key that it must carry.
#[derive(Debug)]
struct Place {
    key: Vec<u8>,
    file: PathBuf,
    build: String,
}

/// What a note says.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    version: (u32, u32),
    archs: Vec<u32>,
    bundled_headers: bool,
}

impl Place {
    fn of(notes: &Path, candidate: &Candidate, build: String) -> Self {
        let mut writer = Writer::default();
        let builtins = candidate.builtins.as_deref();
        writer
            .field(SCHEMA)
            .field(candidate.library.as_os_str().as_encoded_bytes())
            .optional(builtins.map(|path| path.as_os_str().as_encoded_bytes()))
            .field(build.as_bytes());
        let key = writer.finish();
        let file = notes.join(record::locate(&key).to_string());
        Self { key, file, build }
    }

    /// The note of exactly this key; none if it is damaged in any way.
    fn read(&self) -> Option<Note> {
        if fs::metadata(&self.file).ok()?.len() > LIMIT_BYTES {
            return None;
        }
        let bytes = fs::read(&self.file).ok()?;
        let (body, digest) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
        if Sha256::digest(body).as_slice() != digest {
            return None;
        }
        let mut reader = Reader::new(body);
        if reader.field()? != self.key {
            return None;
        }
        let version = (reader.u32()?, reader.u32()?);
        let bundled_headers = reader.byte()? != 0;
        let mut archs = Vec::new();
        while !reader.is_empty() {
            archs.push(reader.u32()?);
        }
        Some(Note { version, archs, bundled_headers })
    }

    /// Notes who the library is. A torn or missing note costs a load; a writer beside this one writes the same bytes.
    fn note(&self, nvrtc: &Nvrtc) {
        let (major, minor) = nvrtc.version();
        let mut writer = Writer::default();
        writer.field(&self.key).u32(major).u32(minor);
        writer.byte(u8::from(nvrtc.has_bundled_headers()));
        for arch in nvrtc.archs() {
            writer.u32(*arch);
        }
        let mut bytes = writer.finish();
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        let folder = self.file.parent().unwrap_or(Path::new("."));
        if let Err(error) = fs::create_dir_all(folder).and_then(|()| fs::write(&self.file, bytes)) {
            tracing::debug!(%error, "the compiler's identity could not be noted: the next start loads it again");
        }
    }
}
