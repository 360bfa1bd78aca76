//! Which build of a library a file is: the linker's build id where there is one, else a digest of the whole file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Bytes of notes that are read at most; real note segments have a few dozen.
const NOTE_LIMIT_BYTES: u64 = 1 << 16;
/// Program headers that are looked at most.
const HEADER_LIMIT: u16 = 64;
const PT_NOTE: u32 = 4;

/// `build-id:<hex>` or `sha256:<hex>`. The digest reads the whole file: some 60 ms for 100 MB.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    if let Ok(Some(id)) = elf_build_id(&mut file) {
        return Ok(format!("build-id:{}", hex(&id)));
    }
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("sha256:{}", hex(&hasher.finalize()))),
            n => hasher.update(&buffer[..n]),
        }
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte)]).collect()
}

/// The GNU build id from the note segments of a 64-bit little-endian ELF file.
fn elf_build_id(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0_u8; 64];
    file.read_exact(&mut header)?;
    if header[..6] != [0x7f, b'E', b'L', b'F', 2, 1] {
        return Ok(None);
    }
    let table = u64_at(&header, 32);
    let (size, count) = (u16_at(&header, 54), u16_at(&header, 56).min(HEADER_LIMIT));
    for index in 0..count {
        let mut entry = [0_u8; 56];
        file.seek(SeekFrom::Start(table + u64::from(index) * u64::from(size)))?;
        file.read_exact(&mut entry)?;
        if u32_at(&entry, 0) != PT_NOTE {
            continue;
        }
        let mut notes = Vec::new();
        file.seek(SeekFrom::Start(u64_at(&entry, 8)))?;
        file.by_ref().take(u64_at(&entry, 32).min(NOTE_LIMIT_BYTES)).read_to_end(&mut notes)?;
        if let Some(id) = build_id_in(&notes) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Looks for the note by its head at every aligned place: some libraries declare an alignment that their notes do not
/// keep (NVRTC 12.4), so walking from note to note would lose the way.
fn build_id_in(notes: &[u8]) -> Option<Vec<u8>> {
    (0..notes.len()).step_by(4).find_map(|at| {
        let head = notes.get(at..at + 16)?;
        let is_build_id = u32_at(head, 0) == 4 && u32_at(head, 8) == 3 && head[12..] == *b"GNU\0";
        let len = usize::try_from(u32_at(head, 4)).ok()?;
        if !is_build_id || !(8..=64).contains(&len) {
            return None;
        }
        Some(notes.get(at + 16..at + 16 + len)?.to_vec())
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, id: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [4, u32::try_from(id.len()).unwrap(), kind] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(b"GNU\0");
        bytes.extend_from_slice(id);
        bytes
    }

    #[test]
    fn a_build_id_is_found_behind_other_notes() {
        let mut notes = note(1, &[0; 16]);
        notes.extend(note(3, &[7; 20]));
        assert_eq!(build_id_in(&notes), Some(vec![7; 20]));
        assert_eq!(build_id_in(&note(1, &[0; 16])), None);
        assert_eq!(build_id_in(&note(3, &[7; 20])[..30]), None);
    }

    #[test]
    fn a_file_without_a_build_id_is_known_by_its_content() {
        let dir = std::env::temp_dir();
        let path = dir.join(format!("cuforge-build-id-{}", std::process::id()));
        std::fs::write(&path, b"not a library").unwrap();
        let first = of_file(&path).unwrap();
        std::fs::write(&path, b"not a librarx").unwrap();
        let second = of_file(&path).unwrap();
        assert!(first.starts_with("sha256:") && second.starts_with("sha256:"));
        assert_ne!(first, second);
        std::fs::remove_file(path).unwrap();
    }
}
