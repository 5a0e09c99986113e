"""Training through the binding: the loss falls, checkpoints go on bit for bit."""
import json
import os
import tempfile
import unittest

import dllm
from tiny import Tiny


class Training(unittest.TestCase):
    def test_ten_steps_lower_the_loss(self):
        tiny = Tiny()
        trainer = dllm.Trainer(tiny.model, dllm.Objective("mdlm"), lr=5e-3)
        held = dllm.Loader(tiny.data, batch=8, length=32, seed=3, shuffle=False)
        before = trainer.eval(held, 4)
        losses = [trainer.step(next(tiny.loader)) for _ in range(10)]
        held.seek(0)
        after = trainer.eval(held, 4)
        self.assertLess(after, before - 0.3)
        self.assertEqual(trainer.metric("step"), 10)
        self.assertEqual(trainer.metric("loss"), losses[-1])

    def test_accumulated_batches_are_one_step(self):
        tiny = Tiny(layers=1)
        trainer = dllm.Trainer(tiny.model, dllm.Objective("mdlm"))
        version = tiny.model.version
        trainer.accumulate(next(tiny.loader))
        trainer.accumulate(next(tiny.loader))
        self.assertEqual(tiny.model.version, version)
        self.assertGreater(trainer.apply(), 0)
        self.assertEqual(trainer.metric("step"), 1)
        self.assertGreater(tiny.model.version, version)

    def test_a_restored_run_goes_on_bit_for_bit(self):
        straight = self.run_of(8)
        with tempfile.TemporaryDirectory() as root:
            self.assertIsNone(dllm.latest_checkpoint(root))
            tiny, trainer = self.made()
            trainer.run(tiny.loader, 4)
            saved = dllm.save_checkpoint(trainer, tiny.loader, root, script_state={"note": 1})
            self.assertEqual(os.path.realpath(dllm.latest_checkpoint(root)), os.path.realpath(saved))
            dllm.Checkpoint(saved).verify()
            task = dllm.Task()
            task.cancel()
            for call in (dllm.latest_checkpoint, dllm.Checkpoint, dllm.Tokenizer):
                self.assertRaises(dllm.errors.Cancelled, call, saved, task=task)
            tiny, trainer = self.made()
            dllm.restore_checkpoint(trainer, tiny.loader, saved)
            trainer.run(tiny.loader, 4)
            self.assertEqual(self.weights(tiny.model), straight)

    def test_a_save_in_the_background_holds_its_moment(self):
        with tempfile.TemporaryDirectory() as root:
            tiny, trainer = self.made()
            trainer.run(tiny.loader, 2)
            moment = self.weights(tiny.model)
            saved = dllm.save_checkpoint(trainer, tiny.loader, root, wait=False)
            trainer.run(tiny.loader, 2)
            straight = self.weights(tiny.model)
            trainer.sync()
            dllm.Checkpoint(saved).verify()
            self.assertGreater(trainer.metric("checkpoint_stall_seconds"), 0)
            dllm.restore_checkpoint(trainer, tiny.loader, saved)
            self.assertEqual(self.weights(tiny.model), moment)
            trainer.run(tiny.loader, 2)
            self.assertEqual(self.weights(tiny.model), straight)

    def test_events_reach_callback_and_sink(self):
        tiny, trainer = self.made()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "metrics.jsonl")
            trainer.add_sink("jsonl", path)
            losses = []
            trainer.run(tiny.loader, 3, lambda event: losses.append(event["loss"]))
            with open(path) as lines:
                written = [json.loads(line) for line in lines]
        self.assertEqual(len(losses), 3)
        self.assertEqual(len(written), 3)

    def test_forward_and_own_masks(self):
        tiny = Tiny(layers=1)
        rows = {"ids": [[1, 2, 3, 4]]}
        result = tiny.model.forward(rows)
        self.assertEqual(result.tensor("logits").shape, (1, 4, len(tiny.tokenizer)))
        objective = dllm.Objective("mdlm", mask_id=tiny.model["mask_id"])
        rows = next(tiny.loader)
        prepared = objective.prepare(rows, seed=7)
        self.assertIn("weights", prepared)
        loss = objective.loss(tiny.model, prepared, seed=7)
        # Without options the mask token is the model's.
        of_model = dllm.Objective("mdlm").prepare(rows, seed=7, model=tiny.model)
        self.assertEqual(loss, objective.loss(tiny.model, of_model))
        self.assertEqual(loss, objective.loss(tiny.model, prepared, seed=8))

    def made(self):
        tiny = Tiny(layers=1)
        return tiny, dllm.Trainer(tiny.model, dllm.Objective("mdlm"), lr=1e-3)

    def run_of(self, steps):
        tiny, trainer = self.made()
        trainer.run(tiny.loader, steps)
        return self.weights(tiny.model)

    def weights(self, model):
        return [bytes(model.param(name).view()) for name in model.param_names()]


class Adapters(unittest.TestCase):
    def setUp(self):
        self.tiny = Tiny()
        self.model = self.tiny.model

    def logits(self):
        with self.model.forward([[5, 6, 7, 8]]) as batch, batch.tensor("logits") as tensor:
            return tensor.view().cast("B").cast("f").tolist()

    def names(self):
        return [adapter["name"] for adapter in self.model.adapters()]

    def test_an_adapter_is_trained_saved_loaded_scaled_and_merged(self):
        model, base = self.model, self.logits()
        model.add_adapter(rank=2, targets=["q", "v"], layers=["0"])
        params = 2 * 2 * (64 + 64)
        self.assertEqual(model.adapters(), [{"name": "default", "kind": "lora", "rank": 2, "alpha": 4, "rslora": False, "dora": False, "dropout": 0,
                                             "modules_to_save": [], "scale": 1, "modules": 2,
                                             "params": params, "bytes": 4 * params}])
        self.assertEqual(self.logits(), base)
        with dllm.Trainer(model, dllm.Objective("mdlm"), lr=1e-2) as trainer:
            trainer.run(self.tiny.loader, 3)
        trained = self.logits()
        self.assertNotEqual(trained, base)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "adapter")
            model.save_adapter(path)
            self.assertRaises(dllm.errors.AlreadyExists, model.save_adapter, path)
            model.remove_adapter()
            self.assertEqual((self.names(), self.logits()), ([], base))
            model.add_network(model)
            self.assertRaises(dllm.errors.AlreadyExists, model.add_network, model)
            self.assertEqual(self.logits(), base)
            model.remove_network()
            self.assertRaises(dllm.errors.NotFound, model.remove_network)
            model.load_adapter(path, "loaded")
            with self.assertRaises(dllm.errors.AlreadyExists) as caught:
                model.load_adapter(path, "loaded")
            self.assertIn("choose another name", caught.exception.hint)
            self.assertRaises(dllm.errors.NotFound, model.load_adapter, os.path.join(folder, "nowhere"))
        self.assertEqual((self.names(), self.logits()), (["loaded"], trained))
        model.set_adapter_scale(0, "loaded")
        self.assertEqual((model.adapters()[0]["scale"], self.logits()), (0, base))
        model.set_adapter_scale(1, "loaded")
        model.merge_adapter("loaded")
        self.assertEqual(self.names(), [])
        self.assertLess(max(abs(a - b) for a, b in zip(self.logits(), trained)), 1e-4)
        self.assertNotEqual(self.logits(), base)

    def test_names_and_settings_of_adapters_are_checked(self):
        self.model.add_adapter(rank=2)
        self.assertRaises(dllm.errors.AlreadyExists, self.model.add_adapter)
        self.assertRaises(dllm.errors.InvalidArgument, self.model.add_adapter, "a b")
        self.assertRaises(dllm.errors.UnknownOption, self.model.add_adapter, "other", rang=2)
        self.assertRaises(dllm.errors.NotFound, self.model.add_adapter, "other", targets=["nowhere"])
        self.assertRaises(dllm.errors.InvalidArgument, self.model.set_adapter_scale, 2e9)
        for wrong in (lambda: self.model.remove_adapter("absent"), lambda: self.model.set_adapter_scale(1, "absent"),
                      lambda: self.model.merge_adapter("absent"), lambda: self.model.save_adapter("nowhere", "absent")):
            with self.assertRaises(dllm.errors.NotFound) as caught:
                wrong()
            self.assertIn("default", caught.exception.hint)
        with dllm.Task() as task:
            task.cancel()
            self.assertRaises(dllm.errors.Cancelled, self.model.add_adapter, "other", task)
        self.model.add_adapter("other", rank=2)
        self.assertEqual(self.names(), ["default", "other"])
        self.model.merge_adapter()
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
