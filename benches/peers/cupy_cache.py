"""Times disk hits of CuPy's compile cache: one line in ("loaded" or "bare", and how many), one line out (nanoseconds
for each).

usage: cupy_cache.py SOURCE CACHE_FOLDER; says "absent REASON" and ends without CuPy or without a device that answers.

A hit in one process as a new one would have it: no cache in memory is asked. "loaded" is what a user waits for: CuPy's
key, the entry read and checked, and the driver's module load. "bare" leaves out the load, which this project's cache
does not do either.
"""

import os
import sys
import time


class Unloaded:
    """Stands where CuPy's module stands, and only keeps what it is to load."""

    def load(self, cubin):
        self.cubin = cubin


def refuse(*_args, **_options):
    raise RuntimeError("it compiled although its entry is there")


def main() -> None:
    path, folder = sys.argv[1:]
    # CuPy reads it on import.
    os.environ["CUPY_CACHE_DIR"] = folder
    os.environ["CUPY_CACHE_IN_MEMORY"] = "0"
    try:
        import cupy
        from cupy.cuda import compiler, function
        from cupy_backends.cuda.libs import nvrtc

        held = cupy.cuda.alloc(512)
        cupy.cuda.Device().synchronize()
        with open(path) as file:
            code = file.read()

        def hit():
            return compiler._compile_module_with_cache(code)

        hit()
        # From here on a miss ends the measurement.
        for name in ("compile_using_nvrtc", "_compile_using_nvrtc_no_warning"):
            if hasattr(compiler, name):
                setattr(compiler, name, refuse)
        loaded = function.Module
        function.Module = Unloaded
        size = len(hit().cubin)
        version = "{}.{}".format(*nvrtc.getVersion())
    except Exception as error:
        print("absent", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
        return

    print("ready", f"{cupy.__version__}/NVRTC-{version}", size, flush=True)
    for line in sys.stdin:
        what, count = line.split()
        function.Module = loaded if what == "loaded" else Unloaded
        held = [None] * int(count)
        start = time.perf_counter_ns()
        for i in range(int(count)):
            held[i] = hit()
        print((time.perf_counter_ns() - start) / int(count), flush=True)
        # Modules are unloaded here, outside of the clock.
        held.clear()


main()
