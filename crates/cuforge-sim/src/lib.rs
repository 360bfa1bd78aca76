//! A simulated CUDA device as a library: parses, runs and mutates PTX, with detectors
//!
//! A kernel goes through four hands: [`ptx::Module`] is its text and tree, [`Program`] its decoded code,
//! [`Memory`] the device memory it works on, and [`launch`] runs it and gives a [`LaunchReport`] or the
//! [`Fault`] that ended it. Everything is deterministic: the same input and seed give the same bits and the same
//! fault, whatever the number of host threads.
//!
//! ```
//! use cuforge_core::LaunchGeometry;
//! use cuforge_sim::{LaunchOptions, Memory, Program, launch, ptx::Module};
//!
//! let text = "
//! .version 8.0
//! .target sm_80
//! .address_size 64
//! .visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
//! {
//!     .reg .pred %p<2>;
//!     .reg .b32 %r<6>;
//!     .reg .f32 %f<5>;
//!     .reg .b64 %rd<8>;
//!     ld.param.u64 %rd1, [x];
//!     ld.param.u64 %rd2, [y];
//!     ld.param.f32 %f1, [a];
//!     ld.param.u32 %r1, [n];
//!     mov.u32 %r2, %ctaid.x;
//!     mov.u32 %r3, %ntid.x;
//!     mov.u32 %r4, %tid.x;
//!     mad.lo.s32 %r5, %r2, %r3, %r4;
//!     setp.ge.u32 %p1, %r5, %r1;
//!     @%p1 bra DONE;
//!     mul.wide.u32 %rd3, %r5, 4;
//!     add.s64 %rd4, %rd1, %rd3;
//!     add.s64 %rd5, %rd2, %rd3;
//!     ld.global.f32 %f2, [%rd4];
//!     ld.global.f32 %f3, [%rd5];
//!     fma.rn.f32 %f4, %f2, %f1, %f3;
//!     st.global.f32 [%rd5], %f4;
//! DONE:
//!     ret;
//! }";
//! let saxpy = Program::load(&Module::parse(text)?)?.kernel("saxpy")?;
//!
//! let mut memory = Memory::new(1 << 20);
//! let (x, y, n) = (memory.allocate(400, 4)?, memory.allocate(400, 4)?, 100u32);
//! for index in 0..n {
//!     memory.write(x + 4 * u64::from(index), &(index as f32).to_le_bytes())?;
//!     memory.write(y + 4 * u64::from(index), &1f32.to_le_bytes())?;
//! }
//! let mut params = Vec::new();
//! params.extend(x.to_le_bytes());
//! params.extend(y.to_le_bytes());
//! params.extend(2f32.to_le_bytes());
//! params.extend(n.to_le_bytes());
//!
//! let geometry = LaunchGeometry { grid: [2, 1, 1], block: [64, 1, 1], shared_bytes: 0 };
//! let report = launch(&saxpy, &geometry, &params, &mut memory, &LaunchOptions::default())?;
//! assert_eq!(report.blocks, 2);
//! let mut last = [0; 4];
//! memory.read(y + 4 * 99, &mut last)?;
//! assert_eq!(f32::from_le_bytes(last), 2.0 * 99.0 + 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod mutate;
pub mod ptx;

mod alu;
mod assigned;
mod atomic;
mod attach;
mod backing;
mod code;
mod dataflow;
mod decode;
mod exec;
mod fault;
mod float;
mod form;
mod gate;
mod lanes;
mod meeting;
mod memory;
mod operands;
mod place;
mod pressure;
mod printf;
mod program;
mod shadow;
mod tensor;
mod tile;
mod touched;

pub use attach::ModuleVariableLayout;
pub use backing::Backing;
pub use exec::{Checks, ExitedThreads, LaunchOptions, LaunchReport, launch};
pub use fault::{
    AccessKind, Fault, LaunchMisuse, MemorySpace, Nearest, Party, Place, UndefinedSource, UndefinedUse,
};
pub use meeting::{MbarrierMisuse, Missing};
pub use memory::{Memory, MemoryError, POISON_WORD};
pub use program::{Kernel, LoadError, Program};
pub use touched::{AccessLog, Touch, TouchedRange};
