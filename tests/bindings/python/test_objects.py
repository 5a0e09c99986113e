"""The ten points that every binding shows: version, bad option, load, encode, decode with callback,
cancel, a callback that raises, double close, parent first, a thousand objects."""
import logging
import os
import tempfile
import threading
import time
import unittest

import dllm
from tiny import Tiny

try:
    import numpy
except ImportError:
    numpy = None


class Scenario(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tiny = Tiny()

    def decoder(self, **settings):
        made = dllm.Decoder(self.tiny.model, **{"steps": 6, "gen_length": 12, **settings})
        made.start(self.tiny.tokenizer.encode("the cat"), seed=7)
        return made

    def test_01_version(self):
        self.assertEqual(dllm.abi_version(), 1)
        self.assertRegex(dllm.version(), r"^\d+\.\d+\.\d+")
        self.assertEqual(dllm.__version__, dllm.version())
        self.assertIn("compiler", dllm.build_info())
        self.assertIn("mdlm", dllm.names("objective"))

    def test_02_bad_option_names_the_nearest_key(self):
        with self.assertRaises(dllm.errors.NotFound) as caught:
            dllm.Decoder(self.tiny.model, stepz=4)
        self.assertEqual(caught.exception.name, "not_found")
        self.assertIsInstance(caught.exception, TypeError)  # as an unknown keyword elsewhere
        self.assertIn("stepz", caught.exception.message)
        self.assertIn("steps", str(caught.exception))
        with self.assertRaises(dllm.errors.InvalidArgument):
            dllm.Decoder(self.tiny.model, steps="many")

    def test_03_save_and_load_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            self.tiny.model.save(path)
            with dllm.Model(path, self.tiny.engine) as loaded:
                self.assertEqual(loaded["vocab"], len(self.tiny.tokenizer))
                name = loaded.param_names()[0]
                with loaded.param(name) as a, self.tiny.model.param(name) as b:
                    self.assertEqual(bytes(a.view()), bytes(b.view()))
            for missing in (dllm.Model, dllm.Tokenizer, dllm.Dataset, dllm.Checkpoint):
                with self.assertRaises(FileNotFoundError) as caught:
                    missing(os.path.join(folder, "nowhere"))
                self.assertIsInstance(caught.exception, dllm.errors.NotFound)
                self.assertIn("nowhere", str(caught.exception))
            with self.assertRaises(dllm.errors.NotFound) as caught:
                os.mkdir(os.path.join(folder, "empty"))
                dllm.Model(os.path.join(folder, "empty"), self.tiny.engine)  # there, and no model
            self.assertNotIsInstance(caught.exception, FileNotFoundError)

    def test_03_a_run_is_a_model(self):
        with tempfile.TemporaryDirectory() as run, \
                dllm.Trainer(self.tiny.model, dllm.Objective("mdlm")) as trainer:
            self.tiny.model.set_tokenizer(self.tiny.tokenizer)
            dllm.save_checkpoint(trainer, None, run)
            trainer.step(next(self.tiny.loader))
            step = dllm.save_checkpoint(trainer, None, run)
            for path in (run, step, os.path.join(step, "model")):
                with self.subTest(path=path), dllm.Model(path, self.tiny.engine) as loaded:
                    name = loaded.param_names()[0]
                    self.assertEqual(bytes(loaded.param(name).view()),
                                     bytes(self.tiny.model.param(name).view()))
                    self.assertEqual(len(dllm.Tokenizer(path)), len(self.tiny.tokenizer))
            for folder in os.listdir(run):
                os.remove(os.path.join(run, folder, "COMMIT"))
            with self.assertRaises(dllm.errors.NotFound) as caught:
                dllm.Model(run, self.tiny.engine)
            self.assertIn("no whole checkpoint is left", str(caught.exception))

    def test_03_a_model_says_what_it_is(self):
        self.assertIn("llama, 2 layers of 64", repr(self.tiny.model))
        model = dllm.Model.new(self.tiny.config(1), self.tiny.engine)
        model.close()
        self.assertEqual(repr(model), "<dllm.Model (closed)>")

    def test_04_encode_and_decode_text(self):
        text = "the cat sat on the möön"
        ids = self.tiny.tokenizer.encode(text)
        self.assertEqual(self.tiny.tokenizer.decode(ids), text)
        shown, used = self.tiny.tokenizer.decode_stream(ids)
        self.assertEqual((shown, used), (text, len(ids)))
        for wrong in (-1, len(self.tiny.tokenizer), 99999):
            with self.assertRaises(dllm.errors.InvalidArgument):
                self.tiny.tokenizer.decode([wrong])
            with self.assertRaises(dllm.errors.InvalidArgument):
                self.tiny.tokenizer.decode_stream([wrong])

    def test_04_an_answer_grows_and_ends(self):
        ids = self.tiny.tokenizer.encode("the cät sat. User: no")
        shown, end = "", None
        with dllm.Answer(self.tiny.tokenizer, begin=0, stop_texts=[". User:", "Bot:"]) as answer:
            for count in range(len(ids) + 1):
                states = [dllm.FINAL] * count + [dllm.MASKED] * (len(ids) - count)
                end = answer.update(ids, states)
                shown += answer.next()
                self.assertTrue("the cät sat".startswith(shown))
                if end is not None:
                    break
            self.assertEqual((shown, end, answer.text()), ("the cät sat", "stop_text", shown))
            self.assertIsNone(answer.update(ids, [dllm.MASKED] * len(ids)))
            answer.update(ids, [dllm.FINAL] * len(ids))
            self.assertEqual("".join(answer.cells()), "the cät sat. User: no")
            self.assertEqual(len(answer.cells()), len(ids))
            with self.assertRaises(ValueError):
                answer.update(ids, [dllm.FINAL])
            with self.assertRaises(dllm.errors.InvalidArgument):
                answer.update([1], [7])
        with self.assertRaises(dllm.errors.InvalidArgument):
            dllm.Answer(self.tiny.tokenizer, stop_texts=[""])

    def test_04_chat_keeps_what_is_given(self):
        template = "{% for m in messages %}{{ m.content }}{{ mark }}{% endfor %}"
        messages = [{"role": "user", "content": "the <|mask|>"},
                    {"role": "assistant", "content": "cat"}]
        with self.assertRaises(dllm.errors.FailedPrecondition) as caught:
            self.tiny.tokenizer.chat(messages)
        self.assertIn("chat_template", str(caught.exception))
        ids, keep = self.tiny.tokenizer.chat(messages, template=template, variables={"mark": "."})
        self.assertEqual(self.tiny.tokenizer.decode(ids), "the <|mask|>.cat.")
        self.assertNotIn(self.tiny.tokenizer.id("mask"), ids)
        said = [i for i, given in zip(ids, keep) if not given]
        self.assertEqual(self.tiny.tokenizer.decode(said), "cat")

    def test_05_decode_with_callback_equals_steps(self):
        seen = []
        with self.decoder(trace=True) as pushed, self.decoder() as pulled:
            def look(event):
                if event.kind == "decode_step":
                    seen.append((event["open"], len(event["ids"]), event.get("no such key")))
            pushed.run(look)
            self.assertEqual([left for left in pulled.steps()][-1], 0)
            self.assertEqual(list(pushed.ids()), list(pulled.ids()))
            self.assertEqual(set(map(int, pushed.states())) - {dllm.FINAL, dllm.FIXED}, set())
            self.assertEqual(pushed.trace()[-1]["step"], int(pushed.metric("steps", 0)))
            with self.decoder() as sliced:
                slices, changed = 1, []
                while sliced.step_for(0, lambda event: changed.extend(event.get("changed", []))) > 0:
                    slices += 1
                self.assertEqual(list(sliced.ids()), list(pulled.ids()))
                self.assertGreater(slices, 2 * len(seen))
                self.assertEqual(sorted(changed), sorted(set(changed)))
        self.assertEqual(seen[-1][0], 0)
        self.assertGreater(len(seen), 1)
        self.assertIsNone(seen[0][2])

    def test_05_every_policy_decodes_step_by_step(self):
        given = self.tiny.tokenizer.encode("the cat")
        for policy in dllm.names("policy"):
            if policy in ("cola", "diffusion_gemma", "editflow", "embedding", "latent"):
                continue  # need a model of their own
            with self.subTest(policy=policy):
                pulled = dllm.Decoder(self.tiny.model, policy=policy, steps=8, gen_length=8, block_length=4)
                pushed = dllm.Decoder(self.tiny.model, policy=policy, steps=8, gen_length=8, block_length=4)
                pulled.start(given, seed=3)
                pushed.start(given, seed=3)
                for _ in pulled.steps():
                    pass
                pushed.run()
                self.assertEqual(list(pulled.ids()), list(pushed.ids()))
                self.assertEqual(list(pulled.ids())[:len(given)], list(given))
                self.assertEqual(pulled.metric("done"), 1)

    def test_05_the_host_may_decide(self):
        mine = self.decoder(steps=12, temperature=0.8)
        builtin = self.decoder(steps=12, temperature=0.8)
        while mine.metric("done") == 0:
            mine.predict()
            with mine.statistics() as said:
                best = max(range(len(said["probability"])), key=lambda i: said["probability"][i])
                mine.commit(0, [int(said["positions"][best])], [int(said["token"][best])])
        builtin.run()
        self.assertEqual(list(mine.ids()), list(builtin.ids()))

    def test_06_cancel_from_another_thread(self):
        with dllm.Task() as task, dllm.Trainer(self.tiny.model, dllm.Objective("mdlm")) as trainer:
            started, when = threading.Event(), []

            def cancel():
                started.wait()
                when.append(time.monotonic())
                task.cancel()
            other = threading.Thread(target=cancel)
            other.start()
            with self.assertRaises(dllm.errors.Cancelled):
                trainer.run(self.tiny.loader, 1_000_000, lambda event: started.set(), task)
            other.join()
            self.assertLess(time.monotonic() - when[0], 2.0)
            self.assertTrue(task.cancelled)
            self.assertGreaterEqual(trainer.metric("step"), 1)

    def test_07_callback_raises_the_very_same_exception(self):
        mine = KeyError("mine")

        def bad(event):
            raise mine
        with self.decoder() as decoder:
            with self.assertRaises(KeyError) as caught:
                decoder.run(bad)
            self.assertIs(caught.exception, mine)
            decoder.run(lambda event: dllm.STOP)  # ends cleanly, and the decoder still works
            decoder.run()
            self.assertEqual(decoder.metric("open"), 0)
        for other in (True, False, 0, 1, 1.9, 2, "x", []):
            with self.decoder() as decoder, self.assertRaisesRegex(TypeError, "None or dllm.STOP"):
                decoder.run(lambda event: other)
        kept = []
        with self.decoder() as decoder:
            decoder.run(kept.append)
        with self.assertRaises(dllm.ClosedError):
            kept[0]["open"]

    def test_08_double_close_and_use_after_close(self):
        decoder = self.decoder()
        decoder.close()
        decoder.close()
        self.assertTrue(decoder.closed)
        with self.assertRaises(dllm.ClosedError):
            decoder.step()
        with self.assertRaises(TypeError):
            dllm.Decoder(decoder)

    def test_09_parents_may_be_closed_first(self):
        tiny = Tiny(layers=1)
        decoder = dllm.Decoder(tiny.model, steps=2, gen_length=4)
        tiny.engine.close()
        tiny.model.close()
        decoder.start()
        decoder.run()
        self.assertEqual(len(decoder.ids()), 4)
        tiny.tokenizer.close()
        tiny.data.close()
        self.assertIn("ids", next(tiny.loader))
        decoder.close()

    def test_another_object_is_a_type_error(self):
        objective = dllm.Objective("mdlm")
        trainer = dllm.Trainer(self.tiny.model, objective)
        for wrong in (lambda: dllm.Trainer("x", objective), lambda: dllm.Trainer(self.tiny.model, "mdlm"),
                      lambda: trainer.run("x", 3), lambda: dllm.Decoder("x"),
                      lambda: dllm.Objective("mdlm", lambda t: 1 - t), lambda: dllm.Loader("x"), lambda: dllm.Answer("x"),
                      lambda: dllm.Dataset.of(["a"], "x"), lambda: dllm.Tokenizer.train("x"),
                      lambda: dllm.Model.new({}, "x"), lambda: dllm.Model("absent", "x"),
                      lambda: objective.loss("x", {"ids": [[1, 2]]})):
            with self.assertRaisesRegex(TypeError, "takes a dllm[.]"):
                wrong()
        trainer.close()

    def test_an_event_has_its_kind(self):
        decoder, kinds = self.decoder(), []
        decoder.run(lambda event: kinds.append(event["kind"] == event.kind))
        self.assertTrue(kinds and all(kinds))

    def test_10_a_thousand_objects(self):
        for number in range(1000):
            with dllm.Batch({"ids": [[number, 1, 2]]}) as batch:
                self.assertEqual(list(batch["ids"][0]), [number, 1, 2])
            dllm.Task()
        for _ in range(1000):
            dllm.Decoder(self.tiny.model)


class Values(unittest.TestCase):
    def test_arrays_that_do_not_fit_raise(self):
        with self.assertRaises(ValueError):
            dllm.Batch({"ids": [[1, 2], [3]]})
        with self.assertRaises(OverflowError):
            dllm.Batch({"ids": [[2 ** 40]]})
        with self.assertRaises(TypeError):
            dllm.Batch({"ids": [[0.5]]})

    def test_a_seed_is_a_whole_number(self):
        tiny = Tiny(layers=1)
        with dllm.Decoder(tiny.model, steps=2, gen_length=4) as decoder:
            with self.assertRaises(TypeError):
                decoder.start([1], seed=1.5)
            with self.assertRaises(TypeError):
                dllm.Objective("mdlm", mask_id=1).prepare({"ids": [[1, 2]]}, seed=1.5)

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy_numbers_are_numbers(self):
        tiny = Tiny(layers=1)
        with dllm.Decoder(tiny.model, steps=numpy.int64(3), temperature=numpy.float32(0.5),
                          suppress=numpy.array([3, 4]), gen_length=numpy.int32(4)) as decoder:
            decoder.start(numpy.array([1, 2]), seed=numpy.int64(3))
            decoder.run()
            self.assertEqual(decoder.metric("steps"), 3)
        with self.assertRaises(TypeError):
            dllm.Decoder(tiny.model, steps=object())
        with tiny.model.param(tiny.model.param_names()[0]) as param:
            self.assertEqual(numpy.asarray(param).shape, param.shape)
            self.assertEqual(numpy.asarray(param, dtype="float64").dtype, numpy.float64)
            self.assertTrue((param.numpy() == param.read()).all())
        with tiny.model.forward(numpy.array([[1, 2, 3]])) as two, tiny.model.forward([1, 2, 3]) as one:
            self.assertEqual(two["logits"].tolist(), one["logits"].tolist())

    def test_the_log_goes_to_a_function_and_a_logger(self):
        tiny = Tiny(layers=1)
        lines = []

        def widened():  # training widens weights in blocks, and says so
            with dllm.Model.new(tiny.config(1), tiny.engine, dtype="q8_0") as model:
                dllm.Trainer(model, dllm.Objective("mdlm")).close()

        def broken(level, line):
            lines.append((level, line))
            raise ValueError("dropped")

        dllm.log_to(broken, "warn")
        widened()
        self.assertEqual([level for level, _ in lines], ["warn"])
        self.assertIn("widens weights of format q8_0", lines[0][1])
        with self.assertLogs("dllm.test", "WARNING") as logged:
            dllm.log_to(logging.getLogger("dllm.test"), "warn")
            widened()
        self.assertIn("q8_0", logged.output[0])
        dllm.log_to("queue", "warn")
        widened()
        self.assertEqual([level for level, _ in dllm.log_lines()], ["warn"])
        self.assertEqual(len(lines), 1)
        dllm.log_to("none")

    def test_schedule(self):
        values = dllm.Schedule("linear").eval([0.25, 0.5])
        self.assertAlmostEqual(values.alpha[0], 0.75, places=6)
        self.assertAlmostEqual(values.weight[1], 2.0, places=6)
        table = dllm.Schedule.table([0, 1], [1, 0]).eval([0.25])
        self.assertAlmostEqual(table.alpha[0], 0.75, places=6)

    def test_a_schedule_of_your_own_is_numbers(self):
        for wrong in (lambda t: 1 - t, 3, None, b"linear", [1, 0.3, 0]):
            for settings in ({}, {"eps": 0.1}):
                with self.assertRaises(TypeError) as caught:
                    dllm.Schedule(wrong, **settings)
                for word in ("name takes a text", repr(wrong), "Schedule.table(t, alpha)", "schedule_alphas", "falls"):
                    self.assertIn(word, str(caught.exception))
        model = Tiny(layers=1).model
        dllm.Decoder(model, policy="ancestral", schedule_alphas=[1, 0.3, 0]).close()
        with self.assertRaisesRegex(dllm.errors.InvalidArgument, "must fall"):
            dllm.Decoder(model, policy="ancestral", schedule_alphas=[0, 0.3, 1])

    def test_what_is_not_a_text_is_a_type_error(self):
        tiny = Tiny(layers=1)
        calls = {
            "name": (dllm.Objective, lambda x: dllm.Objective(x, mask_id=1), lambda x: dllm.Batch({x: [1]}),
                     lambda x: dllm.Source({x: b""}), dllm.has_feature, dllm.pull, tiny.model.param,
                     tiny.model.add_adapter, tiny.tokenizer.id),
            "kind": (dllm.Options, dllm.schema, dllm.names),
            "dtype": (lambda x: dllm.Tensor([1], x), lambda x: dllm.Batch().set("a", [1], x)),
            "policy": (lambda x: dllm.Decoder(tiny.model, policy=x),
                       lambda x: dllm.Generator(tiny.model, tiny.tokenizer).generate("the", policy=x)),
            "path": (dllm.Model, dllm.Tokenizer, dllm.Checkpoint, dllm.load, lambda x: dllm.Dataset(x)),
            "plugin": (dllm.describe_plugin,),
        }
        for name, functions in calls.items():
            for at, function in enumerate(functions):
                for wrong in (3, 0, lambda t: t, ("a",)):
                    with self.subTest(name=name, at=at, wrong=wrong), self.assertRaisesRegex(TypeError, f"^{name} takes a text"):
                        function(wrong)
        with self.assertRaisesRegex(ValueError, "unknown dtype 'f128'; there are f32"):
            dllm.Batch().set("a", [1], "f128")

    def test_tensor_views_keep_their_tensor(self):
        view = dllm.Tensor([[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]]).view()
        self.assertEqual(view.tolist(), [[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]])

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_numpy_arrays_in_and_out(self):
        batch = dllm.Batch({"ids": numpy.arange(6).reshape(2, 3)})
        self.assertEqual(batch["ids"].dtype, numpy.int32)
        self.assertEqual(batch["ids"].tolist(), [[0, 1, 2], [3, 4, 5]])
        with self.assertRaises(OverflowError):
            batch["ids"] = numpy.array([[2 ** 40]])
        with dllm.Tensor(numpy.ones((2, 2), numpy.float32)) as tensor:
            shown = numpy.asarray(tensor.view())
            self.assertEqual(shown.shape, (2, 2))
            self.assertFalse(shown.flags.owndata)

    @unittest.skipUnless(dllm.has_feature("lua"), "a build without Lua")
    def test_lua(self):
        with dllm.Lua() as lua:
            lua.set("n", {"a": [1, 2, 3]})
            lua.set("words", dllm.Dataset.of(["one", "two"]))
            self.assertEqual(lua.run_text("return n.a[3], words:size()"), [3, 2])
            with self.assertRaises(dllm.errors.ScriptFailed) as caught:
                lua.run_text("error 'no'", "mine")
            self.assertIn("mine", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
