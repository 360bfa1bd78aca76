//! A small transformer with made-up weights on a session: what one decode step launches, and where its bytes lie.

use cuforge::Session;
use cuforge::core::{
    Access, Arguments, BufferView, BuildOptions, DeclaredBlock, Element, Extent, KernelSpec, LaunchGeometry,
    Parameter, Request, Schedule,
};
use cuforge::launch::{BoundLaunch, LaunchError, Submit};
use std::error::Error;

const KERNELS: &str = include_str!("decode.ptx");

/// Sizes of the model.
const WIDTH: u32 = 256;
const HEADS: u32 = 4;
const HEAD: u32 = WIDTH / HEADS;
const HIDDEN: u32 = 512;
const LAYERS: u32 = 2;
const VOCABULARY: u32 = 1024;
/// Tokens that a sequence can have.
pub(crate) const CAPACITY: u32 = 256;

/// What the steps of one sequence share, and the launches of a step.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The tokens so far, and those to come.
    pub(crate) tokens: BufferView,
    /// The token that the last step picked: one word.
    pub(crate) picked: BufferView,
    /// Whether the loop on the device goes on: one word.
    pub(crate) go: BufferView,
    /// Sets the position; its value is the slot `position` of a captured step.
    place: BoundLaunch,
    /// The step itself.
    step: Vec<BoundLaunch>,
    /// On to the next position.
    advance: BoundLaunch,
}

impl Decoder {
    /// The model's weights and caches on the session's device, and the launches of a step. The loop on the device ends
    /// at position `last`.
    ///
    /// # Errors
    /// Those of the session.
    pub(crate) fn new(session: &mut Session, last: u32) -> Result<Self, Box<dyn Error>> {
        let mut make = Maker { session, seed: 0x9e37_79b9 };
        let tokens = make.buffer(CAPACITY * 4)?;
        let [position, picked, go] = [make.buffer(4)?, make.buffer(4)?, make.buffer(4)?];
        let table = make.floats(VOCABULARY * WIDTH, 1.0)?;
        let x = make.buffer(WIDTH * 4)?;
        let normed = make.buffer(WIDTH * 4)?;
        let qkv = make.buffer(3 * WIDTH * 4)?;
        let attended = make.buffer(WIDTH * 4)?;
        let both = make.buffer(2 * HIDDEN * 4)?;
        let gated = make.buffer(HIDDEN * 4)?;
        let logits = make.buffer(VOCABULARY * 4)?;

        let mut step =
            vec![make.launch("embed", &[x, table, tokens, position], &[WIDTH], 128, WIDTH / 128)?];
        for _ in 0..LAYERS {
            let (norm, after) = (make.ones(WIDTH)?, make.ones(WIDTH)?);
            let (keys, values) = (make.buffer(CAPACITY * WIDTH * 4)?, make.buffer(CAPACITY * WIDTH * 4)?);
            let wqkv = make.matrix(3 * WIDTH, WIDTH)?;
            let wo = make.matrix(WIDTH, WIDTH)?;
            let (up, down) = (make.matrix(2 * HIDDEN, WIDTH)?, make.matrix(WIDTH, HIDDEN)?);
            step.push(make.launch("rms_norm", &[normed, x, norm], &[WIDTH], 256, 1)?);
            step.push(make.product(qkv, &wqkv, normed, false)?);
            let cached = [attended, keys, values, qkv, position];
            step.push(make.launch("attend", &cached, &[HEADS, CAPACITY], HEAD, HEADS)?);
            step.push(make.product(x, &wo, attended, true)?);
            step.push(make.launch("rms_norm", &[normed, x, after], &[WIDTH], 256, 1)?);
            step.push(make.product(both, &up, normed, false)?);
            step.push(make.launch("gate", &[gated, both], &[HIDDEN], 128, HIDDEN / 128)?);
            step.push(make.product(x, &down, gated, true)?);
        }
        let (norm, head) = (make.ones(WIDTH)?, make.matrix(VOCABULARY, WIDTH)?);
        step.push(make.launch("rms_norm", &[normed, x, norm], &[WIDTH], 256, 1)?);
        step.push(make.product(logits, &head, normed, false)?);
        step.push(make.launch("pick", &[tokens, logits, position], &[VOCABULARY, CAPACITY], 256, 1)?);
        step.push(make.launch("picked", &[picked, tokens, position], &[CAPACITY], 1, 1)?);
        let place = make.launch("place", &[position], &[0], 1, 1)?;
        let advance = make.launch("advance", &[position, go], &[last], 1, 1)?;
        Ok(Self { tokens, picked, go, place, step, advance })
    }

    /// Launches that set the position: it is the argument `position` of the first.
    ///
    /// # Errors
    /// Those of a launch.
    pub(crate) fn place(&mut self, on: &mut impl Submit, position: u32) -> Result<(), LaunchError> {
        self.place.set_values(&position.to_le_bytes())?;
        self.place.launch(on)
    }

    /// The step at the position that the word says: the same launches for a stream and for a capture.
    ///
    /// # Errors
    /// Those of a launch.
    pub(crate) fn step(&mut self, on: &mut impl Submit) -> Result<(), LaunchError> {
        self.step.iter_mut().try_for_each(|launch| launch.launch(on))
    }

    /// On to the next position, and whether there is one more to do.
    ///
    /// # Errors
    /// Those of a launch.
    pub(crate) fn advance(&mut self, on: &mut impl Submit) -> Result<(), LaunchError> {
        self.advance.launch(on)
    }
}

/// Weights in 8-bit integers, a row at a time, with a scale for each row.
struct Matrix {
    weights: BufferView,
    scales: BufferView,
    rows: u32,
    columns: u32,
}

struct Maker<'s> {
    session: &'s mut Session,
    seed: u32,
}

impl Maker<'_> {
    /// A made-up number between -1 and 1, the same in every run.
    fn next(&mut self) -> f32 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 17;
        self.seed ^= self.seed << 5;
        (self.seed >> 8) as f32 / 8_388_608.0 - 1.0
    }

    fn buffer(&mut self, bytes: u32) -> Result<BufferView, Box<dyn Error>> {
        Ok(self.session.allocate(&Request::new(u64::from(bytes)))?)
    }

    fn floats(&mut self, count: u32, scale: f32) -> Result<BufferView, Box<dyn Error>> {
        let view = self.buffer(count * 4)?;
        let values: Vec<f32> = (0..count).map(|_| self.next() * scale).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.session.write(&view, &bytes)?;
        Ok(view)
    }

    fn ones(&mut self, count: u32) -> Result<BufferView, Box<dyn Error>> {
        let view = self.buffer(count * 4)?;
        let bytes: Vec<u8> = (0..count).flat_map(|_| 1f32.to_le_bytes()).collect();
        self.session.write(&view, &bytes)?;
        Ok(view)
    }

    fn matrix(&mut self, rows: u32, columns: u32) -> Result<Matrix, Box<dyn Error>> {
        let (weights, scales) = (self.buffer(rows * columns)?, self.buffer(rows * 4)?);
        let bytes: Vec<u8> = (0..rows * columns).map(|_| (self.next() * 127.0) as i8 as u8).collect();
        self.session.write(&weights, &bytes)?;
        // So that a product is about as large as what it is made of.
        let scale = 1.7 / (127.0 * (columns as f32).sqrt());
        let bytes: Vec<u8> = (0..rows).flat_map(|_| scale.to_le_bytes()).collect();
        self.session.write(&scales, &bytes)?;
        Ok(Matrix { weights, scales, rows, columns })
    }

    fn product(
        &mut self,
        out: BufferView,
        matrix: &Matrix,
        x: BufferView,
        add: bool,
    ) -> Result<BoundLaunch, Box<dyn Error>> {
        let views = [out, matrix.weights, matrix.scales, x];
        self.launch("matvec", &views, &[matrix.columns, u32::from(add)], 128, matrix.rows)
    }

    /// A kernel over views in the order of its pointers, then words.
    fn launch(
        &mut self,
        entry: &'static str,
        views: &[BufferView],
        words: &[u32],
        threads: u32,
        blocks: u32,
    ) -> Result<BoundLaunch, Box<dyn Error>> {
        let access = Access::StorageReadWrite;
        let buffers = (0u32..).zip(views).map(|(at, _)| {
            // Bytes are whole for every view, and alignment comes from the slab.
            Parameter::buffer(format!("buffer {at}"), at, Element::U8, access)
        });
        let names: &[&'static str] = match entry {
            "place" => &["position"],
            _ => &["first", "second"],
        };
        let scalars = words.iter().zip(names).map(|(_, name)| Parameter::scalar(*name, Element::U32));
        let block = DeclaredBlock { workgroup_size: [threads, 1, 1], items_per_invocation: 1 };
        // SAFETY: with the sizes that this file gives them, the kernels stay inside the buffers that it binds.
        let spec = unsafe { KernelSpec::ptx(entry, entry, KERNELS, buffers.chain(scalars).collect()) };
        let spec = spec.with_declared_blocks(vec![block]);
        let schedule = Schedule::new([threads, 1, 1]);
        let pipeline = self.session.prepare(&spec, &schedule, &BuildOptions::default())?;
        let bound: Vec<BufferView> =
            (0u32..).zip(views).map(|(at, view)| view.bound_to(0, at, access)).collect::<Result<_, _>>()?;
        let by_value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let geometry = LaunchGeometry { grid: [blocks, 1, 1], block: [threads, 1, 1], shared_bytes: 0 };
        let arguments = Arguments { views: &bound, by_value: &by_value };
        Ok(self.session.bind(&pipeline, arguments, Extent::Geometry(geometry))?)
    }
}
