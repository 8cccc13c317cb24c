"""A replay kept in a file as it goes on, so that one that was interrupted goes on from there: all of its state, and what it is a replay of.

The file is sealed as that of a lab is: written aside, flushed, renamed over what was there. Its body is pickled: it is for whoever wrote it, and
refused by any other kailab, trace, fleet, configuration or option before it is unpickled."""

from __future__ import annotations

import hashlib
import pickle
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import numpy as np

import kailab
from kailab.cluster.embedded.storage.sealed_file import DamagedFile, WrongMagic, check, header_of, seal
from kailab.cluster.embedded.storage.state_file import StateLock
from kailab.errors import InputError, StateError
from kailab.fleet import definition
from kailab.model.files import read_bytes
from kailab.model.kinds import register_installed
from kailab.replay.plan import ReplayPlan
from kailab.replay.trace import Trace
from kailab.scheduler import settings_of
from kailab.scheduler.settings.policies import with_policies

MAGIC = "kailab-replay"
VERSION = 1
EVERY_SECONDS = 60.0
_SHARE = 50
"""Saving takes at most one part in so many of the time."""


class _Body(msgspec.Struct):
    """``facts``: what it is a replay of, each as a digest or in words. ``state``: pickled."""

    facts: dict[str, str]
    state: bytes


class ReplayCheckpoint:
    """Keeps one replay in the file ``path``. ``facts``: what it is a replay of, by the words that a message has for it. ``asked``: what to raise once it is kept, where somebody asked for an end. ``every``: seconds between two
    times that it is written, a minute if None."""

    def __init__(
        self,
        path: Path,
        facts: Mapping[str, str],
        asked: Callable[[], BaseException | None] = lambda: None,
        *,
        every: float | None = None,
    ) -> None:
        self.path = path
        self._facts = dict(facts)
        self._asked = asked
        self._every = EVERY_SECONDS if every is None else every
        self._due = monotonic() + self._every

    @contextmanager
    def held(self) -> Iterator[None]:
        """By one process at a time. Raises StateError."""
        with StateLock(self.path):
            yield

    def found(self) -> Any:
        """The state that is kept there, None where there is no file. Raises StateError for a damaged one, InputError for that of another replay."""
        if not self.path.exists():
            return None
        body = self._body()
        unlike = [name for name, text in self._facts.items() if body.facts.get(name) != text]
        if unlike:
            raise InputError(
                f"{self.path}: a replay is kept there of which this is another one: {', '.join(unlike)} differ; expected the same command with the "
                "same files and the same kailab, or another file"
            )
        # Kinds that other distributions bring: policies are known already, by the facts.
        register_installed()
        try:
            return pickle.loads(body.state)
        except Exception as error:  # whatever the content makes stumble
            raise self._damaged(repr(error)) from error

    def look(self, replay: Any) -> None:
        """All is at rest, and the replay can be kept: done where it is time for it, or somebody asked for an end, which is raised then."""
        asked = self._asked()
        if asked is None and monotonic() < self._due:
            return
        self._write(replay)
        if asked is not None:
            raise asked

    def done(self) -> None:
        """Nothing is left to go on with."""
        self.path.unlink(missing_ok=True)

    def _write(self, replay: Any) -> None:
        began = monotonic()
        body = _Body(self._facts, pickle.dumps(replay, pickle.HIGHEST_PROTOCOL))
        try:
            seal(self.path, MAGIC, VERSION, msgspec.msgpack.encode(body))
        except OSError as error:
            raise StateError(f"{self.path}: the replay can't be kept there: {error.strerror or error}") from error
        ended = monotonic()
        self._due = ended + max(self._every, _SHARE * (ended - began) if self._every else 0.0)

    def _body(self) -> _Body:
        try:
            header, content = header_of(read_bytes(self.path, None), MAGIC)
            check(header, content)
            if header.version != VERSION:
                raise DamagedFile(f"format {header.version}, this kailab reads format {VERSION}")
            return msgspec.msgpack.decode(content, type=_Body)
        except WrongMagic:
            raise InputError(
                f"{self.path}: no replay is kept in this file; expected one that --resume wrote, or none"
            ) from None
        except (DamagedFile, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, why: str) -> StateError:
        return StateError(f"{self.path}: damaged: {why}; remove it, and the replay begins anew")


def checkpoint_facts(plan: ReplayPlan) -> dict[str, str]:
    """What decides how a replay goes, by the words that a message has for it. Raises InputError, ExtensionError."""
    return {
        **trace_facts(plan.trace),
        **lab_facts(plan),
        "--for, --checkpoint, --arrivals-only, --series or --every": f"{plan.lasting} {plan.checkpoint} {plan.endless} {plan.metered}",
        **program_facts(),
    }


def trace_facts(trace: Trace) -> dict[str, str]:
    return {"the trace": facts_digest(trace.file, trace.form, trace.jobs, trace.left_out)}


def lab_facts(plan: ReplayPlan) -> dict[str, str]:
    """What a lab is made of, and by what it decides. Raises InputError, ExtensionError."""
    if plan.observers:
        raise InputError("--resume: what is recorded as evidence is not kept; expected no --evidence with it")
    settings = settings_of(plan.config)
    return {
        "the fleet": facts_digest(definition(plan.fleet)),
        "the queues": facts_digest(list(plan.queues.objects), dict(plan.queues.of_team), list(plan.queues.classes)),
        "the scheduler's configuration": facts_digest(with_policies(settings.engine), settings.usage),
        "--prices": facts_digest(plan.prices),
    }


def program_facts() -> dict[str, str]:
    versions = (kailab.__version__, _sources(), platform.python_version(), np.__version__, msgspec.__version__)
    return {"kailab, Python or NumPy": " ".join(versions)}


def facts_digest(*values: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(values, order="deterministic", enc_hook=repr)).hexdigest()


def _sources() -> str:
    """Of kailab itself: a version that is being worked on keeps its number."""
    root = Path(kailab.__file__).parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()
