#!/usr/bin/env python3
"""Makes checkpoints/VERSION: a checkpoint of a small run as that version of the library saves it, with the losses of the
steps after it in losses.json. Run it once with the library of a release; later versions go on from the checkpoint.

  DLLM_LIBRARY=.../libdllm.so python3 tests/data/make_checkpoint.py 0.2"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "bindings", "python"))
import dllm  # noqa: E402

CONFIG = {"model_type": "qwen3", "vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 40, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False, "initializer_range": 0.1,
          "mask_token_id": 30}
STEPS = 3  # before the checkpoint, and after it


def rows(position):
    """As TextSource(4, 16) of tests/unit/train/tiny.h."""
    starts = [(position * 4 + b) * 7 % 10 for b in range(4)]
    return {"ids": [[(start + i) % 10 * 2 + 3 for i in range(16)] for start in starts]}


def main():
    root = os.path.join(HERE, "checkpoints", sys.argv[1])
    model = dllm.Model.new(CONFIG, dllm.Engine(threads=1), seed=0)
    with dllm.Trainer(model, dllm.Objective("mdlm"), lr=3e-3, warmup=2, seed=7, ema=0.9,
                      freeze=["model.layers.0.*"]) as trainer:
        losses = [trainer.step(rows(position)) for position in range(STEPS)]
        dllm.save_checkpoint(trainer, None, root)
        losses += [trainer.step(rows(position)) for position in range(STEPS, 2 * STEPS)]
    with open(os.path.join(root, "losses.json"), "w", encoding="utf-8") as file:
        json.dump({"steps": STEPS, "losses": losses}, file)
        file.write("\n")


main()
