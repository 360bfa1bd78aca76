//! Matrix instructions of a warp: whole warps only.

use crate::exec::access::{addresses, by_space};
use crate::exec::machine::{Machine, window};
use crate::exec::taint::slot;
use crate::exec::warp::{Registers, Warp};
use crate::fault::{AccessKind, Fault};
use crate::form::{Access, Load, Reg, Space};
use crate::lanes::{FULL, L32, L64, LANES, Mask};
use crate::tensor::fragment::Fragment;
use crate::tile::{
    FragmentLoad, FragmentStore, Gathered, Held, Multiply, RowsLoad, RowsStore, Scattered, Tile, Transpose,
};

/// Bytes of a row of an 8 x 8 matrix of 16-bit elements.
const ROW_BYTES: u32 = 16;

/// What the start of each row or column of a matrix in memory must be aligned to, if its fragment is not smaller.
const STRIDE_ALIGN_BYTES: u32 = 16;

impl Machine<'_> {
    /// Any matrix instruction.
    pub(crate) fn tile(&mut self, warp: &mut Warp, mask: Mask, tile: &Tile) -> Result<(), Box<Fault>> {
        if mask != FULL {
            let place = self.place(warp, Warp::lowest(mask));
            return Err(Box::new(Fault::WarpDivergence { place, members: FULL, present: mask }));
        }
        match tile {
            Tile::Multiply(op) => multiply(&mut warp.regs, op),
            Tile::FragmentLoad(op) => self.load_fragment(warp, op)?,
            Tile::FragmentStore(op) => self.store_fragment(warp, op)?,
            Tile::RowsLoad(op) => self.load_rows(warp, op)?,
            Tile::RowsStore(op) => self.store_rows(warp, op)?,
            Tile::Transpose(op) => transpose(&mut warp.regs, op),
        }
        Ok(())
    }

    fn load_fragment(&mut self, warp: &mut Warp, op: &FragmentLoad) -> Result<(), Box<Fault>> {
        let start = self.matrix_start(warp, &op.access, &op.fragment, op.stride, AccessKind::Read)?;
        for (register, piece) in op.pieces.iter().enumerate() {
            for (part, load) in piece.loads.iter().enumerate() {
                let address = element_addresses(&op.fragment, op.by_rows, &start, register, part);
                self.load_piece(warp, &address, load)?;
            }
            pack(&mut warp.regs, piece);
        }
        Ok(())
    }

    fn store_fragment(&mut self, warp: &mut Warp, op: &FragmentStore) -> Result<(), Box<Fault>> {
        let start = self.matrix_start(warp, &op.access, &op.fragment, op.stride, AccessKind::Write)?;
        for (register, piece) in op.pieces.iter().enumerate() {
            split(&mut warp.regs, piece);
            for (part, store) in piece.stores.iter().enumerate() {
                let address = element_addresses(&op.fragment, op.by_rows, &start, register, part);
                self.store_piece(warp, &address, store)?;
            }
        }
        Ok(())
    }

    /// Addresses that the lanes give for a matrix, and the strides in elements; both checked for alignment.
    fn matrix_start(
        &self,
        warp: &Warp,
        access: &Access,
        fragment: &Fragment,
        stride: crate::form::R32,
        kind: AccessKind,
    ) -> Result<(L64, L32), Box<Fault>> {
        let address = addresses(&warp.regs, access);
        let stride = *warp.regs.get32(stride);
        let lane_bytes = fragment.lane_bytes();
        self.check_alignment(warp, FULL, &address, lane_bytes, kind, access.space)?;
        let step = STRIDE_ALIGN_BYTES.min(lane_bytes);
        let bits = fragment.element.bits();
        let strides = stride.map(|stride| u64::from(stride) * u64::from(bits) / 8);
        let second = std::array::from_fn(|lane| address[lane].wrapping_add(strides[lane]));
        self.check_alignment(warp, FULL, &second, step, kind, access.space)?;
        Ok((address, stride))
    }

    fn load_rows(&mut self, warp: &mut Warp, op: &RowsLoad) -> Result<(), Box<Fault>> {
        let rows = self.row_addresses(warp, &op.access, op.pieces.len(), AccessKind::Read)?;
        for (matrix, piece) in op.pieces.iter().enumerate() {
            for (part, load) in piece.loads.iter().enumerate() {
                let address = share_addresses(&rows, matrix, op.transposed, part);
                self.load_piece(warp, &address, load)?;
            }
            pack(&mut warp.regs, piece);
        }
        Ok(())
    }

    fn store_rows(&mut self, warp: &mut Warp, op: &RowsStore) -> Result<(), Box<Fault>> {
        let rows = self.row_addresses(warp, &op.access, op.pieces.len(), AccessKind::Write)?;
        for (matrix, piece) in op.pieces.iter().enumerate() {
            split(&mut warp.regs, piece);
            for (part, store) in piece.stores.iter().enumerate() {
                let address = share_addresses(&rows, matrix, op.transposed, part);
                self.store_piece(warp, &address, store)?;
            }
        }
        Ok(())
    }

    /// The addresses of rows that lanes give, checked as whole rows, so that a fault names the lane that gave one.
    fn row_addresses(
        &self,
        warp: &Warp,
        access: &Access,
        matrices: usize,
        kind: AccessKind,
    ) -> Result<L64, Box<Fault>> {
        let givers = if matrices == 4 { FULL } else { (1 << (8 * matrices)) - 1 };
        let given = addresses(&warp.regs, access);
        let inside = match access.space {
            Space::Generic => given.map(|address| address.wrapping_sub(window(Space::Shared))),
            _ => given,
        };
        self.check_alignment(warp, givers, &inside, ROW_BYTES, kind, Space::Shared)?;
        self.check_shared_bounds(warp, givers, &inside, ROW_BYTES, kind)?;
        Ok(given)
    }

    fn load_piece(&mut self, warp: &mut Warp, address: &L64, load: &Load) -> Result<(), Box<Fault>> {
        if load.access.space != Space::Generic {
            return self.load_from(load.access.space, warp, FULL, address, load);
        }
        for (space, lanes) in by_space(FULL, address) {
            let inside = address.map(|address| address.wrapping_sub(window(space)));
            self.load_from(space, warp, lanes, &inside, load)?;
        }
        Ok(())
    }

    fn store_piece(
        &mut self,
        warp: &mut Warp,
        address: &L64,
        store: &crate::form::Store,
    ) -> Result<(), Box<Fault>> {
        if store.access.space != Space::Generic {
            return self.store_to(store.access.space, warp, FULL, address, store);
        }
        for (space, lanes) in by_space(FULL, address) {
            let inside = address.map(|address| address.wrapping_sub(window(space)));
            self.store_to(space, warp, lanes, &inside, store)?;
        }
        Ok(())
    }
}

/// Where each lane's part of a register lies in memory.
fn element_addresses(
    fragment: &Fragment,
    by_rows: bool,
    (start, stride): &(L64, L32),
    register: usize,
    part: usize,
) -> L64 {
    let bits = u64::from(fragment.element.bits());
    std::array::from_fn(|lane| {
        let (row, column) = fragment.place(lane as u32, register as u32, part as u32);
        let (line, along) = if by_rows { (row, column) } else { (column, row) };
        let index = u64::from(line) * u64::from(stride[lane]) + u64::from(along);
        start[lane].wrapping_add(index * bits / 8)
    })
}

/// Where each lane's share of an 8 x 8 matrix lies, given the rows: two neighbours of a row, or one of two of a column.
fn share_addresses(rows: &L64, matrix: usize, transposed: bool, part: usize) -> L64 {
    std::array::from_fn(|lane| {
        let (row, byte) =
            if transposed { (lane % 4 * 2 + part, lane / 4 * 2) } else { (lane / 4, lane % 4 * 4) };
        rows[8 * matrix + row].wrapping_add(byte as u64)
    })
}

fn pack(regs: &mut Registers, piece: &Gathered) {
    let Some((reg, bits)) = piece.packed else { return };
    let mut out: L64 = [0; LANES];
    for (part, load) in piece.loads.iter().enumerate() {
        let Some(from) = load.targets.first().and_then(|target| target.reg) else { continue };
        if let Some(taint) = &mut regs.taint {
            let undefined = taint.mask(slot(from));
            let origin = taint.origin(slot(from));
            taint.set_from(slot(reg), undefined, undefined, origin);
        }
        let from = regs.get(from);
        for lane in 0..LANES {
            out[lane] |= from[lane] << (bits * part as u32);
        }
    }
    regs.set(reg, &out, FULL);
}

fn split(regs: &mut Registers, piece: &Scattered) {
    let Some((reg, bits, parts)) = &piece.split else { return };
    let whole = regs.get(*reg);
    for (index, part) in parts.iter().enumerate() {
        if let Some(taint) = &mut regs.taint {
            let (undefined, origin) = (taint.mask(slot(*reg)), taint.origin(slot(*reg)));
            taint.set_from(slot(Reg::Narrow(*part)), FULL, undefined, origin);
        }
        let shift = bits * index as u32;
        regs.set32(*part, &whole.map(|whole| (whole >> shift) as u32 & (u32::MAX >> (32 - bits))), FULL);
    }
}

/// The elements of a matrix by rows.
fn gather(regs: &Registers, held: &Held) -> Vec<u64> {
    let fragment = &held.fragment;
    let (each, bits) = (fragment.element.per_register(), fragment.element.bits());
    let cut = u64::MAX >> (64 - bits);
    let mut matrix = vec![0; fragment.len()];
    for (register, reg) in held.registers.iter().enumerate() {
        let values = regs.get(*reg);
        for (lane, value) in values.iter().enumerate() {
            for part in 0..each {
                let (row, column) = fragment.place(lane as u32, register as u32, part);
                matrix[(row * fragment.columns + column) as usize] = value >> (bits * part) & cut;
            }
        }
    }
    matrix
}

fn scatter(regs: &mut Registers, held: &Held, matrix: &[u64]) {
    let fragment = &held.fragment;
    let (each, bits) = (fragment.element.per_register(), fragment.element.bits());
    for (register, reg) in held.registers.iter().enumerate() {
        let values: L64 = std::array::from_fn(|lane| {
            (0..each).fold(0, |value, part| {
                let (row, column) = fragment.place(lane as u32, register as u32, part);
                value | matrix[(row * fragment.columns + column) as usize] << (bits * part)
            })
        });
        regs.set(*reg, &values, FULL);
    }
}

fn multiply(regs: &mut Registers, op: &Multiply) {
    let (a, b, c) = (gather(regs, &op.a), gather(regs, &op.b), gather(regs, &op.c));
    scatter(regs, &op.d, &op.product.compute(&a, &b, &c));
}

/// Element `(row, column)` lies in half `column % 2` of lane `row * 4 + column / 2`.
fn transpose(regs: &mut Registers, op: &Transpose) {
    let a = *regs.get32(op.a);
    let element = |row: usize, column: usize| a[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
    let out = std::array::from_fn(|lane| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        element(column, row) | element(column + 1, row) << 16
    });
    regs.set32(op.d, &out, FULL);
}
