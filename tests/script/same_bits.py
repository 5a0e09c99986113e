#!/usr/bin/env python3
"""Hashes of tokens, losses, weights and logits of some forty runs, one line each, to compare two builds of the library:

  DLLM_LIBRARY=old/libdllm.so tests/script/same_bits.py > old.txt
  DLLM_LIBRARY=new/libdllm.so tests/script/same_bits.py > new.txt; diff old.txt new.txt

f32 on one chip: every line must be equal, whatever --threads is."""
import argparse
import hashlib
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bindings", "python"), os.path.join(ROOT, "tests", "bindings", "python")]
import dllm  # noqa: E402
from tiny import Tiny  # noqa: E402

TRAININGS = [
    ("mdlm", {}, {}), ("mdlm", {}, {"ema": 0.9, "accumulate": 2}), ("mdlm", {"time_sampling": "low_discrepancy"}, {}),
    ("ar", {}, {}), ("nano", {}, {}), ("mdlm", {}, {"clip": 0.1, "weight_decay": 0.2}),
    ("mdlm", {}, {"schedule": "cosine", "warmup": 2, "steps": 12}), ("mdlm", {}, {"lr": 0.01}),
]
CONFIGS = {
    "llama": {}, "qwen2": {"model_type": "qwen2"}, "qwen3": {"model_type": "qwen3", "head_dim": 32},
    "grouped": {"num_key_value_heads": 1}, "untied": {"tie_word_embeddings": False},
    "gpt2": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64, "n_inner": 128},
    "causal": {"dllm": {"attention": "causal", "shift": 1}},
}


def digest(*parts):
    whole = hashlib.sha256()
    for part in parts:
        whole.update(bytes(memoryview(part).cast("B")) if not isinstance(part, bytes) else part)
    return whole.hexdigest()[:24]


def weights(model):
    parts = []
    for name in model.param_names():
        with model.param(name) as tensor:
            parts.append(bytes(tensor.view()))
    return parts


def attempt(name, run):
    try:
        print(f"{name:44} {run()}", flush=True)
    except dllm.errors.Error as error:  # both builds refuse it, with the same status
        print(f"{name:44} refused: {error.name}", flush=True)


def train(tiny, objective, settings, trainer_settings):
    model = dllm.Model.new(tiny.config(), tiny.engine, seed=5)
    mask = tiny.tokenizer.id("<|mask|>")
    made = dllm.Objective(objective, **({} if objective == "ar" else {"mask_id": mask}), **settings)
    with dllm.Trainer(model, made, seed=3, **trainer_settings) as trainer:
        loader = dllm.Loader(tiny.data, batch=4, length=32, epochs=0, seed=2)
        losses = []
        trainer.run(loader, 12, lambda event: losses.append(event.get("loss")))
        return digest(json.dumps(losses).encode(), *weights(model), *weights(trainer.model()))


def decode(tiny, model, policy, settings):
    decoder = dllm.Decoder(model, policy=policy, steps=8, gen_length=16, block_length=8, **settings)
    decoder.start(tiny.tokenizer.encode("the cat"), seed=11)
    decoder.run()
    return digest(json.dumps([int(i) for i in decoder.ids()]).encode())


def logits(tiny, change, dtype="f32"):
    config = {**tiny.config(), **{k: v for k, v in change.items() if k != "dllm"}}
    config["dllm"] = {**config["dllm"], **change.get("dllm", {})}
    model = dllm.Model.new(config, tiny.engine, seed=9, dtype=dtype)
    ids = [[(7 * i + j) % len(tiny.tokenizer) for i in range(24)] for j in range(2)]
    with model.forward({"ids": ids}) as result:
        with result.tensor("logits") as values:
            return digest(bytes(values.view()))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.parse_args()
    tiny = Tiny()
    for number, (objective, settings, trainer_settings) in enumerate(TRAININGS):
        attempt(f"train {number} {objective} {json.dumps({**settings, **trainer_settings})}",
                lambda: train(tiny, objective, settings, trainer_settings))
    model = dllm.Model.new(tiny.config(), tiny.engine, seed=5)
    with dllm.Trainer(model, dllm.Objective("mdlm", mask_id=tiny.tokenizer.id("<|mask|>")), seed=1) as trainer:
        trainer.run(dllm.Loader(tiny.data, batch=4, length=32, epochs=0, seed=2), 30)
    for policy in sorted(dllm.names("policy")):
        attempt(f"decode {policy}", lambda: decode(tiny, model, policy, {}))
        attempt(f"decode {policy} warm", lambda: decode(tiny, model, policy, {"temperature": 0.9}))
    for name, change in CONFIGS.items():
        attempt(f"logits {name}", lambda: logits(tiny, change))
    for dtype in ("bf16", "int8"):
        attempt(f"logits llama {dtype}", lambda: logits(tiny, {}, dtype))


if __name__ == "__main__":
    main()
