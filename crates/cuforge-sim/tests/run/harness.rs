//! Short kernels around a body of PTX, and launches of them.

use cuforge_core::LaunchGeometry;
use cuforge_sim::{Fault, Kernel, LaunchOptions, LaunchReport, Memory, Program, launch, ptx::Module};

/// Lines that stand before the body's first.
pub(crate) const LINES_BEFORE_BODY: u32 = 11;

/// A kernel `k(a, b, n)` with registers to spare around the body. `%rd1` and `%rd2` hold `a` and `b`, `%r1` holds `n`,
/// `%r2` the thread in the block, `%r3` the block, `%r4` the thread in the grid, `%rd3` and `%rd4` the
/// addresses of the thread's word in `a` and `b`.
pub(crate) fn module(declarations: &str, body: &str) -> String {
    assert!(!declarations.contains('\n'), "one line, so that line numbers stay known");
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{declarations}\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {{\n\
         .reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .f32 %f<64>; .reg .b64 %rd<64>; .reg .f64 %fd<8>;\n\
         ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n];\n\
         mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r5, %ntid.x;\n\
         mad.lo.s32 %r4, %r3, %r5, %r2;\n\
         mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd2, %rd3; add.s64 %rd3, %rd1, %rd3;\n\
         // the body\n\
         {body}\nret;\n}}\n"
    )
}

/// Decodes the kernel `k` of a text.
pub(crate) fn load(text: &str) -> Kernel {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = Program::load(&module).unwrap().kernel("k").unwrap();
    let unknown: Vec<_> = kernel.unsupported().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    kernel
}

/// Two arrays of words in one memory, and what a launch does to them.
pub(crate) struct Bench {
    pub(crate) memory: Memory,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) words: usize,
    pub(crate) options: LaunchOptions,
}

impl Bench {
    /// Arrays of so many words: `a` poisoned, `b` counting from 0.
    pub(crate) fn new(words: usize) -> Self {
        let mut memory = Memory::new(1 << 26);
        let a = memory.allocate(words as u64 * 4, 4).unwrap();
        let b = memory.allocate(words as u64 * 4, 4).unwrap();
        let counting: Vec<u8> = (0..words as u32).flat_map(u32::to_le_bytes).collect();
        memory.write(b, &counting).unwrap();
        Self { memory, a, b, words, options: LaunchOptions::default() }
    }

    /// Launches `k` with `n` the number of words.
    pub(crate) fn launch(
        &mut self,
        kernel: &Kernel,
        blocks: u32,
        threads: u32,
    ) -> Result<LaunchReport, Fault> {
        self.launch_with(kernel, [blocks, 1, 1], [threads, 1, 1], 0)
    }

    pub(crate) fn launch_with(
        &mut self,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
    ) -> Result<LaunchReport, Fault> {
        let mut params = Vec::new();
        params.extend(self.a.to_le_bytes());
        params.extend(self.b.to_le_bytes());
        params.extend((self.words as u32).to_le_bytes());
        let geometry = LaunchGeometry { grid, block, shared_bytes };
        launch(kernel, &geometry, &params, &mut self.memory, &self.options)
    }

    /// The words of `a`.
    pub(crate) fn result(&self) -> Vec<u32> {
        let mut bytes = vec![0; self.words * 4];
        self.memory.read(self.a, &mut bytes).unwrap();
        bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

/// Runs a body over so many blocks and threads, and gives `a`.
pub(crate) fn run(declarations: &str, body: &str, blocks: u32, threads: u32) -> Result<Vec<u32>, Fault> {
    let mut bench = Bench::new((blocks * threads) as usize);
    bench.launch(&load(&module(declarations, body)), blocks, threads)?;
    Ok(bench.result())
}

/// The fault of a body.
pub(crate) fn fault(declarations: &str, body: &str, blocks: u32, threads: u32) -> Fault {
    match run(declarations, body, blocks, threads) {
        Err(fault) => fault,
        Ok(_) => panic!("no fault"),
    }
}
