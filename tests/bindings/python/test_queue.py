"""Requests of many threads: their texts, pieces, cancels, errors, limits, asyncio, closing."""
import asyncio
import concurrent.futures
import gc
import json
import pathlib
import threading
import unittest

import dllm

ROOT = pathlib.Path(__file__).resolve().parents[3]
TABLE = json.loads((ROOT / "tests/bindings/generate_cases.json").read_text(encoding="utf-8"))
MODEL = ROOT / TABLE["model"]
LONG = {"length": 200, "steps": 200}  # a request that outlives the calls of a test


class Queues(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.generator = dllm.load(MODEL, engine={"threads": 1}, slots=4)
        cls.queue = dllm.Queue.load(MODEL, engine={"threads": 1}, slots=3)
        cls.every_id = list(range(cls.queue.model()["vocab"]))

    def tearDown(self):
        gc.collect()
        about = self.queue.describe()
        self.assertEqual((about["waiting"], about["decoding"], about["over"]), (0, 0, 0), "a request is left")

    def submit(self, case, **settings):
        text = {"infill": case["text"]} if case["call"] == "infill" else {"prompt": case["text"]}
        return self.queue.submit(**text, **case["settings"], **settings)

    def test_texts_of_several_threads_are_those_of_the_program(self):
        def work(name):
            for case in TABLE["cases"]:
                with self.submit(case, client=name) as ticket:
                    self.assertEqual(ticket.generation().whole, case["expect"], case["name"])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(work, name) for name in "abcd"]:
                done.result()

    def test_a_generation_is_that_of_a_generator(self):
        settings = {"length": 24, "steps": 12, "seed": 1}
        self.assertEqual(self.queue.generate("Once upon a time", **settings),
                         self.generator.generate("Once upon a time", **settings))
        messages = [{"role": "user", "content": "Once upon a time"}]
        template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        self.assertEqual(self.queue.generate(messages, template=template, **settings).whole,
                         self.generator.generate("Once upon a time", **settings).whole)

    def test_pieces_are_the_text(self):
        for case in TABLE["cases"]:
            ticket = self.submit(case)
            pieces = list(ticket)
            made = ticket.generation()
            self.assertEqual(made.whole, case["expect"])
            if case["call"] == "generate":
                self.assertEqual("".join(map(str, pieces)), made.text)
            steps = [piece.step for piece in pieces]
            self.assertEqual(steps, sorted(steps))
            self.assertTrue(ticket.wait())
            self.assertEqual(list(ticket), [])

    def test_tasks_of_asyncio(self):
        async def pieces(seed):
            ticket = self.queue.submit("The sun", length=12, steps=6, seed=seed)
            return "".join([str(piece) async for piece in ticket])

        async def answer(seed):
            return (await self.queue.submit("The sun", length=12, steps=6, seed=seed)).text

        async def together():
            return await asyncio.gather(*map(pieces, range(4)), *map(answer, range(4)))

        async def late():
            await asyncio.wait_for(self.queue.submit("The sun", **LONG), 0.02)
        alone = [self.generator.generate("The sun", length=12, steps=6, seed=seed).text for seed in range(4)]
        self.assertEqual(asyncio.run(together()), alone * 2)
        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(late())

    def test_a_cancel_ends_one_request(self):
        ticket, other = self.queue.submit("The sun", **LONG), self.queue.submit("The sun", length=8, seed=2)
        threading.Timer(0.02, ticket.cancel).start()
        with self.assertRaises(dllm.errors.Cancelled):
            ticket.generation()
        with self.assertRaises(dllm.errors.Cancelled):
            list(ticket)
        self.assertEqual(list(ticket), [])
        self.assertEqual(other.generation().text, self.generator.generate("The sun", length=8, seed=2).text)
        other.cancel()
        self.assertEqual(other.generation().finish, "full")

    def test_a_task_ends_the_wait_alone(self):
        ticket = self.queue.submit("The sun", **LONG)
        with self.assertRaises(dllm.errors.DeadlineExceeded):
            ticket.generation(dllm.Task(deadline=0.01))
        self.assertFalse(ticket.wait(timeout=0))
        self.assertFalse(ticket.wait(timeout=0.01))
        self.assertNotEqual(ticket.describe()["phase"], "over")
        with self.assertRaises(dllm.errors.DeadlineExceeded):
            self.queue.generate("The sun", timeout=0.01, **LONG)

    def test_an_error_of_one_request_leaves_the_others(self):
        good = self.queue.submit("The sun", length=8, seed=1)
        bad = self.queue.submit("The sun", length=8, suppress=self.every_id)
        with self.assertRaises(dllm.Error) as caught:
            bad.generation()
        self.assertNotIsInstance(caught.exception, dllm.errors.Cancelled)
        self.assertEqual(bad.describe()["finish"], "failed")
        self.assertEqual(good.generation().text, self.generator.generate("The sun", length=8, seed=1).text)
        with self.assertRaises(dllm.errors.OutOfRange):
            self.queue.generate("The sun " * 1000, length=8)

    def test_requests_that_are_wrong_are_refused(self):
        for settings, error in (({"temprature": 1}, dllm.errors.UnknownOption), ({"priority": 2000}, dllm.errors.InvalidArgument),
                                ({"client": 5}, dllm.errors.InvalidArgument), ({"length": -1}, dllm.errors.InvalidArgument),
                                ({"prompt": "Tom"}, TypeError)):
            with self.assertRaises(error, msg=settings):
                self.queue.submit("The sun", **settings)
        with self.assertRaises(TypeError):
            self.queue.submit(5)
        with self.assertRaises(dllm.errors.UnknownOption) as caught:
            dllm.Queue.load(MODEL, slot=2)
        self.assertIn("did you mean slots?", str(caught.exception))
        with self.assertRaises(FileNotFoundError):
            dllm.Queue.load("nowhere")

    def test_limits_drain_and_close(self):
        queue = dllm.Queue(self.queue.model(), self.queue.tokenizer(), slots=1, waiting=1, policy="random")
        self.assertEqual(queue.describe()["policy"], "random")
        first = queue.submit("The sun", **LONG)
        while first.describe()["phase"] == "waiting":
            queue.wait(queue.describe()["version"], timeout=1)
        second = queue.submit("The sun", length=4)
        with self.assertRaises(dllm.errors.ResourceExhausted):
            queue.submit("The sun")
        first.close()
        first.close()
        with self.assertRaises(dllm.errors.NotFound):
            first.describe()
        queue.drain()
        self.assertTrue(second.wait(timeout=0))
        with self.assertRaises(dllm.errors.Unavailable):
            queue.submit("The sun")
        queue.close()
        for call in (queue.describe, second.text, lambda: queue.submit("The sun")):
            with self.assertRaises(dllm.ClosedError):
                call()

    def test_a_ticket_that_is_forgotten_removes_its_request(self):
        for _ in self.queue.submit("The sun", **LONG):
            break
        self.queue.submit("The sun", **LONG)
        gc.collect()
        about = self.queue.describe()
        self.assertEqual((about["waiting"], about["decoding"], about["over"]), (0, 0, 0))


if __name__ == "__main__":
    unittest.main()
