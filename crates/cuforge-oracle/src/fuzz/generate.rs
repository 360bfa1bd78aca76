//! Makes random programs: small, bounded, and defined for every input they may get.

use super::case::FuzzCase;
use super::program::{Binary, Ending, Node, Program, Unary, Values};
use crate::random::Random;

impl FuzzCase {
    /// The case of that number under a seed.
    #[must_use]
    pub fn generate(seed: u64, number: u64) -> Self {
        let mut random = Random::stream(seed, &format!("fuzz {number}"));
        let values = if random.below(3) == 0 { Values::Integers } else { Values::Floats };
        let inputs = 1 + random.below(3) as u8;
        let scalars = (0..random.below(3)).map(|_| small(&mut random, values)).collect::<Vec<_>>();
        let depth = 1 + random.below(5) as u32;
        let mut maker = Maker { random: &mut random, values, inputs, scalars: scalars.len() as u8 };
        let root = maker.node(depth);
        let threads = 32 << random.below(5);
        let ending = match random.below(7) {
            0 => Ending::BlockSum,
            1 => Ending::BlockMaximum,
            2 => Ending::Exchange(1 + random.below(u64::from(threads) - 1) as u32),
            3 => Ending::Butterfly(1 + random.below(31) as u32),
            _ => Ending::Store,
        };
        // Around the block's edges, where guards go wrong, or anywhere up to a few blocks.
        let elements = match random.below(4) {
            0 => (threads * (1 + random.below(4) as u32)).saturating_add_signed(random.below(3) as i32 - 1),
            1 => 1 + random.below(8) as u32,
            _ => 1 + random.below(1500) as u32,
        };
        let program = Program { values, inputs, scalars, root, ending };
        Self { program, elements: elements.max(1), threads, seed: random.next_u64() >> 12, span: 2 }
    }
}

fn small(random: &mut Random, values: Values) -> i32 {
    match values {
        Values::Floats => random.below(9) as i32 - 4,
        Values::Integers => random.below(1 << 16) as i32,
    }
}

struct Maker<'a> {
    random: &'a mut Random,
    values: Values,
    inputs: u8,
    scalars: u8,
}

impl Maker<'_> {
    fn node(&mut self, depth: u32) -> Node {
        if depth == 0 || self.random.below(8) == 0 {
            return self.leaf();
        }
        match self.random.below(10) {
            0 | 1 => {
                let operation = self.pick(Unary::all(self.values));
                Node::Unary(operation, Box::new(self.node(depth - 1)))
            }
            2 => {
                let operands = [self.node(depth - 1), self.node(depth - 1), self.node(depth - 1)];
                Node::MulAdd { operands: Box::new(operands), fused: self.random.below(2) == 0 }
            }
            3 => {
                let either = [self.node(depth - 1), self.node(depth - 1)];
                let below = if self.values == Values::Floats {
                    self.random.below(3) as i32 - 1
                } else {
                    1 << (16 + self.random.below(14))
                };
                Node::Select { input: self.input(), below, either: Box::new(either) }
            }
            _ => {
                let operation = self.pick(Binary::all(self.values));
                Node::Binary(operation, Box::new(self.node(depth - 1)), Box::new(self.node(depth - 1)))
            }
        }
    }

    fn leaf(&mut self) -> Node {
        match self.random.below(8) {
            0 => Node::Literal(small(self.random, self.values)),
            1 => Node::Index,
            2 if self.scalars > 0 => Node::Scalar(self.random.below(self.scalars.into()) as u8),
            3 => Node::Input { input: self.input(), shift: 1 + self.random.below(70) as u32 },
            _ => Node::Input { input: self.input(), shift: 0 },
        }
    }

    fn input(&mut self) -> u8 {
        self.random.below(self.inputs.into()) as u8
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len() as u64) as usize]
    }
}
