"""The forward pass of a Llama-like model in PyTorch on the CPU, f32. Peer of forward_bench.cpp (protocol: peer.h).
Arguments: folder length threads file-for-the-logits."""
import json
import os
import sys
import time

import numpy
import torch
from torch.nn.functional import embedding, linear, rms_norm, scaled_dot_product_attention, silu

folder, length, threads, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.set_num_threads(threads)
config = json.load(open(os.path.join(folder, "config.json")))
hidden, heads, layers = config["hidden_size"], config["num_attention_heads"], config["num_hidden_layers"]
groups, eps = config.get("num_key_value_heads", heads), config["rms_norm_eps"]
head = config.get("head_dim") or hidden // heads


def read_weights(path):
    raw = numpy.fromfile(path, dtype=numpy.uint8)
    size = int(raw[:8].view("<u8")[0])
    header = json.loads(raw[8:8 + size].tobytes())
    header.pop("__metadata__", None)
    result = {}
    for name, entry in header.items():
        begin, end = (8 + size + place for place in entry["data_offsets"])
        assert entry["dtype"] == "F32", name
        result[name] = torch.from_numpy(raw[begin:end].copy().view("<f4").reshape(entry["shape"]))
    return result


w = read_weights(os.path.join(folder, "model.safetensors"))
table = w["model.embed_tokens.weight"]
out_weight = w.get("lm_head.weight", table)
rates = config.get("rope_theta", 10000.0) ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
angles = torch.arange(length, dtype=torch.float64)[:, None] * torch.cat([rates, rates])
cos, sin = angles.cos().float(), angles.sin().float()  # (place, head)


def rotate(x):  # (head, place, head_dim)
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


def cut(x, count):  # (place, heads * head_dim) -> (head, place, head_dim)
    return x.view(length, count, head).transpose(0, 1)


def forward(ids):
    x = embedding(ids, table)
    for i in range(layers):
        at = f"model.layers.{i}."
        n = rms_norm(x, (hidden,), w[at + "input_layernorm.weight"], eps)
        q = rotate(cut(linear(n, w[at + "self_attn.q_proj.weight"]), heads))
        k = rotate(cut(linear(n, w[at + "self_attn.k_proj.weight"]), groups))
        v = cut(linear(n, w[at + "self_attn.v_proj.weight"]), groups)
        k, v = (t.repeat_interleave(heads // groups, 0) for t in (k, v))
        a = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
        x = x + linear(a.transpose(0, 1).reshape(length, heads * head), w[at + "self_attn.o_proj.weight"])
        n = rms_norm(x, (hidden,), w[at + "post_attention_layernorm.weight"], eps)
        inner = silu(linear(n, w[at + "mlp.gate_proj.weight"])) * linear(n, w[at + "mlp.up_proj.weight"])
        x = x + linear(inner, w[at + "mlp.down_proj.weight"])
    return linear(rms_norm(x, (hidden,), w["model.norm.weight"], eps), out_weight)


ids = (torch.arange(length) * 7919 + 13) % table.shape[0]
with torch.inference_mode():
    forward(ids).numpy().tofile(out)
    forward(ids)
    print("ready", flush=True)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        forward(ids)
        print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)
