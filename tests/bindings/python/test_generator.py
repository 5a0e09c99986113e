"""Text in and text out: the same texts as the program, pieces, batches, errors, cancelling, closing."""
import asyncio
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import threading
import unittest
import unittest.mock

import dllm

ROOT = pathlib.Path(__file__).resolve().parents[3]
TABLE = json.loads((ROOT / "tests/bindings/generate_cases.json").read_text(encoding="utf-8"))
MODEL = ROOT / TABLE["model"]
CHAT = "{% for m in messages %}{{ m.content }}{% endfor %}"


def is_open(about):
    return about["finish"] == "open"


class Generators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.generator = dllm.load(MODEL, engine={"threads": 1}, slots=4)

    def tearDown(self):
        self.assertEqual(self.generator.describe()["requests"], 0, "a request is left")

    @contextlib.contextmanager
    def turn_elsewhere(self, pool):
        """As while a long call of another thread runs."""
        turn = self.generator._turns.take()
        pool.submit(turn.__enter__).result()
        try:
            yield
        finally:
            pool.submit(turn.__exit__, None, None, None).result()

    def test_texts_are_those_of_the_program(self):
        for case in TABLE["cases"]:
            with self.subTest(case["name"]):
                made = getattr(self.generator, case["call"])(case["text"], **case["settings"])
                self.assertEqual(made.whole, case["expect"])

    def test_a_generation_has_its_numbers(self):
        made = self.generator.generate("Once upon a time", length=24, steps=12, seed=1)
        self.assertEqual((str(made), made.whole), (made.text, "Once upon a time" + made.text))
        self.assertEqual((made.finish, made.completion_tokens, made.steps, made.nfe, made.seed),
                         ("full", 24, 12, 12, 1))
        self.assertEqual((made.policy, made.holes), ("low_confidence", []))
        self.assertEqual(made.ids[:made.prompt_tokens],
                         self.generator.tokenizer().encode("Once upon a time"))
        self.assertEqual(len(made.confidence), len(made.ids))
        self.assertEqual(self.generator.generate("Once upon a time", length=24, steps=12, seed=1,
                                                 stop=["shoe"]).finish, "stop_text")

    def test_holes_are_listed(self):
        made = self.generator.infill("The<mask:3> was sad. Then<mask:5> came home.", steps=4)
        self.assertEqual(made.text, f"The{made.holes[0]} was sad. Then{made.holes[1]} came home.")
        self.assertEqual(made.whole, made.text)

    def test_messages_go_through_the_template(self):
        messages = [{"role": "user", "content": "Once upon "}, {"role": "user", "content": "a time"}]
        chat = self.generator.generate(messages, template=CHAT, length=8, steps=4)
        self.assertEqual(str(chat), str(self.generator.generate("Once upon a time", length=8, steps=4)))
        with self.assertRaises(dllm.errors.FailedPrecondition):
            self.generator.generate(messages)

    def test_pieces_are_the_text(self):
        for case in TABLE["cases"]:
            if case["call"] != "generate":
                continue
            with self.subTest(case["name"]):
                stream = self.generator.stream(case["text"], **case["settings"])
                pieces = list(stream)
                self.assertEqual("".join(map(str, pieces)), stream.generation.text)
                self.assertEqual(stream.generation.whole, case["expect"])
                self.assertEqual([piece.step for piece in pieces], list(range(1, len(pieces) + 1)))
                self.assertLess(pieces[-1].open, pieces[0].open + 1)
        first = next(self.generator.stream("The sun", length=4, steps=4))
        self.assertRegex(first.canvas, r"^The sun.*<mask")

    def test_a_stream_that_is_left_early_removes_its_request(self):
        for _ in self.generator.stream("The sun", length=8):
            self.assertEqual(self.generator.describe()["requests"], 1)
            break
        self.assertEqual(self.generator.describe()["requests"], 0)
        with self.generator.stream("The sun", length=8) as stream:
            next(stream)
            with self.assertRaises(dllm.errors.FailedPrecondition):
                stream.generation
        self.assertEqual(list(stream), [])

    def test_a_run_with_a_callback_takes_no_text_from_a_stream(self):
        wanted = self.generator.generate("The sun", length=12, policy="autoregressive").text
        stream = self.generator.stream("The sun", length=12, policy="autoregressive")
        got = next(stream).text
        number = self.generator.add(prompt="Tom", length=4)
        self.generator.run(lambda event: None)
        self.generator.remove(number)
        self.assertEqual(got + "".join(piece.text for piece in stream), wanted)

    def test_a_stream_that_is_forgotten_never_waits_nor_prints(self):
        kept = [self.generator.stream("The sun", length=8)]
        next(kept[0])

        def forget(event):
            kept.clear()  # inside a callback nothing can be removed
        self.generator.add(prompt="Tom", length=4)
        with unittest.mock.patch("sys.unraisablehook") as printed:
            self.generator.run(forget)
        printed.assert_not_called()
        self.assertEqual(self.generator.describe()["requests"], 1)  # the end of the run has removed the other
        stream = self.generator.stream("The sun", length=8)
        next(stream)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            with self.turn_elsewhere(pool):
                del stream
                self.assertEqual(len(self.generator._forgotten), 1)
        self.assertEqual(self.generator.describe()["requests"], 1)  # it went with the end of that call
        for request in range(8):
            try:
                self.generator.remove(request)
            except dllm.Error:
                pass

    def test_small_calls_of_several_threads_wait_too(self):
        wanted = [self.generator.generate("The sun", length=8, steps=4, seed=seed).text for seed in range(4)]

        def work(seed):
            for _ in range(3):
                request = self.generator.add(prompt="The sun", length=8, steps=4, seed=seed)
                while is_open(self.generator.describe(request)):
                    try:
                        self.generator.step()
                    except dllm.errors.FailedPrecondition as problem:  # all are over since describe
                        self.assertNotIn("thread", str(problem))
                self.generator.run()
                self.assertEqual(self.generator.text(request), wanted[seed])
                self.generator.remove(request)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(work, seed) for seed in range(4)]:
                done.result()

    def test_a_task_ends_the_wait_of_every_call(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool, self.turn_elsewhere(pool):
            for call in (self.generator.step, self.generator.run, lambda task: self.generator.add(prompt="a", task=task)):
                with self.assertRaises(dllm.errors.DeadlineExceeded):
                    call(task=dllm.Task(deadline=0.03))

    def test_a_second_call_in_a_callback_raises_at_once(self):
        seen = []

        def on_event(event):
            seen.append(self.generator.text(request, "canvas"))
            for call in (self.generator.step, self.generator.run, lambda: self.generator.generate("a"),
                         lambda: self.generator.remove(request), lambda: self.generator.stream("a")):
                with self.assertRaisesRegex(dllm.errors.FailedPrecondition, "inside its callback"):
                    call()
        request = self.generator.add(prompt="The sun", length=4, steps=2)
        self.generator.run(on_event)
        self.generator.remove(request)
        self.assertTrue(seen)

    def test_infill_takes_a_text(self):
        for wrong in (None, 5, ["x"]):
            with self.assertRaises(TypeError):
                self.generator.infill(wrong)

    def test_a_deadline_in_the_past_has_passed(self):
        for seconds in (0, -3, -1e300):
            with self.assertRaises(dllm.errors.DeadlineExceeded):
                self.generator.generate("The sun", length=64, task=dllm.Task(deadline=seconds))
        for seconds in (1e300, float("inf"), None):
            self.assertFalse(dllm.Task(deadline=seconds).cancelled)

    def test_the_wait_for_another_thread_ends_as_the_call_would(self):
        open_stream = self.generator.stream("The sun", length=8, task=dllm.Task())
        calls = (lambda task: self.generator.generate("The sun", task=task), lambda task: self.generator.infill("<mask>", task=task),
                 lambda task: self.generator.batch(["The sun"], task=task), lambda task: self.generator.stream("The sun", task=task),
                 lambda task: open_stream._next(task))
        with concurrent.futures.ThreadPoolExecutor(1) as pool, self.turn_elsewhere(pool):
            for call in calls:
                with self.assertRaises(dllm.errors.DeadlineExceeded) as caught:
                    call(dllm.Task(deadline=0.02))
                self.assertEqual(str(caught.exception), "the task's deadline has passed")
                task = dllm.Task(deadline=600)
                threading.Timer(0.02, task.cancel).start()
                with self.assertRaises(dllm.errors.Cancelled) as caught:
                    call(task)
                self.assertEqual(str(caught.exception), "the task was cancelled")
            with self.assertRaises(asyncio.TimeoutError):
                asyncio.run(asyncio.wait_for(dllm.run_async(self.generator.generate, "The sun"), 0.05))
            for task in (None, dllm.Task()):
                with self.assertRaises(KeyboardInterrupt):
                    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
                    self.generator.generate("The sun", task=task)
            open_stream.close()  # does not wait
            self.assertEqual(len(self.generator._forgotten), 1)
        self.assertEqual(self.generator.generate("The sun", length=4).finish, "full")

    def test_async_pieces_are_the_text(self):
        async def pieces():
            stream = self.generator.stream("The sun", length=12, steps=6)
            return "".join([str(piece) async for piece in stream]), stream.generation.text
        async def left_early():
            async for piece in self.generator.stream("The sun", length=8):
                return piece.open
        text, whole = asyncio.run(pieces())
        self.assertEqual(text, whole)
        self.assertGreater(asyncio.run(left_early()), 0)

    def test_one_failed_request_leaves_the_others(self):
        every_id = list(range(self.generator.model()["vocab"]))
        good = [self.generator.add(prompt="The sun", length=8, seed=seed) for seed in (1, 2)]
        bad = self.generator.add(prompt="The sun", length=8, suppress=every_id)
        self.generator.run()
        with self.assertRaises(dllm.Error):
            self.generator.text(bad)
        about = self.generator.describe(bad)
        self.assertEqual((about["finish"], "message" in about["error"]), ("failed", True))
        for seed, request in zip((1, 2), good):
            self.assertEqual(self.generator.text(request),
                             self.generator.generate("The sun", length=8, seed=seed).text)
        for request in (*good, bad):
            self.generator.remove(request)
        with self.assertRaises(dllm.Error):
            self.generator.generate("The sun", length=8, suppress=every_id)
        with self.assertRaises(dllm.Error):
            list(self.generator.stream("The sun", length=8, suppress=every_id))

    def test_a_batch_has_a_result_for_each_prompt(self):
        # Nine prompts and four slots; the model allows 1024 positions.
        prompts = ["The sun", "The sun " * 1000, "A cat", "Tom", "Mia", "The sun", "A dog", "Tom", "Mia"]
        results = self.generator.batch(prompts, length=8, steps=4, seed=5)
        for at, (prompt, result) in enumerate(zip(prompts, results)):
            if at == 1:
                self.assertIsInstance(result, dllm.errors.OutOfRange)
                continue
            alone = self.generator.generate(prompt, length=8, steps=4, seed=5 + at)
            self.assertEqual((str(result), result.seed), (str(alone), 5 + at))
        self.assertEqual(self.generator.batch([]), [])
        with self.assertRaises(TypeError):
            self.generator.batch("The sun")
        for wrong in (5, None, b"The sun"):  # before any prompt is decoded
            with self.assertRaisesRegex(TypeError, r"prompts\[1\] takes a text or a list of messages"):
                self.generator.batch(["The sun", wrong], length=8)

    def test_settings_that_are_wrong_are_refused(self):
        wrong = [({"temprature": 1}, "temperature"), ({"policy": "random", "threshold": 0.5}, "threshold")]
        for settings, named in wrong:
            for call in (self.generator.generate, self.generator.infill, self.generator.stream):
                with self.assertRaises(dllm.errors.UnknownOption) as caught:
                    call("The <mask>", **settings)
                self.assertIn(named, str(caught.exception))
            with self.assertRaises(dllm.errors.UnknownOption):
                self.generator.batch(["The sun"], **settings)
        for settings in ({"temperature": -1}, {"length": -1}, {"temperature": float("nan")}, {"length": "8"}):
            with self.assertRaises(dllm.errors.InvalidArgument, msg=settings):
                self.generator.generate("The sun", **settings)
        for text in (None, b"The sun"):
            with self.assertRaises(TypeError):
                self.generator.generate(text)
        with self.assertRaises(TypeError):
            self.generator.generate("The sun", prompt="The moon")

    def test_what_json_cannot_hold_is_named(self):
        half, nan = "ab\ud800", float("nan")
        for settings, expect in (({"temperature": nan}, "temperature is NaN: write a finite number"),
                                 ({"top_p": -float("inf")}, "top_p is -Infinity: write a finite number"),
                                 ({"stop": ["x", half]}, "stop, item 2: a lone surrogate at character 3"),
                                 ({"variables": {"a": [1, nan]}}, "variables, a, item 2 is NaN: write a finite number"),
                                 ({half: 1}, r"the name 'ab\ud800': a lone surrogate at character 3")):
            with self.assertRaises(dllm.errors.InvalidArgument) as caught:
                self.generator.generate("The sun", **settings)
            self.assertEqual(str(caught.exception), expect)
        for prompt, expect in ((half, "prompt: a lone surrogate at character 3"), (
                [{"role": "user", "content": "Hi"}, {"role": "user", "content": half}],
                "message 2, content: a lone surrogate at character 3")):
            with self.assertRaises(dllm.errors.InvalidArgument) as caught:
                self.generator.generate(prompt)
            self.assertEqual(str(caught.exception), expect)
        with self.assertRaises(dllm.errors.InvalidArgument) as caught:
            dllm.Model.new({"dllm": {"shift": nan}})
        self.assertEqual(str(caught.exception), "dllm, shift is NaN: write a finite number")

    def test_loading_says_what_is_wrong(self):
        with self.assertRaises(FileNotFoundError):
            dllm.load("nowhere")
        for settings, hint in (({"polcy": "random"}, "did you mean policy?"), ({"dtpe": "f32"}, "did you mean dtype?"),
                               ({"engin": {}}, "did you mean engine?"), ({"xyz": 1}, "dtype, engine, heads")):
            with self.assertRaises(dllm.errors.UnknownOption) as caught:
                dllm.load(MODEL, **settings)
            self.assertIn(hint, str(caught.exception))
        with self.assertRaises(dllm.errors.UnknownOption):
            dllm.load(MODEL, engine={"thread": 1})

    def test_a_task_cancels_and_the_generator_goes_on(self):
        stop = dllm.Task()
        stop.cancel()
        with self.assertRaises(dllm.errors.Cancelled):
            dllm.load(MODEL, task=stop)
        calls = (lambda: self.generator.generate("The sun", task=stop), lambda: self.generator.batch(["The sun"], task=stop),
                 lambda: self.generator.infill("The <mask>", task=stop), lambda: list(self.generator.stream("The sun", task=stop)))
        for call in calls:
            with self.assertRaises(dllm.errors.Cancelled):
                call()
        request, stop = self.generator.add(prompt="The sun", length=8, steps=8), dllm.Task()
        with self.assertRaises(dllm.errors.Cancelled):
            self.generator.run(lambda event: stop.cancel(), task=stop)
        self.generator.run()  # the cancelled request is open and continues
        self.assertEqual(self.generator.text(request), self.generator.generate("The sun", length=8, steps=8).text)
        self.generator.remove(request)

    def test_events_have_the_pieces_and_the_answer(self):
        request, kinds, texts = self.generator.add(prompt="The sun", length=8, steps=4), [], []
        def look(event):
            kinds.append(event.kind)
            texts.append(event["text"] if event.kind == "text" else "")
            self.assertEqual(event["request"], request)
        self.generator.run(look)
        self.assertEqual(kinds, ["text"] * 4 + ["answer"])
        self.assertEqual("".join(texts), self.generator.text(request))
        self.assertEqual(list(self.generator.decoder().ids(request)), self.generator.describe(request)["ids"])
        with self.assertRaises(dllm.errors.NotFound):
            self.generator.text(request, "beginning")
        self.generator.remove(request)
        with self.assertRaises(dllm.errors.NotFound):
            self.generator.remove(request)

    def test_calls_of_several_threads_wait_for_each_other(self):
        alone = [str(self.generator.generate("The sun", length=8, seed=seed)) for seed in range(4)]
        async def pieces():
            return "".join([str(piece) async for piece in self.generator.stream("The sun", length=8, seed=3)])
        async def together():
            calls = [dllm.run_async(self.generator.generate, "The sun", length=8, seed=seed) for seed in range(3)]
            return await asyncio.gather(*calls, pieces())
        self.assertEqual([str(made) for made in asyncio.run(together())], alone)

    def test_closed(self):
        made = dllm.Generator(self.generator.model(), self.generator.tokenizer(), policy="random")
        self.assertEqual(made.describe()["policy"], "random")
        stream = made.stream("The sun", length=8)
        next(stream)
        made.close()
        made.close()
        for call in (lambda: made.generate("The sun"), lambda: next(stream), made.step, made.decoder):
            with self.assertRaises(dllm.ClosedError):
                call()
        stream.close()


if __name__ == "__main__":
    unittest.main()
