"""Growth drawn as SVG: small charts with logarithmic axes, a slope of one everywhere the same angle. No library needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from xml.sax.saxutils import escape

from benchmarks.engine.series import Growth, Point, exponent

COLUMNS = 3
DECADE = 62.0  # pixels, on both axes
LEFT, TOP, RIGHT, BOTTOM = 62.0, 52.0, 22.0, 46.0
INK, FAINT, OURS, THEIRS = "#24292f", "#d8dee4", "#0b6e4f", "#b4451f"
SLOWEST = 6  # powers of ten of milliseconds: the top of every chart
FASTEST = 0


def svg(grown: Sequence[Growth], note: str) -> str:
    """One document with a chart for each. ``note`` goes below."""
    width = LEFT + RIGHT + 4 * DECADE
    height = TOP + BOTTOM + (SLOWEST - FASTEST) * DECADE * 0.62
    rows = ceil(len(grown) / COLUMNS)
    total_width, total_height = COLUMNS * width, rows * height + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width:.0f} {total_height:.0f}" '
        f'width="{total_width:.0f}" height="{total_height:.0f}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="12" fill="{INK}">',
        f'<rect width="{total_width:.0f}" height="{total_height:.0f}" fill="#ffffff"/>',
    ]
    for number, growth in enumerate(grown):
        x, y = number % COLUMNS * width, number // COLUMNS * height
        parts += [f'<g transform="translate({x:.1f} {y:.1f})">', *_chart(growth), "</g>"]
    y = rows * height + 18
    parts += [
        _mark(LEFT, y - 4, OURS), _text(LEFT + 12, y, "kailab", "start", OURS),
        _mark(LEFT + 78, y - 4, THEIRS), _text(LEFT + 90, y, "KAI, published", "start", THEIRS),
        _mark(LEFT + 198, y - 4, THEIRS, hollow=True),
        _text(LEFT + 210, y, "KAI did not end in 180 s", "start", THEIRS),
        _text(LEFT, y + 22, note, "start"),
        "</svg>",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _chart(growth: Growth) -> Iterator[str]:
    sizes = [size for size, _ in (*growth.ours, *growth.kai, *growth.capped)]
    low, high = floor(log10(min(sizes))), ceil(log10(max(sizes)))
    step = 0.62 * DECADE
    across = 4 * DECADE / (high - low)

    def at(point: Point) -> Point:
        size, milliseconds = point
        return LEFT + (log10(size) - low) * across, TOP + (SLOWEST - log10(max(milliseconds, 10**FASTEST))) * step

    right, floor_y = LEFT + 4 * DECADE, TOP + (SLOWEST - FASTEST) * step
    yield _text(LEFT, 24, growth.series.title, "start", weight="bold")
    yield _text(LEFT, 42, "time, both axes logarithmic", "start", "#57606a")
    for power in range(FASTEST, SLOWEST + 1):
        y = TOP + (SLOWEST - power) * step
        yield _line((LEFT, y), (right, y), FAINT)
        yield _text(LEFT - 8, y + 4, _time(power), "end")
    for power in range(low, high + 1):
        x = LEFT + (power - low) * across
        yield _line((x, TOP), (x, floor_y), FAINT)
        yield _text(x, floor_y + 17, f"{10**power:,}", "middle")
    yield _text((LEFT + right) / 2, floor_y + 35, growth.series.axis, "middle", "#57606a")
    for points, colour in ((growth.kai, THEIRS), (growth.ours, OURS)):
        if not points:
            continue
        places = [at(point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (_mark(x, y, colour) for x, y in places)
    for x, y in map(at, growth.capped):
        yield _mark(x, y, THEIRS, hollow=True)
    for points, colour, line in ((growth.kai, THEIRS, 0), (growth.ours, OURS, 1)):
        slope = exponent(points)
        if slope is not None:
            who = "KAI" if colour == THEIRS else "kailab"
            yield _text(right - 8, floor_y - 27 + 17 * line, f"{who}: {growth.series.axis}^{slope:.2f}", "end", colour)


def _time(power: int) -> str:
    return f"{10**power} ms" if power < 3 else f"{10 ** (power - 3):,} s"


def _text(x: float, y: float, words: str, anchor: str, colour: str = INK, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}">'
        f"{escape(words)}</text>"
    )


def _line(start: Point, end: Point, colour: str) -> str:
    return f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{colour}"/>'


def _mark(x: float, y: float, colour: str, hollow: bool = False) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{"#ffffff" if hollow else colour}" stroke="{colour}" stroke-width="2"/>'
