"""dllm convert and dllm export: folder, GGUF and PyTorch files hold the same numbers.   convert_command.py DLLM SCRATCH

With torch and transformers installed, the exported folder is loaded there as well; else that part is skipped.
"""
import json
import pathlib
import shutil
import struct
import sys

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok


def run(*words, code=0):
    done = program.run(*words)
    ok(done.returncode == code, f"{' '.join(words)}: exit {done.returncode} {done.stderr[-300:] if done.returncode != code else ''}")
    return done


def tensors(folder):
    """name: (type, shape, bytes) of model.safetensors."""
    data = (SCRATCH / folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (row["dtype"], row["shape"], data[8 + size + row["data_offsets"][0]:8 + size + row["data_offsets"][1]])
            for name, row in header.items()}


def text_of(model):
    return json.loads(run("generate", model, "line 4: the", "--length", "12", "--steps", "6", "--json").stdout)["text"]


program.empty_folder()
(SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
run("train", "--data", "corpus", "--out", "made", "--rows", "line", "--layers", "2", "--hidden", "64", "--vocab", "300",
    "--length", "48", "--batch", "4", "--steps", "12", "--lr", "0.003")

report = json.loads(run("export", "made", "folder", "--json").stdout)
config = json.loads((SCRATCH / "folder" / "config.json").read_text())
weights = tensors("folder")
ok(report["format"] == "f32" and report["tensors"] == len(weights), f"{report['tensors']} tensors in f32")
ok(config["model_type"] == "llama" and config["architectures"] == ["LlamaForCausalLM"] and config["torch_dtype"] == "float32",
   f"what transformers looks for: {config.get('model_type')}, {config.get('architectures')}")
shape = [config["vocab_size"], config["hidden_size"]]
ok(weights["model.embed_tokens.weight"][:2] == ("F32", shape), f"the embedding is {shape}")
ok(weights["model.layers.1.mlp.down_proj.weight"][1] == [config["hidden_size"], config["intermediate_size"]], "names and shapes of a layer")
ok(all((SCRATCH / "folder" / name).exists() for name in ("tokenizer.json", "tokenizer_config.json")), "the tokenizer is there")
ok(text_of("folder") == text_of("made"), "the exported model writes what the run writes")
run("export", "made", "folder", code=1)
run("export", "made", "folder", "--overwrite", "true")
run("export", "made", "x.gguf", code=2)

run("convert", "made", "made.gguf")
run("convert", "made.gguf", "back")
back = tensors("back")
ok({name: row for name, row in back.items()} == {name: row for name, row in weights.items()},
   "folder to GGUF to folder: the same bits")
run("convert", "made", "small.gguf", "--format", "q8_0")
ok(json.loads(run("convert", "small.gguf", "small", "--json").stdout)["format"] == "bf16", "quantized weights become bf16")
ok(json.loads(run("convert", "folder", "half", "--format", "f16", "--json").stdout)["format"] == "f16", "a folder in f16")
ok(json.loads(run("convert", "half", "half.gguf", "--json").stdout)["format"] == "f16", "auto is the type of the input")


def objectives_outlive_files():
    """Files of a run are decoded by the policy of its objective, and scored as the run is."""
    for objective, words in (("uniform", []), ("bd3lm", ["--objective.block-length", "8"]), ("dream", [])):
        out = f"run-{objective}"
        run("train", "--data", "corpus", "--out", out, "--rows", "line", "--layers", "1", "--hidden", "64", "--vocab", "300",
            "--length", "48", "--batch", "4", "--steps", "4", "--objective", objective, *words)
        run("export", out, f"{out}-folder")
        run("convert", out, f"{out}.gguf")
        run("quantize", out, f"{out}-f32.gguf", "--format", "f32")
        kept = sorted((SCRATCH / out).glob("step_*/model"))[-1].relative_to(SCRATCH)
        answers, scores = [], []
        for model in (out, f"{out}-folder", f"{out}.gguf", f"{out}-f32.gguf", str(kept)):
            made = json.loads(run("generate", model, "line 4: the", "--length", "16", "--json").stdout)
            answers.append((made["text"], made["policy"]))
            score = json.loads(run("eval", model, "corpus", "--dataset.rows", "line", "--limit", "12", "--json").stdout)
            scores.append((score["settings"]["objective"], score["nats_per_token"]))
        ok(len(set(answers)) == 1, f"{objective}: the same text by the same policy: {answers}")
        ok(len(set(scores)) == 1, f"{objective}: the same score: {scores}")


def averages():
    """The moving averages of a run are scored, decoded, exported, and trained on."""
    own = ["--data", "corpus", "--rows", "line", "--length", "48", "--batch", "4", "--eval-every", "0", "--examples", "0"]
    run("train", *own, "--out", "averaged", "--layers", "1", "--hidden", "64", "--vocab", "300", "--steps", "6", "--ema", "0.7", "--lr", "0.003")

    def score(model, *words):
        return json.loads(run("eval", model, "corpus", "--dataset.rows", "line", "--limit", "12", "--json", *words).stdout)["nats_per_token"]

    ema = ["--model.weights", "ema"]
    run("export", "averaged", "averaged-folder", "--weights", "ema")
    run("convert", "averaged", "averaged.gguf", "--weights", "ema")
    scores = [score("averaged", *ema), score("averaged-folder"), score("averaged.gguf")]
    ok(len(set(scores)) == 1 and scores[0] != score("averaged"), f"averages have one score, which is not the weights': {scores}")
    state = next((SCRATCH / "averaged").glob("step_000006/state/rank_000.safetensors")).read_bytes()
    size = struct.unpack("<Q", state[:8])[0]
    header = {name: row for name, row in json.loads(state[8:8 + size]).items() if name.startswith("ema.")}
    kept = {name[4:]: state[8 + size + row["data_offsets"][0]:8 + size + row["data_offsets"][1]] for name, row in header.items()}
    ok(kept == {name: row[2] for name, row in tensors("averaged-folder").items()}, f"{len(kept)} exported tensors are the averages")
    run("train", *own, "--from", "averaged", *ema, "--out", "onward", "--steps", "1", "--ema", "0.7")
    run("train", *own, "--from", "averaged", *ema, "--out", "onward", "--steps", "2", "--ema", "0.7")
    run("train", *own, "--from", "folder", "--lora", "2", "--out", "adapted", "--steps", "1", "--ema", "0.7")
    for model, why in (("made", "no moving averages"), ("folder", "names no checkpoint"), ("adapted", "averages of an adapter")):
        done = program.run("generate", model, "line 4", *ema)
        ok(done.returncode == 1 and why in done.stderr, f"{model}: {done.stderr[-200:]}")


def torch_folder(names):
    """The exported folder with its weights in pytorch_model.bin, written by torch."""
    import torch
    types = {"F32": torch.float32}
    state = {name: torch.frombuffer(bytearray(row[2]), dtype=types[row[0]]).reshape(row[1]) for name, row in weights.items()}
    shutil.copytree(SCRATCH / "folder", SCRATCH / "torch")
    (SCRATCH / "torch" / "model.safetensors").unlink()
    cut = sorted(state)
    for i, part in enumerate((cut[::2], cut[1::2]), 1):
        torch.save({name: state[name] for name in part}, SCRATCH / "torch" / f"pytorch_model-0000{i}-of-00002.bin")
    where = {name: f"pytorch_model-0000{1 + cut.index(name) % 2}-of-00002.bin" for name in cut}
    (SCRATCH / "torch" / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": where}))


objectives_outlive_files()
averages()
try:
    torch_folder(weights)
    run("convert", "torch", "from_torch")
    ok(tensors("from_torch") == weights, "sharded PyTorch files to safetensors: the same bits")
    ok(text_of("torch") == text_of("made"), "a model in PyTorch files decodes")
    import torch
    import transformers
    model, info = transformers.AutoModelForCausalLM.from_pretrained(SCRATCH / "folder", output_loading_info=True)
    ok(not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), "transformers finds every tensor")
except ImportError as error:
    print(f"skipped: {error}")
print(f"{program.failures} failures")
sys.exit(program.failures > 0)
