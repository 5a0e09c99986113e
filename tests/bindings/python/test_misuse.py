"""What a program does by mistake: every public call with values of other types, and copies of objects.

Both tests find the calls and the classes by themselves, so that a new one is tested too.
"""
import asyncio
import copy
import inspect
import os
import pickle
import re
import tempfile
import unittest

import dllm
from tiny import Tiny


class Custom:
    """An object of the program."""

    def __repr__(self):
        return "<custom>"


WRONG = [7, -1, 2.5, float("nan"), None, True, 2 ** 70, b"bytes", "text", [], [None], ["text"], [[1], [2, 3]], {}, {1: 2},
         {"text"}, Custom(), Custom, lambda: None, ...]
# Raised where a call is wrong. OverflowError: a number that its place cannot hold.
ERRORS = (TypeError, ValueError, OverflowError, dllm.Error)
OPERATORS = ("__init__", "__getitem__", "__setitem__", "__contains__")
# Not calls of a program: what they take is the interpreter's business, or any JSON value.
LEFT_OUT = {"Tensor.__array__", "Error", "ClosedError", "Generation", "Piece"}
# Where an error may name a part of the argument.
PARTS = {"rows": "rows|name|values|row", "files": "files|name|data", "arrays": "arrays|name|values", "prompts": "prompts?"}
FREE = {"Lua.set.value", "Lua.call.args", "Lua.run_file.args", "save_checkpoint.script_state", "run_async.args",
        "Event.get.default", "Batch.__contains__.name"}
# Python's own words of errors that do not name the argument.
POOR = re.compile(r"object has no|not iterable|unsupported operand|cannot be interpreted|has no len|argument \d|must be real"
                  r"|not subscriptable|unhashable|NoneType' object|bytes-like|NULL|ctypes")


class World(Tiny):
    """One open object of each class, and the arguments of a right call."""

    def __init__(self, folder):
        super().__init__(layers=1)
        self.folder = folder
        self.model.set_tokenizer(self.tokenizer)
        self.saved = self.path("model")
        if not os.path.exists(self.saved):
            self.model.save(self.saved)
        objective = dllm.Objective("mdlm")
        trainer = dllm.Trainer(self.model, objective)
        decoder = dllm.Decoder(self.model, steps=4, gen_length=8)
        decoder.start([5, 6], seed=7)
        generator = dllm.Generator(self.model, self.tokenizer, slots=4)
        queue, ticket = self.submit()
        self.objects = {
            "Answer": dllm.Answer(self.tokenizer), "Batch": dllm.Batch({"ids": [[1, 2], [3, 4]]}),
            "Checkpoint": dllm.Checkpoint(self.saved), "Dataset": self.data, "Decoder": decoder, "Engine": self.engine,
            "Generator": generator, "Loader": self.loader, "Lua": dllm.Lua(), "Model": self.model,
            "Objective": objective, "Options": dllm.Options("decoder", {"steps": 3}), "Queue": queue, "Schedule": dllm.Schedule(),
            "Source": dllm.Source({"a": b"b"}), "Stream": generator.stream("the cat", length=8),
            "Task": dllm.Task(), "Ticket": ticket, "Tensor": dllm.Tensor([1.0, 2.0]), "Tokenizer": self.tokenizer, "Trainer": trainer,
            "Buffer": dllm._base.Buffer(), "Steps": decoder.steps(),
        }
        self.request = generator.add(prompt="the cat", length=8)

    queue = None  # of all worlds, with a model of its own: it decodes while theirs are trained

    def submit(self):
        """The queue and a ticket. A queue that a call has closed or drained is made anew."""
        try:
            return World.queue, World.queue.submit("the cat", length=1)
        except (AttributeError, dllm.ClosedError, dllm.errors.Unavailable):
            World.queue = dllm.Queue.load(self.saved, self.engine)
            return self.submit()

    def path(self, name):
        return os.path.join(self.folder, name)

    def good(self, call, name):
        """A right argument of a call."""
        of_call = {
            "Batch.__setitem__.name": "t", "Batch.set.name": "t", "Engine.__getitem__.key": "memory_used",
            "Engine.__setitem__.key": "memory_limit", "Engine.__setitem__.value": 1 << 40, "Event.get.key": "step",
            "Model.__getitem__.key": "vocab", "Decoder.metric.key": "open", "Trainer.metric.key": "loss",
            "Trainer.set.key": "lr", "Schedule.name": "linear", "Objective.name": "mdlm", "Tokenizer.id.name": "mask",
            "Model.set_param.value": [1.0], "Source.add.name": "other", "Tokenizer.train.text": dllm.Dataset.of(["a b"]),
            "Answer.update.ids": [5, 6], "Answer.update.states": [3, 3], "has_feature.name": "lua", "names.kind": "policy",
            "schema.kind": "decoder", "Options.kind": "decoder", "Options.values": {}, "Trainer.add_sink.kind": "console",
            "Lua.set.value": 7, "Lua.call.function": "tostring", "Lua.run_text.name": "text", "Lua.set.name": "x",
            "Lua.run_text.code": "return 1", "Lua.run_file.path": self.path("absent.lua"), "Checkpoint.path": self.saved,
            "Dataset.save.path": self.path("tokens"), "Tokenizer.save.path": self.path("tokenizer.json"),
            "Model.save.path": self.path("other"), "Model.load_adapter.path": self.path("adapter"),
            "Model.save_adapter.path": self.path("adapter"), "Dataset.path": None, "describe_plugin.plugin": "absent",
            "hub.name": "org/name", "Generator.text.part": "canvas", "Ticket.text.part": "canvas", "Ticket.request": 77,
            "Trainer.model.role": "live",
            "Tensor.values": [1.0], "Batch.set.values": [[0.5]], "Batch.__setitem__.values": [[0.5]],
            "log_to.sink": "none", "log_to.level": "info", "run_async.function": lambda task=None: None,
            "Model.quantize.target": self.path("quantized"), "Generator.infill.text": "the <mask:2>",
            "Decoder.start.prompt": [5], "Dataset.of.rows": ["a text"], "Stream.generator": self.objects["Generator"], "Tensor.read.dtype": None, "Tensor.dtype": None,
            "Model.add_network.name": "teacher", "Dataset.extract_trajectories.path": self.path("order.jsonl"),
            "Loader.write_anchors.path": self.path("anchors"),
        }
        general = {
            "path": self.saved, "engine": self.engine, "tokenizer": self.tokenizer, "model": self.model, "task": None,
            "objective": self.objects["Objective"], "trainer": self.objects["Trainer"], "loader": self.loader,
            "data": self.data, "root": self.path("run"), "dir": self.path("run"), "rows": {"ids": [[5, 6], [7, 8]]},
            "seed": 1, "step": 1, "steps": 1, "slot": 0, "positions": [], "ids": [5], "states": [3], "prompt": "the cat",
            "prompts": ["the cat"], "messages": [{"role": "user", "content": "Hi"}], "text": "the cat", "row": "a text",
            "name": "default", "key": "step", "callback": None, "milliseconds": 0.0, "canvas": [5], "fixed": None,
            "position": 0, "max_batches": 1, "value": 0.5, "scale": 1.0, "t": [0.0, 1.0], "alpha": [1.0, 0.0],
            "dalpha": None, "weight": None, "files": None, "arrays": None, "config": self.config(1), "seconds": 1.0,
            "deadline": None, "kind": "decoder", "target": None, "schedule": None, "request": self.request,
            "script_state": None, "dtype": "f32", "values": [[0.5]], "data_": b"", "default": None,
            "other": self.model, "teacher": self.model, "queue": self.objects["Queue"], "version": 0, "timeout": 0.0,
        }
        for key in (f"{call}.{name}", f"{call.split('.')[0]}.{name}"):
            if key in of_call:
                return of_call[key]
        if call == "Source.add" and name == "data":
            return b"bytes"
        return general[name]


def public_calls():
    """(name, function that finds it in a world) of every public call."""
    for name in dllm.__all__:
        thing = getattr(dllm, name)
        if name in LEFT_OUT or name.endswith("Settings"):
            continue
        if inspect.isfunction(thing):
            yield name, lambda world, thing=thing: thing
        elif inspect.isclass(thing):
            yield from calls_of(name, thing)
    for name, thing in inspect.getmembers(dllm.hub, inspect.isfunction):
        if not name.startswith("_") and thing.__module__ == dllm.hub.__name__:
            yield f"hub.{name}", lambda world, thing=thing: thing


def calls_of(name, kind):
    for attribute in dir(kind):
        call = name if attribute == "__init__" else f"{name}.{attribute}"
        if (attribute.startswith("_") and attribute not in OPERATORS) or call in LEFT_OUT:
            continue
        found = inspect.getattr_static(kind, attribute)
        if attribute == "__init__":
            if inspect.isfunction(found):
                yield call, lambda world, kind=kind: kind
        elif isinstance(found, (classmethod, staticmethod)):
            yield call, lambda world, kind=kind, attribute=attribute: getattr(kind, attribute)
        elif inspect.isfunction(found) and name not in ("Managed", "Event"):
            yield call, lambda world, name=name, attribute=attribute: getattr(world.objects[name], attribute)


class Misuse(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.folder = folder.name
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_CACHE=os.path.join(folder.name, "cache"))

    def attempt(self, call, function, name, wrong, given, options):
        """Makes the call. Returns whether it was refused."""
        try:
            made = function(*given, **options)
            if inspect.isawaitable(made):
                asyncio.run(wait_for(made))
        except ERRORS as problem:
            message = str(problem)
            self.assertTrue(message, f"{call}({name}={wrong!r}): {type(problem).__name__} without a message")
            if not isinstance(problem, dllm.Error):
                self.assertIsNone(POOR.search(message), f"{call}({name}={wrong!r}): {problem!r}")
                if type(problem) is TypeError:
                    self.assertRegex(message, rf"\b({PARTS.get(name, name)})\b", f"{call}({name}={wrong!r}): {problem!r}")
            return True
        except BaseException as problem:
            self.fail(f"{call}({name}={wrong!r}): {problem!r}")
        else:
            if hasattr(made, "close") and call != "default_engine":
                made.close()
            return False

    def test_wrong_types(self):
        calls, refused = 0, 0
        for call, find in public_calls():
            world = None
            parameters = inspect.signature(find(World(self.folder))).parameters.values()
            for parameter in parameters:
                if f"{call}.{parameter.name}" in FREE or call == "Managed" and parameter.name != "pointer":
                    continue
                takes_functions = parameter.name in ("callback", "function", "sink")
                for wrong in ([0, 1] if parameter.kind is parameter.VAR_KEYWORD else WRONG):
                    if takes_functions and callable(wrong):
                        continue
                    with self.subTest(call=call, parameter=parameter.name, wrong=wrong):
                        world = world or World(self.folder)
                        given, options, name = [], {}, parameter.name
                        for other in parameters:
                            value = wrong if other is parameter else None
                            if other.kind is other.VAR_KEYWORD:
                                if other is parameter:
                                    name = "surely_no_keyword"
                                    options[name] = [7, Custom()][wrong]
                                continue
                            if other.kind is other.VAR_POSITIONAL or (call == "Managed" and other is not parameter):
                                continue
                            if other is not parameter:
                                value = world.good(call, other.name)
                            if other.kind is other.KEYWORD_ONLY:
                                options[other.name] = value
                            else:
                                given.append(value)
                        calls += 1
                        is_refused = self.attempt(call, find(world), name, wrong, given, options)
                        refused += is_refused
                        if not is_refused:
                            world = None  # the call has changed something, or closed it
                        if isinstance(wrong, Custom) or name == "surely_no_keyword":
                            self.assertTrue(is_refused, f"{call}({name}={wrong!r}) is taken")
        print(f"# {calls} calls, {refused} refused")
        self.assertGreater(refused, 500)

    def test_right_types(self):
        """The arguments of the sweep are right, so that it is the wrong one that is refused."""
        other = {}
        for call, find in public_calls():
            with self.subTest(call=call):
                world = World(self.folder)
                function = find(world)
                given = [world.good(call, parameter.name)
                         for parameter in inspect.signature(function).parameters.values()
                         if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)] \
                    if call != "Managed" else None
                if given is None:
                    continue
                try:
                    made = function(*given)
                    if inspect.isawaitable(made):
                        asyncio.run(wait_for(made))
                except (TypeError, OverflowError) as problem:
                    self.fail(f"{call}: {problem!r}")
                except (ValueError, ImportError, dllm.Error) as problem:
                    other[call] = str(problem).splitlines()[0]  # such as a file that is not there
        for call, message in other.items():
            print(f"# {call}: {message}")
        self.assertLess(len(other), 35)

    def test_wrong_keys_of_an_event(self):
        seen = []

        def on_event(event):
            for wrong in WRONG:
                for call in (event.__getitem__, event.get):
                    if isinstance(wrong, str):
                        continue
                    seen.append(wrong)
                    with self.subTest(wrong=wrong), self.assertRaisesRegex(TypeError, "^key takes a text"):
                        call(wrong)
            self.assertIsNone(event.get("no such key"))
        World(self.folder).objects["Decoder"].run(on_event)
        self.assertTrue(seen)
        over = dllm.Event()  # as one that was kept after its callback
        for read in (lambda: over.kind, over.values, lambda: over["step"]):
            self.assertRaises(dllm.ClosedError, read)

    def test_settings_of_wrong_types_are_named(self):
        world = World(self.folder)
        holds_itself = []
        holds_itself.append(holds_itself)
        for wrong in (Custom(), b"bytes", {"text"}, Custom, [[Custom()]], {(1, 2): 3}, holds_itself):
            for make in (lambda: dllm.Decoder(world.model, steps=wrong), lambda: dllm.Options("decoder", {"steps": wrong}),
                         lambda: world.objects["Generator"].generate("a", steps=wrong),
                         lambda: dllm.Engine(steps=wrong), lambda: dllm.load(world.saved, slots=3, steps=wrong)):
                with self.subTest(wrong=wrong), self.assertRaisesRegex(ERRORS, "steps"):
                    make()

    def test_objects_are_not_copied(self):
        world = World(self.folder)
        objects = dict(world.objects)
        events = []
        ways = [copy.copy, copy.deepcopy, pickle.dumps, lambda one: copy.copy([one])[0].__reduce__()]

        def check(name, one):
            for way in ways[:3]:
                with self.assertRaisesRegex(TypeError, f"^an? dllm.{name} cannot be copied or pickled", msg=f"{name} {way}"):
                    way(one)
            with self.assertRaises(TypeError):
                copy.deepcopy({"inside": [one]})

        def on_event(event):
            events.append(event)
            check("Event", event)
        world.objects["Decoder"].run(on_event)
        self.assertTrue(events)
        for name, one in objects.items():
            with self.subTest(name=name):
                check(name, one)
        # Every class with a handle was tried.
        def below(kind):
            return {kind, *(each for child in kind.__subclasses__() for each in below(child))}
        kinds = {kind.__name__ for kind in below(dllm._base.Uncopied)} - {"Uncopied", "Managed", "Event"}
        self.assertEqual(kinds, set(objects))
        # Nothing was closed by the tries.
        for name, one in objects.items():
            if isinstance(one, dllm.Managed):
                self.assertFalse(one.closed, name)
                self.assertIsNotNone(one.pointer)


async def wait_for(made):
    return await made


if __name__ == "__main__":
    unittest.main()
