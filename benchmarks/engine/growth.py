"""``python -m benchmarks.engine.growth``: measure how the engine's time grows with size: exponents, and the plot in docs/."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine import plot
from benchmarks.engine.published import figures
from benchmarks.engine.series import SERIES, Growth, exponent, grow
from benchmarks.engine.table import machine
from kailab.errors import KailabError

PLOT = Path(__file__).resolve().parents[2] / "docs" / "engine-growth.svg"


def as_dict(grown: Sequence[Growth]) -> dict[str, object]:
    return {
        "machine": machine(),
        "series": [
            {
                "name": growth.series.key,
                "size": growth.series.axis,
                "ours_ms": growth.ours,
                "ours_exponent": exponent(growth.ours),
                "kai_ms": growth.kai,
                "kai_exponent": exponent(growth.kai),
            }
            for growth in grown
        ],
    }


def text(grown: Sequence[Growth]) -> str:
    lines = []
    for growth in grown:
        lines.append(growth.series.title)
        for who, points in (("ours", growth.ours), ("KAI", growth.kai)):
            if points:
                slope = exponent(points)
                told = ", ".join(f"{size:,.0f}: {time:,.1f} ms" for size, time in points)
                lines.append(f"  {who:<5}{growth.series.axis}^{slope:.2f}  {told}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    keys = [series.key for series in SERIES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.growth", description=__doc__)
    parser.add_argument("series", nargs="*", metavar="SERIES", help=f"some of {', '.join(keys)}; default: all")
    parser.add_argument(
        "--plot", type=Path, default=PLOT, metavar="FILE", help="where the SVG goes, if all are measured"
    )
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.series if name not in keys]
    if unknown:
        print(f"error: no series {unknown[0]}; expected one of {', '.join(keys)}", file=sys.stderr)
        return 2
    known = figures()
    grown = []
    try:
        for series in SERIES:
            if not options.series or series.key in options.series:
                if sys.stderr.isatty():
                    print(f"\r\033[K{series.title}", end="", file=sys.stderr, flush=True)
                grown.append(grow(series, known))
    except KailabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(json.dumps(as_dict(grown), indent=2) if options.output == "json" else text(grown))
    if not options.series:
        here = machine()
        note = f"Time inside the actions, the fastest of several runs. kailab: Python {here['python']}, one core of {here['processor']}."
        try:
            options.plot.write_text(plot.svg(grown, note), encoding="utf-8")
        except OSError as error:
            print(f"error: {options.plot}: {error.strerror}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
