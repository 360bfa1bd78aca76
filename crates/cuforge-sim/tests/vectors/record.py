"""Records what a GPU answers to single PTX instructions: `python3 record.py OUT [VECTORS [FIRST]]`.

Needs a driver and a device of compute capability 9.0; nothing else. Each form becomes a kernel in which every thread
runs the instruction on its own operands. OUT gets, for each form, a line

    form TEMPLATE | widths of results | widths of operands

and below it one line a vector: operands, `=`, results, all in hexadecimal. The inputs come from a fixed seed.
VECTORS is the number a form, a multiple of 32; the default is 32. Of forms without `.sync`, whose lanes know nothing of
each other, only a quarter is written, so that the file stays small; with a larger VECTORS, all. FIRST is the number of the
first form to record: what a newer list adds can be appended to an older recording.
"""

import ctypes
import itertools
import random
import struct
import sys

F32 = [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
       0x7F800001, 0xFFC12345, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF,
       0x4B800000, 0x4B800001, 0x33800000, 0x34000000, 0x3F000000, 0x3FC00000, 0x40200000, 0x4F000000, 0xCF000000,
       0x5F000000, 0x7E800001, 0x40490FDB, 0x01000000, 0x3EAAAAAB]
F64 = [0, 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FF0000000000001, 0x3FEFFFFFFFFFFFFF, 0x7FF0000000000000,
       0xFFF0000000000000, 0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8123456789ABC, 1, 0x8000000000000001,
       0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x3CA0000000000000,
       0x3FE0000000000000, 0x3FF8000000000000, 0x4004000000000000, 0x41E0000000000000, 0xC1E0000000000000,
       0x43E0000000000000, 0x43F0000000000000, 0x3690000000000001, 0x47EFFFFFE0000000, 0x47EFFFFFF0000000,
       0x3F10000000000001, 0x40EFFC0000000001, 0x380FFFFFFFFFFFFF, 0x3FD5555555555555]
F16 = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x3C01, 0x3BFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFE01, 0x0001, 0x8001, 0x03FF,
       0x0400, 0x7BFF, 0xFBFF, 0x6400, 0x1400, 0x3800, 0x3E00, 0x4100, 0x7800, 0x3555, 0x4248, 0x6BFF, 0x0800, 0x2C00]
BF16 = [0x0000, 0x8000, 0x3F80, 0xBF80, 0x3F81, 0x3F7F, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFC1, 0x0001, 0x8001, 0x007F,
        0x0080, 0x7F7F, 0xFF7F, 0x4B80, 0x3380, 0x3F00, 0x3FC0, 0x4020, 0x4F00, 0x3EAB, 0x4049, 0x0100]
INT = [0, 1, 2, 3, 7, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000,
       0xFFFFFFFF, 0xFFFFFFFE, 0x12345678, 0xDEADBEEF, 0x00FF00FF, 0x80000001, 0xAAAAAAAA, 0x55555555]
INT64 = INT + [1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0x123456789ABCDEF0, (1 << 53) + 1, (1 << 24) + 1,
               0xFFFFFFFF80000000, 0xFFFFFFFF7FFFFFFF, (1 << 40) + (1 << 16) + 1, 0x7FFFFFBFFFFFFFFF, 0xFFFFFF7FFFFFFFFF]
SHIFT = [0, 1, 4, 7, 8, 15, 16, 17, 24, 31, 32, 33, 40, 63, 64, 65, 100, 255, 256, 0xFFFFFFFF]

rng = random.Random(20261201)


def value(kind):
    """One operand of the kind; half of the time a corner, else random with random exponents."""
    corner = rng.random() < 0.5
    if kind == "f32":
        return rng.choice(F32) if corner else near(32, 8, 23)
    if kind == "f64":
        return rng.choice(F64) if corner else near(64, 11, 52)
    if kind == "f16":
        return rng.choice(F16) if corner else rng.getrandbits(16)
    if kind == "bf16":
        return rng.choice(BF16) if corner else near(16, 8, 7)
    if kind == "f16x2":
        return value("f16") | value("f16") << 16
    if kind == "bf16x2":
        return value("bf16") | value("bf16") << 16
    if kind == "i16":
        return rng.choice(INT) & 0xFFFF if corner else rng.getrandbits(16)
    if kind == "i32":
        return rng.choice(INT) if corner else rng.getrandbits(rng.choice([4, 8, 16, 32, 32]))
    if kind == "i64":
        return rng.choice(INT64) if corner else rng.getrandbits(rng.choice([8, 32, 54, 64, 64]))
    if kind == "sh":
        return rng.choice(SHIFT) if corner else rng.getrandbits(5)
    if kind == "p":
        return rng.getrandbits(1)
    if kind == "few":
        return rng.randrange(4)
    if kind == "five":
        return rng.randrange(32)
    if kind == "nth":
        return rng.randrange(-9, 10) & 0xFFFFFFFF
    if kind == "small":
        # Around the range of 8-bit floats.
        bits = rng.getrandbits(1) << 31 | rng.randrange(100, 146) << 23 | rng.getrandbits(23)
        return rng.choice(F32) if corner else bits & ~((1 << rng.randrange(23)) - 1)
    if kind == "angle":
        return struct.unpack("<I", struct.pack("<f", rng.uniform(-3.14159, 3.14159)))[0]
    raise ValueError(kind)


def near(bits, exponent_bits, fraction_bits):
    """A float whose exponent is mostly close to that of one, so that sums interact."""
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = bias + rng.randrange(-30, 30) if rng.random() < 0.7 else rng.getrandbits(exponent_bits)
    fraction = rng.getrandbits(fraction_bits)
    if rng.random() < 0.3:
        fraction &= ~((1 << rng.randrange(fraction_bits)) - 1)
    return rng.getrandbits(1) << (bits - 1) | (exponent & ((1 << exponent_bits) - 1)) << fraction_bits | fraction


WIDTH = {"f32": 32, "f64": 64, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "i16": 16, "i32": 32, "i64": 64,
         "sh": 32, "p": 1, "few": 32, "angle": 32, "five": 32, "nth": 32, "small": 32}


def forms():
    """(template, kinds of results, kinds of operands)."""
    out = []

    def add(template, results, operands):
        out.append((template, results.split(), operands.split()))

    integer = {"16": "i16", "32": "i32", "64": "i64"}
    for bits, kind in integer.items():
        for sign in "us":
            t = sign + bits
            for op in ["add", "sub", "min", "max", "mul.lo", "mul.hi"]:
                add(f"{op}.{t} $d, $a, $b", kind, f"{kind} {kind}")
            for op in ["mad.lo", "mad.hi"]:
                add(f"{op}.{t} $d, $a, $b, $c", kind, f"{kind} {kind} {kind}")
            # The result of a division by zero is not defined.
            add(f"setp.eq.{t} $p, $b, 0; @$p mov.b{bits} $b, 7; div.{t} $d, $a, $b; rem.{t} $e, $a, $b",
                f"{kind} {kind}", f"{kind} {kind}")
            add(f"sad.{t} $d, $a, $b, $c", kind, f"{kind} {kind} {kind}")
            for op in ["eq", "ne", "lt", "le", "gt", "ge"]:
                add(f"setp.{op}.{t} $d, $a, $b", "p", f"{kind} {kind}")
            add(f"shr.{t} $d, $a, $b", kind, f"{kind} sh")
        add(f"neg.s{bits} $d, $a", kind, kind)
        # The absolute value of the most negative number is not defined.
        add(f"and.b{bits} $a, $a, -3; abs.s{bits} $d, $a", kind, kind)
        for op in ["and", "or", "xor"]:
            add(f"{op}.b{bits} $d, $a, $b", kind, f"{kind} {kind}")
        add(f"not.b{bits} $d, $a", kind, kind)
        add(f"cnot.b{bits} $d, $a", kind, kind)
        add(f"shl.b{bits} $d, $a, $b", kind, f"{kind} sh")
        add(f"selp.b{bits} $d, $a, $b, $c", kind, f"{kind} {kind} p")
    for op in ["lo", "ls", "hi", "hs"]:
        add(f"setp.{op}.u32 $d, $a, $b", "p", "i32 i32")
    for sign in "us":
        add(f"mul.wide.{sign}16 $d, $a, $b", "i32", "i16 i16")
        add(f"mul.wide.{sign}32 $d, $a, $b", "i64", "i32 i32")
        add(f"mad.wide.{sign}16 $d, $a, $b, $c", "i32", "i16 i16 i32")
        add(f"mad.wide.{sign}32 $d, $a, $b, $c", "i64", "i32 i32 i64")
        for half in ["lo", "hi"]:
            add(f"mul24.{half}.{sign}32 $d, $a, $b", "i32", "i32 i32")
            add(f"mad24.{half}.{sign}32 $d, $a, $b, $c", "i32", "i32 i32 i32")
        add(f"bfind.{sign}32 $d, $a", "i32", "i32")
        add(f"bfind.{sign}64 $d, $a", "i32", "i64")
        add(f"bfind.shiftamt.{sign}32 $d, $a", "i32", "i32")
        add(f"bfind.shiftamt.{sign}64 $d, $a", "i32", "i64")
        add(f"bfe.{sign}32 $d, $a, $b, $c", "i32", "i32 sh sh")
        add(f"bfe.{sign}64 $d, $a, $b, $c", "i64", "i64 sh sh")
        for mode in ["clamp", "wrap"]:
            add(f"szext.{mode}.{sign}32 $d, $a, $b", "i32", "i32 sh")
        for other in "us":
            add(f"dp4a.{sign}32.{other}32 $d, $a, $b, $c", "i32", "i32 i32 i32")
            add(f"dp2a.lo.{sign}32.{other}32 $d, $a, $b, $c", "i32", "i32 i32 i32")
            add(f"dp2a.hi.{sign}32.{other}32 $d, $a, $b, $c", "i32", "i32 i32 i32")
    add("add.sat.s32 $d, $a, $b", "i32", "i32 i32")
    add("sub.sat.s32 $d, $a, $b", "i32", "i32 i32")
    add("mad.hi.sat.s32 $d, $a, $b, $c", "i32", "i32 i32 i32")
    for t in ["u16x2", "s16x2"]:
        for op in ["add", "min", "max"]:
            add(f"{op}.{t} $d, $a, $b", "i32", "i32 i32")
    for bits, kind in [("32", "i32"), ("64", "i64")]:
        add(f"popc.b{bits} $d, $a", "i32", kind)
        add(f"clz.b{bits} $d, $a", "i32", kind)
        add(f"brev.b{bits} $d, $a", kind, kind)
        add(f"bfi.b{bits} $d, $a, $b, $c, $f", kind, f"{kind} {kind} sh sh")
        add(f"add.cc.u{bits} $d, $a, $b; addc.u{bits} $e, $a, $c", f"{kind} {kind}", f"{kind} {kind} {kind}")
        add(f"sub.cc.u{bits} $d, $a, $b; subc.u{bits} $e, $a, $c", f"{kind} {kind}", f"{kind} {kind} {kind}")
    add("mad.lo.cc.u32 $d, $a, $b, $c; madc.hi.u32 $e, $a, $b, $c", "i32 i32", "i32 i32 i32")
    for mode in ["clamp", "wrap"]:
        for side in "lr":
            add(f"shf.{side}.{mode}.b32 $d, $a, $b, $c", "i32", "i32 i32 sh")
        add(f"bmsk.{mode}.b32 $d, $a, $b", "i32", "sh sh")
    for table in ["0x80", "0x96", "0xCA", "0x1B", "0xFE"]:
        add(f"lop3.b32 $d, $a, $b, $c, {table}", "i32", "i32 i32 i32")
    add("prmt.b32 $d, $a, $b, $c", "i32", "i32 i32 i32")
    for mode in ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]:
        add(f"prmt.b32.{mode} $d, $a, $b, $c", "i32", "i32 i32 few")
    add("slct.u32.s32 $d, $a, $b, $c", "i32", "i32 i32 i32")
    add("slct.b64.s32 $d, $a, $b, $c", "i64", "i64 i64 i32")
    add("slct.f32.f32 $d, $a, $b, $c", "f32", "f32 f32 f32")
    add("slct.ftz.f32.f32 $d, $a, $b, $c", "f32", "f32 f32 f32")
    add("set.lt.u32.s32 $d, $a, $b", "i32", "i32 i32")
    add("set.ge.f32.u32 $d, $a, $b", "i32", "i32 i32")
    add("set.leu.and.u32.f32 $d, $a, $b, $c", "i32", "f32 f32 p")
    add("set.lt.f16x2.f16x2 $d, $a, $b", "i32", "f16x2 f16x2")
    add("set.gtu.u32.bf16 $d, $a, $b", "i32", "bf16 bf16")
    for op in ["and", "or", "xor"]:
        add(f"setp.lt.{op}.s32 $d|$e, $a, $b, $c", "p p", "i32 i32 p")
        add(f"{op}.pred $d, $a, $b", "p", "p p")
    add("setp.ge.and.f32 $d|$e, $a, $b, !$c", "p p", "f32 f32 p")
    add("not.pred $d, $a", "p", "p")
    add("mov.b64 {$d, $e}, $a", "i32 i32", "i64")
    add("mov.b64 $d, {$a, $b}", "i64", "i32 i32")
    add("mov.b32 {$d, $e}, $a", "i16 i16", "i32")
    add("mov.b32 $d, {$a, $b}", "i32", "i16 i16")

    float_ops = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
    for op in float_ops:
        add(f"setp.{op}.f32 $d, $a, $b", "p", "f32 f32")
        add(f"setp.{op}.ftz.f32 $d, $a, $b", "p", "f32 f32")
        add(f"setp.{op}.f64 $d, $a, $b", "p", "f64 f64")
        add(f"setp.{op}.f16 $d, $a, $b", "p", "f16 f16")
        add(f"setp.{op}.bf16 $d, $a, $b", "p", "bf16 bf16")
    add("setp.lt.f16x2 $d|$e, $a, $b", "p p", "f16x2 f16x2")
    add("setp.ge.bf16x2 $d|$e, $a, $b", "p p", "bf16x2 bf16x2")
    for what in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]:
        add(f"testp.{what}.f32 $d, $a", "p", "f32")
        add(f"testp.{what}.f64 $d, $a", "p", "f64")
    for mode in ["rn", "rz", "rm", "rp"]:
        for flush in ["", ".ftz"]:
            for op in ["add", "sub", "mul"]:
                for sat in ["", ".sat"]:
                    add(f"{op}.{mode}{flush}{sat}.f32 $d, $a, $b", "f32", "f32 f32")
            for sat in ["", ".sat"]:
                add(f"fma.{mode}{flush}{sat}.f32 $d, $a, $b, $c", "f32", "f32 f32 f32")
            add(f"div.{mode}{flush}.f32 $d, $a, $b", "f32", "f32 f32")
            add(f"sqrt.{mode}{flush}.f32 $d, $a", "f32", "f32")
            add(f"rcp.{mode}{flush}.f32 $d, $a", "f32", "f32")
        for op in ["add", "sub", "mul", "div"]:
            add(f"{op}.{mode}.f64 $d, $a, $b", "f64", "f64 f64")
        add(f"fma.{mode}.f64 $d, $a, $b, $c", "f64", "f64 f64 f64")
        add(f"sqrt.{mode}.f64 $d, $a", "f64", "f64")
        add(f"rcp.{mode}.f64 $d, $a", "f64", "f64")
    for op in ["min", "max"]:
        for flush, nan, xor in itertools.product(["", ".ftz"], ["", ".NaN"], ["", ".xorsign.abs"]):
            add(f"{op}{flush}{nan}{xor}.f32 $d, $a, $b", "f32", "f32 f32")
        for nan, xor in itertools.product(["", ".NaN"], ["", ".xorsign.abs"]):
            for t in ["f16", "f16x2", "bf16", "bf16x2"]:
                add(f"{op}{nan}{xor}.{t} $d, $a, $b", t, f"{t} {t}")
        add(f"{op}.ftz.f16x2 $d, $a, $b", "f16x2", "f16x2 f16x2")
        add(f"{op}.f64 $d, $a, $b", "f64", "f64 f64")
    for op in ["neg", "abs"]:
        for t in ["f32", "f64", "f16", "f16x2", "bf16", "bf16x2"]:
            add(f"{op}.{t} $d, $a", t, t)
        add(f"{op}.ftz.f32 $d, $a", "f32", "f32")
    add("copysign.f32 $d, $a, $b", "f32", "f32 f32")
    add("copysign.f64 $d, $a, $b", "f64", "f64 f64")
    for t in ["f16", "f16x2"]:
        for op in ["add", "sub", "mul"]:
            for tail in ["", ".ftz", ".sat", ".ftz.sat"]:
                add(f"{op}.rn{tail}.{t} $d, $a, $b", t, f"{t} {t}")
        for tail in ["", ".ftz", ".sat", ".relu"]:
            add(f"fma.rn{tail}.{t} $d, $a, $b, $c", t, f"{t} {t} {t}")
    for t in ["bf16", "bf16x2"]:
        for op in ["add", "sub", "mul"]:
            add(f"{op}.rn.{t} $d, $a, $b", t, f"{t} {t}")
        for tail in ["", ".relu"]:
            add(f"fma.rn{tail}.{t} $d, $a, $b, $c", t, f"{t} {t} {t}")

    ints = {"s8": "i16", "u8": "i16", "s16": "i16", "u16": "i16", "s32": "i32", "u32": "i32", "s64": "i64", "u64": "i64"}
    for (to, to_kind), (source, kind) in itertools.product(ints.items(), ints.items()):
        if to != source:
            add(f"cvt.{to}.{source} $d, $a", to_kind, kind)
        # `.sat` is allowed only where a value can fall outside of the result's type.
        if int(to[1:]) < int(source[1:]) or to[0] != source[0] and (source[0] == "s" or to[1:] == source[1:]):
            add(f"cvt.sat.{to}.{source} $d, $a", to_kind, kind)
    floats = ["f16", "f32", "f64"]
    for (to, to_kind), source in itertools.product(ints.items(), floats):
        for mode in ["rni", "rzi", "rmi", "rpi"]:
            add(f"cvt.{mode}.{to}.{source} $d, $a", to_kind, source)
        if source == "f32":
            add(f"cvt.rni.ftz.{to}.f32 $d, $a", to_kind, "f32")
    for to, (source, kind) in itertools.product(floats, ints.items()):
        for mode in ["rn", "rz", "rm", "rp"]:
            add(f"cvt.{mode}.{to}.{source} $d, $a", to, kind)
    for mode in ["rn", "rz", "rm", "rp"]:
        add(f"cvt.{mode}.f32.f64 $d, $a", "f32", "f64")
        add(f"cvt.{mode}.ftz.f32.f64 $d, $a", "f32", "f64")
        add(f"cvt.{mode}.f16.f64 $d, $a", "f16", "f64")
        add(f"cvt.{mode}.f16.f32 $d, $a", "f16", "f32")
    for t in floats:
        for mode in ["rni", "rzi", "rmi", "rpi"]:
            add(f"cvt.{mode}.{t}.{t} $d, $a", t, t)
    add("cvt.f32.f16 $d, $a", "f32", "f16")
    add("cvt.f64.f16 $d, $a", "f64", "f16")
    add("cvt.f64.f32 $d, $a", "f64", "f32")
    add("cvt.ftz.f64.f32 $d, $a", "f64", "f32")
    add("cvt.f32.bf16 $d, $a", "f32", "bf16")
    add("cvt.sat.f32.f32 $d, $a", "f32", "f32")
    add("cvt.ftz.sat.f32.f32 $d, $a", "f32", "f32")
    add("cvt.sat.f32.f16 $d, $a", "f32", "f16")
    add("cvt.rn.sat.f32.f64 $d, $a", "f32", "f64")
    add("cvt.rn.sat.f16.f32 $d, $a", "f16", "f32")
    add("cvt.rn.relu.f16.f32 $d, $a", "f16", "f32")
    add("cvt.rna.tf32.f32 $d, $a", "i32", "f32")
    for mode in ["rn", "rz"]:
        add(f"cvt.{mode}.bf16.f32 $d, $a", "bf16", "f32")
        add(f"cvt.{mode}.relu.bf16.f32 $d, $a", "bf16", "f32")
        for t in ["f16x2", "bf16x2"]:
            add(f"cvt.{mode}.{t}.f32 $d, $a, $b", t, "f32 f32")
            add(f"cvt.{mode}.relu.{t}.f32 $d, $a, $b", t, "f32 f32")

    for mode in ["up", "down", "bfly", "idx"]:
        clamp = "0" if mode == "up" else "31"
        add(f"shfl.sync.{mode}.b32 $d|$e, $a, $b, {clamp}, -1", "i32 p", "i32 few")
        add(f"shfl.sync.{mode}.b32 $d|$e, $a, $b, {0x1800 + (0 if mode == 'up' else 31)}, -1", "i32 p", "i32 sh")
    for mode in ["all", "any", "uni"]:
        add(f"vote.sync.{mode}.pred $d, $a, -1", "p", "p")
    add("vote.sync.ballot.b32 $d, $a, -1", "i32", "p")
    add("match.any.sync.b32 $d, $a, -1", "i32", "few")
    add("match.all.sync.b32 $d|$e, $a, -1", "i32 p", "few")
    add("match.any.sync.b64 $d, $a, -1", "i32", "i64")
    for op in ["add", "min", "max"]:
        for t in ["u32", "s32"]:
            add(f"redux.sync.{op}.{t} $d, $a, -1", "i32", "i32")
    for op in ["and", "or", "xor"]:
        add(f"redux.sync.{op}.b32 $d, $a, -1", "i32", "i32")

    for space, at in [("global", "$m"), ("shared", "$s")]:
        atomics = [("u32", "i32", ["add", "min", "max", "inc", "dec"]), ("s32", "i32", ["add", "min", "max"]),
                   ("b32", "i32", ["and", "or", "xor", "exch"]), ("u64", "i64", ["add", "min", "max"]),
                   ("s64", "i64", ["min", "max"]), ("b64", "i64", ["and", "or", "xor", "exch"])]
        for t, kind, ops in atomics:
            bits = t[1:]
            for op in ops:
                add(f"st.{space}.b{bits} [{at}], $a; atom.{space}.{op}.{t} $d, [{at}], $b; ld.{space}.b{bits} $e, [{at}]",
                    f"{kind} {kind}", f"{kind} {kind}")
        for t, kind in [("b16", "i16"), ("b32", "i32"), ("b64", "i64")]:
            add(f"st.{space}.{t} [{at}], $a; atom.{space}.cas.{t} $d, [{at}], $b, $c; ld.{space}.{t} $e, [{at}]",
                f"{kind} {kind}", f"{kind} {kind} {kind}")
        for t in ["f32", "f64"]:
            add(f"st.{space}.{t} [{at}], $a; atom.{space}.add.{t} $d, [{at}], $b; ld.{space}.{t} $e, [{at}]",
                f"{t} {t}", f"{t} {t}")
        for t in ["f16", "f16x2", "bf16", "bf16x2"]:
            bits = WIDTH[t]
            # Driver 580 leaves the upper half of a pair in shared memory as it was.
            if (space, bits) != ("shared", 32):
                add(f"st.{space}.b{bits} [{at}], $a; atom.{space}.add.noftz.{t} $d, [{at}], $b; ld.{space}.b{bits} $e, [{at}]",
                    f"{t} {t}", f"{t} {t}")
        add(f"st.{space}.u32 [{at}], $a; red.{space}.add.u32 [{at}], $b; ld.{space}.u32 $d, [{at}]", "i32", "i32 i32")
        for size, kind in [("8", "i16"), ("16", "i16")]:
            add(f"st.{space}.u{size} [{at}], $a; ld.{space}.s{size} $d, [{at}]; ld.{space}.u{size} $e, [{at}]", "i32 i32", kind)
        add(f"st.{space}.v2.b32 [{at}], {{$a, $b}}; ld.{space}.b64 $d, [{at}]; ld.{space}.u8 $e, [{at}+5]", "i64 i16", "i32 i32")

    # Approximations: their vectors show how far two right answers may lie apart.
    for flush in ["", ".ftz"]:
        for op in ["ex2", "lg2", "rcp", "rsqrt", "sqrt"]:
            add(f"{op}.approx{flush}.f32 $d, $a", "f32", "f32")
        for op in ["sin", "cos"]:
            add(f"{op}.approx{flush}.f32 $d, $a", "f32", "angle")
        add(f"div.approx{flush}.f32 $d, $a, $b", "f32", "f32 f32")
        add(f"div.full{flush}.f32 $d, $a, $b", "f32", "f32 f32")
    add("tanh.approx.f32 $d, $a", "f32", "f32")
    add("rcp.approx.ftz.f64 $d, $a", "f64", "f64")
    add("rsqrt.approx.f64 $d, $a", "f64", "f64")
    add("rsqrt.approx.ftz.f64 $d, $a", "f64", "f64")
    add("ex2.approx.f16 $d, $a", "f16", "f16")
    add("ex2.approx.f16x2 $d, $a", "f16x2", "f16x2")
    add("ex2.approx.ftz.bf16 $d, $a", "bf16", "bf16")
    add("tanh.approx.f16 $d, $a", "f16", "f16")
    add("tanh.approx.bf16x2 $d, $a", "bf16x2", "bf16x2")
    # Beyond the first recording.
    for small in ["e4m3x2", "e5m2x2"]:
        for relu in ["", ".relu"]:
            add(f"cvt.rn.satfinite{relu}.{small}.f32 $d, $a, $b", "i16", "small small")
            add(f"cvt.rn.satfinite{relu}.{small}.f16x2 $d, $a", "i16", "f16x2")
            add(f"cvt.rn{relu}.f16x2.{small} $d, $a", "f16x2", "i16")
    add("fns.b32 $d, $a, $b, $c", "i32", "i32 five nth")
    for parts in "24":
        for t in ["u32", "s32"]:
            for op in ["vabsdiff", "vadd", "vsub", "vmin", "vmax"]:
                add(f"{op}{parts}.{t}.{t}.{t} $d, $a, $b, $c", "i32", "i32 i32 i32")
                add(f"{op}{parts}.{t}.{t}.{t}.add $d, $a, $b, $c", "i32", "i32 i32 i32")
    for op in ["min", "max"]:
        add(f"{op}.s16x2.relu $d, $a, $b", "i32", "i32 i32")
        add(f"{op}.relu.s32 $d, $a, $b", "i32", "i32 i32")
    for mode in ["rn", "rz"]:
        add(f"cvt.{mode}.tf32.f32 $d, $a", "i32", "f32")
        add(f"cvt.{mode}.relu.tf32.f32 $d, $a", "i32", "f32")
        for t in ["f16", "bf16"]:
            add(f"cvt.{mode}.satfinite.{t}.f32 $d, $a", t, "f32")
            add(f"cvt.{mode}.relu.satfinite.{t}.f32 $d, $a", t, "f32")
            add(f"cvt.{mode}.satfinite.{t}x2.f32 $d, $a, $b", f"{t}x2", "f32 f32")
            add(f"cvt.{mode}.relu.satfinite.{t}x2.f32 $d, $a, $b", f"{t}x2", "f32 f32")
    add("cvt.rna.satfinite.tf32.f32 $d, $a", "i32", "f32")
    for t in ["u8", "s8"]:
        add(f"cvt.pack.sat.{t}.s32.b32 $d, $a, $b, $c", "i32", "i32 i32 i32")
    for t in ["u16", "s16"]:
        add(f"cvt.pack.sat.{t}.s32 $d, $a, $b", "i32", "i32 i32")
    bf_ints = {"u16": "i16", "s16": "i16", "u32": "i32", "s32": "i32", "u64": "i64", "s64": "i64"}
    for t, kind in bf_ints.items():
        for mode in ["rn", "rz", "rm", "rp"]:
            add(f"cvt.{mode}.bf16.{t} $d, $a", "bf16", kind)
        for mode in ["rni", "rzi", "rmi", "rpi"]:
            add(f"cvt.{mode}.{t}.bf16 $d, $a", kind, "bf16")
    for mode in ["rn", "rz", "rm", "rp"]:
        add(f"cvt.{mode}.bf16.f16 $d, $a", "bf16", "f16")
        add(f"cvt.{mode}.f16.bf16 $d, $a", "f16", "bf16")
        add(f"cvt.{mode}.bf16.f64 $d, $a", "bf16", "f64")
        add(f"cvt.{mode[:2]}i.bf16.bf16 $d, $a", "bf16", "bf16")
    for mode in ["rm", "rp"]:
        add(f"cvt.{mode}.bf16.f32 $d, $a", "bf16", "f32")
    add("cvt.f64.bf16 $d, $a", "f64", "bf16")
    for t in ["f16x2", "bf16x2"]:
        add(f"tanh.approx.{t} $d, $a", t, t)
    add("ex2.approx.ftz.bf16x2 $d, $a", "bf16x2", "bf16x2")
    add("tanh.approx.bf16 $d, $a", "bf16", "bf16")
    for width, kind in [(16, "i64"), (8, "i32")]:
        t = "b64" if width == 16 else "b32"
        add(f"st.global.v2.{t} [$m], {{$a, $b}}; ld.global.v2.{t} {{$e, $d}}, [$m]", f"{kind} {kind}", f"{kind} {kind}")
        add(f"st.shared.v2.{t} [$s], {{$a, $b}}; ld.shared.v2.{t} {{$e, $d}}, [$s]", f"{kind} {kind}", f"{kind} {kind}")
    add("st.global.v2.f32 [$m], {$a, $b}; red.global.add.v2.f32 [$m], {$c, $f}; ld.global.v2.f32 {$d, $e}, [$m]",
        "f32 f32", "f32 f32 f32 f32")
    add("st.global.v2.b32 [$m], {$a, $b}; red.global.add.noftz.v2.f16x2 [$m], {$c, $f}; ld.global.v2.b32 {$d, $e}, [$m]",
        "f16x2 f16x2", "f16x2 f16x2 f16x2 f16x2")
    add("st.global.v2.b64 [$m], {$a, $b}; .reg .b128 %x, %y; mov.b128 %x, {$c, $f}; atom.global.exch.b128 %y, [$m], %x; "
        "mov.b128 {$d, $e}, %y", "i64 i64", "i64 i64 i64 i64")
    add("st.global.v2.b64 [$m], {$c, $f}; .reg .b128 %x, %y, %z; mov.b128 %x, {$a, $b}; mov.b128 %z, {$c, $f}; "
        "atom.global.cas.b128 %y, [$m], %z, %x; ld.global.v2.b64 {$d, $e}, [$m]", "i64 i64", "i64 i64 i64 i64")
    return out


REGISTER = {1: ("pred", "p"), 16: ("b16", "h"), 32: ("b32", "r"), 64: ("b64", "q")}


def kernel(index, template, results, operands):
    lines = [f".visible .entry form{index}(.param .u64 source, .param .u64 target, .param .u64 scratch)", "{",
             ".shared .align 16 .b8 cells[512];", ".reg .b64 %source, %target, %at, %m, %wide; .reg .b32 %row, %s;",
             ".reg .pred %spare;"]
    names = {}
    for letter, kind in list(zip("de", results)) + list(zip("abcf", operands)):
        ty, prefix = REGISTER[WIDTH[kind]]
        names[letter] = f"%{prefix}{letter}"
        lines.append(f".reg .{ty} {names[letter]};")
    lines += ["ld.param.u64 %source, [source]; ld.param.u64 %target, [target]; ld.param.u64 %m, [scratch];",
              "mov.u32 %row, %ctaid.x; shl.b32 %row, %row, 5; mov.u32 %s, %tid.x; add.u32 %row, %row, %s;",
              "mad.wide.u32 %source, %row, 32, %source; mad.wide.u32 %target, %row, 16, %target;",
              "mad.wide.u32 %m, %row, 16, %m; mov.u32 %row, cells; shl.b32 %s, %s, 4; add.u32 %s, %s, %row;"]
    for place, (letter, kind) in enumerate(zip("abcf", operands)):
        lines.append(f"ld.global.u64 %wide, [%source+{place * 8}];")
        width = WIDTH[kind]
        lines.append(f"setp.ne.u64 {names[letter]}, %wide, 0;" if width == 1 else
                     f"mov.b64 {names[letter]}, %wide;" if width == 64 else f"cvt.u{width}.u64 {names[letter]}, %wide;")
    text = template
    for letter, name in {**names, "m": "%m", "s": "%s", "p": "%spare"}.items():
        text = text.replace("$" + letter, name)
    lines.append(text + ";")
    for place, (letter, kind) in enumerate(zip("de", results)):
        width = WIDTH[kind]
        lines.append(f"selp.u64 %wide, 1, 0, {names[letter]};" if width == 1 else
                     f"mov.b64 %wide, {names[letter]};" if width == 64 else f"cvt.u64.u{width} %wide, {names[letter]};")
        lines.append(f"st.global.u64 [%target+{place * 8}], %wide;")
    return "\n".join(lines + ["ret;", "}"])


def main():
    out, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 32
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} gave {code}")

    call("cuInit", 0)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    buffers = [ctypes.c_uint64() for _ in range(3)]
    for buffer in buffers:
        call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(count * 32))
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    refused = 0
    with open(out, "w") as file:
        for index, (template, results, operands) in enumerate(forms()):
            # Drawn for those before FIRST too, so that the numbers do not depend on it.
            vectors = [[value(kind) for kind in operands] for _ in range(count)]
            if index < first:
                continue
            text = f".version 8.6\n.target sm_90\n.address_size 64\n{kernel(index, template, results, operands)}\n"
            log = ctypes.create_string_buffer(4096)
            options = (ctypes.c_int * 2)(5, 6)
            values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4096)
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            code = cuda.cuModuleLoadDataEx(ctypes.byref(module), text.encode(), 2, options, values)
            if code:
                refused += 1
                print(f"refused: {template}: {log.value.decode()}")
                continue
            call("cuModuleGetFunction", ctypes.byref(function), module, f"form{index}".encode())
            data = b"".join(struct.pack("<4Q", *(vector + [0] * (4 - len(vector)))) for vector in vectors)
            call("cuMemcpyHtoD_v2", buffers[0], data, ctypes.c_size_t(len(data)))
            parameters = (ctypes.c_void_p * 3)(*[ctypes.addressof(buffer) for buffer in buffers])
            call("cuLaunchKernel", function, count // 32, 1, 1, 32, 1, 1, 0, None, parameters, None)
            back = ctypes.create_string_buffer(count * 16)
            call("cuMemcpyDtoH_v2", back, buffers[1], ctypes.c_size_t(count * 16))
            call("cuModuleUnload", module)
            widths = [" ".join(str(WIDTH[kind]) for kind in kinds) for kinds in (results, operands)]
            file.write(f"form {template} | {widths[0]} | {widths[1]}\n")
            answers = struct.unpack(f"<{count * 2}Q", back.raw)
            keep = count if "sync" in template or count > 32 else count // 4
            for vector, answer in list(zip(vectors, zip(answers[::2], answers[1::2])))[:keep]:
                file.write(" ".join(f"{v:x}" for v in vector) + " = ")
                file.write(" ".join(f"{v:x}" for v in answer[: len(results)]) + "\n")
    print(f"{index + 1 - first} forms, {refused} refused, {count} vectors each")


if __name__ == "__main__":
    main()
