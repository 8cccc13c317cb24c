"""Carry out a run in a new process on behalf of a long-lived Dask worker: ``python -m kailab.studies.subprocess_run``.

A new process reads changed files again, can interrupt a policy that sleeps (only a main thread can), and protects the
worker from a policy that ends its process. ``multiprocessing`` cannot be used, because Dask's workers are daemons,
which may not have children.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading

import msgspec

from kailab.studies.measures import RunResult, result_of
from kailab.studies.processes import MOST_TRIES, lost
from kailab.studies.study import StudyRun


def run_in_subprocess(run: StudyRun) -> RunResult:
    """``result_of`` in a process that ends with this one."""
    code = 0
    for _ in range(MOST_TRIES):
        command = [sys.executable, "-m", "kailab.studies.subprocess_run"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                # Keep stdin open until the answer is read: its end tells the process that nobody waits any more.
                process.stdin.write(pickle.dumps(run))
                process.stdin.flush()
                answer = process.stdout.read()
                process.stdin.close()
            except BrokenPipeError:
                answer = b""
            finally:
                process.kill()
            code = process.wait()
        if answer:
            return msgspec.json.decode(answer, type=RunResult)
    return lost(run, MOST_TRIES, f"the last time with exit code {code}")


def main() -> None:
    # Output printed by a policy must not mix with the answer.
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    run: StudyRun = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer.write(msgspec.json.encode(result_of(run)))
    answer.close()


def _end_with_parent() -> None:
    if not sys.stdin.buffer.read():
        os._exit(1)


if __name__ == "__main__":
    main()
