//! Schedules that a tuner found: read from a folder of records.

use crate::session::Session;
use cuforge_core::{Digest, KernelSpec, Schedule, TuneKey, TuneRecord};
use sha2::{Digest as _, Sha256};
use std::fs;

impl Session {
    /// The schedule that won for this kernel over `shape` on this device and driver, if
    /// [`tuned_folder`](crate::SessionBuilder::tuned_folder) has a record of it. `shape` is the text under which the
    /// kernel was tuned. Reads a file: ask once and keep the answer.
    ///
    /// A record of another kernel text, device or driver is no answer, and neither is a file that cannot be read.
    #[must_use]
    pub fn tuned_schedule(&self, spec: &KernelSpec, shape: &str) -> Option<Schedule> {
        let source = Digest(Sha256::digest(spec.body().text.as_bytes()).into());
        let key = TuneKey::new(self.device().adapter(), spec, source, shape);
        let text = fs::read_to_string(self.tuned_folder()?.join(key.file_name())).ok()?;
        let record: TuneRecord = text.parse().ok()?;
        // The file's name only locates it.
        (record.key == key).then_some(record.schedule)
    }
}
