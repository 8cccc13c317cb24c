"""Clocks that step. A scheduler counts by steady time and by what the server says, not by this machine's clock."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kailab.cluster.kubernetes import Connection, KubernetesCluster
from tests.faults import work
from tests.faults.conftest import Field
from tests.faults.proxy import Fault, Proxy

pytestmark = pytest.mark.slow
HOUR = 3600.0

# A program whose wall clock steps forward and back by hours, every other second.
STEPPING = """
import sys, time
real = time.time
time.time = lambda: real() + (7200.0 if int(time.monotonic()) % 4 < 2 else -7200.0)
from kailab.cli.main import main
sys.exit(main())
"""


@pytest.fixture
def proxy(field: Field) -> Proxy:
    return field.proxy()


@pytest.fixture
def cluster(proxy: Proxy) -> Iterator[KubernetesCluster]:
    made = KubernetesCluster(Connection.from_kubeconfig(proxy.kubeconfig))
    yield made
    made.close()


def test_a_step_of_this_machines_clock_moves_nothing(
    cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    for step in (HOUR, -HOUR):
        monkeypatch.setattr(time, "time", lambda step=step: real() + step)
        for _ in range(3):
            cluster.list("Node")
            assert abs(cluster.now() - real()) < 60


def test_the_servers_clock_is_followed(cluster: KubernetesCluster, proxy: Proxy) -> None:
    for step in (HOUR, -HOUR):
        proxy.faults = [Fault("lie", "lie", seconds=step)]
        time.sleep(1.1)  # it looks at most once a second
        cluster.list("Node")
        assert abs(cluster.now() - (time.time() + step)) < 60
    proxy.faults = []
    time.sleep(1.1)
    cluster.list("Node")
    assert abs(cluster.now() - time.time()) < 60


def test_a_scheduler_whose_clock_steps(field: Field) -> None:
    terms = ("--lease-duration", "4", "--renew-deadline", "2.5", "--retry-period", "0.5")
    field.scheduler(*terms, elected=True, program=("-c", STEPPING))
    filling = work.filling()
    field.create(*filling.objects)
    field.settled(filling.owed, filling.full)
    field.nobody_restarted()


def test_a_server_whose_clock_steps(field: Field) -> None:
    """Nothing that runs is taken for stale or stuck, nothing waits for hours."""
    proxy = field.proxy(Fault("lie", "lie", 0.1, seconds=HOUR), Fault("lie back", "lie", 0.1, seconds=-HOUR))
    field.scheduler(kubeconfig=proxy.kubeconfig)
    filling = work.filling()
    field.create(*filling.objects)
    field.settled(filling.owed, filling.full)
    field.nobody_restarted()
