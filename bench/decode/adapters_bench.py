#!/usr/bin/env python3
"""What a step of 8 requests costs with adapters: none, one for all, and one for each.

    DLLM_LIBRARY=build/release/lib/libdllm.so PYTHONPATH=bindings/python bench/decode/adapters_bench.py [--turns 5] [--hidden 576] [--rank 16]

The model is random. Prints, for a pass over whole canvases (low_confidence) and for one position of each request (autoregressive, with its
cache), the least milliseconds of a step by the processor and by the clock, in turns, and the launches of a step. Adapters of a weight other
than 1 have passes of their own. On a busy machine compare the processor times.
"""
import argparse
import time

import dllm

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--turns", type=int, default=5)
parser.add_argument("--hidden", type=int, default=576)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--rank", type=int, default=16)
parser.add_argument("--threads", type=int, default=2)
given = parser.parse_args()

REQUESTS, PROMPT, LENGTH = 8, 20, 16
heads = given.hidden // 64
model = dllm.Model.new({"model_type": "llama", "vocab_size": 2048, "hidden_size": given.hidden, "num_hidden_layers": given.layers,
                        "num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": 64, "intermediate_size": 8 * given.hidden // 3,
                        "max_position_embeddings": 1024, "tie_word_embeddings": True, "mask_token_id": 2047},
                       engine=dllm.Engine(threads=given.threads), seed=1)
for i in range(REQUESTS):
    model.add_adapter(f"a{i}", rank=given.rank)
CASES = {"base": [["none"]] * REQUESTS, "one adapter": [["a0"]] * REQUESTS, "two adapters": [[f"a{i % 2}"] for i in range(REQUESTS)],
         "four adapters": [[f"a{i % 4}"] for i in range(REQUESTS)],
         "base and one": [["none"]] + [["a0"]] * (REQUESTS - 1), "eight adapters": [[f"a{i}"] for i in range(REQUESTS)],
         "eight apart": [[f"a{i}:0.999"] for i in range(REQUESTS)]}


def steps(policy, adapters):
    """Milliseconds of each step by the processor and by the clock, after two steps that compile and fill caches, and launches of a step."""
    cached = {"cache": "auto"} if policy == "autoregressive" else {}
    decoder = dllm.Decoder(model, policy=policy, gen_length=LENGTH, steps=LENGTH, **cached)
    for i in range(REQUESTS):
        canvas = [(7 * i + j) % 2000 for j in range(PROMPT)] + [0] * LENGTH
        decoder.add(canvas, [1] * PROMPT + [0] * LENGTH, adapters=adapters[i])
    decoder.step(), decoder.step()
    launches, made = decoder.metric("launches", slot=-1), []
    for _ in range(LENGTH - 4):
        clock, processor = time.perf_counter(), time.process_time()
        decoder.step()
        made.append((1e3 * (time.process_time() - processor), 1e3 * (time.perf_counter() - clock)))
    return made, (decoder.metric("launches", slot=-1) - launches) / len(made)


print(f"{given.layers} layers, hidden {given.hidden}, rank {given.rank}, {given.threads} threads, {REQUESTS} requests, {given.turns} turns")
for policy in ("autoregressive", "low_confidence"):
    rows, launches = {name: [] for name in CASES}, {}
    for _ in range(given.turns):
        for name, adapters in CASES.items():
            made, launches[name] = steps(policy, adapters)
            rows[name] += made
    for name, made in rows.items():
        processor, clock = (min(step[i] for step in made) for i in (0, 1))
        print(f"{policy:15} {name:15} {processor:7.1f} ms of the processor, {clock:7.1f} ms by the clock, {launches[name]:.0f} launches")
