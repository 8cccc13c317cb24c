"""The search for the fewest GPUs that meet the targets of a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kailab.errors import InputError
from kailab.replay.trace import read_trace
from kailab.studies.capacity import (
    GIVEN,
    NEED,
    Capacity,
    CapacityQuestion,
    CapacitySearch,
    find_capacity,
    required_gpus,
    required_quotas,
    team_gains,
)
from kailab.studies.confidence import TargetVerdict
from kailab.studies.measures import result_of
from kailab.studies.planning import sizes_of
from kailab.studies.target import read_target

FLEET = """\
apiVersion: kailab.dev/v1
kind: Fleet
name: six
pools:
  - {name: a, count: 6, cpu: "64", memory: 512Gi, gpus: 8, gpuModel: A100}
"""


@pytest.fixture
def question(tmp_path: Path) -> Any:
    """``question(target, ..., jobs=[...])``: eight jobs of a node each come at once and run for 100 s; nodes there are six."""
    (tmp_path / "fleet.yaml").write_text(FLEET)

    def make(*targets: str, jobs: tuple[str, ...] = (), **fields: Any) -> CapacityQuestion:
        lines = jobs or tuple(f"job{number},0,100,8,red" for number in range(8))
        (tmp_path / "trace.csv").write_text("\n".join(("name,submit,seconds,gpus,team", *lines)) + "\n")
        options = {
            "trace": str(tmp_path / "trace.csv"),
            "fleet": str(tmp_path / "fleet.yaml"),
            **fields.pop("options", {}),
        }
        return CapacityQuestion(
            name="it", options=options, targets=tuple(map(read_target, targets)), **{"seeds": 0, **fields}
        )

    return make


def searched(asked: CapacityQuestion) -> Capacity:
    """Replayed within this process."""
    return CapacitySearch(
        asked, sizes_of(asked.options["fleet"]), lambda runs: {run.key: result_of(run) for run in runs}
    ).run()


def test_the_fewest_nodes_are_found(question: Any) -> None:
    # On four nodes they run in two waves, on three in three.
    asked = question("longest wait < 150s", options={"queues": "one"})
    done = searched(asked)
    assert done.found is not None
    assert done.found.nodes == {"A100": 4}
    assert done.found.gpus == {"A100": 32}
    assert done.below is not None
    assert done.below.nodes == {"A100": 3}
    assert done.given.total == 48
    assert done.check is None
    assert {tuple(one.nodes.items()): one.verdict for one in done.probes}[("A100", 3),] is TargetVerdict.no


def test_a_larger_fleet_is_tried_and_checked_with_fresh_seeds(question: Any) -> None:
    done = searched(question("longest wait < 1s", options={"queues": "one"}, seeds=2, most=2))
    assert done.found is not None
    assert done.check is not None
    assert done.found.total == 64
    assert [run.seed for run in done.found.runs] == [0, 1]
    assert [run.seed for run in done.check.runs] == [2, 3]
    assert done.check.verdict is TargetVerdict.yes
    (red,) = team_gains(done.given, done.found)
    assert (red.verdict, red.after.mean) == ("gains", 0)


def test_use_may_be_met_by_a_larger_fleet_than_the_smallest(question: Any) -> None:
    jobs = tuple(f"job{number},0,100,8,red" for number in range(5))
    asked = question("longest wait < 150s", "use > 90%", jobs=jobs, options={"queues": "one"}, step=1)
    done = searched(asked)
    # On three nodes five jobs run in two waves, at 83 % of use; on four too, at less; on five all at once.
    assert done.found is not None
    assert done.found.nodes == {"A100": 5}


def test_where_no_fleet_keeps_it_none_is_found(question: Any) -> None:
    jobs = ("huge,0,100,8,red", "long,0,5000,8,red")
    done = searched(question("longest wait < 50s", "use > 90%", jobs=jobs, options={"queues": "one"}))
    assert done.found is None


def test_quotas_by_need_get_there_with_fewer(question: Any) -> None:
    # Red asks for little GPU time, and for much of it at once.
    jobs = (
        *(f"b{number},{number},4000,8,blue" for number in range(6)),
        *(f"r{number},600,60,8,red" for number in range(3)),
    )
    asked = question("red longest wait < 3min", jobs=jobs, options={"queues": "by-share"})
    done = searched(asked)
    assert done.found is not None
    assert done.found.quotas == NEED
    shares = next(one for one in done.probes if one.quotas == GIVEN and one.nodes == done.found.nodes)
    assert shares.verdict is TargetVerdict.no


def test_what_can_not_be_asked_is_refused_before_anything_is_begun(question: Any, tmp_path: Path) -> None:
    for target, said in (
        ("use > 60%", "more GPUs do not help this target"),
        ("blue p99 wait < 1h", "no queue 'blue'"),
    ):
        with pytest.raises(InputError, match=said):
            find_capacity(question(target), tmp_path / "studies")
    assert not (tmp_path / "studies").exists()


def test_what_a_queue_needs_is_what_it_asks_for_at_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("name,submit,seconds,gpus,team\na,0,100,4,x\nb,50,100,2,x\nc,0,10,0.5,y\nd,1000,1,64,x\n")
    trace = read_trace(path)
    assert required_gpus(trace, {"x": "x", "y": "y"}) == {"x": 6, "y": 1}, (
        "64 for a second is less than a hundredth of the time"
    )
    assert required_quotas({"x": 6, "y": 1}, 5, ["y"]) == {"y": 1, "x": 4}
    assert required_quotas({"x": 6, "y": 1}, 50, ["x"]) == {"x": 6, "y": 1}
