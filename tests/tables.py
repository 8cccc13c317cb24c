"""Tables that were written as Parquet, read by what did not write them: the library's own reader."""

from __future__ import annotations

from pathlib import Path

from pyarrow import parquet


def as_text(path: Path) -> list[dict[str, str]]:
    """The rows, with values as CSV has them."""
    rows = parquet.read_table(path).to_pylist()
    return [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
