"""Writes a GGUF file of the shape of Qwen2.5-0.5B for llama.cpp: architecture dream, random weights, a vocabulary of bytes
and made-up tokens. Speed does not depend on what weights say.   make_gguf.py FILE f32|bf16|q8_0"""
import array
import os
import random
import struct
import sys

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, VOCAB = 24, 896, 4864, 14, 2, 151936
HEAD = HIDDEN // HEADS
TYPES = {"f32": (0, 1, 4), "q8_0": (8, 32, 34), "bf16": (30, 1, 2)}  # ggml's number, weights and bytes of a block
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


def vocabulary():
    """The 256 bytes as GPT-2 spells them, one merged pair, then names that no text contains."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelled = {byte: chr(byte) for byte in plain}
    spelled.update({byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in spelled)})
    names = [spelled[byte] for byte in range(256)] + ["ab"]
    return names + [f"<made_up_{i}>" for i in range(len(names), VOCAB)]


def header(name):
    tokens = vocabulary()
    keys = [entry("general.architecture", STRING, "dream"), entry("general.name", STRING, f"random {name}"),
            entry("dream.context_length", U32, 4096), entry("dream.embedding_length", U32, HIDDEN),
            entry("dream.block_count", U32, LAYERS), entry("dream.feed_forward_length", U32, INNER),
            entry("dream.attention.head_count", U32, HEADS), entry("dream.attention.head_count_kv", U32, KV_HEADS),
            entry("dream.attention.layer_norm_rms_epsilon", F32, 1e-6), entry("dream.rope.freq_base", F32, 1e6),
            entry("dream.attention.causal", BOOL, False), entry("diffusion.shift_logits", BOOL, False),
            entry("tokenizer.ggml.model", STRING, "gpt2"), entry("tokenizer.ggml.pre", STRING, "qwen2"),
            entries("tokenizer.ggml.tokens", STRING, tokens),
            entries("tokenizer.ggml.token_type", I32, [1] * 257 + [4] * (VOCAB - 257)),
            entries("tokenizer.ggml.merges", STRING, ["a b"]),
            entry("tokenizer.ggml.bos_token_id", U32, VOCAB - 3), entry("tokenizer.ggml.eos_token_id", U32, VOCAB - 2),
            entry("tokenizer.ggml.mask_token_id", U32, VOCAB - 1)]
    return keys


def tensors():
    """(name, shape with the row length first); vectors stay f32."""
    yield "token_embd.weight", (HIDDEN, VOCAB)
    yield "output_norm.weight", (HIDDEN,)
    kv = KV_HEADS * HEAD
    for i in range(LAYERS):
        for name, shape in (("attn_norm.weight", (HIDDEN,)), ("attn_q.weight", (HIDDEN, HIDDEN)), ("attn_q.bias", (HIDDEN,)),
                            ("attn_k.weight", (HIDDEN, kv)), ("attn_k.bias", (kv,)), ("attn_v.weight", (HIDDEN, kv)),
                            ("attn_v.bias", (kv,)), ("attn_output.weight", (HIDDEN, HIDDEN)), ("ffn_norm.weight", (HIDDEN,)),
                            ("ffn_gate.weight", (HIDDEN, INNER)), ("ffn_up.weight", (HIDDEN, INNER)),
                            ("ffn_down.weight", (INNER, HIDDEN))):
            yield f"blk.{i}.{name}", shape


def noise(kind):
    """About 4 MB of weights of a type, a whole number of blocks."""
    source = random.Random(1)
    if kind == "q8_0":
        return b"".join(struct.pack("<e", 0.0003) + source.randbytes(32) for _ in range(1 << 17))
    numbers = array.array("f", (source.gauss(0, 0.02) for _ in range(1 << 20)))
    return numbers.tobytes() if kind == "f32" else b"".join(numbers.tobytes()[i + 2:i + 4] for i in range(0, 4 << 20, 4))


def write(path, kind):
    keys, infos, plan, offset = header(kind), [], [], 0
    for name, shape in tensors():
        own = kind if len(shape) == 2 else "f32"
        number, block, size = TYPES[own]
        count = 1
        for length in shape:
            count *= length
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset))
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
    if len(sys.argv) != 3 or sys.argv[2] not in TYPES:
        raise SystemExit(__doc__)
    write(sys.argv[1], sys.argv[2])
