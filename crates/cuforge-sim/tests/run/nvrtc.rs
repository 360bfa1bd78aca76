//! Kernels as NVRTC emits them, for every version and target in `tests/data/nvrtc`, against plain arithmetic.

use std::collections::BTreeSet;
use std::path::Path;

use cuforge_core::LaunchGeometry;
use cuforge_sim::{Kernel, LaunchOptions, Memory, Program, launch, ptx::Module};

/// The programs made from one source, with the file names.
fn programs(source: &str) -> Vec<(String, Program)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nvrtc");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with(&format!("{source}.")) && name.ends_with(".ptx") {
            found.push((
                name,
                Program::load(&Module::parse(&std::fs::read_to_string(path).unwrap()).unwrap()).unwrap(),
            ));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert!(!found.is_empty(), "{source}");
    found
}

/// Schedules that every launch is tried under.
fn seeds() -> u64 {
    let long = std::env::var_os("CUFORGE_LONG").is_some_and(|value| value == "1");
    if long { 100 } else { 4 }
}

/// One parameter of a launch.
enum Parameter {
    Buffer(Vec<u32>),
    Word(u32),
}

/// The parameters of one launch.
struct Call(Vec<Parameter>);

impl Call {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn buffer(mut self, words: &[u32]) -> Self {
        self.0.push(Parameter::Buffer(words.to_vec()));
        self
    }

    fn floats(self, values: &[f32]) -> Self {
        self.buffer(&values.iter().map(|value| value.to_bits()).collect::<Vec<_>>())
    }

    fn word(mut self, word: u32) -> Self {
        self.0.push(Parameter::Word(word));
        self
    }

    /// Launches under several seeds, none of which may report anything or change a bit, and gives the words of a buffer.
    fn run(self, kernel: &Kernel, blocks: u32, threads: u32, shared_bytes: u32, of: usize) -> Vec<u32> {
        let geometry = LaunchGeometry { grid: [blocks, 1, 1], block: [threads, 1, 1], shared_bytes };
        self.run_over(kernel, &geometry, of)
    }

    fn run_over(self, kernel: &Kernel, geometry: &LaunchGeometry, of: usize) -> Vec<u32> {
        let first = self.run_with(kernel, geometry, of, 0);
        for seed in 1..seeds() {
            assert_eq!(self.run_with(kernel, geometry, of, seed), first, "seed {seed}");
        }
        first
    }

    fn run_with(&self, kernel: &Kernel, geometry: &LaunchGeometry, of: usize, seed: u64) -> Vec<u32> {
        let mut memory = Memory::new(1 << 24);
        let (mut params, mut buffers) = (Vec::new(), Vec::new());
        for parameter in &self.0 {
            match parameter {
                Parameter::Buffer(words) => {
                    let address = memory.allocate(words.len() as u64 * 4, 4).unwrap();
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                    memory.write(address, &bytes).unwrap();
                    params.extend(address.to_le_bytes());
                    buffers.push((address, words.len()));
                }
                Parameter::Word(word) => params.extend(word.to_le_bytes()),
            }
        }
        params.resize(kernel.param_bytes() as usize, 0);
        let options = LaunchOptions { seed, ..LaunchOptions::default() };
        if let Err(fault) = launch(kernel, geometry, &params, &mut memory, &options) {
            panic!("seed {seed}: {fault}");
        }
        let (address, words) = buffers[of];
        let mut bytes = vec![0; words * 4];
        memory.read(address, &mut bytes).unwrap();
        bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

fn singles(words: &[u32]) -> Vec<f32> {
    words.iter().map(|word| f32::from_bits(*word)).collect()
}

#[test]
fn sums_in_shared_memory_and_by_atomics_are_exact_on_integers() {
    let input: Vec<f32> = (0..5000).map(|i| (i % 17) as f32 - 8.0).collect();
    for (name, program) in programs("reduction") {
        let call = Call::new().floats(&input).floats(&[0.0]).word(5000);
        let got = singles(&call.run(&program.kernel("block_sum").unwrap(), 7, 256, 0, 1));
        assert_eq!(got, [input.iter().sum::<f32>()], "{name}");
    }
}

#[test]
fn shuffles_add_a_warp_up() {
    let input: Vec<f32> = (0..32).map(|i| i as f32).collect();
    for (name, program) in programs("reduction") {
        let call = Call::new().floats(&input).floats(&[0.0, 0.0]);
        let got = singles(&call.run(&program.kernel("warp_sums").unwrap(), 2, 32, 0, 1));
        // 496 in every lane, the same four lanes below, lane 0 keeps its own 0 going up, and lane 3 then holds 2.
        assert_eq!(got, [496.0 + 496.0 + 0.0 + 2.0; 2], "{name}");
    }
}

#[test]
fn a_histogram_counts_bytes() {
    let bytes: Vec<u8> = (0..4000u32).map(|i| (i * i % 251) as u8).collect();
    let words: Vec<u32> = bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let mut expected = vec![0; 256];
    bytes.iter().for_each(|byte| expected[usize::from(*byte)] += 1);
    for (name, program) in programs("reduction") {
        let call = Call::new().buffer(&words).buffer(&[0; 256]).word(4000);
        assert_eq!(call.run(&program.kernel("histogram").unwrap(), 3, 256, 0, 1), expected, "{name}");
    }
}

#[test]
fn a_scan_in_dynamic_shared_memory_adds_up() {
    let input: Vec<u32> = (0..300u32).map(|i| i * 7 % 13).collect();
    let expected: Vec<u32> = input
        .iter()
        .scan(0, |sum, value| {
            *sum += value;
            Some(*sum)
        })
        .collect();
    for (name, program) in programs("reduction") {
        let call = Call::new().buffer(&input).buffer(&[0; 300]).word(300);
        assert_eq!(call.run(&program.kernel("scan").unwrap(), 1, 512, 2048, 1), expected, "{name}");
    }
}

#[test]
fn streaming_kernels_touch_every_element_once() {
    let input: Vec<f32> = (0..1003).map(|i| i as f32 * 0.5).collect();
    for (name, program) in programs("streaming") {
        let call = Call::new()
            .floats(&input)
            .floats(&[0.0; 1003])
            .word(3f32.to_bits())
            .word(1f32.to_bits())
            .word(1003);
        let got = singles(&call.run(&program.kernel("affine").unwrap(), 5, 64, 0, 1));
        assert!(got.iter().zip(&input).all(|(got, x)| *got == x * 3.0 + 1.0), "{name}");
        let call = Call::new().floats(&input[..1000]).floats(&[1.0; 1000]).word(2f32.to_bits()).word(250);
        let got = singles(&call.run(&program.kernel("axpy4").unwrap(), 4, 64, 0, 1));
        assert!(got.iter().zip(&input).all(|(got, x)| *got == x * 2.0 + 1.0), "{name}");
    }
}

#[test]
fn the_largest_is_found_by_64_bit_keys() {
    let input: Vec<f32> = (0..777).map(|i| ((i * 7919) % 1009) as f32 - 500.0).collect();
    let largest = (0..777).rev().max_by(|a, b| input[*a].total_cmp(&input[*b])).unwrap();
    for (name, program) in programs("integers") {
        let call = Call::new().floats(&input).buffer(&[0]).word(777);
        let got = call.run(&program.kernel("largest").unwrap(), 1, 128, 1024, 1);
        assert_eq!(got, [largest as u32], "{name}");
    }
}

#[test]
fn library_functions_come_out_right() {
    let input: Vec<f32> = (1..65).map(|i| i as f32 * 0.07).collect();
    for (name, program) in programs("floats") {
        let call = Call::new().floats(&input).floats(&[0.0; 256]).buffer(&[0; 64]).word(64);
        let got = singles(&call.run(&program.kernel("singles").unwrap(), 2, 32, 0, 1));
        for (i, x) in input.iter().enumerate() {
            let v = f64::from(*x);
            let near = |got: f32, want: f64| (f64::from(got) - want).abs() <= want.abs() * 3e-6 + 1e-6;
            let first = v / (1.0 + (-v).exp()) + v.sqrt() + 1.0 / v + 1.0 / v.sqrt();
            assert!(near(got[i], first), "{name} {x}: {} {first}", got[i]);
            let second = v.trunc() + v.floor() + v.ceil() + v.round_ties_even() - v + v;
            assert!(near(got[64 + i], second), "{name} {x}: {} {second}", got[64 + i]);
            let third = v.exp2() + v.min(2.0) + v.clamp(0.0, 1.0) + v / 3.0;
            assert!(near(got[128 + i], third), "{name} {x}: {} {third}", got[128 + i]);
            let fourth = 1.0 / v + v.sqrt() + (v * v + v) + 2.0 * v + 3.0 * v;
            assert!(near(got[192 + i], fourth), "{name} {x}: {} {fourth}", got[192 + i]);
        }
    }
}

#[test]
fn bfloats_rotate() {
    let bits = |value: f32| u32::from(half::bf16::from_f32(value).to_bits());
    let input: Vec<u32> = (0..32).map(|i| bits(i as f32) | bits(-0.5 * i as f32) << 16).collect();
    let angles: Vec<f32> = (0..32).flat_map(|i| [(i as f32).cos(), (i as f32).sin()]).collect();
    for (name, program) in programs("halves") {
        let call = Call::new().buffer(&input).buffer(&[0; 32]).floats(&angles).word(32);
        let got = call.run(&program.kernel("rotate").unwrap(), 1, 32, 0, 1);
        for (i, pair) in got.iter().enumerate() {
            let (a, b) = (i as f32, -0.5 * i as f32);
            let (c, s) = (angles[2 * i], angles[2 * i + 1]);
            // Fused as NVRTC does: the second product is rounded, the first is not.
            let want = [(-b).mul_add(s, 0.0), b * c];
            let want = [a.mul_add(c, want[0]), a.mul_add(s, want[1])];
            for (half, want) in [(pair & 0xffff, want[0]), (pair >> 16, want[1])] {
                let got = half::bf16::from_bits(half as u16).to_f32();
                assert!((got - want).abs() <= want.abs() / 128.0 + 1e-6, "{name} {i}: {got} {want}");
            }
        }
    }
}

#[test]
fn switches_tables_and_local_arrays_work() {
    for (name, program) in programs("calls") {
        let y: Vec<u32> = (0..32u32).map(|i| i * 3 + 1).collect();
        for (k, at, want) in
            [(0, 0, 3), (2, 2, 66), (3, 0, 4), (5, 1, 31), (6, 3, 7u32.reverse_bits()), (9, 0, u32::MAX)]
        {
            let call = Call::new().buffer(&y).word(k);
            assert_eq!(call.run(&program.kernel("choose").unwrap(), 1, 1, 0, 0)[at], want, "{name} {k}");
        }
        let mut local: Vec<u32> = (0..32).map(|i| y[i as usize] * i).collect();
        for i in 0..32 {
            local[(i * 5) & 31] = local[(i * 5) & 31].wrapping_add(local[i]);
        }
        let call = Call::new().buffer(&y).word(5);
        assert_eq!(call.run(&program.kernel("scratch").unwrap(), 1, 1, 0, 0)[0], local[5], "{name}");
    }
}

#[test]
fn a_tiled_product_of_matrices_is_exact_on_integers() {
    let text = include_str!("../../../cuforge-oracle/kernels/ptx/gemm.ptx");
    let kernel = Program::load(&Module::parse(text).unwrap()).unwrap().kernel("gemm").unwrap();
    let (m, n, k) = (70usize, 65usize, 37usize);
    let a: Vec<f32> = (0..m * k).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
    let b: Vec<f32> = (0..k * n).map(|i| (i * 5 % 13) as f32 - 6.0).collect();
    let mut call = Call::new().floats(&a).floats(&b).floats(&vec![f32::NAN; m * n]);
    call = call.word(m as u32).word(n as u32).word(k as u32);
    let geometry = LaunchGeometry { grid: [2, 2, 1], block: [16, 16, 1], shared_bytes: 0 };
    let got = singles(&call.run_over(&kernel, &geometry, 2));
    for (at, got) in got.iter().enumerate() {
        let want: f32 = (0..k).map(|i| a[at / n * k + i] * b[i * n + at % n]).sum();
        assert_eq!(*got, want, "element {at}");
    }
}

#[test]
fn a_product_on_tensor_cores_is_exact_on_integers() {
    let value = |i: usize| ((i * 7 % 13) as f32) - 6.0;
    let halves = |of: &dyn Fn(usize) -> f32| -> Vec<u32> {
        let bits = |i| u32::from(half::f16::from_f32(of(i)).to_bits());
        (0..128).map(|i| bits(2 * i) | bits(2 * i + 1) << 16).collect()
    };
    for (name, program) in programs("matrix") {
        // A by rows, B by columns, the product by rows.
        let call = Call::new().buffer(&halves(&value)).buffer(&halves(&|i| value(i + 5))).floats(&[0.0; 256]);
        let got = singles(&call.run(&program.kernel("fragments").unwrap(), 1, 32, 0, 2));
        for (at, got) in got.iter().enumerate() {
            let (row, column) = (at / 16, at % 16);
            let want: f32 = (0..16).map(|k| value(row * 16 + k) * value(column * 16 + k + 5)).sum();
            assert_eq!(*got, want, "{name} element {at}");
        }
    }
}

#[test]
fn a_tile_goes_through_asynchronous_copies_and_matrix_loads() {
    let halves: Vec<u32> = (0..256u32)
        .map(|i| {
            let bits = |j: u32| u32::from(half::f16::from_f32((j * 5 % 9) as f32 - 4.0).to_bits());
            bits(2 * i) | bits(2 * i + 1) << 16
        })
        .collect();
    let element = |i: usize| (i * 5 % 9) as f32 - 4.0;
    for (name, program) in programs("copies") {
        let call = Call::new().buffer(&halves).floats(&[0.0; 128]);
        let got = singles(&call.run(&program.kernel("tile").unwrap(), 1, 32, 0, 1));
        // Rows of the four 8 x 8 matrices lie one after the other; B is what the first two hold, turned around.
        let a = |row: usize, column: usize| {
            let matrix = row / 8 + column / 8 * 2;
            element((matrix * 8 + row % 8) * 8 + column % 8)
        };
        let b = |k: usize, column: usize| element((k / 8 * 8 + k % 8) * 8 + column);
        for lane in 0..32 {
            for (index, (row, column)) in [(0, 0), (0, 1), (8, 0), (8, 1)]
                .map(|(r, c)| (lane / 4 + r, lane % 4 * 2 + c))
                .into_iter()
                .enumerate()
            {
                let want: f32 = (0..16).map(|k| a(row, k) * b(k, column)).sum();
                assert_eq!(got[lane * 4 + index], want, "{name} lane {lane} register {index}");
            }
        }
    }
}

/// What the tables do not know of all that NVRTC emits here: copies of tensors, textures, and calls of functions by
/// themselves.
#[test]
fn only_the_listed_families_are_unknown() {
    let mut unknown = BTreeSet::new();
    for source in [
        "calls",
        "copies",
        "exchange",
        "floats",
        "halves",
        "integers",
        "matrix",
        "reduction",
        "streaming",
        "textures",
    ] {
        for (_, program) in programs(source) {
            for name in program.kernel_names() {
                let kernel = program.kernel(&name).unwrap();
                unknown
                    .extend(kernel.unsupported().map(|(_, form)| form.split('.').next().unwrap().to_owned()));
                unknown.extend(
                    kernel.unsupported().filter(|(_, f)| f.starts_with("mov")).map(|(_, f)| f.to_owned()),
                );
            }
        }
    }
    let listed = ["call", "cp", "suld", "sust", "tex"];
    assert_eq!(unknown, listed.map(str::to_owned).into());
}
