"""What torch.testing.assert_close says, with its default tolerances, of outputs that a device left in a folder."""

import pathlib
import sys

import torch

TYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    # Only equality matters for these, and it does not depend on the sign.
    "u16": torch.int16, "u32": torch.int32, "u64": torch.int64,
}


def read(path, dtype):
    data = bytearray(path.read_bytes())
    return torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)


def judge(folder):
    outputs = sorted(folder.glob("*.got"))
    if (folder / "error").exists() or not outputs:
        return "raised"  # The launch failed or never ended, which nobody needs a comparison to see.
    for got_path in outputs:
        _, element, kind = got_path.name[: -len(".got")].rsplit(".", 2)
        dtype = TYPES[element]
        right = read(got_path.with_suffix(".right"), torch.float64 if kind == "f64" else dtype)
        try:
            torch.testing.assert_close(read(got_path, dtype), right.to(dtype))
        except AssertionError:
            return "failed"
    return "passed"


for folder in sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir()):
    print(folder.name, judge(folder))
