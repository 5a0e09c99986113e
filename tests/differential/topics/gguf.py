"""Random GGUF files (metadata of every type, alignment, block formats) against the values of llama.cpp's gguf package."""
import pathlib
import random

import dllm
import gguf as lib
import numpy as np
from compare import Difference, Refused, close, same
from gguf import GGMLQuantizationType as Type

FORMATS = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K,
           Type.IQ4_NL, Type.IQ4_XS]
# A file in one of these may be refused, with its name.
OTHERS = [Type.IQ2_XXS, Type.IQ2_XS, Type.IQ2_S, Type.IQ3_XXS, Type.IQ3_S, Type.IQ1_S, Type.IQ1_M, Type.TQ1_0, Type.TQ2_0]


def metadata(writer: lib.GGUFWriter, rng: random.Random) -> None:
    for number in range(rng.randint(0, 12)):
        key = f"own.key{number}" + rng.choice(["", ".ä", " with blank", "." + "x" * 60])
        kind = rng.randrange(13)
        if kind == 0: writer.add_uint8(key, rng.randrange(256))
        elif kind == 1: writer.add_int8(key, rng.randrange(-128, 128))
        elif kind == 2: writer.add_uint16(key, rng.randrange(1 << 16))
        elif kind == 3: writer.add_int16(key, -rng.randrange(1 << 15))
        elif kind == 4: writer.add_uint32(key, rng.randrange(1 << 32))
        elif kind == 5: writer.add_int32(key, -rng.randrange(1 << 31))
        elif kind == 6: writer.add_uint64(key, rng.randrange(1 << 64))
        elif kind == 7: writer.add_int64(key, -rng.randrange(1 << 63))
        elif kind == 8: writer.add_float32(key, rng.choice([0.0, -1.5, 1e30]))
        elif kind == 9: writer.add_float64(key, rng.choice([0.1, -1e300]))
        elif kind == 10: writer.add_bool(key, rng.random() < .5)
        elif kind == 11: writer.add_string(key, rng.choice(["", "text", "ünïcødé\n中文", "y" * 5000]))
        else: writer.add_array(key, rng.choice([[1, 2, 3], ["a", "", "ß"], [0.5, 1.5], [True, False], [[1, 2], [3, 4]], [["a"], ["b", "c"]]]))


def blocks(rng: random.Random, shape: tuple, kind: Type) -> tuple[np.ndarray, np.ndarray]:
    """(bytes or numbers as the writer takes them, their values)."""
    draw = np.random.default_rng(rng.randrange(1 << 32))
    if kind in (Type.F32, Type.F16):
        made = draw.normal(0, 0.1, shape).astype(np.float32 if kind == Type.F32 else np.float16)
        return made, made.astype(np.float32)
    if kind == Type.BF16:
        raw = lib.quants.quantize(draw.normal(0, 0.1, shape).astype(np.float32), kind)
        return raw, lib.quants.dequantize(raw, kind)
    per_block, size = lib.GGML_QUANT_SIZES[kind]
    raw = draw.integers(0, 256, (shape[0] * (shape[1] // per_block), size), dtype=np.uint8)
    for _ in range(200):  # scales are any bits: those of a block have to be numbers
        with np.errstate(all="ignore"):
            values = lib.quants.dequantize(raw, kind)
        bad = ~(np.isfinite(values) & (np.abs(values) < 1e3)).all(axis=1)
        if not bad.any():
            break
        raw[bad] = draw.integers(0, 256, (int(bad.sum()), size), dtype=np.uint8)
    return raw.reshape(shape[0], -1), values.reshape(shape)


def unpermuted(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q and k as transformers has them; llama.cpp's converter interleaves the halves of a head."""
    width = values.shape[0] // heads
    return values.reshape(heads, width // 2, 2, -1).swapaxes(1, 2).reshape(values.shape)


def run_case(seed: int, folder: pathlib.Path) -> None:
    rng = random.Random(seed)
    family = rng.choice(["llama", "qwen2", "qwen3"])
    hidden, heads, inner, vocab = 256, rng.choice([2, 4, 8]), rng.choice([256, 512]), rng.choice([64, 259])
    kv_heads = rng.choice([count for count in (1, 2, 4, 8) if heads % count == 0])
    layers, width = rng.randint(1, 2), hidden // heads
    path = folder / "model.gguf"
    writer = lib.GGUFWriter(str(path), family)
    if rng.random() < .5:
        writer.add_custom_alignment(rng.choice([8, 16, 32, 64, 256, 4096]))
    if rng.random() < .5:
        metadata(writer, rng)
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(vocab)
    if family == "qwen3":
        writer.add_key_length(width)
        writer.add_value_length(width)
    shapes = {"token_embd": (vocab, hidden), "output": (vocab, hidden)}
    ours = {"token_embd": "model.embed_tokens", "output": "lm_head"}
    if rng.random() < .3:
        del shapes["output"]
    for layer in range(layers):
        for theirs, own, rows, columns in (("attn_q", "self_attn.q_proj", heads * width, hidden), ("attn_k", "self_attn.k_proj", kv_heads * width, hidden),
                                           ("attn_v", "self_attn.v_proj", kv_heads * width, hidden), ("attn_output", "self_attn.o_proj", hidden, heads * width),
                                           ("ffn_gate", "mlp.gate_proj", inner, hidden), ("ffn_up", "mlp.up_proj", inner, hidden), ("ffn_down", "mlp.down_proj", hidden, inner)):
            shapes[f"blk.{layer}.{theirs}"], ours[f"blk.{layer}.{theirs}"] = (rows, columns), f"model.layers.{layer}.{own}"
    norms = ["output_norm"] + [f"blk.{layer}.{name}" for layer in range(layers) for name in ("attn_norm", "ffn_norm")]
    single = rng.choice(FORMATS if rng.random() < .9 else OTHERS) if rng.random() < .5 else None
    order, values, kinds = list(shapes) + norms, {}, {}
    rng.shuffle(order)
    for name in order:
        if name in norms:
            writer.add_tensor(name + ".weight", np.ones(hidden, np.float32))
            continue
        kinds[name] = single or rng.choice(FORMATS)
        raw, values[name] = blocks(rng, shapes[name], kinds[name])
        plain = kinds[name] in (Type.F32, Type.F16)
        writer.add_tensor(name + ".weight", raw, raw_dtype=None if plain else kinds[name])
    for layer in range(layers):
        if family == "qwen2":
            for name, rows in (("attn_q", heads * width), ("attn_k", kv_heads * width), ("attn_v", kv_heads * width)):
                writer.add_tensor(f"blk.{layer}.{name}.bias", np.zeros(rows, np.float32))
        if family == "qwen3":
            for name in ("attn_q_norm", "attn_k_norm"):
                writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    try:
        model = dllm.Model(path, dtype="f32")
    except dllm.Error as error:
        text = str(error).splitlines()[0].replace(str(path), "FILE")
        if single in OTHERS and f"has type {single.name}, which is not supported" in text:
            raise Refused(f"type {single.name}") from error
        raise Difference(f"{text}\n  {family}, {[kind.name for kind in kinds.values()]}") from error
    names = set(model.param_names())
    for name, want in values.items():
        own = ours[name] + ".weight"
        if own not in names:
            raise Difference(f"no parameter {own} among {sorted(names)}")
        if family == "llama" and name.endswith(("attn_q", "attn_k")):
            want = unpermuted(want, heads if name.endswith("q") else kv_heads)
        close(model.param(own).read("f32"), want, f"{name} of {kinds[name].name} in {family}", 1e-6, 1e-5)
    about = model.config()
    same((about["num_hidden_layers"], about["num_attention_heads"], about["num_key_value_heads"], about["intermediate_size"]), (layers, heads, kv_heads, inner), "config")
