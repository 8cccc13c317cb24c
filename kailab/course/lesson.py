"""A lesson as a value, with the commands that a student types for its steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A number that is foretold. ``about``: a part of the lab, as in a challenge; ``count``: its running pods or their GPUs, after a step
    (the last if ``after`` is 0)."""

    ask: str
    about: Mapping[str, Any]
    count: str
    after: int = 0


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """``choices``: by letter, a, b, c in order."""

    ask: str
    choices: tuple[str, ...]


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """``answer``: the letter. ``why``: told with it. ``others``: for each other letter what speaks against it, told to whoever chose it;
    it does not say which is right."""

    answer: str
    why: str
    others: Mapping[str, str]


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """What is explained after a step (the last if ``after`` is 0): kind and name, as ``kailab explain`` takes them."""

    explain: str
    after: int = 0


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """``folder``: where its files are. ``number``: in the order of the course. ``slides``: a few points each. ``answers``: as many as there
    are questions in ``quiz``."""

    folder: Path
    name: str
    number: int
    title: str
    minutes: int
    exercise: str
    concept: str
    points: tuple[str, ...]
    files: tuple[str, ...]
    predict: tuple[Prediction, ...]
    steps: tuple[Mapping[str, Any], ...]
    why: tuple[Why, ...]
    happened: str
    fakes: str
    quiz: tuple[Question, ...]
    answers: tuple[Right, ...]
    fleet: str = "lesson"
    scheduler: str = "kailab"

    def commands(self) -> list[list[str]]:
        """What a student types, step by step: all that happens and all that is looked at."""
        fleet = "" if self.fleet == "lesson" else f" --fleet {self.fleet}"
        found = [_commands(step) for step in self.steps]
        scheduler = "" if self.scheduler == "kailab" else f" --scheduler {self.scheduler}"
        found[0] = [f"kailab up{fleet}{scheduler}", *found[0]]
        return found


def _commands(step: Mapping[str, Any]) -> list[str]:
    found = []
    if "apply" in step:
        found.append("kailab apply " + " ".join(f"-f {name}" for name in step["apply"]))
    if "delete" in step:
        found.append(f"kailab delete {step['delete']['kind'].lower()} {step['delete']['name']}")
    if "scale" in step:
        one = step["scale"]
        found.append(f"kailab scale {one['kind'].lower()} {one['name']} --replicas {one['replicas']}")
    found += [f"kailab {verb} {step[verb]}" for verb in ("fail", "recover") if verb in step]
    if "advance" in step:
        found.append(f"kailab run --for {step['advance']}")
    return [*found, *step.get("look", ())]
