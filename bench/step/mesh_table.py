#!/usr/bin/env python3
"""Training on meshes next to one rank: rows of a Markdown table.

    bench/step/mesh_table.py build/release/bin/dllm [--mpi] [--plugin FILE] [--meshes fsdp=4+tensor=2,...]

For each mesh the greatest relative difference of 20 losses from one rank, on threads (with --mpi also as processes of mpirun,
with --plugin also on devices of that plugin, next to one of them); what a rank has held at most of arrays and temporaries
(of threads the mean), and what `dllm graph` plans for it. Small models of three kinds: 8 heads of keys, 1 (passed round in a
ring), experts.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = {"model_type": "qwen3", "vocab_size": 512, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 8,
          "num_key_value_heads": 8, "head_dim": 16, "intermediate_size": 384, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True, "initializer_range": 0.1,
          "mask_token_id": 511}
EXPERTS = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "norm_topk_prob": True,
           "decoder_sparse_step": 1, "moe_intermediate_size": 96}
KINDS = {"": CONFIG, "ring": {**CONFIG, "num_key_value_heads": 1}, "experts": {**CONFIG, **EXPERTS}}
MESHES = [("", "data=2"), ("", "data=8"), ("", "fsdp=2"), ("", "fsdp=8"), ("", "tensor=2"), ("", "tensor=8"),
          ("", "fsdp=4+tensor=2"), ("", "data=2+fsdp=2+tensor=2"), ("", "sequence=2"), ("", "sequence=4"),
          ("", "fsdp=2+tensor=2+sequence=2"), ("ring", "sequence=2"), ("ring", "sequence=4"), ("experts", "expert=2"),
          ("experts", "expert=4"), ("experts", "fsdp=2+expert=2"), ("experts", "fsdp=2+sequence=2+expert=2")]


def ranks_of(mesh):
    count = 1
    for axis in mesh.split("+"):
        count *= int(axis.partition("=")[2] or 1)
    return count


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)

    def config(self, kind):
        path = self.folder / (kind or "plain") / "config.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(KINDS[kind]), encoding="utf8")
        return path

    def train(self, kind, mesh, engine, front=()):
        """What mesh_run.lua prints, of the first process."""
        values = {**engine, **({"mesh": mesh.replace("+", ",")} if mesh else {})}
        options = self.folder / "engine.json"
        options.write_text(json.dumps(values), encoding="utf8")
        words = [*front, self.program, "run", str(HERE / "mesh_run.lua"), str(self.config(kind)), str(options)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))

    def planned(self, kind, mesh):
        words = [self.program, "graph", "--model", str(self.config(kind)), "--what", "train", "--batch", "8", "--length", "64",
                 "--format", "json", "--engine.threads", "1"]
        if mesh:
            words += ["--engine.mesh", mesh.replace("+", ",")]
        return json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)["peak"]


def difference(got, wanted):
    return f"{max(abs(a - b) / abs(b) for a, b in zip(got, wanted, strict=True)):.1e}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--mpi", action="store_true")
    arguments.add_argument("--plugin")
    arguments.add_argument("--client", default="cpu_device_count=8", help="option pjrt.client for that plugin")
    arguments.add_argument("--meshes", help="of this list alone")
    chosen = arguments.parse_args()
    wanted_meshes = chosen.meshes.split(",") if chosen.meshes else [mesh for _, mesh in MESHES]
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(chosen.program, folder)
        threads = {"threads": 1}
        device = {"kind": "pjrt", "plugin": chosen.plugin, "pjrt.client": [chosen.client]}
        one, one_device = {}, {}
        print("| mesh | | threads | processes | devices | a rank holds MiB | plan MiB |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for kind, mesh in [(kind, "") for kind in KINDS] + [pair for pair in MESHES if pair[1] in wanted_meshes]:
            ran = runs.train(kind, mesh, threads)
            if not mesh:
                one[kind] = ran["losses"]
                if chosen.plugin:
                    one_device[kind] = runs.train(kind, mesh, device)["losses"]
            cells = ["-"] * 3
            if mesh:
                cells[0] = difference(ran["losses"], one[kind])
            if mesh and chosen.mpi:
                front = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks_of(mesh))]
                cells[1] = difference(runs.train(kind, mesh, {**threads, "processes": "mpi"}, front)["losses"], one[kind])
            if mesh and chosen.plugin:
                cells[2] = difference(runs.train(kind, mesh, device)["losses"], one_device[kind])
            name = f"`{mesh.replace('+', ',')}`" if mesh else "one rank"
            print(f"| {name} | {kind} | {' | '.join(cells)} | {ran['peak'] / ran['ranks'] / 2**20:.2f} | "
                  f"{runs.planned(kind, mesh) / 2**20:.2f} |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    main()
