//! Random kernels as trees: one value an element, and how the values of a block come together.

use serde::{Deserialize, Serialize};

/// What a program's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Values {
    /// `f32`, judged within bounds.
    Floats,
    /// `u32` with wrapping arithmetic, judged to the bit.
    Integers,
}

/// One value of an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Node {
    /// Element `(i + shift) % n` of an input.
    Input {
        /// Which of the program's inputs.
        input: u8,
        /// How far from the own element.
        shift: u32,
    },
    /// A scalar parameter.
    Scalar(u8),
    /// A literal: exact in `f32`, or an integer of 16 bits.
    Literal(i32),
    /// `i % 64`.
    Index,
    /// One operand.
    Unary(Unary, Box<Node>),
    /// Two operands.
    Binary(Binary, Box<Node>, Box<Node>),
    /// `a * b + c`, fused where that is said.
    MulAdd {
        /// The factors and the addend.
        operands: Box<[Node; 3]>,
        /// A single rounding, by `fmaf`.
        fused: bool,
    },
    /// One of two, by whether an element of an input is below a literal: something that no rounding can decide
    /// otherwise.
    Select {
        /// Which of the program's inputs.
        input: u8,
        /// What its element is compared with.
        below: i32,
        /// The value if it is below, and the value if not.
        either: Box<[Node; 2]>,
    },
}

/// Operations on one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unary {
    /// `-x`.
    Negate,
    /// `|x|`; floats only.
    Magnitude,
    /// `sqrt(1 + |x|)`; floats only.
    Root,
    /// `2^min(max(x, -8), 8)`; floats only.
    Power,
    /// All bits turned; integers only.
    Not,
    /// How many bits are set; integers only.
    CountOnes,
}

/// Operations on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`.
    Multiply,
    /// The larger.
    Maximum,
    /// The smaller.
    Minimum,
    /// `a / (1 + |b|)` of floats, `a / (b | 1)` of integers.
    Divide,
    /// Bits of both; integers only.
    And,
    /// Bits of one alone; integers only.
    Xor,
    /// `a << (b & 31)`; integers only.
    ShiftLeft,
    /// `a >> (b & 31)`; integers only.
    ShiftRight,
}

impl Unary {
    /// Those that the values have.
    pub(crate) const fn all(values: Values) -> &'static [Self] {
        match values {
            Values::Floats => &[Self::Negate, Self::Magnitude, Self::Root, Self::Power],
            Values::Integers => &[Self::Negate, Self::Not, Self::CountOnes],
        }
    }
}

impl Binary {
    /// Those that the values have.
    pub(crate) const fn all(values: Values) -> &'static [Self] {
        use Binary::{Add, And, Divide, Maximum, Minimum, Multiply, ShiftLeft, ShiftRight, Subtract, Xor};
        match values {
            Values::Floats => &[Add, Subtract, Multiply, Maximum, Minimum, Divide],
            Values::Integers => {
                &[Add, Subtract, Multiply, Maximum, Minimum, Divide, And, Xor, ShiftLeft, ShiftRight]
            }
        }
    }
}

/// How the values of a block come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Each element is stored.
    Store,
    /// The sum of each block's values, by a tree through shared memory; one element a block.
    BlockSum,
    /// The maximum of each block's values, likewise.
    BlockMaximum,
    /// Each value plus that of the thread so many places further in its block, around its end; values beyond the last
    /// element are zero.
    Exchange(u32),
    /// Each value plus that of the lane whose number differs in these bits; values beyond the last element are zero.
    Butterfly(u32),
}

/// A random kernel: `y` from `x0`, `x1`, .. and scalars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// What its values are.
    pub values: Values,
    /// How many inputs it has, at least 1.
    pub inputs: u8,
    /// Its scalars: `f32` as they stand, or integers.
    pub scalars: Vec<i32>,
    /// The value of each element.
    pub root: Node,
    /// What becomes of the values.
    pub ending: Ending,
}

impl Program {
    /// How many nodes its tree has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.root.size()
    }

    /// Whether it ends with one element a block.
    pub(crate) const fn reduces(&self) -> bool {
        matches!(self.ending, Ending::BlockSum | Ending::BlockMaximum)
    }
}

impl Node {
    /// Its operands.
    pub(crate) fn operands(&self) -> Vec<&Self> {
        match self {
            Self::Input { .. } | Self::Scalar(_) | Self::Literal(_) | Self::Index => Vec::new(),
            Self::Unary(_, operand) => vec![operand],
            Self::Binary(_, left, right) => vec![left, right],
            Self::MulAdd { operands, .. } => operands.iter().collect(),
            Self::Select { either, .. } => either.iter().collect(),
        }
    }

    pub(crate) fn operands_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::Input { .. } | Self::Scalar(_) | Self::Literal(_) | Self::Index => Vec::new(),
            Self::Unary(_, operand) => vec![operand],
            Self::Binary(_, left, right) => vec![left, right],
            Self::MulAdd { operands, .. } => operands.iter_mut().collect(),
            Self::Select { either, .. } => either.iter_mut().collect(),
        }
    }

    fn size(&self) -> usize {
        1 + self.operands().into_iter().map(Self::size).sum::<usize>()
    }
}

impl Program {
    /// Whether it refers only to inputs, scalars and places that there are, by operations that its values have.
    pub(crate) fn is_consistent(&self, threads: u32) -> bool {
        let together = match self.ending {
            Ending::Store | Ending::BlockSum | Ending::BlockMaximum => true,
            Ending::Exchange(places) => (1..threads).contains(&places),
            Ending::Butterfly(mask) => (1..32).contains(&mask),
        };
        together && self.is_known(&self.root)
    }

    fn is_known(&self, tree: &Node) -> bool {
        let own = match tree {
            Node::Input { input, .. } | Node::Select { input, .. } => *input < self.inputs,
            Node::Scalar(scalar) => usize::from(*scalar) < self.scalars.len(),
            Node::Unary(operation, _) => Unary::all(self.values).contains(operation),
            Node::Binary(operation, ..) => Binary::all(self.values).contains(operation),
            Node::Literal(_) | Node::Index | Node::MulAdd { .. } => true,
        };
        own && tree.operands().into_iter().all(|operand| self.is_known(operand))
    }
}
