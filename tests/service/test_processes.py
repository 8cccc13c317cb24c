"""The scheduler as a process on a real control plane: lifecycle, health, faults."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from kailab.cluster.writes import CreateWrite
from kailab.errors import Unavailable
from kailab.evidence.decision_file import read_decisions
from kailab.model.times import parse_time

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def lease(live):
    return live.get("Lease", "kailab-scheduler", "kai-scheduler")["spec"]


def test_it_schedules_and_tells_how_it_does(live, start, build, tmp_path) -> None:
    one = start("one", "--decisions", str(tmp_path / "decisions.json"))
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))
    assert one.ask("/livez") == (200, "ok\n")
    assert one.ask("/healthz") == (200, "ok\n")
    assert one.ask("/nowhere")[0] == 404
    for name in ("a", "b", "c"):
        live.create(build.live_pod(name, 8))
    live.create(build.live_pod("d", 64))
    build.eventually(lambda: build.bound(live, "a", "b", "c"))
    team = {"queue_name": "team", "queue_metadata_name": "team", "queue_display_name": ""}
    build.eventually(lambda: one.metric("kai_queue_allocated_gpus", **team) == 24)
    found = one.metrics()
    assert one.metric("kai_queue_info", **team) == 1
    assert one.metric("kai_queue_deserved_gpus", **team) == -1
    assert one.metric("kai_queue_fair_share_gpu", **team) == 32
    assert one.metric("kailab_writes_total", verb="bind", outcome="ok") == 3
    assert one.metric("kai_task_scheduling_latency_milliseconds_count") == 3
    # KAI's name has no _total, which parsers of the text would add.
    assert 'kai_podgroups_scheduled_by_action{action="allocate"} 3\n' in one.ask("/metrics")[1]
    assert one.metric("kailab_snapshot_objects", kind="node") == 5
    assert (
        one.metric("kailab_pending_podgroups", reason="OverLimit")
        + one.metric("kailab_pending_podgroups", reason="PodSchedulingErrors")
        == 1
    )
    assert one.metric("leader_election_master_status", name="kailab-scheduler") == 1
    assert one.metric("process_resident_memory_bytes") > 1e6
    assert ("kai_e2e_scheduling_latency_milliseconds", ()) in found
    for action in ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"):
        assert ("kai_action_scheduling_latency_milliseconds", (("action", action),)) in found
    assert not [key for key in found if key[0] == "kailab_turn_failures_total"]
    build.eventually((tmp_path / "decisions.json").exists)
    build.eventually(lambda: len(read_decisions(tmp_path / "decisions.json").last.pending) == 1)


def test_asked_to_end_it_gives_the_lease_back(live, start, build, tmp_path) -> None:
    path = tmp_path / "decisions.json"
    one = start("one", "--decisions", str(path))
    live.create(build.live_pod("a"))
    build.eventually(lambda: build.bound(live, "a"))
    assert lease(live)["holderIdentity"] == one.name
    assert one.end() == 0
    assert lease(live)["holderIdentity"] == ""
    assert "Traceback" not in one.log()
    kept = read_decisions(path)
    assert kept.cycle > 0
    assert kept.last is not None
    # The next one carries on where this one was.
    two = start("two", "--decisions", str(path))
    build.eventually(lambda: two.is_ready(f"leading as {two.name}"))
    build.eventually(lambda: read_decisions(path).cycle > kept.cycle)


def test_when_the_leader_is_killed_the_standby_takes_over(live, start, build) -> None:
    one = start("one", *build.SHORT)
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))
    two = start("two", *build.SHORT)
    build.eventually(lambda: two.is_ready(f"standing by; {one.name} leads"))
    assert two.metric("leader_election_master_status", name="kailab-scheduler") == 0
    one.end(signal.SIGKILL)
    last = lease(live)
    live.create(build.live_pod("a"))
    build.eventually(lambda: build.bound(live, "a"))
    build.eventually(lambda: two.is_ready(f"leading as {two.name}"))
    now = lease(live)
    assert now["leaseTransitions"] == last["leaseTransitions"] + 1
    # Not before the lease of the dead one had run out.
    assert parse_time(now["acquireTime"]) >= parse_time(last["renewTime"]) + build.LEASE_SECONDS


def test_a_leader_that_was_frozen_finds_itself_a_standby(live, start, build) -> None:
    one = start("one", *build.SHORT)
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))
    two = start("two", *build.SHORT)
    build.eventually(lambda: two.is_ready(f"standing by; {one.name} leads"))

    def written(after=0.0):
        time.sleep(after)
        return {key: count for key, count in one.metrics().items() if key[0] == "kailab_writes_total"}

    build.eventually(lambda: written() == written(after=2.0))  # nothing is under way any more
    before = written()
    one.plane.kill(one.name, signal.SIGSTOP)
    live.create(build.live_pod("a"))
    build.eventually(lambda: build.bound(live, "a"))
    live.create(build.live_pod("b"))
    one.plane.kill(one.name, signal.SIGCONT)
    build.eventually(lambda: one.is_ready(f"standing by; {two.name} leads"))
    build.eventually(lambda: build.bound(live, "b"))
    assert {key: count for key, count in written().items() if ("outcome", "ok") in key[1]} == {
        key: count for key, count in before.items() if ("outcome", "ok") in key[1]
    }
    # And it can lead again.
    assert two.end() == 0
    live.create(build.live_pod("c"))
    build.eventually(lambda: build.bound(live, "c"))
    assert one.metric("kailab_leader_terms_total") == 2


@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
def test_it_outlives_a_restart_of_the_control_plane(live, plane, start, build, component) -> None:
    one = start("one")
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))
    pid = one.process.pid
    plane.restart(component)
    build.eventually(lambda: live.get("Namespace", "default"))
    live.create(build.live_pod("a"))
    build.eventually(lambda: build.bound(live, "a"))
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))
    assert one.process.pid == pid
    assert "Traceback" not in one.log()


def test_it_waits_for_a_server_that_is_not_up_yet(live, plane, start, build) -> None:
    plane.stop("kube-apiserver")
    try:
        one = start("one")
        build.eventually(lambda: "trying again" in one.log())
        code, told = one.ask("/readyz")
        assert code == 503
        assert "no Kubernetes API answers there" in told
        assert one.ask("/livez")[0] == 200
        # One that is asked to end in the meantime does.
        two = start("two")
        build.eventually(lambda: "trying again" in two.log())
        assert two.end() == 0
    finally:
        plane.restart("kube-apiserver")
        for name in ("kube-controller-manager", "kwok"):  # as they do, these may have ended for want of a server
            plane.restart(name)
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))


def test_without_an_election_it_acts_at_once_and_makes_no_lease(live, start, build) -> None:
    def leases():
        return {lease["metadata"]["name"]: lease["spec"] for lease in live.list("Lease", "kai-scheduler")}

    before = leases()
    one = start("one", "--no-leader-elect")
    build.eventually(lambda: "leading" in one.ask("/readyz")[1])
    live.create(build.live_pod("a"))
    build.eventually(lambda: build.bound(live, "a"))
    assert one.end() == 0
    assert leases() == before


def test_a_batch_is_not_sent_to_its_end_by_who_may_write_no_more(live, build) -> None:
    asked = []

    def sixty_times() -> bool:
        asked.append(None)
        return len(asked) <= 60

    live.transport.may_write = sixty_times
    try:
        outcomes = live.write_all([[CreateWrite(build.live_pod(f"p{number}"))] for number in range(40)])
    finally:
        live.transport.may_write = None
    made = sum(outcome.error is None for outcome in outcomes)
    # Each is asked about twice, before it is begun and when its bytes go out; all 40 may have been begun by then.
    assert 20 <= made <= 30
    assert all(isinstance(outcome.error, Unavailable) for outcome in outcomes if outcome.error is not None)
    build.eventually(lambda: len(live.list("Pod", "default")) == made)


def test_writes_one_after_the_other_end_with_the_right_to_write(live, build) -> None:
    answers = iter([True] * 20)
    live.transport.may_write = lambda: next(answers, False)
    try:
        (outcome,) = live.write_all([[CreateWrite(build.live_pod(f"p{number}")) for number in range(40)]])
    finally:
        live.transport.may_write = None
    assert isinstance(outcome.error, Unavailable)
    build.eventually(lambda: len(live.list("Pod", "default")) == 10)


def test_who_may_write_no_more_when_the_bytes_would_go_out_sends_none(live, build) -> None:
    """A process may be stopped between the check of its lease and the request, for longer than the lease lasts."""
    answers = iter([True, False])
    live.transport.may_write = lambda: next(answers)
    try:
        outcomes = live.write_all([[CreateWrite(build.live_pod("late"))]])
    finally:
        live.transport.may_write = None
    error = outcomes[0].error
    assert isinstance(error, Unavailable)
    assert "not sent, POST /api/v1/namespaces/default/pods" in str(error)
    assert not error.unanswered
    # Whatever was sent before is answered by now, on the one connection or on another.
    live.create(build.live_pod("next"))
    build.eventually(lambda: [pod["metadata"]["name"] for pod in live.list("Pod", "default")] == ["next"])


def run(*options: str, **env: str):
    command = [sys.executable, "-m", "kailab.cli.main", "scheduler", "run", *options]
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | env
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_port_that_is_taken_is_told(plane) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = run("--kubeconfig", str(plane.kubeconfig), "--port", str(port))
    assert found.returncode == 2
    assert f"--port {port}" in found.stderr
    assert "another process listens there" in found.stderr
    assert "Traceback" not in found.stderr


def test_without_a_cluster_it_says_what_to_give(tmp_path) -> None:
    found = run()
    assert found.returncode == 2
    assert "give --kubeconfig FILE" in found.stderr
    found = run("--kubeconfig", str(tmp_path / "nosuch"))
    assert found.returncode == 2
    assert "there is no such kubeconfig" in found.stderr


def test_credentials_that_are_not_accepted_are_no_reason_to_try_again(plane, tmp_path) -> None:
    import yaml

    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "not-a-token"}
    other = tmp_path / "kubeconfig"
    other.write_text(yaml.safe_dump(config))
    found = run("--kubeconfig", str(other))
    assert found.returncode == 2
    assert "does not accept the credentials" in found.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--lease-duration", "10", "--renew-deadline", "10"), "must be longer than the renew deadline"),
        (("--scheduler-config", "/nosuch.yaml"), "/nosuch.yaml"),
        (("--bind-address", "256.1.1.1"), "can't listen"),
        (("--context", "nosuch"), "there is no context 'nosuch'"),
    ],
)
def test_bad_options_are_told(plane, options, told) -> None:
    found = run("--kubeconfig", str(plane.kubeconfig), *options)
    assert found.returncode == 2
    assert told in found.stderr
    assert "Traceback" not in found.stderr
