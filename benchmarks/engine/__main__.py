"""``python -m benchmarks.engine [NAME...]``: measure set-ups and print the times beside KAI's published ones.

A NAME may be the prefix of several: ``F`` stands for F-10 ... F-topo-100. Exit code 1: a set-up did not end with its expected outcome; 2: there is no
such set-up.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
from collections.abc import Sequence

from benchmarks.engine import table
from benchmarks.engine.cluster import NOW
from benchmarks.engine.measure import Timing, measure, prepare
from benchmarks.engine.published import figures
from benchmarks.engine.setups import Setup, VictimOrderSetup, setups
from kailab.engine.cycle import run_cycle
from kailab.errors import InputError, KailabError
from kailab.lab.garbage import collector_off

PROFILED = 20
"""Functions in a profile."""


def chosen(names: Sequence[str]) -> list[Setup | VictimOrderSetup]:
    """The set-ups of these names or prefixes. Raises InputError if there is none."""
    all_setups = setups()
    if not names:
        return list(all_setups.values())
    selected: dict[str, Setup | VictimOrderSetup] = {}
    for name in names:
        matching = {key: setup for key, setup in all_setups.items() if key == name or key.startswith(f"{name}-")}
        if not matching:
            raise InputError(f"there is no set-up {name}; expected one of {', '.join(all_setups)}, or a prefix of some")
        selected |= matching
    return list(selected.values())


def profile(setup: Setup | VictimOrderSetup) -> None:
    """Print where one cycle spends its time."""
    if not isinstance(setup, Setup):
        raise InputError(f"{setup.name} is not a cycle, so it has no profile")
    working = prepare(setup)
    profiler = cProfile.Profile()
    with collector_off():
        profiler.runcall(run_cycle, working, setup.config, NOW)
    print(setup.name)
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(PROFILED)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="set-ups, or how their names begin; default: all")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--profile", action="store_true", help="where the time goes, in place of times")
    options = parser.parse_args(arguments)
    try:
        selected = chosen(options.names)
        if options.profile:
            for setup in selected:
                profile(setup)
            return 0
        timings: list[Timing] = []
        for number, setup in enumerate(selected, 1):
            if sys.stderr.isatty():
                print(f"\r\033[K{number} of {len(selected)}: {setup.name}", end="", file=sys.stderr, flush=True)
            timings.append(measure(setup))
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
    except KailabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.output == "json":
        print(json.dumps(table.as_dict(timings, figures()), indent=2))
    else:
        print(table.text(timings, figures()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
