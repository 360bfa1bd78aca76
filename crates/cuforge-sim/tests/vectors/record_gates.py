"""Asks a GPU whether mbarriers, bulk copies and clusters do what `gates.txt` says: `python3 record_gates.py [OUT]`.

Needs a driver and a device of compute capability 9.0; nothing else. `gates.txt` holds kernels, each as a line

    kernel NAME | blocks of a cluster | blocks | threads of a block

below it its body, and behind `=` the words that the PTX manual makes of it, in hexadecimal, one a thread of the grid. The head of
each kernel, `HEAD` here, is that of `../run/conformance.rs`, which runs the same kernels on the simulated device. Every
kernel that answers something else is told. OUT gets the file with the answers of the device in the place of the words.
"""

import ctypes
import pathlib
import struct
import sys

HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b){cluster} {{
.reg .pred %p<16>; .reg .b16 %h<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
.reg .b32 %t; .reg .b32 %b; .reg .b32 %g; .reg .b32 %n; .reg .b32 %s; .reg .b32 %o; .reg .b32 %w;
.reg .b64 %base; .reg .b64 %in; .reg .b64 %out;
.shared .align 8 .b64 gate; .shared .align 16 .b8 tile[512];
ld.param.u64 %base, [a]; ld.param.u64 %in, [b];
mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %g, %b, %n, %t;
mul.wide.u32 %out, %g, 4; add.s64 %out, %out, %base;
"""


def kernels(text):
    """Name, blocks of a cluster, blocks, threads, body and words of each kernel."""
    for part in text.split("kernel ")[1:]:
        head, rest = part.split("\n", 1)
        name, cluster, blocks, threads = (word.strip() for word in head.split("|"))
        body, words = rest.split("\n= ")
        yield name, int(cluster), int(blocks), int(threads), body + "\n", [int(word, 16) for word in words.split()]


def main():
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
    target, source = ctypes.c_uint64(), ctypes.c_uint64()
    for buffer in (target, source):
        call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(4096))
    call("cuMemcpyHtoD_v2", source, struct.pack("<1024I", *range(1000, 2024)), ctypes.c_size_t(4096))
    folder, total, wrong, answers = pathlib.Path(__file__).parent, 0, 0, []
    for name, cluster, blocks, threads, body, expected in kernels((folder / "gates.txt").read_text()):
        directive = f" .reqnctapercluster {cluster}, 1, 1" if cluster > 1 else ""
        text = HEAD.format(cluster=directive) + body + "ret;\n}\n"
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuMemsetD32_v2", target, 0xFFFFFFFF, ctypes.c_size_t(1024))
        call("cuModuleLoadData", ctypes.byref(module), text.encode())
        call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(target), ctypes.addressof(source))
        call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, parameters, None)
        call("cuCtxSynchronize")
        back = ctypes.create_string_buffer(len(expected) * 4)
        call("cuMemcpyDtoH_v2", back, target, ctypes.c_size_t(len(back)))
        call("cuModuleUnload", module)
        got = list(struct.unpack(f"<{len(expected)}I", back.raw))
        total += 1
        if got != expected:
            wrong += 1
            print(f"{name}: expected {expected[:8]}.., got {got[:8]}..")
        words = " ".join(f"{word:x}" for word in got)
        answers.append(f"kernel {name} | {cluster} | {blocks} | {threads}\n{body}= {words}\n")
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text("".join(answers))
    print(f"{total} kernels, {wrong} answer something else")


if __name__ == "__main__":
    main()
