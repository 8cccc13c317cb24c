"""Asking a dispatch policy, and holding its answer against what it promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import TypeVar

from kailab.engine.policies.contract import Dispatch
from kailab.engine.policies.dispatching import ClusterView, DispatchJob
from kailab.engine.policies.orders import quoted_answer
from kailab.errors import PolicyError, told
from kailab.scheduler.patience import PATIENCE

T = TypeVar("T")


class Asked:
    """A policy at work. What it raises, or an answer that is no cluster that can take the job, is a PolicyError with its name and the job's."""

    def __init__(self, name: str, policy: Dispatch) -> None:
        self._name = name
        self._policy = policy

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> ClusterView | None:
        """Raises PolicyError."""
        answer = self._ask("choose", job, lambda: self._policy.choose(job, tuple(clusters)))
        if answer is None:
            return None
        found = next((one for one in clusters if isinstance(answer, str) and one.name == answer), None)
        if found is None:
            there = ", ".join(one.name for one in clusters)
            raise self._failed("choose", job, f"{quoted_answer(answer)}; expected None or one of {there}")
        return found

    def turn(self, job: DispatchJob) -> tuple[float, ...]:
        """Raises PolicyError."""
        answer = self._ask("turn", job, lambda: self._policy.turn(job))
        parts = answer if isinstance(answer, tuple) else (answer,)
        try:
            found = tuple(float(part) for part in parts)
        except (TypeError, ValueError, OverflowError):
            found = ()
        if not found or any(isnan(part) for part in found):
            raise self._failed("turn", job, f"{quoted_answer(answer)}; expected a number, or several")
        return found

    def _ask(self, method: str, job: DispatchJob, ask: Callable[[], T]) -> T:
        with PATIENCE.ends(_answered.__code__):
            try:
                return _answered(ask)
            except KeyboardInterrupt:  # somebody else's wish, as SIGTERM is
                raise
            # SystemExit too, and what is derived from nothing but BaseException: a policy of others must not end the process.
            except BaseException as error:
                raise self._failed(method, job, told(error)) from error

    def _failed(self, method: str, job: DispatchJob, what: str) -> PolicyError:
        return PolicyError(f"dispatch policy {self._name!r}: {method} of job {job.name:.80} at {job.now}: {what}")


def _answered(ask: Callable[[], T]) -> T:
    """What is given an end to."""
    return ask()
