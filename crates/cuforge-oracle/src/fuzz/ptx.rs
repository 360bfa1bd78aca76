//! Prints a program as PTX: one register a value, no optimisation, so that it differs from what a compiler makes of the
//! CUDA C.

use std::fmt::Write as _;

use super::program::{Binary, Ending, Node, Program, Unary, Values};

/// The kernel `fuzz` for blocks of so many threads, a power of two.
pub(crate) fn print(program: &Program, threads: u32) -> String {
    let mut printer = Printer {
        values: program.values,
        body: String::new(),
        registers: 0,
        words: 0,
        longs: 0,
        predicates: 0,
    };
    printer.kernel(program, threads);
    let (kind, width) = printer.types();
    let mut parameters = Vec::new();
    parameters.extend((0..=program.inputs).map(|index| format!(".param .u64 p{index}")));
    parameters.push(".param .u32 count".to_owned());
    parameters.extend((0..program.scalars.len()).map(|index| format!(".param {width} s{index}")));
    format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\n.visible .entry fuzz(\n    {}\n)\n{{\n\
         .reg .pred %p<{}>;\n.reg {kind} %v<{}>;\n.reg .b32 %r<{}>;\n.reg .b64 %d<{}>;\n\
         .shared .align 4 .b8 tile[{}];\n{}ret;\n}}\n",
        parameters.join(",\n    "),
        printer.predicates + 1,
        printer.registers + 1,
        printer.words + 1,
        printer.longs + 1,
        4 * threads,
        printer.body
    )
}

struct Printer {
    values: Values,
    body: String,
    /// Values, 32-bit words, addresses and predicates used so far.
    registers: u32,
    words: u32,
    longs: u32,
    predicates: u32,
}

impl Printer {
    const fn floats(&self) -> bool {
        matches!(self.values, Values::Floats)
    }

    /// The register type and the parameter type of a value.
    const fn types(&self) -> (&'static str, &'static str) {
        if self.floats() { (".f32", ".f32") } else { (".b32", ".u32") }
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "{text}");
    }

    fn value(&mut self) -> String {
        self.registers += 1;
        format!("%v{}", self.registers)
    }

    fn word(&mut self) -> String {
        self.words += 1;
        format!("%r{}", self.words)
    }

    fn long(&mut self) -> String {
        self.longs += 1;
        format!("%d{}", self.longs)
    }

    fn predicate(&mut self) -> String {
        self.predicates += 1;
        format!("%p{}", self.predicates)
    }

    /// A value made by one instruction.
    fn make(&mut self, operation: &str, operands: &str) -> String {
        let to = self.value();
        self.line(&format!("{operation} {to}, {operands};"));
        to
    }

    fn word_of(&mut self, operation: &str, operands: &str) -> String {
        let to = self.word();
        self.line(&format!("{operation} {to}, {operands};"));
        to
    }

    fn kernel(&mut self, program: &Program, threads: u32) {
        let zero = self.zero();
        let thread = self.word_of("mov.u32", "%tid.x");
        let block = self.word_of("mov.u32", "%ctaid.x");
        let index = self.word_of("mad.lo.u32", &format!("{block}, {threads}, {thread}"));
        let count = self.word_of("ld.param.u32", "[count]");
        let outside = self.predicate();
        self.line(&format!("setp.ge.u32 {outside}, {index}, {count};"));
        let result = self.make(if self.floats() { "mov.f32" } else { "mov.b32" }, &zero);
        self.line(&format!("@{outside} bra $JOIN;"));
        let value = self.node(&program.root, &index, &count);
        let moved = if self.floats() { "mov.f32" } else { "mov.b32" };
        self.line(&format!("{moved} {result}, {value};"));
        self.line("$JOIN:");
        let stored = self.ending(program, threads, &result, &thread);
        let (at, guard) = if program.reduces() {
            let other = self.predicate();
            self.line(&format!("setp.ne.u32 {other}, {thread}, 0;"));
            (block, other)
        } else {
            (index, outside)
        };
        self.line(&format!("@{guard} bra $DONE;"));
        let address = self.address(program.inputs, &at);
        let store = if self.floats() { "st.global.f32" } else { "st.global.u32" };
        self.line(&format!("{store} [{address}], {stored};"));
        self.line("$DONE:");
    }

    const fn zero_text(&self) -> &'static str {
        if self.floats() { "0f00000000" } else { "0" }
    }

    fn zero(&self) -> String {
        self.zero_text().to_owned()
    }

    /// The address of an element of a buffer, by the number of its parameter.
    fn address(&mut self, parameter: u8, element: &str) -> String {
        let base = self.long();
        self.line(&format!("ld.param.u64 {base}, [p{parameter}];"));
        let global = self.long();
        self.line(&format!("cvta.to.global.u64 {global}, {base};"));
        let address = self.long();
        self.line(&format!("mad.wide.u32 {address}, {element}, 4, {global};"));
        address
    }

    /// What a thread holds once the values of the block have come together.
    fn ending(&mut self, program: &Program, threads: u32, value: &str, thread: &str) -> String {
        let add = if self.floats() { "add.rn.f32" } else { "add.u32" };
        let max = if self.floats() { "max.f32" } else { "max.u32" };
        match program.ending {
            Ending::Store => value.to_owned(),
            Ending::Butterfly(mask) => {
                let own = self.word_of("mov.b32", value);
                let other = self.word_of("shfl.sync.bfly.b32", &format!("{own}, {mask}, 31, -1"));
                let other = self.make("mov.b32", &other);
                self.make(add, &format!("{value}, {other}"))
            }
            Ending::Exchange(places) => {
                let tile = self.share(value, thread);
                let place = self.word_of("add.u32", &format!("{thread}, {places}"));
                let place = self.word_of("rem.u32", &format!("{place}, {threads}"));
                let other = self.word_of("mad.lo.u32", &format!("{place}, 4, {}", tile.1));
                let other = self.load_shared(&other, 0);
                self.make(add, &format!("{value}, {other}"))
            }
            Ending::BlockSum | Ending::BlockMaximum => {
                let (own, _) = self.share(value, thread);
                let combine = if program.ending == Ending::BlockSum { add } else { max };
                let mut half = threads / 2;
                while half > 0 {
                    let idle = self.predicate();
                    self.line(&format!("setp.ge.u32 {idle}, {thread}, {half};"));
                    self.line(&format!("@{idle} bra $HALF{half};"));
                    let (left, right) = (self.load_shared(&own, 0), self.load_shared(&own, 4 * half));
                    let both = self.make(combine, &format!("{left}, {right}"));
                    self.store_shared(&own, &both);
                    self.line(&format!("$HALF{half}:\nbar.sync 0;"));
                    half /= 2;
                }
                self.load_shared(&own, 0)
            }
        }
    }

    /// Puts the value into shared memory and waits for all others; the addresses of the own place and of the first.
    fn share(&mut self, value: &str, thread: &str) -> (String, String) {
        let first = self.word_of("mov.u32", "tile");
        let own = self.word_of("mad.lo.u32", &format!("{thread}, 4, {first}"));
        self.store_shared(&own, value);
        self.line("bar.sync 0;");
        (own, first)
    }

    fn load_shared(&mut self, address: &str, offset: u32) -> String {
        let load = if self.floats() { "ld.shared.f32" } else { "ld.shared.u32" };
        self.make(load, &format!("[{address}+{offset}]"))
    }

    fn store_shared(&mut self, address: &str, value: &str) {
        let store = if self.floats() { "st.shared.f32" } else { "st.shared.u32" };
        self.line(&format!("{store} [{address}], {value};"));
    }

    fn node(&mut self, tree: &Node, index: &str, count: &str) -> String {
        match tree {
            Node::Input { input, shift } => {
                let element = if *shift == 0 {
                    index.to_owned()
                } else {
                    let sum = self.word_of("add.u32", &format!("{index}, {shift}"));
                    self.word_of("rem.u32", &format!("{sum}, {count}"))
                };
                let address = self.address(*input, &element);
                let load = if self.floats() { "ld.global.f32" } else { "ld.global.u32" };
                self.make(load, &format!("[{address}]"))
            }
            Node::Scalar(scalar) => {
                let load = if self.floats() { "ld.param.f32" } else { "ld.param.u32" };
                self.make(load, &format!("[s{scalar}]"))
            }
            Node::Literal(value) => {
                let literal = self.literal(*value);
                self.make(if self.floats() { "mov.f32" } else { "mov.b32" }, &literal)
            }
            Node::Index => {
                let low = self.word_of("and.b32", &format!("{index}, 63"));
                self.make(if self.floats() { "cvt.rn.f32.u32" } else { "mov.b32" }, &low)
            }
            Node::Unary(operation, operand) => {
                let x = self.node(operand, index, count);
                self.unary(*operation, &x)
            }
            Node::Binary(operation, left, right) => {
                let (a, b) = (self.node(left, index, count), self.node(right, index, count));
                self.binary(*operation, &a, &b)
            }
            Node::MulAdd { operands, fused } => {
                let [a, b, c] = operands.each_ref().map(|operand| self.node(operand, index, count));
                if !self.floats() {
                    return self.make("mad.lo.u32", &format!("{a}, {b}, {c}"));
                }
                if *fused {
                    return self.make("fma.rn.f32", &format!("{a}, {b}, {c}"));
                }
                let product = self.make("mul.rn.f32", &format!("{a}, {b}"));
                self.make("add.rn.f32", &format!("{product}, {c}"))
            }
            Node::Select { input, below, either } => {
                let [yes, no] = either.each_ref().map(|operand| self.node(operand, index, count));
                let element = self.node(&Node::Input { input: *input, shift: 0 }, index, count);
                let (is_below, limit) = (self.predicate(), self.literal(*below));
                let compare = if self.floats() { "setp.lt.f32" } else { "setp.lt.u32" };
                self.line(&format!("{compare} {is_below}, {element}, {limit};"));
                let select = if self.floats() { "selp.f32" } else { "selp.b32" };
                self.make(select, &format!("{yes}, {no}, {is_below}"))
            }
        }
    }

    fn unary(&mut self, operation: Unary, x: &str) -> String {
        match operation {
            Unary::Negate => self.make(if self.floats() { "neg.f32" } else { "neg.s32" }, x),
            Unary::Magnitude => self.make("abs.f32", x),
            Unary::Root => {
                let sum = self.one_plus_magnitude(x);
                self.make("sqrt.rn.f32", &sum)
            }
            Unary::Power => {
                let low = self.make("max.f32", &format!("{x}, 0fC1000000"));
                let clamped = self.make("min.f32", &format!("{low}, 0f41000000"));
                self.make("ex2.approx.ftz.f32", &clamped)
            }
            Unary::Not => self.make("not.b32", x),
            Unary::CountOnes => self.make("popc.b32", x),
        }
    }

    fn binary(&mut self, operation: Binary, a: &str, b: &str) -> String {
        let both = format!("{a}, {b}");
        match (operation, self.floats()) {
            (Binary::Add, true) => self.make("add.rn.f32", &both),
            (Binary::Subtract, true) => self.make("sub.rn.f32", &both),
            (Binary::Multiply, true) => self.make("mul.rn.f32", &both),
            (Binary::Maximum, true) => self.make("max.f32", &both),
            (Binary::Minimum, true) => self.make("min.f32", &both),
            (Binary::Divide, true) => {
                let divisor = self.one_plus_magnitude(b);
                self.make("div.rn.f32", &format!("{a}, {divisor}"))
            }
            (Binary::Add, false) => self.make("add.u32", &both),
            (Binary::Subtract, false) => self.make("sub.u32", &both),
            (Binary::Multiply, false) => self.make("mul.lo.u32", &both),
            (Binary::Maximum, false) => self.make("max.u32", &both),
            (Binary::Minimum, false) => self.make("min.u32", &both),
            (Binary::Divide, false) => {
                let odd = self.make("or.b32", &format!("{b}, 1"));
                self.make("div.u32", &format!("{a}, {odd}"))
            }
            (Binary::And, _) => self.make("and.b32", &both),
            (Binary::Xor, _) => self.make("xor.b32", &both),
            (Binary::ShiftLeft, _) => {
                let places = self.make("and.b32", &format!("{b}, 31"));
                self.make("shl.b32", &format!("{a}, {places}"))
            }
            (Binary::ShiftRight, _) => {
                let places = self.make("and.b32", &format!("{b}, 31"));
                self.make("shr.u32", &format!("{a}, {places}"))
            }
        }
    }

    fn one_plus_magnitude(&mut self, x: &str) -> String {
        let magnitude = self.make("abs.f32", x);
        self.make("add.rn.f32", &format!("{magnitude}, 0f3F800000"))
    }

    fn literal(&self, value: i32) -> String {
        if self.floats() { format!("0f{:08X}", (value as f32).to_bits()) } else { (value as u32).to_string() }
    }
}
