"""Measure the start of commands: processor time, including the start of Python, beside that of Python alone and of numpy.

    python -m benchmarks.startup            # 15 runs of each
    python -m benchmarks.startup 31

All commands run in turn, round after round, so that other load of the machine affects all of them alike; the median is printed. Python's compiled
files go to a new folder, which is filled before anything is timed.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

MANIFESTS = Path(__file__).parent.parent / "exercises" / "quota" / "manifests"
APPLIED = ("queues.yaml", "within-quota.yaml", "beyond-quota.yaml")
RUNS = 15
PYTHON = (sys.executable, "-c")
KAILAB = (sys.executable, "-m", "kailab")
COMMANDS: Mapping[str, Sequence[str]] = {
    "python -c pass": (*PYTHON, "pass"),
    "import numpy": (*PYTHON, "import numpy"),
    "import click": (*PYTHON, "import click"),
    "kailab --help": (*KAILAB, "--help"),
    "kailab get pods": (*KAILAB, "get", "pods"),
    "kailab get pods -o wide": (*KAILAB, "get", "pods", "-o", "wide"),
    "kailab status": (*KAILAB, "status"),
    "kailab explain queue team-a": (*KAILAB, "explain", "queue", "team-a"),
    "completion of `kailab ge`": KAILAB,
}
COMPLETION = {"_KAILAB_COMPLETE": "bash_complete", "COMP_WORDS": "kailab ge", "COMP_CWORD": "1"}


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ,
            "PYTHONPYCACHEPREFIX": str(Path(folder, "compiled")),
            "KAILAB_STATE": str(Path(folder, "lab")),
        }
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for arguments in (("up",), ("apply", *(f"-f{MANIFESTS / name}" for name in APPLIED))):
            subprocess.run(
                (*KAILAB, *arguments), env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        times: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for number in range(runs + 1):  # the first round compiles, and does not count
            for name, command in COMMANDS.items():
                took = _seconds(command, {**env, **COMPLETION} if name.startswith("completion") else env)
                if number:
                    times[name].append(took)
    bare = statistics.median(times["python -c pass"])
    print(f"{'COMMAND':<30} {'SECONDS':>8} {'OF PYTHON':>10}")
    for name, each in times.items():
        median = statistics.median(each)
        print(f"{name:<30} {median:>8.3f} {median / bare:>10.1f}")


def _seconds(command: Sequence[str], env: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else RUNS)
