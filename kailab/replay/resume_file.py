"""Save a running replay to a file and resume it from there (``--resume``).

The file is written to a temporary file, flushed and renamed, as a lab's file is. Its body is a pickle, so it is only
for the user who wrote it: it is refused before unpickling if kailab, the trace, the fleet, the configuration or an
option differs.
"""

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
from kailab.cluster.embedded.storage.sealed_file import DamagedFile, WrongMagic, check_body, header_of, seal
from kailab.cluster.embedded.storage.state_file import StateLock
from kailab.errors import InputError, StateError, os_errors_as
from kailab.fleet.fleet import fleet_definition
from kailab.model.files import read_bytes
from kailab.model.kinds import register_installed
from kailab.replay.plan import ReplayPlan
from kailab.replay.trace import Trace
from kailab.scheduler.settings.config_file import settings_of
from kailab.scheduler.settings.policies import with_policies

MAGIC = "kailab-replay"
VERSION = 1
EVERY_SECONDS = 60.0
_SHARE = 50
"""Saving takes at most one part in this many of the running time."""


class _Body(msgspec.Struct):
    """``facts``: what the replay depends on, by description, as digests or text. ``state``: the pickled replay."""

    facts: dict[str, str]
    state: bytes


class ResumeFile:
    """Saves one replay to the file ``path``.

    ``facts``: what the replay depends on, by the description that messages use. ``asked``: returns the exception to
    raise once the replay is saved, or None while nobody has asked it to stop. ``every``: seconds between saves; None:
    one minute.
    """

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
    def lock(self) -> Iterator[None]:
        """Hold the file's lock, so that one process uses it at a time. Raises StateError."""
        with StateLock(self.path):
            yield

    def load(self) -> Any:
        """Return the saved state, or None if there is no file.

        Raises StateError for a damaged file, InputError for a file of another replay.
        """
        if not self.path.exists():
            return None
        body = self._body()
        unlike = [name for name, text in self._facts.items() if body.facts.get(name) != text]
        if unlike:
            raise InputError(
                f"{self.path} holds a different replay: {', '.join(unlike)} differ; expected the same command with the "
                "same files and the same kailab, or another file"
            )
        # Register the kinds of installed extensions; computing the facts has loaded the policies.
        register_installed()
        try:
            return pickle.loads(body.state)
        except Exception as error:  # unpickling can raise anything
            raise self._damaged(repr(error)) from error

    def save_if_due(self, replay: Any) -> None:
        """Save the replay if a save is due or a stop was requested; then raise the stop request.

        Call it only when nothing is in progress.
        """
        asked = self._asked()
        if asked is None and monotonic() < self._due:
            return
        self._write(replay)
        if asked is not None:
            raise asked

    def remove(self) -> None:
        """Delete the file of a completed replay."""
        self.path.unlink(missing_ok=True)

    def _write(self, replay: Any) -> None:
        began = monotonic()
        body = _Body(self._facts, pickle.dumps(replay, pickle.HIGHEST_PROTOCOL))
        with os_errors_as(StateError, f"{self.path}: cannot save the replay"):
            seal(self.path, MAGIC, VERSION, msgspec.msgpack.encode(body))
        ended = monotonic()
        self._due = ended + max(self._every, _SHARE * (ended - began) if self._every else 0.0)

    def _body(self) -> _Body:
        try:
            header, content = header_of(read_bytes(self.path, None), MAGIC)
            check_body(header, content)
            if header.version != VERSION:
                raise DamagedFile(f"format {header.version}, this kailab reads format {VERSION}")
            return msgspec.msgpack.decode(content, type=_Body)
        except WrongMagic:
            raise InputError(
                f"{self.path} is not a file of a replay; expected one that --resume wrote, or a path where no file exists"
            ) from None
        except (DamagedFile, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, why: str) -> StateError:
        return StateError(f"{self.path} is damaged: {why}; delete it to start the replay from the beginning")


def resume_facts(plan: ReplayPlan) -> dict[str, str]:
    """Everything that the course of a replay depends on, by the description that messages use.

    Raises InputError, ExtensionError.
    """
    return {
        **trace_facts(plan.trace),
        **lab_dependencies(plan),
        "--for, --checkpoint, --arrivals-only, --series or --every": f"{plan.lasting} {plan.progress} {plan.endless} {plan.metered}",
        **program_facts(),
    }


def trace_facts(trace: Trace) -> dict[str, str]:
    return {"the trace": facts_digest(trace.file, trace.form, trace.jobs, trace.left_out)}


def lab_dependencies(plan: ReplayPlan) -> dict[str, str]:
    """What a lab and its decisions depend on. Raises InputError, ExtensionError."""
    if plan.observers:
        raise InputError("--resume does not save recorded evidence; expected no --evidence with it")
    settings = settings_of(plan.config)
    return {
        "the fleet": facts_digest(fleet_definition(plan.fleet)),
        "the failures of nodes": facts_digest(list(plan.failures)),
        "the services": facts_digest(list(plan.services)),
        "the speeds of jobs": facts_digest([] if plan.speeds is None else sorted(plan.speeds.speeds.items())),
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
    """A digest of kailab's sources: the version number does not change during development."""
    root = Path(kailab.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
