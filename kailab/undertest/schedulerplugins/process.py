"""scheduler-plugins beside a control plane: one process, a kube-scheduler with two plugins more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tenacity
import yaml

from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.protocol import Cluster
from kailab.undertest import programs
from kailab.undertest.contract import Beside, Plane, Rest, Start, Tell
from kailab.undertest.crds import bring_in
from kailab.undertest.programs import PortTaken, Program, answers
from kailab.undertest.schedulerplugins.rest import SchedulerPluginsRest
from kailab.undertest.schedulerplugins.words import NAME, SCHEDULER_NAME

if TYPE_CHECKING:
    from kailab.components import Addon

_PORT_TRIES = 5
_OPEN = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics"


class SchedulerPluginsBeside(Beside):
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    @cached_property
    def _addon(self) -> Addon:
        from kailab.components import find_addon

        return find_addon(NAME)

    def prepare(self, cluster: Cluster) -> None:
        """Its PodGroup and ElasticQuota. Raises MissingComponents where it was not got."""
        bring_in(cluster, self._addon.manifests.objects("config/crd/bases/*.yaml"), NAME)

    def start(self, cluster: Cluster, start: Start, tell: Tell = lambda _: None) -> None:
        """Returns when it answers that it is ready. Raises MissingComponents where it was not got."""
        self.prepare(cluster)
        config = Path(self._plane.folder) / "scheduler-plugins.yaml"
        config.write_text(yaml.safe_dump(configuration(self._plane.kubeconfig), sort_keys=False), encoding="utf-8")
        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_PORT_TRIES),
            retry=tenacity.retry_if_exception_type(PortTaken),
            reraise=True,
        )
        # Made anew for each try, with another port.
        retry(lambda: programs.run(self._plane, [self._program(config)]))

    def _program(self, config: Path) -> Program:
        (port,) = free_ports(1)
        arguments = (
            f"--config={config}",
            f"--authentication-kubeconfig={self._plane.kubeconfig}",
            f"--authorization-kubeconfig={self._plane.kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            _OPEN,
        )
        works = answers(f"https://{LOOPBACK}:{port}/readyz")
        return Program(NAME, self._addon.programs[NAME], arguments, port, works)

    @property
    def names(self) -> Sequence[str]:
        return (NAME,)

    def check(self) -> None:
        programs.check(self._plane, self.names)

    def stop(self) -> None:
        programs.stop(self._plane, self.names)

    def version(self) -> str:
        return f"{NAME} {self._addon.version}"

    def rest(self, cluster: Cluster) -> Rest:
        return SchedulerPluginsRest(self._plane)


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
