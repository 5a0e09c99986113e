"""Runs topics over seeds: `run.py [--seeds N] [--first N] [--seconds N] [TOPIC...]`. One seed is one case."""
import argparse
import collections
import importlib
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import dllm
from compare import Difference, Refused

TOPICS = sorted(path.stem for path in (pathlib.Path(__file__).parent / "topics").glob("[a-z]*.py"))


def run_case(topic, seed: int) -> None:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dllm_differential_"))
    try:
        topic.run_case(seed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_topic(name: str, first: int, seeds: int, seconds: float) -> tuple[int, int]:
    topic = importlib.import_module(f"topics.{name}")
    began, passed, failed = time.monotonic(), 0, 0
    refused: collections.Counter = collections.Counter()
    for seed in range(first, first + seeds):
        if seconds and time.monotonic() - began > seconds:
            print(f"note {name}: stopped before seed {seed}, after {seconds:g} s")
            break
        try:
            run_case(topic, seed)
            passed += 1
            continue
        except Refused as why:
            refused[str(why)] += 1
            continue
        except Difference as found:
            text = str(found)
        except dllm.Error as error:
            text = f"error: {error}"
        except Exception:
            text = traceback.format_exc(limit=-3)
        failed += 1
        print(f"FAIL {name} seed {seed}: {text.strip()}")
        print(f"  repeat: scripts/differential --first {seed} --seeds 1 {name}", flush=True)
    for why, count in refused.most_common():
        print(f"note {name}: refused {count} times: {why}")
    print(f"{name}: {passed} passed, {failed} failed, {sum(refused.values())} refused, "
          f"{time.monotonic() - began:.0f} s", flush=True)
    return passed, failed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=", ".join(TOPICS))
    given = parser.parse_args()
    if given.list:
        print("\n".join(TOPICS))
        return 0
    unknown = [name for name in given.topics if name not in TOPICS]
    if unknown:
        parser.error(f"there is no topic {unknown[0]}: {', '.join(TOPICS)}")
    sums = [run_topic(name, given.first, given.seeds, given.seconds) for name in given.topics or TOPICS]
    passed, failed = (sum(column) for column in zip(*sums))
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
