"""Runs in processes here, each in one of its own: one that is killed takes no other with it, and is done again."""

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
    """At most ``workers`` at once; ``done`` is told of each as it ends. One whose process ends by itself again and again has that as its
    error, and the others go on; what raises ends all processes."""
    waiting = [(run, 1) for run in reversed(runs)]
    started: list[_Started] = []
    try:
        while waiting or started:
            while waiting and len(started) < workers:
                started.append(_start(*waiting.pop()))
            ready = wait([one.answer for one in started])
            for one in [one for one in started if one.answer in ready]:
                started.remove(one)
                result = _answer(one)
                if result is not None:
                    done(one.run, result)
                elif one.tries < MOST_TRIES:
                    waiting.append((one.run, one.tries + 1))
                else:
                    done(one.run, lost(one.run, MOST_TRIES, f"the last time with exit code {one.process.exitcode}"))
    finally:
        for one in started:
            one.process.kill()
            one.process.join()


def lost(run: StudyRun, times: int, how: str) -> RunResult:
    """The result of one that has none: a policy that ends its process, or too little memory, takes no other run with it."""
    decided = [choice_of(one).name for one in run.options.get("policies", ())]
    by = f", decided by {', '.join(decided)}" if decided else ""
    return RunResult(key=run.key, error=f"its process ended {times} times without a result{by}: {how}")


def _start(run: StudyRun, tries: int) -> _Started:
    context = multiprocessing.get_context("spawn")
    answer, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(run, theirs), daemon=True)
    process.start()
    # Held by the child alone, so that its end is seen here.
    theirs.close()
    return _Started(run, process, answer, tries)


def _answer(one: _Started) -> RunResult | None:
    """None: it ended without a word."""
    try:
        result: RunResult | None = one.answer.recv()
    except (EOFError, OSError):
        result = None
    one.answer.close()
    one.process.join()
    return result


def _work(run: StudyRun, answer: Connection) -> None:
    # Ctrl-C reaches all of a terminal's processes; who waits for them ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer.send(result_of(run))
    answer.close()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
