"""A cycle's record has everything that its decisions depend on: records, configuration, time."""

import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import decide
from kailab.engine.snapshot import jsonform
from kailab.engine.snapshot.changes import Changes
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.scheduler.loop import Scheduler
from kailab.scheduler.observers import Observer


class Keeper(Observer):
    def __init__(self):
        self.records = []

    def on_cycle(self, record):
        self.records.append(record)


def watched(lab, **config):
    """A new scheduler of the lab, and the list of its cycles' records."""
    keeper = Keeper()
    lab.scheduler.close()
    lab.scheduler = Scheduler(lab.cluster, EngineConfig(**config), keeper)
    lab.scheduler.follow_records()
    return keeper.records


def decided_again(records):
    """The decisions computed from recorded cycles (through JSON), and the original ones."""
    snapshot, pairs = Snapshot(), []
    for record in records:
        snapshot = Changes.from_json(record.changes.as_json()).applied_to(snapshot)
        config = jsonform.decode(jsonform.encode(record.config), EngineConfig)
        pairs.append((jsonform.encode(decide(snapshot, config, record.now)), jsonform.encode(record.decisions)))
    return pairs


@pytest.mark.parametrize("config", [{}, {"k_value": 1.0}], ids=["plain", "time-based fairness"])
def test_every_cycle_of_a_run_can_be_decided_again(build, lab, config):
    records = watched(lab, **config)
    lab.apply(build.queue("a", gpu=build.share(quota=8)), build.queue("b", gpu=build.share(quota=8)))
    lab.apply(*(build.pod(f"greedy-{number}", 4, "a") for number in range(5)))
    lab.settle()
    lab.cluster.advance(3600)
    lab.settle()
    lab.apply(*(build.pod(f"owed-{number}", 4, "b") for number in range(2)))
    lab.settle()
    lab.cluster.delete("Pod", "greedy-0", "default")
    lab.settle()
    assert sum(len(record.decisions.evictions) for record in records) > 0
    assert sum(len(record.decisions.binds) for record in records) >= 6
    assert records[0].changes.whole
    assert not any(record.changes.whole for record in records[1:])
    if config:
        assert any(record.config.usage for record in records)
    for again, taken in decided_again(records):
        assert again == taken


def test_a_later_cycle_keeps_only_what_changed(build, lab):
    records = watched(lab)
    lab.apply(build.queue("a"), *(build.pod(f"p-{number}", 1, "a") for number in range(6)))
    lab.settle()
    lab.apply(build.pod("late", 1, "a"))
    lab.settle()
    first_with_late = next(record for record in records if "default/late" in record.tasks.values())
    assert [task.name for task in first_with_late.changes.set.tasks] == ["late"]
    assert first_with_late.changes.set.nodes == ()
    assert all(record.changes is None for record in lab.scheduler.history)
