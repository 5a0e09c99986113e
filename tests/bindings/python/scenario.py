"""The ten points of ../scenario.md; ../run_scenario.py compares what this prints."""
import os
import tempfile
import threading

import dllm
from tiny import Tiny

MANY = 1_000_000


def fnv(ids):
    """FNV-1a of 64 bits over the ids, four bytes each, low byte first."""
    value = 0xcbf29ce484222325
    for number in ids:
        for byte in int(number).to_bytes(4, "little", signed=True):
            value = (value ^ byte) * 0x100000001b3 % 2 ** 64
    return f"{value:016x}"


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def raised(kind, call, *args, **settings):
    try:
        call(*args, **settings)
    except kind as problem:
        return problem
    raise AssertionError(f"{call} did not raise {kind}")


def version(tiny):
    assert dllm.abi_version() == 1
    assert len(dllm.version().split(".")) == 3
    assert "mdlm" in dllm.names("objective")


def option(tiny):
    problem = raised(dllm.errors.NotFound, dllm.Decoder, tiny.model, stepz=4)
    assert problem.name == "not_found"
    assert "stepz" in str(problem) and "steps" in str(problem)


def load(tiny):
    with tempfile.TemporaryDirectory() as folder:
        path, missing = os.path.join(folder, "model"), os.path.join(folder, "nowhere")
        tiny.model.save(path)
        with dllm.Model(path, tiny.engine) as loaded:
            assert loaded.param_names() == tiny.model.param_names()
            for name in loaded.param_names():
                assert bytes(loaded.param(name).view()) == bytes(tiny.model.param(name).view()), name
        assert missing in str(raised(dllm.errors.NotFound, dllm.Model, missing, tiny.engine))


def encode(tiny):
    text = "the cat sat on the möön"
    assert tiny.tokenizer.decode(tiny.tokenizer.encode(text)) == text
    print("encode", fnv(tiny.tokenizer.encode("the cat sat on the mat")))


def sample(tiny, name, **settings):
    """Decodes with a callback, and again step by step; prints the hash."""
    settings = {"steps": 6, "gen_length": 12, **settings}
    steps = []

    def count(event):
        if event.kind == "decode_step":
            steps.append(event["open"])
    with dllm.Decoder(tiny.model, **settings) as pushed, dllm.Decoder(tiny.model, **settings) as pulled:
        for decoder in (pushed, pulled):
            decoder.start(tiny.tokenizer.encode("the cat"), seed=7)
        pushed.run(count)
        assert len(list(pulled.steps())) == len(steps) > 1
        assert list(pushed.ids()) == list(pulled.ids())
        print(name, fnv(pushed.ids()))


def decode(tiny):
    sample(tiny, "fresh")


def train(tiny):
    losses = []
    with dllm.Trainer(tiny.model, dllm.Objective("mdlm"), lr=3e-3) as trainer:
        trainer.run(tiny.loader, 10, lambda event: losses.append(event["loss"]))
    assert len(losses) == 10 and losses[-1] < losses[0], losses
    sample(tiny, "trained", temperature=0.8)


def cancel(tiny):
    started, task = threading.Event(), dllm.Task()
    other = threading.Thread(target=lambda: (started.wait(), task.cancel()))
    other.start()
    with dllm.Trainer(tiny.model, dllm.Objective("mdlm")) as trainer:
        raised(dllm.errors.Cancelled, trainer.run, tiny.loader, MANY, lambda event: started.set(), task)
        other.join()
        steps = trainer.metric("step")
        trainer.run(tiny.loader, 1)
        assert 1 <= steps < MANY and trainer.metric("step") == steps + 1


def callback(tiny):
    mine = KeyError("mine")

    def bad(event):
        raise mine
    with dllm.Decoder(tiny.model, steps=6, gen_length=12) as decoder:
        decoder.start()
        assert raised(KeyError, decoder.run, bad) is mine
        decoder.run()
        assert decoder.metric("open") == 0


def close(tiny):
    own = Tiny(layers=1)
    decoder = dllm.Decoder(own.model, steps=2, gen_length=4)
    own.engine.close()
    own.engine.close()
    own.model.close()
    raised(dllm.ClosedError, own.model.describe)
    decoder.start()
    decoder.run()
    assert len(decoder.ids()) == 4
    decoder.close()
    raised(dllm.ClosedError, decoder.step)


def thousand(tiny):
    def make(count):
        for number in range(count):
            with dllm.Batch({"ids": [[number, 1, 2]]}), dllm.Task(), dllm.Decoder(tiny.model):
                pass
    make(100)
    before = resident()
    make(1000)
    grown = resident() - before
    assert grown < 20e6, grown


POINTS = (version, option, load, encode, decode, train, cancel, callback, close, thousand)

if __name__ == "__main__":
    everything = Tiny()
    for number, point in enumerate(POINTS, 1):
        point(everything)
        print("point", number, point.__name__, "ok", flush=True)
