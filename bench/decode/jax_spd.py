"""Soft parallel decoding in JAX on the CPU with forced steps: peer of spd_bench.cpp (protocol: ../step/peer.h; a line
names the implementation, fast or kv_fast). Llama-like network with biases of q, k and v, random f32 weights, tied head.
Arguments: layers hidden heads kv_heads head_dim inner vocab prompt new block steps.

One jitted function per step and a Python loop around it: the loop costs microseconds, a step hundreds of milliseconds.
Only the block's rows go through the head in both implementations. Everything is compiled before "ready"."""
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

(layers, hidden, heads, kv_heads, head_dim, inner, vocab, prompt, new, block, steps) = map(int, sys.argv[1:12])
total, mask_id, group = prompt + new, vocab - 1, heads // kv_heads
random = np.random.default_rng(0)


def weight(*shape):
    return jnp.asarray(random.standard_normal(shape, dtype=np.float32) * 0.02)


def new_layer():
    width, kv = heads * head_dim, kv_heads * head_dim
    return dict(norm1=jnp.ones(hidden), norm2=jnp.ones(hidden), q=weight(hidden, width), k=weight(hidden, kv),
                v=weight(hidden, kv), o=weight(width, hidden), bq=jnp.zeros(width), bk=jnp.zeros(kv), bv=jnp.zeros(kv),
                gate=weight(hidden, inner), up=weight(hidden, inner), down=weight(inner, hidden))


net = dict(embed=weight(vocab, hidden), norm=jnp.ones(hidden), layers=[new_layer() for _ in range(layers)])


def rms(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rope(x, positions):
    half = head_dim // 2
    angle = positions[:, None] * (1e6 ** (-jnp.arange(half) / half))[None]
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def forward(net, x, positions, seen, cache):
    """x (rows, hidden), seen (rows, keys). cache None: keys are the rows; else a list of (K, V) of (total, kv_heads,
    head_dim), written at positions[0]. Returns the last hidden states and the cache."""
    kept = []
    for number, layer in enumerate(net["layers"]):
        h = rms(x, layer["norm1"])
        q = rope((h @ layer["q"] + layer["bq"]).reshape(-1, heads, head_dim), positions)
        k = rope((h @ layer["k"] + layer["bk"]).reshape(-1, kv_heads, head_dim), positions)
        v = (h @ layer["v"] + layer["bv"]).reshape(-1, kv_heads, head_dim)
        if cache is not None:
            k = jax.lax.dynamic_update_slice(cache[number][0], k, (positions[0], 0, 0))
            v = jax.lax.dynamic_update_slice(cache[number][1], v, (positions[0], 0, 0))
            kept.append((k, v))
        grouped = q.reshape(-1, kv_heads, group, head_dim)
        scores = jnp.einsum("qngd,knd->ngqk", grouped, k) * head_dim**-0.5
        shares = jax.nn.softmax(jnp.where(seen[None, None], scores, -jnp.inf), -1)
        x = x + jnp.einsum("ngqk,knd->qngd", shares, v).reshape(-1, heads * head_dim) @ layer["o"]
        h = rms(x, layer["norm2"])
        x = x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
    return rms(x, net["norm"]), kept


def inputs(net, ids, confidence):
    """Decided positions of the block: their token and the mask by confidence, at the mixed norm."""
    mask = net["embed"][mask_id]
    own = net["embed"][ids]
    share = confidence[:, None]
    mixed = share * own + (1 - share) * mask
    norm = partial(jnp.linalg.norm, axis=-1, keepdims=True)
    target = share * norm(own) + (1 - share) * norm(mask)
    soft = mixed * (target / (norm(mixed) + 1e-6))
    return jnp.where((ids == mask_id)[:, None], mask, soft)


def decide(net, hidden_states, ids):
    """hidden_states (block, hidden). Threshold is never reached: the leftmost mask alone is decided; what was decided
    becomes what the model says now."""
    logits = (hidden_states @ net["embed"].T).at[:, mask_id].set(-1e9)
    token, sure = jnp.argmax(logits, -1), jnp.max(jax.nn.softmax(logits, -1), -1)
    masked = ids == mask_id
    low = masked & (sure < 2.0)
    before_low = jnp.cumsum(low) == 0
    chosen = masked & before_low
    leftmost = masked & (jnp.cumsum(masked) == 1)
    chosen = jnp.where(chosen.any(), chosen, leftmost)
    result = jnp.where(masked & ~chosen, ids, token)
    return result, jnp.where(result == mask_id, 0.0, sure)


@jax.jit
def fast_step(net, canvas, begin, confidence):
    positions = jnp.arange(total)
    ids = jax.lax.dynamic_slice(canvas, (begin,), (block,))
    x = jax.lax.dynamic_update_slice(net["embed"][canvas], inputs(net, ids, confidence), (begin, 0))
    seen = positions[None] // block <= positions[:, None] // block
    out, _ = forward(net, x, positions, seen, None)
    ids, confidence = decide(net, jax.lax.dynamic_slice(out, (begin, 0), (block, hidden)), ids)
    return jax.lax.dynamic_update_slice(canvas, ids, (begin,)), confidence


def cached_pass(net, x, begin, cache):
    positions = begin + jnp.arange(x.shape[0])
    seen = jnp.arange(total)[None] // block <= positions[:, None] // block
    return forward(net, x, positions, seen, cache)


@partial(jax.jit, donate_argnums=4)
def cached_step(net, canvas, begin, confidence, cache):
    ids = jax.lax.dynamic_slice(canvas, (begin,), (block,))
    out, cache = cached_pass(net, inputs(net, ids, confidence), begin, cache)
    ids, confidence = decide(net, out, ids)
    return jax.lax.dynamic_update_slice(canvas, ids, (begin,)), confidence, cache


@partial(jax.jit, donate_argnums=3, static_argnums=4)
def hard_write(net, canvas, begin, cache, length):
    ids = jax.lax.dynamic_slice(canvas, (begin,), (length,))
    return cached_pass(net, net["embed"][ids], begin, cache)[1]


def decode(name):
    """Returns how many forward passes it took, the prefill not counted."""
    canvas = jnp.where(jnp.arange(total) < prompt, (jnp.arange(total) * 7919 + 13) % vocab, mask_id)
    cache, passes = None, 0
    if name == "kv_fast":
        empty = [(jnp.zeros((total, kv_heads, head_dim)), jnp.zeros((total, kv_heads, head_dim))) for _ in range(layers)]
        cache = hard_write(net, canvas, 0, empty, prompt)
    for begin in range(prompt, total, block):
        confidence = jnp.zeros(block)
        for _ in range(steps):
            if name == "fast":
                canvas, confidence = fast_step(net, canvas, begin, confidence)
            else:
                canvas, confidence, cache = cached_step(net, canvas, begin, confidence, cache)
            passes += 1
        if name == "kv_fast" and begin + block < total:  # the last block's is of no use
            cache = hard_write(net, canvas, begin, cache, block)
            passes += 1
    open_left = int((canvas == mask_id).sum())
    assert open_left == new - new // block * steps, open_left
    return passes


def warm():
    canvas, none = jnp.full(total, mask_id), jnp.zeros(block)
    jax.block_until_ready(fast_step(net, canvas, prompt, none))
    empty = [(jnp.zeros((total, kv_heads, head_dim)), jnp.zeros((total, kv_heads, head_dim))) for _ in range(layers)]
    cache = hard_write(net, canvas, 0, empty, prompt)
    cache = hard_write(net, canvas, 0, cache, block)
    jax.block_until_ready(cached_step(net, canvas, prompt, none, cache))


warm()
print("ready", flush=True)
for line in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    decode(line.strip())
    print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)
