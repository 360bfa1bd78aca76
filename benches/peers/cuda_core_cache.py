"""Times disk hits of cuda.core's program cache: one line in (how many), one line out (nanoseconds for each).

usage: cuda_core_cache.py SOURCE CACHE_FOLDER ARCH, with cuda.core on PYTHONPATH and NVRTC on LD_LIBRARY_PATH.
"""

import sys
import time

import cuda.core as core
from cuda.core.utils import FileStreamProgramCache


def main() -> None:
    source, folder, arch = sys.argv[1:]
    with open(source) as file:
        code = file.read()
    options = core.ProgramOptions(arch=arch)
    cache = FileStreamProgramCache(folder)

    def hit() -> None:
        core.Program(code, "c++", options).compile("cubin", cache=cache)

    def raw_key_and_get() -> None:
        program = core.Program(code, "c++", options)
        cubin = program.compile("cubin", cache=cache)
        bytes(cubin.code)

    hit()
    print("ready", core.__version__, len(bytes(core.Program(code, "c++", options).compile("cubin", cache=cache).code)), flush=True)
    for line in sys.stdin:
        count = int(line)
        start = time.perf_counter_ns()
        for _ in range(count):
            raw_key_and_get()
        print((time.perf_counter_ns() - start) / count, flush=True)


main()
