//! Matrix instructions of a warp: `mma`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`.

use crate::decode::memory::{Manner, matrix_access};
use crate::decode::scope::Names;
use crate::decode::words::{Decoded, Unknown, Words};
use crate::form::{Access, AddressBase, Load, LoadTarget, Op, R32, Reg, Space, Store};
use crate::ptx::{Operand, OperandKind, ScalarType};
use crate::tensor::element::Element;
use crate::tensor::fragment::{Fragment, Role, Shape};
use crate::tensor::multiply::{BitProduct, Product};
use crate::tile::{
    FragmentLoad, FragmentStore, Gathered, Held, Multiply, RowsLoad, RowsStore, Scattered, Tile, Transpose,
};

/// `mma.sync`
pub(crate) fn mma(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    aligned(&mut words)?;
    let shape = Shape::from_name(words.first()?).ok_or(Unknown)?;
    // The dense forms of these shapes are by rows and by columns only; `m8n8k4` on halves has a layout of its own.
    if words.first()? != "row" || words.first()? != "col" {
        return Err(Unknown);
    }
    let saturate = words.take("satfinite");
    let bits = bit_product(&mut words);
    let mut element = || Element::from_name(words.first()?).ok_or(Unknown);
    let (d, a, b, c) = (element()?, element()?, element()?, element()?);
    if a == Element::F64 {
        words.take("rn");
    }
    words.end()?;
    let known = match (shape.m, shape.n, shape.k) {
        (16, 8, k) => match a {
            Element::F16 | Element::Bf16 => matches!(k, 8 | 16),
            Element::Tf32 => matches!(k, 4 | 8),
            Element::F64 => matches!(k, 4 | 8 | 16),
            Element::E4m3 | Element::E5m2 => k == 32,
            Element::S8 | Element::U8 => matches!(k, 16 | 32),
            Element::S4 | Element::U4 => matches!(k, 32 | 64),
            Element::B1 => matches!(k, 128 | 256),
            _ => false,
        },
        (8, 8, k) => match a {
            Element::F64 => k == 4,
            Element::S8 | Element::U8 => k == 16,
            Element::S4 | Element::U4 => k == 32,
            Element::B1 => k == 128,
            _ => false,
        },
        _ => false,
    };
    if !known {
        return Err(Unknown);
    }
    let at_once = if a == Element::Tf32 { 8 } else { 16 };
    multiply(names, operands, shape, [d, a, b, c], saturate, bits, at_once)
}

/// `wmma.load`, `wmma.store` and `wmma.mma`
pub(crate) fn wmma(names: &mut Names, mut words: Words, operands: &[Operand], line: u32) -> Decoded<Op> {
    let what = words.first()?;
    let role = match what {
        "load" | "store" => Some(match words.first()? {
            "a" if what == "load" => Role::A,
            "b" if what == "load" => Role::B,
            "c" if what == "load" => Role::Accumulator,
            "d" if what == "store" => Role::Accumulator,
            _ => return Err(Unknown),
        }),
        "mma" => None,
        _ => return Err(Unknown),
    };
    let bits = if role.is_none() { bit_product(&mut words) } else { None };
    aligned(&mut words)?;
    let by_rows = layout(&mut words)?;
    let Some(role) = role else {
        layout(&mut words)?;
        let shape = Shape::from_name(words.first()?).ok_or(Unknown)?;
        let saturate = words.take("satfinite");
        return wmma_multiply(names, words, operands, shape, saturate, bits);
    };
    let shape = Shape::from_name(words.first()?).ok_or(Unknown)?;
    let element = Element::from_name(words.last()?).ok_or(Unknown)?;
    let manner = Manner::take(&mut words)?;
    let (vector, address, stride) = match (what, operands) {
        ("load", [vector, address]) | ("store", [address, vector]) => (vector, address, None),
        ("load", [vector, address, stride]) | ("store", [address, vector, stride]) => {
            (vector, address, Some(stride))
        }
        _ => return Err(Unknown),
    };
    let OperandKind::Address(address) = &address.kind else { return Err(Unknown) };
    let registers = if what == "load" { targets(names, vector)? } else { sources(names, vector)? };
    let fragment = Fragment::new(role, element, shape, registers.len()).ok_or(Unknown)?;
    fits(&fragment, &registers)?;
    // Whole registers where parts lie together.
    let contiguous = fragment.is_contiguous(by_rows);
    let bytes = if contiguous { element.register_bytes() } else { element.bits() / 8 };
    let ty = match bytes {
        8 => ScalarType::B64,
        4 => ScalarType::B32,
        2 => ScalarType::B16,
        1 => ScalarType::B8,
        // Elements of less than a byte lie together or not at all.
        _ => return Err(Unknown),
    };
    let access = matrix_access(names, address, ty, manner, line)?;
    let stride = match stride {
        Some(stride) => names.source32(stride, ScalarType::U32)?,
        None => {
            let tight = if by_rows { fragment.columns } else { fragment.rows };
            names.constant32(tight)
        }
    };
    let parts = if contiguous { 1 } else { element.per_register() };
    let members = names.constant32(u32::MAX);
    if what == "load" {
        let pieces = registers.iter().map(|reg| gathered(names, access, *reg, parts)).collect();
        let load = FragmentLoad { fragment, by_rows, access, stride, pieces, members };
        return Ok(Op::Tile(Box::new(Tile::FragmentLoad(load))));
    }
    let pieces = registers.iter().map(|reg| scattered(names, access, *reg, parts)).collect();
    let store = FragmentStore { fragment, by_rows, access, stride, pieces, members };
    Ok(Op::Tile(Box::new(Tile::FragmentStore(store))))
}

fn wmma_multiply(
    names: &mut Names,
    mut words: Words,
    operands: &[Operand],
    shape: Shape,
    saturate: bool,
    bits: Option<BitProduct>,
) -> Decoded<Op> {
    let first = Element::from_name(words.first()?).ok_or(Unknown)?;
    let second = Element::from_name(words.first()?).ok_or(Unknown)?;
    let types = if let Ok(third) = words.first() {
        let third = Element::from_name(third).ok_or(Unknown)?;
        let fourth = Element::from_name(words.first()?).ok_or(Unknown)?;
        [first, second, third, fourth]
    } else {
        // The short form, on halves.
        [first, Element::F16, Element::F16, second]
    };
    if types[1] == Element::F64 {
        words.take("rn");
    }
    words.end()?;
    let known = match (types[1], shape.m, shape.n, shape.k) {
        (Element::F16 | Element::Bf16 | Element::S8 | Element::U8, m, n, 16) => {
            matches!((m, n), (16, 16) | (32, 8) | (8, 32))
        }
        (Element::Tf32, 16, 16, 8) | (Element::F64, 8, 8, 4) => true,
        (Element::S4 | Element::U4, 8, 8, 32) | (Element::B1, 8, 8, 128) => true,
        _ => false,
    };
    if !known {
        return Err(Unknown);
    }
    let at_once = if types[1] == Element::Tf32 { 4 } else { 16 };
    multiply(names, operands, shape, types, saturate, bits, at_once)
}

fn multiply(
    names: &mut Names,
    operands: &[Operand],
    shape: Shape,
    [d_type, a_type, b_type, c_type]: [Element; 4],
    saturate: bool,
    bits: Option<BitProduct>,
    at_once: usize,
) -> Decoded<Op> {
    use Element::{B1, Bf16, E4m3, E5m2, F16, F32, F64, S4, S8, S32, Tf32, U4, U8};
    let types_fit = match (a_type, b_type) {
        (F16, F16) => matches!(d_type, F16 | F32),
        (Bf16, Bf16) | (Tf32, Tf32) => d_type == F32,
        (E4m3 | E5m2, E4m3 | E5m2) => d_type == F32,
        (F64, F64) => d_type == F64,
        (S8 | U8, S8 | U8) | (S4 | U4, S4 | U4) | (B1, B1) => d_type == S32,
        _ => false,
    };
    let integer = d_type == S32;
    if !types_fit
        || c_type != d_type
        || saturate && (!integer || a_type == B1)
        || (a_type == B1) != bits.is_some()
    {
        return Err(Unknown);
    }
    let [d, a, b, c] = operands else { return Err(Unknown) };
    let mut held = |operand: &Operand, role, element, written| -> Decoded<Held> {
        let registers = if written { targets(names, operand)? } else { sources(names, operand)? };
        let fragment = Fragment::new(role, element, shape, registers.len()).ok_or(Unknown)?;
        fits(&fragment, &registers)?;
        Ok(Held { fragment, registers })
    };
    let op = Multiply {
        d: held(d, Role::Accumulator, d_type, true)?,
        a: held(a, Role::A, a_type, false)?,
        b: held(b, Role::B, b_type, false)?,
        c: held(c, Role::Accumulator, c_type, false)?,
        product: Product {
            shape,
            a: a_type,
            b: b_type,
            accumulator: d_type,
            saturate,
            bits: bits.unwrap_or(BitProduct::Xor),
            at_once,
        },
        members: names.constant32(u32::MAX),
    };
    Ok(Op::Tile(Box::new(Tile::Multiply(op))))
}

/// `ldmatrix`
pub(crate) fn load_rows(names: &mut Names, mut words: Words, operands: &[Operand], line: u32) -> Decoded<Op> {
    let (count, transposed, manner) = rows_manner(&mut words)?;
    let [vector, address] = operands else { return Err(Unknown) };
    let OperandKind::Address(address) = &address.kind else { return Err(Unknown) };
    let registers = targets(names, vector)?;
    let (access, parts) = rows_access(names, address, manner, transposed, line)?;
    if registers.len() != count || registers.iter().any(|reg| matches!(reg, Reg::Wide(_))) {
        return Err(Unknown);
    }
    let pieces = registers.iter().map(|reg| gathered(names, access, *reg, parts)).collect();
    let members = names.constant32(u32::MAX);
    let load = RowsLoad { access, transposed, pieces, members };
    Ok(Op::Tile(Box::new(Tile::RowsLoad(load))))
}

/// `stmatrix`
pub(crate) fn store_rows(
    names: &mut Names,
    mut words: Words,
    operands: &[Operand],
    line: u32,
) -> Decoded<Op> {
    let (count, transposed, manner) = rows_manner(&mut words)?;
    let [address, vector] = operands else { return Err(Unknown) };
    let OperandKind::Address(address) = &address.kind else { return Err(Unknown) };
    let registers = sources(names, vector)?;
    let (access, parts) = rows_access(names, address, manner, transposed, line)?;
    if registers.len() != count || registers.iter().any(|reg| matches!(reg, Reg::Wide(_))) {
        return Err(Unknown);
    }
    let pieces = registers.iter().map(|reg| scattered(names, access, *reg, parts)).collect();
    let members = names.constant32(u32::MAX);
    let store = RowsStore { access, transposed, pieces, members };
    Ok(Op::Tile(Box::new(Tile::RowsStore(store))))
}

/// `movmatrix`
pub(crate) fn transpose(names: &mut Names, mut words: Words, operands: &[Operand]) -> Decoded<Op> {
    aligned(&mut words)?;
    let (shape, trans, ty) = (words.first()?, words.first()?, words.first()?);
    words.end()?;
    let ([d, a], "m8n8", "trans", "b16") = (operands, shape, trans, ty) else { return Err(Unknown) };
    let (d, a) = (names.target32(d)?, names.source32(a, ScalarType::B32)?);
    let members = names.constant32(u32::MAX);
    Ok(Op::Tile(Box::new(Tile::Transpose(Transpose { d, a, members }))))
}

fn rows_manner(words: &mut Words) -> Decoded<(usize, bool, Manner)> {
    aligned(words)?;
    if words.first()? != "m8n8" || words.last()? != "b16" {
        return Err(Unknown);
    }
    let count = match words.first()? {
        "x1" => 1,
        "x2" => 2,
        "x4" => 4,
        _ => return Err(Unknown),
    };
    let transposed = words.take("trans");
    Ok((count, transposed, Manner::take(words)?))
}

/// The access of a lane's share of a matrix, and the accesses it takes.
fn rows_access(
    names: &mut Names,
    address: &crate::ptx::Address,
    manner: Manner,
    transposed: bool,
    line: u32,
) -> Decoded<(Access, u32)> {
    let (ty, parts) = if transposed { (ScalarType::B16, 2) } else { (ScalarType::B32, 1) };
    let access = matrix_access(names, address, ty, manner, line)?;
    if !matches!(access.space, Space::Shared | Space::Generic) {
        return Err(Unknown);
    }
    Ok((access, parts))
}

fn aligned(words: &mut Words) -> Decoded<()> {
    if words.take("sync") && words.take("aligned") { Ok(()) } else { Err(Unknown) }
}

fn layout(words: &mut Words) -> Decoded<bool> {
    match words.first()? {
        "row" => Ok(true),
        "col" => Ok(false),
        _ => Err(Unknown),
    }
}

fn bit_product(words: &mut Words) -> Option<BitProduct> {
    let product = match words.take_any(&["xor", "and"])? {
        "xor" => BitProduct::Xor,
        _ => BitProduct::And,
    };
    words.take("popc").then_some(product)
}

fn registers_of(operand: &Operand) -> Vec<&Operand> {
    match &operand.kind {
        OperandKind::Vector(parts) => parts.iter().collect(),
        _ => vec![operand],
    }
}

fn targets(names: &mut Names, operand: &Operand) -> Decoded<Vec<Reg>> {
    registers_of(operand).into_iter().map(|part| names.target(part).map(|(reg, _)| reg)).collect()
}

fn sources(names: &mut Names, operand: &Operand) -> Decoded<Vec<Reg>> {
    let ty = |names: &mut Names, part: &Operand| match names.width(part) {
        Some(8) => ScalarType::B64,
        _ => ScalarType::B32,
    };
    let parts = registers_of(operand);
    let mut list = Vec::with_capacity(parts.len());
    for part in parts {
        let ty = ty(names, part);
        list.push(names.source(part, ty)?);
    }
    Ok(list)
}

/// Registers are as wide as the fragment's.
fn fits(fragment: &Fragment, registers: &[Reg]) -> Decoded<()> {
    let wide = fragment.element.bits() == 64;
    let fit = registers.iter().all(|reg| matches!(reg, Reg::Wide(_)) == wide);
    if fit { Ok(()) } else { Err(Unknown) }
}

/// The address of a piece is computed when it runs.
fn piece(access: Access) -> Access {
    Access { base: AddressBase::Absolute, offset: 0, ..access }
}

fn gathered(names: &mut Names, access: Access, reg: Reg, parts: u32) -> Gathered {
    let load = |reg: Reg| Load {
        access: piece(access),
        targets: vec![LoadTarget { reg: Some(reg), signed: false }],
    };
    if parts == 1 {
        return Gathered { loads: vec![load(reg)], packed: None };
    }
    let loads = (0..parts).map(|_| load(Reg::Narrow(names.new32()))).collect();
    Gathered { loads, packed: Some((reg, 32 / parts)) }
}

fn scattered(names: &mut Names, access: Access, reg: Reg, parts: u32) -> Scattered {
    let store = |reg: Reg| Store { access: piece(access), sources: vec![reg] };
    if parts == 1 {
        return Scattered { split: None, stores: vec![store(reg)] };
    }
    let scratch: Vec<R32> = (0..parts).map(|_| names.new32()).collect();
    let stores = scratch.iter().map(|part| store(Reg::Narrow(*part))).collect();
    Scattered { split: Some((reg, 32 / parts, scratch)), stores }
}
