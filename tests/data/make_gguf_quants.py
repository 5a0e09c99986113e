"""Makes gguf_quants.safetensors: pip install gguf==0.19.0 safetensors; python make_gguf_quants.py

For every block type, some blocks of bytes and what gguf.quants.dequantize makes of them. Bytes are random except the
f16 scales, which are finite; types that gguf can quantize get blocks of quantized normal numbers too.
"""
import gguf
import numpy as np
from safetensors.numpy import save_file

F16_AT = {  # byte offsets of the f16 fields of a block
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
QUANTIZES = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16"}

rng = np.random.default_rng(20260101)
arrays = {}
for name in ["F16", "BF16", *F16_AT]:
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    cols = max(block, 64)
    row_bytes = cols // block * size
    if name in ("F16", "BF16"):
        packed = rng.standard_normal((2, cols)).astype(np.float32)
        packed = gguf.quants.quantize(packed, kind).view(np.uint8).reshape(2, row_bytes)
    else:
        packed = rng.integers(0, 256, (3, row_bytes), dtype=np.uint8)
        for at in F16_AT[name]:
            for start in range(0, row_bytes, size):
                scale = (rng.standard_normal(3) * 0.05).astype(np.float16)
                packed[:, start + at:start + at + 2] = scale[:, None].view(np.uint8)
        if name in QUANTIZES:
            normal = rng.standard_normal((2, cols)).astype(np.float32)
            packed = np.concatenate([packed, gguf.quants.quantize(normal, kind)])
    values = gguf.quants.dequantize(packed if name not in ("F16",) else packed.view(np.float16), kind)
    arrays[name + ".packed"] = np.ascontiguousarray(packed)
    arrays[name + ".values"] = np.ascontiguousarray(values, dtype=np.float32)
save_file(arrays, "gguf_quants.safetensors")
