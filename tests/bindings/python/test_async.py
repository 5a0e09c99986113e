"""asyncio: the loop goes on during long calls, and a cancelled asyncio task cancels the call."""
import asyncio
import unittest

import dllm
from tiny import Tiny

MANY = 1_000_000_000


class Async(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.tiny = Tiny(layers=1)

    def decoder(self):
        made = dllm.Decoder(self.tiny.model, steps=6, gen_length=12)
        made.start(self.tiny.tokenizer.encode("the cat"), seed=7)
        return made

    async def test_async_steps_are_the_steps(self):
        with self.decoder() as waited, self.decoder() as plain:
            seen = [active async for active in waited.steps()]
            self.assertEqual(seen, list(plain.steps()))
            self.assertEqual(list(waited.ids()), list(plain.ids()))

    async def test_the_loop_goes_on_while_training(self):
        ticks, stop, loop = 0, dllm.Task(), asyncio.get_running_loop()
        trainer = dllm.Trainer(self.tiny.model, dllm.Objective("mdlm"))
        training = asyncio.ensure_future(dllm.run_async(trainer.run, self.tiny.loader, MANY, task=stop))
        while ticks < 50:
            await asyncio.sleep(0)
            ticks += trainer.metric("step") > 0
            self.assertFalse(training.done())
        stop.cancel()
        with self.assertRaises(dllm.errors.Cancelled):
            await training
        self.assertIs(asyncio.get_running_loop(), loop)

    async def test_cancelling_the_asyncio_task_cancels_the_call(self):
        trainer, started = dllm.Trainer(self.tiny.model, dllm.Objective("mdlm")), asyncio.Event()
        loop = asyncio.get_running_loop()

        def look(event):
            loop.call_soon_threadsafe(started.set)
        training = asyncio.ensure_future(dllm.run_async(trainer.run, self.tiny.loader, MANY, look))
        await started.wait()
        training.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await training
        steps = trainer.metric("step")
        self.assertGreaterEqual(steps, 1)
        await dllm.run_async(trainer.run, self.tiny.loader, 2)  # the call has ended: its objects are free
        self.assertEqual(trainer.metric("step"), steps + 2)

    async def test_leaving_the_loop_early_leaves_a_decoder_that_works(self):
        with self.decoder() as decoder, self.decoder() as plain:
            async for _ in decoder.steps():
                break
            async for _ in decoder.steps():
                pass
            plain.run()
            self.assertEqual(list(decoder.ids()), list(plain.ids()))

    async def test_exceptions_come_out(self):
        mine = KeyError("mine")

        def bad(event):
            raise mine
        with self.decoder() as decoder:
            with self.assertRaises(KeyError) as caught:
                await dllm.run_async(decoder.run, bad)
            self.assertIs(caught.exception, mine)


if __name__ == "__main__":
    unittest.main()
