"""No option of the commands in COMMANDS is accepted and ignored: each one of --help changes the result, is refused,
or is named in a note on standard error.   ignored_command_options.py DLLM SCRATCH

The tables are as in ignored_options.py, which does the same for dllm train. SAME marks the few options that must not
change a result (threads, where steps run, quiet); the reason is next to each.
"""
import hashlib
import json
import pathlib
import re
import shutil
import sys

from cli_options import LINES, Program, talks, words_of

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok

CHANGES = "changes the result"
NAMED = "is named by the result"  # the settings of an evaluation have it, its scores may stay
REFUSED = "refused"
NOTED = "has no effect"  # a note on standard error
SAME = "the result stays"
SAME_OR_REFUSED = "the result stays, or there is none"
MAY_STAY = "probabilities change, the tokens may stay"
DRAWS = {"--temperature": "0.9"}
ROWS = {"--data": "rows.jsonl"}
TALKS = {"--data": "talks.jsonl"}
SCORED = {"--task": "text", "--data": "corpus", "--checker": None, "--length": None, "--steps": None, "--limit": "16"}
PROGRAMS = {"--task": "programs", "--data": "programs.jsonl", "--checker": None}
AGAINST = {"--against": "f32", "--json": "", "--model.dtype": "q8_0"}
PLUGIN = {f"--engine.{key}": (value, {}, REFUSED) for key, value in {
    "plugin": "cpu", "target": "h100", "pjrt.device": "1", "pjrt.compute": "bf16", "pjrt.precision": "high",
    "pjrt.cache": "off", "pjrt.cache-limit": "1", "pjrt.in-flight": "1", "pjrt.client": "a=1", "pjrt.flags": "a=1"}.items()}
ENGINE = {
    **PLUGIN, "--engine.kind": ("pjrt", {"--engine.plugin": "nowhere"}, REFUSED),
    "--engine.threads": ("1", {}, SAME),  # the same numbers on any number of threads
    "--engine.thread-pool": ("openmp", {}, SAME if program.has_openmp else REFUSED),
    "--engine.arithmetic": ("bf16", {}, MAY_STAY),
    "--engine.memory-limit": ("1000", {}, REFUSED), "--engine.ranks": ("2", {}, SAME), "--engine.mesh": ("tensor=2", {}, MAY_STAY),
    "--engine.processes": ("mpi", {"--engine.mesh": "data=2"}, REFUSED),  # one process was started
    "--engine.check": ("finite", {}, SAME_OR_REFUSED),  # stops at a number that is not finite
}
MODEL = {
    "--model.dtype": ("int8",), "--model.attention": ("causal", {"--policy": "random"}), "--model.shift": ("1",),
    "--model.mask-token": ("7",), "--model.cache-dtype": ("bf16", {"--decoder.cache": "prefix", "--block-length": "8"}),
    "--model.check": ("off", {}, SAME),  # refuses weights that are not finite; there are none
    "--model.heads": ("edit", {}, SAME),  # heads that the other policies do not read
    "--model.seed": ("5", {}, REFUSED), "--model.adapter": ("nowhere", {}, REFUSED),
    "--model.weights": ("ema", {}, REFUSED),  # the run keeps no averages; convert_command.py has one that does
}
DECODER = {
    "--decoder.policy": ("random",), "--decoder.steps": ("3",), "--decoder.block-length": ("4",),
    "--decoder.max-length": ("20", {}, REFUSED), "--decoder.temperature": ("0.9",),
    "--decoder.top-k": ("1", DRAWS), "--decoder.top-p": ("0.01", DRAWS), "--decoder.min-p": ("1", DRAWS), "--decoder.schedule": ("cosine",),
    "--decoder.schedule-alphas": ("[1, 0.1, 0]",),
    "--decoder.schedule-steps": ("4", {"--schedule": "nano_cosine", "--policy": "ancestral"}),
    "--decoder.schedule-eps": ("0.4", {"--schedule": "cosine"}), "--decoder.attention": ("causal", {"--policy": "random"}),
    "--decoder.shift": ("1",), "--decoder.cache": ("dual", {"--block-length": "8", **DRAWS}), "--decoder.guidance": ("2.0",),
    "--decoder.solver": ("heun", {}, REFUSED),  # the policies of this model decode tokens
    "--decoder.guidance-keep": ("GIVEN", {"--guidance": "2.0"}),
    "--decoder.early-exit": ("0.000001",), "--decoder.suppress": ("COMMON",), "--decoder.suppress-mask": ("false", {"--policy": "random"}),
    "--decoder.suppress-unused": ("false", {}, SAME),  # every row of the vocabulary is a token
    "--decoder.logit-bias": ("0=90",), "--decoder.top-logprobs": ("3",),
    "--decoder.defer": ("COMMON",), "--decoder.loop": ("host", {}, SAME),  # the same tokens with more launches
    "--decoder.trace": ("true", {"--trace": None}, REFUSED), "--decoder.trace-bytes": ("1024",),
    "--decoder.adapters": ("nowhere", {}, REFUSED), "--decoder.adapter-folders": ("math=nowhere", {"--decoder.adapters": "math"}, REFUSED),
    "--decoder.adapter-bytes": ("1", {}, SAME),  # the model has no folders of adapters; adapters_command.py has some
    "--decoder.on-change": ("fail", {}, REFUSED), "--decoder.plan": ("even", {"--steps": "7", "--schedule": "cosine", **DRAWS}),
}
SLOT = {
    "--slot.seed": ("5", DRAWS), "--slot.temperature": ("0.9",), "--slot.top-k": ("1", DRAWS), "--slot.top-p": ("0.01", DRAWS), "--slot.min-p": ("1", DRAWS),
    "--slot.stop": ("COMMON",), "--slot.steps": ("3",), "--slot.block-length": ("4",), "--slot.suppress": ("COMMON",), "--slot.logit-bias": ("0=90",),
    "--slot.top-logprobs": ("3",), "--slot.solver": ("heun", {}, REFUSED),
    "--slot.adapters": ("nowhere", {}, REFUSED),
}
COMMANDS = {
    "generate": ({"--model": "made", "--prompt": "line 4: the cat", "--length": "24", "--steps": "8", "--trace": "trace", "--json": ""}, {
        "--model": ("other",), "--prompt": ("the dog",), "--file": ("text.txt", {"--prompt": None}), "--policy": ("random",),
        "--length": ("16",), "--samples": ("2",), "--until": ("e",), "--stop-pattern": ("[a-z]",), "--trace": ("elsewhere",), "--config": ("settings.json",),
        "--regex": ("[a-z ]{9}",), "--choices": ("cat,dog",), "--json-schema": ('{"type": "boolean"}',),
        "--grammar": ('root ::= "cat" | "dog" [a-z]',),
        "--prompts": ("many.jsonl", {"--prompt": None, "--trace": None}), "--out": ("answers.jsonl", {}, REFUSED),
        "--batch": ("3", {}, REFUSED), "--template": ("chatml", {}, REFUSED),  # without --prompts
        "--quiet": ("", {}, SAME),  # no picture
        "--json": (None,), **ENGINE, **MODEL, **DECODER, "--decoder.gen-length": ("16", {"--length": None}),
        "--decoder.slots": ("1", {"--samples": "2"}, REFUSED), **SLOT, "--slot.gen-length": ("16", {"--length": None}),
        "--slot.prompt-length": ("3", {}, REFUSED)}),
    "infill": ({"--model": "made", "--text": "line 4: <mask:24> sat on", "--steps": "8", "--trace": "trace", "--json": ""}, {
        "--model": ("other",), "--text": ("the <mask:24>",), "--file": ("holes.txt", {"--text": None}), "--policy": ("random",),
        "--trace": ("elsewhere",), "--config": ("settings.json",), "--regex": ("line 4: [a-z]{24,} sat on",),
        "--choices": (f"line 4: {'a' * 24} sat on",), "--json-schema": ('{"type": "boolean"}', {}, REFUSED),  # the text is not JSON
        "--grammar": (f'root ::= "line 4: {"a" * 24} sat on"',),
        "--quiet": ("", {}, SAME),  # no picture
        "--json": (None,), **ENGINE, **MODEL, **DECODER, "--decoder.gen-length": ("16", {}, REFUSED),
        "--decoder.slots": ("1", {}, REFUSED), **SLOT, "--slot.stop": ("COMMON", {}, REFUSED), "--slot.gen-length": ("16", {}, REFUSED),
        "--slot.prompt-length": ("3", {"--block-length": "8"})}),
    "chat": ({"--model": "made", "--message": "line 4", "--template": "template", "--length": "24", "--steps": "8", "--temperature": "0.9", "--json": ""}, {
        "--model": ("other",), "--message": ("the dog",), "--system": ("be quick",), "--template": ("loud",), "--policy": ("random",),
        "--length": ("16",), "--config": ("settings.json",), "--regex": ("[a-z ]{9}",), "--choices": ("cat,dog",),
        "--grammar": ('root ::= "cat" | "dog" [a-z]',),
        "--json-schema": ('{"type": "boolean"}',), "--until": ("e",), "--stop-pattern": ("[a-z]",),
        "--quiet": ("", {}, SAME),  # no picture
        "--json": (None,), **ENGINE, **MODEL, **{name: row for name, row in DECODER.items() if "trace" not in name},
        "--decoder.temperature": ("0.5",), "--slot.temperature": ("0.5",),
        # an answer may have reached its end token before it shows
        "--decoder.cache": ("dual", {"--block-length": "8", **DRAWS}, MAY_STAY),
        "--decoder.suppress-mask": ("false", {"--policy": "random"}, MAY_STAY),
        "--model.cache-dtype": ("bf16", {"--decoder.cache": "prefix", "--block-length": "8"}, SAME),  # too little to show in the text
        "--decoder.trace": ("true", {}, REFUSED), "--decoder.trace-bytes": ("4000", {}, REFUSED),
        "--decoder.gen-length": ("16", {"--length": None}), "--decoder.slots": ("1", {}, REFUSED),
        **{name: row for name, row in SLOT.items() if name != "--slot.temperature"},
        "--slot.gen-length": ("16", {"--length": None}), "--slot.prompt-length": ("3", {}, REFUSED),
        "--decoder.top-logprobs": ("3", {}, REFUSED), "--slot.top-logprobs": ("3", {}, REFUSED),
        "--chat.template": ("{{ messages[0]['content'] }}", {"--template": None, "--chat.template": "a{{ messages[0]['content'] }}"}),
        "--chat.name": ("other", {"--template": None}, REFUSED), "--chat.add-generation-prompt": ("true", {}, REFUSED),
        "--chat.tools": ('[{"name": "find"}]',), "--chat.variables": ('{"enable_thinking": false}',)}),
    "tokenize": ({"--tokenizer": "made", "--text": "line 4"}, {
        "--tokenizer": ("small.json",), "--text": ("other",), "--file": ("text.txt", {"--text": None}), "--config": ("text.json", {"--text": None}),
        "--json": ("",), "--model": ("made", {"--tokenizer": None, "--text": None, "": ["corpus", "out.tok"]}),
        **{f"--dataset.{key}": (value, {}, REFUSED) for key, value in {
            "format": "text", "rows": "line", "text-key": "body", "prompt-key": "ask", "response-key": "say", "append-eos": "false",
            "instruction-key": "ask", "messages-key": "turns", "template": "chatml",
            "prepend-bos": "true", "parse-special": "true", "bad-rows": "skip", "token-file": "out.tok", "stream": "true"}.items()},
        "--template": ("chatml", {}, REFUSED)}),
    "tokenizer-train": ({"--data": "corpus", "--vocab": "300", "--out": "out.json"}, {
        "--data": ("rows.jsonl",), "--out": ("elsewhere",), "--overwrite": ("", {}, SAME), "--vocab": ("280",), "--config": ("trained.json",), "--json": ("",),
        "--dataset.format": ("jsonl", {}, REFUSED), "--dataset.rows": ("line", {"--data": "gaps"}), "--dataset.text-key": ("body", ROWS),
        "--dataset.prompt-key": ("ask", ROWS), "--dataset.response-key": ("say", ROWS), "--template": ("chatml",),
        "--dataset.instruction-key": ("prompt", ROWS), "--dataset.messages-key": ("turns", TALKS), "--dataset.template": ("chatml", {}, REFUSED),
        "--tokenizer-train.chat-template": ("chatml",),
        "--dataset.append-eos": ("false", {}, REFUSED), "--dataset.prepend-bos": ("true", {}, REFUSED),
        "--dataset.parse-special": ("true", {}, REFUSED), "--dataset.token-file": ("out.tok", {}, REFUSED),
        "--dataset.stream": ("true", {}, MAY_STAY),  # hub_data.py has files of the hub
        "--dataset.bad-rows": ("skip", {"--data": "damaged.jsonl"}), "--tokenizer-train.vocab-size": ("280", {"--vocab": None}),
        "--tokenizer-train.pre-tokenizer": ("qwen2",), "--tokenizer-train.normalizer": ("nfc",), "--tokenizer-train.min-count": ("50",),
        "--tokenizer-train.max-token-bytes": ("3",), "--tokenizer-train.bos": ("<s>",), "--tokenizer-train.eos": ("</s>",),
        "--tokenizer-train.pad": ("<p>",), "--tokenizer-train.mask": ("<m>",), "--tokenizer-train.special-tokens": ("<x>",)}),
    "verify": ({"": "made"}, {
        **ENGINE, **{f"--model.{key}": (value, {}, REFUSED) for key, value in {
            "attention": "causal", "shift": "1", "mask-token": "7", "cache-dtype": "bf16", "seed": "5", "adapter": "nowhere", "weights": "ema"}.items()},
        "--model.dtype": ("q8_0", {}, SAME),  # loads in that format
        "--model.check": ("off", {}, SAME), "--model.heads": ("edit", {}, MAY_STAY),
        "--against": ("f32", {"--json": ""}), "--reference": ("other", AGAINST), "--data": ("text.txt", {**AGAINST, "--generate": "0"}),
        "--reference-format": ("int8", AGAINST), "--format": ("int8", {"--against": "f32", "--json": ""}), "--tokens": ("40", AGAINST), "--length": ("24", AGAINST),
        "--generate": ("4", AGAINST), "--mask-seed": ("2", AGAINST), "--config": ("settings_of_engine.json", {}, REFUSED), "--json": ("",)}),
    "inspect": ({"": "made"}, {
        "--tensors": ("",), "--verify": ("",), "--config": ("tensors.json",), "--json": ("",)}),
    "eval": ({"--model": "made", "--data": "prompts.jsonl", "--task": "answers", "--checker": "check.lua", "--length": "24", "--steps": "8",
              "--out": "out.json", "--json": ""}, {
        "--model": ("other",), "--data": ("other_prompts.jsonl",), "--task": ("programs", {"--data": "programs.jsonl", "--checker": None}),
        "--out": ("elsewhere",), "--limit": ("1",), "--objective": ("uniform", SCORED), "--draws": ("2", SCORED),
        "--noise-seed": ("3", SCORED), "--row-length": ("32", SCORED), "--samples": ("2",), "--k": ("2", {"--samples": "2"}),
        "--batch": ("3", {"--samples": "4", **DRAWS}, SAME),  # the same texts, decoded 3 at a time and 16
        "--solutions": ("completions.jsonl", {"--model": None, "--length": None, "--steps": None}), "--length": ("16",),
        "--policy": ("random",), "--checker": ("other_check.lua",), "--python": ("nowhere", PROGRAMS, REFUSED),
        "--seconds": ("9", PROGRAMS, NAMED), "--memory": ("900", PROGRAMS, NAMED), "--config": ("settings.json",), "--json": (None,),
        "--quiet": ("", {}, SAME),  # no line of progress
        **ENGINE, **MODEL, **DECODER, "--decoder.gen-length": ("16", {}, REFUSED), "--decoder.slots": ("1", {}, REFUSED),
        "--decoder.trace": ("true", {}, REFUSED), "--decoder.trace-bytes": ("1024", {}, REFUSED),
        "--decoder.top-logprobs": ("3", {}, REFUSED),
        "--model.cache-dtype": ("bf16", {"--decoder.cache": "prefix", "--block-length": "8"}, SAME),  # too little to show in the text
        "--decoder.loop": ("host", {}, NAMED), "--decoder.suppress-unused": ("false", {}, NAMED),
        "--decoder.suppress-mask": ("false", {"--policy": "random"}, NAMED),
        "--dataset.rows": ("file", SCORED), "--dataset.format": ("jsonl", SCORED, REFUSED),
        **{f"--dataset.{key}": (value, {**SCORED, **ROWS}) for key, value in {
            "text-key": "body", "prompt-key": "ask", "response-key": "say", "instruction-key": "prompt", "template": "alpaca"}.items()},
        "--dataset.messages-key": ("turns", {**SCORED, **TALKS, "--template": "alpaca"}), "--template": ("alpaca", {**SCORED, **ROWS}),
        **{f"--dataset.{key}": (value, SCORED, MAY_STAY) for key, value in {
            "append-eos": "false", "parse-special": "true", "stream": "true"}.items()},
        "--dataset.prepend-bos": ("true", SCORED, REFUSED),  # the tokenizer has no such token
        "--dataset.bad-rows": ("skip", {**SCORED, "--data": "damaged.jsonl"}), "--dataset.token-file": ("out.tok", SCORED, REFUSED),
        **SLOT, "--slot.gen-length": ("16", {"--length": None}), "--slot.prompt-length": ("3", {}, REFUSED),
        "--slot.top-logprobs": ("3", {}, REFUSED)}),
    "trajectories": ({"": "made", "--data": "corpus", "--dataset.rows": "line", "--out": "out.json", "--trajectories.limit": "6"}, {
        "--data": ("rows.jsonl",), "--out": ("elsewhere",), "--template": ("alpaca", ROWS),
        "--config": ("revealed.json",), "--json": ("",), **ENGINE,
        "--engine.ranks": ("1", {}, SAME), "--engine.mesh": ("data=1", {}, SAME),
        **{f"--model.{key}": row for key, row in {
            "dtype": ("int8", {}, MAY_STAY), "attention": ("causal", {}, MAY_STAY), "shift": ("1",), "mask-token": ("7",), "cache-dtype": ("bf16", {}, REFUSED),
            "check": ("off", {}, SAME), "heads": ("edit", {}, SAME), "seed": ("5", {}, REFUSED), "adapter": ("nowhere", {}, REFUSED),
            "weights": ("ema", {}, REFUSED)}.items()},
        "--trajectories.method": ("entropy",), "--trajectories.lines": ("rows",), "--trajectories.steps": ("3",),
        "--trajectories.threshold": ("9", {"--method": "entropy"}), "--trajectories.block-length": ("4", {"--method": "block_wise"}),
        "--trajectories.fill": ("model",), "--trajectories.context": ("0.5",), "--trajectories.least": ("100",),
        "--trajectories.length": ("12",), "--trajectories.attention": ("causal", {}, MAY_STAY), "--trajectories.shift": ("1",),
        "--trajectories.suppress-mask": ("false", {"--fill": "model"}, MAY_STAY),
        "--trajectories.batch": ("1", {}, SAME),  # the same rows, one at a time and 6
        "--trajectories.limit": ("3",), "--trajectories.fresh": ("true", {}, SAME),  # there are no lines to remove
        "--dataset.format": ("jsonl", {}, REFUSED), "--dataset.rows": ("file",), "--dataset.text-key": ("body", ROWS),
        "--dataset.prompt-key": ("ask", ROWS), "--dataset.response-key": ("say", ROWS), "--dataset.instruction-key": ("prompt", ROWS),
        "--dataset.messages-key": ("turns", {**TALKS, "--template": "alpaca"}), "--dataset.template": ("alpaca", ROWS),
        "--dataset.append-eos": ("false",), "--dataset.prepend-bos": ("true", {}, REFUSED), "--dataset.parse-special": ("true", {}, MAY_STAY),
        "--dataset.bad-rows": ("skip", {"--data": "damaged.jsonl"}), "--dataset.token-file": ("out.tok", {}, SAME),
        "--dataset.stream": ("true", {}, SAME)}),
    "anchors": ({"": "made", "--data": "corpus", "--dataset.rows": "line", "--pack": "false", "--length": "48", "--out": "anchored"}, {
        "--data": ("rows.jsonl",), "--out": ("elsewhere",), "--template": ("alpaca", ROWS),
        "--config": ("anchored.json",), "--seed": ("5", {}, REFUSED), "--json": ("",), **ENGINE,
        "--engine.ranks": ("1", {}, SAME), "--engine.mesh": ("data=1", {}, SAME),
        **{f"--model.{key}": row for key, row in {
            "dtype": ("int8",), "attention": ("causal",), "shift": ("1", {}, SAME), "mask-token": ("7", {}, SAME), "cache-dtype": ("bf16", {}, REFUSED),
            "check": ("off", {}, SAME), "heads": ("edit", {}, SAME), "seed": ("5", {}, REFUSED), "adapter": ("nowhere", {}, REFUSED),
            "weights": ("ema", {}, REFUSED)}.items()},
        "--anchors.layers": ("1",), "--anchors.store": ("f32",), "--anchors.group": ("8", {"--store": "int8"}),
        "--anchors.top": ("4", {"--model.attention": "causal"}), "--anchors.shard": ("1", {"--shards": "2"}), "--anchors.shards": ("2",),
        "--anchors.fresh": ("true", {}, SAME),  # there are no anchors to remove
        "--loader.batch": ("3", {}, SAME),  # the same chunks, 3 in a pass
        "--loader.length": ("12",), "--loader.pack": ("true",), "--loader.segments": ("false",), "--loader.split": ("all",),
        "--loader.split-fraction": ("0.4",), "--loader.drop-tail": ("true", {"--pack": "true", "--length": "37"}),
        "--loader.truncate": ("left", {"--length": "12"}), "--loader.see-padding": ("true",), "--loader.eos-block": ("16",),
        "--loader.pad-id": ("3", {}, SAME), "--loader.pad-side": ("left", {}, SAME),  # a chunk has no padding
        "--loader.response-cut": ("columns", {"--data": "rows.jsonl", "--response-cut-ratio": "1.0"}, MAY_STAY),
        "--loader.response-cut-ratio": ("0.5", {}, REFUSED),
        **{f"--loader.{key}": (value, {}, REFUSED) for key, value in {
            "arrays": "nowhere", "row-keys": "true", "trajectories": "nowhere", "epochs": "2", "seed": "5", "shuffle": "false", "order": "python",
            "rank": "1", "ranks": "2"}.items()},
        "--dataset.format": ("jsonl", {}, REFUSED), "--dataset.rows": ("file",), "--dataset.text-key": ("body", ROWS),
        "--dataset.prompt-key": ("ask", ROWS), "--dataset.response-key": ("say", ROWS), "--dataset.instruction-key": ("prompt", ROWS),
        "--dataset.messages-key": ("turns", {**TALKS, "--template": "alpaca"}, REFUSED),  # alpaca gives these rows no answer
        "--dataset.template": ("alpaca", ROWS),
        "--dataset.append-eos": ("false",), "--dataset.prepend-bos": ("true", {}, REFUSED), "--dataset.parse-special": ("true", {}, MAY_STAY),
        "--dataset.bad-rows": ("skip", {"--data": "damaged.jsonl"}), "--dataset.token-file": ("out.tok", {}, SAME),
        "--dataset.stream": ("true", {}, SAME)}),
    "report": ({"": "made"}, {
        "--out": ("elsewhere",), "--svg": ("pictures",), "--config": ("report.json",), "--json": ("",),
        "--watch": ("", {"--out": "elsewhere"}, REFUSED), "--port": ("3", {}, REFUSED)}),  # report_command.py serves
    "sweep": ({"": "plan.json"}, {"--config": ("machine.json",), "--json": ("",)}),
    "convert": ({"": ["made", "converted.gguf"], "--quantize.overwrite": "true"}, {
        "--quantize.format": ("q4_0",), "--quantize.weights": ("ema", {}, REFUSED), "--quantize.double-quant": ("true", {}, REFUSED), "--quantize.overwrite": ("false", {}, REFUSED), "--config": ("quantized.json",), "--json": ("",)}),
    "export": ({"": ["made", "exported"], "--quantize.overwrite": "true"}, {
        "--quantize.format": ("f16",), "--quantize.weights": ("ema", {}, REFUSED), "--quantize.double-quant": ("true", {}, REFUSED), "--quantize.overwrite": ("false", {}, REFUSED), "--config": ("exported.json",), "--json": ("",),
        "--merge": ("", {}, REFUSED)}),  # the run has no adapter; lora_command.py merges one
    "quantize": ({"": ["made", "small.gguf"], "--quantize.overwrite": "true"}, {
        "--quantize.format": ("q4_0",), "--quantize.weights": ("ema", {}, REFUSED), "--quantize.double-quant": ("true", {}, REFUSED), "--quantize.overwrite": ("false", {}, REFUSED), "--config": ("quantized.json",), "--json": ("",)}),
}
TOGETHER = (  # two options that are accepted one by one
    (("generate", "--prompt", "a", "--file", "text.txt"), REFUSED),
    (("generate", "--length", "8", "--gen-length", "9"), REFUSED),
    (("generate", "--length", "8", "--decoder.gen-length", "9"), NOTED),
    (("generate", "--schedule-steps", "4"), REFUSED),
    (("generate", "--guidance-keep", "4"), NOTED),
    (("generate", "--policy", "wedlm", "--block-length", "4"), NOTED),
    (("generate", "--policy", "wedlm", "--slot.steps", "4"), NOTED),
    (("generate", "--policy", "autoregressive", "--block-length", "4"), NOTED),
    (("generate", "--policy", "autoregressive", "--steps", "4"), NOTED),
    (("generate", "--policy", "editflow", "--model.heads", "edit", "--block-length", "4"), NOTED),
    (("generate", "--policy", "editflow", "--model.heads", "edit", "--decoder.cache", "dual"), NOTED),
    (("generate", "--policy", "uniform", "--decoder.cache", "prefix"), NOTED),
    (("infill", "--text", "a <mask:4>", "--policy", "uniform", "--decoder.cache", "dual"), NOTED),
    (("generate", "--trace-bytes", "4000"), REFUSED),
    (("infill", "--text", "a<mask>", "--file", "holes.txt"), REFUSED),
    (("chat", "--message", "a", "--template", "template", "--chat.template", "b"), REFUSED),
    (("verify", "made", "--data", "text.txt"), REFUSED),  # without --against
    (("verify", "made", "--against", "f32", "--arithmetic", "int8", "--attention", "causal"), "rows_per_second"),
    (("verify", "made", "--against", "f32", "--format", "int8", "--model.dtype", "q8_0"), REFUSED),
    (("tokenize", "--tokenizer", "made", "--text", "a", "--file", "text.txt"), REFUSED),
    (("tokenizer-train", "--data", "corpus", "--vocab", "280", "--vocab-size", "290"), REFUSED),
    (("train", "--data", "corpus", "--out", "new", "--optimizer", "sgd", "--beta1", "0.9"), REFUSED),
    (("train", "--data", "rows.jsonl", "--out", "new", "--template", "chatml", "--dataset.template", "chatml"), REFUSED),
)


def result(command, options):
    shutil.rmtree(SCRATCH / "pictures", ignore_errors=True)
    shutil.rmtree(SCRATCH / "anchored", ignore_errors=True)
    if (SCRATCH / "elsewhere").is_dir():
        shutil.rmtree(SCRATCH / "elsewhere")
    for name in ("trace", "elsewhere", "out.json", "out.tok", "made/report.html"):
        (SCRATCH / name).unlink(missing_ok=True)
    done = program.run(command, *words_of(options))
    if done.returncode != 0:
        return done, None
    output = re.sub(r'"rows_per_second":\{[^}]*\}', "", done.stdout)  # of verify: a time
    files = {name: (SCRATCH / name).read_text() for name in ("trace", "elsewhere", "out.json", "pictures/loss.svg")
             if (SCRATCH / name).is_file()}
    for name in ("anchored", "elsewhere"):
        if (SCRATCH / name).is_dir():
            files[name] = digest_of(SCRATCH / name)
    return done, ("\n".join(map(without_settings, (output, *files.values()))), sorted(files), named_settings(output))


def digest_of(folder):
    """One line for all files of a folder, without those of settings."""
    hashed = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "settings" not in path.name:
            hashed.update(f"{path.relative_to(folder)} ".encode() + path.read_bytes())
    return hashed.hexdigest()


def as_object(line):
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def without_settings(text):
    """An evaluation names its settings: that they changed does not show that they did something."""
    lines = []
    for line in text.splitlines():
        found = as_object(line)
        if found and "settings" in found:
            line = json.dumps({key: value for key, value in found.items() if key != "settings"})
        lines.append(line)
    return "\n".join(lines)


def named_settings(output):
    found = as_object(output)
    return found.get("settings") if found else None


baselines = {}


def look(command, base, common, given, name, value, more=None, expected=CHANGES):
    short = "--" + name.split(".", 1)[1] if "." in name else name
    around = {**base, **(more or {})}
    key = (command, str(sorted(around.items(), key=str)))
    if key not in baselines:
        done, left = result(command, around)
        if left is None:  # without the option something is missing
            done, left = result(command, base)
        ok(left is not None, f"{command} {name}: works without it: {done.stderr[-300:] if left is None else ''}")
        baselines[key] = left
    changed = {k: v for k, v in around.items() if k not in (short, name)}
    changed[name] = {"COMMON": common, "GIVEN": given}.get(value, value)
    done, left = result(command, changed)
    shown = f"{command} {name} {value}"
    if expected == REFUSED:
        ok(left is None and done.returncode in (1, 2), f"{shown}: refused ({done.stderr.splitlines()[-2:]})")
    elif expected == NAMED:
        ok(left is not None and left[2] != baselines[key][2], f"{shown}: named {done.stderr[-300:] if left is None else ''}")
    elif expected in (SAME, SAME_OR_REFUSED):
        refused = expected == SAME_OR_REFUSED and left is None
        ok(refused or left is not None and left[:2] == baselines[key][:2], f"{shown}: the result stays {done.stderr[-300:] if left is None else ''}")
    elif expected == MAY_STAY:
        ok(left is not None, f"{shown}: works {done.stderr[-300:] if left is None else ''}")
    else:
        program.changes(left and left[:2], baselines[key][:2], done, shown)


def prepare():
    program.empty_folder()
    lines = LINES
    (SCRATCH / "corpus").write_text("\n".join(lines) + "\n")
    (SCRATCH / "gaps").write_text("a\n\n\n\n" * 50)
    (SCRATCH / "text.txt").write_text("the dog 7")
    (SCRATCH / "holes.txt").write_text("the dog 7 <mask:20>")
    for name, text in {"settings.json": '{"decoder": {"block_length": 4}}', "text.json": '{"text": "more"}', "tensors.json": '{"tensors": true}',
                       "trained.json": '{"tokenizer_train": {"min_count": 40}}', "quantized.json": '{"quantize": {"format": "q6_k"}}',
                       "revealed.json": '{"trajectories": {"steps": 2}}', "anchored.json": '{"anchors": {"store": "f32"}}', "exported.json": '{"quantize": {"format": "bf16"}}', "report.json": '{"svg": "pictures"}', "machine.json": '{"json": true}',
                       "plan.json": json.dumps({"out": "swept", "train": {"data": "corpus", "layers": 1, "hidden": 64, "vocab": 300, "length": 32,
                                                                          "batch": 4, "steps": 2, "eval-batches": 0}}), "check.lua": "return #text > 400", "other_check.lua": "return true",
                       "completions.jsonl": '{"task_id": "0", "completion": "a"}\n',
                       "prompts.jsonl": '{"prompt": "line 4: the cat"}\n{"prompt": "line 5: the dog"}\n',
                       "other_prompts.jsonl": '{"prompt": "the dog"}\n',
                       "programs.jsonl": '{"prompt": "line 4: the cat", "entry_point": "f", "test": "def check(f): pass"}\n',
                       "settings_of_engine.json": '{"engine": {"plugin": "cpu"}}'}.items():
        (SCRATCH / name).write_text(text)
    (SCRATCH / "damaged.jsonl").write_text("{oops\n" + "".join(json.dumps({"text": line}) + "\n" for line in lines[::2]))
    (SCRATCH / "rows.jsonl").write_text("".join(json.dumps(
        {"text": line, "body": line[::-1]} if i % 2 else
        {"prompt": line, "ask": line[::-1], "response": line.upper(), "say": line.title()}) + "\n" for i, line in enumerate(lines)))
    (SCRATCH / "talks.jsonl").write_text(talks(lines))
    template = ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if tools %}{{ tools | length }} tools{% endif %}"
                "{% if enable_thinking is defined %}quick {% endif %}{% if add_generation_prompt %}assistant: {% endif %}")
    (SCRATCH / "template").write_text(template)
    (SCRATCH / "loud").write_text(template.replace("assistant: ", "ASSISTANT!"))
    (SCRATCH / "many.jsonl").write_text('{"prompt": "the dog"}\n')
    program.run("tokenizer-train", "--data", "corpus", "--vocab", "270", "--out", "small.json")
    for out, seed in (("made", "1"), ("other", "2")):
        done = program.run("train", "--data", "corpus", "--out", out, "--rows", "line", "--layers", "2", "--hidden", "64",
                           "--vocab", "300", "--length", "48", "--batch", "4", "--steps", "12", "--lr", "0.003", "--seed", seed)
        ok(done.returncode == 0, f"a run to start from: {done.stderr[-200:]}")


prepare()
# The token that is decided most often, and one of the prompt.
ids = json.loads(program.run("generate", *words_of(COMMANDS["generate"][0])).stdout)["ids"]
common, given = str(max(set(ids[-24:]), key=ids[-24:].count)), str(ids[1])
for command, (base, table) in COMMANDS.items():
    listed = program.options_of(command) - {"--help"}
    ok(not listed - set(table), f"{command}: not in the table: {sorted(listed - set(table))}")
    ok(not set(table) - listed, f"{command}: not in --help: {sorted(set(table) - listed)}")
    for option in sorted(listed & set(table)):
        look(command, base, common, given, option, *table[option])
for words, expected in TOGETHER:
    model = ["--model", "made"] if words[0] in ("generate", "infill", "chat") else []
    done = program.run(words[0], *model, "--json", *words[1:])
    good = done.returncode != 0 if expected == REFUSED else done.returncode == 0 and expected in done.stderr + done.stdout
    ok(good, f"{' '.join(words)}: {expected} ({done.stderr.splitlines()[-1:]})")
sys.exit(1 if program.failures else 0)
