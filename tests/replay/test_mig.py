"""Jobs of a trace that ask for MIG instances."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet, Pool
from kailab.lab import Lab
from kailab.model.prices import GpuPrice, Prices
from kailab.replay import tables
from kailab.replay.clusters.cluster_file import read_sites
from kailab.replay.manifests import job_object, pods_of
from kailab.replay.summary import summarise
from kailab.replay.trace import read_trace
from kailab.replay.trace_recorder import COLUMNS, TraceRecorder
from tests.replay.clusters_file import clusters_file
from tests.replay.conftest import QUEUE

HEADER = "name,submit,seconds,gpus,mig,pods"
SPLIT = Pool(
    name="m", count=1, cpu="64", memory="512Gi", gpus=2, gpu_model="A100", gpu_memory_mib=81_920,
    mig_strategy="mixed", mig={"1g.10gb": 4, "3g.40gb": 2},
)  # fmt: skip
WHOLE_NODE = Pool(name="w", count=1, cpu="64", memory="512Gi", gpus=4, gpu_model="A100", gpu_memory_mib=81_920)
FLEET = Fleet(name="split", pools=(SPLIT, WHOLE_NODE))


def times(replayed):
    return {row[0]: (row[8], row[9]) for row in tables.job_rows(replayed)}


def test_jobs_wait_for_instances_of_their_profile(trace_file, replayed) -> None:
    path = trace_file("a,0,100,3,1g.10gb,", "b,1,100,2,1g.10gb,", "c,2,100,1,3g.40gb,", "d,3,100,4,,", header=HEADER)
    done = replayed(path, "one", fleet=FLEET)
    # Three of four small instances are taken, so that b waits for its two; the others have room.
    assert times(done) == {"a": (0, 100), "b": (100, 200), "c": (2, 102), "d": (3, 103)}
    found = summarise(done)
    # As in KAI's queues: 4 x 1 and 2 x 3 GPUs for the instances, and 4 whole ones.
    assert found.gpus == 14
    assert done.balance.submitted == done.balance.done == 100 * (3 + 2 + 3 + 4) * 1000
    assert not done.faults


def test_a_profile_that_no_node_has_waits_with_its_reason(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,100,1,7g.80gb,", header=HEADER), "one", fleet=FLEET)
    (unstarted,) = done.unbegun
    assert (unstarted.reason, unstarted.example) == ("PodSchedulingErrors", "a")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a,0,9,1,7,", "mig is '7'; expected a MIG profile such as 1g.10gb"),
        ("a,0,9,0.5,1g.10gb,", "gpus is 0.5 and mig is 1g.10gb; expected the number of instances"),
        ("a,0,9,3,1g.10gb,2", "gpus is 3 and pods is 2; expected as many GPUs in each pod"),
    ],
)
def test_a_line_that_is_no_request_is_told(trace_file, line, said) -> None:
    with pytest.raises(InputError, match="cannot be read") as caught:
        read_trace(trace_file(line, header=HEADER))
    assert said in str(caught.value)


def test_what_does_not_count_instances_is_refused(trace_file, replayed, tmp_path: Path) -> None:
    path = trace_file("a,0,9,1,1g.10gb,", header=HEADER)
    with pytest.raises(InputError, match="expected no prices"):
        replayed(path, "one", fleet=FLEET, prices=Prices(currency="USD", gpus={"A100": GpuPrice(per_hour=1.0)}))
    file = clusters_file(tmp_path, {"name": "west", "nodes": 1})
    with pytest.raises(InputError, match="expected --fleet"):
        read_sites(file, read_trace(path))


def test_a_recorded_job_is_read_back(trace_file, replayed, tmp_path: Path) -> None:
    path = trace_file("a,0,100,2,1g.10gb,", header=HEADER)
    recorder = TraceRecorder()
    (given,) = read_trace(path).jobs
    with Lab.open(FLEET) as lab:
        lab.apply(QUEUE.format(name="q", quota=-1))
        lab.settle()
        lab.cluster.create(job_object("a", given, "q", pods_of(given, 4), endless=False))
        lab.settle()
        recorder.observe(lab.cluster.list("Pod"), lab.now)
        lab.advance(200)
        recorder.observe(lab.cluster.list("Pod"), lab.now)
    target = tmp_path / "recorded.csv"
    tables.write_table_file(target, COLUMNS, recorder.recorded().rows)
    (read,) = read_trace(target).jobs
    assert (read.mig, read.gpus, read.pods, read.seconds, read.milli) == ("1g.10gb", 2, 2, 100, given.milli)
