"""The text of one of our training steps, run by JAX on the plugin that we use: peer of step_bench.cpp (protocol:
../step/peer.h; a line has the number of steps). Arguments: the plugin, a folder with step.mlir (the text), step.json
(arguments, and which result takes whose place) and the numbers of every argument.

As in our step: what a batch brings is uploaded for every step, state stays on the device and is donated, at most two
steps are unread, the numbers of each are read."""
import json
import os
import sys
import time
from collections import deque

os.environ["JAX_PLATFORMS"] = "peer"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import jax
import numpy as np
from jax._src import xla_bridge
from jax._src.lib import _jax, xla_client

plugin, folder = sys.argv[1:3]
xla_bridge.register_plugin("peer", library_path=plugin)
device = jax.devices()[0]
with open(os.path.join(folder, "step.mlir")) as file:
    text = file.read()
with open(os.path.join(folder, "step.json")) as file:
    about = json.load(file)
types = {"f32": np.float32, "i32": np.int32, "u8": np.uint8, "i64": np.int64}


def numbers(argument):
    flat = np.fromfile(os.path.join(folder, argument["file"]), dtype=types[argument["dtype"]])
    return flat.reshape(argument["shape"])


program = device.client.compile_and_load(text, _jax.DeviceList((device,)), xla_client.CompileOptions())
host = [numbers(argument) for argument in about["arguments"]]
fed = [i for i, argument in enumerate(about["arguments"]) if argument["fed"]]
arrays = [jax.device_put(one, device) for one in host]
kept = [(r, result["replaces"]) for r, result in enumerate(about["results"]) if result["replaces"] >= 0]
read = next(r for r, result in enumerate(about["results"]) if result["name"] == "numbers")


def steps(count):
    unread = deque()
    for _ in range(count):
        if len(unread) == 2:
            np.asarray(unread.popleft())
        for i in fed:
            arrays[i] = jax.device_put(host[i], device)
        results = program.execute_sharded(arrays).disassemble_into_single_device_arrays()
        for r, place in kept:
            arrays[place] = results[r][0]
        unread.append(results[read][0])
    return [np.asarray(one) for one in unread]


assert np.isfinite(steps(3)[-1]).all()
print("ready", flush=True)
for line in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    steps(int(line))
    print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)
