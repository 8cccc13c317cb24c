"""Carry out runs in local processes, one process for each run. A run whose process is killed is repeated and affects no
other run."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from kailab.replay.policies import choice_of
from kailab.studies.measures import Done, RunResult, result_of
from kailab.studies.study import StudyRun

MOST_TRIES = 3


class _Started(NamedTuple):
    run: StudyRun
    process: Any
    answer: Connection
    tries: int


def run_here(runs: Sequence[StudyRun], workers: int, done: Done) -> None:
    """Carry out runs, at most ``workers`` at once, and call ``done`` for each one that ends.

    A run whose process ends repeatedly without a result gets that as its error. An exception ends all processes.
    """
    waiting = [(run, 1) for run in reversed(runs)]
    started: list[_Started] = []
    try:
        while waiting or started:
            while waiting and len(started) < workers:
                started.append(_start(*waiting.pop()))
            ready = wait([child.answer for child in started])
            for running in [child for child in started if child.answer in ready]:
                started.remove(running)
                result = _answer(running)
                if result is not None:
                    done(running.run, result)
                elif running.tries < MOST_TRIES:
                    waiting.append((running.run, running.tries + 1))
                else:
                    done(
                        running.run,
                        lost(running.run, MOST_TRIES, f"the last time with exit code {running.process.exitcode}"),
                    )
    finally:
        for running in started:
            running.process.kill()
            running.process.join()


def lost(run: StudyRun, times: int, detail: str) -> RunResult:
    """The result of a run whose process gave none, because a policy ended it or memory ran out."""
    policies = [choice_of(policy).name for policy in run.options.get("policies", ())]
    suffix = f", decided by {', '.join(policies)}" if policies else ""
    return RunResult(
        key=run.key, error=f"the process of the run ended {times} times without a result{suffix}: {detail}"
    )


def _start(run: StudyRun, tries: int) -> _Started:
    context = multiprocessing.get_context("spawn")
    answer, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(run, sender), daemon=True)
    process.start()
    # Only the child holds this end, so the parent notices when the child ends.
    sender.close()
    return _Started(run, process, answer, tries)


def _answer(child: _Started) -> RunResult | None:
    """The result; None if the process ended without one."""
    try:
        result: RunResult | None = child.answer.recv()
    except (EOFError, OSError):
        result = None
    child.answer.close()
    child.process.join()
    return result


def _work(run: StudyRun, answer: Connection) -> None:
    # Ctrl-C reaches all processes of the terminal; the parent ends its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer.send(result_of(run))
    answer.close()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
