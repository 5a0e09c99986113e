"""The settings of a request, and of what is loaded with its model."""
from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Union

from . import _raw, errors
from ._base import Options, _NoOptions, options, schema
from ._text import text_bytes
from ._values import is_list, mapping, refuse
from .decoder import kind_of
from .engine import Engine, default_engine

if TYPE_CHECKING:
    from ._settings import EngineSettings

# A text that the answer continues, or a conversation: [{"role": "user", "content": "Hi"}].
Prompt = Union[str, Sequence[Mapping[str, Any]]]


def engine_of(engine: Engine | EngineSettings | None) -> Engine:
    """An engine, or the engine of these settings; None: the default."""
    if engine is None:
        return default_engine()
    if isinstance(engine, Engine):
        return engine
    settings = mapping(engine, "engine", "a dllm.Engine or a dict of its settings")
    for key in settings:
        text_bytes(key, "a name in engine")
    return Engine(**settings)


@lru_cache(maxsize=None)
def names_of(kind: str) -> frozenset[str]:
    """The names of the options of a kind."""
    return frozenset(key["name"] for key in schema(kind)["keys"])


def divided(settings: Mapping[str, object], *kinds: str) -> list[dict[str, object]]:
    """The settings of each kind, of a load."""
    parts = [{key: value for key, value in settings.items() if key in names_of(kind)} for kind in kinds]
    for key in settings:
        if not any(key in part for part in parts):
            known = sorted({"engine", "task"}.union(*map(names_of, kinds)))
            near = get_close_matches(key, known, 1)
            raise errors.UnknownOption(f'there is no option named "{key}" of kind {" or ".join(kinds)}',
                                       f"did you mean {near[0]}?" if near else
                                       f"the names are {', '.join(known)}", _raw.NOT_FOUND, "not_found")
    return parts


def check_prompt(prompt: object, name: str) -> None:
    """Refuses what is neither a text nor a list of messages."""
    if not isinstance(prompt, str) and not is_list(prompt):
        refuse(name, "a text or a list of messages", prompt)


def with_prompt(prompt: Prompt, settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a request that begins with a prompt."""
    check_prompt(prompt, "prompt")
    return with_text("prompt" if isinstance(prompt, str) else "messages", prompt, settings)


def with_text(key: str, text: Prompt, settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a request with the text of an argument."""
    for other in ("prompt", "messages", "infill"):
        if settings.get(other) is not None:
            raise TypeError(f"the text is the first argument here, not the keyword {other}")
    return {**settings, key: text}


def request_options(settings: Mapping[str, object]) -> Options | _NoOptions:
    """Options of a request. Its policy chooses their kind."""
    policy = settings.get("policy")
    return options(kind_of("request", None if policy == "auto" else policy), settings)
