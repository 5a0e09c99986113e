"""Ctrl-C during long calls: a real SIGINT to a process of its own. KeyboardInterrupt comes out, and all stays usable."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

START = """
import os, signal, sys, threading, time
import dllm
from tiny import Tiny
tiny = Tiny(layers=1)
MANY = 1_000_000_000

def ring(ready):
    '''Sends SIGINT to this process once ready() is true.'''
    def wait():
        while not ready():
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=wait, daemon=True).start()

def expect(call, *args):
    try:
        call(*args)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    else:
        raise SystemExit("no KeyboardInterrupt")
"""

RUN = """
trainer = dllm.Trainer(tiny.model, dllm.Objective("mdlm"))
trainer.add_sink("jsonl", sys.argv[1])
expect(trainer.run, tiny.loader, MANY)
steps = trainer.metric("step")
assert 3 <= steps < MANY, steps
trainer.run(tiny.loader, 2)  # the next call is not cancelled
assert trainer.metric("step") == steps + 2
"""

CALLBACK = """
trainer = dllm.Trainer(tiny.model, dllm.Objective("mdlm"))
seen = []
def slow(event):
    seen.append(event["step"])
    if len(seen) == 2:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)  # the interrupt ends it
expect(trainer.run, tiny.loader, MANY, slow)
assert seen == [1, 2], seen
seen.clear()
trainer.run(tiny.loader, 1, seen.append)
assert len(seen) == 1
# A callback that does nothing: the interrupt comes while the library computes, or between two lines of Python.
count = []
ring(lambda: len(count) > 2)
expect(trainer.run, tiny.loader, MANY, lambda event: count.append(0))
# A call inside a callback.
held = dllm.Loader(tiny.data, batch=4, length=32, epochs=0)
inside = []
ring(lambda: len(inside) > 0)
def evaluate(event):
    inside.append(0)
    trainer_eval(held, MANY)
other = dllm.Trainer(dllm.Model.new(tiny.config(1), tiny.engine), dllm.Objective("mdlm"))
trainer_eval = other.eval
expect(trainer.run, tiny.loader, MANY, evaluate)
assert len(inside) == 1
"""

DECODE = """
decoder = dllm.Decoder(tiny.model, steps=56, gen_length=56)
for number in range(40):
    decoder.add([], seed=number)
decoder.step()
try:
    ring(lambda: True)
    while True:  # the interrupt may come before the call as well
        decoder.run()
        decoder = dllm.Decoder(tiny.model, steps=56, gen_length=56)
        decoder.start()
except KeyboardInterrupt:
    print("interrupted", flush=True)
decoder.run()
assert decoder.metric("open") == 0
"""

HANDLERS = """
trainer = dllm.Trainer(tiny.model, dllm.Objective("mdlm"))
reading, writing = os.pipe()
os.set_blocking(writing, False)
signal.set_wakeup_fd(writing)
count = []
ring(lambda: len(count) > 2)
expect(trainer.run, tiny.loader, MANY, lambda event: count.append(0))
assert os.read(reading, 10) == bytes([signal.SIGINT])  # an event loop's descriptor gets its byte
assert signal.set_wakeup_fd(-1) == writing
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
# A program that handles SIGINT by itself is left alone.
rung = []
signal.signal(signal.SIGINT, lambda *_: rung.append(0))
trainer.run(tiny.loader, 3, lambda event: os.kill(os.getpid(), signal.SIGINT))
assert rung
# And so are calls on other threads.
signal.signal(signal.SIGINT, signal.default_int_handler)
worker = threading.Thread(target=trainer.run, args=(tiny.loader, 2))
worker.start()
worker.join()
"""


class Interrupt(unittest.TestCase):
    def child(self, code, *words):
        folder = os.path.dirname(os.path.abspath(__file__))
        return subprocess.Popen([sys.executable, "-B", "-c", START + code, *words], cwd=folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, child, interrupts):
        try:
            out, errors = child.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            child.kill()
            self.fail(f"no end; {child.communicate()}")
        self.assertEqual((child.returncode, errors), (0, ""), out)
        self.assertEqual(out.count("interrupted"), interrupts)

    def test_a_training_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "metrics.jsonl")
            child = self.child(RUN, path)
            while child.poll() is None:
                if os.path.exists(path):
                    with open(path) as lines:
                        if len(lines.readlines()) >= 3:
                            break
                time.sleep(0.02)
            child.send_signal(signal.SIGINT)
            self.finish(child, 1)

    def test_inside_callbacks(self):
        self.finish(self.child(CALLBACK), 3)

    def test_decoding(self):
        self.finish(self.child(DECODE), 1)

    def test_other_handlers_and_threads(self):
        self.finish(self.child(HANDLERS), 1)


if __name__ == "__main__":
    unittest.main()
