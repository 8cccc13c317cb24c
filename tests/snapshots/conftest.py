"""Snapshots of labs, written and opened."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from kailab.lab.lab import Lab
from kailab.snapshots import snapshot, taking
from kailab.snapshots.snapshot import ClusterSnapshot

Kept = Callable[[Lab], ClusterSnapshot]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Takes a snapshot of a lab, through its file."""

    def take(lab: Lab) -> ClusterSnapshot:
        path = tmp_path / "lab.snap"
        snapshot.write_snapshot(path, taking.of_lab(lab), force=True)
        return snapshot.read_snapshot(path)

    return take


def body_of(path: Path) -> bytes:
    """What the file of a snapshot holds, unpacked."""
    return zlib.decompress(path.read_bytes().partition(b"\n")[2])
