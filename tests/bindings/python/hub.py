"""The nine points of ../run_hub.py."""
import os
import threading
import time

import dllm

NAME = "tester/tiny"


def error_of(function, *words, **settings):
    try:
        function(*words, **settings)
    except dllm.Error as problem:
        return problem
    raise AssertionError(f"{function.__name__}{words} succeeds")


def pull_with_progress():
    task = dllm.Task()
    path = dllm.pull(NAME, task=task, attempts=2)
    done, total = task.progress()
    assert os.path.exists(os.path.join(path, "config.json")) and done == total > 320_000, (path, done, total)
    return path


def what_the_cache_has(path):
    plan = dllm.hub.describe(NAME)
    assert (plan["name"], plan["missing"], len(plan["files"]), plan["path"]) == (NAME, 0, 3, path), plan
    assert plan["files"][2]["cached"] and plan["files"][2]["weights"] and plan["free"] > 0, plan
    (only,) = dllm.hub.list()
    (one,) = only["snapshots"]
    assert (only["name"], only["kind"]) == (NAME, "model") and only["used"] > 1e9, only
    assert (one["files"], one["revisions"], one["path"]) == (3, ["main"], path), one
    report = dllm.hub.verify(NAME)
    assert (report["files"], report["checked"], report["faults"]) == (3, 1, []), report


def what_fails(path):
    problem = error_of(dllm.pull, "tester/tin")
    assert isinstance(problem, dllm.errors.NotFound) and "the hub has no model tester/tin" in problem.message, problem
    assert dllm.pull(NAME, offline=True) == path
    assert "not in the cache" in error_of(dllm.pull, "tester/none", offline=True).message
    problem = error_of(dllm.pull, NAME, endpoint="http://127.0.0.1:1")
    assert isinstance(problem, TypeError) and "endpoint" in problem.message, problem


def cancel():
    task, begin = dllm.Task(), time.monotonic()
    threading.Timer(0.5, task.cancel).start()
    assert isinstance(error_of(dllm.pull, "tester/slow", task=task), dllm.errors.Cancelled)
    assert time.monotonic() - begin < 10, time.monotonic() - begin


def remove():
    freed = dllm.hub.remove(NAME)
    assert freed > 320_000, freed
    assert isinstance(error_of(dllm.hub.remove, NAME), dllm.errors.NotFound)


if __name__ == "__main__":
    folder = pull_with_progress()
    what_the_cache_has(folder)
    what_fails(folder)
    cancel()
    remove()
