//! Bundles: a set of entries in one file, for machines that have no compiler.
//!
//! A bundle stands for the header files of the machine that made it: its entries answer a request by everything but the
//! header files, which the machine that reads it need not have.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::artifact::{self, Artifact};
use crate::bytes::{Reader, Writer};
use crate::engine::{Engine, Identity, Job, Limits, Output};
use crate::error::CompileError;
use crate::locate::Looked;
use crate::places::Origin;
use crate::record::{self, Record};
use crate::store::disk::Disk;

/// First bytes of a bundle; the last one is the version of the format.
const MAGIC: &[u8; 8] = b"CUFBNDL\x01";

/// What an entry is, for choosing what to export.
///
/// ```
/// fn wanted(entry: &cuforge_compile::EntryInfo) -> bool {
///     entry.name.starts_with("kernels/") && entry.compiler.version >= (12, 9)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryInfo {
    /// Who made it.
    pub compiler: Identity,
    /// The file name of the request; empty for a link.
    pub name: String,
    /// Its options in order; the architecture of a link.
    pub options: Vec<String>,
    /// Kernels in it.
    pub entry_points: Vec<String>,
    /// Size of cubin and PTX together.
    pub bytes: u64,
}

/// What an export or import did.
///
/// ```
/// assert_eq!(cuforge_compile::BundleReport::default().copied, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleReport {
    /// Entries copied.
    pub copied: u64,
    /// Entries not wanted, or there already.
    pub left_out: u64,
    /// Entries that were damaged or could not be written.
    pub failed: u64,
}

/// Who made a bundle, and the architectures it lists.
type Made = (Identity, Vec<u32>);

/// A bundle, read whole.
///
/// ```
/// use cuforge_compile::{Bundle, CompileError};
/// let error = Bundle::open("/nowhere/kernels.cuforge").unwrap_err();
/// assert!(matches!(error, CompileError::Bundle { .. }));
/// ```
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    compilers: Vec<Made>,
    /// Encoded entries by vouched record. There are several where the header files changed between two builds.
    entries: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    damaged: u64,
}

impl Bundle {
    /// Reads a bundle. Damaged entries are left out and counted; a damaged head is an error.
    ///
    /// # Errors
    ///
    /// [`CompileError::Bundle`] with the reason.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, CompileError> {
        let path = path.into();
        let fail = |reason: String| CompileError::Bundle { path: path.clone(), reason };
        let bytes = fs::read(&path).map_err(|error| fail(error.to_string()))?;
        let broken = || fail("not a bundle, or its head is damaged".to_owned());
        let mut reader = Reader::new(&bytes);
        if reader.take(8) != Some(MAGIC) {
            return Err(broken());
        }
        let (head, digest) = reader.field().zip(reader.take(32)).ok_or_else(broken)?;
        if Sha256::digest(head).as_slice() != digest {
            return Err(broken());
        }
        let (compilers, count) = head_of(head).ok_or_else(broken)?;
        let mut entries: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
        let mut damaged = 0;
        for read in 0..count {
            let Some(entry) = reader.field() else {
                // Torn: nothing behind this place can be found.
                damaged += count - read;
                break;
            };
            match artifact::decode_any(entry).and_then(|(key, _)| Record::vouched(key)) {
                Some(record) => entries.entry(record.bytes().to_vec()).or_default().push(entry.to_vec()),
                None => damaged += 1,
            }
        }
        Ok(Self { path, compilers, entries, damaged })
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sound entries in it.
    pub fn len(&self) -> usize {
        self.entries.values().map(Vec::len).sum()
    }

    /// Whether it holds no sound entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries that were damaged and left out.
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The compilers that made it, with the architectures each one lists.
    pub fn compilers(&self) -> impl Iterator<Item = (&Identity, &[u32])> {
        self.compilers.iter().map(|(identity, archs)| (identity, archs.as_slice()))
    }

    /// Only what this compiler made.
    #[must_use]
    pub fn with_only(mut self, compiler: &Identity) -> Self {
        self.compilers.retain(|(identity, _)| identity == compiler);
        self.entries.retain(|key, _| record::describe(key).is_some_and(|(made_by, ..)| made_by == *compiler));
        self
    }

    /// What is in it.
    pub fn entries(&self) -> impl Iterator<Item = EntryInfo> {
        self.entries.values().flatten().filter_map(|entry| {
            let (key, artifact) = artifact::decode_any(entry)?;
            info(key, &artifact)
        })
    }

    /// The artifact for exactly this key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Artifact> {
        let entries = self.entries.get(Record::vouched(key)?.bytes())?;
        entries.iter().find_map(|entry| artifact::decode(entry, key).ok())
    }

    /// The artifact for this key with whatever header files the bundle was made with; none if it was made with several.
    pub(crate) fn get_vouched(&self, key: &[u8]) -> Option<Artifact> {
        match self.entries.get(Record::vouched(key)?.bytes())?.as_slice() {
            [entry] => artifact::decode_any(entry).map(|(_, artifact)| artifact),
            _ => None,
        }
    }
}

/// Writes the chosen entries of a folder into a file, published by rename.
pub(crate) fn export(
    disk: &Disk,
    engine: &dyn Engine,
    file: &Path,
    choose: &mut dyn FnMut(&EntryInfo) -> bool,
) -> Result<BundleReport, CompileError> {
    let mut report = BundleReport::default();
    let (mut chosen, mut made_here) = (Vec::new(), false);
    disk.for_each(&mut |key, entry| {
        let described = artifact::decode_any(entry).and_then(|(key, artifact)| info(key, &artifact));
        match described {
            Some(info) if choose(&info) => {
                made_here |= info.compiler == *engine.identity();
                chosen.push((key.to_vec(), entry.to_vec()));
            }
            Some(_) => report.left_out += 1,
            None => report.failed += 1,
        }
    });
    // By key, so that the same entries give the same bytes.
    chosen.sort();
    let mut head = Writer::default();
    head.u64(u64::from(made_here));
    if made_here {
        let identity = engine.identity();
        head.field(identity.kind.as_bytes()).u32(identity.version.0).u32(identity.version.1);
        head.field(identity.build.as_bytes())
            .list(engine.supported_archs().iter().map(|arch| arch.to_le_bytes()));
    }
    head.u64(u64::try_from(chosen.len()).unwrap_or(u64::MAX));
    let head = head.finish();
    let mut bytes = MAGIC.to_vec();
    let mut writer = Writer::default();
    writer.field(&head);
    bytes.extend(writer.finish());
    bytes.extend_from_slice(&Sha256::digest(&head));
    for (_, entry) in &chosen {
        let mut writer = Writer::with_capacity(entry.len() + 8);
        writer.field(entry);
        bytes.extend(writer.finish());
        report.copied += 1;
    }
    let temporary = file.with_extension(format!("writing-{}", std::process::id()));
    fs::write(&temporary, &bytes).and_then(|()| fs::rename(&temporary, file)).map_err(|error| {
        let _ = fs::remove_file(&temporary);
        CompileError::Bundle { path: file.to_path_buf(), reason: error.to_string() }
    })?;
    Ok(report)
}

/// Copies a bundle's entries into a folder: under their own keys, which a compiler with the same headers in the same
/// places asks for, and under the keys that stand for any headers.
pub(crate) fn import(disk: &Disk, bundle: &Bundle) -> BundleReport {
    let mut report = BundleReport { failed: bundle.damaged, ..BundleReport::default() };
    for (vouched, entries) in &bundle.entries {
        for entry in entries {
            let Some((key, artifact)) = artifact::decode_any(entry) else { continue };
            if disk.get(key).as_ref() == Some(&artifact) {
                report.left_out += 1;
                continue;
            }
            let mut written = disk.put_entry(key, entry);
            // One of several would be picked by chance.
            if key != vouched && entries.len() == 1 {
                written &= disk.put_entry(vouched, &artifact::encode(vouched, &artifact));
            }
            if written {
                report.copied += 1;
            } else {
                report.failed += 1;
            }
        }
    }
    report
}

fn head_of(head: &[u8]) -> Option<(Vec<Made>, u64)> {
    let mut reader = Reader::new(head);
    let compilers = (0..reader.u64()?.min(64)).map(|_| {
        let kind = reader.text()?.to_owned();
        let version = (reader.u32()?, reader.u32()?);
        let build = reader.text()?.to_owned();
        let archs = reader.fields()?.iter().map(|field| Reader::new(field).u32()).collect::<Option<_>>()?;
        Some((Identity { kind, version, build }, archs))
    });
    let compilers = compilers.collect::<Option<Vec<_>>>()?;
    Some((compilers, reader.u64()?))
}

fn info(key: &[u8], artifact: &Artifact) -> Option<EntryInfo> {
    let (compiler, name, options) = record::describe(key)?;
    let bytes =
        artifact.cubin.as_deref().map_or(0, <[u8]>::len) + artifact.ptx.as_deref().map_or(0, str::len);
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    Some(EntryInfo { compiler, name, options, entry_points: artifact.entry_points.clone(), bytes })
}

/// The compiler of a machine that has only its bundle: it compiles nothing.
#[derive(Debug)]
pub(crate) struct Offline {
    identity: Identity,
    archs: Vec<u32>,
    bundle: PathBuf,
}

impl Offline {
    pub(crate) fn of(bundle: &Bundle) -> Result<Self, CompileError> {
        match bundle.compilers.as_slice() {
            [(identity, archs)] => {
                Ok(Self { identity: identity.clone(), archs: archs.clone(), bundle: bundle.path.clone() })
            }
            several => {
                let reason = format!("made by {} compilers, one is needed", several.len());
                Err(CompileError::Bundle { path: bundle.path.clone(), reason })
            }
        }
    }
}

impl Engine for Offline {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn supported_archs(&self) -> &[u32] {
        &self.archs
    }

    fn run(&self, job: &Job, _limits: &Limits) -> Result<Output, CompileError> {
        let outcome = format!("a bundle without an entry for this request ({})", job.name);
        let looked = vec![Looked { origin: Origin::Option, path: self.bundle.clone(), outcome }];
        Err(CompileError::NvrtcNotFound { wanted: Some(self.identity.version), looked })
    }
}
