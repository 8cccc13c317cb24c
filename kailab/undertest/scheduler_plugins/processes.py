"""Run scheduler-plugins beside a control plane, and detect when it is idle.

It is idle when its metrics show no pod to try now or soon and no pod being bound, and when no rejected gang waits for its next try.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.protocol import Cluster
from kailab.model.objects import Object, labels_of
from kailab.model.private_files import write_text
from kailab.undertest import programs
from kailab.undertest.contract import IdleDetector, Plane, StartSettings, Tell
from kailab.undertest.programs import (
    AddonProcesses,
    Program,
    check_programs,
    fetch_url,
    health_check,
    install_definitions,
    on_free_ports,
)
from kailab.undertest.retries import RetryTracker
from kailab.undertest.scheduler_plugins.messages import GANG, NAME, SCHEDULER_NAME

LOOK_AGAIN_SECONDS = 45.0
"""What Coscheduling has refused waits for another pod, or for the time after which kube-scheduler tries any pod anew: here every 30 s
(see ``process``), and up to 10 s of back-off."""

_LOOKS = 3  # one that was under way at the change, and two that saw all of it
# A pod that waits for the rest of its gang counts as one that is being bound.
_BUSY = re.compile(
    r'^scheduler_(?:pending_pods\{queue="(?:active|backoff)"\}|goroutines\{[^}]*"binding"[^}]*\}) (\S+)$', re.MULTILINE
)


class SchedulerPluginsIdleDetector:
    """``plane``: where it runs; ``cluster``: the same, as a client sees it. ``monotonic``: the clock of waiting."""

    def __init__(self, plane: Plane, cluster: Cluster, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._next_try = RetryTracker(cluster, LOOK_AGAIN_SECONDS, _is_of_a_gang, monotonic)
        self._idle = 0

    def changed(self) -> None:
        """Something has changed in the cluster."""
        self._idle = 0

    def is_idle(self) -> bool:
        """Raises SchedulerFailed with the last lines of the log, if it has ended."""
        own = next((one for one in self._plane.processes() if one.name == NAME), None)
        if own is None or not own.running:
            check_programs(self._plane, (NAME,))
            return True
        text, problem = fetch_url(f"https://{LOOPBACK}:{own.port}/metrics")
        busy = [float(count) for count in _BUSY.findall(text)]
        self._idle = self._idle + 1 if problem is None and busy and not any(busy) else 0
        # Both are asked each time: what moves is to be seen when it does.
        owed = self._next_try.owed()
        return self._idle >= _LOOKS and not owed


def _is_of_a_gang(pod: Object) -> bool:
    return GANG in labels_of(pod)


# --- the process ------------------------------------------------------------------------------------------------------

_OPEN = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics"
# Coscheduling does not ask to be told of pods that go (EventsToRegister): a gang that it has refused is tried again when another pod
# comes, or after this long. It is looked for every 30 s; the default is 5 min.
_TRY_AGAIN = "--pod-max-in-unschedulable-pods-duration=1s"


class SchedulerPluginsProcesses(AddonProcesses):
    name = NAME

    def prepare(self, cluster: Cluster) -> None:
        """Its PodGroup and ElasticQuota. Raises MissingComponents where it was not got."""
        install_definitions(cluster, self._addon.manifests.objects("config/crd/bases/*.yaml"), NAME)

    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when it answers that it is ready. Raises MissingComponents where it was not got."""
        self.prepare(cluster)
        config = Path(self._plane.folder) / "scheduler-plugins.yaml"
        write_text(config, yaml.safe_dump(configuration(self._plane.kubeconfig), sort_keys=False))
        on_free_ports(lambda: programs.run_programs(self._plane, [self._program(config)]))

    def _program(self, config: Path) -> Program:
        (port,) = free_ports(1)
        arguments = (
            f"--config={config}",
            f"--authentication-kubeconfig={self._plane.kubeconfig}",
            f"--authorization-kubeconfig={self._plane.kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            _OPEN,
            _TRY_AGAIN,
        )
        works = health_check(f"https://{LOOPBACK}:{port}/readyz")
        return Program(NAME, self._addon.programs[NAME], arguments, port, works)

    def rest(self, cluster: Cluster) -> IdleDetector:
        return SchedulerPluginsIdleDetector(self._plane, cluster)


def configuration(kubeconfig: Path) -> dict[str, Any]:
    """As the documents of both plugins have it, in one profile. Coscheduling's own PostFilter gives way: of those plugins the first
    that succeeds is the last that is asked, and without CapacityScheduling's nothing is taken back."""
    profile = {
        "schedulerName": SCHEDULER_NAME,
        "plugins": {
            "multiPoint": {"enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}]},
            "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
            "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
        },
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "profiles": [profile],
    }
