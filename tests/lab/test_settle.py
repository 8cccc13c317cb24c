"""Settling comes to rest, or says who does not."""

from __future__ import annotations

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.errors import ApiError
from kailab.lab.lab import Lab
from kailab.lab.live_settling import LiveSettling
from kailab.lab.settle import EndlessMoves, NotSettled, VirtualSettling


class Acts:
    """A controller and scheduler that writes while its script says so."""

    wake_at = None

    def __init__(self, *script: bool, forever: bool = False) -> None:
        self.script = list(script)
        self.forever = forever
        self.steps = 0

    def step(self) -> bool:
        self.steps += 1
        return self.script.pop(0) if self.script else self.forever


def pace(cluster, controller, scheduler, **options):
    return VirtualSettling(cluster, [controller], scheduler, lambda: ["allocate binds default/x"], **options)


def test_a_second_passes_with_each_cycle_that_changed_something():
    cluster = EmbeddedCluster()
    begun = cluster.now()
    pace(cluster, Acts(True), Acts(True, True)).settle()
    assert cluster.now() - begun == 2


def test_prompt_timers_fall_due_and_others_do_not():
    cluster = EmbeddedCluster()
    begun, rung = cluster.now(), []
    cluster.call_at(begun + 30, lambda: rung.append("prompt"))
    cluster.call_at(begun + 60, lambda: rung.append("late"), prompt=False)
    pace(cluster, Acts(), Acts()).settle()
    assert rung == ["prompt"]
    assert cluster.now() - begun == 30


def test_a_restless_scheduler_is_named():
    with pytest.raises(NotSettled, match="allocate binds default/x"):
        pace(EmbeddedCluster(), Acts(), Acts(forever=True), max_cycles=20).settle()


def test_a_scheduler_that_is_restless_as_kai_is_says_why():
    restless = pace(
        EmbeddedCluster(), Acts(), Acts(forever=True), max_cycles=20, as_kai=lambda: "Pods are moved for ever."
    )
    with pytest.raises(EndlessMoves, match=r"allocate binds default/x(.|\n)*Pods are moved for ever\."):
        restless.settle()


def test_a_restless_controller_is_named():
    with pytest.raises(NotSettled, match="Acts"):
        pace(EmbeddedCluster(), Acts(forever=True), Acts()).settle()


def test_timers_that_set_themselves_again_are_no_rest():
    cluster = EmbeddedCluster()

    def again() -> None:
        cluster.call_at(cluster.now() + 1, again)

    again()
    with pytest.raises(NotSettled):
        pace(cluster, Acts(), Acts(), max_cycles=50).settle()


def test_moments_stop_at_each_timer_and_at_the_wake_up():
    cluster = EmbeddedCluster()
    begun = cluster.now()
    cluster.call_at(begun + 10, lambda: None, prompt=False)
    scheduler = Acts()
    scheduler.wake_at = begun + 25
    stops = [cluster.now() - begun for _ in pace(cluster, Acts(), scheduler).moments(40)]
    assert stops == [0, 10, 25, 40]


def test_an_hour_with_nothing_in_it_is_two_looks():
    cluster = EmbeddedCluster()
    scheduler = Acts()
    list(pace(cluster, Acts(), scheduler).moments(3600))
    assert scheduler.steps == 2


def test_time_that_a_timer_holds_is_an_error():
    cluster = EmbeddedCluster()

    class Setter(Acts):
        def step(self) -> bool:
            cluster.call_at(cluster.now(), lambda: None)
            return False

    with pytest.raises(NotSettled, match="time does not pass"):
        list(pace(cluster, Setter(), Acts()).moments(5))


class Wall:
    """A cluster with a clock of its own, which waiting moves; a pod changes with every look until ``changes_until``."""

    def __init__(self, changes_until: float, pod: dict | None = None, job: dict | None = None) -> None:
        self.time = 0.0
        self.changes_until = changes_until
        self.pod = pod or {"spec": {}, "status": {"phase": "Running"}}
        self.job = job
        self.events: list[dict] = []

    def now(self) -> float:
        return self.time

    def watch(self, kinds):
        return self

    def close(self) -> None:
        pass

    def poll(self):
        from kailab.cluster.protocol import WatchEvent

        pod = {**self.pod, "metadata": {"name": "p", "uid": "p", **self.pod.get("metadata", {})}}
        if self.time >= self.changes_until:
            return []
        jobs = [WatchEvent("MODIFIED", "Job", self.job)] if self.job else []
        return [WatchEvent("MODIFIED", "Pod", pod), *jobs]

    def wait(self, seconds: float) -> bool:
        self.time += seconds
        return False

    def list(self, kind):
        return self.events if kind == "Event" else []

    def pace(self, **limits) -> LiveSettling:
        return LiveSettling(self, [], Acts(), considers=lambda pod: False, monotonic=self.now, **limits)


def test_on_a_real_clock_quiet_is_no_change_for_a_while():
    wall = Wall(changes_until=20)
    wall.pace(quiet=8).settle()
    assert 27 <= wall.time <= 29


def test_on_a_real_clock_what_is_owed_is_waited_for():
    """A pod on its way out will go, though nothing moves; only when it does not for long is it no longer waited for."""
    leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}, "status": {"phase": "Running"}}
    wall = Wall(changes_until=1, pod=leaving)
    wall.pace(quiet=2, owed=30).settle()
    assert 30 <= wall.time <= 33


@pytest.mark.parametrize(
    ("status", "longest"),
    [({}, 123), ({"startTime": "2026-01-01T00:00:00Z"}, 123), ({"failed": 1}, 33), ({"succeeded": 1}, 33)],
)
def test_on_a_real_clock_a_job_without_pods_is_waited_for_longer(status, longest):
    """It may have to wait out the pauses that an earlier Job of its name has earned; not so where pods of its own have failed."""
    metadata = {"name": "work", "namespace": "default", "uid": "job"}
    job = {"metadata": metadata, "spec": {"parallelism": 2, "completions": 2}, "status": status}
    wall = Wall(changes_until=1, job=job)
    wall.pace(quiet=2, owed=30).settle()
    assert longest - 3 <= wall.time <= longest


def test_on_a_real_clock_a_job_whose_pods_are_refused_is_not_waited_for():
    job = {"metadata": {"name": "work", "namespace": "default", "uid": "job"}, "spec": {"parallelism": 2}, "status": {}}
    wall = Wall(changes_until=1, job=job)
    wall.events = [
        {"reason": "FailedCreate", "involvedObject": {"uid": "job"}, "lastTimestamp": "1970-01-01T00:00:01Z"},
        {"reason": "FailedCreate", "involvedObject": {"uid": "another"}, "lastTimestamp": "1970-01-01T00:00:01Z"},
    ]
    wall.pace(quiet=2, owed=30).settle()
    assert wall.time <= 8


class Admitting(Wall):
    """Pods stand still, and a scheduler writes objects of its own until ``until``. It is at rest a second later."""

    WRITES = "Workload.kueue.x-k8s.io"

    def __init__(self, until: float) -> None:
        super().__init__(changes_until=1)
        self.until = until
        self.kinds: tuple[str, ...] = ()

    def watch(self, kinds):
        self.kinds = tuple(kinds)
        return self

    def poll(self):
        from kailab.cluster.protocol import WatchEvent

        written = {"metadata": {"name": "w", "uid": "w"}}
        of_its_own = [WatchEvent("MODIFIED", self.WRITES, written)] if self.time < self.until else []
        return [*super().poll(), *(event for event in of_its_own if event.kind in self.kinds)]

    def changed(self) -> None:
        pass

    def is_idle(self) -> bool:
        return self.time >= self.until + 1


def test_on_a_real_clock_what_a_scheduler_writes_of_its_own_is_news():
    """Kueue makes a Workload for each of a hundred pods before it lets one go: for longer than what is owed is waited for, no pod changes."""
    wall = Admitting(until=100)
    wall.pace(quiet=2, owed=30, rest=wall, writes=(Admitting.WRITES,)).settle()
    assert 100 <= wall.time <= 105
    unseen = Admitting(until=100)
    unseen.pace(quiet=2, owed=30, rest=unseen).settle()
    assert unseen.time <= 33


def test_on_a_real_clock_never_quiet_is_an_error_that_names_it():
    wall = Wall(changes_until=10_000)
    with pytest.raises(NotSettled, match="Pod p"):
        wall.pace(deadline=60).settle()
    assert wall.time < 70


def test_on_a_real_clock_moments_end_on_time():
    wall = Wall(changes_until=3)
    moments = sum(1 for _ in wall.pace().moments(10))
    assert 10 <= wall.time <= 10.5
    assert moments > 5


class Refusing:
    """A cluster's ``bind`` that refuses each pod of a prefix so many times."""

    def __init__(self, lab, prefix: str, times: float) -> None:
        self.real, self.prefix, self.times = lab.cluster.bind, prefix, times
        self.tries: dict[str, int] = {}

    def __call__(self, namespace, pod, node, *rest):
        if pod.startswith(self.prefix):
            self.tries[pod] = self.tries.get(pod, 0) + 1
            if self.tries[pod] <= self.times:
                raise ApiError("no")
        self.real(namespace, pod, node, *rest)


def eight(lab, queue, job, monkeypatch, times):
    refusing = Refusing(lab, "work", times)
    monkeypatch.setattr(lab.cluster, "bind", refusing)
    lab.apply([queue("org", -1), queue("team", 8, parent="org"), job("work", "team", 8)])
    return refusing


def test_pods_that_could_not_be_bound_at_first_run_once_settled(queue, job, monkeypatch):
    with Lab.open() as lab:
        eight(lab, queue, job, monkeypatch, 2)
        lab.settle()
        assert [pod["status"]["phase"] for pod in lab.get("pods")] == ["Running"] * 8


def test_what_is_refused_for_good_does_not_keep_a_lab_from_settling_and_is_tried_in_each(queue, job, monkeypatch):
    with Lab.open() as lab:
        refusing = eight(lab, queue, job, monkeypatch, float("inf"))
        lab.settle()
        before = dict(refusing.tries)
        assert set(before.values()) == {3}
        lab.settle()
        refusing.times = 0
        lab.settle()
        assert [pod["status"]["phase"] for pod in lab.get("pods")] == ["Running"] * 8


def test_before_the_end_nobody_acts_there_but_what_falls_due():
    cluster = EmbeddedCluster()
    due: list[float] = []
    cluster.call_at(cluster.now() + 60, lambda: due.append(cluster.now()), prompt=False)
    scheduler = Acts()
    one = pace(cluster, Acts(), scheduler)
    end = cluster.now() + 60
    list(one.moments(60, before=True))
    assert (scheduler.steps, due, cluster.now()) == (1, [end], end)
    list(one.moments(0, before=True))
    assert scheduler.steps == 1
    list(one.moments(0))
    assert scheduler.steps == 2
