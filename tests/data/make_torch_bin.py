"""Makes torch_bin/*.bin and torch_bin/expected.safetensors: pip install torch; python make_torch_bin.py

What torch.save writes for state_dicts of every type that is read, with views, shared storages and parameters, and the same
numbers as safetensors. The evil files are what torch.load without weights_only would run.
"""
import collections
import json
import os
import pathlib

import torch

FOLDER = pathlib.Path(__file__).parent / "torch_bin"
FOLDER.mkdir(exist_ok=True)
torch.manual_seed(20260101)

TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64",
         torch.int64: "I64", torch.uint8: "U8", torch.bool: "BOOL"}


def save_file(named, path):
    """safetensors by hand: the header, then the numbers without gaps."""
    header, data = {}, b""
    for name, tensor in named.items():
        numbers = bytes(tensor.detach().clone().contiguous().untyped_storage())
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


storage = torch.randn(6, 5)
tensors = collections.OrderedDict()
tensors["f32"] = torch.randn(3, 4)
tensors["f16"] = torch.randn(3, 4).to(torch.float16)
tensors["bf16"] = torch.randn(2, 3).to(torch.bfloat16)
tensors["f64"] = torch.randn(2).to(torch.float64)
tensors["i64"] = torch.tensor([-(2**40), 7, 2**62])
tensors["u8"] = torch.arange(5, dtype=torch.uint8)
tensors["bool"] = torch.tensor([True, False, True])
tensors["scalar"] = torch.tensor(1.25)
tensors["empty"] = torch.zeros(0, 3)
tensors["whole"] = storage                    # these six share one storage
tensors["tied"] = storage
tensors["rows"] = storage[2:4]
tensors["transposed"] = storage.t()
tensors["columns"] = storage[:, 1:5:2]
tensors["cube"] = storage.reshape(2, 3, 5).permute(2, 0, 1)
tensors["parameter"] = torch.nn.Parameter(torch.randn(2, 2))
expected = {name: t.detach().clone().contiguous() for name, t in tensors.items()}
save_file(expected, FOLDER / "expected.safetensors")
torch.save(tensors, FOLDER / "types.bin")
torch.save(dict(tensors), FOLDER / "types_protocol_4.bin", pickle_protocol=4)

# The state_dict of a module has the attribute _metadata.
layer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
torch.save(layer.state_dict(), FOLDER / "module.bin")
save_file(layer.state_dict(), FOLDER / "module.safetensors")


class Runs:
    def __reduce__(self):
        return os.system, ("touch /tmp/dllm_was_here",)


torch.save({"w": torch.zeros(2), "x": Runs()}, FOLDER / "evil_system.bin")
torch.save({"w": torch.zeros(2), "x": layer}, FOLDER / "evil_module.bin")
torch.save({"w": torch.zeros(2), "step": 3}, FOLDER / "number.bin")
torch.save({"w": torch.zeros(2)}, FOLDER / "before_1_6.bin", _use_new_zipfile_serialization=False)
torch.save({"w": torch.zeros(1).expand(1000)}, FOLDER / "expanded.bin")
