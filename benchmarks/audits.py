"""``python -m benchmarks.audits``: measure ``kailab audit`` on a large lab in a file.

The labs are those of ``benchmarks.labs``. Results are seconds of processor time, including the start of Python; the least of several runs.
"""

from __future__ import annotations

from benchmarks.labs import LABS, options, saved
from benchmarks.looks import processor_seconds


def main() -> None:
    given = options("benchmarks.audits", __doc__, runs=3)
    for fleet in given.fleet:
        with saved(fleet) as state:
            command = ["audit", "-o", "json", "--state", str(state)]
            seconds = min(processor_seconds(command, check=False) for _ in range(given.runs))
            print(f"audit of {fleet} with {LABS[fleet]} pods: {seconds:.2f} s")


if __name__ == "__main__":
    main()
