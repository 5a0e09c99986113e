#!/usr/bin/env python3
"""Which models fit which hardware, by the compilers of that hardware: rows of a Markdown table.

    bench/pjrt/fit_table.py build/release/bin/dllm [--models qwen3-0.6b,...] [--targets v5e:1x1,...] [--jobs train,decode]

Needs the plugins (scripts/fetch-plugins tpu cuda) in DLLM_PLUGINS or build/assets/plugins. Nothing runs. A target is one device,
or a mesh of devices behind @: v5e:2x4@fsdp=8 (+ between axes: v5e:2x4@fsdp=4+tensor=2). Bytes are those of one device.
  train    one step of --batch (8) x 512 with AdamW: f32 masters and moments, products of bf16, every layer recomputed
  decode   the steps of a block: 32 positions of a row against a cache of 2048 keys and values, bf16 weights; a row for each
           rank of data and fsdp
"sent" has the bytes by collective; loops over layers are counted, the steps of a decoding block as one. Every cell is compiled in a process of its own, one after the other. Raw answers go to --raw FILE, a JSON line each.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
JOBS = {
    "train": ["--what", "train", "--batch", "8", "--length", "512", "--remat", "true", "--pjrt.compute", "bf16"],
    "decode": ["--what", "decode", "--batch", "1", "--length", "2048", "--window", "32", "--plan.dtype", "bf16",
               "--pjrt.compute", "bf16"],
}


def gib(count):
    return f"{count / 2**30:.2f}" if count else "?"


def rows_of(mesh):
    """Requests that a mesh decodes at a time, at the least."""
    sizes = [axis.split("=") for axis in mesh.split("+") if axis]
    return math.prod(int(size) for axis, size in sizes if axis in ("data", "fsdp"))


def sent_of(exchanges):
    """"all_gather 0.25 (1), all_reduce 0.01 (57)": GiB, and calls."""
    parts = [f"{name} {gib(exchange['sent'])} ({exchange['calls']:.0f})" for name, exchange in sorted(exchanges.items())]
    return ", ".join(parts) or "-"


def ask(program, model, job, target, limit, batch):
    shape = HERE / "shapes" / model / "config.json"
    folder = os.environ.get("DLLM_PLUGINS", str(HERE.parents[1] / "build/assets/plugins"))
    hardware, _, mesh = target.partition("@")
    words = [program, "compile", "--model", str(shape), *JOBS[job], "--target", hardware, "--json", "--time-limit", str(limit)]
    if mesh:
        words += ["--mesh", mesh.replace("+", ",")]
    words[words.index("--batch") + 1] = str(batch if job == "train" else rows_of(mesh))
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False,
                          env=dict(os.environ, DLLM_PLUGINS=folder))
    return json.loads(done.stdout)[0]


def cells(answer):
    """(fits, needs, device) as the table has them."""
    plan = answer.get("plan")
    if plan is None:
        return answer["state"].replace("_", " "), "?", "?"
    info = plan["compiled"]
    needs, device = info["peak"], info["device"]
    if not needs:
        needs = info["argument"] + info["output"] - info["alias"] + info["temporary"]
    message = info.get("message", "")
    if "needs " in message:  # "does not fit: needs N bytes, has M bytes: ..."
        needs, device = (int(message.split(word)[1].split()[0]) for word in ("needs ", ", has "))
    fits = {True: "yes", False: "**no**", None: "?"}[info["fits"]]
    return fits, gib(needs), gib(device)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--models", default="qwen3-0.6b,qwen3-1.7b,qwen3-8b")
    arguments.add_argument("--targets", default="v5e:1x1,v6e:1x1,v4:2x2x1,h100")
    arguments.add_argument("--jobs", default="train,decode")
    arguments.add_argument("--batch", type=int, default=8, help="rows of a training step, of the whole mesh")
    arguments.add_argument("--limit", type=int, default=3600, help="seconds of one cell")
    arguments.add_argument("--raw", help="file that the answers are added to")
    chosen = arguments.parse_args()
    print("| model | job | target | fits | needs GiB | of GiB | arguments | temporaries | Tflop | sent | compile s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for model in chosen.models.split(","):
        for job in chosen.jobs.split(","):
            for target in chosen.targets.split(","):
                answer = ask(chosen.program, model, job, target, chosen.limit, chosen.batch)
                if chosen.raw:
                    with open(chosen.raw, "a", encoding="utf8") as raw:
                        raw.write(json.dumps({"model": model, "job": job, "cell": target, **answer}) + "\n")
                plan = answer.get("plan", {})
                info = plan.get("compiled", {})
                fits, needs, device = cells(answer)
                sent = sent_of(plan.get("exchanges") or {})
                print(f"| {model} | {job} | {target} | {fits} | {needs} | {device} | {gib(info.get('argument'))} | "
                      f"{gib(info.get('temporary'))} | {plan.get('flops', 0) / 1e12:.3g} | {sent} | "
                      f"{answer.get('cpu_seconds', 0):.0f} |", flush=True)


if __name__ == "__main__":
    main()
