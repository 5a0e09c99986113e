"""Decoding rules with random options against plain rewrites of them, which see the model's logits alone.

A case ends without a verdict where a comparison of the rule is closer than rounding."""
import json
import math
import pathlib
import random

import dllm
import numpy as np
from compare import Difference, Refused

VOCAB, MASK, HIDDEN = 29, 28, 16


class Tie(Exception):
    """Two numbers that a rule compares are nearly equal."""


def apart(x: float, y: float) -> None:
    if abs(x - y) < 1e-5 and x != y:
        raise Tie


def softmax(logits: np.ndarray) -> np.ndarray:
    made = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return made / made.sum(axis=-1, keepdims=True)


class Canvas:
    """Token ids; which are given; and what the model says of the whole canvas."""

    def __init__(self, model, prompt, length, attention, block, shift, suppress):
        self.model, self.attention, self.block, self.shift, self.suppress = model, attention, block, shift, suppress
        self.ids = np.array(list(prompt) + [MASK] * length, np.int32)
        self.prompt, self.calls = len(prompt), 0

    def open(self, begin=0, end=None):
        end = len(self.ids) if end is None else end
        return [i for i in range(max(begin, self.prompt), end) if self.ids[i] == MASK]

    def predict(self, end=None, embeddings=None):
        """Probabilities (positions, vocab), and the logits they are of."""
        ids = self.ids[:end][None]
        batch = {"ids": ids} if embeddings is None else {"ids": ids, "embeddings": embeddings[None]}
        settings = {"attention": self.attention, "shift": self.shift}
        if self.attention == "block_causal":
            settings["block_length"] = self.block
        logits = np.array(self.model.forward(batch, **settings)["logits"][0])
        if self.suppress:
            logits[:, MASK] = -np.inf
        self.calls += 1
        return softmax(logits)


def best_of(row: np.ndarray) -> int:
    first, second = np.sort(row)[::-1][:2]
    apart(math.log(first + 1e-30), math.log(second + 1e-30))
    return int(row.argmax())


def largest(scores: dict, count: int) -> list:
    order = sorted(scores, key=lambda i: (-scores[i], i))
    if 0 < count < len(order):
        apart(scores[order[count - 1]], scores[order[count]])
    return order[:max(count, 0)]


def transfer_counts(masks: int, steps: int, even: bool) -> list:
    if even:
        return [masks // steps + (j < masks % steps) for j in range(min(steps, masks))]
    counts, left = [], masks
    for j in range(steps):
        t, s = (np.float32(1) - np.float32(1.0 - float(np.float32(x / steps))) for x in (steps - j, steps - j - 1))
        reveal = 1.0 if j + 1 == steps else 1.0 - float(np.float32(s / t))
        count = min(int(np.round(left * reveal)), left)  # half to even
        if count > 0:
            counts.append(count)
            left -= count
    return counts


def blocks_of(canvas: Canvas, length: int, from_zero: bool = False):
    begin = 0 if from_zero else canvas.prompt
    size = length or len(canvas.ids) - begin
    return [(at, min(at + size, len(canvas.ids))) for at in range(begin, len(canvas.ids), size)]


def planned(canvas: Canvas, options: dict) -> None:
    """low_confidence, bd3lm: the surest open positions, as many as the plan has."""
    blocks = blocks_of(canvas, options.get("block_length", 0))
    steps = options.get("steps_per_block") or math.ceil(options["steps"] / len(blocks))
    for begin, end in blocks:
        for count in transfer_counts(len(canvas.open(begin, end)), steps, options.get("plan") == "even"):
            open_ = canvas.open(begin, end)
            if not open_:
                break
            said = canvas.predict(end if canvas.attention == "block_causal" else None)
            tokens = {i: best_of(said[i]) for i in open_}
            for i in largest({i: float(said[i, tokens[i]]) for i in open_}, count):
                canvas.ids[i] = tokens[i]


def threshold(canvas: Canvas, options: dict) -> None:
    for begin, end in blocks_of(canvas, options["block_length"]):
        while canvas.open(begin, end):
            said, open_ = canvas.predict(), canvas.open(begin, end)
            scores = {i: float(said[i].max()) for i in open_}
            tokens = {i: best_of(said[i]) for i in open_}
            order = largest(scores, len(open_))
            for place, i in enumerate(order):
                apart(scores[i], options["threshold"])
                if place == 0:
                    largest(scores, 1)
                if place == 0 or scores[i] >= options["threshold"]:
                    canvas.ids[i] = tokens[i]


def factor_bound(canvas: Canvas, options: dict) -> None:
    """entropy_bound: in order of entropy while the sum without the largest stays below gamma."""
    for begin, end in blocks_of(canvas, options["block_length"]):
        while canvas.open(begin, end):
            said, open_ = canvas.predict(), canvas.open(begin, end)
            entropy = {i: float(-(said[i][said[i] > 0] * np.log(said[i][said[i] > 0])).sum()) for i in open_}
            tokens = {i: best_of(said[i]) for i in open_}
            order = sorted(open_, key=lambda i: (entropy[i], i))
            for first, second in zip(order, order[1:]):
                apart(entropy[first], entropy[second])
            total = 0.0
            for place, i in enumerate(order):
                if place > 0:
                    apart(total, options["gamma"])
                if place > 0 and total > options["gamma"]:
                    break
                canvas.ids[i] = tokens[i]
                total += entropy[i]


def dream(canvas: Canvas, options: dict) -> None:
    steps, eps = options["steps"], np.float32(options["eps"])
    times = np.linspace(np.float32(1), eps, steps + 1, dtype=np.float32)
    for step in range(steps):
        open_ = canvas.open()
        if not open_:
            break
        share = 1.0 if step + 1 == steps else float(np.float32(1) - np.float32(times[step + 1] / times[step]))
        exact = len(open_) * share
        if abs(exact - round(exact)) < 1e-4 and step + 1 < steps:
            raise Tie
        count = int(exact)
        if count == 0:
            continue
        said = canvas.predict()
        tokens = {i: best_of(said[i]) for i in open_}
        scores = {}
        for i in open_:
            row = np.sort(said[i])[::-1]
            kinds = {"maskgit_plus": row[0], "topk_margin": row[0] - row[1], "entropy": (row[row > 0] * np.log(row[row > 0])).sum()}
            scores[i] = float(kinds[options["alg"]])
        for i in largest(scores, count):
            canvas.ids[i] = tokens[i]


def spd(canvas: Canvas, options: dict) -> None:
    """Soft parallel decoding: leading masks that are sure; all decided ones of the block are revised."""
    table = np.array(canvas.model.param("model.embed_tokens.weight").read("f32"), np.float64)
    size, width = options["block_length"], options["mix_top_k"]
    total = len(canvas.open())
    steps = min(min(options["steps"], max(1, total // options["minimal_topk"])), size)
    for begin, end in blocks_of(canvas, size, from_zero=True):
        inside = [i for i in range(max(begin, canvas.prompt), end)]
        if not inside:
            continue
        soft: dict = {}
        for step in range(steps):
            embeddings = table[canvas.ids[:end]].copy()
            for i, (ids, weights) in soft.items():
                rest = max(0.0, 1.0 - weights.sum())
                mixed = weights @ table[ids] + rest * table[MASK]
                target = weights @ np.linalg.norm(table[ids], axis=1) + rest * np.linalg.norm(table[MASK])
                embeddings[i] = mixed * target / (np.linalg.norm(mixed) + 1e-6)
            said = canvas.predict(end, embeddings.astype(np.float32))
            was_open = [i for i in inside if canvas.ids[i] == MASK]
            tokens = {i: best_of(said[i]) for i in inside}
            sure = {i: float(said[i].max()) for i in inside}
            chosen = []
            for i in was_open:
                apart(sure[i], options["threshold"])
                if sure[i] < options["threshold"]:
                    break
                chosen.append(i)
            chosen = chosen or was_open[:1]
            before = canvas.ids.copy()
            for i in inside:
                apart(sure[i], options["confidence_stop"])
                if i not in was_open or i in chosen:
                    canvas.ids[i] = tokens[i]
                order = np.argsort(-said[i], kind="stable")[:width]
                if width > 1:
                    for first, second in zip(order, list(order[1:]) + [int(np.argsort(-said[i], kind="stable")[width])]):
                        apart(float(said[i, first]), float(said[i, second]))
                soft.pop(i, None)
                if canvas.ids[i] != MASK:
                    soft[i] = (order, said[i, order])
            if (before == canvas.ids).all() or all(sure[i] >= options["confidence_stop"] for i in inside):
                break


def case_of(rng: random.Random) -> tuple:
    """(policy, the rule, options, attention, from which position blocks count)."""
    steps = rng.randint(1, 14)
    block = rng.choice([0, 3, 4, 7])
    kind = rng.choice(["low_confidence", "bd3lm", "threshold", "entropy_bound", "dream", "spd"])
    if kind == "low_confidence":
        return kind, planned, {"steps": steps, "block_length": block, "plan": rng.choice(["schedule", "even"])}, "bidirectional"
    if kind == "bd3lm":
        return kind, planned, {"steps": steps, "block_length": rng.choice([2, 4, 5]), "steps_per_block": rng.choice([0, 1, 3])}, "block_causal"
    if kind == "threshold":
        return kind, threshold, {"block_length": block, "threshold": rng.choice([0.05, 0.1, 0.3, 0.9])}, "bidirectional"
    if kind == "entropy_bound":
        return kind, factor_bound, {"block_length": block, "gamma": rng.choice([0.1, 1.5, 4.0])}, "bidirectional"
    if kind == "dream":
        return kind, dream, {"steps": steps, "alg": rng.choice(["maskgit_plus", "topk_margin", "entropy"]), "eps": rng.choice([1e-3, 0.05])}, "bidirectional"
    return kind, spd, {"block_length": rng.choice([2, 4, 5]), "steps": steps, "minimal_topk": rng.choice([1, 2]), "threshold": rng.choice([0.05, 0.1, 0.3]),
                       "confidence_stop": rng.choice([0.2, 0.9, 2.0]), "mix_top_k": rng.choice([1, 1, 2, 3])}, "block_causal"


def run_case(seed: int, folder: pathlib.Path) -> None:
    rng = random.Random(seed)
    policy, rule, options, attention = case_of(rng)
    suppress = rng.random() < .5 if policy in ("low_confidence", "bd3lm", "dream", "spd") else True
    shift = rng.choice([0, 1]) if policy in ("low_confidence", "threshold", "dream") else 0
    config = {"model_type": "llama", "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
              "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": rng.random() < .5, "initializer_range": rng.choice([0.3, 0.6]),
              "dllm": {"attention": "bidirectional", "mask_token_id": MASK}}
    model = dllm.Model.new(config, seed=seed)
    prompt = [rng.randrange(MASK) for _ in range(rng.randint(1, 7))]
    length = rng.randint(1, 15)
    block = options.get("block_length", 0)
    if policy == "bd3lm":  # its grid begins behind the prompt
        prompt = prompt[:len(prompt) // block * block] or [1] * block
    if policy == "spd":
        length += -(len(prompt) + length) % block
    cache = rng.choice(["auto", "none"]) if policy == "bd3lm" else None
    about = f"{policy} {json.dumps(options)}, shift {shift}, suppress_mask {suppress}, prompt {prompt}, {length} open, cache {cache}"
    settings = {**options, "policy": policy, "gen_length": length, "shift": shift, "suppress_mask": suppress, **({"cache": cache} if cache else {})}
    settings["attention"] = attention
    decoder = dllm.Decoder(model, **settings)
    decoder.start(prompt)
    decoder.run()
    got = [int(x) for x in decoder.ids()]
    canvas = Canvas(model, prompt, length, attention, block, shift, suppress)
    try:
        rule(canvas, options)
    except Tie:
        raise Refused("a tie") from None
    want = [int(x) for x in canvas.ids]
    if got != want:
        raise Difference(f"{about}\n  ours   {got}\n  theirs {want}")
