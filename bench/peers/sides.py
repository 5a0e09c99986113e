"""The two sides of a row of bench/table: each turn of one gives seconds, and what it had in memory at most."""
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "peers"
LIMIT = 900  # seconds of one turn


class Absent(Exception):
    """The side cannot run here; the text is the reason."""


def output_of(words, **more):
    try:
        done = subprocess.run([str(word) for word in words], text=True, errors="replace", capture_output=True, timeout=LIMIT, **more)
    except subprocess.TimeoutExpired as too_long:
        raise Absent(f"{pathlib.Path(str(words[0])).name}: not ready after {LIMIT} s") from too_long
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise Absent(f"{pathlib.Path(str(words[0])).name}: {lines[0]}")
    return done.stdout + done.stderr


class Own:
    """dllm bench, 5 repetitions a turn. An engine without the arithmetic computes in f32, and the row says so."""

    def __init__(self, program, words, threads, arithmetic="f32"):
        self.words = [program, "bench", *words, "--threads", threads, "--repeat", 5, "--json"]
        self.arithmetic, self.memory, self.share, self.at_clock = arithmetic, 0, [], []

    @property
    def command(self):
        return " ".join(["dllm", *map(str, self.words[1:]), *(["--arithmetic", self.arithmetic] if self.arithmetic != "f32" else [])])

    @property
    def name(self):
        return f"dllm, arithmetic {self.arithmetic}"

    def turn(self):
        extra = ["--arithmetic", self.arithmetic] if self.arithmetic != "f32" else []
        try:
            line = json.loads(output_of([*self.words, *extra]).splitlines()[0])
        except Absent as reason:
            if not extra or "arithmetic" not in str(reason):
                raise
            self.arithmetic = "f32"
            return self.turn()
        self.memory = max(self.memory, line["process_peak_bytes"])
        self.share.append(line["peak_share"] or 0)
        self.at_clock.append(line["clock_peak_share"] or 0)
        return line["median_seconds"]

    def close(self):
        pass


class Talker:
    """A Python program that prints "ready", then for each line it reads does one repetition and prints its seconds."""

    def __init__(self, name, python, script, arguments, package):
        self.name, self.process, self.memory = name, None, 0
        self.command = " ".join(["python3", os.path.relpath(script, ROOT), *map(str, arguments)]).replace(f"{ROOT}/", "")
        if subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode:
            raise Absent(f"{python} has no {package}")
        self.process = subprocess.Popen([python, str(script), *map(str, arguments)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=dict(os.environ, OMP_WAIT_POLICY="passive"))
        if self.process.stdout.readline().strip() != "ready":
            self.close()
            raise Absent(f"{os.path.relpath(script, ROOT)} did not start")

    def turn(self):
        seconds = []
        for _ in range(5):
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().split()
            if not answer:
                raise Absent(f"{self.name} ended")
            seconds.append(float(answer[0]))
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        self.memory = 1024 * int(re.search(r"VmHWM:\s*(\d+)", status).group(1))
        return statistics.median(seconds)

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


class Llama:
    """llama.cpp's diffusion step over a window, without its sampler: all rows have logits, as in dllm bench step."""

    def __init__(self, bench, kind, rows, threads):
        program = pathlib.Path(bench).with_name("llama-diffusion-cli") if bench else None
        if program is None or not program.exists():
            raise Absent("build it: bench/peers/llama.sh")
        self.name, self.memory = f"llama.cpp {kind}", 0
        self.words = [program, "-m", gguf_file(kind), "-p", "ab", "-c", rows, "-b", rows, "-ub", rows, "-t", threads, "--temp", 0,
                      "--diffusion-steps", 5, "--diffusion-algorithm", 4, "--diffusion-eps", 0.001]
        self.command = " ".join([program.name, *map(str, self.words[1:2]), self.words[2].name, *map(str, self.words[3:])])

    def turn(self):
        found = re.search(r"time per step: ([\d.]+)ms, sampling time per step: ([\d.]+)ms", output_of(self.words))
        if not found:
            raise Absent("llama-diffusion-cli printed no time")
        return (float(found.group(1)) - float(found.group(2))) / 1e3

    def close(self):
        pass


def gguf_file(kind):
    file = BUILT / f"dream-{kind}.gguf"
    if not file.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        output_of(["python3", ROOT / "bench" / "peers" / "make_gguf.py", file, kind])
    return file


class Spd:
    """Soft parallel decoding of 128 tokens: bench_decode runs both sides in turns itself."""

    def __init__(self, build, implementation, python, arithmetic="f32"):
        program = pathlib.Path(build) / "bin" / "bench_decode"
        if not program.exists():
            raise Absent(f"build it: cmake --build {os.path.relpath(build, ROOT)} --target bench_decode")
        self.words = [program, "spd", "--shape", "qwen2.5-0.5b", "--lengths", 128, "--only", implementation]
        if arithmetic != "f32":
            self.words += ["--dtype", arithmetic, "--arithmetic", arithmetic]
        self.env, self.share, self.at_clock, self.memory = None, [], [], 0
        self.name = f"dllm {implementation}, arithmetic {arithmetic}"
        if python and not subprocess.run([python, "-c", "import jax"], capture_output=True).returncode:
            self.words.append("--peer")
            self.env = dict(os.environ, DLLM_PYTHON=python)
        self.command = " ".join(["bench_decode", *map(str, self.words[1:])])

    def turn(self):
        text = output_of(self.words, env=self.env)
        own = re.search(r"^\w+ +([\d.]+) +([\d.]+) +[\d.]+ +[\d.]+ +[\d.]+  \d+/\d+/\d+ .* (\d+)% +\d+%", text, re.M)
        other = re.search(r"JAX: ([\d.]+) tokens/s", text)
        self.share.append(int(own.group(3)) / 100)
        return 128 / float(own.group(1)), 128 / float(other.group(1)) if other else None

    def close(self):
        pass


def smollm2_folder(build):
    """Random weights of SmolLM2-135M's shape, as torch_forward.py reads them."""
    folder = BUILT / "smollm2-shape"
    if folder.exists():
        return folder
    BUILT.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
              "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
              "rope_theta": 100000.0, "tie_word_embeddings": True}
    code = ("import json, sys; sys.path.insert(0, sys.argv[1]); import dllm\n"
            "dllm.Model.new(json.loads(sys.argv[2])).save(sys.argv[3])")
    output_of([shutil.which("python3"), "-c", code, ROOT / "bindings" / "python", json.dumps(config), folder],
              env=dict(os.environ, DLLM_LIBRARY=str(pathlib.Path(build) / "lib" / "libdllm.so")))
    return folder
