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


if __name__ == "__main__":
    unittest.main()
