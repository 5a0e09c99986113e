"""help() has a text for everything that a program calls: classes, functions, methods and properties of the package."""
import inspect
import unittest

import dllm

LEAST = 20  # characters of a text


def is_ours(thing):
    return (getattr(thing, "__module__", None) or "").startswith("dllm")


def members(kind):
    """(name, thing) of what a class has itself or from a class of the package, without private names."""
    for base in kind.__mro__:
        for name, thing in vars(base).items() if is_ours(base) else ():
            if not name.startswith("_") and (callable(thing) or isinstance(thing, (property, classmethod, staticmethod))):
                yield f"{base.__name__}.{name}", thing


def public():
    for name in dllm.__all__:
        thing = getattr(dllm, name)
        modules = [thing] if inspect.ismodule(thing) else []
        things = [(name, thing)] + [(f"{name}.{key}", value) for module in modules for key, value in vars(module).items()
                                    if not key.startswith("_") and getattr(value, "__module__", None) == module.__name__]
        for where, value in things:
            if inspect.isclass(value) and is_ours(value):
                yield where, value
                yield from members(value)
            elif inspect.isroutine(value) or inspect.ismodule(value):
                yield where, value


class Help(unittest.TestCase):
    def test_everything_public_has_a_text(self):
        things = dict(public())
        self.assertGreater(len(things), 150)
        for where in ("load", "hub.pull", "Generator.stream", "Decoder.step", "Trainer.run", "Tokenizer.encode", "errors.NotFound"):
            self.assertIn(where, things)
        short = sorted(where for where, thing in things.items() if len((thing.__doc__ or "").strip()) < LEAST)
        self.assertEqual([], short, "without a docstring of " + f"{LEAST} characters: {short}")


if __name__ == "__main__":
    unittest.main()
