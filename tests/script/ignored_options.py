"""No option of dllm train is accepted and ignored: each one of --help changes the result, or is refused.

ignored_options.py DLLM SCRATCH

The table names a value for every option and what else the command line needs for it to matter. An option that leaves
the numbers alone by contract (threads, recomputation) must reach the library: it stands in the settings of --json.
An option that --help lists and the table does not is a failure.
"""
import hashlib
import json
import pathlib
import shutil
import sys

from cli_options import LINES, Program, talks, words_of

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok, run, options_of = program.ok, program.run, program.options_of

BASE = {"--data": "text", "--rows": "line", "--layers": "1", "--hidden": "64", "--vocab": "300", "--length": "32",
        "--batch": "4", "--steps": "6", "--save-every": "0", "--eval-every": "3", "--lr": "0.01"}
SAME = "the numbers stay"  # the settings of --json show it
REFUSED = "refused"
JSONL = {"--data": "rows.jsonl"}
UNPACKED = {"--pack": "false"}
BLOCKS = {"--objective.attention": "block_causal"}
TUNED = {"--from": "made", "--layers": None, "--hidden": None, "--vocab": None}
LORA = {**TUNED, "--lora": "4"}
FILLED = {"--filler": "small"}
ADAPTED = {"--filler": "adapter", "--filler-layers": "1"}
TAUGHT = {**TUNED, "--teacher": "made", "--align": "1", "--distill": "0.5"}
COLA = {**TUNED, "--objective": "mdlm", "--objective.cola": "1", "--objective.cola-global": "2", "--objective.cola-local": "6", "--objective.cola-block": "2",
        "--objective.cola-encoder-layers": "1", "--objective.cola-layers": "1", "--objective.cola-layer": "-1"}
IN_BLOCKS = {"--objective.block-length": "8", "--objective.encoder-layers": "1", "--objective.decoder-layers": "1", "--objective.prior-layers": "1"}
FEW_STEPS = {**TAUGHT, "--distill-steps": "2", "--distill-of": "4"}

# option: value, what else the command line has, what is expected when it is not another result
TRAIN = {
    "--data": ("other",), "--out": ("elsewhere",), "--from": ("made", {"--layers": None, "--hidden": None, "--vocab": None}),
    "--lora": ("2", TUNED), "--adapter.rank": ("2", LORA, REFUSED), "--adapter.alpha": ("1", LORA), "--adapter.rslora": ("true", LORA), "--adapter.dora": ("true", LORA), "--adapter.kind": ("ia3", TUNED), "--adapter.feedforward": ("q", {**TUNED, "--adapter.kind": "ia3"}), "--adapter.dropout": ("0.5", LORA), "--adapter.modules-to-save": ("norm", LORA),
    "--adapter.rank-pattern": ("q_proj=2", LORA), "--adapter.alpha-pattern": ("q_proj=3", LORA),
    "--adapter.targets": ("q,v", LORA), "--adapter.exclude": ("q", LORA), "--adapter.layers": ("3", LORA, REFUSED), "--adapter.seed": ("5", LORA),
    "--tokenizer": ("made/tokenizer.json", {"--vocab": None}), "--vocab": ("280",), "--special-tokens": ("<a>,<b>",), "--template": ("chatml", JSONL), "--layers": ("2",), "--hidden": ("128",),
    "--objective": ("ar",), "--schedule": ("cosine",), "--eval-every": ("2",), "--eval-batches": ("1",),
    "--examples": ("4",), "--keep-best": ("0",), "--log": ("csv",), "--stop-above": ("loss=0", {"--steps": "14"}), "--patience": ("1", {"--lr": "10", "--clip": "0", "--warmup": "0", "--eval-every": "1"}),
    "--config": ("settings.json",), "--json": (None,),
    "--engine.kind": ("pjrt", {"--plugin": "nowhere"}, REFUSED), "--engine.threads": ("1", {}, SAME),
    "--engine.thread-pool": ("openmp", {}, SAME if program.has_openmp else REFUSED),
    "--engine.memory-limit": ("1000", {}, REFUSED), "--engine.check": ("finite", {}, SAME),
    "--engine.arithmetic": ("bf16",),
    "--engine.ranks": ("2",), "--engine.mesh": ("data=2",),
    "--engine.processes": ("mpi", {"--engine.mesh": "data=2"}, REFUSED), "--engine.plugin": ("cpu", {}, REFUSED), "--engine.target": ("h100", {}, REFUSED),
    "--engine.pjrt.device": ("1", {}, REFUSED), "--engine.pjrt.compute": ("bf16", {}, REFUSED),
    "--engine.pjrt.precision": ("high", {}, REFUSED), "--engine.pjrt.cache": ("off", {}, REFUSED),
    "--engine.pjrt.cache-limit": ("1", {}, REFUSED), "--engine.pjrt.in-flight": ("1", {}, REFUSED),
    "--engine.pjrt.client": ("a=1", {}, REFUSED), "--engine.pjrt.flags": ("a=1", {}, REFUSED),
    "--model.dtype": ("bf16",), "--model.attention": ("causal",), "--model.shift": ("1",), "--model.mask-token": ("7",),
    "--model.cache-dtype": ("bf16", {}, REFUSED), "--model.seed": ("5",), "--model.check": ("off", {}, SAME),
    "--model.heads": ("edit",), "--model.adapter": ("made", {}, REFUSED), "--model.weights": ("ema", {}, REFUSED),
    "--dataset.format": ("fortunes",), "--dataset.rows": ("file",), "--dataset.text-key": ("body", JSONL),
    "--dataset.prompt-key": ("ask", JSONL), "--dataset.response-key": ("say", JSONL),
    "--dataset.instruction-key": ("prompt", JSONL), "--dataset.messages-key": ("turns", {"--data": "talks.jsonl"}),
    "--dataset.template": ("llama3", JSONL),
    "--dataset.append-eos": ("false",), "--dataset.prepend-bos": ("true", {}, REFUSED), "--dataset.parse-special": ("true", {"--data": "special"}),
    "--dataset.bad-rows": ("fail", {"--data": "damaged.jsonl"}, REFUSED), "--dataset.token-file": ("rows.tok", {}, SAME),
    "--dataset.stream": ("true", {}, SAME),  # hub_data.py has files of the hub
    "--loader.batch": ("2",), "--loader.length": ("16",), "--loader.seed": ("5",), "--loader.split": ("all",),
    "--loader.split-fraction": ("0.4",), "--loader.pack": ("false",), "--loader.drop-tail": ("true", {"--steps": "120", "--eval-every": "0"}),
    "--loader.shuffle": ("false",), "--loader.epochs": ("1", {"--batch": "64"}), "--loader.truncate": ("left", {**UNPACKED, "--length": "16"}),
    "--loader.pad-id": ("9", {**UNPACKED, "--length": "64", "--loader.segments": "false"}),
    "--loader.order": ("python",), "--loader.pad-side": ("left", UNPACKED), "--loader.see-padding": ("true", {**UNPACKED, "--length": "64"}),
    "--loader.eos-block": ("8", {**UNPACKED, "--length": "64"}), "--loader.response-cut": ("responses", UNPACKED),
    "--loader.arrays": ("made", UNPACKED, REFUSED), "--loader.row-keys": ("true", UNPACKED, SAME),
    "--loader.trajectories": ("made", {}, REFUSED),  # trajectories_command.py trains with a file
    **{f"--objective.trajectory-{key}": (value, {}, REFUSED) for key, value in (("min-ratio", "0.1"), ("max-ratio", "0.5"), ("ramp", "4"), ("blocks", "4"))},
    "--loader.response-cut-ratio": ("1", {**UNPACKED, "--response-cut": "columns"}),
    "--loader.segments": ("false",), "--loader.rank": ("1", {"--loader.ranks": "2"}), "--loader.ranks": ("2",),
    "--objective.attention": ("causal",), "--objective.shift": ("1",), "--objective.block-length": ("8", {**BLOCKS, "--objective.block-length": "4"}),
    "--objective.mask-id": ("9",), "--objective.compat": ("dllm-jax",), "--objective.time-epsilon": ("0.4",), "--objective.time-limit": ("0.5",),
    "--objective.teacher": ("model", TAUGHT, REFUSED), "--teacher": ("rows", TAUGHT, REFUSED), "--teacher-dtype": ("bf16", TAUGHT),
    "--objective.teacher-attention": ("causal", TAUGHT), "--objective.teacher-input": ("noised", {**TAUGHT, "--teacher-attention": "causal"}),
    "--objective.align": ("3", TAUGHT), "--objective.align-kind": ("angular", TAUGHT), "--objective.align-layers": ("0", TAUGHT),
    "--objective.align-positions": ("all", TAUGHT), "--objective.align-margin": ("0.01", {**TAUGHT, "--align-kind": "angular"}),
    "--objective.align-temperature": ("0.5", {**TAUGHT, "--align-kind": "infonce"}), "--objective.align-blocks": ("2", {**TAUGHT, "--align-kind": "blocks"}),
    "--objective.align-share": ("0.5", TAUGHT), "--objective.align-layer-count": ("1", {**TAUGHT, "--align-layers": "0,1"}),
    "--objective.align-layer-exp": ("2", {**TAUGHT, "--align-layers": "0,1"}),
    "--objective.align-final": ("5", {**TAUGHT, "--align-steps": "4"}), "--objective.align-steps": ("4", {**TAUGHT, "--align-final": "5"}),
    "--objective.distill": ("1", TAUGHT), "--objective.distill-kind": ("js", TAUGHT), "--objective.distill-temperature": ("2", TAUGHT),
    "--objective.distill-steps": ("3", FEW_STEPS), "--objective.distill-of": ("8", FEW_STEPS), "--objective.distill-rest": ("true", FEW_STEPS),
    "--objective.own-weight": ("0.5", TAUGHT),
    "--objective.cola": ("3", COLA), "--objective.cola-kind": ("fast_block", COLA), "--objective.cola-prediction": ("x0", COLA),
    "--objective.cola-layer": ("0", COLA), "--objective.cola-detach": ("false", COLA), "--objective.cola-global": ("3", COLA),
    "--objective.cola-local": ("5", COLA), "--objective.cola-block": ("3", COLA), "--objective.cola-encoder-layers": ("2", COLA),
    "--objective.cola-layers": ("2", COLA), "--objective.cola-heads": ("4", COLA),
    "--objective.cola-tail": ("0.1", {**COLA, "--objective.cola-kind": "card", "--objective.cola-block": None}),
    "--objective.entropy": ("1",), "--objective.entropy-temperature": ("0.9", {"--entropy": "1"}),
    "--objective.filler": ("small",), "--objective.filler-alpha": ("0.3", FILLED), "--objective.filler-grad-scale": ("20", FILLED),
    "--objective.filler-scale": ("0.5", FILLED), "--objective.filler-layers": ("1", FILLED), "--objective.filler-heads": ("2", FILLED),
    "--objective.filler-ffn": ("24", FILLED), "--objective.filler-hidden": ("16", {"--filler": "unet", "--filler-layers": "1"}),
    "--objective.filler-gaussian": ("false", ADAPTED), "--objective.filler-context": ("prompt", ADAPTED),
    "--objective.filler-spherical": ("true", ADAPTED), "--objective.consistency": ("1", {**FILLED, "--filler-scale": "0.5"}),
    "--objective.time-sampling": ("low_discrepancy",), "--objective.loss-weight": ("ones",), "--objective.max-weight": ("1.5",),
    "--objective.loss-norm": ("masked",), "--objective.min-mask-ratio": ("0.8",), "--objective.max-mask-ratio": ("0.2",),
    "--schedule.eps": ("0.4", {"--schedule": "linear"}), "--schedule.compat": ("dllm", {}, REFUSED),
    "--trainer.lr": ("0.02",), "--trainer.schedule": ("cosine",), "--trainer.warmup": ("3",), "--trainer.warmup-ratio": ("0.5",),
    "--trainer.steps": ("4",), "--trainer.cooldown-start": ("2", {"--trainer.schedule": "wsd"}), "--trainer.minutes": ("0.0000001",),
    "--trainer.min-lr": ("0.009", {"--trainer.schedule": "cosine"}), "--trainer.optimizer": ("sgd",), "--trainer.momentum": ("0.5", {"--trainer.optimizer": "sgd"}),
    "--trainer.factor-decay": ("0.4", {"--trainer.optimizer": "adafactor"}), "--trainer.factor-clip": ("0.1", {"--trainer.optimizer": "adafactor"}),
    "--trainer.factor-from": ("8", {"--trainer.optimizer": "adafactor"}), "--trainer.factor-relative": ("false", {"--trainer.optimizer": "adafactor"}),
    "--trainer.muon-momentum": ("0.5", {"--trainer.optimizer": "muon"}), "--trainer.muon-nesterov": ("false", {"--trainer.optimizer": "muon"}),
    "--trainer.muon-scale": ("jordan", {"--trainer.optimizer": "muon"}), "--trainer.groups": ("*embed_tokens* lr=0.0001",), "--trainer.layer-decay": ("0.5",), "--trainer.lora-plus": ("4", LORA),
    "--trainer.replay": ("100", {**TAUGHT, "--trainer.replay-warmup": "1", "--trainer.replay-prob": "1"}),
    "--trainer.replay-warmup": ("1", {**TAUGHT, "--trainer.replay": "100", "--trainer.replay-prob": "1"}),
    "--trainer.replay-prob": ("1", {**TAUGHT, "--trainer.replay": "100", "--trainer.replay-warmup": "1"}),
    "--trainer.replay-weight": ("5", {**TAUGHT, "--trainer.replay": "100", "--trainer.replay-warmup": "1", "--trainer.replay-prob": "1"}),
    "--trainer.lion-beta1": ("0.1", {"--trainer.optimizer": "lion"}), "--trainer.lion-beta2": ("0.1", {"--trainer.optimizer": "lion"}),
    "--trainer.nesterov": ("true", {"--trainer.optimizer": "sgd", "--trainer.momentum": "0.5"}), "--trainer.beta1": ("0.5",), "--trainer.beta2": ("0.5",),
    "--trainer.eps": ("0.1",), "--trainer.weight-decay": ("5",), "--trainer.decay": ("all", {"--weight-decay": "5"}), "--trainer.clip": ("0.001", {"--trainer.eps": "0.1"}),
    "--trainer.accumulate": ("2",), "--trainer.seed": ("5",), "--trainer.nonfinite": ("skip", {}, SAME), "--trainer.ema": ("0.5",),
    "--trainer.freeze": ("model.layers.0.*",), "--trainer.remat": ("true", {}, SAME), "--trainer.activations": ("bf16",), "--trainer.memory": ("1000", {}, REFUSED), "--trainer.tokens": ("200",),
    "--trainer.offload": ("ram", {}, SAME), "--trainer.offload-mib": ("1", {"--trainer.offload": "ram"}, SAME),
    "--trainer.root": ("elsewhere", {}, REFUSED), "--trainer.save-every": ("2",),
    "--trainer.save-wait": ("true", {"--save-every": "2"}, SAME),
    "--trainer.sync-every": ("2", {"--eval-every": "0"}, SAME), "--trainer.keep-last": ("1", {"--save-every": "2"}),
    "--trainer.compat": ("nano", {"--warmup": "4"}),
}
# What --help lists under another objective or schedule, beyond the options above.
BLOCK = {"--objective.block-length": "8"}
EDITS = {"--loader.pack": "false"}
DUO = {"--objective.curriculum": "1000"}
LATENT = {"--loader.pack": "false", "--objective.time-bins": "3", "--objective.time-interval": "1"}
PROMPTED = {**LATENT, "--objective.prompt": "1"}
OTHERS = {
    ("--objective", "ldlm"): {
        "--objective.latents": ("40", LATENT), "--objective.positions": ("40", LATENT), "--objective.latent-dim": ("8", LATENT),
        "--objective.latent-heads": ("2", LATENT), "--objective.depth": ("2", LATENT), "--objective.reader-depth": ("2", LATENT),
        "--objective.denoiser-depth": ("2", LATENT), "--objective.reader": ("causal", LATENT), "--objective.level": ("added", LATENT),
        "--objective.encoder-layer": ("0", LATENT), "--objective.decoder-noise": ("1", LATENT), "--objective.states-weight": ("2", LATENT),
        "--objective.tokens-weight": ("2", LATENT), "--objective.self-condition": ("0", LATENT),
        "--objective.encoder-warmup": ("0", LATENT), "--objective.encoder-gradient": ("1", LATENT),
        "--objective.time-bins": ("4", {**LATENT, "--objective.time-bins": None}),
        "--objective.time-interval": ("2", {**LATENT, "--objective.time-interval": None}),
        "--objective.time-decay": ("0", LATENT), "--objective.time-floor": ("1", LATENT), "--objective.time-uniform": ("1", LATENT),
        "--objective.prompt": ("1", LATENT), "--objective.holes": ("0", PROMPTED), "--objective.unconditional": ("1", PROMPTED),
        "--objective.train-base": ("true", LATENT)},
    ("--objective", "vfm"): {"--objective.train-base": ("true",), "--objective.tau": ("0.5",), "--objective.sigma": ("0.5",),
                             "--objective.kl-weight": ("0.5",), "--objective.kl-warmup": ("4", {"--objective.kl-weight": "0.5"}),
                             "--objective.mu-reg": ("0.5",), "--objective.embedding-length": ("3", {"--objective.mu-reg": "0.5"}),
                             "--objective.refinement": ("true",), "--objective.report-repetition": ("false",)},
    ("--objective", "dream"): {"--objective.geo-p": ("0.9",)},
    ("--objective", "llada_sft"): {"--objective.answer-padding": ("true", {**UNPACKED, "--length": "64"})},
    ("--objective", "bd3lm"): {"--objective.time-per": ("row", BLOCK), "--objective.block-steps": ("1:4", BLOCK),
                              "--objective.ar-weight": ("1", BLOCK),
                              "--objective.complementary": ("true", {**BLOCK, "--objective.loss-weight": "ones"})},
    ("--objective", "dmax"): {"--objective.noise-low": ("0.2", BLOCK), "--objective.noise-high": ("0.95", BLOCK),
                              "--objective.on-policy": ("0", BLOCK), "--objective.block-steps": ("1:4", BLOCK), "--objective.tail-labels": ("1", {**BLOCK, **UNPACKED, "--length": "64"})},
    ("--objective", "open_dllm"): {"--objective.curriculum": ("1000",), "--objective.min-snr-gamma": ("1.5",),
                                   "--objective.anti-repetition": ("0.5",),
                                   "--objective.repetition": ("hard", {"--objective.anti-repetition": "0.5"})},
    ("--objective", "diffusion_gemma"): {"--objective.ar-weight": ("0.1", BLOCK), "--objective.conditioned": ("1", BLOCK),
                                         "--objective.fill-token": ("3", BLOCK)},
    ("--objective", "uniform"): {"--objective.curriculum": ("1000",), "--objective.curriculum-temperature": ("10", DUO),
                                 "--objective.gamma-low": ("-9", DUO), "--objective.gamma-high": ("1", DUO)},
    ("--objective", "editflow"): {"--objective.start": ("empty", EDITS), "--objective.start-length": ("3", EDITS),
                                  "--objective.insert-order": ("left", {**EDITS, "--objective.start": "empty"})},
    ("--objective", "cola"): {
        "--objective.source": ("states", IN_BLOCKS), "--objective.source-layer": ("-1", {**IN_BLOCKS, "--objective.source": "states"}),
        "--objective.train-base": ("false", IN_BLOCKS), "--objective.latent-dim": ("8", IN_BLOCKS), "--objective.latent-hidden": ("32", IN_BLOCKS),
        "--objective.latent-heads": ("4", IN_BLOCKS), "--objective.encoder-layers": ("2", IN_BLOCKS), "--objective.decoder-layers": ("2", IN_BLOCKS),
        "--objective.prior-layers": ("2", IN_BLOCKS), "--objective.kl-weight": ("1", IN_BLOCKS), "--objective.prior-weight": ("0", IN_BLOCKS),
        "--objective.stop-latents": ("false", IN_BLOCKS), "--objective.drop-prefix": ("1", IN_BLOCKS), "--objective.time-draw": ("uniform", IN_BLOCKS),
        "--objective.time-mean": ("2", IN_BLOCKS), "--objective.time-std": ("3", IN_BLOCKS), "--objective.mask-weight": ("1", IN_BLOCKS),
        "--objective.mask-share": ("0.9", {**IN_BLOCKS, "--objective.mask-weight": "1"})},
    ("--objective", "embedding"): {"--objective.self-condition": ("0",), "--objective.prefix": ("1",)},
    ("--schedule", "geometric"): {"--schedule.sigma-min": ("0.01",), "--schedule.sigma-max": ("5",)},
    ("--schedule", "tangent"): {"--schedule.steepness": ("2",)},
    ("--schedule", "nano_cosine"): {"--schedule.steps": ("7", {"--steps": None, "--trainer.steps": "6"})},
    ("--schedule", "kappa_cubic"): {"--schedule.a": ("0.2", {"--objective": "editflow"}), "--schedule.b": ("0.2", {"--objective": "editflow"})},
}
ELSEWHERE = {"--help", "--fresh", "--seed"}  # --fresh: train_program_test.sh; --seed stands for several of the above


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else None


def result(options):
    """What a training left behind, without what differs from run to run by itself."""
    out = SCRATCH / options.get("--out", "run")
    for name in ("run", "elsewhere"):
        shutil.rmtree(SCRATCH / name, ignore_errors=True)
    done = run("train", *words_of({"--out": "run", **options}))
    if done.returncode != 0:
        return done, None
    left = {"out": out.name, "stdout": bool(done.stdout), "steps": sorted(p.name for p in out.glob("step_*")),
            "table": (out / "metrics.csv").exists(), "best": sorted(p.name for p in out.glob("best/step_*")), "tokenizer": digest(out / "tokenizer.json"), "metrics": [], "saved": []}
    for line in (out / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        for key in ("tokens_per_second", "mfu", "memory", "compiles", "dir", "checkpoint_stall_seconds", "stall_seconds", "input_wait", "rank_wait", "run_seconds"):
            event.pop(key, None)
        # When a checkpoint that is written in the background is on disk differs from run to run.
        left["saved" if event["event"] == "checkpoint" else "metrics"].append(event)
    examples = (out / "examples.jsonl").read_text().splitlines() if (out / "examples.jsonl").exists() else []
    left["examples"] = [{**json.loads(line), "seconds": 0} for line in examples]
    for step in sorted(out.glob("step_*")):
        for file in ("model/model.safetensors", "model/config.json", "state/rank_000.safetensors"):
            left[f"{step.name}/{file}"] = digest(step / file)
    return done, left


def settings(options):
    shutil.rmtree(SCRATCH / "run", ignore_errors=True)
    done = run("train", "--json", *words_of({"--out": "run", **options}))
    return json.loads(done.stdout.splitlines()[0])["options"]


def as_json(word):
    try:
        return json.loads(word)
    except ValueError:
        return word


baselines = {}


def look(name, value, more=None, expected=None):
    short = "--" + name.split(".", 1)[1] if "." in name else name
    around = {**BASE, **(more or {})}
    key = tuple(sorted(around.items(), key=str))
    if key not in baselines:
        done, left = result(around)
        ok(left is not None or expected == REFUSED, f"{name}: the command without it works: {done.stderr[-300:] if left is None else ''}")
        baselines[key] = left
    changed = {k: v for k, v in around.items() if k != short and k != name}
    changed[name] = "" if value is None else value
    done, left = result(changed)
    if expected == REFUSED:
        ok(done.returncode != 0 and "\ndllm" in "\n" + done.stderr, f"{name} {value}: refused ({done.stderr.splitlines()[-1:]})")
    elif expected == SAME:
        kind, inner = name[2:].split(".", 1)
        ok(left is not None and settings(changed)[kind][inner.replace("-", "_")] == as_json(value), f"{name} {value}: reaches the library")
    else:
        program.changes(left, baselines[key], done, f"{name} {value}")


def prepare():
    program.empty_folder()
    lines = LINES
    (SCRATCH / "text").write_text("\n".join(lines) + "\n")
    (SCRATCH / "other").write_text("\n".join(line.upper() for line in lines) + "\n")
    (SCRATCH / "special").write_text("\n".join("<|endoftext|> " + line for line in lines) + "\n")
    (SCRATCH / "damaged.jsonl").write_text("{oops\n" + "".join(json.dumps({"text": line}) + "\n" for line in lines[::2]))
    (SCRATCH / "rows.jsonl").write_text("".join(json.dumps(
        {"text": line, "body": line[::-1]} if i % 2 else
        {"prompt": line, "ask": line[::-1], "response": line.upper(), "say": line.title()}) + "\n"
        for i, line in enumerate(lines)))
    (SCRATCH / "talks.jsonl").write_text(talks(lines))
    (SCRATCH / "settings.json").write_text('{"trainer": {"beta1": 0.4}}')
    made = run("train", "--out", "made", *words_of(dict(BASE, **{"--vocab": "290"})))
    ok(made.returncode == 0, "a run to start from: " + made.stderr[-200:])


prepare()
listed = options_of("train")
ok(len(listed) > 60, f"--help lists {len(listed)} options")
ok(not listed - set(TRAIN) - ELSEWHERE, f"not in the table: {sorted(listed - set(TRAIN) - ELSEWHERE)}")
ok(not set(TRAIN) - listed, f"not in --help: {sorted(set(TRAIN) - listed)}")
for option, row in TRAIN.items():
    if option in listed:
        look(option, *row)
for (chooser, name), rows in OTHERS.items():
    own = options_of("train", chooser, name)
    ok(not own - set(TRAIN) - set(rows) - ELSEWHERE, f"{name}: not in the table: {sorted(own - set(TRAIN) - set(rows) - ELSEWHERE)}")
    ok(not set(rows) - own, f"{name}: not in --help: {sorted(set(rows) - own)}")
    for option, (value, *more) in rows.items():
        look(option, value, {chooser: name, **(more[0] if more else {})})
sys.exit(1 if program.failures else 0)
