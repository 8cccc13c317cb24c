"""The loop over an embedded cluster: it recovers from errors, sleeps without work, and reports to observers."""

from __future__ import annotations

import logging
from itertools import pairwise

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kailab.engine.config import EngineConfig
from kailab.errors import Forbidden, StateError, Unavailable
from kailab.evidence.decision_file import DecisionFile, read_decisions
from kailab.scheduler.service.election import NoElection
from kailab.scheduler.service.health import HealthServer, LoopHealth
from kailab.scheduler.service.metrics import SchedulerMetrics, UnsuffixedCounter
from kailab.scheduler.service.service_loop import SchedulerService, ServiceSettings


@pytest.fixture
def service(world):
    """A single service that leads."""
    return SchedulerService(
        world.cluster, ServiceSettings(), NoElection(), clock=world.cluster.now, rest=world.cluster.advance
    )


def turns(service, world, seconds) -> float:
    """Take turns for some time. Returns the result of the last one."""
    end = world.cluster.now() + seconds
    while world.cluster.now() < end:
        pause = service.turn()
        world.cluster.advance(0.1)
    return pause


def metric(service, name, **labels):
    for family in text_string_to_metric_families(service.metrics.text().decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


def test_it_sleeps_until_a_time_that_matters(service, world, build) -> None:
    assert turns(service, world, 3) > 0
    cycles = service.scheduler.cycles
    turns(service, world, 30)
    assert service.scheduler.cycles == cycles  # nothing has changed, so nothing is decided anew
    gang = build.pod("late", 1, annotations={"kai.scheduler/preemption-delay": "30s"})
    for number in range(8):
        world.cluster.create(build.pod(f"p{number}", 1))
    turns(service, world, 2)
    world.cluster.create(gang)
    turns(service, world, 2)
    wake_at = service.scheduler.wake_at
    pause = service.turn()
    assert wake_at is not None
    assert pause == pytest.approx(wake_at - world.cluster.now())


def test_an_error_of_the_server_is_waited_out_with_growing_pauses(service, world, build, monkeypatch, caplog) -> None:
    turns(service, world, 1)
    watch = world.cluster.watch
    moments = []

    def refuse(kinds=None):
        moments.append(world.cluster.now())
        raise Forbidden("pods is forbidden: no rights today")

    monkeypatch.setattr(world.cluster, "watch", refuse)
    service._end_term()
    with caplog.at_level(logging.WARNING, "kailab.scheduler"):
        turns(service, world, 60)
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    assert pauses[3] > pauses[0]
    assert len(moments) < 15
    assert service.health.ready() == (False, "pods is forbidden: no rights today")
    assert service.health.live()[0]
    assert metric(service, "kailab_turn_failures_total", error="Forbidden") == len(moments)
    monkeypatch.setattr(world.cluster, "watch", watch)
    world.cluster.create(build.pod("p"))
    turns(service, world, 60)
    assert world.node_of("p") == "n1"
    assert service.health.ready() == (True, "ok: leading")


def test_a_defect_is_logged_and_the_state_made_anew(service, world, build, monkeypatch, caplog) -> None:
    turns(service, world, 1)
    before = service.scheduler

    def broken():
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(before, "step", broken)
    with caplog.at_level(logging.ERROR, "kailab.scheduler"):
        turns(service, world, 1)
    assert "ZeroDivisionError" in caplog.text
    world.cluster.create(build.pod("p"))
    turns(service, world, 3)
    assert service.scheduler is not before
    assert world.node_of("p") == "n1"


def test_a_server_that_does_not_answer_is_not_hammered(service, world, build, monkeypatch) -> None:
    turns(service, world, 1)
    tries = []

    def gone(*what, **more):
        tries.append(world.cluster.now())
        raise Unavailable("no answer")

    bind = world.cluster.bind
    monkeypatch.setattr(world.cluster, "bind", gone)
    world.cluster.create(build.pod("p"))
    turns(service, world, 60)
    assert 2 < len(tries) < 30
    monkeypatch.setattr(world.cluster, "bind", bind)
    turns(service, world, 60)
    assert world.node_of("p") == "n1"


def deciding_into(path, world) -> SchedulerService:
    return SchedulerService(
        world.cluster,
        ServiceSettings(),
        NoElection(),
        clock=world.cluster.now,
        rest=world.cluster.advance,
        observers=lambda cluster: [DecisionFile(path, cluster.now(), cluster.now)],
    )


def test_observers_that_fail_do_not_hold_up_the_scheduler(world, build, tmp_path, caplog) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    service = deciding_into(blocked / "decisions.json", world)
    world.cluster.create(build.pod("p"))
    with caplog.at_level(logging.WARNING, "kailab.scheduler"):
        turns(service, world, 5)
    assert world.node_of("p") == "n1"
    assert caplog.text.count("the decisions can't be written") == 1


# --- decisions in a file -----------------------------------------------------------------------------------------------


@pytest.fixture
def told(world, tmp_path):
    """A service that writes its decisions to a file, and the file."""
    path = tmp_path / "sub" / "decisions.json"
    return deciding_into(path, world), path


def test_decisions_are_kept_as_a_saved_lab_keeps_them(told, world, build) -> None:
    service, path = told
    for number in range(9):
        world.cluster.create(build.pod(f"p{number}", 1))
    turns(service, world, 3)
    assert len(read_decisions(path).last.pending) == 1
    urgent = build.pod("urgent", 8)
    urgent["metadata"]["labels"]["priorityClassName"] = "build"
    world.cluster.create(urgent)
    turns(service, world, 5)
    service.close()
    kept = read_decisions(path)
    assert kept.cycle == service_cycles(kept)
    assert {entry.action for entry in kept.evictions} == {"preempt"}
    assert len(kept.evictions) == 8
    assert all(entry.beneficiary.startswith("default/") for entry in kept.evictions)
    assert len(kept.last.pending) == 1
    raw = msgspec.json.decode(path.read_bytes())
    assert {"cycle", "evictions", "last"} <= raw.keys()


def service_cycles(kept):
    """The last entry is of the last cycle or of an earlier one."""
    assert all(entry.cycle <= kept.cycle for entry in kept.evictions)
    return kept.cycle


def test_the_file_is_written_at_most_once_a_second(told, world, build, monkeypatch) -> None:
    service, _ = told
    written = []
    original = DecisionFile._write

    def write(self):
        written.append(world.cluster.now())
        original(self)

    monkeypatch.setattr(DecisionFile, "_write", write)
    turns(service, world, 1)
    for number in range(30):
        world.cluster.create(build.pod(f"p{number}", 0))
        turns(service, world, 0.2)
    turns(service, world, 2)
    assert len(written) > 3
    assert all(later - earlier >= 1 - 1e-6 for earlier, later in pairwise(written))
    quiet = len(written)
    turns(service, world, 30)
    assert len(written) == quiet


def test_a_decision_file_that_is_not_one_is_told(tmp_path) -> None:
    with pytest.raises(StateError, match="--decisions"):
        read_decisions(tmp_path / "nosuch")
    broken = tmp_path / "broken"
    broken.write_text('{"cycle": "many"}')
    with pytest.raises(StateError, match="can't be read"):
        read_decisions(broken)


def test_a_damaged_file_does_not_keep_a_scheduler_from_starting(world, build, tmp_path) -> None:
    path = tmp_path / "decisions.json"
    path.write_text("{")
    file = DecisionFile(path, 0.0, world.cluster.now)
    assert file._kept.cycle == 0


# --- metrics and health ------------------------------------------------------------------------------------------------


def test_past_usage_is_told_only_where_it_counts(world, build) -> None:
    labels = {"queue_name": "team", "queue_metadata_name": "team", "queue_display_name": ""}
    world.cluster.create(build.pod("p", 4))
    for k_value in (0.0, 1.0):
        settings = ServiceSettings(config=EngineConfig(k_value=k_value))
        service = SchedulerService(
            world.cluster, settings, NoElection(), clock=world.cluster.now, rest=world.cluster.advance
        )
        turns(service, world, 130)
        used = metric(service, "kai_queue_gpu_usage", **labels)
        assert (used is not None and used > 0) if k_value else used is None
        service.close()


def test_a_display_name_is_told_as_kai_tells_it(world, build, service) -> None:
    world.cluster.create(build.queue("research", displayName="Research Team"))
    turns(service, world, 2)
    shown = {"queue_metadata_name": "research", "queue_display_name": "Research Team"}
    assert metric(service, "kai_queue_fair_share_gpu", queue_name="Research Team", **shown) == 0
    assert metric(service, "kai_queue_info", queue_name="research", **shown) == 1
    world.cluster.delete("Queue", "research")
    turns(service, world, 2)
    assert metric(service, "kai_queue_info", queue_name="research", **shown) is None


def test_evictions_are_counted_by_group_and_forgotten_with_it(world, build, service) -> None:
    spec = {"queue": "team", "minMember": 8, "priorityClassName": "train"}
    world.cluster.create(
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "gang", "namespace": "default"},
            "spec": spec,
        }
    )
    for number in range(8):
        world.cluster.create(build.pod(f"p{number}", 1, annotations={"pod-group-name": "gang"}))
    turns(service, world, 2)
    urgent = build.pod("urgent", 1)
    urgent["metadata"]["labels"]["priorityClassName"] = "build"
    world.cluster.create(urgent)

    def series():
        text = service.metrics.text().decode()
        return [line for line in text.splitlines() if line.startswith("kai_pod_group_evicted_pods_total{")]

    turns(service, world, 3)
    (counted,) = series()
    uid = world.cluster.get("PodGroup", "gang", "default")["metadata"]["uid"]
    for label in ('action="preempt"', 'nodepool="default"', 'podgroup="gang"', 'namespace="default"', f'uid="{uid}"'):
        assert label in counted
    assert counted.endswith(" 8.0")
    assert "kai_total_preemption_attempts 1\n" in service.metrics.text().decode()
    world.cluster.delete("PodGroup", "gang", "default")
    world.cluster.create(build.pod("more", 0))
    turns(service, world, 2)
    assert series() == []


def test_counters_without_total_are_written_as_prometheus_reads_them() -> None:
    counter = UnsuffixedCounter("kai_things", "Things", "action")
    counter.add("reclaim")
    counter.add("reclaim", 2)
    assert counter.text() == '# HELP kai_things Things\n# TYPE kai_things counter\nkai_things{action="reclaim"} 3\n'
    assert UnsuffixedCounter("kai_none", "None").text().endswith("kai_none 0\n")


def test_a_loop_that_hangs_is_not_alive(world) -> None:
    moment = [0.0]
    standing = LoopHealth(lambda: moment[0])
    standing.turned()
    assert standing.live() == (True, "ok")
    moment[0] = 301.0
    assert standing.live() == (False, "the loop has not turned for 301 s")
    assert not standing.ready()[0]


def test_health_is_served_until_it_is_closed() -> None:
    import http.client
    import urllib.error
    import urllib.request

    standing = LoopHealth()
    server = HealthServer("127.0.0.1", 0, standing, SchedulerMetrics().text)
    with urllib.request.urlopen(f"{server.url}/livez") as response:
        assert response.read() == b"ok\n"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.url}/readyz")
    assert refused.value.code == 503
    assert b"not connected" in refused.value.read()
    server.close()
    # Another process may have the port by now: it refuses in words of its own.
    with pytest.raises((OSError, http.client.HTTPException)):
        urllib.request.urlopen(f"{server.url}/livez", timeout=5)
