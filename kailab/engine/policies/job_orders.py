"""Calls of the policies that order jobs and victims, with checks of their answers.

An exception of a policy, or an invalid answer, becomes a PolicyError that names the policy and the object in question.
The cycle then ends without decisions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar

from kailab.engine.policies.contract import JobOrder, VictimOrder, make_policy
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.views import JobView, Resources
from kailab.engine.policies.weighted_score import waiting_since
from kailab.engine.queueing.victims import held_by
from kailab.engine.working.queues import Amounts
from kailab.engine.working.state import Job, WTask
from kailab.errors import PolicyError, describe_error

if TYPE_CHECKING:
    from kailab.engine.decisions import QueueState
    from kailab.engine.policies.session_contract import PolicySession

MOST_PARTS = 32
"""The most parts of a key or cost, because each job's is stored and compared with all others."""

_BEFORE_POLICY = 2
"""Stack frames between the caller and the policy's own code."""

T = TypeVar("T")
Numeric = tuple[float, ...]

_MINIMUM: tuple[Literal["below"], Literal["at"], Literal["above"]] = ("below", "at", "above")


class JobViews:
    """Views of the jobs of one cycle. ``divided``: fair shares are divided already, so that queue balances are known."""

    def __init__(self, session: PolicySession, *, divided: bool = True) -> None:
        self._session = session
        self._divided = divided

    def of(self, job: Job) -> JobView:
        session = self._session
        return self._view(job, session.wanted(job), held_by(job), job.elastic_state(), waiting_since(job))

    def anew(self, job: Job) -> JobView:
        """The view that the job would have if it were evicted now."""
        session = self._session
        # After an eviction it would have to place its whole minimum first.
        gang = [task for podset in job.podsets for task in _first(podset.tasks.values(), podset.minimum)]
        wants = session.wants(gang, session.table.min_gpu_memory)
        return self._view(job, wants, (0, 0, 0), 0, session.now)

    def _queue(self, name: str) -> QueueState | None:
        queue = self._session.tree.queues.get(name)
        return self._session.initial_states[name] if self._divided and queue is not None and queue.leaf else None

    def _view(self, job: Job, wants: Amounts, holds: Amounts, state: int, since: float | None) -> JobView:
        return JobView(
            group=job.record,
            tasks=tuple(task.record for task in job),
            wants=Resources(*wants),
            holds=Resources(*holds),
            minimum=_MINIMUM[state],
            waiting_since=since,
            queue=self._queue(job.record.queue),
            now=self._session.now,
        )


class ChosenOrder:
    """Calls a ``JobOrder`` in one cycle."""

    def __init__(self, session: PolicySession, choice: PolicyChoice) -> None:
        self._policy = make_policy(choice, JobOrder)
        self._choice = choice
        self._views = JobViews(session)
        self._keys: dict[str, tuple[int, Numeric]] = {}
        self._anew: dict[str, Numeric] = {}
        self._length: int | None = None

    @property
    def refresh(self) -> float | None:
        return self._policy.refresh

    @property
    def lasting(self) -> bool:
        return self._policy.lasting

    def key(self, job: Job) -> Numeric:
        """The job's key; called again when the job changes."""
        cached = self._keys.get(job.uid)
        if cached is None or cached[0] != job.version:
            cached = self._keys[job.uid] = (job.version, self._ask(job, self._views.of(job)))
        return cached[1]

    def anew(self, job: Job) -> Numeric:
        """The key that the job would have if it were evicted now."""
        key = self._anew.get(job.uid)
        if key is None:
            key = self._anew[job.uid] = self._ask(job, self._views.anew(job))
        return key

    def _ask(self, job: Job, view: JobView) -> Numeric:
        key = _numbers(self._choice, "key", job, lambda: self._policy.key(view), self._length)
        # Keys are compared part by part, so all keys of a cycle must have the same length.
        self._length = len(key)
        return key


class ChosenVictims:
    """Calls a ``VictimOrder`` in one cycle."""

    def __init__(self, session: PolicySession, choice: PolicyChoice) -> None:
        self._policy = make_policy(choice, VictimOrder)
        self._choice = choice
        self._views = JobViews(session)
        self._costs: dict[str, Numeric] = {}
        self._length: int | None = None

    def worth(self, job: Job) -> Numeric:
        """The negative of its cost, when first asked for in the cycle: the largest goes first."""
        worth = self._costs.get(job.uid)
        if worth is None:
            # Cached for the cycle, so that a sorted order stays sorted while simulations evict tasks of the job.
            view = self._views.of(job)
            cost = _numbers(self._choice, "cost", job, lambda: self._policy.cost(view), self._length)
            self._length = len(cost)
            worth = self._costs[job.uid] = tuple(-part for part in cost)
        return worth


def _first(tasks: Any, count: int) -> list[WTask]:
    return sorted(tasks, key=lambda task: task.key)[:count]


def _numbers(choice: PolicyChoice, method: str, job: Job, ask: Callable[[], object], length: int | None) -> Numeric:
    """The answer as a tuple. ``length``: the length of earlier answers, with which it is compared."""
    about = podgroup_text(job)
    answer = call_policy(choice, method, about, ask)
    parts = answer if isinstance(answer, tuple) else (answer,)
    if len(parts) > MOST_PARTS:
        answer_text = f"a tuple of {len(parts)}"
        raise wrong_answer(choice, method, about, answer_text, f"a number, or a tuple of {MOST_PARTS} numbers at most")
    if not parts or not all(_is_number(part) for part in parts):
        raise wrong_answer(choice, method, about, quoted_answer(answer), "a number, or a tuple of numbers")
    if length is not None and len(parts) != length:
        raise wrong_answer(choice, method, about, f"{len(parts)} numbers", f"{length}, as for the PodGroups before it")
    return tuple(part if type(part) in (int, float) else _plain(part) for part in parts)


def _plain(part: float) -> float:
    """A plain number instead of one of a subclass such as numpy's, because evidence stores plain numbers only."""
    return int.__int__(part) if isinstance(part, int) else float.__float__(part)


def _is_number(part: object) -> TypeGuard[float]:
    # NaN has no order, so the result would depend on the sorting algorithm. A whole number beyond the range of floats
    # is no valid number either.
    try:
        return isinstance(part, int | float) and not math.isnan(part)
    except OverflowError:
        return False


def is_finite(part: object) -> bool:
    return _is_number(part) and math.isfinite(part)


def quoted_answer(answer: object) -> str:
    """An answer as an error message quotes it."""
    try:
        return repr(answer)[:80]
    except Exception:  # raised by the policy's own code
        return f"a {type(answer).__name__}"


def podgroup_text(job: Job) -> str:
    """A job's name in error messages."""
    return f"PodGroup {job.record.namespace}/{job.record.name}"


def call_policy(choice: PolicyChoice, method: str, about: str, ask: Callable[[], T]) -> T:
    """Call a policy. Raises PolicyError for any exception of the policy."""
    try:
        return ask()
    except KeyboardInterrupt:  # the user's or SIGTERM's
        raise
    # SystemExit and other BaseExceptions too: a user's policy must not end the scheduler's process.
    except BaseException as error:
        raise PolicyError(
            f"policy {choice.title}: {method} of {about} failed: {describe_error(error)}{_place(error)}"
        ) from error


def _place(error: BaseException) -> str:
    """The file and line of the policy's own code, not of what it called."""
    frames = []
    part = error.__traceback__
    while part is not None:
        frames.append((part.tb_frame.f_code.co_filename, part.tb_lineno))
        part = part.tb_next
    if not frames:
        return ""
    # The frames of this module and of its caller come before the policy's.
    own = frames[min(_BEFORE_POLICY, len(frames) - 1)][0]
    file, line = next(frame for frame in reversed(frames) if frame[0] == own)
    return f" ({file}, line {line})"


def wrong_answer(choice: PolicyChoice, method: str, about: str, answer: str, expected: str) -> PolicyError:
    """The error for an answer that breaks the policy's contract."""
    return PolicyError(f"policy {choice.title}: {method} of {about} is {answer}; expected {expected}")
