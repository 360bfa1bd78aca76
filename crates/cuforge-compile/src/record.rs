//! The whole key of a compilation: every input that can change its result, in one canonical record.

use std::path::PathBuf;

use cuforge_core::Digest;
use sha2::{Digest as _, Sha256};

use crate::bytes::{Reader, Writer};
use crate::engine::{Identity, Job};

/// Raise when the meaning of a record changes, so that entries of older code are never met.
const SCHEMA: &str = "cuforge-compile key 2";
/// What stands in place of the local part when a bundle vouches for it.
const VOUCHED: &[u8] = b"vouched by a bundle";

/// A key record: the part that is the same on every machine, and the part that holds this machine's header files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    bytes: Vec<u8>,
}

/// What a compiler looks at beside its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// The working folder, where it goes into the result.
    pub(crate) working_dir: Option<PathBuf>,
    /// `NAME=value` of the variables that are set.
    pub(crate) variables: Vec<Vec<u8>>,
}

/// Where a key lies. A test can cut it short; then many keys share a place, and still none gets another's artifact.
pub(crate) type Locator = fn(&[u8]) -> Digest;

impl Record {
    /// The record of a compilation. `portable` is the job without this machine's folders; `local` is the list of folders
    /// and of header files with their digests, empty if no file can be read.
    pub(crate) fn of_job(
        compiler: &Identity,
        portable: &Job,
        surroundings: &Surroundings,
        local: &[u8],
    ) -> Self {
        let headers = portable.headers.iter().map(|(_, text)| text.len()).sum::<usize>();
        let mut writer = Writer::with_capacity(portable.source.len() + headers + 1024);
        writer
            .field(SCHEMA.as_bytes())
            .field(b"compile")
            .field(compiler.kind.as_bytes())
            .u32(compiler.version.0)
            .u32(compiler.version.1)
            .field(compiler.build.as_bytes())
            .list(portable.options.iter())
            .field(portable.name.as_bytes())
            .optional(surroundings.working_dir.as_deref().map(|dir| dir.as_os_str().as_encoded_bytes()))
            .list(surroundings.variables.iter())
            .list(portable.name_expressions.iter())
            .list(portable.headers.iter().map(|(name, _)| name))
            .list(portable.headers.iter().map(|(_, text)| text.as_bytes()))
            .field(portable.source.as_bytes());
        Self::with_local(writer.finish(), local)
    }

    /// The record of a link in user space.
    pub(crate) fn of_link(linker: &Identity, architecture: &str, ptx: &str) -> Self {
        let mut writer = Writer::with_capacity(ptx.len() + 512);
        writer
            .field(SCHEMA.as_bytes())
            .field(b"link")
            .field(linker.kind.as_bytes())
            .u32(linker.version.0)
            .u32(linker.version.1)
            .field(linker.build.as_bytes())
            .field(architecture.as_bytes())
            .field(ptx.as_bytes());
        Self::with_local(writer.finish(), &[])
    }

    fn with_local(portable: Vec<u8>, local: &[u8]) -> Self {
        let mut writer = Writer::with_capacity(portable.len() + local.len() + 16);
        writer.field(&portable).field(local);
        Self { bytes: writer.finish() }
    }

    /// The same request for a machine whose header files a bundle stands for. A request without header files is left
    /// as it is.
    pub(crate) fn vouched(record: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(record);
        let (portable, local) = (reader.field()?, reader.field()?);
        if !reader.is_empty() {
            return None;
        }
        let local = if local.is_empty() { local } else { VOUCHED };
        Some(Self::with_local(portable.to_vec(), local))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Compiler, name and options of a record; for a link the architecture in place of the options.
pub(crate) fn describe(record: &[u8]) -> Option<(Identity, String, Vec<String>)> {
    let mut reader = Reader::new(Reader::new(record).field()?);
    if reader.text()? != SCHEMA {
        return None;
    }
    let stage = reader.text()?;
    let kind = reader.text()?.to_owned();
    let version = (reader.u32()?, reader.u32()?);
    let identity = Identity { kind, version, build: reader.text()?.to_owned() };
    if stage == "link" {
        return Some((identity, String::new(), vec![reader.text()?.to_owned()]));
    }
    let options = reader.fields()?;
    let options = options.iter().map(|option| String::from_utf8_lossy(option).into_owned()).collect();
    Some((identity, reader.text()?.to_owned(), options))
}

/// The place of a record: its SHA-256.
pub(crate) fn locate(record: &[u8]) -> Digest {
    Digest(Sha256::digest(record).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn identity() -> Identity {
        Identity { kind: "nvrtc".into(), version: (12, 9), build: "build-id:00".into() }
    }

    fn job() -> Job {
        Job {
            name: "k.cu".into(),
            source: "int x;".into(),
            options: vec![b"-a".to_vec(), b"-b".to_vec()],
            headers: vec![("h".into(), "1".into())],
            name_expressions: vec!["k<1>".into()],
        }
    }

    #[test]
    fn every_changed_input_gives_another_record() {
        let base = || (identity(), job());
        let mut all = BTreeSet::new();
        let mut add = |(identity, job): (Identity, Job), dir: Option<&str>, local: &[u8]| {
            let surroundings = Surroundings { working_dir: dir.map(PathBuf::from), variables: Vec::new() };
            let record = Record::of_job(&identity, &job, &surroundings, local);
            assert!(all.insert(record.bytes().to_vec()), "{identity} {job:?}");
        };
        add(base(), None, b"");
        add(base(), Some("/work"), b"");
        add(base(), None, b"local");
        let changes: [fn(&mut (Identity, Job)); 13] = [
            |b| b.0.kind.push('x'),
            |b| b.0.version.1 = 8,
            |b| b.0.build.push('1'),
            |b| b.1.name.push('x'),
            |b| b.1.source = "int y;".into(),
            |b| b.1.options.reverse(),
            |b| b.1.options = vec![b"-a-b".to_vec()],
            |b| b.1.headers[0].0.push('x'),
            |b| b.1.headers[0].1 = "2".into(),
            |b| b.1.headers.clear(),
            |b| b.1.name_expressions[0].push('x'),
            |b| b.1.name_expressions.clear(),
            |b| b.1.options.push(Vec::new()),
        ];
        for change in changes {
            let mut changed = base();
            change(&mut changed);
            add(changed, None, b"");
        }
    }

    #[test]
    fn variables_that_the_compiler_reads_are_in_the_record() {
        let set = Surroundings { working_dir: None, variables: vec![b"NVRTC_APPEND_FLAGS=-G".to_vec()] };
        let unset = Surroundings::default();
        assert_ne!(
            Record::of_job(&identity(), &job(), &set, b""),
            Record::of_job(&identity(), &job(), &unset, b"")
        );
    }

    #[test]
    fn a_link_never_shares_a_record_with_a_compilation() {
        let link = Record::of_link(&identity(), "sm_90", "int x;");
        assert_ne!(link, Record::of_job(&identity(), &job(), &Surroundings::default(), b""));
        assert_ne!(link, Record::of_link(&identity(), "sm_90a", "int x;"));
    }

    #[test]
    fn a_vouched_record_forgets_the_files_and_nothing_else() {
        let plain = Record::of_job(&identity(), &job(), &Surroundings::default(), b"");
        assert_eq!(Record::vouched(plain.bytes()), Some(plain));
        let one = Record::of_job(&identity(), &job(), &Surroundings::default(), b"/a");
        let two = Record::of_job(&identity(), &job(), &Surroundings::default(), b"/b");
        assert_eq!(Record::vouched(one.bytes()), Record::vouched(two.bytes()));
        assert_eq!(Record::vouched(b"x"), None);
    }
}
