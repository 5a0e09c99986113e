"""Random layouts of checkpoints (order, shards, types, headers) against the safetensors package."""
import json
import pathlib
import random
import struct

import dllm
import numpy as np
import torch
from compare import Difference, close
from safetensors import safe_open

CONFIG = {"model_type": "llama", "vocab_size": 37, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 32, "tie_word_embeddings": False}
TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def shapes() -> dict[str, tuple]:
    made = {"model.embed_tokens.weight": (37, 16), "lm_head.weight": (37, 16), "model.norm.weight": (16,)}
    for layer in range(2):
        for name, shape in (("self_attn.q_proj", (16, 16)), ("self_attn.k_proj", (8, 16)), ("self_attn.v_proj", (8, 16)), ("self_attn.o_proj", (16, 16)),
                            ("mlp.gate_proj", (24, 16)), ("mlp.up_proj", (24, 16)), ("mlp.down_proj", (16, 24)), ("input_layernorm", (16,)), ("post_attention_layernorm", (16,))):
            made[f"model.layers.{layer}.{name}.weight"] = shape
    return made


def write(path: pathlib.Path, tensors: list, rng: random.Random) -> None:
    """By hand: the header in any order, padded or not, the data in another."""
    places, data = {}, b""
    laid = list(tensors)
    rng.shuffle(laid)
    for name, kind, tensor in laid:
        raw = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        places[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    names = [name for name, _, _ in tensors]
    rng.shuffle(names)
    header: dict = {}
    if rng.random() < .6:
        header["__metadata__"] = {"format": "pt", **({"ä": "ünïcødé \n"} if rng.random() < .5 else {})}
    for name in names:
        entry = list(places[name].items())
        rng.shuffle(entry)
        header[name] = dict(entry)
    if rng.random() < .3 and "__metadata__" in header:
        header["__metadata__"] = header.pop("__metadata__")
    text = json.dumps(header, ensure_ascii=rng.random() < .5, separators=rng.choice([(",", ":"), (", ", ": ")])).encode()
    text += b" " * rng.choice([0, -len(text) % 8, rng.randrange(64)])
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def run_case(seed: int, folder: pathlib.Path) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    one = rng.choice(list(TYPES)) if rng.random() < .4 else None
    tensors = []
    for name, shape in shapes().items():
        kind = one or rng.choice(list(TYPES))
        tensors.append((name, kind, (torch.randn(shape, dtype=torch.float64) * rng.choice([1e-4, 0.1, 100.0])).to(TYPES[kind])))
    if rng.random() < .2:  # not a weight of the model
        tensors.append(("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", torch.ones(2)))
    count = rng.choice([1, 1, 2, 3, 7])
    if count == 1:
        write(folder / "model.safetensors", tensors, rng)
        files = [folder / "model.safetensors"]
    else:
        rng.shuffle(tensors)
        files, places = [], {}
        for number in range(count):
            name = f"model-{number + 1:05}-of-{count:05}.safetensors"
            part = tensors[number::count]
            write(folder / name, part, rng)
            places.update({tensor: name for tensor, _, _ in part})
            files.append(folder / name)
        order = list(places.items())
        rng.shuffle(order)
        index: dict = {"weight_map": dict(order)}
        if rng.random() < .7:
            index["metadata"] = {"total_size": rng.choice([0, 12345, 1.5])}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    want = {}
    for path in files:
        with safe_open(str(path), framework="pt") as given:
            want.update({name: given.get_tensor(name) for name in given.keys()})
    dtype = rng.choice(["f32", "f32", "auto", "bf16", "f16"])
    model = dllm.Model(folder, dtype=dtype, seed=seed)
    for name in model.param_names():
        if name not in want:
            raise Difference(f"parameter {name} is not in the files: {sorted(want)}")
        expected = want[name]
        if dtype in ("bf16", "f16") and expected.dim() == 2:
            expected = expected.float().to(TYPES[dtype.upper()])
        if dtype == "auto":
            close(model.param(name).read("f32"), expected.float().numpy(), f"{name} {expected.dtype} as {model.param(name).dtype}", 1e-6, 1e-2)
            continue
        own = model.param(name)
        got = own.read("f32")
        exact = own.dtype == "f32" or dtype in ("bf16", "f16")
        close(got, expected.float().numpy(), f"{name} {want[name].dtype} as {own.dtype}", 0 if exact else 1e-6, 0 if exact else 1e-2)
