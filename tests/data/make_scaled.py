"""Writes tests/data/scaled/*.safetensors: matrices of 8 bits with scales, and the numbers that torch computes from them.
Needs torch and safetensors: python3 tests/data/make_scaled.py. Each file is one quantization_config."""
import pathlib

import torch
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).parent / "scaled"
torch.manual_seed(0)


def e4m3(*shape):
    return (torch.randn(shape) * 60).clamp(-448, 448).to(torch.float8_e4m3fn)


def int8(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def scales(*shape, dtype=torch.float32):
    return (torch.rand(shape) * 0.01 + 0.001).to(dtype)


def add(tensors, name, weight, scale, block, ending="_scale", box=None):
    rows, columns = weight.shape
    wide = scale.float().reshape(scale.shape if scale.ndim == 2 else (-1, 1))
    wide = wide.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)[:rows, :columns]
    numbers = weight.float() * wide
    if box:
        numbers = numbers[box[0]:, box[1]:]
    tensors |= {f"{name}.weight": weight, f"{name}.weight{ending}": scale, f"{name}.expected": numbers.contiguous()}


plain, blocks, groups, usual = {}, {}, {}, {}
add(plain, "tensor", e4m3(20, 48), scales(1), (20, 48))
add(plain, "rows", e4m3(20, 48), scales(20, 1, dtype=torch.bfloat16), (1, 48))
add(plain, "integers", int8(20, 48), scales(20, 1, dtype=torch.bfloat16), (1, 48))
add(plain, "flat", int8(20, 48), scales(20), (1, 48))
every = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(torch.float8_e4m3fn).reshape(1, 256)
add(plain, "every", every, torch.ones(1), (1, 256))
plain["tensor.input_scale"] = scales(1)
add(blocks, "blocks", e4m3(37, 80), scales(3, 3), (16, 32), "_scale_inv")
add(groups, "groups", int8(20, 64), scales(20, 2, dtype=torch.float16), (1, 32))
add(usual, "usual", e4m3(130, 131), scales(2, 2), (128, 128), "_scale_inv", (125, 120))
for name, tensors in (("plain", plain), ("blocks", blocks), ("groups", groups), ("usual", usual)):
    save_file(tensors, FOLDER / f"{name}.safetensors")
