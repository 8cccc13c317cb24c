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
"""Pods that Coscheduling has rejected wait for another pod, or until kube-scheduler retries all pods: here every 30 s (see ``process``),
plus up to 10 s of back-off."""

_LOOKS = 3  # one reading from before the change, and two after it
# A pod that waits for the rest of its gang counts as being bound.
_BUSY = re.compile(
    r'^scheduler_(?:pending_pods\{queue="(?:active|backoff)"\}|goroutines\{[^}]*"binding"[^}]*\}) (\S+)$', re.MULTILINE
)


class SchedulerPluginsIdleDetector:
    """``plane``: that runs it; ``cluster``: a client of it. ``monotonic``: measures waiting."""

    def __init__(self, plane: Plane, cluster: Cluster, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._next_try = RetryTracker(cluster, LOOK_AGAIN_SECONDS, _is_of_a_gang, monotonic)
        self._idle = 0

    def changed(self) -> None:
        """Record that something in the cluster has changed."""
        self._idle = 0

    def is_idle(self) -> bool:
        """Raises SchedulerFailed with the last lines of the log if it has ended."""
        own = next((one for one in self._plane.processes() if one.name == NAME), None)
        if own is None or not own.running:
            check_programs(self._plane, (NAME,))
            return True
        text, problem = fetch_url(f"https://{LOOPBACK}:{own.port}/metrics")
        busy = [float(count) for count in _BUSY.findall(text)]
        self._idle = self._idle + 1 if problem is None and busy and not any(busy) else 0
        # Evaluate both each time, so that neither misses a change.
        owed = self._next_try.owed()
        return self._idle >= _LOOKS and not owed


def _is_of_a_gang(pod: Object) -> bool:
    return GANG in labels_of(pod)


# --- the process ------------------------------------------------------------------------------------------------------

_OPEN = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics"
# Coscheduling does not subscribe to deleted pods (EventsToRegister): a rejected gang is retried when another pod comes, or after this
# time, checked every 30 s; the default is 5 min.
_TRY_AGAIN = "--pod-max-in-unschedulable-pods-duration=1s"


class SchedulerPluginsProcesses(AddonProcesses):
    name = NAME

    def prepare(self, cluster: Cluster) -> None:
        """Apply its PodGroup and ElasticQuota CRDs. Raises MissingComponents if it is not installed."""
        install_definitions(cluster, self._addon.manifests.objects("config/crd/bases/*.yaml"), NAME)

    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when it is ready. Raises MissingComponents if it is not installed."""
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
    """One profile, as in the documents of both plugins. Coscheduling's PostFilter is disabled: the first PostFilter plugin that succeeds
    ends the search, and without CapacityScheduling's nothing is reclaimed."""
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
