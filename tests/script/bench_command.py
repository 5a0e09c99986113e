"""dllm bench with its smallest shape: the fields of --json, every option of --help, and what it refuses.
   bench_command.py DLLM SCRATCH

No time is compared with another: only that figures are finite, positive and fit together."""
import json
import math
import pathlib
import signal
import subprocess
import sys
import time

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
program.empty_folder()

TINY = ("--preset", "tiny", "--repeat", "5", "--json")
POSITIVE = ("repeats", "median_seconds", "min_seconds", "rows_per_second", "flops", "gflops", "weight_bytes_read",
            "weight_bytes_per_second", "weight_bytes", "engine_peak_bytes", "process_peak_bytes", "parameters", "threads")
SIZES = {"step": {"rows": 256, "logits": "all"}, "prefill": {"rows": 256}, "decode": {"rows": 32, "context": 224},
         "train": {"batch": 4, "length": 64}}
CONFIG = {"model_type": "llama", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}


def line_of(*words):
    done = program.run("bench", *words)
    ok(done.returncode == 0, f"bench {' '.join(words)}: {done.stderr[-200:]}")
    ok(done.stdout.count("\n") == 1, f"bench {' '.join(words)}: one line")
    return json.loads(done.stdout)


def check_figures(line, what):
    for key in POSITIVE:
        value = line[key]
        ok(isinstance(value, (int, float)) and math.isfinite(value) and value > 0, f"{what}: {key} = {value}")
    for key in ("peak_gflops", "peak_share", "clock_peak_gflops", "clock_peak_share", "load"):
        ok(math.isfinite(line[key]) and line[key] >= 0, f"{what}: {key} = {line[key]}")
    ok(line["min_seconds"] <= line["median_seconds"], f"{what}: the fastest is not slower than the median")
    ok(line["repeats"] == 5 and line["interrupted"] is False, f"{what}: 5 repetitions, all of them")
    tokens = line.get("rows") or line["batch"] * line["length"]
    ok(math.isclose(line["rows_per_second"] * line["median_seconds"], tokens, rel_tol=1e-9), f"{what}: rows/s")
    ok(line["chip"] == "" or len(line["chip"]) > 2, f"{what}: chip")


def refused(words, message, code=2):
    done = program.run("bench", *words)
    ok(done.returncode == code and message in done.stderr, f"bench {' '.join(words)}: refused with \"{message}\": {done.stderr.splitlines()[:2]}")


for what, sizes in SIZES.items():
    line = line_of(what, *TINY)
    check_figures(line, what)
    ok(line["what"] == what and all(line[key] == value for key, value in sizes.items()), f"{what}: its sizes {sizes}")

# Every option of --help, with what it must change in the line; None: it is refused or tested below.
(SCRATCH / "shape.json").write_text(json.dumps(CONFIG))
(SCRATCH / "settings.json").write_text('{"rows": 24}')
CHANGES = {
    "--what": ("step", "decode", "what", "decode"), "--rows": ("step", "96", "rows", 96), "--context": ("decode", "64", "context", 64),
    "--batch": ("train", "3", "batch", 3), "--length": ("train", "16", "length", 16), "--logits": ("step", "none", "logits", "none"),
    "--format": ("step", "int8", "format", "int8"), "--repeat": ("step", "7", "repeats", 7), "--config": ("step", "settings.json", "rows", 24),
    "--engine.threads": ("step", "1", "threads", 1), "--arithmetic": ("step", "f32", "arithmetic", "f32"),
}
for option, (what, value, key, expected) in CHANGES.items():
    words = [*([] if option == "--what" else [what]), *TINY, option, value]
    if option == "--repeat":
        words = [what, "--preset", "tiny", "--json", option, value]
    ok(line_of(*words)[key] == expected, f"{option} {value}: {key} is {expected}")
full, none = line_of("step", *TINY), line_of("step", *TINY, "--logits", "none")
ok(none["flops"] < full["flops"] and none["weight_bytes_read"] < full["weight_bytes_read"], "--logits none: less work, fewer weights")
ok(line_of("step", *TINY, "--format", "int8")["weight_bytes"] < full["weight_bytes"], "--format int8: smaller weights")
ok(line_of("step", *TINY, "--model.attention", "causal")["flops"] < full["flops"], "--model.attention causal: fewer keys")
ok(line_of("step", "--preset", "tiny", "--json", "--seconds", "0")["repeats"] == 5, "--seconds 0: still 5 repetitions")
shape = line_of("step", "--model", "shape.json", "--repeat", "5", "--json")
ok(shape["random_weights"] and shape["family"] == "llama", "--model FILE.json: a shape with random weights")
for what in ("decode", "train"):
    line_of(what, "--model", "shape.json", "--repeat", "5", "--json")
# A causal model with weights of its own and without a mask token: all works.
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
made = program.run("train", "--objective", "ar", "--data", "corpus", "--rows", "line", "--layers", "2", "--hidden", "64", "--vocab", "300",
                   "--length", "48", "--batch", "4", "--steps", "2", "--out", "made")
ok(made.returncode == 0, f"a causal model: {made.stderr[-200:]}")
loaded = line_of("--model", "made", "--repeat", "5", "--json")["works"]
ok([line["what"] for line in loaded] == list(SIZES) and not loaded[2]["random_weights"], "a model with weights: all four works")
everything = line_of(*TINY)
ok([line["what"] for line in everything["works"]] == list(SIZES), "without a work: all four")
listed = program.options_of("bench") - {"--help", "--json", "--preset", "--model", "--seconds", *CHANGES}
ok(all(name.startswith(("--engine.", "--model.")) for name in listed), f"options that no line here has: {sorted(listed)}")

table = program.run("bench", "decode", "--preset", "tiny", "--repeat", "5").stdout
ok(all(word in table for word in ("median", "fastest", "rows/s", "GFLOP/s", "of the peak", "load average")), "the table has its rows")

refused(("stepp",), "did you mean step?")
refused(("step", "--preset", "125m"), "did you mean 135m?")
refused(("step", "--preset", "tiny", "--model", "shape.json"), "give one of them")
refused(("step", "--preset", "tiny", "--context", "4"), "--context is not a size of dllm bench step")
refused(("--preset", "tiny", "--rows", "4"), "name one of them")
refused(("decode", "--preset", "tiny", "--logits", "none"), "--logits is an option of dllm bench step")
refused(("step", "--preset", "tiny", "--logits", "last"), "all or none")
refused(("step", "--preset", "tiny", "--rows", "0"), "--rows takes 1 and more")
refused(("prefill", "--preset", "tiny", "--rows", "1"), "2 and more")
refused(("step", "--preset", "tiny", "--rows", "many"), "a whole number")
refused(("step", "--preset", "tiny", "--repeat", "4"), "--repeat takes 5 to")
refused(("step", "--preset", "tiny", "--seconds", "-1"), "--seconds takes 0 and more")
refused(("step", "--preset", "tiny", "--arithmetic", "int3"), "--arithmetic")
refused(("step", "--preset", "tiny", "--format", "int3"), "--format")
refused(("step", "--model", "nowhere"), "nowhere", 1)
(SCRATCH / "broken.json").write_text("{")
refused(("step", "--model", "broken.json"), "broken.json is not a JSON object", 1)

# Ctrl-C ends with what was measured.
child = subprocess.Popen([DLLM, "bench", "step", "--preset", "tiny", "--seconds", "50", "--json"], cwd=SCRATCH, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
time.sleep(3)
child.send_signal(signal.SIGINT)
text, _ = child.communicate(timeout=60)
ok(child.returncode == 130 and json.loads(text)["interrupted"] is True, f"Ctrl-C: the figures so far and exit code 130, not {child.returncode}")
sys.exit(1 if program.failures else 0)
