//! Images that a driver refused to load: remembered per adapter and driver, in memory and beside the entries.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cuforge_core::{Digest, Target};
use parking_lot::RwLock;

use crate::bytes::Writer;
use crate::record;
use crate::store::stats::Counters;
use crate::store::sweep::REJECTS_FOLDER;

/// The images that some driver refused.
#[derive(Debug)]
pub(crate) struct Rejects {
    known: RwLock<HashSet<Vec<u8>>>,
    folder: Option<PathBuf>,
    counters: Arc<Counters>,
}

impl Rejects {
    pub(crate) fn new(cache_root: Option<&Path>, counters: Arc<Counters>) -> Self {
        let folder = cache_root.map(|root| root.join(REJECTS_FOLDER));
        Self { known: RwLock::new(HashSet::new()), folder, counters }
    }

    /// Remembers that this image does not load there.
    pub(crate) fn add(&self, image: Digest, target: &Target, why: &str) {
        let note = note(image, target);
        Counters::one(&self.counters.rejected);
        if let Some(folder) = &self.folder {
            let path = folder.join(record::locate(&note).to_string());
            // The reason is for people; what counts is that the note is there and names this image.
            let mut text = note.clone();
            text.extend_from_slice(why.as_bytes());
            if let Err(error) = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)) {
                self.counters.io_error("noting a rejected image", &path, &error);
            }
        }
        self.known.write().insert(note);
    }

    /// Whether this image was refused there, by this or an earlier process.
    pub(crate) fn contains(&self, image: Digest, target: &Target) -> bool {
        let note = note(image, target);
        if self.known.read().contains(&note) {
            return true;
        }
        let Some(folder) = &self.folder else { return false };
        let found = fs::read(folder.join(record::locate(&note).to_string()));
        let noted = found.is_ok_and(|text| text.starts_with(&note));
        if noted {
            self.known.write().insert(note);
        }
        noted
    }
}

fn note(image: Digest, target: &Target) -> Vec<u8> {
    let mut writer = Writer::with_capacity(96);
    writer.field(b"rejected image 2").field(&image.0).u32(u32::from(target.capability.sm()));
    // Both as fields, so that an unknown one is told from any known one.
    let driver =
        target.driver.map(|driver| [driver.major.to_le_bytes(), driver.minor.to_le_bytes()].concat());
    writer
        .field(driver.as_deref().unwrap_or_default())
        .field(target.adapter.as_ref().map_or(&[], |uuid| uuid));
    writer.field(target.to_string().as_bytes());
    writer.finish()
}
