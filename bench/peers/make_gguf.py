"""Writes a GGUF file of a known shape with random weights and a vocabulary of bytes and made-up tokens. Speed does not
depend on what weights say.   make_gguf.py FILE f32|bf16|q8_0|q4_k [0.5b|1.5b-causal|dream-7b|llada-moe-7b]

0.5b: Qwen2.5-0.5B, dream-7b: Dream 7B (both of architecture dream), llada-moe-7b: LLaDA-MoE 7B-A1B. 1.5b-causal:
Qwen2.5-1.5B, tiny-causal: a small one for tests (both of architecture qwen2).
"""
import array
import dataclasses
import os
import random
import struct
import sys


@dataclasses.dataclass
class Shape:
    layers: int
    hidden: int
    inner: int  # of an expert where there are experts
    heads: int
    kv_heads: int
    vocab: int
    arch: str = "dream"
    tied: bool = False
    theta: float = 1e6
    experts: int = 0
    used: int = 0


SHAPES = {"0.5b": Shape(24, 896, 4864, 14, 2, 151936, tied=True),
          "1.5b-causal": Shape(28, 1536, 8960, 12, 2, 151936, "qwen2", tied=True),
          "tiny-causal": Shape(2, 64, 128, 4, 2, 512, "qwen2", tied=True),
          "dream-7b": Shape(28, 3584, 18944, 28, 4, 152064),
          "llada-moe-7b": Shape(16, 2048, 1024, 16, 16, 157184, "llada-moe", theta=5e4, experts=64, used=8)}
# ggml's number, weights and bytes of a block
TYPES = {"f32": (0, 1, 4), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144), "bf16": (30, 1, 2)}
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    packed = {U32: lambda: struct.pack("<I", value), F32: lambda: struct.pack("<f", value),
              BOOL: lambda: struct.pack("<?", value), STRING: lambda: text(value)}[kind]()
    return text(key) + struct.pack("<I", kind) + packed


def entries(key, kind, values):
    data = b"".join(text(v) for v in values) if kind == STRING else array.array("i", values).tobytes()
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + data


def vocabulary(shape):
    """The 256 bytes as GPT-2 spells them, one merged pair, then names that no text contains."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelled = {byte: chr(byte) for byte in plain}
    spelled.update({byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in spelled)})
    names = [spelled[byte] for byte in range(256)] + ["ab"]
    return names + [f"<made_up_{i}>" for i in range(len(names), shape.vocab)]


def header(name, shape):
    tokens = vocabulary(shape)

    def own(key, kind, value):
        return entry(f"{shape.arch}.{key}", kind, value)

    keys = [entry("general.architecture", STRING, shape.arch), entry("general.name", STRING, f"random {name}"),
            own("context_length", U32, 4096), own("embedding_length", U32, shape.hidden),
            own("block_count", U32, shape.layers), own("feed_forward_length", U32, shape.inner),
            own("attention.head_count", U32, shape.heads), own("attention.head_count_kv", U32, shape.kv_heads),
            own("attention.layer_norm_rms_epsilon", F32, 1e-6), own("rope.freq_base", F32, shape.theta),
            *([] if shape.arch == "qwen2" else [own("attention.causal", BOOL, False), entry("diffusion.shift_logits", BOOL, False)]),
            entry("tokenizer.ggml.model", STRING, "gpt2"), entry("tokenizer.ggml.pre", STRING, "qwen2"),
            entries("tokenizer.ggml.tokens", STRING, tokens),
            entries("tokenizer.ggml.token_type", I32, [1] * 257 + [4] * (shape.vocab - 257)),
            entries("tokenizer.ggml.merges", STRING, ["a b"]),
            entry("tokenizer.ggml.bos_token_id", U32, shape.vocab - 3), entry("tokenizer.ggml.eos_token_id", U32, shape.vocab - 2),
            entry("tokenizer.ggml.mask_token_id", U32, shape.vocab - 1)]
    if shape.experts:
        keys += [own("expert_count", U32, shape.experts), own("expert_used_count", U32, shape.used),
                 own("expert_feed_forward_length", U32, shape.inner)]
    return keys


def layer(shape):
    """(name, dimensions with the row length first)."""
    hidden, head = shape.hidden, shape.hidden // shape.heads
    kv = shape.kv_heads * head
    yield "attn_norm.weight", (hidden,)
    for name, rows in (("attn_q", hidden), ("attn_k", kv), ("attn_v", kv)):
        yield name + ".weight", (hidden, rows)
        if not shape.experts:
            yield name + ".bias", (rows,)
    if shape.experts:
        yield "attn_q_norm.weight", (head,)
        yield "attn_k_norm.weight", (head,)
    yield "attn_output.weight", (hidden, hidden)
    yield "ffn_norm.weight", (hidden,)
    if shape.experts:
        yield "ffn_gate_inp.weight", (hidden, shape.experts)
    suffix, experts = ("_exps", (shape.experts,)) if shape.experts else ("", ())
    yield f"ffn_gate{suffix}.weight", (hidden, shape.inner, *experts)
    yield f"ffn_up{suffix}.weight", (hidden, shape.inner, *experts)
    yield f"ffn_down{suffix}.weight", (shape.inner, hidden, *experts)


def tensors(shape):
    """Vectors and routers stay f32."""
    yield "token_embd.weight", (shape.hidden, shape.vocab)
    yield "output_norm.weight", (shape.hidden,)
    if not shape.tied:
        yield "output.weight", (shape.hidden, shape.vocab)
    for i in range(shape.layers):
        for name, dimensions in layer(shape):
            yield f"blk.{i}.{name}", dimensions


def noise(kind):
    """About 4 MB of weights of a type, a whole number of blocks."""
    source = random.Random(1)
    if kind == "q8_0":
        return b"".join(struct.pack("<e", 0.0003) + source.randbytes(32) for _ in range(1 << 17))
    if kind == "q4_k":  # d, dmin: weights about as wide as those of other types
        return b"".join(struct.pack("<ee", 0.00013, 0.001) + source.randbytes(140) for _ in range(1 << 15))
    numbers = array.array("f", (source.gauss(0, 0.02) for _ in range(1 << 20)))
    return numbers.tobytes() if kind == "f32" else b"".join(numbers.tobytes()[i + 2:i + 4] for i in range(0, 4 << 20, 4))


def write(path, kind, shape):
    keys, infos, plan, offset = header(kind, shape), [], [], 0
    for name, dimensions in tensors(shape):
        own = kind if len(dimensions) >= 2 and "ffn_gate_inp" not in name else "f32"
        number, block, size = TYPES[own]
        count = 1
        for length in dimensions:
            count *= length
        infos.append(text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, number, offset))
        plan.append((own, count // block * size))
        offset += -(-plan[-1][1] // 32) * 32
    made = {own: noise(own) for own in {"f32", kind}}
    with open(path + ".part", "wb") as file:
        head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
        file.write(head + bytes(-len(head) % 32))
        for own, size in plan:
            data = made[own]
            for begin in range(0, size, len(data)):
                file.write(data[:min(len(data), size - begin)])
            file.write(bytes(-size % 32))
    os.rename(path + ".part", path)


if __name__ == "__main__":
    name = sys.argv[3] if len(sys.argv) == 4 else "0.5b"
    if len(sys.argv) not in (3, 4) or sys.argv[2] not in TYPES or name not in SHAPES:
        raise SystemExit(__doc__)
    write(sys.argv[1], sys.argv[2], SHAPES[name])
