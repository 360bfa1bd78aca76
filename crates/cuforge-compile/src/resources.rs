//! What a compiled kernel takes of a multiprocessor, read from the cubin itself, so that a hit in the cache tells it too.

use std::fmt;

/// Registers, shared memory and stack of one kernel or device function.
///
/// ```
/// use cuforge_compile::{KernelResources, kernel_resources};
/// assert!(kernel_resources(b"no cubin").is_empty());
/// let one = KernelResources { name: "k".into(), registers: Some(12), shared_bytes: 400, stack_bytes: 0 };
/// assert_eq!(one.to_string(), "k: 12 registers, 400 bytes shared memory, 0 bytes stack");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelResources {
    /// Name as the module exports it.
    pub name: String,
    /// Registers a thread; `None` if the cubin does not say.
    pub registers: Option<u32>,
    /// Static shared memory a block, in bytes; from `sm_90` on with the kilobyte that the system reserves in it.
    pub shared_bytes: u64,
    /// Stack frame a thread, in bytes, in local memory: spilled registers and arrays.
    pub stack_bytes: u32,
}

impl fmt::Display for KernelResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, registers, shared_bytes, stack_bytes } = self;
        write!(f, "{name}: ")?;
        if let Some(registers) = registers {
            write!(f, "{registers} registers, ")?;
        }
        write!(f, "{shared_bytes} bytes shared memory, {stack_bytes} bytes stack")
    }
}

/// Attributes of `.nv.info`: a form byte, the attribute, a 16-bit size, then symbol index and value.
const FORM_SIZED: u8 = 4;
const ATTRIBUTE_FRAME_SIZE: u8 = 0x11;
const ATTRIBUTE_REGISTERS: u8 = 0x2f;
/// `STT_FUNC`.
const FUNCTION: u8 = 2;
const ENTRY_BYTES: usize = 24;

/// The resources of every function in a cubin, in the order of its symbols; empty if the bytes are no cubin.
///
/// Reads a few hundred bytes of headers; the code is not looked at.
pub fn kernel_resources(cubin: &[u8]) -> Vec<KernelResources> {
    Elf::parse(cubin).and_then(|elf| elf.resources()).unwrap_or_default()
}

struct Elf<'a> {
    sections: Vec<Section<'a>>,
}

#[derive(Clone, Copy)]
struct Section<'a> {
    name: &'a str,
    size: u64,
    bytes: &'a [u8],
}

impl<'a> Elf<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        if bytes.get(..6)? != [0x7f, b'E', b'L', b'F', 2, 1] {
            return None;
        }
        let table = usize::try_from(u64_at(bytes, 40)?).ok()?;
        let (size, count) = (usize::from(u16_at(bytes, 58)?), usize::from(u16_at(bytes, 60)?));
        let names = usize::from(u16_at(bytes, 62)?);
        let header = |index: usize| bytes.get(table.checked_add(index * size)?..);
        let range = |header: &[u8]| {
            let (start, len) =
                (usize::try_from(u64_at(header, 24)?).ok()?, usize::try_from(u64_at(header, 32)?).ok()?);
            bytes.get(start..start.checked_add(len)?)
        };
        let strings = range(header(names)?)?;
        let mut sections = Vec::new();
        for index in 0..count {
            let header = header(index)?;
            let name = text_at(strings, u32_at(header, 0)?)?;
            // A section without bytes in the file (shared memory is one) has a size all the same.
            let nothing = u32_at(header, 4)? == 8;
            let content = if nothing { &[][..] } else { range(header)? };
            sections.push(Section { name, size: u64_at(header, 32)?, bytes: content });
        }
        Some(Self { sections })
    }

    fn section(&self, name: &str) -> Option<Section<'a>> {
        self.sections.iter().find(|section| section.name == name).copied()
    }

    fn resources(&self) -> Option<Vec<KernelResources>> {
        let (symbols, strings) = (self.section(".symtab")?, self.section(".strtab")?);
        let mut found: Vec<(u32, KernelResources)> = Vec::new();
        for (index, symbol) in symbols.bytes.chunks_exact(ENTRY_BYTES).enumerate() {
            let name = text_at(strings.bytes, u32_at(symbol, 0)?)?;
            let code = format!(".text.{name}");
            if symbol[4] & 15 == FUNCTION && self.section(&code).is_some() {
                let shared = self.section(&format!(".nv.shared.{name}")).map_or(0, |section| section.size);
                let kernel =
                    KernelResources { name: name.to_owned(), shared_bytes: shared, ..Default::default() };
                found.push((u32::try_from(index).ok()?, kernel));
            }
        }
        let mut info = self.section(".nv.info")?.bytes;
        while let [form, attribute, low, high, rest @ ..] = info {
            let size = usize::from(u16::from_le_bytes([*low, *high]));
            // Other forms carry their value in the size field.
            let (value, rest) = rest.split_at_checked(if *form == FORM_SIZED { size } else { 0 })?;
            info = rest;
            if value.len() != 8 {
                continue;
            }
            let (symbol, number) = (u32_at(value, 0)?, u32_at(value, 4)?);
            if let Some((_, kernel)) = found.iter_mut().find(|(index, _)| *index == symbol) {
                match *attribute {
                    ATTRIBUTE_REGISTERS => kernel.registers = Some(number),
                    ATTRIBUTE_FRAME_SIZE => kernel.stack_bytes = number,
                    _ => {}
                }
            }
        }
        Some(found.into_iter().map(|(_, kernel)| kernel).collect())
    }
}

fn text_at(strings: &[u8], at: u32) -> Option<&str> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let len = rest.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&rest[..len]).ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_cubin_give_nothing() {
        let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1];
        assert!(kernel_resources(&elf).is_empty());
        elf.resize(64, 0xff);
        assert!(kernel_resources(&elf).is_empty());
    }
}
