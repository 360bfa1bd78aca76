//! A loaded module: decoded kernels and the variables they use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::code::Code;
use crate::fault::LaunchMisuse;
use crate::memory::{Memory, MemoryError};

/// Why a module cannot be loaded.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No kernel of that name.
    #[error("no kernel named {name}; the module has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    NoKernel {
        /// The name that was asked for.
        name: String,
        /// Kernels of the module.
        known: Vec<String>,
    },
    /// A declaration or instruction that no valid module has.
    #[error("line {line}: {what}")]
    Invalid {
        /// Line of the text, from 1.
        line: u32,
        /// What is wrong.
        what: String,
    },
}

/// A variable of the module in global or constant memory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ModuleVariable {
    pub(crate) name: String,
    pub(crate) align: u64,
    /// The initial bytes.
    pub(crate) bytes: Vec<u8>,
    /// Places in the bytes that hold the address of another variable (by index) plus an offset.
    pub(crate) pointers: Vec<(usize, usize, i64)>,
}

#[derive(Debug)]
struct Inner {
    id: u64,
    kernels: BTreeMap<String, Arc<Code>>,
    variables: Vec<ModuleVariable>,
}

/// A module whose kernels are decoded and ready to run.
///
/// Decoding happens once; a clone shares it. Instructions that the simulator does not know are kept, and fault with
/// [`Fault::Unsupported`](crate::Fault::Unsupported) if a thread comes to one.
///
/// ```
/// use cuforge_sim::{Program, ptx::Module};
///
/// let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }";
/// let program = Program::load(&Module::parse(text)?)?;
/// assert_eq!(program.kernel("k")?.param_bytes(), 8);
/// assert_eq!(program.kernel("q").unwrap_err().to_string(), "no kernel named q; the module has k");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    inner: Arc<Inner>,
}

impl Program {
    pub(crate) fn new(kernels: BTreeMap<String, Arc<Code>>, variables: Vec<ModuleVariable>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { inner: Arc::new(Inner { id, kernels, variables }) }
    }

    pub(crate) fn id(&self) -> u64 {
        self.inner.id
    }

    pub(crate) fn module_variables(&self) -> &[ModuleVariable] {
        &self.inner.variables
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// [`LoadError::NoKernel`] if the module has none.
    pub fn kernel(&self, entry: &str) -> Result<Kernel, LoadError> {
        match self.inner.kernels.get(entry) {
            Some(code) => Ok(Kernel { program: self.clone(), code: Arc::clone(code) }),
            None => Err(LoadError::NoKernel { name: entry.to_owned(), known: self.kernel_names() }),
        }
    }

    /// Names of all kernels, sorted.
    pub fn kernel_names(&self) -> Vec<String> {
        self.inner.kernels.keys().cloned().collect()
    }

    /// Address and size in bytes of a `.global` or `.const` variable in the memory; placed there if it is not yet.
    ///
    /// Absent if the module has no such variable.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] if the module's variables do not fit.
    pub fn variable(&self, name: &str, memory: &mut Memory) -> Result<Option<(u64, u64)>, MemoryError> {
        let addresses = self.place(memory)?;
        let variables = self.inner.variables.iter().zip(addresses);
        let mut found = variables
            .filter(|(variable, _)| variable.name == name)
            .map(|(variable, address)| (address, variable.bytes.len() as u64));
        Ok(found.next())
    }

    /// Puts the module's variables into the memory with their initial values, once; gives their addresses.
    fn place(&self, memory: &mut Memory) -> Result<Vec<u64>, MemoryError> {
        if let Some(addresses) = memory.module(self.inner.id) {
            return Ok(addresses.to_vec());
        }
        let mut addresses = Vec::with_capacity(self.inner.variables.len());
        for variable in &self.inner.variables {
            let address = memory.allocate((variable.bytes.len() as u64).max(1), variable.align)?;
            memory.write(address, &variable.bytes)?;
            addresses.push(address);
        }
        for (variable, address) in self.inner.variables.iter().zip(&addresses) {
            for (at, target, offset) in &variable.pointers {
                let pointer = addresses.get(*target).map_or(0, |base| base.wrapping_add_signed(*offset));
                memory.write(address + *at as u64, &pointer.to_le_bytes())?;
            }
        }
        memory.set_module(self.inner.id, addresses.clone());
        Ok(addresses)
    }
}

/// A kernel of a [`Program`].
///
/// ```
/// use cuforge_sim::{Program, ptx::Module};
///
/// let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
///             .visible .entry k() { .shared .align 4 .b8 tile[64]; wgmma.fence.sync.aligned; ret; }";
/// let kernel = Program::load(&Module::parse(text)?)?.kernel("k")?;
/// assert_eq!((kernel.name(), kernel.static_shared_bytes()), ("k", 64));
/// assert_eq!(kernel.unsupported().collect::<Vec<_>>(), [(4, "wgmma.fence.sync.aligned")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    program: Program,
    code: Arc<Code>,
}

impl Kernel {
    /// The entry's name.
    pub fn name(&self) -> &str {
        &self.code.name
    }

    /// Bytes of the parameter space.
    pub fn param_bytes(&self) -> u32 {
        self.code.param_bytes
    }

    /// Bytes of statically declared shared memory a block.
    pub fn static_shared_bytes(&self) -> u64 {
        self.code.shared.static_bytes
    }

    /// Registers of 32 bits that a thread needs: the most values that are live at once, from 8 to 255, and no more than
    /// `.maxnreg` allows. An estimate: what compiles PTX for a device reorders instructions, and spills.
    pub fn registers_per_thread(&self) -> u32 {
        self.code.registers
    }

    /// Whether its blocks run on one host thread, because they may communicate through global memory.
    pub fn communicates(&self) -> bool {
        self.code.communicates
    }

    /// PTX line and text of each instruction that would fault as unsupported.
    pub fn unsupported(&self) -> impl Iterator<Item = (u32, &str)> {
        self.code.unsupported.iter().map(|(line, form)| (*line, form.as_str()))
    }

    /// Number of decoded instructions, device functions included.
    pub fn instruction_count(&self) -> usize {
        self.code.insts.len()
    }

    pub(crate) fn code(&self) -> &Code {
        &self.code
    }

    /// Values of the code's relocated constants, with the module's variables placed in the memory.
    pub(crate) fn place_variables(&self, memory: &mut Memory) -> Result<Vec<u64>, LaunchMisuse> {
        if self.code.relocations.is_empty() {
            return Ok(Vec::new());
        }
        let addresses = self.program.place(memory).map_err(|_| LaunchMisuse::ModuleVariables {
            bytes: self.program.inner.variables.iter().map(|variable| variable.bytes.len() as u64).sum(),
            free: memory.free_bytes(),
        })?;
        let value = |relocation: &crate::code::Relocation| {
            addresses.get(relocation.variable).map_or(0, |base| base.wrapping_add_signed(relocation.offset))
        };
        Ok(self.code.relocations.iter().map(value).collect())
    }
}
