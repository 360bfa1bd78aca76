//! Structures in CUDA C at the offsets that WGSL gives their members.

use std::fmt::Write as _;

use naga::{ArraySize, Handle, Type, TypeInner, VectorSize};

use crate::error::EmitError;
use crate::unit::Unit;

/// Padding beyond this is refused: it would be written out piece by piece.
const MAX_PADDING_BYTES: u32 = 1024;

impl Unit<'_> {
    /// Sees to it that the structure is declared.
    pub(crate) fn declare(&mut self, ty: Handle<Type>) -> Result<(), EmitError> {
        if self.structs.contains_key(&ty.index()) {
            return Ok(());
        }
        let types = &self.shader.module.types;
        let TypeInner::Struct { members, span } = &types[ty].inner else { return Ok(()) };
        let (members, span) = (members.clone(), *span);
        let align = self.layouter[ty].alignment.round_up(1);
        let name = self.struct_names[&ty].name.clone();
        let mut text = String::new();
        let mut aligned = 1;
        let mut end = 0_u32;
        let mut sized = true;
        for (index, member) in members.iter().enumerate() {
            let member_name = self.struct_names[&ty].members[index].clone();
            if let TypeInner::Array { base, size: ArraySize::Dynamic, .. } = types[member.ty].inner {
                let element = self.spell_element(base)?;
                // Writing to a string cannot fail.
                _ = writeln!(
                    text,
                    "    // {member_name}: as many elements as the buffer holds, from byte {offset} on.\n    \
                     __device__ {element}* {member_name}() {{ return ({element}*)((char*)this + {offset}); }}\n    \
                     __device__ const {element}* {member_name}() const {{ return (const {element}*)((const char*)this + \
                     {offset}); }}",
                    offset = member.offset,
                );
                sized = false;
                aligned = aligned.max(self.layouter[base].alignment.round_up(1));
                continue;
            }
            let spelled = self.spell(member.ty)?;
            let (bytes, natural) = self.c_layout(member.ty);
            let wanted = self.layouter[member.ty].alignment.round_up(1);
            if end.next_multiple_of(natural) == member.offset {
                _ = writeln!(text, "    {spelled} {member_name};");
            } else if end.next_multiple_of(wanted) == member.offset {
                _ = writeln!(text, "    alignas({wanted}) {spelled} {member_name};");
                aligned = aligned.max(wanted);
            } else {
                self.pad(&mut text, end, member.offset, ty)?;
                _ = writeln!(text, "    {spelled} {member_name};");
            }
            end = member.offset.saturating_add(bytes);
            aligned = aligned.max(natural);
        }
        if sized && end.next_multiple_of(align) != span {
            self.pad(&mut text, end, span, ty)?;
        }
        // Said only where the members do not see to it.
        let alignas = if aligned < align { format!("alignas({align}) ") } else { String::new() };
        text = format!("struct {alignas}{name} {{\n{text}}};\n");
        if sized {
            _ = writeln!(
                text,
                "static_assert(sizeof({name}) == {span}, \"{name} has the size that WGSL gives it\");"
            );
        }
        self.structs.insert(ty.index(), text);
        Ok(())
    }

    /// Unnamed bit-fields from one offset to another: they are no members, so initialisers skip them.
    fn pad(&self, text: &mut String, mut from: u32, to: u32, ty: Handle<Type>) -> Result<(), EmitError> {
        if to < from || to - from > MAX_PADDING_BYTES {
            let span = self.shader.module.types.get_span(ty);
            return Err(self.unsupported("padding of more than 1024 bytes in a structure", span));
        }
        while from < to {
            let bytes =
                [8, 4, 2, 1].into_iter().find(|b| from.is_multiple_of(*b) && from + b <= to).unwrap_or(1);
            let unit = ["unsigned char", "u16", "u32", "u64"][bytes.trailing_zeros() as usize];
            _ = writeln!(text, "    {unit} : {};", 8 * bytes);
            from += bytes;
        }
        Ok(())
    }

    /// Size and alignment in bytes of what a type is spelled as. They differ from WGSL's in one place: a `vec3` that is
    /// no element of an array is as aligned as its components, so that a scalar can follow it at once.
    pub(crate) fn c_layout(&self, ty: Handle<Type>) -> (u32, u32) {
        let layout = self.layouter[ty];
        match self.shader.module.types[ty].inner {
            TypeInner::Vector { size: VectorSize::Tri, scalar } => (layout.size, scalar.width.into()),
            _ => (layout.size, layout.alignment.round_up(1)),
        }
    }

    /// Bytes of the part of a buffer whose size is fixed.
    pub(crate) fn fixed_bytes(&self, ty: Handle<Type>) -> u32 {
        match &self.shader.module.types[ty].inner {
            TypeInner::Array { size: ArraySize::Dynamic, .. } => 0,
            TypeInner::Struct { members, span } => {
                let last = members.last().map(|last| (last.offset, &self.shader.module.types[last.ty].inner));
                match last {
                    Some((offset, TypeInner::Array { size: ArraySize::Dynamic, .. })) => offset,
                    _ => *span,
                }
            }
            _ => self.layouter[ty].size,
        }
    }

    /// Where the runtime-sized array of a buffer begins, and the bytes from one of its elements to the next.
    pub(crate) fn runtime_array(&self, ty: Handle<Type>) -> (u32, u32) {
        match &self.shader.module.types[ty].inner {
            TypeInner::Array { stride, .. } => (0, *stride),
            TypeInner::Struct { members, .. } => {
                members.last().map_or((0, 1), |last| (last.offset, self.runtime_array(last.ty).1))
            }
            _ => (0, 1),
        }
    }
}
