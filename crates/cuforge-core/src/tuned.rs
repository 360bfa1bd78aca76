//! Tuned schedules as records: which schedule won for a kernel over a shape on a device, and by how much.

use crate::adapter::Adapter;
use crate::image::Digest;
use crate::kernel::KernelSpec;
use crate::schedule::Schedule;
use crate::schedule_text::ScheduleTextError;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// What a record is for. A schedule that won elsewhere says nothing here: every part must be equal.
///
/// ```
/// use cuforge_core::{Digest, TuneKey};
/// let key = TuneKey {
///     adapter: "NVIDIA H200".into(),
///     driver: "580.95".into(),
///     kernel: "gemm".into(),
///     semantic_version: 1,
///     source: Digest([7; 32]),
///     shape: "256x192x320".into(),
/// };
/// assert!(key.file_name().starts_with("gemm-") && key.file_name().ends_with(".tuned"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TuneKey {
    /// The device's name.
    pub adapter: String,
    /// Name and build of the driver.
    pub driver: String,
    /// The kernel's id.
    pub kernel: String,
    /// Its semantic version.
    pub semantic_version: u32,
    /// Digest of its text.
    pub source: Digest,
    /// The shape, as the kernel's author writes shapes.
    pub shape: String,
}

impl TuneKey {
    /// The key of a kernel over a shape on a device. `source` is the digest of the kernel's text.
    #[must_use]
    pub fn new(adapter: &Adapter, spec: &KernelSpec, source: Digest, shape: &str) -> Self {
        Self {
            adapter: adapter.name.clone(),
            driver: adapter.driver.clone(),
            kernel: spec.id().to_string(),
            semantic_version: spec.semantic_version(),
            source,
            shape: shape.to_string(),
        }
    }

    /// The name of its record in a folder. The hash in it only locates: the record holds the whole key.
    #[must_use]
    pub fn file_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let kernel: String = self.kernel.chars().map(plain).take(40).collect();
        // FNV-1a over the key's own text.
        let hash = self.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{kernel}-{hash:016x}.tuned")
    }
}

impl fmt::Display for TuneKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "adapter = {}", one_line(&self.adapter))?;
        writeln!(f, "driver = {}", one_line(&self.driver))?;
        writeln!(f, "kernel = {}", one_line(&self.kernel))?;
        writeln!(f, "semantic_version = {}", self.semantic_version)?;
        writeln!(f, "source = {}", self.source)?;
        writeln!(f, "shape = {}", one_line(&self.shape))
    }
}

/// The winner of a search over schedules.
///
/// ```
/// use cuforge_core::{Digest, Schedule, TuneKey, TuneRecord};
/// let key = TuneKey {
///     adapter: "NVIDIA H200".into(),
///     driver: "580.95".into(),
///     kernel: "gemm".into(),
///     semantic_version: 1,
///     source: Digest([7; 32]),
///     shape: "256x192x320".into(),
/// };
/// let schedule = Schedule::new([16, 16, 1]).with_items_per_invocation(16);
/// let record = TuneRecord { key, schedule, median_ns: 9_000, default_median_ns: 12_000, samples: 40, candidates: 24 };
/// assert_eq!(record.to_string().parse(), Ok(record));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuneRecord {
    /// What it is for.
    pub key: TuneKey,
    /// The schedule that won.
    pub schedule: Schedule,
    /// Its median time in nanoseconds.
    pub median_ns: u64,
    /// The default schedule's median time in nanoseconds, of the same run.
    pub default_median_ns: u64,
    /// Samples of the winner in the last round.
    pub samples: u32,
    /// Schedules that were tried.
    pub candidates: u32,
}

const HEAD: &str = "cuforge tuned schedule 1";

impl fmt::Display for TuneRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        write!(f, "{}", self.key)?;
        writeln!(f, "schedule = {}", self.schedule)?;
        writeln!(f, "median_ns = {}", self.median_ns)?;
        writeln!(f, "default_median_ns = {}", self.default_median_ns)?;
        writeln!(f, "samples = {}", self.samples)?;
        writeln!(f, "candidates = {}", self.candidates)
    }
}

/// Why a text is no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TuneRecordError {
    /// It does not begin as one.
    #[error("it does not begin with `{HEAD}`")]
    Head,
    /// A line is missing, at its place.
    #[error("the line `{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A value cannot be read.
    #[error("`{value}` is no {field}")]
    Value {
        /// The field.
        field: &'static str,
        /// What stands there.
        value: String,
    },
    /// The schedule cannot be read.
    #[error(transparent)]
    Schedule(#[from] ScheduleTextError),
}

impl FromStr for TuneRecord {
    type Err = TuneRecordError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(TuneRecordError::Head);
        }
        let mut next = |field: &'static str| {
            let line = lines.next().and_then(|line| line.strip_prefix(field)?.strip_prefix(" = "));
            line.ok_or(TuneRecordError::Missing { field })
        };
        let key = TuneKey {
            adapter: next("adapter")?.to_string(),
            driver: next("driver")?.to_string(),
            kernel: next("kernel")?.to_string(),
            semantic_version: number("semantic_version", next("semantic_version")?)?,
            source: digest(next("source")?)?,
            shape: next("shape")?.to_string(),
        };
        Ok(Self {
            key,
            schedule: next("schedule")?.parse()?,
            median_ns: number("median_ns", next("median_ns")?)?,
            default_median_ns: number("default_median_ns", next("default_median_ns")?)?,
            samples: number("samples", next("samples")?)?,
            candidates: number("candidates", next("candidates")?)?,
        })
    }
}

fn number<T: FromStr>(field: &'static str, text: &str) -> Result<T, TuneRecordError> {
    text.parse().map_err(|_| TuneRecordError::Value { field, value: text.to_string() })
}

fn digest(text: &str) -> Result<Digest, TuneRecordError> {
    let wrong = || TuneRecordError::Value { field: "source", value: text.to_string() };
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return Err(wrong());
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| wrong())?;
    }
    Ok(Digest(bytes))
}

/// Line ends would end the value.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Constant;

    fn record() -> TuneRecord {
        let key = TuneKey {
            adapter: "NVIDIA H200".into(),
            driver: "NVIDIA 580.95 (/usr/lib/libcuda.so.1)".into(),
            kernel: "rms_norm (written PTX)".into(),
            semantic_version: 3,
            source: Digest(core::array::from_fn(|index| index as u8 * 7)),
            shape: "512x1023".into(),
        };
        let schedule = Schedule::new([16, 8, 1]).with_constant("TILE", Constant::Int(-4));
        TuneRecord { key, schedule, median_ns: 1, default_median_ns: 2, samples: 3, candidates: 4 }
    }

    #[test]
    fn a_record_reads_back_as_what_it_was() {
        assert_eq!(record().to_string().parse(), Ok(record()));
    }

    #[test]
    fn damage_is_named_and_never_read_as_another_record() {
        let text = record().to_string();
        let error = |text: String| text.parse::<TuneRecord>().unwrap_err();
        assert_eq!(error(text.replacen('1', "2", 1)), TuneRecordError::Head);
        for line in text.lines().skip(1) {
            let without: String =
                text.lines().filter(|other| *other != line).map(|l| format!("{l}\n")).collect();
            assert!(matches!(error(without), TuneRecordError::Missing { .. }), "{line}");
        }
        let wrong = error(text.replace("samples = 3", "samples = many"));
        assert_eq!(wrong, TuneRecordError::Value { field: "samples", value: "many".into() });
        assert!(matches!(error(text.replace("16x8x1", "16x8")), TuneRecordError::Schedule(_)));
        assert!(matches!(error(text.replace("source = 00", "source = zz")), TuneRecordError::Value { .. }));
    }

    #[test]
    fn another_key_has_another_file() {
        let key = record().key;
        let others = [
            TuneKey { adapter: "NVIDIA H100".into(), ..key.clone() },
            TuneKey { semantic_version: 4, ..key.clone() },
            TuneKey { shape: "512x1024".into(), ..key.clone() },
        ];
        assert!(others.iter().all(|other| other.file_name() != key.file_name()));
        assert!(key.file_name().starts_with("rms_norm--written-PTX--"));
    }
}
