#!/usr/bin/env python3
"""What a step of the sampler of a latent model costs, against its latents and its prompt, and next to the bound of its products.

    DLLM_LIBRARY=build/release/lib/libdllm.so PYTHONPATH=bindings/python bench/decode/latent_bench.py [--turns 5] [--width 768] [--depth 12]

The sizes are those of LDLM (arXiv 2605.07933): a denoiser of 12 layers of 768, which is random here. A step is the difference between two
runs of other lengths, so that reading the text is not in it. Bound: the operations of the products at the rate of NumPy's matrix product
(512, 768) x (768, 3072) in the same run, on as many threads. Prints the least milliseconds by the processor of all threads and by the
clock. On a busy machine compare the former with the bound times the threads.
"""
import argparse
import os
import time

import dllm

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--turns", type=int, default=5)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--depth", type=int, default=12)
parser.add_argument("--size", type=int, default=0, help="numbers of a latent; 0: the width")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--few", type=int, default=2, help="steps of the short run")
parser.add_argument("--many", type=int, default=6, help="steps of the long run")
given = parser.parse_args()

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(given.threads)
import numpy  # noqa: E402  its threads are set above

WIDTH, HEADS, VOCAB, POSITIONS = given.width, given.width // 64, 2048, 64
SIZE = given.size or WIDTH


def tower(**own):
    return {"model_type": "dllm_tower", "hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": 4 * WIDTH, **own}


def model_of(engine, latents, prompts):
    out = {"latent": {"rows": SIZE, "bias": True}}
    denoiser = {"num_hidden_layers": given.depth, "level": "adaptive", "level_size": 64, "positions": "learned", "max_position_embeddings": latents,
                "inputs": {"noised": {"size": SIZE}, "previous": {"size": SIZE, "bias": False}}, "dllm": {"heads": out}}
    if prompts:
        denoiser.update(mixer="self_cross_attention", context_size=WIDTH)
    parts = {
        "encoder": tower(num_hidden_layers=1, latents=latents, context_size=WIDTH, mixer="self_cross_attention", last_norm=False, dllm={"heads": out}),
        "decoder": tower(num_hidden_layers=1, latents=POSITIONS, context_size=SIZE, mixer="self_cross_attention", last_norm=False),
        "reader": tower(num_hidden_layers=1, dllm={"heads": {"lm": {"rows": VOCAB, "bias": True}}}),
        "denoiser": tower(**denoiser)}
    return dllm.Model.new({"model_type": "llama", "vocab_size": VOCAB, "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS,
                           "num_key_value_heads": HEADS, "head_dim": 64, "intermediate_size": 4 * WIDTH, "max_position_embeddings": 1024,
                           "tie_word_embeddings": True, "mask_token_id": VOCAB - 1, "dllm": {"parts": parts}}, engine=engine, seed=1)


def seconds(model, steps, requests, prompt):
    """Processor and clock of one run."""
    decoder = dllm.Decoder(model, policy="latent", steps=steps, gen_length=POSITIONS - prompt)
    for i in range(requests):
        decoder.add([(7 * i + j) % 2000 for j in range(prompt)] + [0] * (POSITIONS - prompt), [1] * prompt + [0] * (POSITIONS - prompt), seed=i)
    clock, processor = time.perf_counter(), time.process_time()
    decoder.run()
    return time.process_time() - processor, time.perf_counter() - clock


def step(model, requests, prompt):
    """Least milliseconds of a step by the processor and by the clock."""
    seconds(model, given.few, requests, prompt), seconds(model, given.many, requests, prompt)  # compiles
    runs = [[seconds(model, steps, requests, prompt) for steps in (given.few, given.many)] for _ in range(given.turns)]
    return [1e3 * (min(run[1][way] for run in runs) - min(run[0][way] for run in runs)) / (given.many - given.few) for way in (0, 1)]


def operations(latents, requests, prompt):
    """Of the products of one step: a multiplication with an addition counts as two."""
    layer = 12 * WIDTH * WIDTH  # q, k, v, out and the network
    row = given.depth * layer + (2 * SIZE + SIZE) * WIDTH
    pairs = given.depth * 2 * latents * WIDTH
    total = requests * latents * (row + pairs)
    if prompt:
        total += requests * given.depth * (latents * 2 * WIDTH * WIDTH + POSITIONS * 2 * WIDTH * WIDTH + latents * POSITIONS * 2 * WIDTH)
        total += requests * POSITIONS * layer  # the base
    return 2 * total


def product_rate():
    """Operations a second of NumPy's matrix product."""
    a, b = numpy.ones((512, 768), numpy.float32), numpy.ones((768, 3072), numpy.float32)
    times = []
    for _ in range(50):
        clock = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - clock)
    return 2 * 512 * 768 * 3072 / min(times)


engine = dllm.Engine(threads=given.threads)
rate = product_rate()
print(f"denoiser of {given.depth} layers of {WIDTH}, latents of {SIZE} numbers, {given.threads} threads, {rate / 1e9:.0f} Gflop/s in NumPy's products")
print("| latents | requests | prompt | processor ms | clock ms | bound ms of the clock | of the bound |\n|---|---|---|---|---|---|---|")
for latents, requests, prompt in ((16, 8, 0), (64, 1, 0), (64, 8, 0), (128, 4, 0), (256, 2, 0), (64, 8, 16), (64, 8, 48)):
    model = model_of(engine, latents, prompt > 0)
    processor, clock = step(model, requests, prompt)
    bound = 1e3 * operations(latents, requests, prompt) / rate
    print(f"| {latents} | {requests} | {prompt} | {processor:.1f} | {clock:.1f} | {bound:.1f} | {bound / clock:.2f} |", flush=True)
