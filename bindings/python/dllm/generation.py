"""The answer of a request for text."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping


@dataclass(frozen=True)
class Generation:
    """A text with the numbers of its request. str() returns the text."""

    text: str  # the answer; of a text with holes: the whole text
    whole: str  # the prompt and the answer
    finish: str  # full: every position is decided; end_token; stop_text; incomplete: positions are open after all steps
    prompt_tokens: int
    completion_tokens: int
    steps: int  # denoising steps
    nfe: int  # passes of the model
    policy: str
    seed: int
    ids: list[int] = field(repr=False)  # one token id per position, prompt included
    confidence: list[float] = field(repr=False)  # a probability per position, 1 for a given one
    holes: list[str] = field(repr=False)  # the text of each hole; empty unless infill made it

    def __str__(self) -> str:
        return self.text


def generation_of(about: Mapping[str, Any]) -> Generation:
    """The generation that dllm_generator_describe describes."""
    return Generation(
        text=about["completion"], whole=about["text"], finish=about["finish"],
        prompt_tokens=about["prompt_tokens"], completion_tokens=about["completion_tokens"],
        steps=about["steps"], nfe=about["nfe"], policy=about["policy"], seed=about["seed"],
        ids=about["ids"], confidence=about["confidence"], holes=about.get("holes", []))
