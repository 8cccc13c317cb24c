"""scheduler-plugins beside a control plane: one process, a kube-scheduler with two plugins more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.protocol import Cluster
from kailab.model.private_files import write_text
from kailab.undertest import programs
from kailab.undertest.beside import AddonBeside, on_free_ports
from kailab.undertest.contract import Rest, Start, Tell
from kailab.undertest.crds import bring_in
from kailab.undertest.programs import Program, answers
from kailab.undertest.schedulerplugins.rest import SchedulerPluginsRest
from kailab.undertest.schedulerplugins.words import NAME, SCHEDULER_NAME

_OPEN = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics"
# Coscheduling does not ask to be told of pods that go (EventsToRegister): a gang that it has refused is tried again when another pod
# comes, or after this long. It is looked for every 30 s; the default is 5 min.
_TRY_AGAIN = "--pod-max-in-unschedulable-pods-duration=1s"


class SchedulerPluginsBeside(AddonBeside):
    name = NAME

    def prepare(self, cluster: Cluster) -> None:
        """Its PodGroup and ElasticQuota. Raises MissingComponents where it was not got."""
        bring_in(cluster, self._addon.manifests.objects("config/crd/bases/*.yaml"), NAME)

    def start(self, cluster: Cluster, start: Start, tell: Tell = lambda _: None) -> None:
        """Returns when it answers that it is ready. Raises MissingComponents where it was not got."""
        self.prepare(cluster)
        config = Path(self._plane.folder) / "scheduler-plugins.yaml"
        write_text(config, yaml.safe_dump(configuration(self._plane.kubeconfig), sort_keys=False))
        on_free_ports(lambda: programs.run(self._plane, [self._program(config)]))

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
        works = answers(f"https://{LOOPBACK}:{port}/readyz")
        return Program(NAME, self._addon.programs[NAME], arguments, port, works)

    def rest(self, cluster: Cluster) -> Rest:
        return SchedulerPluginsRest(self._plane, cluster)


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
