"""Applies manifests with a few odd values to a lab: each must be refused with an error, or the lab must settle.

Case ``i`` of a run is the one of seed ``seed + i``, so any of them can be run alone. A case passes with an InputError,
or if the lab settles, continues for a while, and answers a user's questions. A lab in which an object had to be left
out fails too, because the object should have been refused.
"""

from __future__ import annotations

import json
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from checks.fuzzing.drawn_objects import add_fields
from checks.fuzzing.fuzz import Tell
from checks.fuzzing.odd_seeds import SEEDS
from checks.report import Report, Result
from kailab.advice.practice import lint
from kailab.errors import InputError
from kailab.evidence.cluster_state import read_cluster_state
from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.lab.node_changes import drain_node
from kailab.model.manifests import load_text

MANY = 10**9
"""More cases than any time allows."""
WATCHDOG_SECONDS = 120
"""Ends only cases that hang; no other case takes nearly as long."""


class Raw(str):
    """A scalar that is written unquoted."""


class Hangs(Exception):
    """A case did not end."""


BOUNDARIES = (
    0,
    -1,
    1,
    2**31 - 1,
    2**31,
    -(2**31),
    10**9,
    10**11,
    260_000_000_000,
    2**53,
    10**18,
    2**63 - 1,
    2**63,
    -(2**63),
    10**19,
)
"""Numbers at and between the limits of fields, dates and durations."""
ODD: tuple[Any, ...] = (
    None, True, False, 7, 1000, *BOUNDARIES, 2**64, 0.5, 1.5, -0.5, 1e308,
    Raw("1e3"), Raw("9" * 5000), Raw("-" + "9" * 5000), Raw(".nan"), Raw(".inf"), Raw("2026-01-01"), Raw("0x1F"), Raw("1_000"),
    Raw("!!binary aGVsbG8="), Raw("yes"), Raw("~"),
    "", " ", "x", "²", "٣", "é", "-1", "0", "3", "9" * 5000, "1e99", "1e-400", "500m", "1e999999999", "1Zi", "NaN", "Infinity", "100%", "²%", "-5%", "0.5",
    "5m", "true", "a/b/c", "/", "A B", "..", "\x00", "\x07\x1b[31m", "\n", "{}", "[]", "null", "x" * 300, "x" * 70_000, "Exists", "In",
    "${HOME}", "2026-01-01T00:00:00Z", "9999-99-99T99:99:99Z", "0-2147483647", "* * 31 2 *", "@every 1s",
    [], [[]], [None], [1], ["x"], ["x", "x"], [{}], [{"name": None}], [{"name": "x"}, {"name": "x"}], {}, {"": ""}, {"a": None}, {"a": 1}, {"x": {"y": []}},
    {"name": []}, {"template": {}}, {"spec": None}, [[[[[[[[]]]]]]]], {"a": {"a": {"a": {"a": {"a": {}}}}}}, ["x"] * 2000,
    {f"k{index}": "v" for index in range(2000)},
)  # fmt: skip


def tree_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path in a tree except the root."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from tree_paths(item, (*path, key))


def damage(obj: dict[str, Any], source: random.Random) -> str:
    """Replace, remove, double, rename, wrap, move or nest one value of an object. Returns a description."""
    path = source.choice(list(tree_paths(obj)) or [("kind",)])
    parent: Any = obj
    for key in path[:-1]:
        parent = parent[key]
    key = path[-1]
    how = source.choices(
        ("replace", "remove", "double", "rename", "wrap", "swap", "nest", "number"), (50, 10, 8, 8, 5, 7, 2, 20)
    )[0]
    odd = deepcopy(source.choice(ODD))
    value = parent.get(key) if isinstance(parent, dict) else parent[key]
    if how == "replace":
        parent[key] = odd
    elif how == "remove":
        del parent[key]
    elif how == "double":
        parent[key] = [*value, *deepcopy(value)] if isinstance(value, list) else [value, deepcopy(value)]
    elif how == "rename" and isinstance(parent, dict):
        name = odd if isinstance(odd, str) else source.choice((f"{key}s", str(key).upper(), "spec", "name"))
        parent[name] = parent.pop(key)
    elif how == "wrap":
        parent[key] = {"value": value}
    elif how == "swap":
        other = source.choice(list(tree_paths(obj)))
        taken: Any = obj
        for step in other:
            taken = taken[step]
        parent[key] = deepcopy(taken)
    elif how == "nest":
        for _ in range(source.choice((20, 99, 120))):
            value = [value] if source.random() < 0.5 else {"a": value}
        parent[key] = value
    elif how == "number" and isinstance(value, (int, str)):
        number = source.choice(BOUNDARIES)
        changed = (f"{value}{value}", f"{value}²", f"-{value}")
        parent[key] = source.choice((number, number, str(number), *changed))
    else:
        parent[key] = odd
    shown = Path(*map(str, path)).as_posix()
    return f"{how} {shown:.120}: {odd!r:.60}" if how in ("replace", "rename") else f"{how} {shown:.120}"


def as_text(value: Any) -> str:
    """YAML: JSON, with raw scalars unquoted."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"? {json.dumps(str(key))} : {as_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_text, value)) + "]"
    return json.dumps(value)


class OddCase:
    """The objects of a seed, the last of them damaged, and the actions around them. ``drawn``: it gets fields of its kind's definition
    instead, most of them with values that a user may give."""

    def __init__(self, seed: int, drawn: bool = False) -> None:
        self.seed = seed
        source = random.Random(seed)
        names = sorted(SEEDS)
        self.name = names[source.randrange(len(names))]
        self.objects = [deepcopy(obj) for obj in SEEDS[self.name]]
        if drawn:
            self.done = [add_fields(source, self.objects[-1])]
        else:
            self.done = [damage(self.objects[-1], source) for _ in range(source.choice((1, 1, 1, 2, 2, 3)))]
        # Some manifests change an existing object, by apply or by patch, and pass other checks than a new object.
        self.door = source.choice(("apply", "apply", "apply", "reapply", "patch"))
        self.after = source.choice(("", "delete", "scale", "sound", "drain", "evict"))
        # Later actions find pods that run or have ended.
        self.seconds = source.choice((0, 90))

    @property
    def id(self) -> str:
        return f"odd/{self.seed}"

    def manifest(self) -> str:
        return "\n---\n".join(map(as_text, self.objects)) + "\n"


def violation(case: OddCase) -> str:
    """What went wrong with a case; empty if nothing did."""
    try:
        with _watchdog(), Lab.open("lesson") as lab:
            _run_case(lab, case)
    except Hangs as error:
        return f"{_head(case)}: {error}"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = next((f for f in reversed(frames) if "/kailab/" in f.filename), frames[-1])
        message = " ".join(traceback.format_exception_only(error)[-1].split())
        return f"{_head(case)}: {message:.200} ({Path(place.filename).name}:{place.lineno})"
    return ""


def _head(case: OddCase) -> str:
    return f"{case.name} ({case.door}, {case.after or 'nothing'} after {case.seconds} s), {'; '.join(case.done)}"


def _run_case(lab: Lab, case: OddCase) -> None:
    sound = SEEDS[case.name]
    if case.door != "apply":
        lab.apply([deepcopy(obj) for obj in sound])
        lab.settle()
    if case.door == "patch":
        accepted = _is_accepted(lambda: _patch(lab, sound[-1], case.objects[-1]))
    else:
        accepted = _is_accepted(lambda: lab.apply(case.manifest()))
    lab.settle()
    _ask_questions(lab)
    # Manifests that are only linted are read like applied ones.
    _is_accepted(lambda: lint(load_text(case.manifest())))
    if not accepted:
        return
    lab.advance(case.seconds)
    _ask_questions(lab)
    obj = sound[-1]
    if case.after == "delete":
        _is_accepted(lambda: lab.delete(obj["kind"] + _group(obj), obj["metadata"]["name"]))
    elif case.after == "scale":
        _is_accepted(lambda: lab.scale(obj["kind"], obj["metadata"]["name"], 3))
    elif case.after == "sound":
        _is_accepted(lambda: lab.apply([deepcopy(manifest) for manifest in sound]))
    elif case.after == "drain":
        for node in lab.cluster.list("Node"):
            for change in drain_node(lab, node["metadata"]["name"]):
                _is_accepted(partial(change.do, lab))
    elif case.after == "evict":
        for namespace, name in _pods(lab):
            lab.cluster.evict(namespace, name, "Evicted", "to see it go")
    lab.settle()
    _ask_questions(lab)
    # Pods in their grace period are deleted at once: every object must be deletable.
    if case.after in ("delete", "drain", "evict"):
        for namespace, name in _pods(lab):
            lab.cluster.delete("Pod", name, namespace, 0)
    lab.settle()
    lab.advance(90 - case.seconds)
    _ask_questions(lab)


def _pods(lab: Lab) -> Iterator[tuple[str, str]]:
    """Namespace and name of each pod that still exists when its turn comes, because some are deleted with others."""
    for pod in lab.cluster.list("Pod"):
        meta = pod["metadata"]
        if any(meta["uid"] == other["metadata"]["uid"] for other in lab.cluster.list("Pod")):
            yield meta["namespace"], meta["name"]


def _group(obj: dict[str, Any]) -> str:
    group = obj["apiVersion"].rpartition("/")[0]
    return f".{group}" if obj["kind"] == "Service" else ""


def _patch(lab: Lab, obj: dict[str, Any], odd: dict[str, Any]) -> None:
    patch = {key: _read(value) for key, value in odd.items() if key not in ("apiVersion", "kind")}
    lab.patch(obj["kind"] + _group(obj), obj["metadata"]["name"], patch)


def _read(value: Any) -> Any:
    """The value as a program would pass it: raw scalars as numbers if they are."""
    if isinstance(value, Raw):
        return float("nan") if value == ".nan" else 10**4000 if value.isdigit() and len(value) > 80 else str(value)
    if isinstance(value, dict):
        return {str(key): _read(item) for key, item in value.items()}
    return [_read(item) for item in value] if isinstance(value, list) else value


def _is_accepted(act: Callable[[], Any]) -> bool:
    """False if the action was refused with a printable message."""
    try:
        act()
    except InputError as error:
        message = str(error)
        if not message or len(message) > 20_000 or any(ord(c) < 32 and c != "\n" for c in message):
            raise AssertionError(f"a message that can't be shown: {message!r:.200}") from error
        return False
    return True


def _ask_questions(lab: Lab) -> None:
    """Read everything that users and the evidence read from a lab."""
    picture = lab.picture()
    picture.waiting()
    read_cluster_state(lab.cluster)
    for number, row in enumerate(picture.rows[:5]):
        space, _, name = row.name.partition("/")
        # Steps for one pod only, because each step is tried on a fork of the lab.
        ask(lab, "Pod", name, space, tried=number == 0)
    for queue in lab.cluster.list("Queue")[:3]:
        ask(lab, "Queue", queue["metadata"]["name"], tried=False)
    for event in lab.cluster.list("Event"):
        if event.get("reason") == "Unreadable":
            raise AssertionError(f"left out: {event.get('message')}")


@contextmanager
def _watchdog() -> Iterator[None]:
    """End a case that hangs, if the platform supports alarms."""

    def ring(number: int, frame: FrameType | None) -> None:
        place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""
        raise Hangs(f"hangs in {place}")

    try:
        before = signal.signal(signal.SIGALRM, ring)
    except (ValueError, AttributeError):  # not the main thread, or not a platform with alarms
        yield
        return
    signal.alarm(WATCHDOG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_seed(seed: int, drawn: bool = False) -> Result:
    wrong = violation(OddCase(seed, drawn))
    return Result(id=f"odd/{seed}", suite="odd manifests", differences=(wrong,) if wrong else ())


def run_seeds(
    seeds: Sequence[int], minutes: float | None = None, tell: Tell | None = None, drawn: bool = False
) -> Report:
    """Run these cases, with drawn fields or damaged; with ``minutes``, as many of them as that time allows. ``tell("odd manifests", done, total)`` is
    called after each.
    """
    report = Report("odd manifests")
    end = None if minutes is None else time.monotonic() + 60 * minutes
    for seed in seeds:
        report.results.append(run_seed(seed, drawn))
        if tell is not None:
            tell("odd manifests", len(report.results), len(seeds))
        if end is not None and time.monotonic() >= end:
            break
    return report
