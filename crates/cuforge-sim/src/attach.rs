//! Memory and module variables that somebody else owns, lent to a launch: what a driver over the simulator needs.

use std::sync::Arc;

use crate::backing::{Backing, Words};
use crate::memory::{Allocation, Memory, MemoryError};
use crate::program::Program;
use crate::touched::AccessLog;

/// A `.global` or `.const` variable of a module, as its owner has to place it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ModuleVariableLayout<'a> {
    /// Its name; variables declared inside functions may share one.
    pub name: &'a str,
    /// Bytes; may be 0.
    pub bytes: u64,
    /// Alignment in bytes, a power of two.
    pub align: u64,
}

impl Memory {
    /// Puts memory of somebody else at an address: kernels access it as they do an allocation. It counts towards no
    /// capacity, and goes when the `Memory` does.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::AtomicU32};
    /// use cuforge_sim::{Backing, Memory};
    ///
    /// #[derive(Debug)]
    /// struct Page([AtomicU32; 4]);
    /// impl Backing for Page {
    ///     fn words(&self) -> &[AtomicU32] {
    ///         &self.0
    ///     }
    /// }
    /// let page = Arc::new(Page([const { AtomicU32::new(7) }; 4]));
    /// let mut memory = Memory::new(0);
    /// memory.attach(0x5000, 16, page)?;
    /// let mut word = [0; 4];
    /// memory.read(0x500c, &mut word)?;
    /// assert_eq!(word, [7, 0, 0, 0]);
    /// # Ok::<(), cuforge_sim::MemoryError>(())
    /// ```
    ///
    /// # Errors
    /// [`MemoryError::BadRequest`] for an address that is no multiple of 4, no bytes, bytes beyond the address space
    /// or beyond the words; [`MemoryError::OutOfRange`] where another allocation lies.
    pub fn attach(&mut self, address: u64, len: u64, backing: Arc<dyn Backing>) -> Result<(), MemoryError> {
        let room = backing.words().len() as u64 * 4;
        let end = address.checked_add(len);
        if !address.is_multiple_of(4) || len == 0 || len > room || end.is_none() {
            return Err(MemoryError::BadRequest { len, align: 4 });
        }
        let allocation = Allocation {
            base: address,
            len,
            words: Words::Lent(backing),
            marks: Default::default(),
            known: None,
        };
        self.insert(allocation)
    }

    /// Says where the variables of a program lie in this memory, one address for each of
    /// [`Program::variables`]: launches of its kernels then place none of their own.
    pub fn adopt(&mut self, program: &Program, addresses: &[u64]) {
        self.set_module(program.id(), addresses.to_vec());
    }

    /// Notes in `log` what the next launch on this memory touches.
    ///
    /// ```
    /// use cuforge_core::LaunchGeometry;
    /// use cuforge_sim::{AccessLog, LaunchOptions, Memory, Program, Touch, launch, ptx::Module};
    /// use std::sync::Arc;
    ///
    /// let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n\
    ///     { .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [p]; ld.global.u32 %r, [%d];\n\
    ///       st.global.u32 [%d+8], %r; ret; }";
    /// let kernel = Program::load(&Module::parse(text)?)?.kernel("k")?;
    /// let mut memory = Memory::new(1 << 20);
    /// let at = memory.allocate(16, 16)?;
    /// memory.fill(at, 16, 0)?;
    /// let log = Arc::new(AccessLog::default());
    /// memory.watch(Arc::clone(&log));
    /// let geometry = LaunchGeometry { grid: [1; 3], block: [1; 3], shared_bytes: 0 };
    /// launch(&kernel, &geometry, &at.to_le_bytes(), &mut memory, &LaunchOptions::default())?;
    /// let ranges: Vec<_> = log.ranges().iter().map(|r| (r.address - at, r.len, r.touch)).collect();
    /// assert_eq!(ranges, [(0, 4, Touch::Read), (8, 4, Touch::Written)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch(&mut self, log: Arc<AccessLog>) {
        self.set_log(log);
    }
}

impl Program {
    /// The module's variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = ModuleVariableLayout<'_>> {
        self.module_variables().iter().map(|variable| ModuleVariableLayout {
            name: &variable.name,
            bytes: variable.bytes.len() as u64,
            align: variable.align,
        })
    }

    /// The initial bytes of each variable once they lie at `addresses`; pointers to variables without an address are
    /// relative to 0.
    pub fn initial_bytes(&self, addresses: &[u64]) -> Vec<Vec<u8>> {
        let initial = |variable: &crate::program::ModuleVariable| {
            let mut bytes = variable.bytes.clone();
            for (at, target, offset) in &variable.pointers {
                let pointer = addresses.get(*target).map_or(0, |base| base.wrapping_add_signed(*offset));
                if let Some(place) = bytes.get_mut(*at..*at + 8) {
                    place.copy_from_slice(&pointer.to_le_bytes());
                }
            }
            bytes
        };
        self.module_variables().iter().map(initial).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::Module;
    use crate::{Fault, LaunchOptions, launch};
    use cuforge_core::LaunchGeometry;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    #[derive(Debug)]
    struct Page(Vec<AtomicU32>);

    impl Backing for Page {
        fn words(&self) -> &[AtomicU32] {
            &self.0
        }
    }

    fn page(words: usize) -> Arc<Page> {
        Arc::new(Page((0..words).map(|_| AtomicU32::new(0)).collect()))
    }

    const TABLE: &str = "
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 table[2] = {5, 6};
.global .align 8 .u64 where = table+4;
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r;
    .reg .b64 %d<3>;
    ld.param.u64 %d0, [out];
    ld.global.u64 %d1, [where];
    ld.global.u32 %r, [%d1];
    st.global.u32 [%d0], %r;
    ret;
}";

    #[test]
    fn a_kernel_reads_and_writes_lent_memory_and_lent_variables_and_nothing_beside_them() {
        let program = Program::load(&Module::parse(TABLE).unwrap()).unwrap();
        let addresses = [0x10_0000, 0x10_0100];
        let (variables, out) = (page(128), page(2));
        let mut memory = Memory::new(0);
        memory.attach(0x10_0000, 8, Arc::clone(&variables) as Arc<dyn Backing>).unwrap();
        memory.attach(0x10_0100, 8, page(2)).unwrap();
        memory.attach(0x20_0000, 8, Arc::clone(&out) as Arc<dyn Backing>).unwrap();
        memory.adopt(&program, &addresses);
        for (bytes, address) in program.initial_bytes(&addresses).iter().zip(addresses) {
            memory.write(address, bytes).unwrap();
        }
        let names: Vec<_> = program.variables().map(|variable| (variable.name, variable.bytes)).collect();
        assert_eq!(names, [("table", 8), ("where", 8)]);
        let geometry = LaunchGeometry { grid: [1; 3], block: [1; 3], shared_bytes: 0 };
        let kernel = program.kernel("k").unwrap();
        let mut run = |at: u64| {
            launch(&kernel, &geometry, &at.to_le_bytes(), &mut memory, &LaunchOptions::default()).map(|_| ())
        };
        run(0x20_0004).unwrap();
        assert_eq!(out.0[1].load(Relaxed), 6);
        assert!(matches!(run(0x20_0008), Err(Fault::OutOfBounds { .. })));
    }

    #[test]
    fn what_overlaps_or_does_not_fit_is_refused() {
        let mut memory = Memory::new(0);
        memory.attach(0x1000, 16, page(4)).unwrap();
        for (address, len) in [(0x1002, 4), (0x2000, 0), (0x2000, 17), (u64::MAX - 3, 8)] {
            assert!(matches!(memory.attach(address, len, page(4)), Err(MemoryError::BadRequest { .. })));
        }
        for address in [0xff4, 0x1000, 0x100c] {
            assert!(matches!(memory.attach(address, 16, page(4)), Err(MemoryError::OutOfRange { .. })));
        }
        memory.attach(0xff0, 16, page(4)).unwrap();
        memory.attach(0x1010, 16, page(4)).unwrap();
    }
}
