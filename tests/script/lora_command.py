"""dllm train --lora, and what comes after it: resume, generate, export, merge.   lora_command.py DLLM SCRATCH"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from cli_options import LINES, Program

DLLM, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
program = Program(DLLM, SCRATCH)
ok = program.ok
LOOP = ["--length", "32", "--batch", "4", "--eval-every", "0", "--examples", "0", "--rows", "line", "--data", "corpus", "--lr", "0.01", "--warmup", "0"]
LORA = ["--from", "base", "--lora", "4", "--targets", "q,v,up", "--adapter.layers", "1"]


def run(*words, code=0):
    done = program.run(*words)
    ok(done.returncode == code, f"{' '.join(words)}: exit {done.returncode} {done.stderr[-300:] if done.returncode != code else ''}")
    return done


def train(*words, code=0):
    return run("train", *LOOP, *words, code=code).stderr


def text_of(*words):
    return json.loads(run("generate", "--model", *words, "--prompt", "line 4: the", "--length", "24", "--steps", "12", "--json").stdout)["text"]


def losses(out):
    events = [json.loads(line) for line in (SCRATCH / out / "metrics.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event["event"] == "step"] or [event["loss"] for event in events if "loss" in event]


def adapter_of(out):
    folders = sorted((SCRATCH / out).glob("step_*/part*_adapter-default"))
    return (folders[-1] / "adapter_model.safetensors").read_bytes()


def killed(out, *words):
    """Starts a training and kills it after its first checkpoint."""
    process = subprocess.Popen([DLLM, "train", *LOOP, "--out", out, *words], cwd=SCRATCH, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.time() + 60
    while not list((SCRATCH / out).glob("step_??????/COMMIT")) and time.time() < end and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    ok(bool(list((SCRATCH / out).glob("step_??????/COMMIT"))), f"{out}: a checkpoint is there when the run is killed")


def prepare():
    program.empty_folder()
    (SCRATCH / "corpus").write_text("\n".join(LINES) + "\n")
    train("--out", "made", "--steps", "20", "--layers", "2", "--hidden", "64", "--vocab", "300")
    run("export", "made", "base")  # its numbers are never trained, so checkpoints refer to this folder


def trains_and_resumes():
    said = train(*LORA, "--out", "whole", "--steps", "30", "--save-every", "5")
    lines = [line for line in said.splitlines() if line.startswith("lora: ")]
    ok(len(lines) == 1 and "rank 4, 3 matrices" in lines[0] and "trains 2." in lines[0], f"one line: {lines}")
    step = SCRATCH / "whole" / "step_000030"
    ok(not (step / "model").exists(), "the checkpoint refers to the base")
    ok((step / "part1_adapter-default" / "adapter_config.json").exists(), "and has the adapter as a folder of PEFT")
    killed("cut", *LORA, "--steps", "100000", "--save-every", "5")
    record = json.loads((SCRATCH / "cut" / "run.json").read_text())
    ok(record["lora"] == 4 and record["adapter"]["targets"] == ["q", "v", "up"], f"the record: {record['lora']}, {record['adapter']}")
    said = train("--out", "cut", "--steps", "30")
    if "resumed" in said:
        ok("rank 4, 3 matrices" in said, f"a resumed run keeps the adapter: {said[-400:]}")
    ok(losses("cut")[:30] == losses("whole")[:30], "killed and resumed: the same losses")
    train("--out", "cut", "--steps", "31", *LORA)  # the same command goes on
    train("--out", "cut", "--steps", "32", "--alpha", "8")  # twice the rank, which is the default
    for words, named in ((["--lora", "8"], "--lora 8 differs from 4"), (["--alpha", "3"], "alpha"), (["--targets", "k"], "targets")):
        said = train("--out", "cut", "--steps", "40", *words, code=2)
        ok(named in said and "was started with" in said, f"{words}: {said[-200:]}")
    said = train("--out", "made", "--steps", "40", "--lora", "8", code=2)
    ok("--lora 8 differs from none" in said, f"a run without an adapter: {said[-200:]}")


def says_the_cost():
    """Before the weights are loaded: the numbers of the plan are those of the run."""
    words = ["--from", "base", "--lora", "4", "--targets", "q,v", "--length", "32", "--batch", "4"]
    said = run("train", *words, "--help").stdout.splitlines()[-1]
    ok(said.startswith("--lora 4, before base is loaded: trains "), f"the help ends with the cost: {said}")
    ok("before base" not in run("train", "--lora", "4", "--help").stdout, "without --from the help has no cost")
    trained = train(*words, "--out", "cost", "--steps", "2", "--lr", "0.01").splitlines()
    ok(said in trained, f"and the run says the same: {said}: {trained[:3]}")
    plans = {}
    for dtype in ("f32", "nf4", "auto"):
        plan = json.loads(run("graph", "base", "--what", "train", "--lora", "4", "--targets", "q,v", "--batch", "4", "--length", "32",
                              "--dtype", dtype, "--json").stdout)
        ok(plan["adapter"] == 4 * plan["trained"] and plan["moments"] == 8 * plan["trained"], f"{dtype}: {plan}")
        plans[dtype] = plan
    ok(plans["nf4"]["weights"] < plans["f32"]["weights"] / 3, f"a base in 4 bits: {plans['nf4']['weights']}")
    ok(plans["auto"] == plans["f32"], "the files are f32")
    run("quantize", "base", "packed.gguf", "--format", "q8_0")
    packed = json.loads(run("graph", "packed.gguf", "--what", "train", "--lora", "4", "--dtype", "auto", "--json").stdout)
    ok(packed["weights"] - packed["adapter"] < plans["f32"]["weights"] / 2, f"the formats of the files: {packed['weights']}")
    page = run("graph", "base", "--what", "train", "--lora", "4", "--dtype", "nf4").stdout
    ok("trained" in page and "the frozen base" in page, f"the page: {page}")
    for wrong, named in ((["--lora", "4"], "option adapter plans a training"), (["--what", "train", "--targets", "q"], "needs --lora"),
                         (["--what", "train", "--lora", "4", "--targets", "no_such"], "no_such")):
        done = program.run("graph", "base", *wrong)
        ok(done.returncode != 0 and named in done.stderr, f"graph {wrong}: {done.stderr[-200:]}")


def decodes_and_exports():
    wanted = text_of("whole")
    ok(wanted != text_of("base"), "the adapter changes the text")
    report = json.loads(run("export", "whole", "peft", "--json").stdout)
    ok(report["rank"] == 4 and report["modules"] == 3, f"export: {report}")
    files = sorted(path.name for path in (SCRATCH / "peft").iterdir())
    ok(files == ["adapter_config.json", "adapter_model.safetensors", "dllm.json", "dllm_rows.json"], f"the folder of PEFT: {files}")
    config = json.loads((SCRATCH / "peft" / "adapter_config.json").read_text())
    ok(config["base_model_name_or_path"] == str(SCRATCH.resolve() / "base"), f"its base: {config['base_model_name_or_path']}")
    ok(text_of("base", "--model.adapter", "peft") == wanted, "the folder with the base writes what the run writes")
    ok("already" in run("export", "whole", "peft", code=1).stderr, "a folder that is there stays")
    run("export", "whole", "other", "--format", "f16", code=2)
    run("export", "whole", "merged", "--merge")
    ok(text_of("merged") == wanted, "the merged model writes what the run writes")
    run("convert", "merged", "merged.gguf")
    ok(text_of("merged.gguf") == wanted, "and as a GGUF file too")
    ok("no adapter" in run("export", "made", "x", "--merge", code=1).stderr, "nothing to merge is an error")
    ok("dllm export --merge" in run("convert", "whole", "x.gguf", code=1).stderr, "convert names the way")
    for out, words, error in (("m4", ["--format", "nf4"], 0.2), ("m8.gguf", ["--format", "q8_0"], 0.006), ("m.gguf", [], 1e-6)):
        report = json.loads(run("export", "whole", out, "--merge", *words, "--json").stdout)
        worst = max(kind["error"] for kind in report["kinds"])
        ok(worst <= error and (worst > 0) == bool(words), f"{out}: an error of {worst}")
        two = f"two-{out}"  # the same as a merge in f32 that is converted
        run("convert" if out.endswith("gguf") else "quantize", "merged", two, *words)
        one, other = (SCRATCH / out, SCRATCH / two) if out.endswith("gguf") else (SCRATCH / out / "model.safetensors", SCRATCH / two / "model.safetensors")
        ok(one.read_bytes() == other.read_bytes(), f"{out} has the bytes of two steps")
        ok(text_of(out) == text_of(two), f"{out} is a model")
        ok(not (SCRATCH / f"{out}.merging").exists(), "no folder is left")
    ok(text_of("m.gguf") == wanted, "a GGUF file in f32 writes what the run writes")
    said = run("export", "whole", "m4", "--merge", "--format", "nf4", code=1).stderr
    ok("already" in said, f"a folder that is there stays: {said[-200:]}")
    (SCRATCH / "m4.merging").mkdir()
    (SCRATCH / "m4.merging" / "mine").write_text("kept")
    said = run("export", "whole", "m4", "--merge", "--format", "nf4", "--overwrite", "true", code=1).stderr
    ok("m4.merging is there" in said and (SCRATCH / "m4.merging" / "mine").read_text() == "kept", f"a folder of that name stays: {said}")
    shutil.rmtree(SCRATCH / "m4.merging")
    said = run("export", "whole", "m4", "--merge", "--format", "nf4", "--overwrite", "true").stdout
    ok("error up to 15." in said and "bidirectional" in said, f"the error of the format is stated: {said}")
    run("export", "whole", "merged", "--merge", "--format", "bf16", "--overwrite", "true")


def requests_choose():
    """--adapters chooses for a request among the adapters of the model and the folders that the command names."""
    wanted, plain = text_of("whole"), text_of("base")
    folders = ["--adapter-folders", "a=peft,b=peft"]
    ok(text_of("base", *folders, "--adapters", "a") == wanted, "an adapter that is loaded for the request")
    ok(text_of("base", *folders, "--adapters", "a:0.25,b:0.75") == wanted, "a sum of two that are equal")
    ok(text_of("base", *folders) == plain, "a request that names none has none of the folders")
    ok(text_of("whole", "--adapters", "none") == plain, "none: the base alone")
    ok(text_of("whole", "--adapters", "default") == wanted, "the adapter of a run by its name")
    said = run("generate", "whole", "x", "--adapters", "math", code=1).stderr
    ok("math" in said and "default" in said, f"an unknown name: {said[-200:]}")
    for words, wanted_warnings in (((), 0), (("--model.attention", "causal"), 1)):
        said = run("generate", "base", "x", *folders, "--adapters", "a", "--samples", "3", "--length", "8", *words).stderr
        ok(said.count("the adapter was trained with attention bidirectional") == wanted_warnings, f"another attention warns once: {said[-300:]}")
    run("quantize", "base", "base4", "--format", "nf4")
    for base, count in (("base", 0), ("base4", 1)):
        for words in ((*folders, "--adapters", "a", "--samples", "3"), ("--model.adapter", "peft")):
            said = run("generate", base, "x", "--length", "8", *words).stderr
            ok(said.count("base in f32, digest 2-") == count and said.count("base4 in nf4, digest 2-") == count, f"the format of the base moved: {said[-300:]}")
    said = run("generate", "base", "x", *folders, "--adapters", "a", "--adapter-bytes", "100", code=1).stderr
    ok("adapter_bytes is 100" in said, f"a budget that is too small: {said[-200:]}")


def goes_on_with_a_folder():
    """--adapter trains the adapter of a folder; a run of it is resumed by its path."""
    before = (SCRATCH / "peft" / "adapter_model.safetensors").read_bytes()
    words = ["--from", "base", "--adapter", "peft", "--out", "more"]
    said = train(*words, "--steps", "5")
    ok("rank 4, 3 matrices" in said, f"one line: {said[-300:]}")
    ok((SCRATCH / "peft" / "adapter_model.safetensors").read_bytes() == before, "the folder keeps its numbers")
    ok("resumed" in train(*words, "--steps", "8"), "the same command goes on")
    ok("resumed" in train("--out", "more", "--steps", "9"), "and its path alone")
    ok(adapter_of("more") != adapter_of("whole"), "the adapter of the run is another one")
    train("--from", "whole", "--out", "second", "--steps", "3")  # a run with an adapter
    said = train("--from", "whole", "--lora", "2", "--out", "third", "--steps", "3", code=1)
    ok("has an adapter already" in said, f"one adapter at a time: {said[-200:]}")


def keeps_the_format():
    """The base stays in blocks, in memory and in the checkpoint; a merge is in f32."""
    run("convert", "base", "small.gguf", "--format", "q8_0")
    said = train("--from", "small.gguf", "--lora", "4", "--out", "blocks", "--steps", "5", "--json")
    ok(not list((SCRATCH / "blocks").glob("step_*/model")), f"the checkpoint refers to the file {said[-200:]}")
    wanted = text_of("blocks")
    run("export", "blocks", "blocks-merged", "--merge")
    ok(text_of("blocks-merged") == wanted, "merged in f32: the same text")


def four_bits():
    """QLoRA: a base in nf4, from a folder of bitsandbytes or packed by a load, stays in 4 bits."""
    run("quantize", "base", "four", "--format", "nf4", "--double-quant", "true")
    config = json.loads((SCRATCH / "four" / "config.json").read_text())["quantization_config"]
    ok(config["quant_method"] == "bitsandbytes" and config["bnb_4bit_quant_type"] == "nf4", f"config.json says so: {config}")
    before = (SCRATCH / "four" / "model.safetensors").read_bytes()
    train("--from", "four", "--lora", "4", "--out", "qlora", "--steps", "5")
    ok(not list((SCRATCH / "qlora").glob("step_*/model")), "the checkpoint refers to the folder")
    ok((SCRATCH / "four" / "model.safetensors").read_bytes() == before, "the folder is as it was")
    record = json.loads(next((SCRATCH / "qlora").glob("step_000005/trainer.json")).read_text())
    formats = record["parts"][0]["format_of"]
    ok({formats[name] for name in ("layers.q", "layers.down")} == {"nf4"}, f"matrices in nf4: {formats}")
    wanted = text_of("qlora")
    run("export", "qlora", "qlora-merged", "--merge")
    ok(text_of("qlora-merged") == wanted, "merged in f32: the same text")
    train("--from", "base", "--model.dtype", "fp4", "--lora", "4", "--dora", "true", "--out", "packed", "--steps", "5")
    ok(text_of("packed"), "a base that the load packs, with DoRA")


def vectors():
    """Kind ia3: trained, resumed, decoded with, exported for PEFT and merged."""
    words = ["--from", "base", "--adapter.kind", "ia3", "--targets", "k,v,down", "--lr", "0.1", "--objective.loss-norm", "masked", "--objective.loss-weight", "ones"]
    said = train(*words, "--out", "vectors", "--steps", "80", "--save-every", "20")
    lines = [line for line in said.splitlines() if line.startswith("ia3: ")]
    ok(len(lines) == 1 and "6 matrices" in lines[0], f"one line: {lines or said[-300:]}")
    step = SCRATCH / "vectors" / "step_000080"
    ok(not (step / "model").exists() and adapter_of("vectors") != b"", "the checkpoint refers to the base, and has the vectors")
    all_losses = losses("vectors")[:80]  # a held-out loss follows
    first, last = sum(all_losses[:20]) / 20, sum(all_losses[-20:]) / 20
    ok(len(all_losses) == 80 and last < first - 0.05, f"the loss falls: {first} to {last}")
    killed("vectors-cut", *words, "--steps", "100000", "--save-every", "5")
    train(*words, "--out", "vectors-cut", "--steps", "80")
    ok(losses("vectors-cut")[:80] == all_losses, "killed and resumed: the same losses")
    ok(len(losses("vectors-cut")) > 80 or adapter_of("vectors-cut") == adapter_of("vectors"), "and the same vectors")
    wanted = text_of("vectors")
    ok(wanted != text_of("base"), "the vectors change the text")
    run("export", "vectors", "vectors-peft")
    config = json.loads((SCRATCH / "vectors-peft" / "adapter_config.json").read_text())
    ok(config["peft_type"] == "IA3" and [name.split(".")[-1] for name in config["target_modules"]] == ["down_proj", "k_proj", "v_proj"]
       and config["feedforward_modules"] == ["mlp.down_proj"], f"the folder of PEFT: {config}")
    ok(text_of("base", "--model.adapter", "vectors-peft") == wanted, "the folder with the base writes what the run writes")
    ok(text_of("base", "--adapter-folders", "a=vectors-peft", "--adapters", "a") == wanted, "and so does a request that chooses it")
    run("export", "vectors", "vectors-merged", "--merge")
    ok(text_of("vectors-merged") == wanted, "the merged model writes what the run writes")
    for more, named in ((["--lora", "4"], "rank"), (["--alpha", "8"], "alpha"), (["--rslora", "true"], "rslora")):
        said = train(*words, "--out", "refused", "--steps", "3", *more, code=1)
        ok(named in said and "ia3" in said, f"{more}: {said[-300:]}")


def mask_row():
    """A base without a mask token, whose embedding is the head: the adapter learns the row of its new token."""
    config = json.loads((SCRATCH / "base" / "config.json").read_text())
    ok(config["tie_word_embeddings"], "the base has one matrix for its embedding and its head")
    (SCRATCH / "unmasked").mkdir()
    for path in (SCRATCH / "base").iterdir():
        text = path.read_bytes()
        if path.suffix == ".json":
            text = text.replace(b"<|mask|>", b"<|other|>").replace(b'"mask_token"', b'"other_token"').replace(b'"mask_token_id"', b'"other_token_id"')
        (SCRATCH / "unmasked" / path.name).write_bytes(text)
    words = ["--from", "unmasked", "--lora", "4", "--targets", "q,v", "--adapter.modules-to-save", "embed_tokens,lm_head"]
    train(*words, "--out", "row", "--steps", "20", "--save-every", "5")
    killed("row-cut", *words, "--steps", "100000", "--save-every", "5")
    train("--out", "row-cut", "--steps", "20")
    ok(losses("row-cut")[:20] == losses("row")[:20], "killed and resumed: the same losses")
    wanted = text_of("row")
    run("export", "row", "row-peft")
    config = json.loads((SCRATCH / "row-peft" / "adapter_config.json").read_text())
    ok(config["ensure_weight_tying"] is True and config["modules_to_save"] == ["model.embed_tokens", "lm_head"], f"the folder of PEFT: {config}")
    ok(text_of("unmasked", "--model.adapter", "row-peft") == wanted, "the folder with the base writes what the run writes")
    run("export", "row", "row-merged", "--merge")
    ok(text_of("row-merged") == wanted, "the merged model writes what the run writes")
    ok(json.loads((SCRATCH / "row-merged" / "config.json").read_text())["tie_word_embeddings"], "and has one matrix")


def next_token():
    """A next-token model has no mask token, and its adapter is exported and merged all the same."""
    train("--out", "next", "--steps", "10", "--layers", "1", "--hidden", "64", "--vocab", "300", "--objective", "ar")
    run("export", "next", "next_base")
    base = SCRATCH / "next_base"
    config = json.loads((base / "config.json").read_text())
    for keys in (config, config["dllm"]):
        keys.pop("mask_token_id", None)
    (base / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (base / name).write_text((base / name).read_text().replace("<|mask|>", "<|other|>").replace('"mask_token"', '"other_token"'))
    train("--from", "next_base", "--lora", "4", "--objective", "ar", "--out", "next_lora", "--steps", "5")
    ok("no mask token" in run("export", "next_lora", "next_peft").stdout, "the note says so")
    run("export", "next_lora", "next_merged", "--merge")
    words = ["--model", "next_merged", "--prompt", "line 4: the", "--length", "8", "--json"]
    wanted = json.loads(run("generate", "--model", "next_lora", *words[2:]).stdout)["text"]
    ok(json.loads(run("generate", *words).stdout)["text"] == wanted, "the merged model writes what the run writes")


def refusals():
    for words, named, code in (
            (["--lora", "4"], "--from", 2), (["--from", "base", "--lora", "0"], "--lora", 2), (["--from", "base", "--lora", "x"], "--lora", 2),
            (["--from", "base", "--lora", "70000"], "--lora", 2), (["--from", "base", "--alpha", "8"], "needs --lora", 2),
            (["--from", "base", "--targets", "q"], "needs --lora", 2), (["--from", "base", "--lora", "4", "--adapter.rank", "8"], "--lora", 2),
            (["--from", "base", "--lora", "4", "--model.heads", "edit"], "no new heads", 2),
            (["--from", "base", "--lora", "4", "--objective", "editflow"], "needs heads", 1),
            (["--from", "base", "--lora", "4", "--adapter", "peft"], "--adapter", 2), (["--adapter", "peft"], "--from", 2),
            (["--from", "base", "--lora", "4", "--targets", "no_such"], "q_proj", 1),
            (["--from", "base", "--lora", "4", "--targets", "embed_tokens"], "embed_tokens", 1),
            (["--from", "base", "--lora", "4", "--adapter.layers", "9-x"], "9-x", 1),
            (["--from", "base", "--lora", "4", "--optimizer", "muon"], "optimizer muon updates matrices of layers", 1),
            (["--from", "base", "--lora", "4", "--targets", "q", "--adapter.rank-pattern", "v_proj=2"], 'rank_pattern "v_proj" matches no module', 1),
            (["--from", "base", "--lora", "4", "--adapter.alpha-pattern", "q_porj=2"], 'alpha_pattern "q_porj" matches no module', 1)):
        said = train("--out", "refused", "--steps", "3", *words, code=code)
        ok(named in said, f"{words}: {said[-300:]}")
    ok(not list((SCRATCH / "refused").glob("step_*")), "nothing was trained")


prepare()
trains_and_resumes()
says_the_cost()
decodes_and_exports()
requests_choose()
goes_on_with_a_folder()
keeps_the_format()
four_bits()
vectors()
mask_row()
next_token()
refusals()
sys.exit(1 if program.failures else 0)
