"""Records what a GPU answers to the matrix instructions of a warp: `python3 record_tensor.py OUT [WARPS]`.

Needs a driver and a device of compute capability 9.0; nothing else. Each form becomes a kernel of which every block is one
warp. OUT gets, for each form, a line

    form BODY | inputs | words of output

where BODY is the text between a prologue that sets `%in`, `%out` (the warp's areas in global memory) and `%lane4` (4 times
the lane) and the end; inputs are `kind*count`, in the order in which they lie in the input area. Below it stands one line a
warp with the output in hexadecimal. Inputs are not written: `inputs` here and in `../tensor.rs` make the same numbers from the
number of the form and the warp. WARPS is the number a form; the default is 4, one for each style of numbers.
"""

import ctypes
import struct
import sys

MASK = (1 << 64) - 1
FLOATS = {"f16": (5, 10, 16), "bf16": (8, 7, 16), "f32": (8, 23, 32), "tf32": (8, 23, 32), "f64": (11, 52, 64),
          "e4m3": (4, 3, 8), "e5m2": (5, 2, 8), "tiny16": (8, 7, 16), "tiny32": (8, 23, 32)}


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        return z ^ z >> 31


def number(kind, style, r):
    """One element as bits. Styles: 0 close to one, 1 wide exponents and subnormals, 2 few bits and zeros, 3 anything."""
    if kind not in FLOATS:
        return r & 0xFFFFFFFF
    exponent_bits, fraction_bits, bits = FLOATS[kind]
    bias, most = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    exponent, fraction = r >> 1 & 0xFFFF, r >> 17 & ((1 << fraction_bits) - 1)
    if kind.startswith("tiny"):
        # Products and sums below the normal range of singles.
        return (r & 1) << (bits - 1) | exponent % (90 if bits == 16 else 4) << fraction_bits | fraction
    if style == 0:
        exponent = bias + exponent % 7 - 3
    elif style == 1:
        spread = min(most, 81)
        exponent = max(0, bias - spread // 2) + exponent % spread
        exponent = min(exponent, most - 1)
    elif style == 2:
        fraction &= ~((1 << max(fraction_bits - 2, 0)) - 1)
        exponent = bias + exponent % 3 - 1
        if r >> 60 < 6:
            exponent, fraction = 0, 0
    else:
        # Mostly small numbers, now and then what is none.
        exponent = most if r >> 56 < 3 else exponent % max(bias // 2, 2)
        if r >> 56 < 2:
            fraction = 0
    return (r & 1) << (bits - 1) | exponent << fraction_bits | fraction


def inputs(form, warp, kinds):
    """The bytes of a warp's input area."""
    rng, out = Random(form << 32 | warp), b""
    for kind, count in kinds:
        bits = FLOATS[kind][2] if kind in FLOATS else 32
        for _ in range(count):
            out += number(kind, warp % 4, rng.next()).to_bytes(bits // 8, "little")
    return out


BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
        "f32": 32, "s32": 32}


def area(kind, elements):
    """How many numbers of the generator hold so many elements."""
    return (kind, elements) if kind in FLOATS else ("b32", elements * BITS[kind] // 32)


def mma(shape, d, a, b, c, extra="", tail=""):
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    m, n, k = int(m), int(n), int(k)
    wide = a == "f64"
    size, ty = (8, "b64") if wide else (4, "b32")
    count = {"a": m * k * BITS[a] // (8 * size * 32), "b": k * n * BITS[b] // (8 * size * 32),
             "c": m * n * BITS[c] // (8 * size * 32), "d": m * n * BITS[d] // (8 * size * 32)}
    body = [".reg .b64 %i, %o; .reg .b32 %l"]
    if wide:
        body.append("shl.b32 %l, %lane4, 1")
    else:
        body.append("mov.u32 %l, %lane4")
    body.append("cvt.u64.u32 %o, %l; add.u64 %i, %in, %o; add.u64 %o, %out, %o")
    offset, names = 0, {}
    for which in "abcd":
        names[which] = ", ".join(f"%{which}{i}" for i in range(count[which]))
        body.append(f".reg .{'f64' if wide else ty} %{which}<{count[which]}>")
        if which != "d":
            for i in range(count[which]):
                body.append(f"ld.global.{'f64' if wide else ty} %{which}{i}, [%i+{offset}]")
                offset += 32 * size
    body.append(f"mma.sync.aligned.{shape}.row.col{extra}.{d}.{a}.{b}.{c}{tail} {{{names['d']}}}, {{{names['a']}}}, "
                f"{{{names['b']}}}, {{{names['c']}}}")
    for i in range(count["d"]):
        body.append(f"st.global.{'f64' if wide else ty} [%o+{i * 32 * size}], %d{i}")
    kinds = [area(a, m * k), area(b, k * n), area(c, m * n)]
    return "; ".join(body), kinds, m * n * BITS[d] // 32


def wmma(shape, la, lb, d, a, b, c, name, regs):
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    m, n, k = int(m), int(n), int(k)
    ra, rb, rc = regs
    ty = "f64" if a == "f64" else "b32"
    f = {"f32": "f32", "f64": "f64"}.get(c, "b32")
    body = [f".reg .{ty} %a<{ra}>, %b<{rb}>; .reg .{f} %c<{rc}>, %d<{rc}>"]
    at_b = m * k * BITS[a] // 8
    at_c = at_b + k * n * BITS[b] // 8
    lists = {x: ", ".join(f"%{x}{i}" for i in range(r)) for x, r in [("a", ra), ("b", rb), ("c", rc), ("d", rc)]}
    body.append(f"wmma.load.a.sync.aligned.{la}.{shape}.global.{a} {{{lists['a']}}}, [%in], {k if la == 'row' else m}")
    body.append(f"wmma.load.b.sync.aligned.{lb}.{shape}.global.{b} {{{lists['b']}}}, [%in+{at_b}], {n if lb == 'row' else k}")
    body.append(f"wmma.load.c.sync.aligned.col.{shape}.global.{c} {{{lists['c']}}}, [%in+{at_c}], {m}")
    body.append(f"wmma.mma.sync.aligned.{la}.{lb}.{shape}.{name} {{{lists['d']}}}, {{{lists['a']}}}, {{{lists['b']}}}, {{{lists['c']}}}")
    body.append(f"wmma.store.d.sync.aligned.row.{shape}.global.{d} [%out], {{{lists['d']}}}, {n}")
    return "; ".join(body), [area(a, m * k), area(b, k * n), area(c, m * n)], m * n * BITS[d] // 32


def rows(load, count, trans):
    """`ldmatrix` of what was stored plainly, or `stmatrix` of what is loaded plainly."""
    regs = ", ".join(f"%r{i}" for i in range(count))
    body = [".shared .align 16 .b8 tile[512]; .reg .b32 %r<4>, %s, %t; .reg .b64 %i, %o",
            "mov.u32 %s, tile; add.u32 %t, %s, %lane4; cvt.u64.u32 %o, %lane4; add.u64 %i, %in, %o; add.u64 %o, %out, %o",
            "shl.b32 %r0, %lane4, 2; add.u32 %s, %s, %r0"]
    t = ".trans" if trans else ""
    if load:
        body += [f"ld.global.u32 %r0, [%i+{i * 128}]; st.shared.u32 [%t+{i * 128}], %r0" for i in range(4)]
        body += ["bar.warp.sync -1", f"ldmatrix.sync.aligned.m8n8.x{count}{t}.shared.b16 {{{regs}}}, [%s]"]
        body += [f"st.global.u32 [%o+{i * 128}], %r{i}" for i in range(count)]
    else:
        body += [f"ld.global.u32 %r{i}, [%i+{i * 128}]" for i in range(count)]
        body += [f"stmatrix.sync.aligned.m8n8.x{count}{t}.shared.b16 [%s], {{{regs}}}", "bar.warp.sync -1"]
        body += [f"ld.shared.u32 %r0, [%t+{i * 128}]; st.global.u32 [%o+{i * 128}], %r0" for i in range(count)]
    return "; ".join(body), [("b32", 128)], count * 32


def forms():
    out = []
    for shape in ["m16n8k8", "m16n8k16"]:
        for d in ["f32", "f16"]:
            out.append(mma(shape, d, "f16", "f16", d))
        out.append(mma(shape, "f32", "bf16", "bf16", "f32"))
    for shape in ["m16n8k4", "m16n8k8"]:
        out.append(mma(shape, "f32", "tf32", "tf32", "f32"))
    for shape in ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"]:
        out.append(mma(shape, "f64", "f64", "f64", "f64"))
    for a in ["e4m3", "e5m2"]:
        for b in ["e4m3", "e5m2"]:
            out.append(mma("m16n8k32", "f32", a, b, "f32"))
    for shape in ["m8n8k16", "m16n8k16", "m16n8k32"]:
        for a, b in [("s8", "s8"), ("u8", "s8"), ("u8", "u8")]:
            out.append(mma(shape, "s32", a, b, "s32"))
            out.append(mma(shape, "s32", a, b, "s32", extra=".satfinite"))
    for shape in ["m8n8k32", "m16n8k32", "m16n8k64"]:
        out.append(mma(shape, "s32", "s4", "u4", "s32"))
        out.append(mma(shape, "s32", "u4", "s4", "s32", extra=".satfinite"))
    for shape in ["m8n8k128", "m16n8k128", "m16n8k256"]:
        out.append(mma(shape, "s32", "b1", "b1", "s32", tail=".xor.popc"))
        out.append(mma(shape, "s32", "b1", "b1", "s32", tail=".and.popc"))
    for shape in ["m16n16k16", "m32n8k16", "m8n32k16"]:
        for la, lb in [("row", "col"), ("col", "row"), ("row", "row"), ("col", "col")]:
            out.append(wmma(shape, la, lb, "f32", "f16", "f16", "f32", "f32.f32", (8, 8, 8)))
        out.append(wmma(shape, "row", "row", "f16", "f16", "f16", "f16", "f16.f16", (8, 8, 4)))
        bf = {"m16n16k16": (4, 4, 8), "m32n8k16": (8, 2, 8), "m8n32k16": (2, 8, 8)}[shape]
        out.append(wmma(shape, "row", "col", "f32", "bf16", "bf16", "f32", "f32.bf16.bf16.f32", bf))
        s8 = {"m16n16k16": (2, 2, 8), "m32n8k16": (4, 1, 8), "m8n32k16": (1, 4, 8)}[shape]
        out.append(wmma(shape, "row", "col", "s32", "s8", "s8", "s32", "s32.s8.s8.s32", s8))
        out.append(wmma(shape, "col", "row", "s32", "u8", "u8", "s32", "s32.u8.u8.s32", s8))
    out.append(wmma("m16n16k8", "row", "col", "f32", "tf32", "tf32", "f32", "f32.tf32.tf32.f32", (4, 4, 8)))
    out.append(wmma("m8n8k4", "row", "col", "f64", "f64", "f64", "f64", "f64.f64.f64.f64", (1, 1, 2)))
    for count in [1, 2, 4]:
        for trans in [False, True]:
            out.append(rows(True, count, trans))
            out.append(rows(False, count, trans))
    out.append(("; ".join([
        ".reg .b32 %r<2>; .reg .b64 %i, %o; cvt.u64.u32 %o, %lane4; add.u64 %i, %in, %o; add.u64 %o, %out, %o",
        "ld.global.u32 %r0, [%i]; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0; st.global.u32 [%o], %r1"]), [("b32", 32)], 32))
    for shape in ["m16n8k8", "m16n8k16"]:
        body, kinds, words = mma(shape, "f32", "bf16", "bf16", "f32")
        out.append((body, [(kind.replace("bf", "tiny").replace("f32", "tiny32"), n) for kind, n in kinds], words))
    return out


def kernel(body, in_bytes, out_bytes):
    return (".version 8.4\n.target sm_90\n.address_size 64\n"
            ".visible .entry form(.param .u64 source, .param .u64 target) {\n"
            ".reg .b64 %in, %out; .reg .b32 %lane4, %warp;\n"
            "ld.param.u64 %in, [source]; ld.param.u64 %out, [target]; mov.u32 %warp, %ctaid.x; mov.u32 %lane4, %tid.x;\n"
            f"shl.b32 %lane4, %lane4, 2; mad.wide.u32 %in, %warp, {in_bytes}, %in; mad.wide.u32 %out, %warp, {out_bytes}, %out;\n"
            f"{body};\nret;\n}}\n")


def main():
    out, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4
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
    buffers = [ctypes.c_uint64() for _ in range(2)]
    for buffer in buffers:
        call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(count * 8192))
    refused = 0
    with open(out, "w") as file:
        for index, (body, kinds, words) in enumerate(forms()):
            data = [inputs(index, warp, kinds) for warp in range(count)]
            text = kernel(body, len(data[0]), words * 4)
            log = ctypes.create_string_buffer(4096)
            options = (ctypes.c_int * 2)(5, 6)
            values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4096)
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            if cuda.cuModuleLoadDataEx(ctypes.byref(module), text.encode(), 2, options, values):
                refused += 1
                print(f"refused: {body}: {log.value.decode()}")
                continue
            call("cuModuleGetFunction", ctypes.byref(function), module, b"form")
            joined = b"".join(data)
            call("cuMemcpyHtoD_v2", buffers[0], joined, ctypes.c_size_t(len(joined)))
            parameters = (ctypes.c_void_p * 2)(*[ctypes.addressof(buffer) for buffer in buffers])
            call("cuLaunchKernel", function, count, 1, 1, 32, 1, 1, 0, None, parameters, None)
            back = ctypes.create_string_buffer(count * words * 4)
            call("cuMemcpyDtoH_v2", back, buffers[1], ctypes.c_size_t(count * words * 4))
            call("cuModuleUnload", module)
            answers = struct.unpack(f"<{count * words}I", back.raw)
            listed = " ".join(f"{kind}*{n}" for kind, n in kinds)
            file.write(f"form {index} | {body} | {listed} | {words}\n")
            for warp in range(count):
                file.write(" ".join(f"{word:x}" for word in answers[warp * words:(warp + 1) * words]) + "\n")
    print(f"{index + 1} forms, {refused} refused, {count} warps each")


if __name__ == "__main__":
    main()
