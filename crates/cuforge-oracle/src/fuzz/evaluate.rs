//! A program as its own reference: evaluated over any real number, or over integers to the bit.

use super::program::{Binary, Ending, Node, Program, Unary, Values};
use crate::error::OracleError;
use crate::real::{Real, Summation};
use crate::reference::{Evaluation, Reference};

/// A program over so many threads a block.
pub(crate) struct ProgramReference {
    pub(crate) program: Program,
    pub(crate) threads: usize,
}

impl Reference for ProgramReference {
    fn evaluate<R: Real>(&self, run: &mut Evaluation<'_, R>) -> Result<(), OracleError> {
        let program = &self.program;
        let names: Vec<String> = (0..program.inputs).map(|input| format!("x{input}")).collect();
        let elements = run.elements(&names[0])?;
        match program.values {
            Values::Floats => {
                let inputs = names.iter().map(|name| run.reals(name)).collect::<Result<Vec<_>, _>>()?;
                let scalars = program.scalars.iter().map(|scalar| run.exact(f64::from(*scalar))).collect();
                let exact = |value: i32| R::constant(f64::from(value));
                let of = Floats { inputs, scalars, exact: &exact };
                let values: Vec<R> = (0..elements).map(|index| of.value(&program.root, index)).collect();
                let stored = self.end(
                    &values,
                    R::zero(),
                    |a, b| a + b,
                    R::max,
                    |tile| R::sum_in(Summation::AnyOrder, tile.iter().copied()),
                );
                run.store("y", stored)
            }
            Values::Integers => {
                let read = |name: &String| {
                    let values = run.integers(name)?;
                    Ok::<_, OracleError>(values.into_iter().map(|value| value as u32).collect())
                };
                let inputs = names.iter().map(read).collect::<Result<Vec<Vec<u32>>, _>>()?;
                let of = Integers { inputs, scalars: program.scalars.iter().map(|s| *s as u32).collect() };
                let values: Vec<u32> = (0..elements).map(|index| of.value(&program.root, index)).collect();
                let stored = self.end(&values, 0, u32::wrapping_add, u32::max, |tile| {
                    tile.iter().fold(0, |sum: u32, value| sum.wrapping_add(*value))
                });
                run.store_exact("y", stored)
            }
        }
    }
}

impl ProgramReference {
    /// How the values of each block come together. Threads beyond the last element hold `zero`.
    fn end<T: Copy>(
        &self,
        values: &[T],
        zero: T,
        add: fn(T, T) -> T,
        max: fn(T, T) -> T,
        sum: impl Fn(&[T]) -> T,
    ) -> Vec<T> {
        let mut stored = Vec::with_capacity(values.len());
        for block in values.chunks(self.threads) {
            let mut tile = block.to_vec();
            tile.resize(self.threads, zero);
            let other = |place: usize, partner: usize| add(tile[place], tile[partner]);
            match self.program.ending {
                Ending::Store => stored.extend_from_slice(block),
                Ending::BlockSum => stored.push(sum(&tile)),
                Ending::BlockMaximum => stored.push(tile.iter().copied().fold(tile[0], max)),
                Ending::Exchange(places) => stored.extend(
                    (0..block.len()).map(|place| other(place, (place + places as usize) % self.threads)),
                ),
                Ending::Butterfly(mask) => {
                    stored.extend((0..block.len()).map(|place| other(place, place ^ mask as usize)));
                }
            }
        }
        stored
    }
}

struct Floats<'a, R> {
    inputs: Vec<Vec<R>>,
    scalars: Vec<R>,
    exact: &'a dyn Fn(i32) -> R,
}

impl<R: Real> Floats<'_, R> {
    fn value(&self, tree: &Node, index: usize) -> R {
        match tree {
            Node::Input { input, shift } => {
                let input = &self.inputs[*input as usize];
                input[(index + *shift as usize) % input.len()]
            }
            Node::Scalar(scalar) => self.scalars[*scalar as usize],
            Node::Literal(value) => (self.exact)(*value),
            Node::Index => (self.exact)((index % 64) as i32),
            Node::Unary(operation, operand) => {
                let x = self.value(operand, index);
                match operation {
                    Unary::Negate => -x,
                    Unary::Magnitude => x.abs(),
                    Unary::Root => (R::one() + x.abs()).sqrt(),
                    Unary::Power => x.max(R::constant(-8.0)).min(R::constant(8.0)).exp2(),
                    // Bits have no meaning here; no program of floats has them.
                    Unary::Not | Unary::CountOnes => x,
                }
            }
            Node::Binary(operation, left, right) => {
                let (a, b) = (self.value(left, index), self.value(right, index));
                match operation {
                    Binary::Add => a + b,
                    Binary::Subtract => a - b,
                    Binary::Multiply => a * b,
                    Binary::Maximum => a.max(b),
                    Binary::Minimum => a.min(b),
                    Binary::Divide => a / (R::one() + b.abs()),
                    Binary::And | Binary::Xor | Binary::ShiftLeft | Binary::ShiftRight => a,
                }
            }
            Node::MulAdd { operands, fused } => {
                let [a, b, c] = operands.each_ref().map(|operand| self.value(operand, index));
                if *fused { a.mul_add(b, c) } else { a * b + c }
            }
            Node::Select { input, below, either } => {
                let element = self.inputs[*input as usize][index];
                let [yes, no] = &**either;
                self.value(if element.is_less((self.exact)(*below)) { yes } else { no }, index)
            }
        }
    }
}

struct Integers {
    inputs: Vec<Vec<u32>>,
    scalars: Vec<u32>,
}

impl Integers {
    fn value(&self, tree: &Node, index: usize) -> u32 {
        match tree {
            Node::Input { input, shift } => {
                let input = &self.inputs[*input as usize];
                input[(index + *shift as usize) % input.len()]
            }
            Node::Scalar(scalar) => self.scalars[*scalar as usize],
            Node::Literal(value) => *value as u32,
            Node::Index => (index % 64) as u32,
            Node::Unary(operation, operand) => {
                let x = self.value(operand, index);
                match operation {
                    Unary::Negate => x.wrapping_neg(),
                    Unary::Not => !x,
                    Unary::CountOnes => x.count_ones(),
                    // No program of integers has these.
                    Unary::Magnitude | Unary::Root | Unary::Power => x,
                }
            }
            Node::Binary(operation, left, right) => {
                let (a, b) = (self.value(left, index), self.value(right, index));
                match operation {
                    Binary::Add => a.wrapping_add(b),
                    Binary::Subtract => a.wrapping_sub(b),
                    Binary::Multiply => a.wrapping_mul(b),
                    Binary::Maximum => a.max(b),
                    Binary::Minimum => a.min(b),
                    Binary::Divide => a / (b | 1),
                    Binary::And => a & b,
                    Binary::Xor => a ^ b,
                    Binary::ShiftLeft => a << (b & 31),
                    Binary::ShiftRight => a >> (b & 31),
                }
            }
            Node::MulAdd { operands, .. } => {
                let [a, b, c] = operands.each_ref().map(|operand| self.value(operand, index));
                a.wrapping_mul(b).wrapping_add(c)
            }
            Node::Select { input, below, either } => {
                let element = self.inputs[*input as usize][index];
                let [yes, no] = &**either;
                self.value(if element < *below as u32 { yes } else { no }, index)
            }
        }
    }
}
