#!/usr/bin/env python3
"""Diffusion over masks, embeddings and latents, compared at equal seconds of training.

    python3 scripts/recipes/latent_compare.py --program dllm --text shakespeare.txt --out FOLDER [--seconds 60] [--seeds 1,2,3]
        [--tasks stories,sums,text] [--systems masks,embedding,ldlm,vfm,cola] [--jobs 1] [--tiny]
    python3 scripts/recipes/latent_compare.py --out FOLDER --table

FOLDER/results.jsonl has a line for each run. A run that has its line is not made again, so the command may be stopped and
repeated. Seconds are user time of the child process, with one thread. A system has its steps from the time of short runs
(`cost` lines), and all of its training counts, that of a base too.
"""
import argparse
import collections
import concurrent.futures
import copy
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
DECODE_STEPS = [1, 4, 16, 64]
OTHER_STEPS = [16]  # of the second way to decode a system
SHORT, LONG = 5, 30  # steps of the two runs from which the seconds of a step follow

# What a row of a task is: options of every training, positions that are decoded, and texts of a score.
TASKS = {
    "stories": {"data": "stories.jsonl", "vocab": 1024, "batch": 16, "length": 32, "latents": 16, "open": 32, "count": 64,
                "loader": ["--pack", "false", "--eos-block", "32"]},
    "sums": {"data": "sums.jsonl", "vocab": 264, "batch": 32, "length": 12, "latents": 8, "open": 4, "count": 200,
             "loader": ["--pack", "false", "--append-eos", "false"]},
    "text": {"data": "text.jsonl", "vocab": 512, "batch": 16, "length": 32, "latents": 16, "open": 32, "count": 64,
             "loader": ["--pack", "false", "--append-eos", "false"]},
}

# A system is a list of stages (share of the seconds, options) and the ways to decode the last model. Options of a task come
# after those of all tasks. {name} is a number of the task.
MASKS = ["--objective", "mdlm", "--hidden", "128", "--lr", "3e-3", "--loss-weight", "ones", "--time-sampling", "low_discrepancy"]
SYSTEMS = {
    "masks": {
        "stages": [(1.0, MASKS + ["--layers", "4"], {"sums": ["--layers", "3"]})],
        "decode": {"T 1": ["--policy", "ancestral", "--temperature", "1"], "T 0.5": ["--policy", "ancestral", "--temperature", "0.5"],
                   "sure first, after five words": ["--policy", "low_confidence"]},
        "sums": {"sure first": ["--policy", "low_confidence"]},
    },
    "embedding": {
        "stages": [(1.0, ["--objective", "embedding", "--hidden", "128", "--layers", "4", "--lr", "3e-3", "--prefix", "0"],
                    {"sums": ["--layers", "3"]})],
        "decode": {"ddim": ["--solver", "ddim"], "ddpm": ["--solver", "ddpm"]},
        "sums": {"ddim": ["--solver", "ddim"]},
    },
    # The base is a masked model of one layer, whose states the encoder reads.
    "ldlm": {
        "stages": [(0.2, MASKS + ["--layers", "1"], {}),
                   (0.8, ["--objective", "ldlm", "--lr", "1e-3", "--encoder-layer", "-1", "--latents", "{latents}", "--positions", "{length}",
                          "--latent-dim", "64", "--latent-heads", "4", "--denoiser-depth", "2", "--encoder-warmup", "{steps}",
                          "--decoder-noise", "0.5", "--time-interval", "{tenth}"], {"sums": ["--prompt", "1", "--holes", "0", "--unconditional", "0"]})],
        "decode": {"ddim": ["--solver", "ddim"], "ddpm": ["--solver", "ddpm"]},
        "sums": {"ddim": ["--solver", "ddim"]},
    },
    # Half of the seconds make a masked model, and half train it with an adapter. Texts begin with five words of held-out rows, since
    # the adapter reads a prompt.
    "vfm": {
        "stages": [(0.5, MASKS + ["--layers", "3"], {}),
                   (0.5, ["--objective", "vfm", "--lr", "1e-3", "--filler-layers", "1", "--filler-ffn", "256", "--filler-heads", "4",
                          "--refinement", "true", "--objective.train-base", "true"], {})],
        "decode": {"sure first": ["--policy", "low_confidence"], "T 1": ["--policy", "ancestral", "--temperature", "1"]},
        "sums": {"sure first": ["--policy", "low_confidence"]},
        "prompts": True,
    },
    "cola": {
        "stages": [(1.0, ["--objective", "cola", "--hidden", "128", "--layers", "1", "--lr", "3e-3", "--encoder-layers", "1",
                          "--decoder-layers", "1", "--prior-layers", "2", "--latent-heads", "4", "--block-length", "8"],
                    {"sums": ["--block-length", "4"]})],
        "blocks": {"stories": 4, "text": 4},
        "decode": {"euler": ["--solver", "euler"], "heun": ["--solver", "heun"]},
        "sums": {"euler": ["--solver", "euler"]},
    },
}


def train_arguments(task, system, stage):
    share, options, more = SYSTEMS[system]["stages"][stage]
    settings = TASKS[task]
    return settings["loader"] + [word.replace("{latents}", str(settings["latents"])).replace("{length}", str(settings["length"]))
                                 for word in options + more.get(task, [])]


class Bench:
    def __init__(self, asked):
        self.asked = asked
        self.out = pathlib.Path(asked.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.lines = self.out / "results.jsonl"
        self.lock, self.bytes_of = threading.Lock(), {}
        self.known = [json.loads(line) for line in self.lines.open()] if self.lines.exists() and not asked.tiny else []

    def note(self, line):
        with self.lock:
            self.known.append(line)
            with self.lines.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line)[:300], flush=True)

    def found(self, **keys):
        with self.lock:
            return next((line for line in reversed(self.known) if all(line.get(k) == v for k, v in keys.items())), None)

    def program(self, *words):
        """Runs the program and returns (its output, seconds of user time)."""
        command = [self.asked.program, *map(str, words)]
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            errors.seek(0)
            text = output.read()
            if child.returncode:
                raise RuntimeError(f"{' '.join(command)}: exit code {child.returncode}\n{errors.read()[-2000:]}{text[-500:]}")
        return text, usage.ru_utime

    # ---- data ----
    def prepare(self):
        made = self.out / "data"
        made.mkdir(exist_ok=True)
        tiny = self.asked.tiny
        if not (made / "stories.jsonl").exists() and "stories" in self.asked.tasks:
            self.program("run", HERE / "stories.lua", "--write", made / "stories.jsonl", "--count", 200 if tiny else 20000)
            self.program("run", HERE / "stories.lua", "--write", made / "held.jsonl", "--count", 200, "--seed", 77)
            held = [json.loads(line)["text"] for line in (made / "held.jsonl").open()]
            write_beginnings(held, made / "stories-begin.jsonl", TASKS["stories"]["count"])
        if not (made / "sums.jsonl").exists() and "sums" in self.asked.tasks:
            self.write_sums(made, 200 if tiny else 60000)
        if not (made / "train.txt").exists() and "text" in self.asked.tasks:
            whole = pathlib.Path(self.asked.text).read_bytes()
            cut = len(whole) * 9 // 10
            (made / "test.txt").write_bytes(whole[cut:])
            write_rows(whole[:cut], made / "text.jsonl", 40 if tiny else 1 << 30)
            pieces = [whole[at:at + 100].decode(errors="replace").split(None, 1)[1] for at in range(cut, len(whole) - 100, 2000)]
            write_beginnings(pieces, made / "text-begin.jsonl", TASKS["text"]["count"])
            (made / "train.txt").write_bytes(whole[:cut])
        for task in self.asked.tasks:
            if not (made / f"{task}.json").exists():
                learned = made / TASKS[task]["data"]
                if task == "sums":  # one digit, so that no two characters become one token
                    learned = made / "digit.txt"
                    learned.write_text("0")
                self.program("tokenizer-train", "--data", learned, "--out", made / f"{task}.json",
                             "--vocab", TASKS[task]["vocab"])

    def write_sums(self, made, count):
        """sums.jsonl to learn from, with other sums to score: any, and those with a carry at two places or three."""
        self.program("run", HERE / "arithmetic.lua", "--digits", 3, "--write", made / "all.jsonl", "--count", count)
        rows = [json.loads(line) for line in (made / "all.jsonl").open()]
        held, rows = rows[:count // 10], rows[count // 10:]
        seen = {row["prompt"] for row in held}
        with (made / "sums.jsonl").open("w") as file:
            for row in rows:
                if row["prompt"] not in seen:
                    file.write(json.dumps({"prompt": row["prompt"], "response": row["answer"]}) + "\n")
        number = TASKS["sums"]["count"]
        asked = held[:number] + [row for row in held if carries(row["prompt"]) >= 2][:number]
        (made / "asked.jsonl").write_text("".join(json.dumps({"prompt": row["prompt"]}) + "\n" for row in asked))

    # ---- training ----
    def train(self, task, system, stage, steps, seed, out):
        settings = TASKS[task]
        data = self.out / "data"
        words = ["train", "--data", data / settings["data"], "--out", out, "--fresh", "--split", "all", "--seed", seed,
                 "--batch", settings["batch"], "--length", settings["length"], "--steps", steps, "--trainer.schedule", "cosine",
                 "--threads", 1, "--arithmetic", "bf16", "--eval-every", 0, "--eval-batches", 0, "--examples", 0, "--save-every", 0]
        words += ["--from", out.parent / f"stage{stage - 1}"] if stage else ["--tokenizer", data / f"{task}.json"]
        words += [word.format(steps=steps, tenth=max(1, steps // 10)) for word in train_arguments(task, system, stage)]
        return self.program(*words)

    def cost(self, task, system, stage):
        """Seconds of a start and of a step, from two short runs."""
        arguments = train_arguments(task, system, stage)
        line = self.found(kind="cost", task=task, system=system, stage=stage, arguments=arguments)
        if line is None:
            folder = self.out / "cost" / f"{task}-{system}"
            if stage:
                self.cost_base(task, system, stage, folder)
            short, long = (min(self.train(task, system, stage, steps, 0, folder / f"stage{stage}")[1] for _ in range(2))
                           for steps in (SHORT, LONG))
            step = max((long - short) / (LONG - SHORT), 1e-4)
            line = {"kind": "cost", "task": task, "system": system, "stage": stage, "step": round(step, 5),
                    "start": round(max(short - SHORT * step, 0), 3), "arguments": arguments}
            self.note(line)
        return line

    def cost_base(self, task, system, stage, folder):
        if not (folder / f"stage{stage - 1}").exists():
            if stage > 1:
                self.cost_base(task, system, stage - 1, folder)
            self.train(task, system, stage - 1, SHORT, 0, folder / f"stage{stage - 1}")

    def steps(self, task, system, stage):
        if self.asked.tiny:
            return 2
        cost, share = self.cost(task, system, stage), SYSTEMS[system]["stages"][stage][0]
        return max(20, round((share * self.asked.seconds - cost["start"]) / cost["step"]))

    # ---- scores ----
    def texts(self, task, begun, model, steps, how, seed):
        """Decoded texts; (text, whether its end was decoded) of a story."""
        settings = TASKS[task]
        words = ["generate", model, "--length", settings["open"] - (8 if begun else 0),  # five words are about 8 tokens
                 "--steps", steps, "--threads", 1, "--quiet", *how]
        asked = "asked" if task == "sums" else f"{task}-begin" if begun else None
        if asked:
            with tempfile.TemporaryDirectory() as folder:
                answers = pathlib.Path(folder) / "answers.jsonl"
                seconds = self.program(*words, "--prompts", self.out / f"data/{asked}.jsonl", "--out", answers, "--batch", 64,
                                       "--slot.seed", seed)[1]
                rows = sorted((json.loads(line) for line in answers.open()), key=lambda row: row["row"])
        else:
            text, seconds = self.program(*words, "--samples", 2 if self.asked.tiny else settings["count"], "--slot.seed", seed * 1000,
                                         "--json")
            rows = [json.loads(line) for line in text.splitlines()]
        return rows, seconds

    def scores(self, task, rows):
        if task == "sums":
            right = [row["completion"] == answer(row["prompt"]) for row in rows]
            number = len(right) // 2
            digits = [a == b for row in rows for a, b in zip(row["completion"].ljust(4), answer(row["prompt"]))]
            return {"right": share(right[:number]), "long_carries": share(right[number:]), "digits": share(digits)}
        prompts = [row.get("prompt", "") for row in rows]
        texts = [prompt + row["completion"] for prompt, row in zip(prompts, rows)]
        found = {"repeated": repeated(texts), "different": len(set(texts)) / len(texts)}
        found["bits"] = self.counts(task).bits(texts, prompts)
        if task == "text":
            return found
        ends = "<|endoftext|>"
        texts = [text + (ends if row["finish"] != "full" and ends not in text else "") for text, row in zip(texts, rows)]
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("".join(text.replace("\n", " ") + "\n" for text in texts))
            file.flush()
            checked = json.loads(self.program("run", HERE / "stories.lua", "--check", file.name)[0])
        return {key: checked[key] for key in ("grammatical", "consistent", "entropy", "sentences")} | found

    def counts(self, task):
        """Counts of the bytes that a task learns from."""
        with self.lock:
            if task not in self.bytes_of:
                data = (self.out / "data" / TASKS[task]["data"])
                if task == "stories":
                    text = "\n".join(json.loads(line)["text"] for line in data.open().readlines()[:4000]).encode()
                else:
                    text = (self.out / "data/train.txt").read_bytes()
                self.bytes_of[task] = WittenBell(text, 5)
        return self.bytes_of[task]

    def run(self, task, system, seed):
        """Trains and decodes a system. A line of an earlier call is kept, and ways to decode that it lacks are added."""
        stages = SYSTEMS[system]["stages"]
        keys = {"kind": "run", "task": task, "system": system, "seed": seed, "seconds": self.asked.seconds,
                "arguments": [train_arguments(task, system, stage) for stage in range(len(stages))]}
        folder = self.out / "runs" / f"{task}-{system}-{seed}"
        model = folder / f"stage{len(stages) - 1}"
        ways = SYSTEMS[system].get(task, SYSTEMS[system]["decode"])
        line = copy.deepcopy(self.found(**keys)) or self.trained(keys, folder, model)
        missing = [name for name in ways if name not in line["decoded"]]
        for name in missing:
            line["decoded"][name] = self.decoded(task, system, name, ways[name], model, seed)
        if missing:
            self.note(line)

    def trained(self, keys, folder, model):
        task, system, seed = keys["task"], keys["system"], keys["seed"]
        stages, line = range(len(SYSTEMS[system]["stages"])), dict(keys)
        steps = [self.steps(task, system, stage) for stage in stages]
        used = [self.train(task, system, stage, steps[stage], seed, folder / f"stage{stage}")[1] for stage in stages]
        line.update(steps=steps, used=[round(x, 1) for x in used], decoded={})
        line["parameters"] = json.loads(self.program("inspect", model, "--json")[0]).get("parameters")
        if task == "text" and system == "masks":
            draws, limit = (1, 2) if self.asked.tiny else (4, 400)
            line["nelbo"] = json.loads(self.program("eval", model, self.out / "data/test.txt", "--objective", "mdlm", "--row-length",
                                                    TASKS[task]["length"], "--draws", draws, "--limit", limit, "--threads", 1,
                                                    "--json")[0])
        return line

    def decoded(self, task, system, name, how, model, seed):
        """Scores of the texts of each number of steps: all numbers for the first way and after five words, else one number."""
        begun = task != "sums" and (SYSTEMS[system].get("prompts") or "five words" in name)
        ways = list(SYSTEMS[system].get(task, SYSTEMS[system]["decode"]))
        numbers = DECODE_STEPS if name == ways[0] or "five words" in name else OTHER_STEPS
        blocks = SYSTEMS[system].get("blocks", {}).get(task, 1)  # policy cola takes at least a step for each
        made = {}
        for number in DECODE_STEPS[2:3] if self.asked.tiny else numbers:
            if number < blocks:
                continue
            rows, seconds = self.texts(task, begun, model, number, how, seed)
            made[str(number)] = self.scores(task, rows) | {"passes": statistics.mean(row["nfe"] for row in rows),
                                                           "seconds": round(seconds, 2), "first": rows[0]["completion"][:200]}
        return made


def write_rows(data, path, count):
    """Rows of 256 bytes, more than 32 tokens, which begin with a word and overlap: no row of a loader holds two texts."""
    starts = [match.start() for match in re.finditer(rb"(?<=\s)\S", data)]
    rows, last = [], -64
    for at in starts:
        if at - last >= 64 and at + 256 <= len(data) and len(rows) < count:
            rows.append(json.dumps({"text": data[at:at + 256].decode()}) + "\n")
            last = at
    path.write_text("".join(rows))


def write_beginnings(texts, path, count):
    """The first five words of texts."""
    found = [re.match(r"(?:\S+\s+){4}\S+", text) for text in texts]
    path.write_text("".join(json.dumps({"prompt": match.group()}) + "\n" for match in found[:count] if match))


def carries(prompt):
    left, right = prompt[:-1].split("+")
    count = carry = 0
    for a, b in zip(reversed(left), reversed(right)):
        carry = (int(a) + int(b) + carry) // 10
        count += carry
    return count


def answer(prompt):
    left, right = prompt[:-1].split("+")
    return str(int(left) + int(right)).zfill(len(left) + 1)


def share(flags):
    return sum(flags) / max(1, len(flags))


def repeated(texts):
    """Share of the bigrams of words that the same text has before."""
    again = every = 0
    for text in texts:
        words = text.split()
        pairs = list(zip(words, words[1:]))
        again, every = again + len(pairs) - len(set(pairs)), every + len(pairs)
    return again / max(1, every)


class WittenBell:
    """Counts of bytes with Witten-Bell smoothing: p(b | c) = (n(c b) + kinds(c) p(b | shorter c)) / (n(c) + kinds(c))."""

    def __init__(self, data, order):
        self.order, self.after = order, [collections.defaultdict(collections.Counter) for _ in range(order)]
        for length in range(order):
            for at in range(length, len(data)):
                self.after[length][data[at - length:at]][data[at]] += 1

    def probability(self, context, byte):
        p = 1 / 256
        for length in range(min(len(context), self.order - 1) + 1):
            seen = self.after[length].get(context[len(context) - length:])
            if not seen:
                break
            total = seen.total()
            p = (seen[byte] + len(seen) * p) / (total + len(seen))
        return p

    def bits(self, texts, prompts=None):
        """Bits per byte of texts, each of which begins without a context, or after a prompt that does not count."""
        bits = count = 0
        for text, prompt in zip(texts, prompts or [""] * len(texts)):
            data = text.encode() if isinstance(text, str) else text
            first = len(prompt.encode())
            for at in range(first, len(data)):
                bits -= math.log2(self.probability(data[max(0, at - self.order + 1):at], data[at]))
            count += len(data) - first
        return bits / max(1, count)


# ---- the tables ----
COLUMNS = {"stories": [["bits", "grammatical", "consistent"], ["repeated", "entropy", "different"]],
           "sums": [["right", "long_carries", "digits"]], "text": [["bits", "repeated", "different"]]}
DIGITS = {"bits": 2, "entropy": 2, "different": 2, "repeated": 3, "grammatical": 3, "consistent": 3, "right": 3, "long_carries": 3, "digits": 3}


def print_scores(task, runs, columns):
    first = columns[0]
    print(f"\n| system | decoding | seeds | steps | {first} | range | " + " | ".join(columns[1:]) + " |")
    print("|---|---|---|---|---|---|" + "---|" * len(columns[1:]))
    for system in SYSTEMS:
        mine = [line for line in runs if line["system"] == system]
        for way in SYSTEMS[system].get(task, SYSTEMS[system]["decode"]):
            decoded = [line["decoded"][way] for line in mine if way in line["decoded"]]
            if not decoded:
                continue
            numbers = [str(number) for number in DECODE_STEPS if str(number) in decoded[0]]
            cells = [", ".join(f"{statistics.mean(made[n][column] for made in decoded):.{DIGITS[column]}f}" for n in numbers)
                     for column in columns]
            spread = sorted(made["16"][first] for made in decoded)
            cells.insert(1, f"{spread[0]:.{DIGITS[first]}f} to {spread[-1]:.{DIGITS[first]}f}")
            print(f"| {system} | {way} | {len(decoded)} | {', '.join(numbers)} | " + " | ".join(cells) + " |")


def table(bench):
    """Means over the seeds, of 1, 4, 16 and 64 steps where they were decoded; the range is that of 16 steps."""
    for task in TASKS:
        last = {(line["system"], line["seed"]): line for line in bench.known if line["kind"] == "run" and line["task"] == task}
        runs = [last[key] for key in sorted(last)]
        if not runs:
            continue
        print(f"\n{task}")
        for columns in COLUMNS[task]:
            print_scores(task, runs, columns)
        print("\n| system | parameters | updates | seconds | seeds |\n|---|---|---|---|---|")
        for system in SYSTEMS:
            mine = [line for line in runs if line["system"] == system]
            if mine:
                print(f"| {system} | {mine[0]['parameters'] / 1e6:.2f} M | {' + '.join(map(str, mine[0]['steps']))} |",
                      ", ".join(f"{sum(line['used']):.0f}" for line in mine), f"| {len(mine)} |")
        for line in runs:
            if "nelbo" in line:
                print("nelbo", line["seed"], json.dumps(line["nelbo"]))


def reference(bench):
    """The same figures of held-out text, cut into pieces of about as many bytes as samples have."""
    data = (bench.out / "data/test.txt").read_bytes()
    pieces = [data[at:at + 64].decode(errors="replace") for at in range(0, len(data) - 64, 64)]
    stories = [json.loads(line)["text"][:120] for line in (bench.out / "data/held.jsonl").open()]
    print(f"\nheld-out text: {bench.counts('text').bits(pieces):.3f} bits per byte in pieces, {bench.counts('text').bits([data]):.3f} as one,",
          f"repeated {repeated(pieces):.4f}\nheld-out stories: {bench.counts('stories').bits(stories):.3f} bits per byte,",
          f"repeated {repeated(stories):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="dllm", help="the program dllm")
    parser.add_argument("--text", default="shakespeare.txt", help="the text of task text")
    parser.add_argument("--out", required=True, help="folder of data, runs and results.jsonl")
    parser.add_argument("--seconds", type=float, default=60, help="user time of the training of a run")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--tiny", action="store_true", help="two steps of each stage, two texts: the machinery alone")
    parser.add_argument("--table", action="store_true", help="print the tables of results.jsonl")
    asked = parser.parse_args()
    asked.tasks, asked.systems = asked.tasks.split(","), asked.systems.split(",")
    for given, known in ((asked.tasks, TASKS), (asked.systems, SYSTEMS)):
        for name in given:
            if name not in known:
                parser.error(f"{name} is not one of {', '.join(known)}")
    bench = Bench(asked)
    if asked.table:
        table(bench)
        if (bench.out / "data/test.txt").exists():
            reference(bench)
        return 0
    if asked.tiny:
        for settings in TASKS.values():
            settings["count"] = 2
    bench.prepare()
    grid = [(task, system, int(seed)) for seed in asked.seeds.split(",") for task in asked.tasks for system in asked.systems]
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        if not asked.tiny:
            places = [(task, system) for task in asked.tasks for system in asked.systems]
            list(pool.map(lambda place: [bench.cost(*place, stage) for stage in range(len(SYSTEMS[place[1]]["stages"]))], places))
        failed = 0
        for place, run in [(place, pool.submit(bench.run, *place)) for place in grid]:
            if run.exception():
                failed += 1
                print(f"{place} failed: {run.exception()}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
