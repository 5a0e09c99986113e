"""What one call costs in Python: the smallest of many rounds, in nanoseconds."""
import time

import dllm
from dllm._lib import lib

CALLS, ROUNDS = 2_000, 50
CONFIG = {"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
          "num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": 32,
          "dllm": {"attention": "bidirectional", "mask_token_id": 1}}


def measure(name, call):
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter_ns() - begin) / CALLS)
    print(f"{name} {best:.1f}")


decoder = dllm.Decoder(dllm.Model.new(CONFIG), steps=2, gen_length=4)
decoder.start([2, 3], seed=7)
measure("version", lib.dllm_abi_version)
measure("metric", lambda: decoder.metric("open"))
measure("ids", decoder.ids)
measure("task", lambda: dllm.Task().close())
