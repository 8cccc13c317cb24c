"""A small study: one trace of two teams, a fleet of 32 GPUs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def study_file(tmp_path: Path) -> Write:
    """``study_file(grid="{limits: [...]}", ...)``: a study's file beside its trace of 20 jobs."""
    chance = random.Random(7)
    lines = ["name,submit,seconds,gpus,team"]
    at = 0
    for number in range(20):
        at += chance.randrange(10, 200)
        lines.append(
            f"job{number},{at},{chance.randrange(60, 3000)},{chance.choice((1, 2, 8))},{chance.choice(('red', 'blue'))}"
        )
    (tmp_path / "trace.csv").write_text("\n".join(lines) + "\n")

    def write(name: str = "study.yaml", **fields: str) -> Path:
        told = {"trace": "trace.csv", "fleet": "lesson", "queues": "by-share", **fields}
        path = tmp_path / name
        path.write_text("".join(f"{key}: {value}\n" for key, value in told.items() if value))
        return path

    return write
