"""Small traces, queues and fleets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kailab.fleet.fleet import Fleet, Pool
from kailab.replay.plan import ReplayPlan
from kailab.replay.queues import by_share, from_file, one_queue, without_quota
from kailab.replay.run import CompletedReplay, replay
from kailab.replay.trace import Trace, read_trace

QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}}}
spec:
  resources:
    gpu: {{quota: {quota}, limit: -1, overQuotaWeight: 1}}
    cpu: {{quota: -1, limit: -1, overQuotaWeight: 1}}
    memory: {{quota: -1, limit: -1, overQuotaWeight: 1}}
"""

Write = Callable[..., Path]


@pytest.fixture
def trace_file(tmp_path: Path) -> Write:
    """``trace_file("early,0,60,1", ...)``: a plain trace of these lines."""

    def write(*lines: str, header: str = "name,submit,seconds,gpus", name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_text("\n".join((header, *lines)) + "\n")
        return path

    return write


@pytest.fixture
def queue_file(tmp_path: Path) -> Callable[[Mapping[str, int]], Path]:
    def write(quotas: Mapping[str, int]) -> Path:
        path = tmp_path / "queues.yaml"
        path.write_text("---\n".join(QUEUE.format(name=name, quota=quota) for name, quota in quotas.items()))
        return path

    return write


@pytest.fixture
def two_nodes() -> Fleet:
    """8 GPUs on two nodes."""
    pool = Pool(name="a", count=2, cpu="64", memory="512Gi", gpus=4, gpu_model="A100", gpu_memory_mib=81_920)
    return Fleet(name="two", pools=(pool,))


@pytest.fixture
def replayed(two_nodes: Fleet) -> Callable[..., CompletedReplay]:
    """``replayed(path, queues=..., **fields of Plan)``: the trace in that file, replayed on two nodes. ``queues``: a file, "share" or "one"."""

    def run(path: Path, queues: Path | str = "", **fields: Any) -> CompletedReplay:
        trace = fields.pop("trace", None) or read_trace(path)
        fleet = fields.pop("fleet", two_nodes)
        return replay(ReplayPlan(trace=trace, fleet=fleet, queues=_queues(trace, queues, fleet), **fields))

    return run


def _queues(trace: Trace, queues: Path | str, fleet: Fleet) -> Any:
    if isinstance(queues, Path):
        return from_file(trace, queues)
    if queues == "share":
        return by_share(trace, fleet.summary().gpus)
    return one_queue(trace) if queues == "one" else without_quota(trace)
